"""The grammar of definitions: CREATE, DROP and ALTER of tables, views and namespaces."""

from collections.abc import Callable

from seiche.spark.sql import statements as made
from seiche.spark.sql.changing import parse_names, rest_as_query
from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.statements import Statement
from seiche.spark.sql.types import parse_column, parse_columns, parse_type
from seiche.spark.sql.words import Cursor

__all__ = ["parse_alter", "parse_create", "parse_drop"]

_NAMESPACE = ("NAMESPACE", "SCHEMA", "DATABASE")
_FORMATS = {"SEICHE": "lance", "LANCE": "lance", "ICEBERG": "iceberg"}
_QUERY = ("SELECT", "WITH", "VALUES", "FROM", "(")


def parse_create(cursor: Cursor) -> Statement:
    """CREATE [OR REPLACE] TABLE | VIEW | NAMESPACE ..."""
    cursor.expect("CREATE")
    replace = cursor.take("OR", "REPLACE")
    if cursor.here.key in {"TEMPORARY", "TEMP", "GLOBAL"}:
        cursor.refuse("what is temporary belongs to Spark", "Use df.createOrReplaceTempView(name).")
    if cursor.take("TABLE"):
        return _table(cursor, replace=replace)
    if cursor.take("VIEW"):
        return _view(cursor, replace=replace)
    if not replace and cursor.one_of(*_NAMESPACE):
        return _namespace(cursor)
    return cursor.refuse("TABLE, VIEW or NAMESPACE was expected")


def parse_drop(cursor: Cursor) -> Statement:
    """DROP TABLE | VIEW | NAMESPACE [IF EXISTS] name"""
    cursor.expect("DROP")
    what = cursor.one_of("TABLE", "VIEW", *_NAMESPACE)
    if what is None:
        cursor.refuse("TABLE, VIEW or NAMESPACE was expected")
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name()
    if what == "TABLE":
        if cursor.sees("PURGE"):
            cursor.refuse("files stay as long as a kept version needs them", "VACUUM clears away what none needs.")
        return made.DropTable(name, if_exists)
    if what == "VIEW":
        return made.DropView(name, if_exists)
    cascade = cursor.one_of("CASCADE", "RESTRICT") == "CASCADE"
    return made.DropNamespace(name, if_exists, cascade)


def parse_alter(cursor: Cursor) -> Statement:
    """ALTER TABLE | VIEW | NAMESPACE name ..."""
    cursor.expect("ALTER")
    if cursor.take("VIEW"):
        name = cursor.name("a view")
        cursor.expect("AS")
        return made.CreateView(name, rest_as_query(cursor), or_replace=True, must_exist=True)
    if cursor.one_of(*_NAMESPACE):
        return _altered_namespace(cursor)
    cursor.expect("TABLE")
    name = cursor.name("a table")
    action = cursor.one_of("ADD", "DROP", "RENAME", "ALTER", "SET", "UNSET")
    if action is None:
        cursor.refuse("ADD, DROP, RENAME, ALTER COLUMN, SET or UNSET was expected")
    return made.AlterTable(name, _CHANGES[action](cursor))


def _if_not_exists(cursor: Cursor) -> bool:
    return cursor.take("IF", "NOT", "EXISTS")


def _table(cursor: Cursor, *, replace: bool) -> Statement:
    if_not_exists = _if_not_exists(cursor)
    if if_not_exists and replace:
        cursor.refuse("OR REPLACE and IF NOT EXISTS contradict each other")
    name = cursor.name("a table")
    if cursor.take("LIKE"):
        return made.CreateTable(name, like=cursor.name("a table"), if_not_exists=if_not_exists, or_replace=replace)
    columns = parse_columns(cursor) if cursor.sees("(") else None
    format_, properties = None, {}
    while True:
        if cursor.take("USING"):
            at = cursor.here
            format_ = _FORMATS.get(cursor.part("a format").upper())
            if format_ is None:
                said = f"{at.text} is no format of tables in a lake: seiche, lance and iceberg are"
                raise refusal(cursor.text, at.start, said)
        elif cursor.take("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.take("TBLPROPERTIES"):
            properties |= _properties(cursor)
        elif cursor.here.key in {"PARTITIONED", "CLUSTERED", "LOCATION", "OPTIONS", "STORED", "ROW", "WITH"}:
            cursor.refuse(f"tables of a lake know no {cursor.here.key}")
        else:
            break
    query = None
    if columns is None:
        cursor.take("AS")
        if cursor.here.key not in _QUERY:
            cursor.refuse("columns or AS with a query were expected")
        query = rest_as_query(cursor)
    elif cursor.sees("AS"):
        cursor.refuse("the columns are those of the query: do not name them")
    return made.CreateTable(name, columns, None, query, if_not_exists, replace, format_, properties)


def _view(cursor: Cursor, *, replace: bool) -> Statement:
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("a view")
    columns = parse_names(cursor) if cursor.sees("(") else ()
    properties: dict[str, str] = {}
    while True:
        if cursor.take("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.take("TBLPROPERTIES"):
            properties |= _properties(cursor)
        else:
            break
    cursor.expect("AS")
    return made.CreateView(
        name, rest_as_query(cursor), columns, if_not_exists, or_replace=replace, properties=properties
    )


def _namespace(cursor: Cursor) -> Statement:
    if_not_exists = _if_not_exists(cursor)
    name = cursor.name("a namespace")
    properties: dict[str, str] = {}
    while True:
        if cursor.take("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.take("WITH", "PROPERTIES") or cursor.take("WITH", "DBPROPERTIES"):
            properties |= _properties(cursor)
        elif cursor.sees("LOCATION"):
            cursor.refuse("namespaces of a lake have no place of their own")
        else:
            return made.CreateNamespace(name, if_not_exists, properties)


def _altered_namespace(cursor: Cursor) -> Statement:
    name = cursor.name("a namespace")
    action = cursor.one_of("SET", "UNSET")
    if action is None or cursor.one_of("PROPERTIES", "DBPROPERTIES") is None:
        cursor.refuse("SET PROPERTIES or UNSET PROPERTIES was expected")
    wanted: dict[str, str | None] = {}
    wanted |= _properties(cursor) if action == "SET" else dict.fromkeys(_keys(cursor))
    return made.AlterNamespace(name, wanted)


def _added(cursor: Cursor) -> made.AddColumns:
    if cursor.one_of("COLUMN", "COLUMNS") is None:
        cursor.refuse("COLUMN or COLUMNS was expected")
    if cursor.sees("("):
        columns = parse_columns(cursor)
    else:
        found = [parse_column(cursor)]
        while cursor.take(","):
            found.append(parse_column(cursor))
        columns = tuple(found)
    for column in columns:
        if not column.nullable:
            cursor.refuse(f"{column.name} is null in the rows that are there: it cannot be NOT NULL")
    return made.AddColumns(columns)


def _dropped(cursor: Cursor) -> made.DropColumns:
    if cursor.one_of("COLUMN", "COLUMNS") is None:
        cursor.refuse("COLUMN or COLUMNS was expected")
    if_exists = cursor.take("IF", "EXISTS")
    if cursor.sees("("):
        return made.DropColumns(parse_names(cursor), if_exists)
    names = [cursor.part("the name of a column")]
    while cursor.take(","):
        names.append(cursor.part("the name of a column"))
    return made.DropColumns(tuple(names), if_exists)


def _renamed(cursor: Cursor) -> made.RenameColumn | made.RenameTo:
    if cursor.take("TO"):
        return made.RenameTo(cursor.name("a table"))
    cursor.expect("COLUMN")
    column = cursor.part("the name of a column")
    cursor.expect("TO")
    return made.RenameColumn(column, cursor.part("the name of a column"))


def _altered(cursor: Cursor) -> made.AlterColumn:
    cursor.expect("COLUMN")
    column = cursor.part("the name of a column")
    if cursor.take("TYPE") or cursor.take("SET", "DATA", "TYPE"):
        return made.AlterColumn(column, type=parse_type(cursor))
    if cursor.take("DROP", "NOT", "NULL"):
        return made.AlterColumn(column, nullable=True)
    if cursor.take("SET", "NOT", "NULL"):
        return made.AlterColumn(column, nullable=False)
    return cursor.refuse("TYPE, SET NOT NULL or DROP NOT NULL was expected")


def _set(cursor: Cursor) -> made.SetProperties:
    cursor.expect("TBLPROPERTIES")
    return made.SetProperties(dict(_properties(cursor)))


def _unset(cursor: Cursor) -> made.SetProperties:
    cursor.expect("TBLPROPERTIES")
    cursor.take("IF", "EXISTS")
    return made.SetProperties(dict.fromkeys(_keys(cursor)))


_CHANGES: "dict[str, Callable[[Cursor], made.Alteration]]" = {
    "ADD": _added,
    "DROP": _dropped,
    "RENAME": _renamed,
    "ALTER": _altered,
    "SET": _set,
    "UNSET": _unset,
}


def _properties(cursor: Cursor) -> dict[str, str]:
    """`('key' = 'value', ...)`"""
    cursor.expect("(")
    found: dict[str, str] = {}
    while True:
        key = _key(cursor)
        cursor.take("=")
        if cursor.here.sort in {"string", "number"} or cursor.here.key in {"TRUE", "FALSE"}:
            found[key] = cursor.next().value
        else:
            cursor.refuse("the value of a property was expected")
        if not cursor.take(","):
            cursor.expect(")")
            return found


def _keys(cursor: Cursor) -> list[str]:
    """`('key', ...)`"""
    cursor.expect("(")
    found = [_key(cursor)]
    while cursor.take(","):
        found.append(_key(cursor))
    cursor.expect(")")
    return found


def _key(cursor: Cursor) -> str:
    return cursor.string() if cursor.here.sort == "string" else ".".join(cursor.name("the name of a property"))
