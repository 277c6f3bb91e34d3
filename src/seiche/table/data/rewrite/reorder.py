"""Reordering: the same rows, sorted."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.table.data.merge.target import read_rows
from seiche.table.data.moving import Places
from seiche.table.data.portion import Portion
from seiche.table.data.rewrite.compact_plan import Options
from seiche.table.data.rewrite.copying import stored_batch
from seiche.table.data.rewrite.reorder_plan import Order
from seiche.table.data.rewrite.row_marks import RowMarks
from seiche.table.data.scanning import ADDRESS, BATCH_ROWS, WIDE_BATCH_ROWS, batches, quoted, scanner
from seiche.table.data.write import Limits, write_rows
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["reordered"]

# Rows that are fetched and sorted at a time take about this much memory; a table that is larger is read more than once.
_MEMORY = 256 << 20
# How much larger rows are in memory than in their files, at a guess.
_EXPANSION = 4


def reordered(
    portion: Portion, order: Order, options: Options, store: Store, runtime: Runtime
) -> tuple[DataFragment, ...] | None:
    """New fragments with the rows of the portion, sorted; `None` if they are in this order already.

    Keys and addresses of all rows are held in memory, the rows themselves a part at a time.
    """
    snapshot = portion.snapshot(store, runtime)
    order.check(snapshot.schema)
    addresses, position = _sorted(snapshot, order)
    if bool((position[:-1] < position[1:]).all()):
        return None
    marks = RowMarks.of(portion.fragments) if snapshot.manifest.has_stable_row_ids else None
    moved = Places(addresses[position], None)
    if marks is not None:
        marks = marks.at(moved.addresses)
        moved = Places(moved.addresses, marks.ids)
    limits = Limits.of(options.target_rows_per_fragment, options.max_bytes_per_file)
    rows = _rows(snapshot, moved, _rows_at_once(portion))
    written = write_rows(store, snapshot.manifest.header, snapshot.schema, rows, limits, runtime)
    return written.fragments if marks is None else marks.stamped(written.fragments)


def _sorted(snapshot: Snapshot, order: Order) -> "tuple[NDArray[np.uint64], NDArray[np.int64]]":
    """The addresses of all rows as they are now, and which of them comes where."""
    what = f"the order by {', '.join(order.columns)}"
    scan = scanner(
        snapshot.dataset,
        columns={name: quoted(name) for name in order.columns} | {ADDRESS: ADDRESS},
        what=what,
        batch_size=WIDE_BATCH_ROWS,
    )
    read = list(batches(scan, what=what))
    if not read:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    table = pa.Table.from_batches(read)
    keys = pa.table({name: _comparable(table[name]) for name in order.columns})
    position = pc.sort_indices(keys, sort_keys=list(order.keys))
    return table[ADDRESS].to_numpy(), position.to_numpy().astype(np.int64)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that Arrow can sort."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_boolean(column.type):
        return column.cast(pa.uint8())
    return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column


def _rows(snapshot: Snapshot, places: Places, at_once: int) -> Iterator[pa.RecordBatch]:
    """The rows at these places, in their order."""
    columns = {name: quoted(name) for name in snapshot.schema.names}
    for start in range(0, len(places), at_once):
        wanted = places.at(np.arange(start, min(start + at_once, len(places))))
        order = np.argsort(wanted.addresses)
        read = pa.Table.from_batches(
            [
                stored_batch(batch, snapshot.schema)
                for batch in read_rows(snapshot, wanted.at(order), columns, BATCH_ROWS)
            ]
        )
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        for first in range(0, len(back), BATCH_ROWS):
            yield from read.take(pa.array(back[first : first + BATCH_ROWS])).combine_chunks().to_batches()


def _rows_at_once(portion: Portion) -> int:
    fragments = portion.fragments
    size = sum(file.file_size_bytes for fragment in fragments for file in fragment.files)
    rows = max(1, sum(fragment.physical_rows for fragment in fragments))
    return max(BATCH_ROWS, _MEMORY // max(1, _EXPANSION * size // rows))
