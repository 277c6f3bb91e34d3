"""What one transaction does to one Iceberg table: commits as an engine makes them, and what they have made so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.made import Made
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.objects.rows import TableRow

__all__ = ["IcebergWork", "Step", "changes_content"]


@dataclass(frozen=True, slots=True)
class Step:
    """One commit of an engine: PyIceberg's models of what it requires and of what it changes.

    `exclusive` says that it was worked out from the table's rows: it holds only if nobody else changed them meanwhile,
    even if all that it does is to add some.
    """

    requirements: tuple[Any, ...]
    updates: tuple[Any, ...]
    exclusive: bool = False


@dataclass(slots=True)
class Progress:
    """What a commit has found out about the table; on an unchanged row it is still right, files and all."""

    row: TableRow | None = None
    made: Made | None = None


@dataclass(frozen=True, slots=True)
class IcebergWork:
    """The steps so far. `found` is the table's metadata as the transaction found it, `None` if it makes the table;
    `running` is what the next step sees.
    """

    found: Metadata | None
    running: Metadata
    steps: tuple[Step, ...] = ()
    # The address of the metadata that the table begins with, if it comes from outside of the lake.
    origin: str = ""
    progress: Progress = field(default_factory=Progress, repr=False, compare=False)

    @property
    def changes_nothing(self) -> bool:
        """Whether the table is as it was found, whatever was asked of it."""
        return self.running is self.found and not self.origin

    def with_step(self, step: Step, running: Metadata) -> "IcebergWork":
        """One step more; `running` is the table after it."""
        return replace(self, running=running, steps=(*self.steps, step), progress=Progress())


def changes_content(before: Metadata | None, after: Metadata) -> bool:
    """Whether a reader finds other rows or columns, on the main branch or on any other.

    A rewrite of files leaves the rows as they were; so do statistics, properties and the expiry of old snapshots.
    """
    if before is None:
        return True
    # Most changes leave the very same list: schemas are compared column by column.
    if before.current_schema_id != after.current_schema_id:
        return True
    if before.schemas is not after.schemas and before.schema() != after.schema():
        return True
    return _heads(before) != _heads(after)


def _heads(metadata: Metadata) -> dict[str, int]:
    by_id = {one.snapshot_id: one for one in metadata.snapshots}
    return {name: _content_of(by_id, ref.snapshot_id) for name, ref in metadata.refs.items()}


def _content_of(by_id: Mapping[int, Any], snapshot_id: int) -> int:
    """The snapshot that has brought the rows of this one: behind those that only rewrote files."""
    while (one := by_id.get(snapshot_id)) is not None and one.parent_snapshot_id in by_id:
        if one.summary is None or one.summary.operation.value != "replace":
            break
        snapshot_id = one.parent_snapshot_id
    return snapshot_id


def heads(metadata: Metadata | None) -> dict[str, int]:
    """The snapshot that each branch and tag stands for."""
    return {} if metadata is None else {name: ref.snapshot_id for name, ref in metadata.refs.items()}


def is_iceberg(edit: TableEdit) -> bool:
    """Whether the table is an Iceberg table of the lake's own."""
    return edit.row.is_own("iceberg")


def snapshots_in(steps: Sequence[Step]) -> list[Any]:
    """The snapshots that the steps add, in order."""
    return [update.snapshot for step in steps for update in step.updates if hasattr(update, "snapshot")]
