"""What has come into a table since a run last looked: found from its versions, read by Spark's workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap

from seiche.errors import InvalidInput, NotFound
from seiche.lake.versions import LakeVersions
from seiche.spark.changes import ChangeScan, History, read_changes
from seiche.spark.jobs import frame_of
from seiche.spark.types import shown_schema, spark_schema
from seiche.table.operations import Operation, Overwrite, Restore, Rewrite
from seiche.table.row_changes import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seiche.lake.handles import TransactionTable
    from seiche.spark.transaction import SparkTransaction

__all__ = ["arrived"]


@dataclass(frozen=True, slots=True)
class _Arrivals:
    """A task that reads rows. Can be pickled."""

    scan: ChangeScan

    def read(self, _number: int) -> Iterator[pa.RecordBatch]:
        return read_changes(self.scan)


def arrived(tx: "SparkTransaction", handle: "TransactionTable", seen: int) -> "DataFrame":
    """The rows that were inserted or updated after version `seen` of the table, as they are now; 0 is before it began.

    A row that was changed several times comes once, one that is gone again does not come. Only where rows were put
    elsewhere by a compaction after they came, they come as they were then.
    """
    row = tx.edit(handle.id).row
    fields = spark_schema(pa.schema([field.with_nullable(True) for field in handle.schema]))
    columns = shown_schema(fields)
    versions = LakeVersions(tx.state.store, row, tx.state.manifests)
    history, newest = History(versions), row.table_version
    if seen > newest:
        raise InvalidInput(
            f"{handle.name} is at version {newest}, and was read up to version {seen} before",
            remedy="It was taken back. `--full-refresh` reads everything again.",
            table=handle.name,
        )
    if not seen:
        found = history.everything(newest, columns)
    else:
        try:
            found = list(_scans(versions, history, seen, newest, columns))
        except NotFound as error:
            raise NotFound(
                f"what happened to {handle.name} after its version {seen} is not known any more: {error.message}",
                remedy="Its history was cleaned up. `--full-refresh` reads everything again.",
                table=handle.name,
            ) from error
    return frame_of(tx.session, [_Arrivals(one) for one in found], fields)


def _scans(
    versions: LakeVersions, history: History, seen: int, newest: int, columns: pa.Schema
) -> Iterator[ChangeScan]:
    # Where rows are that came, by fragment; what a compaction moved, with the version that still has it there.
    came: dict[int, BitMap] = {}
    moved: list[tuple[int, Rows]] = []
    for version, operation in _way(versions, seen, newest):
        if isinstance(operation, Rewrite):
            rewritten = [old.id for group in operation.groups for old in group.old_fragments]
            gone = {one: came.pop(one) for one in rewritten if one in came}
            moved += [(version - 1, Rows(gone))] if gone else []
            continue
        changes = history.changes(version, since=seen if isinstance(operation, Restore) else None)
        for rows in (changes.inserted, changes.updated):
            for fragment, offsets in rows.offsets.items():
                came[fragment] = came[fragment] | offsets if fragment in came else offsets
    for version, rows in moved:
        yield from history.scans(version, "insert", rows, columns)
    live = history.live(newest)
    still = {fragment: offsets & live[fragment] for fragment, offsets in came.items() if fragment in live}
    yield from history.scans(newest, "insert", Rows({one: rows for one, rows in still.items() if rows}), columns)


def _way(versions: LakeVersions, seen: int, newest: int) -> list[tuple[int, Operation]]:
    """The versions that lead from the one that was seen to the newest, oldest first, and what each did.

    A Restore leads on from the version that it went back to, and what it undid is not on the way: taken as a change, it
    would bring back rows that were read before they were deleted, updated or moved. One that went back behind what was
    seen is the first on the way, and so is an Overwrite.
    """
    found: list[tuple[int, Operation]] = []
    version = newest
    while version > seen:
        operation = versions.transaction(version).operation
        if isinstance(operation, Restore) and operation.version >= seen:
            version = operation.version
            continue
        found.append((version, operation))
        if isinstance(operation, Restore | Overwrite):
            break
        version -= 1
    return found[::-1]
