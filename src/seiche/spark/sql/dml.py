"""Statements that change rows, executed: Spark reads, joins and writes; the transaction keeps what they amount to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from seiche.errors import InvalidInput
from seiche.lake.objects.names import Name
from seiche.spark.casting import is_strict
from seiche.spark.explaining import explained
from seiche.spark.names import quoted
from seiche.spark.scanning import GROUP
from seiche.spark.sql.failures import as_input_errors
from seiche.spark.sql.merging import MergeColumns
from seiche.spark.sql.pruning import starred
from seiche.spark.sql.queries import Expression, dotted
from seiche.spark.sql.reading import Reader, as_frame
from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.relations import qualified, table
from seiche.spark.sql.statements import Delete, Insert, Merge, Update
from seiche.spark.sql.storing import check_storable, column_of, fitted
from seiche.spark.types import spark_schema
from seiche.table.change import Result
from seiche.table.data.scanning import ADDRESS

__all__ = ["Changed", "execute"]

# What the rows to be changed are joined by, and the new values that they bring.
_AT = "_seiche_at"
_NEW = "_seiche_new_"


@dataclass(frozen=True, slots=True)
class Changed:
    """How many rows a statement has changed."""

    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def execute(statement: Insert | Update | Delete | Merge, reader: Reader) -> Changed:
    """Do it, as part of the reader's transaction. An error leaves the transaction as it was."""
    with as_input_errors():
        return _VERBS[type(statement)](statement, reader)


def _insert(statement: Insert, reader: Reader) -> Changed:
    name = qualified(statement.table, reader.namespace)
    target = table(reader.tx, name)
    _check_ansi(reader)
    frame = fitted(reader.frame(statement.query), target.schema, name, statement.columns, by_name=statement.by_name)
    verb = reader.tx.overwrite if statement.overwrite else reader.tx.append
    done = verb(name, frame)
    return Changed(done.rows, inserted=done.rows)


def _delete(statement: Delete, reader: Reader) -> Changed:
    name = qualified(statement.table, reader.namespace)
    target = table(reader.tx, name)
    said = [statement.where] if statement.where else []
    _check_names(name, target.schema, *said)
    _refuse_stars(statement.alias or name[-1], *said)
    if statement.where is None:
        done = reader.tx.delete(name, "true")
    elif _keeps_names(statement.where):
        frame = _affected(reader, name, statement.alias, statement.where, {})
        merge = reader.tx.merge(name, frame, condition=f"target.{ADDRESS} = source.{_AT}")
        done = merge.when_matched_delete().execute()
    else:
        condition = _plain(statement.where, name, statement.alias, target.schema)
        done = reader.tx.delete(name, condition)
    return Changed(done.rows, deleted=done.rows)


def _update(statement: Update, reader: Reader) -> Changed:
    name = qualified(statement.table, reader.namespace)
    target = table(reader.tx, name)
    _check_ansi(reader)
    alias, where = statement.alias, statement.where
    values = {column_of(target.schema, column, name): value for column, value in statement.assignments}
    said = [*values.values(), *([where] if where else [])]
    _check_names(name, target.schema, *said)
    _refuse_stars(alias or name[-1], *said)
    # What the values are is looked at in any case: names that do not exist and types that do not fit show here.
    frame = _affected(reader, name, alias, where, values)
    shown = {field.name: field.dataType for field in spark_schema(target.schema)}
    for number, column in enumerate(values):
        check_storable(frame.schema[f"{_NEW}{number}"].dataType, shown[column], column)
    if any(map(_keeps_names, said)):
        merge = reader.tx.merge(name, frame, condition=f"target.{ADDRESS} = source.{_AT}")
        sets = {column: f"source.{_NEW}{number}" for number, column in enumerate(values)}
        done = merge.when_matched_update(sets).execute()
    else:
        sets = {column: _plain(value, name, alias, target.schema) for column, value in values.items()}
        condition = None if where is None else _plain(where, name, alias, target.schema)
        done = reader.tx.update(name, sets, condition)
    return Changed(done.rows, updated=done.rows)


def _affected(
    reader: Reader, name: Name, alias: str | None, where: Expression | None, values: dict[str, Expression]
) -> Any:
    """The rows that a statement is about, each by its address, with new values; any SQL can say which and what."""
    with explained(lambda: _selected(reader, name, alias, where, values, [])):
        return _selected(reader, name, alias, where, values, [f"{quoted(alias or name[-1])}.{ADDRESS} AS {_AT}"])


def _selected(
    reader: Reader,
    name: Name,
    alias: str | None,
    where: Expression | None,
    values: dict[str, Expression],
    places: list[str],
) -> Any:
    frames: dict[str, Any] = {"target": reader.tx.read(name, addresses=bool(places))}
    chosen = places or ["1"]
    around = name if alias is None else ()
    for number, value in enumerate(values.values()):
        chosen.append(f"({reader.expression(value, frames, around)}) AS {_NEW}{number}")
    written = f"SELECT {', '.join(chosen)} FROM {{target}} AS {quoted(alias or name[-1])}"
    if where is not None:
        written += f" WHERE {reader.expression(where, frames, around)}"
    return as_frame(reader.lake.session, written, frames)


def _plain(expression: Expression, name: Name, alias: str | None, schema: Any) -> str:
    """An expression over the columns of one table, without the table's name before them."""
    edits = []
    for column in expression.tree.find_all(exp.Column):
        parts = dotted(column)
        names = tuple(part.name for part in parts)
        if alias is None and len(names) > len(name) and names[: len(name)] == name:
            edits.append((parts[0].meta["start"], parts[len(name)].meta["start"]))
        elif len(names) > 1 and names[0].lower() == (alias or name[-1]).lower() and not _is_struct(parts, schema):
            edits.append((parts[0].meta["start"], parts[1].meta["start"]))
    written, at = [], expression.start
    for start, end in sorted(edits):
        written.append(expression.text[at:start])
        at = end
    return "".join([*written, expression.text[at : expression.end]])


def _is_struct(parts: Any, schema: Any) -> bool:
    """Whether the first part is a column of the table rather than the table: only if the second is no column."""
    names = {name.lower() for name in schema.names}
    return parts[0].name.lower() in names and parts[1].name.lower() not in names


def _check_names(name: Name, schema: Any, *expressions: Expression) -> None:
    """The columns that we add to what Spark reads are no columns of the table, and cannot be spoken of."""
    for column in (one for expression in expressions for one in expression.tree.find_all(exp.Column)):
        if column.name.lower() in (ADDRESS, GROUP):
            column_of(schema, column.name, name)


def _refuse_stars(called: str, *expressions: Expression) -> None:
    """A star for the columns of the table, which is `called` so: it would stand for those that we add, too."""
    for expression in expressions:
        for star in expression.tree.find_all(exp.Star):
            of = starred(star.parent)
            own = star.find_ancestor(exp.Select) is expression.tree and not isinstance(star.parent, exp.Count)
            if of.lower() == called.lower() if of else own:
                what = "* is not understood in a condition or a value of a change"
                raise refusal(expression.text, expression.start, what, "Name the columns, as in struct(id, total).")


def _keeps_names(expression: Expression) -> bool:
    """Whether what stands before columns must stay there: inside a query, and in a function such as `x -> x + t.x`, of
    which the column would become the parameter.
    """
    inside = (one for function in expression.tree.find_all(exp.Lambda) for one in function.find_all(exp.Column))
    return _has_queries(expression) or any(len(column.parts) > 1 for column in inside)


def _has_queries(expression: Expression) -> bool:
    selects = expression.tree.find_all(exp.Query)
    return any(one is not expression.tree for one in selects)


def _merge(statement: Merge, reader: Reader) -> Changed:
    name = qualified(statement.table, reader.namespace)
    target = table(reader.tx, name)
    _check_ansi(reader)
    for one in _expressions(statement):
        if _has_queries(one):
            raise refusal(one.text, one.start, "a query inside a condition or value of a merge is not understood")
    _check_names(name, target.schema, *_expressions(statement))
    source = reader.frame(statement.source)
    with as_input_errors({"target": statement.alias or name[-1], "source": statement.source_alias}):
        columns = MergeColumns.of(statement, name, target.schema, source)
        merge = reader.tx.merge(name, columns.source, columns.on, condition=columns.condition)
        for clause in columns.clauses:
            merge._with(clause)
        done = merge.execute()
    counts = {key: _count(done, key) for key in ("inserted", "updated", "deleted")}
    return Changed(sum(counts.values()), **counts)


def _check_ansi(reader: Reader) -> None:
    """Without ANSI mode, a number that does not fit a column is cut off, silently."""
    if not is_strict(reader.lake.session):
        raise InvalidInput(
            "values cannot be stored while spark.sql.ansi.enabled is off: what does not fit would be changed silently",
            remedy="Say spark.conf.set('spark.sql.ansi.enabled', 'true').",
        )


def _count(done: Result, key: str) -> int:
    found = done.notes.get(key, 0)
    return found if isinstance(found, int) else 0


def _expressions(statement: Merge) -> Iterator[Expression]:
    yield statement.on
    for clause in statement.clauses:
        if clause.condition is not None:
            yield clause.condition
        yield from (value for _, value in clause.assignments or ())


_VERBS: dict[type, Callable[[Any, Reader], Changed]] = {
    Insert: _insert,
    Delete: _delete,
    Update: _update,
    Merge: _merge,
}
