"""From the text of a statement to its value.

The first word decides; each kind of statement is then read word by word, and a word that is not expected refuses the
statement. Queries and expressions inside are found by their place and looked into by `queries`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn

from seiche.errors import InvalidInput
from seiche.spark.sql import statements as made
from seiche.spark.sql.changing import parse_delete, parse_insert, parse_merge, parse_truncate, parse_update
from seiche.spark.sql.defining import parse_alter, parse_create, parse_drop
from seiche.spark.sql.queries import parse_query
from seiche.spark.sql.statements import Statement
from seiche.spark.sql.tending import parse_call, parse_describe, parse_optimize, parse_show, parse_vacuum
from seiche.spark.sql.words import Cursor, Word, words

__all__ = ["parse"]


def parse(text: str) -> Statement:
    """The statement in `text`; `InvalidInput` names what is not understood, and where it is."""
    found = list(words(text))
    while found and found[-1].key == ";":
        found.pop()
    if not found:
        raise InvalidInput("there is no statement", remedy="Write one, such as SHOW TABLES IN shop.")
    cursor = Cursor(text, found)
    for word in found:
        if word.key == ";":
            _refuse_at(text, found, word, "a second statement: give one at a time")
    first = found[0].key
    if first in _NAMED:
        cursor.refuse(_NAMED[first])
    reader = _READERS.get(first)
    if reader is None:
        cursor.refuse("no statement of a lake begins so", "`SHOW TABLES IN namespace` is one that does.")
    if first == "WITH" and any(word.key == "INSERT" for word in found):
        return parse_insert(cursor)
    statement = reader(cursor)
    cursor.end()
    return statement


def _refuse_at(text: str, found: list[Word], word: Word, what: str) -> NoReturn:
    Cursor(text, found[found.index(word) :]).refuse(what)


def _begin(cursor: Cursor) -> Statement:
    cursor.expect("BEGIN")
    if not cursor.take("TRANSACTION"):
        cursor.take("WORK")
    if cursor.take("ISOLATION", "LEVEL"):
        level = cursor.one_of("SNAPSHOT", "SERIALIZABLE")
        if level is None:
            cursor.refuse("SNAPSHOT or SERIALIZABLE was expected")
        return made.Begin("serializable" if level == "SERIALIZABLE" else "snapshot")
    return made.Begin()


def _ending(statement: Callable[[], Statement]) -> Callable[[Cursor], Statement]:
    def reader(cursor: Cursor) -> Statement:
        cursor.next()
        if not cursor.take("TRANSACTION"):
            cursor.take("WORK")
        return statement()

    return reader


def _select(cursor: Cursor) -> Statement:
    start = cursor.here.start
    while not cursor.done:
        cursor.next()
    return made.Select(parse_query(cursor.text, start, cursor.behind))


def _use(cursor: Cursor) -> Statement:
    cursor.expect("USE")
    if cursor.ahead(1).sort in {"word", "quoted"}:
        cursor.one_of("NAMESPACE", "SCHEMA", "DATABASE")
    return made.Use(cursor.name("a namespace"))


_READERS: Final[Mapping[str, Callable[[Cursor], Statement]]] = MappingProxyType(
    {
        "BEGIN": _begin,
        "COMMIT": _ending(made.Commit),
        "ROLLBACK": _ending(made.Rollback),
        "SELECT": _select,
        "WITH": _select,
        "VALUES": _select,
        "FROM": _select,
        "(": _select,
        "INSERT": parse_insert,
        "UPDATE": parse_update,
        "DELETE": parse_delete,
        "TRUNCATE": parse_truncate,
        "MERGE": parse_merge,
        "CREATE": parse_create,
        "DROP": parse_drop,
        "ALTER": parse_alter,
        "USE": _use,
        "SHOW": parse_show,
        "DESCRIBE": parse_describe,
        "DESC": parse_describe,
        "OPTIMIZE": parse_optimize,
        "VACUUM": parse_vacuum,
        "CALL": parse_call,
    }
)
# What people try, with what to write instead.
_NAMED: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "START": "a transaction begins with BEGIN",
        "SAVEPOINT": "transactions of a lake have no savepoints",
        "RELEASE": "transactions of a lake have no savepoints",
        "END": "a transaction ends with COMMIT or ROLLBACK",
        "ABORT": "a transaction ends with COMMIT or ROLLBACK",
        "RESTORE": "the lake goes back with CALL seiche.rollback(to => version)",
        "REPLACE": "a table is replaced with CREATE OR REPLACE TABLE",
        "TABLE": "all of a table is SELECT * FROM it",
        "SET": "settings are made on the Spark session",
        "EXPLAIN": "ask the data frame of the query: .explain()",
    }
)
