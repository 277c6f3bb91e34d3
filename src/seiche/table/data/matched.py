"""What becomes of rows of the table that a merge is about: which clause applies, and the rows that updates make."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seiche.errors import Corrupt
from seiche.table.data.assign import assigned
from seiche.table.data.clauses import Clause
from seiche.table.data.joined import Joined, mentioned
from seiche.table.data.merge_source import MergeSource
from seiche.table.data.moving import Moved, Places, stored_form
from seiche.table.data.scanning import ADDRESS, find_rows, quoted
from seiche.table.data.target import Matches, read_rows
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Decided", "Sides", "decide_matched", "decide_others", "picked", "updated_matched", "updated_others"]

# Rows of both sides that are held beside one another at a time.
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Sides:
    """The table and the data of a merge, and which rows of the one belong to which of the other."""

    snapshot: Snapshot
    source: MergeSource
    on: Sequence[str]
    matches: Matches

    def join(self, which: "NDArray[np.int64]", expressions: Sequence[str]) -> Joined:
        """Both rows of these matches, with the key and the columns that the expressions speak of."""
        ours = dict.fromkeys([*self.on, *mentioned(expressions, self.source.rows.column_names)])
        theirs = dict.fromkeys([*self.on, *mentioned(expressions, self.snapshot.schema.names)])
        rows = self.source.rows.select(list(ours)).take(pa.array(self.matches.rows[which]))
        return Joined(rows, self.read(which, list(theirs)))

    def read(self, which: "NDArray[np.int64]", names: Sequence[str]) -> pa.Table:
        """The columns of the table's rows of these matches, in their order."""
        places = self.matches.places.at(which)
        table = pa.Table.from_batches(read_rows(self.snapshot, places, {name: quoted(name) for name in names}))
        read = table.column(ADDRESS).to_numpy()
        order = np.argsort(read, kind="stable")
        if not np.array_equal(read[order], places.addresses):
            raise Corrupt(f"{len(places)} rows were looked up in version {self.snapshot.version}, {len(read)} found")
        return table.take(pa.array(order)).select(list(names))


@dataclass(frozen=True, slots=True)
class Decided:
    """A clause and the rows of the table that it applies to, by ascending address; of matched rows, which matches."""

    clause: Clause
    places: Places
    matches: "NDArray[np.int64]"


def decide_matched(sides: Sides, clauses: Sequence[Clause]) -> list[Decided]:
    """Give each matched row to the first clause whose condition is true for it."""
    left = np.arange(len(sides.matches))
    made = []
    for clause in clauses:
        chosen, condition = left, clause.condition
        if condition is not None and len(left):
            parts = [chunk[sides.join(chunk, [condition]).where(condition)] for chunk in _chunks(left)]
            chosen = np.concatenate(parts)
        made.append(Decided(clause, sides.matches.places.at(chosen), chosen))
        left = np.setdiff1d(left, chosen, assume_unique=True)
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
    for chunk in _chunks(decided.matches):
        moved.note(sides.matches.places.at(chunk))
        if expressions is None:
            rows = source.rows.select(list(taken)).take(pa.array(sides.matches.rows[chunk]))
            values = {name: _one(rows.column(name)) for name in taken}
        else:
            made = sides.join(chunk, list(expressions.values())).compute(expressions)
            values = {name: assigned(_one(made.column(name)), schema.field(name)) for name in taken}
        if kept:
            old = sides.read(chunk, kept)
            values |= {name: stored_form(_one(old.column(name)), schema.field(name)) for name in kept}
        yield pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=schema)


def updated_others(snapshot: Snapshot, decided: Decided, moved: Moved) -> Iterator[pa.RecordBatch]:
    """The rows that an update of rows without a match makes; which they are is noted in `moved`."""
    expressions, schema = decided.clause.assignments or {}, snapshot.schema
    columns = {name: expressions.get(name) or quoted(name) for name in schema.names}
    for batch in read_rows(snapshot, decided.places, columns):
        moved.note(Places.of(batch))
        values = [
            (assigned if field.name in expressions else stored_form)(batch.column(field.name), field)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(values, schema=schema)


def picked(source: MergeSource, schema: pa.Schema, rows: "NDArray[np.int64]") -> Iterator[pa.RecordBatch]:
    """These rows of the data as rows of the table; columns that the data does not have are null."""
    shared = source.rows.select(list(source.shared))
    everything = np.array_equal(rows, np.arange(len(source)))
    for part in [shared] if everything else (shared.take(pa.array(chunk)) for chunk in _chunks(rows)):
        for batch in part.to_batches(max_chunksize=_CHUNK):
            values = [
                batch.column(field.name) if field.name in source.shared else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(values, schema=schema)


def _one(column: pa.ChunkedArray) -> pa.Array:
    made = column.combine_chunks()
    return made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)


def _chunks(rows: "NDArray[np.int64]") -> Iterator["NDArray[np.int64]"]:
    return (rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK))
