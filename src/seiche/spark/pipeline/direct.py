"""Checks that are answered without a job of Spark: counts, from metadata or from a native scan by the driver.

A job has a price that does not depend on the rows, and most checks are counts over one column or two. What is answered
here is what Spark would answer, to the letter; whatever is not surely the same there is left to Spark, and so are
tables so large that its workers would be quicker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from seiche.spark.pipeline.definition import Check, Doubles, Orphans
from seiche.spark.scanning import live_rows
from seiche.spark.sql.pruning import bare_count
from seiche.table.data.scanning import WIDE_BATCH_ROWS, batches, scanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seiche.spark.sql.queries import Query
    from seiche.spark.transaction import SparkTransaction
    from seiche.table.snapshot import Snapshot

__all__ = ["direct_answer"]

# Of more rows than this, workers are quicker than one process, and keys would need much memory.
_MOST_ROWS: Final = 1 << 22
_WHOLE: Final = 1 << 63

_COMPARED: "dict[type[Any], Callable[[pc.Expression, Any], pc.Expression]]" = {
    exp.EQ: lambda column, value: column == value,
    exp.NEQ: lambda column, value: column != value,
    exp.LT: lambda column, value: column < value,
    exp.LTE: lambda column, value: column <= value,
    exp.GT: lambda column, value: column > value,
    exp.GTE: lambda column, value: column >= value,
}
_TURNED: "dict[type[Any], type[Any]]" = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


def direct_answer(check: Check, query: "Query", tx: "SparkTransaction") -> int | None:
    """What the query of a check counts; `None` if that is for Spark to say."""
    match check.meaning:
        case Doubles(table, columns):
            keys = _keys(tx, table, columns)
            return None if keys is None else _doubles(keys)
        case Orphans(table, columns, references, to):
            return _orphans(_keys(tx, table, columns), _keys(tx, references, to))
    return _counted(query, tx)


def _counted(query: "Query", tx: "SparkTransaction") -> int | None:
    """`SELECT count(*) FROM table`, with or without a WHERE of plain comparisons."""
    counted = bare_count(query, filtered=True)
    if counted is None or len(counted[0].name) < 2:
        return None
    name = counted[0].name
    if tx.is_iceberg(tx.table(name)):
        return None
    where = query.tree.args.get("where")
    if where is None:
        return tx.count(name)
    snapshot = _snapshot(tx, name)
    if snapshot is None:
        return None
    columns = _Columns(snapshot.schema, counted[0].alias)
    condition = columns.condition(where.this)
    if condition is None:
        return None
    return sum(int(rows.filter(condition).num_rows) for rows in _rows(snapshot, sorted(columns.used)))


def _snapshot(tx: "SparkTransaction", table: str | Sequence[str]) -> "Snapshot | None":
    """The table as the transaction sees it, which counts as read; `None` if it is not one to scan here."""
    handle = tx.table(table)
    if tx.is_iceberg(handle):
        return None
    snapshot = handle._snapshot()
    rows = live_rows(snapshot)
    if rows is None or rows > _MOST_ROWS:
        return None
    tx.note_read(handle.id)
    return snapshot


def _rows(snapshot: "Snapshot", columns: Sequence[str]) -> Iterator[pa.Table]:
    scan = scanner(snapshot.dataset, columns=columns, what="a check", batch_size=WIDE_BATCH_ROWS)
    for batch in batches(scan, what="a check"):
        yield pa.Table.from_batches([batch])


def _keys(tx: "SparkTransaction", table: str, columns: Sequence[str]) -> pa.Table | None:
    """The columns of a table, called by their number, if their values are equal here when they are equal in Spark."""
    snapshot = _snapshot(tx, table)
    if snapshot is None:
        return None
    known = _Columns(snapshot.schema, table)
    fields = [known.named(column) for column in columns]
    names = [field.name for field in fields if field is not None and _is_exact(field.type)]
    if len(names) < len(columns) or len(set(names)) < len(names):
        return None
    whole = pa.schema([snapshot.schema.field(name) for name in names]).empty_table()
    found = pa.concat_tables([whole, *_rows(snapshot, names)])
    return found.select(names).rename_columns([str(number) for number in range(len(names))])


def _doubles(keys: pa.Table) -> int:
    """How many keys there are more than once; nulls count as equal."""
    only = keys.column(0)
    if keys.num_columns == 1 and pa.types.is_integer(only.type):
        values = [chunk.drop_null().to_numpy() for chunk in only.chunks if len(chunk)]
        return int(only.null_count > 1) + (0 if _ascending(values) else _repeated(values))
    # Threads would only add to the work of those that write the tables which come next.
    times = keys.group_by(keys.column_names, use_threads=False).aggregate([([], "count_all")])
    return int(times.filter(pc.field("count_all") > 1).num_rows)


def _ascending(chunks: "Sequence[NDArray[np.int64]]") -> bool:
    """Whether the numbers ascend in each chunk, and the chunks do not overlap: so keys are usually written."""
    full = sorted((chunk for chunk in chunks if len(chunk)), key=lambda chunk: int(chunk[0]))
    return all(bool((one[1:] > one[:-1]).all()) for one in full) and all(
        one[-1] < following[0] for one, following in pairwise(full)
    )


def _repeated(chunks: "Sequence[NDArray[np.int64]]") -> int:
    ordered = np.sort(np.concatenate(chunks))
    equal = ordered[1:] == ordered[:-1]
    return int(equal.sum() - (equal[1:] & equal[:-1]).sum())


def _orphans(keys: pa.Table | None, known: pa.Table | None) -> int | None:
    if keys is None or known is None or keys.schema.types != known.schema.types:
        return None
    given = keys.drop_null()
    return int(given.join(known, keys=keys.column_names, join_type="left anti").num_rows)


def _is_exact(kind: pa.DataType) -> bool:
    """Types whose values are equal or not, whoever asks: floating point has NaN and two zeros."""
    types = pa.types
    return bool(
        types.is_signed_integer(kind) or types.is_string(kind) or types.is_boolean(kind) or types.is_date32(kind)
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """A column and a value that can be compared with it."""

    column: pa.Field
    value: Any


class _Columns:
    """The columns of one table, and conditions over them as the driver computes them."""

    def __init__(self, schema: pa.Schema, alias: str) -> None:
        self._alias = alias.lower()
        self._fields = {field.name.lower(): field for field in schema}
        if len(self._fields) < len(schema):
            self._fields = {}  # names that differ in case only: which is meant is for Spark to say
        self.used: set[str] = set()

    def named(self, name: str) -> pa.Field | None:
        """The column of this name, if its values are small."""
        field = self._fields.get(name.lower())
        if field is None or "." in field.name or "`" in field.name:
            return None
        return field if pa.types.is_primitive(field.type) or pa.types.is_string(field.type) else None

    def condition(self, node: Any) -> pc.Expression | None:
        """A condition that is true for the same rows as in Spark; `None` if that is not certain."""
        node = node.unnest()
        if type(node) in _COMPARED:
            return self._comparison(node)
        if isinstance(node, exp.And | exp.Or):
            left, right = self.condition(node.this), self.condition(node.expression)
            if left is None or right is None:
                return None
            return left & right if isinstance(node, exp.And) else left | right
        if isinstance(node, exp.Not):
            inner = self.condition(node.this)
            return None if inner is None else ~inner
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            field = self._column(node.this)
            return None if field is None else pc.field(field.name).is_null()
        return None

    def _comparison(self, node: Any) -> pc.Expression | None:
        kind = type(node)
        found = self._sides(node.this, node.expression)
        if found is None:
            kind = _TURNED.get(kind, kind)
            found = self._sides(node.expression, node.this)
        if found is None:
            return None
        column = pc.field(found.column.name)
        compared = _COMPARED[kind](column, found.value)
        # To Spark, NaN is above all numbers; here it is neither above nor below any.
        above = pa.types.is_float64(found.column.type) and kind in (exp.GT, exp.GTE)
        return compared | pc.is_nan(column) if above else compared

    def _sides(self, column: Any, value: Any) -> _Compared | None:
        field = self._column(column)
        if field is None:
            return None
        given = _value(value.unnest(), field.type)
        return None if given is None else _Compared(field, given)

    def _column(self, node: Any) -> pa.Field | None:
        node = node.unnest()
        if not isinstance(node, exp.Column) or len(node.parts) > 2:
            return None
        if node.table and node.table.lower() != self._alias:
            return None
        field = self.named(node.name)
        if field is not None:
            self.used.add(field.name)
        return field


def _value(node: Any, wanted: pa.DataType) -> pa.Scalar | None:
    """A literal that means to a column of this type what it means to Spark."""
    if isinstance(node, exp.Boolean):
        return pa.scalar(bool(node.this)) if pa.types.is_boolean(wanted) else None
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal):
        return None
    text = str(literal.this)
    if literal.is_string:
        # Quotes and escapes inside a text are read by settings of Spark's.
        plain = pa.types.is_string(wanted) and not negative and text.isprintable() and not set(text) & set("\\'")
        return pa.scalar(text) if plain else None
    number = f"-{text}" if negative else text
    if pa.types.is_signed_integer(wanted):
        return pa.scalar(int(number)) if text.isdecimal() and int(text) < _WHOLE else None
    if pa.types.is_float64(wanted) and text.replace(".", "", 1).isdecimal():
        return pa.scalar(float(number))
    return None
