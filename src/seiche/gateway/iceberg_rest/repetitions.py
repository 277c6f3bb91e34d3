"""What a request that was applied has left in its tables: whether it can be meant again, and what shows it.

Tables are found by their ids: they may have other names by now.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertTableUUID,
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotsUpdate,
    SetPartitionStatisticsUpdate,
)

from seiche.errors import CommitUnknown, NotFound, SeicheError
from seiche.gateway.iceberg_rest.requests import TableChange
from seiche.lake.iceberg.edit import IcebergEdit
from seiche.lake.iceberg.metadata import Metadata, last_number, load
from seiche.lake.iceberg.updates import apply
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["is_there", "showing", "was_said", "was_there_before"]


def is_there(changes: Sequence[TableChange], then: State, now: State) -> bool:
    """Whether what a request wrote in the version `then` is still there, so that it cannot be meant again.

    One that brings snapshots is not applied again as long as one of them is there, or its table is not: it could only
    fail, and the client would delete files that count, now or in versions of the past.
    """
    bringing = [one for one in changes if one.snapshots]
    if bringing:
        return any(_has_snapshots(one, then, now) for one in bringing)
    return all(_carries(one, then, now) for one in changes)


def was_there_before(changes: Sequence[TableChange], now: State) -> bool:
    """The same of a request that the lake does not remember any more: by the very snapshots that it brings.

    `CommitUnknown` if one table has them and another never had those for it, or is not as the request wants it: it has
    them by another request, and the files of that one count, whatever is said of this one.
    """
    there = [one for one in changes if one.snapshots and _has_the_very_snapshots(one, now)]
    if not there:
        return False
    for one in changes:
        if one not in there and (_never_had_them(one, now) if one.snapshots else not _holds(one, now)):
            raise CommitUnknown(
                f"{text(there[0].name)} has the snapshots of this request, maybe by another one, and"
                f" {text(one.name)} does not have what is for it: nothing was written now",
            )
    return True


def was_said(change: TableChange, transaction: "Transaction") -> bool:
    """Whether a transaction has the request in it already: as the last that it did to the table or, if it brings
    snapshots, at all. Who asks for it again has lost the answer: told of a conflict with its own work, a client would
    delete files that are committed later.
    """
    try:
        edit = transaction.named(change.name)
    except NotFound:
        return False
    steps = edit.iceberg.steps if isinstance(edit, IcebergEdit) and edit.iceberg is not None else ()
    asked = (change.requirements, change.updates)
    return any((one.requirements, one.updates) == asked for one in (steps if change.snapshots else steps[-1:]))


def _has_snapshots(change: TableChange, then: State, now: State) -> bool:
    before = then.relation(change.name)
    row = None if before is None else now.table_by_id(before.id)
    return row is None or not change.snapshots.isdisjoint(one.snapshot_id for one in load(now, row).snapshots)


def _has_the_very_snapshots(change: TableChange, now: State) -> bool:
    row = now.relation(change.name)
    if not isinstance(row, TableRow) or not row.is_own("iceberg"):
        return False
    there = (one for one in load(now, row).snapshots if one.snapshot_id in change.snapshots)
    lists = {one.snapshot_id: one.manifest_list for one in there}
    brought = [one.snapshot for one in change.updates if isinstance(one, AddSnapshotUpdate)]
    return any(lists.get(one.snapshot_id) == one.manifest_list for one in brought)


def _never_had_them(change: TableChange, now: State) -> bool:
    """Whether the table is certain not to have had the snapshots of a request: numbers of snapshots never go back."""
    row = now.relation(change.name)
    if not isinstance(row, TableRow) or not row.is_own("iceberg"):
        return False
    metadata = load(now, row)
    meant = any(isinstance(one, AssertTableUUID) and one.uuid == metadata.table_uuid for one in change.requirements)
    brought = [one.snapshot.sequence_number or 0 for one in change.updates if isinstance(one, AddSnapshotUpdate)]
    return meant and last_number(metadata) < min(brought)


def _holds(change: TableChange, now: State) -> bool:
    """Whether a table is as a request without snapshots wants it, so that it does not matter who made it so."""
    row = now.relation(change.name)
    if not isinstance(row, TableRow) or not row.is_own("iceberg"):
        return False
    metadata = load(now, row)
    try:
        return apply(metadata, change.updates, now_millis=metadata.last_updated_ms) is metadata
    except SeicheError:
        return False


def _carries(change: TableChange, then: State, now: State) -> bool:
    before = then.relation(change.name)
    row = None if before is None else now.table_by_id(before.id)
    if not isinstance(before, TableRow) or row is None:
        return False
    if row.iceberg == before.iceberg:
        return True
    metadata = load(now, row)
    if any(_is_undone(one, metadata) for one in change.updates):
        return False
    # The server itself may have expired snapshots or made statistics since: neither is what a client writes.
    return _written(load(then, before)) == _written(metadata)


def _is_undone(update: Any, metadata: Metadata) -> bool:
    """Whether what was removed is there again, as after a rollback of the lake, or statistics that were set are not."""
    there = {one.snapshot_id for one in metadata.snapshots}
    counted = {one.snapshot_id: one.statistics_path for one in metadata.partition_statistics}
    if isinstance(update, RemoveSnapshotsUpdate):
        return not there.isdisjoint(update.snapshot_ids)
    if isinstance(update, RemovePartitionStatisticsUpdate):
        return update.snapshot_id in counted
    if isinstance(update, SetPartitionStatisticsUpdate):
        made = update.partition_statistics
        return made.snapshot_id in there and counted.get(made.snapshot_id) != made.statistics_path
    return False


def showing(names: Iterable[Name], then: State | None, now: State) -> State:
    """The newest version; or, if a name means another table or view by now, or none, the one that applied the request,
    as long as the lake has it.
    """

    def same(name: Name) -> bool:
        before, after = (None if at is None else at.relation(name) for at in (then, now))
        return before is None or (after is not None and after.id == before.id)

    return now if then is None or all(map(same, names)) else then


def _written(metadata: Metadata) -> tuple[Any, ...]:
    """Everything in metadata that a request without snapshots can have been about."""
    return (
        metadata.format_version,
        metadata.current_schema_id,
        metadata.schemas,
        metadata.default_spec_id,
        metadata.partition_specs,
        metadata.default_sort_order_id,
        metadata.sort_orders,
        metadata.properties,
        metadata.refs,
        metadata.statistics,
    )
