"""A merge in SQL, put into the words of the transaction's merge: `source` and `target`, and a key of equal names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from seiche.errors import InvalidInput
from seiche.lake.objects.names import Name, text
from seiche.spark.dml.changing import empty
from seiche.spark.names import quoted
from seiche.spark.sql.queries import Expression, conjuncts, dotted
from seiche.spark.sql.statements import Merge, MergeClause
from seiche.spark.sql.storing import check_storable, column_of
from seiche.spark.types import spark_schema
from seiche.table.data.merge.clauses import Clause

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["MergeColumns"]


@dataclass(frozen=True, slots=True)
class MergeColumns:
    """What the transaction's merge is given.

    Rows that belong together by equal columns alone are merged `on` these: then of two merges that insert the same key
    at the same time, one fails. Anything else is a `condition`.
    """

    source: "DataFrame"
    on: tuple[str, ...]
    condition: str | None
    clauses: tuple[Clause, ...]

    @classmethod
    def of(cls, statement: Merge, name: Name, schema: "pa.Schema", source: "DataFrame") -> "MergeColumns":
        """The merge that a statement asks for; `InvalidInput` if a column of it does not exist."""
        _check_columns(source)
        sides = _Sides(statement, name, schema, source)
        keys = _keys(statement, sides)
        clauses = [_clause(clause, sides, keys) for clause in statement.clauses]
        if keys and any(set(clause.assignments or ()) & set(keys) for clause in clauses if clause.action == "update"):
            # A key that gets another value is no key to merge on.
            keys = {}
            clauses = [_clause(clause, sides, keys) for clause in statement.clauses]
        _check_types(clauses, schema, source, None if keys else sides.written(statement.on))
        if not keys:
            return cls(source, (), sides.written(statement.on), tuple(clauses))
        return cls(_renamed(source, keys), tuple(keys), None, tuple(clauses))


class _Sides:
    """What columns of either side are called in the statement, and how the merge wants to have them written."""

    def __init__(self, statement: Merge, name: Name, schema: "pa.Schema", source: "DataFrame") -> None:
        self.table = name
        self.schema = schema
        self.columns = {column.lower(): column for column in source.columns}
        self._aliases = {(statement.alias or name[-1]).lower(): "target", statement.source_alias.lower(): "source"}
        # What has no alias may be called by its whole name, too.
        self._tables = {} if statement.alias else {name: "target"}
        if statement.source_table is not None:
            self._tables[statement.source_table] = "source"

    def side(self, column: Any) -> tuple[str | None, int]:
        """`target` or `source`, by what stands before the column, and of how many words that is; else `None`."""
        names = tuple(part.name for part in dotted(column))
        for size in range(len(names) - 1, 1, -1):
            if names[:size] in self._tables:
                return self._tables[names[:size]], size
        found = self._aliases.get(names[0].lower()) if len(names) > 1 else None
        return found, 0 if found is None else 1

    def written(self, expression: Expression) -> str:
        """An expression with `target.` and `source.` before the columns."""
        edits = []
        for column in expression.tree.find_all(exp.Column):
            (side, size), words = self.side(column), dotted(column)
            first = words[0]
            if _is_parameter(column):
                continue
            if side is not None:
                edits.append((first.meta["start"], words[size - 1].meta["end"] + 1, side))
            elif self.owner(first.name) is not None:
                edits.append((first.meta["start"], first.meta["start"], f"{self.owner(first.name)}."))
        pieces, at = [], expression.start
        for start, end, new in sorted(edits):
            pieces += [expression.text[at:start], new]
            at = end
        return "".join([*pieces, expression.text[at : expression.end]])

    def owner(self, name: str) -> str | None:
        """The side that has a column of this name; `None` if it is not one alone."""
        in_target = any(one.lower() == name.lower() for one in self.schema.names)
        in_source = name.lower() in self.columns
        return None if in_target == in_source else "target" if in_target else "source"

    def of_source(self, column: str) -> str:
        """The column of the source that `*` takes for one of the table."""
        found = self.columns.get(column.lower())
        if found is None:
            raise InvalidInput(
                f"the source of the merge has no column {column!r}, which * of {text(self.table)} needs",
                remedy="Name the columns: UPDATE SET a = s.a, or INSERT (a) VALUES (s.a).",
                column=column,
            )
        return f"source.{quoted(found)}"


def _is_parameter(column: Any) -> bool:
    """Whether it is what a function around it, such as `X -> x + 1`, calls its own: to Spark capitals do not count."""
    name = column.parts[0].name.lower()
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Lambda) and any(one.name.lower() == name for one in node.expressions):
            return True
        node = node.parent
    return False


def _check_columns(source: "DataFrame") -> None:
    seen = [column.lower() for column in source.columns]
    twice = next((one for one in seen if seen.count(one) > 1), None)
    if twice is not None:
        raise InvalidInput(
            f"the source of the merge has two columns {twice!r}", remedy="Give one of them another name.", column=twice
        )


def _keys(statement: Merge, sides: _Sides) -> dict[str, str]:
    """The columns of the table, each with that of the source that it must be equal to, if nothing else is said."""
    keys: dict[str, str] = {}
    for one in conjuncts(statement.on.tree.expressions[0]):
        pair = _pair(one, sides) if type(one) is exp.EQ else None
        if pair is None or pair[0] in keys:
            return {}
        keys[pair[0]] = pair[1]
    # A column of the source that is called like a key, but is not compared with it, would be taken for it.
    for target, source in keys.items():
        if source.lower() != target.lower() and target.lower() in sides.columns:
            return {}
    return keys if len(set(keys.values())) == len(keys) else {}


def _pair(equal: Any, sides: _Sides) -> tuple[str, str] | None:
    found: dict[str, str] = {}
    for column in (equal.this, equal.expression):
        words = dotted(column)
        if not words:
            return None
        side, size = sides.side(column)
        side = side or sides.owner(words[-1].name)
        if side is None or len(words) > size + 1:
            return None
        found[side] = words[-1].name
    if len(found) < 2 or found["source"].lower() not in sides.columns:
        return None
    target = column_of(sides.schema, found["target"], sides.table)
    return target, sides.columns[found["source"].lower()]


def _renamed(source: "DataFrame", keys: Mapping[str, str]) -> "DataFrame":
    """The source with its keys also under the names that the table has for them."""
    from pyspark.sql.functions import col

    for target, key in keys.items():
        if target not in source.columns:
            source = (
                source.withColumnRenamed(key, target)
                if key.lower() == target.lower()
                else source.withColumn(target, col(quoted(key)))
            )
    return source


def _clause(clause: MergeClause, sides: _Sides, keys: Mapping[str, str]) -> Clause:
    condition = None if clause.condition is None else sides.written(clause.condition)
    assignments: dict[str, str] | None = None
    if clause.action != "delete" and clause.assignments is None:
        left_out = set(keys) if clause.action == "update" else set()
        assignments = {name: sides.of_source(name) for name in sides.schema.names if name not in left_out}
    elif clause.assignments is not None:
        assignments = {}
        for column, value in clause.assignments:
            name = column_of(sides.schema, column, sides.table)
            written = sides.written(value)
            if clause.action == "update" and name in keys and _is_key(value, sides, keys[name]):
                continue  # set to what it is equal to
            assignments[name] = written
    return Clause(clause.side, clause.action, assignments, condition)


def _is_key(value: Expression, sides: _Sides, key: str) -> bool:
    column = value.tree.expressions[0]
    words = dotted(column)
    return bool(words) and sides.side(column) == ("source", len(words) - 1) and words[-1].name.lower() == key.lower()


def _check_types(clauses: list[Clause], schema: "pa.Schema", source: "DataFrame", on: str | None) -> None:
    """Values must be what SQL's assignment takes, and conditions must be some, over the sides that a clause has."""
    shown = {field.name: field.dataType for field in spark_schema(schema)}
    target, source = empty(source.sparkSession, schema).alias("target"), source.alias("source")
    both = target.crossJoin(source)
    sides = {"matched": both, "not matched": source, "not matched by source": target}
    if on is not None:
        both.where(on)
    for clause in clauses:
        if clause.condition is not None:
            sides[clause.side].where(clause.condition)
        # All at once: Spark looks at the columns of both sides anew each time.
        said = clause.assignments or {}
        values = sides[clause.side].selectExpr(*(f"({value}) AS value" for value in said.values())).schema
        for name, found in zip(said, values, strict=True):
            check_storable(found.dataType, shown[name], name)
