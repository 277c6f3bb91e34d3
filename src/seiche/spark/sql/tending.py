"""The grammar of what is neither a query nor a change: SHOW, DESCRIBE, OPTIMIZE, VACUUM and CALL."""

from datetime import UTC, datetime
from typing import Any

from seiche.spark.sql import statements as made
from seiche.spark.sql.changing import rest_as_query
from seiche.spark.sql.statements import Statement
from seiche.spark.sql.words import Cursor

__all__ = ["parse_call", "parse_describe", "parse_optimize", "parse_show", "parse_vacuum"]

_NAMESPACES = ("NAMESPACES", "SCHEMAS", "DATABASES")


def parse_show(cursor: Cursor) -> Statement:
    """SHOW NAMESPACES | TABLES | VIEWS | COLUMNS | TBLPROPERTIES | CREATE TABLE | TAGS | VERSIONS"""
    cursor.expect("SHOW")
    if cursor.one_of(*_NAMESPACES):
        return made.Show("namespaces", _inside(cursor), _like(cursor))
    if cursor.take("TABLES"):
        return made.Show("tables", _inside(cursor), _like(cursor))
    if cursor.take("VIEWS"):
        return made.Show("views", _inside(cursor), _like(cursor))
    if cursor.take("TAGS"):
        return made.Show("tags", (), _like(cursor))
    if cursor.take("VERSIONS"):
        return made.Show("versions")
    return _shown_table(cursor)


def _shown_table(cursor: Cursor) -> Statement:
    if cursor.take("COLUMNS", "IN") or cursor.take("COLUMNS", "FROM"):
        return made.Show("columns", cursor.name("a table"))
    if cursor.take("TBLPROPERTIES"):
        return made.Show("properties", cursor.name("a table"))
    if cursor.take("CREATE", "TABLE"):
        return made.Show("create", cursor.name("a table"))
    return cursor.refuse(
        "NAMESPACES, TABLES, VIEWS, COLUMNS IN, TBLPROPERTIES, CREATE TABLE, TAGS or VERSIONS was expected"
    )


def parse_describe(cursor: Cursor) -> Statement:
    """DESCRIBE [TABLE] [EXTENDED] name | NAMESPACE name | HISTORY name | [QUERY] query"""
    cursor.next()
    follows = cursor.ahead(1).sort in {"word", "quoted"}
    if follows and cursor.one_of("NAMESPACE", "SCHEMA", "DATABASE"):
        extended = cursor.ahead(1).sort in {"word", "quoted"} and cursor.take("EXTENDED")
        return made.Describe("namespace", cursor.name("a namespace"), extended)
    if follows and cursor.take("HISTORY"):
        return made.Describe("history", cursor.name("a table"))
    if cursor.take("QUERY") or cursor.here.key in {"SELECT", "WITH", "VALUES"}:
        return made.Describe("query", query=rest_as_query(cursor))
    if follows:
        cursor.take("TABLE")
    extended = cursor.ahead(1).sort in {"word", "quoted"} and cursor.one_of("EXTENDED", "FORMATTED") is not None
    return made.Describe("table", cursor.name("a table"), extended)


def parse_optimize(cursor: Cursor) -> Statement:
    """OPTIMIZE name"""
    cursor.expect("OPTIMIZE")
    name = cursor.name("a table")
    if not cursor.done:
        cursor.refuse("OPTIMIZE compacts a whole table", "CALL seiche.compact(...) has options.")
    return made.Optimize(name)


def parse_vacuum(cursor: Cursor) -> Statement:
    """VACUUM [name] [DRY RUN]"""
    cursor.expect("VACUUM")
    name = () if cursor.done or cursor.sees("DRY", "RUN") else cursor.name("a table")
    if cursor.sees("RETAIN"):
        cursor.refuse(
            "how long versions are kept is for the lake to say",
            "CALL seiche.expire(older_than => '7d') gives up old versions, VACUUM then clears their files away.",
        )
    return made.Vacuum(name, cursor.take("DRY", "RUN"))


def parse_call(cursor: Cursor) -> Statement:
    """CALL seiche.procedure(value, name => value)"""
    cursor.expect("CALL")
    if not cursor.take("SEICHE", "."):
        cursor.refuse("procedures are called seiche.something")
    procedure = cursor.part("the name of a procedure").lower()
    cursor.expect("(")
    arguments: list[Any] = []
    named: dict[str, Any] = {}
    while not cursor.take(")"):
        if cursor.ahead(1).key == "=>":
            name = cursor.part("the name of an argument").lower()
            cursor.expect("=>")
            if name in named:
                cursor.refuse(f"{name} is given twice")
            named[name] = _value(cursor)
        elif named:
            cursor.refuse("arguments without a name come first")
        else:
            arguments.append(_value(cursor))
        if not cursor.sees(")"):
            cursor.expect(",")
    return made.Call(procedure, tuple(arguments), named)


def _value(cursor: Cursor) -> Any:
    """A value that is written out."""
    word = cursor.here
    if word.sort == "string":
        return cursor.next().value
    if word.sort == "number" and word.value.isdecimal():
        return int(cursor.next().value)
    constants = {"TRUE": True, "FALSE": False, "NULL": None}
    if word.key in constants:
        cursor.next()
        return constants[word.key]
    if word.key == "TIMESTAMP" and cursor.ahead(1).sort == "string":
        cursor.next()
        return _time(cursor)
    if cursor.take("ARRAY", "("):
        values: list[Any] = []
        while not cursor.take(")"):
            values.append(_value(cursor))
            if not cursor.sees(")"):
                cursor.expect(",")
        return values
    return cursor.refuse("a text, a whole number, TRUE, FALSE, NULL, TIMESTAMP '...' or ARRAY(...) was expected")


def _time(cursor: Cursor) -> datetime:
    try:
        time = datetime.fromisoformat(cursor.here.value)
    except ValueError:
        cursor.refuse("it is not a time", "Write it as '2030-12-31T23:59:59+01:00'.")
    cursor.next()
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _inside(cursor: Cursor) -> tuple[str, ...]:
    return cursor.name("a namespace") if cursor.one_of("IN", "FROM") else ()


def _like(cursor: Cursor) -> str | None:
    if cursor.take("LIKE"):
        return cursor.string()
    return cursor.next().value if cursor.here.sort == "string" else None
