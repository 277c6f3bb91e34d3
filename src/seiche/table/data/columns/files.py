"""New files for some columns of a fragment: all of its rows, of which some got other values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from seiche.core.threads import done_by_threads
from seiche.errors import Corrupt
from seiche.table.data.advice import NO_ROW_COUNT, OTHER_ROWS_READ
from seiche.table.data.assign import assigned
from seiche.table.data.moving import stored_form
from seiche.table.data.removal import all_live_rows, by_fragment
from seiche.table.data.scanning import ADDRESS, BATCH_ROWS, batches, find_rows, quoted, scanner
from seiche.table.data.write import UNLIMITED, write_rows
from seiche.table.format import roaring
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations.files import settle
from seiche.table.snapshot import Snapshot

__all__ = ["Rewritten", "patched", "rewrite_columns"]

# Fragments that are worked on at the same time, each with one batch of rows in memory.
_PARALLEL = 4

# Offsets in a fragment, ascending, and the values of some columns there.
Part = tuple["np.ndarray[tuple[int], np.dtype[np.uint32]]", Sequence[pa.Array]]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Fragments as they shall be, with one new file each, and by fragment the rows that got other values."""

    fragments: tuple[DataFragment, ...] = ()
    touched: Mapping[int, BitMap] = field(default_factory=dict)
    size: int = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self.touched.values()))

    @property
    def files(self) -> int:
        return len(self.fragments)

    @property
    def offsets(self) -> dict[int, bytes]:
        """The touched rows as they stand in a transaction."""
        return {fragment_id: roaring.encode(rows) for fragment_id, rows in self.touched.items()}


def rewrite_columns(snapshot: Snapshot, assignments: Mapping[str, str], where: str | None) -> Rewritten:
    """Give columns other values in all rows that meet the condition; fragments without such a row stay as they are."""
    touched = _touched(snapshot, where)
    if not touched:
        return Rewritten()

    fragments = snapshot.manifest.fragments
    present = touched if where is None else all_live_rows(snapshot, filter(None, map(fragments.get, touched)))

    def rewrite(fragment_id: int) -> tuple[DataFragment, int]:
        rest = len(present.get(fragment_id, ())) - len(touched[fragment_id])
        return _rewrite(snapshot, fragment_id, assignments, where, rest)

    made = done_by_threads(_PARALLEL, "seiche-columns", rewrite, touched)
    return Rewritten(tuple(fragment for fragment, _ in made), touched, sum(size for _, size in made))


def _touched(snapshot: Snapshot, where: str | None) -> dict[int, BitMap]:
    fragments = snapshot.manifest.fragments
    if where is None and all(fragment.physical_rows for fragment in fragments):
        rows = all_live_rows(snapshot, fragments)
        return {fragment_id: offsets for fragment_id, offsets in rows.items() if offsets}
    return by_fragment(find_rows(snapshot, where, what=f"the condition {where!r}"))


def _rewrite(
    snapshot: Snapshot, fragment_id: int, assignments: Mapping[str, str], where: str | None, rest: int
) -> tuple[DataFragment, int]:
    """The fragment with one more file, and the size of that; `rest` is how many rows do not meet the condition."""
    fragment = snapshot.manifest.fragments.get(fragment_id)
    if fragment is None or not fragment.physical_rows:
        raise Corrupt(
            f"fragment {fragment_id} is missing, or does not say how many rows it has",
            remedy=NO_ROW_COUNT,
            fragments=[fragment_id],
        )
    schema = pa.schema([column for column in snapshot.schema if column.name in assignments])
    new = _read(snapshot, fragment_id, schema, assignments, where=where, form=assigned)
    old = None
    if rest:
        old = _read(snapshot, fragment_id, schema, {name: quoted(name) for name in schema.names}, form=stored_form)
    parts = patched(fragment.physical_rows, new if old is None else old, iter(()) if old is None else new)
    rows = (pa.RecordBatch.from_arrays(list(values), schema=schema) for values in parts)
    written = write_rows(snapshot.store, snapshot.manifest.header, schema, rows, UNLIMITED, snapshot.runtime)
    if len(written.fragments) != 1 or written.rows != fragment.physical_rows:
        raise Corrupt(
            f"{written.rows} rows in {written.files} files were written for the {fragment.physical_rows} rows of"
            f" fragment {fragment_id}",
            remedy=OTHER_ROWS_READ,
            fragments=[fragment_id],
        )
    made = DataFragment()
    made.CopyFrom(fragment)
    made.files.extend(written.fragments[0].files)
    settle(made)
    return made, written.bytes


def _read(
    snapshot: Snapshot,
    fragment_id: int,
    schema: pa.Schema,
    columns: Mapping[str, str],
    *,
    form: Callable[[pa.Array, pa.Field], pa.Array],
    where: str | None = None,
) -> Iterator[Part]:
    """The values of the columns in one fragment, in the order of its rows."""
    scan = scanner(
        snapshot.dataset,
        columns={name: columns[name] for name in schema.names} | {ADDRESS: ADDRESS},
        where=where,
        what="the update",
        fragments=[snapshot.dataset.get_fragment(fragment_id)],
        batch_size=BATCH_ROWS,
        blob_handling="all_binary",
        # An index may give the rows in another order.
        use_scalar_index=False,
        scan_in_order=True,
    )
    last = -1
    for batch in batches(scan, what="the update"):
        offsets = (batch.column(ADDRESS).to_numpy() & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        if int(offsets[0]) <= last or not bool((offsets[1:] > offsets[:-1]).all()):
            raise Corrupt(
                f"the rows of fragment {fragment_id} were not read in their order",
                remedy=OTHER_ROWS_READ,
                fragments=[fragment_id],
            )
        last = int(offsets[-1])
        yield offsets, [form(batch.column(column.name), column) for column in schema]


def patched(rows: int, old: Iterator[Part], new: Iterator[Part]) -> Iterator[Sequence[pa.Array]]:
    """The values of all `rows` of a fragment: the new ones where there are some, else the old ones.

    Where there are neither, because the row is deleted, any value stands: nobody will see it. Reads no further ahead
    than one batch of each.
    """
    start = 0
    values: Sequence[pa.Array] = ()
    pending = next(new, None)
    for offsets, values in old:
        end = int(offsets[-1]) + 1
        places, sources = np.zeros(end - start, np.int64), [values]
        places[offsets - start] = np.arange(len(offsets))
        taken = len(offsets)
        while pending is not None and pending[0][0] < end:
            here, pending = _split(pending, end)
            places[here[0] - start] = np.arange(taken, taken + len(here[0]))
            taken += len(here[0])
            sources.append(here[1])
            if pending is None:
                pending = next(new, None)
        yield [_picked(columns, places) for columns in zip(*sources, strict=True)]
        start = end
    if start < rows:
        yield [column.take(pa.array(np.zeros(rows - start, np.int64))) for column in values]


def _picked(columns: Sequence[pa.Array], places: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> pa.Array:
    one = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
    if len(one) == len(places) and bool((places == np.arange(len(places))).all()):
        return one
    return one.take(pa.array(places))


def _split(part: Part, end: int) -> tuple[Part, Part | None]:
    """What of the part lies before the row `end`, and what does not."""
    offsets, values = part
    count = int(np.searchsorted(offsets, end))
    before = offsets[:count], [column.slice(0, count) for column in values]
    if count == len(offsets):
        return before, None
    return before, (offsets[count:], [column.slice(count) for column in values])
