"""An edit of an Iceberg table that somebody else commits to, among those of the lake's own tables.

As with Lance tables (`seiche.lake.federated.edit`): its own commit comes first, when everything else of the transaction
has been checked, and the lake's root right after. Each snapshot that it adds says in its summary which transaction made
it; a change without a snapshot says it in the table's properties. Whoever tries again finds that, and does not do it
twice. Everything that the steps were built on is required of the source again, so that a commit whose answer was lost
and that is sent once more can be made once only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
)

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, RetryableConflict, Unavailable
from seiche.lake.commit.edits import AGAIN
from seiche.lake.commit.made import Made
from seiche.lake.federated.edit import Done
from seiche.lake.iceberg.appends import Appends
from seiche.lake.iceberg.edit import IcebergEdit
from seiche.lake.iceberg.foreign.sources import Found, InDoubt, Outpaced, Source
from seiche.lake.iceberg.metadata import Metadata, last_number
from seiche.lake.iceberg.rebase import Rebase
from seiche.lake.iceberg.work import IcebergWork, Step, changes_content, heads
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.tree.root import millis

__all__ = ["MARK", "ForeignAppends", "ForeignEdit", "made_by"]

# Where a snapshot, or the table itself, says which transaction of a lake has made it.
MARK: Final = "seiche.transaction"
_COMMITTING = Patience(attempts=30, timeout=30.0)


@dataclass(slots=True)
class ForeignAppends(Appends):
    """Moves appends of a table that is not the lake's own: what that takes is written where the table is, at once."""

    io: FileIO | None = None

    def _io(self) -> FileIO:
        assert self.io is not None  # noqa: S101 - for the type
        return self.io

    def keep(self, where: str, data: bytes) -> None:
        with self._io().new_output(where).create(overwrite=True) as stream:
            stream.write(data)


@dataclass(frozen=True, slots=True)
class ForeignEdit(IcebergEdit):
    """What a transaction has seen of a foreign table, and does to it. Planning it commits there: it is planned last."""

    source: Source | None = field(default=None, compare=False)
    seen: Found | None = field(default=None, compare=False)
    done: Done = field(default_factory=Done, compare=False)

    @property
    def is_planned_last(self) -> bool:
        return True

    def _made(self, state: State, now: TableRow, uuid: str, runtime: Runtime, *, durable: bool) -> Made:
        """The row, after the change was made there, now or at an earlier attempt."""
        if self.iceberg is None or not self.worked:
            return Made(now)
        if not self.done.what:
            self._commit(self.iceberg, state, uuid, runtime)
        content = changes_content(self.iceberg.found, self.iceberg.running)
        number = max(now.table_version, self.done.version)
        return Made(replace(now, table_version=number, logical_version=now.logical_version + content))

    def _commit(self, work: IcebergWork, state: State, uuid: str, runtime: Runtime) -> None:
        """Make the change there, or find that it was made; tells `done`."""
        assert self.source is not None  # noqa: S101 - made together with the work
        steps, doubt = _marked(work.steps, uuid), ""
        for _ in _COMMITTING.tries(runtime):
            try:
                found = self.source.current()
            except Unavailable as error:
                if not doubt:
                    raise
                doubt = error.message
                continue
            if _tell(self.done, found.metadata, uuid):
                return
            applied = self._rebased(work, steps, found, state, runtime)
            updates = [update for step in applied for update in step.updates]
            try:
                after = self.source.commit(found, _required(found.metadata, updates), updates, runtime)
            except Outpaced:
                continue
            except InDoubt as error:
                doubt = str(error)
                continue
            _tell(self.done, after, uuid)
            return
        if doubt:
            raise CommitUnknown(
                f"{self.name}: it is not known whether the change was made where the table is kept: {doubt}",
                remedy="Run it again with the same `key=`: what is done there is not done twice.",
                table=self.name,
            )
        raise RetryableConflict(f"{self.name}: other writers were faster each time.", remedy=AGAIN, table=self.name)

    def _rebased(
        self, work: IcebergWork, steps: Sequence[Step], found: Found, state: State, runtime: Runtime
    ) -> Sequence[Step]:
        """The steps on top of what is there now; `RetryableConflict` if there is no room for them."""
        if self.seen is not None and found.metadata_location == self.seen.metadata_location:
            return steps
        appends = ForeignAppends(state.store, runtime, io=found.io)
        rebase = Rebase(self.name, work.found, found.metadata, appends, millis(runtime.clock.now()))
        rebase.run(steps)
        return rebase.applied


def made_by(metadata: Metadata, uuid: str) -> int | None:
    """The snapshot that a transaction has made, 0 for a change without one; `None` if it has made nothing."""
    for snapshot in reversed(metadata.snapshots):
        if snapshot.summary is not None and snapshot.summary[MARK] == uuid:
            return int(snapshot.snapshot_id)
    return 0 if metadata.properties.get(MARK) == uuid else None


def _tell(done: Done, metadata: Metadata, uuid: str) -> bool:
    snapshot = made_by(metadata, uuid)
    if snapshot is None:
        return False
    done.version = last_number(metadata)
    done.what = f"snapshot {snapshot}" if snapshot else "a change of the metadata"
    return True


def _marked(steps: Sequence[Step], uuid: str) -> list[Step]:
    """The steps, with the transaction's mark on every snapshot, or among the properties if there is none."""
    marked = [replace(step, updates=tuple(_with_mark(one, uuid) for one in step.updates)) for step in steps]
    if not any(isinstance(one, AddSnapshotUpdate) for step in steps for one in step.updates):
        last = marked[-1]
        marked[-1] = replace(last, updates=(*last.updates, SetPropertiesUpdate(updates={MARK: uuid})))
    return marked


def _with_mark(update: Any, uuid: str) -> Any:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.summary is None:
        return update
    summary = update.snapshot.summary
    told = Summary(summary.operation, **{**summary.additional_properties, MARK: uuid})
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"summary": told}))


def _required(metadata: Metadata, updates: Sequence[Any]) -> list[Any]:
    """That the table still is what the updates were worked out on."""
    named = {one.ref_name for one in updates if hasattr(one, "ref_name")}
    standing = heads(metadata)
    counted: list[tuple[Any, str, Any]] = [
        (AssertCurrentSchemaId, "current-schema-id", metadata.current_schema_id),
        (AssertLastAssignedFieldId, "last-assigned-field-id", metadata.last_column_id),
        (AssertDefaultSpecId, "default-spec-id", metadata.default_spec_id),
        (AssertLastAssignedPartitionId, "last-assigned-partition-id", metadata.last_partition_id),
        (AssertDefaultSortOrderId, "default-sort-order-id", metadata.default_sort_order_id),
    ]
    return [
        AssertTableUUID(uuid=metadata.table_uuid),
        *(
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": standing.get(name)})
            for name in sorted({MAIN_BRANCH, *named})
        ),
        *(kind.model_validate({name: value}) for kind, name, value in counted),
    ]
