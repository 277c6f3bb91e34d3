"""Merging rows into an Iceberg table by key, with the meaning of equal that merges into Lance tables have.

PyIceberg's own upsert asks a join and a filter whether keys are equal, and they disagree: a row whose key is 0.0 and
meets -0.0 was neither updated nor added, one whose key is not a number was added each time. It also loses one of two
rows of the table with the same key if they lie in different files. Here the keys of the data are an index, in which
the rows of each file that may have some of them are looked up; files with rows that change are written anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    In,
    LessThanOrEqual,
    Reference,
)
from pyiceberg.expressions.literals import literal
from pyiceberg.io import pyarrow as pyarrow_io

from seiche.table.data.merge.matching import KeyIndex, key_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seiche.lake.engines.iceberg_table import EngineTable

__all__ = ["Upserted", "upsert"]

# PyIceberg looks at no more values than that when it asks whether a file may have one of them.
_FEW: Final = 200
# Types whose values are compared alike by everybody, so that files can be left out by their smallest and largest.
_ORDERED: Final = (kinds.is_integer, kinds.is_string, kinds.is_large_string, kinds.is_date32, kinds.is_timestamp)


@dataclass(frozen=True, slots=True)
class Upserted:
    """How many rows of the table were given other values, and how many rows of the data were added."""

    rows_updated: int
    rows_inserted: int


def upsert(
    table: "EngineTable", rows: pa.Table, keys: Sequence[str], *, update: Sequence[str], insert: bool
) -> Upserted:
    """Do it, in one snapshot. The rows have the table's columns, and no null in a key; `InvalidInput` if a key comes
    twice among them. Rows of the table take over the columns to `update`, and keep the others.
    """
    index = KeyIndex(_keys(rows, keys), keys)
    met = np.zeros(rows.num_rows, bool)
    removed: list[Any] = []
    written: list[Any] = []
    updated = 0
    for file, found in _files(table, _near(rows, keys), rows.schema) if rows.num_rows else ():
        at, which = index.find(_keys(found, keys))
        met[which] = True
        if update and len(at):
            old, new = found.take(pa.array(at)), rows.take(pa.array(which))
            made = pa.table([(new if one in update else old)[one] for one in rows.column_names], schema=rows.schema)
            other = _differ(old, made)
            if not other.any():
                continue
            stays = np.ones(found.num_rows, bool)
            stays[at[other]] = False
            changed = pa.concat_tables([found.filter(pa.array(stays)), made.filter(pa.array(other))])
            written += pyarrow_io._dataframe_to_data_files(table.metadata, changed, table.io)
            removed.append(file)
            updated += int(other.sum())
    added = rows.filter(pa.array(~met)) if insert else rows.slice(0, 0)
    if removed or added.num_rows:
        change = table.transaction()
        with change:
            change.swap(removed, written, added)
    return Upserted(updated, added.num_rows)


def _files(table: "EngineTable", near: BooleanExpression, schema: pa.Schema) -> Iterator[tuple[Any, pa.Table]]:
    """The data files that may have such rows, each with its rows under the types of the data."""
    read = pyarrow_io.ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    for task in list(table.scan(row_filter=near).plan_files()):
        found = read.to_table([task])
        yield task.file, pa.table([found[one.name].cast(one.type) for one in schema], schema=schema)


def _keys(rows: pa.Table, keys: Sequence[str]) -> list[pa.Array]:
    return [key_values(rows[name].combine_chunks(), name) for name in keys]


def _near(rows: pa.Table, keys: Sequence[str]) -> BooleanExpression:
    """A condition that holds for all rows with these keys, and for few others. Only files are chosen by it."""
    found: BooleanExpression = AlwaysTrue()
    for name in keys:
        column = rows[name]
        if not any(is_one(column.type) for is_one in _ORDERED):
            continue
        distinct, key = pc.unique(column), Reference(name)
        try:
            if len(distinct) <= _FEW:
                found = And(found, In(term=key, values={literal(one) for one in distinct.to_pylist()}))
            else:
                ends = pc.min_max(distinct)
                least, most = literal(ends["min"].as_py()), literal(ends["max"].as_py())
                span = GreaterThanOrEqual(term=key, value=least), LessThanOrEqual(term=key, value=most)
                found = And(found, And(*span))
        except (ValueError, OverflowError):  # a time that Python has no value for
            continue
    return found


def _differ(old: pa.Table, new: pa.Table) -> "NDArray[np.bool_]":
    """Which rows are not the same to the last bit."""
    found = np.zeros(old.num_rows, bool)
    for name in old.column_names:
        found |= _differ_in(old[name].combine_chunks(), new[name].combine_chunks())
    return found


def _differ_in(old: pa.Array, new: pa.Array) -> "NDArray[np.bool_]":
    if isinstance(old, pa.ExtensionArray):
        old, new = old.storage, new.storage
    if kinds.is_floating(old.type):
        bits = pa.int64() if kinds.is_float64(old.type) else pa.int32()
        old, new = old.view(bits), new.view(bits)
    if kinds.is_nested(old.type):  # Arrow compares no lists; what is written differently is different
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.fromiter((repr(one) != repr(other) for one, other in pairs), bool, len(old))
    same = pc.if_else(pc.is_null(old), pc.is_null(new), pc.fill_null(pc.equal(old, new), False))
    differ: NDArray[np.bool_] = ~same.to_numpy(zero_copy_only=False)
    return differ
