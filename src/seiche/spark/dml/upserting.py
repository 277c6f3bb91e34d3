"""The plain upsert, without a join in Spark: data of all columns, every row of which replaces or is added.

What the table shall hold is then the data itself, whatever is found in the table. So its rows are written first, once,
as the new fragments they will be; the tasks that look through the table read the keys back from those files, natively,
and write deletion vectors where they find them. No row of the table passes through Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from seiche.core.runtime import SYSTEM
from seiche.spark.address import Address
from seiche.spark.dml.edits import packed, unpacked
from seiche.spark.jobs import executor, run_each
from seiche.spark.scanning import grouped
from seiche.spark.writing import FrameWritten, target_of, write_frame
from seiche.table.change import Change
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.merge.key_hashes import MOST_EXACT, key_bytes, key_filter, siphash
from seiche.table.data.merge.matching import KeyIndex, key_values
from seiche.table.data.merge.source import MergeSource
from seiche.table.data.merge.target import find_matches
from seiche.table.data.portion import Portion
from seiche.table.data.removal import by_fragment, remove_rows
from seiche.table.data.scanning import batches, scanner
from seiche.table.data.write import Limits, fields_of
from seiche.table.format import roaring
from seiche.table.format.fields import column_ids
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import REWRITE_ROWS, KeyExistenceFilter, Update
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Unsuited", "suits", "upsert"]

# Every task holds all keys of the data in memory. Beyond this number a join, which shares them out, is the better way.
_MOST_KEYS = 4_000_000


class Unsuited(Exception):  # not an error of ours: it never leaves this package
    """The data turned out to be such that it has to be done by a join; nothing that was written is used."""


def suits(clauses: Sequence[Clause], given: Sequence[str], snapshot: Snapshot) -> bool:
    """Whether a merge is a plain upsert.

    With stable row ids it is not: replaced rows keep their ids, and must come before new ones in a file.
    """
    both = {(clause.side, clause.action) for clause in clauses} == {("matched", "update"), ("not matched", "insert")}
    whole = all(clause.takes_all and clause.condition is None for clause in clauses)
    return both and whole and set(given) == set(snapshot.schema.names) and not snapshot.manifest.has_stable_row_ids


@dataclass(frozen=True, slots=True)
class _Search:
    """What all tasks look for: the keys in the rows that were written. Can be pickled."""

    address: Address
    data: Portion
    on: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """What one task found in its part of the table, and took out of it."""

    updated: tuple[bytes, ...]
    removed: tuple[int, ...]
    rows: dict[int, bytes]
    # Rows of the data, by number, that have a match there; how many matches there are.
    matched: bytes
    matches: int
    files: int
    bytes: int
    executor: str


def upsert(
    frame: "DataFrame", on: Sequence[str], snapshot: Snapshot, limits: Limits, parts: int | None
) -> Change | None:
    """Prepare the upsert. `Unsuited` if the table has a key of the data more than once, or there are too many keys."""
    written = write_frame(frame, target_of(snapshot, limits))
    if not written.fragments:
        return None
    if written.rows > _MOST_KEYS:
        raise Unsuited
    session = frame.sparkSession
    search = _Search(Address.of(snapshot.store), Portion.of(snapshot, _numbered(written.fragments)), tuple(on))
    groups = grouped(snapshot.manifest.fragments.decoded(), parts)
    found = run_each(session, partial(_look, search), [Portion.of(snapshot, group) for group in groups])
    if not found:
        run_each(session, _check_keys, [search])
    matched = BitMap.union(BitMap(), *(roaring.decode(one.matched, what="matched rows") for one in found))
    if len(matched) < sum(one.matches for one in found):
        raise Unsuited
    keys = _inserted(session, search, snapshot, written, matched)
    return _change(snapshot, on, written, found, len(matched), keys)


def _change(
    snapshot: Snapshot,
    on: Sequence[str],
    written: FrameWritten,
    found: Sequence[_Found],
    matches: int,
    keys: KeyExistenceFilter,
) -> Change:
    header = snapshot.manifest.header
    touched = {one.id for one in fields_of(header, [name for name in snapshot.schema.names if name not in on])}
    operation = Update(
        tuple(sorted(one for part in found for one in part.removed)),
        tuple(DataFragment.FromString(one) for part in found for one in part.updated),
        written.fragments,
        fields_for_preserving_frag_bitmap=tuple(one.id for one in header.fields if one.id not in touched),
        update_mode=REWRITE_ROWS,
        inserted_rows=keys,
    )
    rows = unpacked(part.rows for part in found)
    notes = {
        "inserted": written.rows - matches,
        "updated": matches,
        "deleted": 0,
        # How many took part in each of both steps.
        "executors": min(written.executors, len({one.executor for one in found}) or written.executors),
    }
    return Change(
        operation,
        rows,
        rows=written.rows,
        files=written.files + sum(one.files for one in found),
        bytes=written.bytes + sum(one.bytes for one in found),
        notes=notes,
    )


def _numbered(fragments: Sequence[DataFragment]) -> list[DataFragment]:
    """Copies that can stand in one version beside each other."""
    made = []
    for number, fragment in enumerate(fragments):
        copy = DataFragment()
        copy.CopyFrom(fragment)
        copy.id = number
        made.append(copy)
    return made


def _inserted(
    session: "SparkSession", search: _Search, snapshot: Snapshot, written: FrameWritten, matched: BitMap
) -> KeyExistenceFilter:
    """The keys of the rows that are new."""
    ids = column_ids(snapshot.manifest.header.fields)
    on = sorted(search.on, key=lambda name: ids[name])
    hashes: list[int] | None = []
    new = written.rows - len(matched)
    if new > MOST_EXACT:
        hashes = None
    elif new:
        (hashes,) = run_each(session, partial(_hashes, search, tuple(on)), [roaring.encode(matched)])
    return key_filter([ids[name] for name in on], hashes)


def _keys(search: _Search, on: Sequence[str]) -> list[pa.Array]:
    """The keys of all rows of the data, in their order."""
    dataset = search.data.snapshot(search.address.open(), SYSTEM).dataset
    scan = scanner(dataset, columns=list(on), what="the merge", batch_size=1 << 17)
    table = pa.Table.from_batches(list(batches(scan, what="the merge")), scan.projected_schema).combine_chunks()
    return [key_values(table.column(name).combine_chunks(), name) for name in on]


def _check_keys(search: _Search) -> None:
    """Refuse keys that come twice; a table without rows has no task that would."""
    KeyIndex(_keys(search, search.on), search.on)


def _look(search: _Search, portion: Portion) -> _Found:
    """Take those rows out of some fragments whose keys are in the data. In a worker."""
    keys = _keys(search, search.on)
    source = MergeSource(pa.table(keys, names=list(search.on)), search.on, keys, KeyIndex(keys, search.on))
    snapshot = portion.snapshot(search.address.open(), SYSTEM)
    matches = find_matches(snapshot, search.on, source, others=False)
    removal = remove_rows(snapshot, by_fragment(matches.places.addresses))
    return _Found(
        tuple(one.SerializeToString() for one in removal.updated),
        removal.removed,
        packed(removal.rows),
        roaring.encode(BitMap(matches.rows.astype(np.uint32))),
        len(matches),
        removal.files,
        removal.bytes,
        executor(),
    )


def _hashes(search: _Search, on: Sequence[str], matched: bytes) -> list[int]:
    """The hashes of the keys of rows that have no match. In a worker."""
    keys = _keys(search, on)
    new = np.ones(len(keys[0]), np.bool_)
    new[np.frombuffer(roaring.decode(matched, what="matched rows").to_array(), np.uint32)] = False
    chosen = pa.array(np.flatnonzero(new))
    return list(siphash(key_bytes([column.take(chosen) for column in keys])).tolist())
