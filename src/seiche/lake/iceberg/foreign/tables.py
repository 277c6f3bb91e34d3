"""Iceberg tables that are not the lake's own: given a name, looked at, and seen by transactions.

What holds of them is told in `seiche.lake.federated.tables`; who says what is current, in `foreign.sources`; how a
change of a federated one is committed, in `foreign.edit`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, NotFound
from seiche.lake.commit.edits import TableEdit
from seiche.lake.iceberg.foreign.edit import ForeignEdit, made_by
from seiche.lake.iceberg.foreign.files import GuardedFileIO
from seiche.lake.iceberg.foreign.sources import FileSource, Found, Source, source_of
from seiche.lake.iceberg.handles import IcebergLakeTable
from seiche.lake.iceberg.metadata import Metadata, last_number
from seiche.lake.iceberg.table import IcebergTable
from seiche.lake.iceberg.work import IcebergWork, Step, snapshots_in
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.outside import Outside, plain_address
from seiche.lake.state import State
from seiche.lake.tree.root import millis
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.sight import Sight

__all__ = ["ForeignIcebergTable", "at_place", "register", "seen", "was_made"]

_PINNED = "version"


def register(
    tx: "Sight",
    name: str | Sequence[str],
    location: str,
    type: str,  # noqa: A002 - the word for it
    *,
    catalog: str | Mapping[str, str] | None = None,
    version: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> TableRow:
    """Give an Iceberg table that lies elsewhere a name in the lake; see `tx.register_table`."""
    full = parts(name, what="table")
    tx.check_free(full)
    said: dict[str, str] = {}
    if catalog is not None:
        from seiche.lake.iceberg.foreign.catalog import described

        said = described(catalog, location)
    source = source_of(tx.state.store, tx.state.outside, location, said, tx.runtime)
    if type == "federated" and isinstance(source, FileSource):
        raise InvalidInput(
            f"{location} is one metadata file: a federated table is always at its newest",
            remedy="Name the catalog that decides about the table, or its folder if its metadata files are numbered.",
        )
    found = source.current()
    _check_outside(tx.state.store, found.metadata.location)
    if version is not None:
        said[_PINNED] = str(version)
        _at_snapshot(found.metadata, version, location)
    row = TableRow(
        id=str(tx.runtime.uuid()),
        type="federated" if type == "federated" else "external",
        format="iceberg",
        location=location if catalog is None else found.metadata.location,
        table_version=last_number(found.metadata),
        source=said,
        properties=dict(properties or {}),
        created_at_millis=millis(tx.runtime.clock.now()),
    )
    tx.enter(full, row)
    return row


def seen(tx: "Sight", edit: TableEdit) -> ForeignEdit:
    """The edit of a foreign table, with what the transaction sees of it: that which it found when it first looked."""
    if isinstance(edit, ForeignEdit):
        return edit
    source, found = _found(tx.state.store, tx.state.outside, edit.row, edit.name, tx.runtime)
    work = IcebergWork(found.metadata, found.metadata)
    looked = ForeignEdit(**edit.shared, iceberg=work, source=source, seen=found)
    tx.put_edit(looked)
    return looked


def at_place(state: State, row: TableRow, name: Name) -> IcebergTable:
    """The table as it is now; what version of the lake is asked makes no difference but for its name."""
    _, found = _found(state.store, state.outside, row, text(name), SYSTEM)
    return IcebergTable(name, row, found.metadata, found.metadata_location, state, found.io)


def was_made(tx: "Sight", edit: ForeignEdit, step: Step) -> bool:
    """Whether an earlier run of this very transaction has made the step there, and it is only told again."""
    metadata = None if edit.seen is None else edit.seen.metadata
    snapshots = [one.snapshot_id for one in snapshots_in([step])]
    if (
        metadata is None
        or not snapshots
        or made_by(metadata, str(Runtime.derived_uuid(UUID(tx.id), edit.row.id))) is None
    ):
        return False
    return all(metadata.snapshot_by_id(one) is not None for one in snapshots)


class ForeignIcebergTable(IcebergLakeTable):
    """An Iceberg table that is not the lake's own. Every verb of a federated one is a transaction of its own."""

    _kind = ("iceberg", False)

    @property
    def version(self) -> int:
        """The table's own sequence number now; 0 in format version 1, which has none."""
        return last_number(self.metadata)

    @property
    def uri(self) -> str:
        """Where it is."""
        return self.metadata.location

    def version_made_by(self, transaction_id: str) -> int | None:
        """The snapshot that a transaction of the lake has made, whether or not the lake decided for it: 0 if it only
        changed the metadata, `None` if it has made none that is kept.
        """
        row, states = self._known(), self._lake.states
        _, found = _found(states.store, states.outside, row, self.name, states.runtime)
        return made_by(found.metadata, str(Runtime.derived_uuid(UUID(transaction_id), row.id)))


def _found(lake: Store, outside: Outside, row: TableRow, name: str, runtime: Runtime) -> tuple[Source, Found]:
    source = source_of(lake, outside, row.location, row.source, runtime)
    found = source.current()
    pinned = row.source.get(_PINNED)
    metadata = found.metadata if pinned is None else _at_snapshot(found.metadata, int(pinned), name)
    io = GuardedFileIO(found.io, name, read_only=row.type == "external")
    return source, replace(found, metadata=metadata, io=io)


def _at_snapshot(metadata: Metadata, snapshot_id: int, name: str) -> Metadata:
    """The metadata as if a snapshot were the current one."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise NotFound(f"{name} has no snapshot {snapshot_id} any more", snapshot=snapshot_id)
    ref = SnapshotRef.model_validate({"snapshot-id": snapshot_id, "type": "branch"})
    changed: dict[str, Any] = {"current_snapshot_id": snapshot_id, "refs": {**metadata.refs, MAIN_BRANCH: ref}}
    if snapshot.schema_id is not None:
        changed["current_schema_id"] = snapshot.schema_id
    found: Metadata = metadata.model_copy(update=changed)
    return found


def _check_outside(lake: Store, location: str) -> None:
    """The lake's clean-up knows nothing of registered tables: one of its own must not become one."""
    home, place = (plain_address(one).rstrip("/") + "/" for one in (lake.native_uri(), location))
    if place.startswith(home):
        raise InvalidInput(
            f"{location} lies inside of the lake",
            remedy="Use the table that the lake has there; `register_iceberg` takes one back that was dropped.",
            location=location,
        )
