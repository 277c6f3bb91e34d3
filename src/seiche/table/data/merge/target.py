"""The table's side of a merge: which of its rows have a key of the data, and the values of chosen rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from seiche.table.data.merge.matching import key_values
from seiche.table.data.merge.source import MergeSource
from seiche.table.data.moving import Moved, Places
from seiche.table.data.scanning import BATCH_ROWS, WIDE_BATCH_ROWS, batches, quoted, scan_rows, scanner
from seiche.table.format.fields import column_ids
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Matches", "find_matches", "read_rows"]

# Up to so many keys they are looked for by a condition in the scan, more if an index answers it.
_FEW_KEYS = 100
_MOST_INDEXED_KEYS = 5000
# Rows of the table whose keys are looked up at a time.
_PROBE_ROWS = 1 << 20
_PLAIN_TEXT = re.compile(r"[\w .:/@+-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows of the table whose key is in the data, by ascending address, and the number of its row in the data."""

    places: Places
    rows: "NDArray[np.int64]"
    # The other rows of the table, if they were asked for, by ascending address.
    others: Places

    def __len__(self) -> int:
        return len(self.places)


def find_matches(snapshot: Snapshot, on: Sequence[str], source: MergeSource, *, others: bool) -> Matches:
    """Look up the keys of all rows of the table, or let the scan look for them if they are few."""
    stable = snapshot.manifest.has_stable_row_ids
    scan = scanner(
        snapshot.dataset,
        columns=list(on),
        where=None if others else _key_condition(snapshot, on, source),
        what="the merge",
        with_row_address=True,
        with_row_id=stable,
        batch_size=WIDE_BATCH_ROWS,
    )
    found, rows, rest = [], [np.empty(0, np.int64)], []
    for batch in _together(batches(scan, what="the merge"), _PROBE_ROWS if source.index.dear else 1):
        places = Places.of(batch)
        at, of_data = source.index.find([key_values(batch.column(name), name) for name in on])
        found.append(places.at(at))
        rows.append(of_data)
        if others:
            left = np.ones(len(places), np.bool_)
            left[at] = False
            rest.append(places.at(left))
    matched = Places.joined(found, stable_row_ids=stable)
    lonely = Places.joined(rest, stable_row_ids=stable)
    order = np.argsort(matched.addresses, kind="stable")
    ascending = np.argsort(lonely.addresses, kind="stable")
    return Matches(matched.at(order), np.concatenate(rows)[order], lonely.at(ascending))


def _together(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches put together to at least so many rows, where what is done with them has a price for each call."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= rows:
            yield waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _key_condition(snapshot: Snapshot, on: Sequence[str], source: MergeSource) -> str | None:
    """A condition that all rows with a key of the data meet, if there is one that is quick to look for."""
    indexed = {field for index in snapshot.manifest.indices for field in index.fields}
    ids = column_ids(snapshot.manifest.header.fields)
    for name, column in sorted(zip(on, source.keys, strict=True), key=lambda item: ids[item[0]] not in indexed):
        limit = _MOST_INDEXED_KEYS if ids[name] in indexed else _FEW_KEYS
        if len(column) > limit or not len(column):
            continue
        literals = _literals(column)
        if literals is not None:
            return f"{quoted(name)} IN ({', '.join(literals)})"
    return None


def _literals(column: pa.Array) -> list[str] | None:
    """The values as SQL, `None` if that could not be trusted to mean the same."""
    is_text = kinds.is_string(column.type) or kinds.is_large_string(column.type)
    if not is_text and not kinds.is_integer(column.type):
        return None  # and not made Python's: that has no times behind the year 9999
    values = list(dict.fromkeys(value for value in column.to_pylist() if value is not None))
    if not values:
        return None
    if is_text:
        return [f"'{value}'" for value in values] if all(map(_PLAIN_TEXT.fullmatch, values)) else None
    # The lowest of 64 bits is not read as a whole number there: the minus sign comes after the digits.
    return [str(value) for value in values] if min(values) > -(1 << 63) else None


def read_rows(
    snapshot: Snapshot, places: Places, columns: Mapping[str, str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Expressions over these rows, in the order of the table, with where and who they are beside them.

    A batch has `batch_rows` rows or a few more, but for the last.
    """
    if not bool((places.addresses[:-1] <= places.addresses[1:]).all()):
        places = places.at(np.argsort(places.addresses))
    rows = places.addresses if places.row_ids is None else places.row_ids
    chosen = {**columns, **Moved(places.row_ids is not None).system_columns}
    most = min(batch_rows, BATCH_ROWS)
    return _together(scan_rows(snapshot.dataset, rows, chosen, what="the merge", batch_rows=most), batch_rows)
