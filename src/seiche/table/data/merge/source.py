"""The data of a merge: rows in memory, under the table's types, with an index on their keys."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from seiche.errors import InvalidInput
from seiche.table.data.conform import conform
from seiche.table.data.merge.clauses import Clause
from seiche.table.data.merge.matching import KeyIndex, key_values

__all__ = ["MergeSource", "check_key", "prepared"]


@dataclass(frozen=True, slots=True)
class MergeSource:
    """Rows and their keys. Columns of the table come first, in its order; what it does not have stands behind."""

    rows: pa.Table
    # Names of those columns that the table has too.
    shared: Sequence[str]
    keys: Sequence[pa.Array]
    index: KeyIndex

    def __len__(self) -> int:
        return int(self.rows.num_rows)


def prepared(given: pa.Table, table: pa.Schema, on: Sequence[str], clauses: Sequence[Clause]) -> MergeSource:
    """Make the data fit the table. `InvalidInput` for rows that do not, a bad key, and a key that comes twice."""
    if not given.schema.names:  # an empty list, which says nothing of columns
        given = table.empty_table()
    _check_key(given.schema, table, on)
    takes_all = any(clause.takes_all for clause in clauses)
    inserts = any(clause.action == "insert" for clause in clauses)
    # Without a clause that takes over whole rows, the data may have columns of its own, for conditions and expressions.
    known = set(table.names)  # Arrow makes that list anew each time
    own = [] if takes_all else [name for name in given.schema.names if name not in known]
    shared = given.drop_columns(own) if own else given
    made = conform(shared.schema, table, whole_rows=inserts)
    rows = pa.Table.from_batches(made.batches(iter(shared.to_batches())), made.schema)
    for name in own:
        rows = rows.append_column(given.schema.field(name), given.column(name))
    # In one piece: rows are picked from it one by one, which is several times slower from many.
    rows = rows.combine_chunks()
    keys = [key_values(rows.column(name).combine_chunks(), name) for name in on]
    return MergeSource(rows, made.schema.names, keys, KeyIndex(keys, on))


def _check_key(given: pa.Schema, table: pa.Schema, on: Sequence[str]) -> None:
    if not on:
        raise InvalidInput(f"the key {on!r} must be one or more different columns", remedy='Say on="id", for example.')
    check_key(given, table, on)


def check_key(given: pa.Schema, table: pa.Schema, on: Sequence[str]) -> None:
    """`InvalidInput` if a column of the key is named twice, or not in both."""
    if len(set(on)) < len(on):
        raise InvalidInput(f"the key {on!r} has a column twice", remedy='Say on="id", for example.')
    for name in on:
        for schema, whose in ((table, "the table"), (given, "the data")):
            if name not in schema.names:
                raise InvalidInput(
                    f"{whose} has no column {name!r} to merge on, only {', '.join(map(repr, schema.names))}",
                    remedy="Merge on columns that both have.",
                    column=name,
                )
