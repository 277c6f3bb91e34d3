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
from seiche.spark.dml.edits import ACTION, Edited, Editing, packed
from seiche.spark.dml.part import CHUNK, Part, joined
from seiche.spark.jobs import Batches, executor
from seiche.spark.scanning import GROUP
from seiche.table.data.merge.target import read_rows
from seiche.table.data.moving import Moved, Places, stored_form
from seiche.table.data.removal import Removal, by_fragment, remove_rows
from seiche.table.data.scanning import ADDRESS, quoted
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["edit_part"]


def edit_part(editing: Editing, batches: Batches) -> Iterator[Edited]:
    """Apply the edits of one partition, which come by ascending address; those without one, inserts, first."""
    part = _Part(editing, joined(batches))
    written = editing.target.write(part.new_rows())
    # Those fragments that rows have left; their new deletion files are durable when this returns.
    removal = part.remove()
    new = part.with_row_ids(written.fragments)
    if not any(part.counts):
        return
    yield Edited(
        tuple(one.SerializeToString() for one in removal.updated),
        removal.removed,
        packed(removal.rows),
        tuple(one.SerializeToString() for one in new),
        tuple(part.counts),
        None if part.keys is None else tuple(part.keys),
        written.files + removal.files,
        written.bytes + removal.bytes,
        executor(),
    )


class _Part(Part):
    """The edits of one partition of a Lance table, while they are applied."""

    def __init__(self, editing: Editing, batches: Batches) -> None:
        super().__init__(editing, batches)
        self._portions = editing.portions
        self._removed: dict[int, BitMap] = {}
        self._snapshots: dict[int, Snapshot] = {}
        self._group_of: dict[int, int] = {}
        self._moved: list[Moved] = []

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
        for batch in read_rows(snapshot, places, kept, CHUNK):
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
        values, there = [], set(new.schema.names)
        for one in schema:
            if one.name in there:
                values.append(new.column(one.name))
            elif old is not None:
                values.append(stored_form(old.column(one.name), one))
        return pa.RecordBatch.from_arrays(values, schema=schema)

    def _open(self, group: int) -> None:
        """Have the fragments at hand that a task of the scan has read."""
        if group not in self._snapshots:
            portion = self._portions[group]
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
