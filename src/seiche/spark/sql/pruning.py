"""What a query needs of a table, found before Spark plans the scan: it cannot ask for less by itself.

Columns: those whose names are words of the query, wherever they stand and whatever they mean there. It is a little
more than what is needed, and never less; a finer answer would have to resolve names exactly as Spark does, and where it
erred, an inner query could find its column in an outer one, silently.

Rows: conditions of the WHERE right above the table that compare a column with a value, in types where the storage
engine and Spark agree to the letter. Spark still applies the whole WHERE: what is left out here costs time only.
"""

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from seiche.spark.sql.queries import Query, TableReference, conjuncts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["bare_count", "needed_columns", "pushed_filter", "starred"]

_COMPARED: "dict[type[Any], str]" = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PATTERNS = frozenset("()[]{}|*+?.^$\\")
_SMALLEST = "-1.7976931348623157e308"


def needed_columns(query: Query, table: TableReference, schema: pa.Schema) -> list[str] | None:
    """The columns of a table that a query could name; `None` if it may see all of them."""
    select = table.node.find_ancestor(exp.Select)
    if select is None or _sees_all(select, table):
        return None
    named = query.identifiers
    if any(map(_is_pattern, named - {name.lower() for name in schema.names})):
        return None
    found = [name for name in schema.names if name.lower() in named]
    if len(found) == len(schema.names):
        return None
    # Rows are counted by reading something: the column that is least to read.
    return found or [min(schema, key=_width).name]


def _sees_all(select: Any, table: TableReference) -> bool:
    # Wherever it stands: joins in brackets are not among those of the SELECT.
    natural = any(join.method == "NATURAL" for join in select.find_all(exp.Join))
    around = list(_in_brackets(select, table.node))
    if natural or table.node.args.get("pivots") or any(map(_is_renamed, around)):
        return True
    if any(pivot.find_ancestor(exp.Select) is select for pivot in select.find_all(exp.Pivot)):
        return True
    called = {table.alias.lower(), *(node.alias.lower() for node in around)}
    for star in select.find_all(exp.Star):
        of = starred(star.parent)
        # `LATERAL (SELECT o.*)` is about the table too, from inside; a star alone is about what its own SELECT reads.
        own = star.find_ancestor(exp.Select) is select and not isinstance(star.parent, exp.Count)
        if of.lower() in called if of else own:
            return True
    return False


def starred(node: Any) -> str:
    """Whose star it is, if that is said: `o` of `o.*`, `d` of `a.b.c.d.*`."""
    if isinstance(node, exp.Dot):
        return str(node.this.name)
    return str(node.table) if isinstance(node, exp.Column) else ""


def _is_pattern(name: str) -> bool:
    """Whether a name in backquotes can be one for several columns, as `(id)?+.+` is for all others while
    spark.sql.parser.quotedRegexColumnNames is on.
    """
    return not _PATTERNS.isdisjoint(name)


def _in_brackets(select: Any, node: Any) -> "Iterator[Any]":
    """A table of a SELECT, and whatever stands around it there and can call its columns otherwise: `(orders) AS o`."""
    while node is not select:
        if isinstance(node, (exp.Table, exp.Subquery)):
            yield node
        node = node.parent


def _is_renamed(node: Any) -> bool:
    """Whether the columns get other names, by their order: `orders AS o(a, b)`."""
    alias = node.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _width(field: pa.Field) -> tuple[bool, int]:
    try:
        return False, int(field.type.bit_width)
    except ValueError:
        return True, 0


def pushed_filter(table: TableReference, schema: pa.Schema) -> str | None:
    """A condition for the storage engine that is true for every row of the table that can matter; `None` for all."""
    select = table.node.find_ancestor(exp.Select)
    where = None if select is None else select.args.get("where")
    if where is None or not _is_plain(select, table):
        return None
    alone = not (select.args.get("joins") or select.args.get("laterals"))
    conditions = [_condition(one, _Columns(table.alias, schema, alone=alone)) for one in conjuncts(where.this)]
    found = [one for one in conditions if one is not None]
    return " AND ".join(found) if found else None


def _is_plain(select: Any, table: TableReference) -> bool:
    """Whether the WHERE is about the rows of the table as they are: not of a sample, nor after an outer join."""
    node = table.node
    if node.args.get("pivots") or node.args.get("sample") or select.args.get("laterals") or _is_renamed(node):
        return False
    joins = select.args.get("joins") or []
    first = select.args.get("from_")
    if first is not None and first.this is node:
        return all(join.side in {"", "LEFT"} and join.method != "NATURAL" for join in joins)
    own = next((join for join in joins if join.this is node), None)
    if own is None or own.kind in {"SEMI", "ANTI"}:
        return False
    return all(join.side == "" and join.method != "NATURAL" for join in joins)


class _Columns:
    """The columns that a condition can be about."""

    def __init__(self, alias: str, schema: pa.Schema, *, alone: bool) -> None:
        self._alias = alias.lower()
        self._alone = alone
        self._fields = {field.name.lower(): field for field in schema}
        if len(self._fields) < len(schema):
            self._fields = {}  # names that differ in case only: which is meant is for Spark to say

    def field(self, node: Any) -> pa.Field | None:
        if not isinstance(node, exp.Column) or len(node.parts) > 2:
            return None
        if (node.table.lower() != self._alias) if node.table else not self._alone:
            return None
        field = self._fields.get(node.name.lower())
        return None if field is None or any(one in field.name for one in "`.\\") else field


def _condition(node: Any, columns: _Columns) -> str | None:
    """A condition as the storage engine reads it; `None` if it cannot be had there exactly."""
    while isinstance(node, exp.Paren):
        node = node.this
    if type(node) in _COMPARED:
        operator = _COMPARED[type(node)]
        found = _comparison(node.this, operator, node.expression, columns)
        return found or _comparison(node.expression, _TURNED[operator], node.this, columns)
    if isinstance(node, exp.In):
        return _membership(node, columns)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = _comparison(node.this, ">=", node.args["low"], columns)
        high = _comparison(node.this, "<=", node.args["high"], columns)
        return None if low is None or high is None else f"{low} AND {high}"
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        field = columns.field(node.this)
        return None if field is None else f"{_name(field)} IS NULL"
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        field = columns.field(node.this.this)
        return None if field is None else f"{_name(field)} IS NOT NULL"
    if isinstance(node, exp.Or):
        left, right = _condition(node.this, columns), _condition(node.expression, columns)
        return None if left is None or right is None else f"(({left}) OR ({right}))"
    return None


def _comparison(column: Any, operator: str, value: Any, columns: _Columns) -> str | None:
    field = columns.field(column)
    literal = None if field is None else _literal(value, field.type)
    if field is None or literal is None:
        return None
    plain = f"{_name(field)} {operator} {literal}"
    if pa.types.is_float64(field.type) and operator in {">", ">="}:
        # To Spark, every NaN is above all numbers; to the storage engine, one with a minus sign is below them.
        return f"({plain} OR {_name(field)} < {_SMALLEST})"
    return plain


def _membership(node: Any, columns: _Columns) -> str | None:
    field = columns.field(node.this)
    given = node.expressions
    if field is None or node.args.get("query") or not given:
        return None
    literals = [_literal(one, field.type) for one in given]
    if any(one is None for one in literals):
        return None
    return f"{_name(field)} IN ({', '.join(one for one in literals if one is not None)})"


def _literal(node: Any, wanted: pa.DataType) -> str | None:
    """A value as the storage engine reads it, if it means there to such a column what it means to Spark."""
    for fits, make in _LITERALS:
        if fits(wanted):
            return make(node, wanted)
    return None


def _number(node: Any) -> str | None:
    negative = isinstance(node, exp.Neg)
    inner = node.this if negative else node
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    return f"-{inner.this}" if negative else str(inner.this)


def _whole(node: Any, wanted: pa.DataType) -> str | None:
    text = _number(node)
    if text is None or not text.removeprefix("-").isdecimal():
        return None
    # Of 64 bits the lowest is not read as a whole number there: the minus sign comes after the digits.
    return text if abs(int(text)) < 1 << (wanted.bit_width - 1) else None


def _double(node: Any, _: pa.DataType) -> str | None:
    text = _number(node)
    # Zero has two signs, which are equal to Spark; and what is no plain number here is better left to Spark.
    if text is None or not text.removeprefix("-").replace(".", "", 1).isdecimal() or float(text) == 0:
        return None
    return repr(float(text))


def _text(node: Any, _: pa.DataType) -> str | None:
    # Quotes and escapes inside a text are read by settings of Spark's.
    if not isinstance(node, exp.Literal) or not node.is_string or any(one in "\\'" for one in node.this):
        return None
    return f"'{node.this}'" if str(node.this).isprintable() else None


def _date(node: Any, _: pa.DataType) -> str | None:
    if not isinstance(node, exp.Cast) or not node.to.is_type("date"):
        return None
    text = _text(node.this, pa.string())
    return f"date {text}" if text is not None and _is_day(text[1:-1]) else None


def _is_day(text: str) -> bool:
    """Whether it is written as everybody writes one; what Spark makes of anything else is for Spark to say."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _boolean(node: Any, _: pa.DataType) -> str | None:
    return str(node.this).lower() if isinstance(node, exp.Boolean) else None


_LITERALS: "tuple[tuple[Callable[[Any], bool], Callable[[Any, Any], str | None]], ...]" = (
    (pa.types.is_signed_integer, _whole),
    (pa.types.is_float64, _double),
    (lambda wanted: pa.types.is_string(wanted) or pa.types.is_large_string(wanted), _text),
    (pa.types.is_date32, _date),
    (pa.types.is_boolean, _boolean),
)


def _name(field: pa.Field) -> str:
    return f"`{field.name}`"


def bare_count(query: Query, *, filtered: bool = False) -> tuple[TableReference, str] | None:
    """The table, and what the result is called, if the query asks for the number of its rows and nothing else.

    With `filtered`, also if it has a WHERE.
    """
    select = query.tree
    given = {name for name, value in getattr(select, "args", {}).items() if value}
    if filtered:
        given.discard("where")
    if not isinstance(select, exp.Select) or given != {"expressions", "from_"} or len(query.tables) != 1:
        return None
    (table,) = query.tables
    plain = {name for name, value in table.node.args.items() if value} <= {"this", "db", "catalog", "alias"}
    if select.args["from_"].this is not table.node or not plain or len(select.expressions) != 1:
        return None
    wanted = select.expressions[0]
    alias = wanted.alias if isinstance(wanted, exp.Alias) else "count(1)"
    count = wanted.this if isinstance(wanted, exp.Alias) else wanted
    if not isinstance(count, exp.Count) or not isinstance(count.this, exp.Star) or count.expressions:
        return None
    return (table, alias) if not (count.this.args.get("except_") or _is_renamed(table.node)) else None
