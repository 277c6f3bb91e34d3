"""Delete, update and merge of Iceberg tables by Spark: whole files written anew, by the worker that has their rows.

Spark finds the rows and says what they become, as for Lance tables (`changing`, `merging`). The worker that gets the
edits of a file reads the file itself and writes it anew with them; files without any stay as they are. All of it is one
snapshot that takes the place of the one that was read, so whoever changed the table meanwhile is a conflict.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from seiche.lake.iceberg.handles import IcebergTransactionTable
from seiche.spark.dml.changing import Rows, Statement
from seiche.spark.dml.edits import ACTION, Action, by_kind
from seiche.spark.dml.part import Part, joined
from seiche.spark.iceberg import IcebergScan, IcebergTarget, iceberg_scans
from seiche.spark.jobs import Batches, collected, executor, frame_of
from seiche.spark.scanning import GROUP
from seiche.table.change import Result
from seiche.table.data.scanning import ADDRESS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from seiche.lake.transaction import Transaction

__all__ = ["IcebergGround"]

_ROW_BITS = 32
_ROW_MASK = (1 << _ROW_BITS) - 1


class IcebergGround:
    """An Iceberg table as a transaction sees it, whose rows Spark finds and workers edit."""

    def __init__(self, handle: IcebergTransactionTable, transaction: "Transaction") -> None:
        transaction.check_running()
        handle.check_writable()
        self._handle = handle
        self._transaction = transaction
        self._scans: tuple[IcebergScan, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return self._handle.schema

    def rows(
        self, session: "SparkSession", columns: Sequence[str], parts: int | None, exact: Sequence[str] = ()
    ) -> Rows:
        # Nothing is to be looked at in `exact`: an Iceberg table here has no times that are finer than Spark's.
        tasks, schema = iceberg_scans(self._handle, self._transaction, columns=columns, parts=parts, addresses=True)
        self._scans = tuple(tasks)
        return Rows(frame_of(session, tasks, schema, sum(one.size for one in tasks)), tasks)

    def edit(self, statement: Statement, edits: "DataFrame") -> Result:
        """One snapshot with what the workers have written, without the files that they wrote anew."""
        target = IcebergTarget.of(self._handle, self._transaction)
        key = tuple((0, name) for name in statement.on)
        parts = collected(edits, partial(_edit_files, FileEditing(target, self._scans, statement.actions, key)))
        counts = [sum(numbers) for numbers in zip(*(part.counts for part in parts), strict=True)]
        if not counts:
            return Result(statement.verb, self._transaction.edit(self._handle.id).row.table_version, changed=False)
        before = [one for scan in self._scans for one in scan.tasks]
        removed = [before[number].file for part in parts for number in part.rewritten]
        written = [one for part in parts for one in pickle.loads(part.files)]  # noqa: S301 - our own workers made it
        done = self._handle._changed(statement.verb, sum(counts), partial(_swap, removed, written))
        notes: dict[str, object] = {"executors": len({part.executor for part in parts}), **done.notes}
        if statement.verb == "merge":
            notes |= by_kind(statement.actions, counts)
        size = sum(one.file_size_in_bytes for one in written)
        return Result(statement.verb, done.version, rows=done.rows, files=done.files, bytes=size, notes=notes)


@dataclass(frozen=True, slots=True)
class FileEditing:
    """The work of all tasks together, as a value. The task that has edits of group *n* finds its files there."""

    target: IcebergTarget
    scans: tuple[IcebergScan, ...]
    actions: tuple[Action, ...]
    key: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FilesEdited:
    """What one task did: the numbers of the files whose rows are elsewhere now, and PyIceberg's new files, pickled."""

    rewritten: tuple[int, ...]
    files: bytes
    counts: tuple[int, ...]
    executor: str


def _edit_files(editing: FileEditing, batches: Batches) -> Iterator[FilesEdited]:
    part = _FilePart(editing, joined(batches))
    files = editing.target.write(part.new_rows())
    if any(part.counts):
        yield FilesEdited(part.rewritten, files, tuple(part.counts), executor())


class _FilePart(Part):
    """The edits of one partition of an Iceberg table. They are held until all of a file are there."""

    def __init__(self, editing: FileEditing, batches: Batches) -> None:
        super().__init__(editing, batches)
        self._scans = editing.scans
        # By file: the task that read it, and the edits of its rows.
        self._edits: dict[int, tuple[int, list[pa.RecordBatch]]] = {}

    @property
    def rewritten(self) -> tuple[int, ...]:
        return tuple(self._edits)

    def new_rows(self) -> Iterator[pa.RecordBatch]:
        """New rows, then those of the files that edits are for, as they are after them."""
        yield from super().new_rows()
        for number, (group, edits) in self._edits.items():
            scan = self._scans[group]
            yield from self._edited(scan, scan.tasks[number - (scan.first or 0)], pa.Table.from_batches(edits))

    def _changed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        addresses = batch.column(ADDRESS).to_numpy()
        self._refuse_twins(addresses.astype(np.uint64))
        files = addresses >> _ROW_BITS
        for number in np.unique(files).tolist():
            here = batch.filter(pa.array(files == number))
            self._edits.setdefault(number, (here.column(GROUP)[0].as_py(), []))[1].append(here)
        yield from ()

    def _edited(self, scan: IcebergScan, task: Any, edits: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows of one file, with the edits in place."""
        schema = self._editing.target.schema
        places = edits[ADDRESS].to_numpy() & _ROW_MASK
        actions = edits[ACTION].to_numpy()
        changed = []
        gone = np.zeros(len(places), bool)
        for number, action in enumerate(self._editing.actions):
            chosen = np.flatnonzero(actions == number)
            self.counts[number] += len(chosen)
            if action.columns is None:
                gone[chosen] = True
            elif len(chosen):
                rows = edits.take(pa.array(chosen)).combine_chunks().to_batches()[0]
                changed.append((places[chosen], self._values(rows, action.columns)))
        start = 0
        for batch in scan.rows_of(task, schema.names):
            yield _with_edits(_as(batch, schema), start, changed, places[gone])
            start += batch.num_rows


def _with_edits(
    batch: pa.RecordBatch,
    start: int,
    changed: "Iterable[tuple[NDArray[np.int64], pa.RecordBatch]]",
    gone: "NDArray[np.int64]",
) -> pa.RecordBatch:
    """Rows of a file from number `start` on, with new values for some, and without those that are gone."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for places, values in changed:
        here = np.flatnonzero((places >= start) & (places < start + batch.num_rows))
        order = np.arange(batch.num_rows)
        order[places[here] - start] = batch.num_rows + here
        for name in values.schema.names:
            both = pa.chunked_array([columns[name], values.column(name)])
            columns[name] = pa.concat_arrays(both.take(pa.array(order)).chunks)
    kept = np.ones(batch.num_rows, bool)
    kept[gone[(gone >= start) & (gone < start + batch.num_rows)] - start] = False
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=batch.schema).filter(pa.array(kept))


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as PyIceberg reads them, under the types in which it takes them."""
    return pa.RecordBatch.from_arrays([batch.column(one.name).cast(one.type) for one in schema], schema=schema)


def _swap(removed: Sequence[Any], written: Sequence[Any], table: Any) -> None:
    """One snapshot that has other files. Never taken for an append, which could be put behind what others did."""
    from pyiceberg.table.snapshots import Operation

    with table.transaction() as change, change.update_snapshot().overwrite() as swap:
        swap._operation = Operation.OVERWRITE
        for one in removed:
            swap.delete_data_file(one)
        for one in written:
            swap.append_data_file(one)
