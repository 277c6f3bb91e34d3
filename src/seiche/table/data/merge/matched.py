"""What becomes of rows of the table that a merge is about: which clause applies, and the rows that updates make."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seiche.errors import Corrupt
from seiche.table.data.advice import OTHER_ROWS_READ
from seiche.table.data.assign import assigned
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.merge.joined import Joined, mentioned
from seiche.table.data.merge.source import MergeSource
from seiche.table.data.merge.target import Matches, read_rows
from seiche.table.data.moving import Moved, Places, stored_form
from seiche.table.data.scanning import BATCH_ROWS, find_rows, quoted
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Decided", "Sides", "decide_matched", "decide_others", "picked", "updated_matched", "updated_others"]

# Rows of both sides that are held beside one another at a time.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Pair:
    """Some matched rows: where they are in the table, which they are in the data, and columns of the table's side."""

    places: Places
    which: "NDArray[np.int64]"
    rows: "NDArray[np.int64]"
    old: pa.Table


@dataclass(frozen=True, slots=True)
class Sides:
    """The table and the data of a merge, and which rows of the one belong to which of the other."""

    snapshot: Snapshot
    source: MergeSource
    on: Sequence[str]
    matches: Matches

    def pairs(self, which: "NDArray[np.int64]", columns: Sequence[str], batch_rows: int) -> Iterator[Pair]:
        """These matches with columns of the table's rows, some at a time, as the scan gives them."""
        places = self.matches.places.at(which)
        if not columns:
            for start in range(0, len(which), batch_rows):
                part = which[start : start + batch_rows]
                nothing = pa.table({"": pa.nulls(len(part))}).select([])
                yield Pair(self.matches.places.at(part), part, self.matches.rows[part], nothing)
            return
        found = 0
        for batch in read_rows(self.snapshot, places, {name: quoted(name) for name in columns}, batch_rows):
            here = Places.of(batch)
            part = which[np.searchsorted(places.addresses, here.addresses)]
            found += len(here)
            yield Pair(here, part, self.matches.rows[part], pa.Table.from_batches([batch]).select(list(columns)))
        if found != len(which):
            version = self.snapshot.version
            raise Corrupt(
                f"{len(which)} rows were looked up by address in version {version}, {found} found",
                remedy=OTHER_ROWS_READ,
                version=version,
            )

    def needed(self, expressions: Iterable[str]) -> list[str]:
        """The columns of the table that the expressions speak of. The key is known: it is that of the data."""
        return [name for name in mentioned("target", expressions, self.snapshot.schema.names) if name not in self.on]

    def join(self, pair: Pair, expressions: Sequence[str]) -> Joined:
        """Both sides of some matches, with the key and the columns that the expressions speak of."""
        ours = dict.fromkeys([*self.on, *mentioned("source", expressions, self.source.rows.column_names)])
        rows = self.source.rows.select(list(ours)).take(pa.array(pair.rows))
        target = rows.select(list(self.on))
        for name in self.needed(expressions):
            target = target.append_column(name, pair.old.column(name))
        return Joined(rows, target)


@dataclass(frozen=True, slots=True)
class Decided:
    """A clause and the rows of the table that it applies to, by ascending address; of matched rows, which matches."""

    clause: Clause
    places: Places
    matches: "NDArray[np.int64]"


def decide_matched(sides: Sides, clauses: Sequence[Clause]) -> list[Decided]:
    """Give each matched row to the first clause whose condition is true for it."""
    open_ones = np.ones(len(sides.matches), np.bool_)
    made = []
    for clause in clauses:
        chosen, condition = np.flatnonzero(open_ones), clause.condition
        if condition is not None:
            pairs = sides.pairs(chosen, sides.needed([condition]), _CHUNK)
            parts = [pair.which[sides.join(pair, [condition]).where(condition)] for pair in pairs]
            chosen = np.sort(np.concatenate([chosen[:0], *parts]))
        made.append(Decided(clause, sides.matches.places.at(chosen), chosen))
        open_ones[chosen] = False
    return made


def decide_others(snapshot: Snapshot, others: Places, clauses: Sequence[Clause]) -> list[Decided]:
    """Give each row of the table that no row of the data matches to the first clause whose condition is true for it."""
    made = []
    for clause in clauses:
        chosen = np.ones(len(others), np.bool_)
        if clause.condition is not None:
            found = find_rows(snapshot, clause.condition, what=f"the condition {clause.condition!r}")
            chosen = np.isin(others.addresses, found)
        made.append(Decided(clause, others.at(chosen), np.empty(0, np.int64)))
        others = others.at(~chosen)
    return made


def updated_matched(sides: Sides, decided: Decided, moved: Moved) -> Iterator[pa.RecordBatch]:
    """The rows that an update of matched rows makes; which they are is noted in `moved`."""
    source, schema, expressions = sides.source, sides.snapshot.schema, decided.clause.assignments
    taken = source.shared if expressions is None else list(expressions)
    kept = [name for name in schema.names if name not in taken]
    needed = [] if expressions is None else sides.needed(expressions.values())
    for pair in sides.pairs(decided.matches, list(dict.fromkeys([*kept, *needed])), BATCH_ROWS):
        moved.note(pair.places)
        if expressions is None:
            rows = source.rows.select(list(taken)).take(pa.array(pair.rows))
            values = {name: rows.column(name).combine_chunks() for name in taken}
        else:
            made = sides.join(pair, list(expressions.values())).compute(expressions)
            values = {name: assigned(made.column(name).combine_chunks(), schema.field(name)) for name in taken}
        values |= {name: stored_form(pair.old.column(name).combine_chunks(), schema.field(name)) for name in kept}
        yield pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)


def updated_others(snapshot: Snapshot, decided: Decided, moved: Moved) -> Iterator[pa.RecordBatch]:
    """The rows that an update of rows without a match makes; which they are is noted in `moved`."""
    expressions, schema = decided.clause.assignments or {}, snapshot.schema
    columns = {name: expressions.get(name) or quoted(name) for name in schema.names}
    for batch in read_rows(snapshot, decided.places, columns, BATCH_ROWS):
        moved.note(Places.of(batch))
        values = [
            (assigned if field.name in expressions else stored_form)(batch.column(field.name), field)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(values, schema=schema)


def picked(source: MergeSource, schema: pa.Schema, rows: "NDArray[np.int64]") -> Iterator[pa.RecordBatch]:
    """These rows of the data as rows of the table; columns that the data does not have are null."""
    known = set(source.shared)
    shared = source.rows.select(list(source.shared))
    everything = np.array_equal(rows, np.arange(len(source)))
    for part in [shared] if everything else (shared.take(pa.array(chunk)) for chunk in _chunks(rows)):
        for batch in part.to_batches(max_chunksize=_CHUNK):
            values = [
                batch.column(field.name) if field.name in known else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(values, schema=schema)


def _chunks(rows: "NDArray[np.int64]") -> Iterator["NDArray[np.int64]"]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
