"""The grammar of statements that change rows: INSERT, UPDATE, DELETE, TRUNCATE and MERGE."""

from collections.abc import Mapping
from typing import Final

from seiche.lake.objects.names import Name
from seiche.spark.names import said_twice
from seiche.spark.sql import statements as made
from seiche.spark.sql.queries import Expression, Query, parse_expression, parse_query
from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.statements import Assignments, MergeAction, MergeClause, MergeSide, Statement
from seiche.spark.sql.words import Cursor

__all__ = ["parse_delete", "parse_insert", "parse_merge", "parse_truncate", "parse_update"]

_QUERY = ("SELECT", "VALUES", "WITH", "FROM", "(")
_ACTIONS: Final[Mapping[str, MergeAction]] = {"UPDATE": "update", "DELETE": "delete", "INSERT": "insert"}


def parse_insert(cursor: Cursor) -> Statement:
    """INSERT INTO | OVERWRITE [TABLE] name [(columns) | BY NAME] query"""
    if cursor.sees("WITH"):
        cursor.span("INSERT")
        cursor.refuse("the WITH of an INSERT stands behind the name of the table")
    cursor.expect("INSERT")
    overwrite = cursor.take("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    if cursor.sees("DIRECTORY") or cursor.sees("LOCAL"):
        cursor.refuse("rows go into tables only")
    if cursor.sees("TABLE") and cursor.ahead(1).sort in {"word", "quoted"}:
        cursor.take("TABLE")
    table = cursor.name("a table")
    by_name = cursor.take("BY", "NAME")
    columns = None
    if cursor.sees("(") and cursor.ahead(1).key not in _QUERY and not by_name:
        columns = parse_names(cursor)
    if cursor.sees("REPLACE"):
        cursor.refuse("INSERT replaces no part of a table", "BEGIN, DELETE FROM ... WHERE, INSERT INTO and COMMIT do.")
    if cursor.here.key in {"PARTITION", "IF", "TABLE", "DEFAULT"} or cursor.here.key not in _QUERY:
        cursor.refuse("a query was expected: SELECT or VALUES")
    return made.Insert(table, rest_as_query(cursor), columns, by_name, overwrite)


def parse_update(cursor: Cursor) -> Statement:
    """UPDATE name [AS alias] SET column = value, ... [WHERE condition]"""
    cursor.expect("UPDATE")
    table = cursor.name("a table")
    alias = parse_alias(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, table, alias, "WHERE", "FROM")
    if cursor.sees("FROM"):
        cursor.refuse("UPDATE has no FROM here", "Use MERGE INTO ... WHEN MATCHED THEN UPDATE.")
    where = _where(cursor)
    return made.Update(table, alias, assignments, where)


def parse_delete(cursor: Cursor) -> Statement:
    """DELETE FROM name [AS alias] [WHERE condition]"""
    cursor.expect("DELETE", "FROM")
    table = cursor.name("a table")
    if cursor.sees("USING"):
        cursor.refuse("DELETE has no USING here", "Use WHERE ... IN (SELECT ...), or MERGE INTO.")
    alias = parse_alias(cursor, "WHERE", "USING")
    return made.Delete(table, alias, _where(cursor))


def parse_truncate(cursor: Cursor) -> Statement:
    """TRUNCATE TABLE name"""
    cursor.expect("TRUNCATE", "TABLE")
    return made.Delete(cursor.name("a table"))


def parse_merge(cursor: Cursor) -> Statement:
    """MERGE INTO name [AS alias] USING source [AS alias] ON condition, and clauses"""
    cursor.expect("MERGE")
    if cursor.sees("WITH"):
        cursor.refuse("a merge does not change the columns of a table", "ALTER TABLE ... ADD COLUMN does.")
    cursor.expect("INTO")
    table = cursor.name("a table")
    alias = parse_alias(cursor, "USING")
    cursor.expect("USING")
    source, source_alias, source_table = _source(cursor)
    if source_alias.lower() == (alias or table[-1]).lower():
        cursor.refuse(f"table and source are both called {source_alias}", "Give one of them another name with AS.")
    cursor.expect("ON")
    on = parse_expression(cursor.text, *cursor.span("WHEN"))
    clauses = []
    while cursor.sees("WHEN"):
        clauses.append(_clause(cursor, table, alias))
    if not clauses:
        cursor.refuse("a merge needs at least one WHEN")
    _check_order(cursor, clauses)
    return made.Merge(table, alias, source, source_alias, on, tuple(clauses), source_table)


def parse_names(cursor: Cursor) -> tuple[str, ...]:
    """Names in brackets, with commas between."""
    cursor.expect("(")
    names = [cursor.part("the name of a column")]
    while cursor.take(","):
        names.append(cursor.part("the name of a column"))
    cursor.expect(")")
    return tuple(names)


def parse_alias(cursor: Cursor, *stops: str) -> str | None:
    """Another name for a table, if one is given."""
    if cursor.take("AS"):
        return cursor.part("another name")
    if cursor.here.sort == "quoted" or (cursor.here.sort == "word" and cursor.here.key not in stops):
        return cursor.part("another name")
    return None


def rest_as_query(cursor: Cursor) -> Query:
    """Everything that is left, as a query."""
    start = cursor.here.start
    while not cursor.done:
        cursor.next()
    return parse_query(cursor.text, start, cursor.behind)


def _where(cursor: Cursor) -> Expression | None:
    return parse_expression(cursor.text, *cursor.span()) if cursor.take("WHERE") else None


def _assignments(cursor: Cursor, table: Name, alias: str | None, *stops: str) -> Assignments:
    found: list[tuple[str, Expression]] = []
    while True:
        at = cursor.here.start
        column = cursor.name("the name of a column")
        if (len(column) == 2 and column[0].lower() == (alias or table[-1]).lower()) or (
            alias is None and column[:-1] == table
        ):
            column = column[-1:]
        if len(column) > 1:
            raise refusal(cursor.text, at, f"{'.'.join(column)} cannot be set: only whole columns can")
        if any(column[0].lower() == name.lower() for name, _ in found):
            raise refusal(cursor.text, at, f"{column[0]} is set twice")
        cursor.expect("=")
        if cursor.sees("DEFAULT"):
            cursor.refuse("columns of a lake know no DEFAULT")
        found.append((column[0], parse_expression(cursor.text, *cursor.span(",", *stops))))
        if not cursor.take(","):
            return tuple(found)


def _source(cursor: Cursor) -> tuple[Query, str, Name | None]:
    """The rows to merge, what they are called, and the table that they are if it has no other name: a table, which
    becomes a query for all of it, or a query in brackets.
    """
    start = cursor.here.start
    if cursor.take("("):
        inner = cursor.here.start
        cursor.span(")")
        query = parse_query(cursor.text, inner, cursor.behind)
        cursor.expect(")")
        alias = parse_alias(cursor, "ON")
        return query, alias or "source", None
    name = cursor.name("a table, or a query in brackets")
    while cursor.here.sort != "end" and cursor.here.key in {"FOR", "VERSION", "TIMESTAMP", "OF"}:
        cursor.next()
        if cursor.take("AS", "OF"):
            cursor.one_of("TIMESTAMP", "DATE")
            cursor.next()
    end = cursor.behind
    # Written in front of the name, over what is there: so the places of all words stay as they are.
    lead = "SELECT * FROM "
    text = " " * (start - len(lead)) + lead + cursor.text[start:end] if start >= len(lead) else ""
    if not text:
        cursor.refuse("the source of the merge is not understood")
    query = parse_query(text, start - len(lead), end)
    alias = parse_alias(cursor, "ON")
    return query, alias or name[-1], name if alias is None else None


def _clause(cursor: Cursor, table: Name, alias: str | None) -> MergeClause:
    at = cursor.here.start
    cursor.expect("WHEN")
    matched = not cursor.take("NOT")
    cursor.expect("MATCHED")
    by_source = False
    if not matched and cursor.take("BY"):
        by_source = cursor.one_of("SOURCE", "TARGET") == "SOURCE"
    condition = parse_expression(cursor.text, *cursor.span("THEN")) if cursor.take("AND") else None
    cursor.expect("THEN")
    can = ("UPDATE", "DELETE") if matched or by_source else ("INSERT",)
    action = cursor.one_of(*can)
    if action is None:
        raise refusal(cursor.text, at, f"this clause of the merge can only {' or '.join(can)}")
    side: MergeSide = "matched" if matched else "not matched by source" if by_source else "not matched"
    assignments = None
    if action == "UPDATE":
        cursor.expect("SET")
        if cursor.take("*"):
            if by_source:
                raise refusal(cursor.text, at, "where there is no row in the source, there is no * to take over")
        else:
            assignments = _assignments(cursor, table, alias, "WHEN")
    elif action == "INSERT":
        assignments = _values(cursor)
    return MergeClause(side, _ACTIONS[action], condition, assignments)


def _values(cursor: Cursor) -> Assignments | None:
    """`*`, or `(columns) VALUES (values)`"""
    if cursor.take("*"):
        return None
    at = cursor.here.start
    names = parse_names(cursor)
    if said_twice(names) is not None:
        raise refusal(cursor.text, at, "a column is named twice")
    cursor.expect("VALUES", "(")
    values = []
    while True:
        if cursor.sees("DEFAULT"):
            cursor.refuse("columns of a lake know no DEFAULT")
        values.append(parse_expression(cursor.text, *cursor.span(",", ")")))
        if not cursor.take(","):
            break
    cursor.expect(")")
    if len(values) != len(names):
        raise refusal(cursor.text, at, f"{len(names)} columns are named, but there are {len(values)} values")
    return tuple(zip(names, values, strict=True))


def _check_order(cursor: Cursor, clauses: list[MergeClause]) -> None:
    """Of the clauses about the same rows, only the last may be without a condition: none behind it is ever tried."""
    for at, clause in enumerate(clauses):
        if clause.condition is None and any(other.side == clause.side for other in clauses[at + 1 :]):
            what = f"a clause without a condition for rows that are {clause.side} must be the last one for these rows"
            raise refusal(cursor.text, 0, what)
