"""The edits that one worker has, while it applies them: what is the same for tables of every format."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from seiche.errors import InvalidInput
from seiche.spark.dml.edits import ACTION, Edits, value_of
from seiche.spark.jobs import Batches
from seiche.spark.types import conform_shown
from seiche.table.data.conform import check_nulls
from seiche.table.data.merge.key_hashes import MOST_EXACT, key_bytes, siphash
from seiche.table.data.merge.matching import key_values, shown_key
from seiche.table.data.scanning import ADDRESS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CHUNK", "Part", "joined"]

# Edits that are looked at together. Each time, rows are looked up by address, which has a price of its own.
CHUNK = 1 << 16


class Part:
    """The edits of one partition: by ascending address; those without one, inserts, first."""

    def __init__(self, editing: Edits, batches: Batches) -> None:
        self._editing = editing
        self._batches = batches
        self._store = editing.target.address.open()
        self._last: int | None = None
        self._last_key: list[pa.Array] | None = None
        self.counts = [0] * len(editing.actions)
        self.keys: list[int] | None = []

    def new_rows(self) -> Iterator[pa.RecordBatch]:
        """The rows to be written: those that are inserted or changed. What else is found is noted on the way."""
        for batch in self._batches:
            address = batch.column(ADDRESS)
            inserts = address.null_count
            if inserts:
                yield from self._inserted(batch.slice(0, inserts))
            if inserts < batch.num_rows:
                yield from self._changed(batch.slice(inserts))

    def _changed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that become of edits of rows that are there."""
        raise NotImplementedError

    def _inserted(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """New rows; columns that no action gives a value are null."""
        schema = self._editing.target.schema
        actions = batch.column(ACTION).to_numpy()
        self._note_keys(batch, actions)
        for number, action in enumerate(self._editing.actions):
            chosen = np.flatnonzero(actions == number)
            if action.insert and action.columns is not None and len(chosen):
                self.counts[number] += len(chosen)
                rows = self._values(batch.take(pa.array(chosen)), action.columns)
                columns = []
                for one in schema:
                    given = one.name in rows.schema.names
                    columns.append(rows.column(one.name) if given else pa.nulls(rows.num_rows, one.type))
                    check_nulls(columns[-1], one)
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _values(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The new values of some columns, under the table's types."""
        given = pa.RecordBatch.from_arrays([batch.column(value_of(name)) for name in columns], names=list(columns))
        return conform_shown(given.schema, self._editing.target.schema, whole_rows=False).batch(given)

    def _note_keys(self, batch: pa.RecordBatch, actions: "NDArray[np.int32]") -> None:
        """Keys come sorted, so that equal ones are neighbours, whichever of the actions they are inserted by."""
        names = [name for _, name in self._editing.key]
        if not names:
            return
        every = enumerate(self._editing.actions)
        known = np.isin(actions, [number for number, action in every if set(names) <= set(action.columns or ())])
        if not known.all():
            self.keys = None
        if not known.any():
            return
        rows = self._values(batch.filter(pa.array(known)), names)
        columns = [key_values(rows.column(name), name) for name in names]
        self._refuse_equal_keys(columns)
        if self.keys is not None:
            self.keys.extend(siphash(key_bytes(columns)).tolist())
            if len(self.keys) > MOST_EXACT:
                self.keys = None

    def _refuse_equal_keys(self, columns: Sequence[pa.Array]) -> None:
        """A key that is partly null is equal to none, and what is not a number to itself, as to Spark."""
        if self._last_key is not None:
            columns = [pa.concat_arrays(pair) for pair in zip(self._last_key, columns, strict=True)]
        self._last_key = [column.slice(len(column) - 1) for column in columns]
        equal = [pc.fill_null(_equal(column.slice(1), column.slice(0, len(column) - 1)), False) for column in columns]
        twins = np.flatnonzero(np.logical_and.reduce([one.to_numpy(zero_copy_only=False) for one in equal]))
        if len(twins):
            shown = shown_key(columns, [name for _, name in self._editing.key], int(twins[0]))
            raise InvalidInput(
                f"two rows of the data have the key {shown}, and both would be inserted",
                remedy="Give each key once, for example the last row of each.",
            )

    def _refuse_twins(self, addresses: "NDArray[np.uint64]") -> None:
        twins = np.flatnonzero(addresses[1:] == addresses[:-1])
        if len(twins) or (self._last is not None and self._last == int(addresses[0])):
            raise InvalidInput(
                "two rows of the data match the same row of the table, and which of them counts cannot be said",
                remedy="Give each key once, for example the last row of each.",
            )
        self._last = int(addresses[-1])


def _equal(column: pa.Array, other: pa.Array) -> pa.Array:
    same = pc.equal(column, other)
    return pc.or_(same, pc.and_(pc.is_nan(column), pc.is_nan(other))) if kinds.is_floating(column.type) else same


def joined(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Batches put together to a size that is worth a look at the table."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= CHUNK:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
