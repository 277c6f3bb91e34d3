"""Edits, applied by Spark's workers: each takes care of the fragments that one task of the scan has read.

Of a row that is changed, the worker reads the other columns itself, natively, where it writes the row anew; they never
pass through Spark, so a column that Spark cannot express stays what it is.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from seiche.core.runtime import SYSTEM
from seiche.errors import InvalidInput
from seiche.spark.edits import ACTION, VALUE, Edited, Editing
from seiche.spark.jobs import Batches, executor
from seiche.spark.scanning import GROUP
from seiche.spark.types import conform_shown
from seiche.table.data.conform import check_nulls
from seiche.table.data.key_hashes import MOST_EXACT, key_bytes, siphash
from seiche.table.data.matching import key_values
from seiche.table.data.moving import Moved, Places, stored_form
from seiche.table.data.removal import Removal, by_fragment, remove_rows
from seiche.table.data.scanning import ADDRESS, quoted
from seiche.table.data.target import read_rows
from seiche.table.format import roaring
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["edit_part"]

# Edits that are looked at together. Each time, rows are looked up by address, which has a price of its own.
_CHUNK = 1 << 16


def edit_part(editing: Editing, batches: Batches) -> Iterator[Edited]:
    """Apply the edits of one partition, which come by ascending address; those without one, inserts, first."""
    part = _Part(editing, _joined(batches))
    written = editing.target.write(part.new_rows())
    # Those fragments that rows have left; their new deletion files are durable when this returns.
    removal = part.remove()
    new = part.with_row_ids(written.fragments)
    if not any(part.counts):
        return
    yield Edited(
        tuple(one.SerializeToString() for one in removal.updated),
        removal.removed,
        {fragment_id: roaring.encode(offsets) for fragment_id, offsets in removal.rows.items()},
        tuple(one.SerializeToString() for one in new),
        tuple(part.counts),
        None if part.keys is None else tuple(part.keys),
        written.files + removal.files,
        written.bytes + removal.bytes,
        executor(),
    )


class _Part:
    """The edits of one partition, while they are applied."""

    def __init__(self, editing: Editing, batches: Batches) -> None:
        self._editing = editing
        self._batches = batches
        self._store = editing.target.address.open()
        self._removed: dict[int, BitMap] = {}
        self._last: int | None = None
        self._last_key: tuple[object, ...] | None = None
        self._snapshots: dict[int, Snapshot] = {}
        self._group_of: dict[int, int] = {}
        self._moved: list[Moved] = []
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

    def remove(self) -> Removal:
        """Take out of their fragments the rows that were changed or deleted."""
        total = Removal()
        for group, rows in self._by_group().items():
            made = remove_rows(self._snapshots[group], rows)
            total = Removal(
                (*total.updated, *made.updated),
                (*total.removed, *made.removed),
                {**total.rows, **made.rows},
                total.files + made.files,
                total.bytes + made.bytes,
            )
        return total

    def with_row_ids(self, fragments: Sequence[DataFragment]) -> Sequence[DataFragment]:
        """The new fragments, with the ids of the rows that moved into them in a table that has such."""
        from seiche.table.data.write import Written

        if not self._moved:
            return fragments
        joined = Moved(stable_row_ids=True)
        for one in self._moved:
            joined.note(one.places)
        return joined.with_row_ids(Written(tuple(fragments)))

    def _by_group(self) -> dict[int, dict[int, BitMap]]:
        found: dict[int, dict[int, BitMap]] = {}
        for fragment_id, offsets in self._removed.items():
            found.setdefault(self._group_of[fragment_id], {})[fragment_id] = offsets
        return found

    def _changed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        addresses = batch.column(ADDRESS).to_numpy().astype(np.uint64)
        self._refuse_twins(addresses)
        for group in np.unique(batch.column(GROUP).to_numpy()).tolist():
            self._open(group)
        for fragment_id, offsets in by_fragment(addresses).items():
            self._require(fragment_id)
            self._removed.setdefault(fragment_id, BitMap()).update(offsets)
        actions = batch.column(ACTION).to_numpy()
        for number, action in enumerate(self._editing.actions):
            chosen = np.flatnonzero(actions == number)
            if not len(chosen):
                continue
            self.counts[number] += len(chosen)
            if action.columns is not None:
                yield from self._updated(batch.take(pa.array(chosen)), addresses[chosen], action.columns)

    def _updated(
        self, batch: pa.RecordBatch, addresses: "NDArray[np.uint64]", columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Rows with new values in `columns` and their own in all others."""
        schema = self._editing.target.schema
        given = self._values(batch, columns)
        kept = {name: quoted(name) for name in schema.names if name not in columns}
        groups = np.array([self._group_of[int(one)] for one in (addresses >> np.uint64(32)).tolist()])
        for group in np.unique(groups).tolist():
            here = np.flatnonzero(groups == group)
            snapshot = self._snapshots[group]
            places = Places(addresses[here], self._row_ids(snapshot, addresses[here]))
            for found, rows in self._read(snapshot, places, kept, given.take(pa.array(here))):
                yield self._put_together(schema, found, rows)

    def _read(
        self, snapshot: Snapshot, places: Places, kept: dict[str, str], given: pa.RecordBatch
    ) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch]]:
        """The kept columns of rows, and the new values of the same rows beside them."""
        if not kept:
            self._note_moved(places)
            yield None, given
            return
        count = 0
        for batch in read_rows(snapshot, places, kept, _CHUNK):
            here = Places.of(batch)
            which = np.searchsorted(places.addresses, here.addresses)
            self._note_moved(here)
            count += len(here)
            yield batch, given.take(pa.array(which))
        if count != len(places):
            raise InvalidInput(
                f"{len(places)} rows were to be changed in version {snapshot.version}, of which {count} are there",
                remedy="Change rows that were read from the transaction's own view of the table.",
            )

    def _put_together(self, schema: pa.Schema, old: pa.RecordBatch | None, new: pa.RecordBatch) -> pa.RecordBatch:
        values = []
        for one in schema:
            if one.name in new.schema.names:
                values.append(new.column(one.name))
            elif old is not None:
                values.append(stored_form(old.column(one.name), one))
        return pa.RecordBatch.from_arrays(values, schema=schema)

    def _inserted(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """New rows; columns that no action gives a value are null."""
        schema = self._editing.target.schema
        actions = batch.column(ACTION).to_numpy()
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
                self._note_keys(rows)
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _values(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """The new values of some columns, under the table's types."""
        given = pa.RecordBatch.from_arrays([batch.column(VALUE + name) for name in columns], names=list(columns))
        return conform_shown(given.schema, self._editing.target.schema, whole_rows=False).batch(given)

    def _note_keys(self, rows: pa.RecordBatch) -> None:
        """Keys come sorted, so that equal ones are neighbours."""
        if not self._editing.key or any(name not in rows.schema.names for _, name in self._editing.key):
            self.keys = self.keys if not self._editing.key else None
            return
        columns = [key_values(rows.column(name), name) for _, name in self._editing.key]
        self._refuse_equal_keys(columns)
        if self.keys is not None:
            self.keys.extend(siphash(key_bytes(columns)).tolist())
            if len(self.keys) > MOST_EXACT:
                self.keys = None

    def _refuse_equal_keys(self, columns: Sequence[pa.Array]) -> None:
        lists = [column.to_pylist() for column in columns]
        for key in zip(*lists, strict=True):
            if key == self._last_key and None not in key:
                shown = ", ".join(f"{n}={v!r}" for (_, n), v in zip(self._editing.key, key, strict=True))
                raise InvalidInput(
                    f"two rows of the data have the key {shown}, and both would be inserted",
                    remedy="Give each key once, for example the last row of each.",
                )
            self._last_key = key

    def _refuse_twins(self, addresses: "NDArray[np.uint64]") -> None:
        twins = np.flatnonzero(addresses[1:] == addresses[:-1])
        if len(twins) or (self._last is not None and self._last == int(addresses[0])):
            raise InvalidInput(
                "two rows of the data match the same row of the table, and which of them counts cannot be said",
                remedy="Give each key once, for example the last row of each.",
            )
        self._last = int(addresses[-1])

    def _open(self, group: int) -> None:
        """Have the fragments at hand that a task of the scan has read."""
        if group not in self._snapshots:
            portion = self._editing.portions[group]
            self._snapshots[group] = portion.snapshot(self._store, SYSTEM)
            self._group_of.update(dict.fromkeys(portion.ids, group))

    def _require(self, fragment_id: int) -> None:
        if fragment_id not in self._group_of:
            raise InvalidInput(
                f"there is a row of fragment {fragment_id}, which the table does not have there",
                remedy="Change rows that were read from the transaction's own view of the table.",
            )

    def _row_ids(self, snapshot: Snapshot, addresses: "NDArray[np.uint64]") -> "NDArray[np.uint64] | None":
        if not snapshot.manifest.has_stable_row_ids:
            return None
        found = np.empty(len(addresses), np.uint64)
        fragments = (addresses >> np.uint64(32)).astype(np.int64)
        for fragment_id in np.unique(fragments).tolist():
            fragment = snapshot.manifest.fragments.get(fragment_id)
            assert fragment is not None  # noqa: S101 - it was found in this version
            ids = RowIds.decode(fragment.inline_row_ids, rows=fragment.physical_rows).to_array()
            here = fragments == fragment_id
            found[here] = ids[(addresses[here] & np.uint64(0xFFFFFFFF)).astype(np.int64)]
        return found

    def _note_moved(self, places: Places) -> None:
        if places.row_ids is not None:
            moved = Moved(stable_row_ids=True)
            moved.note(places)
            self._moved.append(moved)


def _joined(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Batches put together to a size that is worth a look at the table."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        if rows >= _CHUNK:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
