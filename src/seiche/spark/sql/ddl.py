"""Definitions, executed: tables, views and namespaces, as part of a transaction."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import ViewRow
from seiche.lake.undo import kept_on_error
from seiche.spark.engine import columns
from seiche.spark.names import quoted, said_twice
from seiche.spark.sql import statements as made
from seiche.spark.sql.reading import Reader
from seiche.spark.sql.relations import find, qualified, table, view
from seiche.spark.sql.statements import Statement
from seiche.spark.sql.storing import column_of
from seiche.spark.transaction import SparkTransaction

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.handles import TransactionTable

__all__ = ["DEFINITIONS", "define"]


def define(statement: Statement, reader: Reader) -> int:
    """Do it; returns how many rows were written with it. An error leaves the transaction as it was."""
    with kept_on_error(reader.tx):
        return DEFINITIONS[type(statement)](statement, reader) or 0


def _create_table(statement: made.CreateTable, reader: Reader) -> int:
    import pyarrow as pa

    tx, name = reader.tx, qualified(statement.name, reader.namespace)
    found = find(tx, name)
    if found is not None and statement.if_not_exists:
        return 0
    # Before anything is dropped: the query, or the table that is the pattern, may be the one that is replaced.
    frame = None if statement.query is None else reader.frame(statement.query)
    schema = pa.schema(list(statement.columns or ()))
    if frame is not None:
        schema = columns(frame)
    elif statement.like is not None:
        schema = table(tx, qualified(statement.like, reader.namespace)).schema
    if found is not None and statement.or_replace:
        if isinstance(found, ViewRow):
            raise AlreadyExists(f"{text(name)} is a view", remedy="DROP VIEW removes it.", name=text(name))
        tx.drop_table(name)
    _check_names(schema)
    _created(tx, name, schema, statement)
    return 0 if frame is None else tx.append(name, frame).rows


def _created(tx: SparkTransaction, name: Name, schema: "pa.Schema", statement: made.CreateTable) -> None:
    options: dict[str, Any] = {"properties": statement.properties}
    if statement.format is not None:
        options["format"] = statement.format
    if statement.format == "iceberg":
        from seiche.spark.types import check_iceberg

        check_iceberg(schema)
    tx.create_table(name, schema, **options)


def _check_names(schema: "pa.Schema") -> None:
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise InvalidInput(f"there are two columns {name!r}", remedy="Give one of them another name with AS.")
        seen.add(name.lower())


def _drop_table(statement: made.DropTable, reader: Reader) -> None:
    name = qualified(statement.name, reader.namespace)
    if find(reader.tx, name) is None and statement.if_exists:
        return
    table(reader.tx, name)
    reader.tx.drop_table(name)


def _create_view(statement: made.CreateView, reader: Reader) -> None:
    tx, name = reader.tx, qualified(statement.name, reader.namespace)
    found = find(tx, name)
    if found is not None and statement.if_not_exists:
        return
    if statement.must_exist and not isinstance(found, ViewRow):
        raise NotFound(f"there is no view {text(name)}", remedy="CREATE VIEW makes one.", name=text(name))
    written = reader.qualified_text(statement.query)
    columns = reader.frame(statement.query).columns
    if statement.columns:
        if len(statement.columns) != len(columns):
            raise InvalidInput(
                f"{len(statement.columns)} columns are named, the query has {len(columns)}", remedy="Name each of them."
            )
        columns = list(statement.columns)
        written = f"SELECT * FROM ({written}) AS {quoted(name[-1])}({', '.join(map(quoted, columns))})"
    if said_twice(columns) is not None:
        raise InvalidInput("the query has two columns of one name", remedy="Give one of them another name with AS.")
    if isinstance(found, ViewRow) and statement.or_replace:
        tx.drop_view(name)
    tx.create_view(name, written, dialect="spark", properties=statement.properties)


def _drop_view(statement: made.DropView, reader: Reader) -> None:
    name = qualified(statement.name, reader.namespace)
    if view(reader.tx, name) is None and statement.if_exists:
        return
    reader.tx.drop_view(name)


def _alter_table(statement: made.AlterTable, reader: Reader) -> None:
    name = qualified(statement.name, reader.namespace)
    found = table(reader.tx, name)
    schema, target = found.schema, _columns_of(found)
    match statement.change:
        case made.AddColumns(columns):
            import pyarrow as pa

            from seiche.spark.types import check_iceberg

            given = pa.schema(list(columns))
            if found.format == "iceberg":
                check_iceberg(given)
            _check_names(given)
            for one in given.names:
                _check_free(schema, one)
            target.add_columns(given)
        case made.DropColumns(columns, if_exists):
            known = {one.lower() for one in schema.names}
            wanted = [one for one in columns if not if_exists or one.lower() in known]
            if wanted:
                target.drop_columns([column_of(schema, one, name) for one in wanted])
        case made.RenameColumn(column, to):
            old = column_of(schema, column, name)
            _check_free(schema, to, old)
            target.rename_columns({old: to})
        case made.AlterColumn(column, type_, nullable):
            change: dict[str, Any] = {"path": column_of(schema, column, name)}
            change |= {} if type_ is None else {"data_type": type_}
            change |= {} if nullable is None else {"nullable": nullable}
            target.alter_columns(change)
        case made.RenameTo(to):
            reader.tx.rename_table(name, to if len(to) > 1 else (*name[:-1], *to))
        case made.SetProperties(properties):
            reader.tx.set_properties(name, properties)


def _check_free(schema: "pa.Schema", name: str, old: str = "") -> None:
    """Capitals do not count in SQL: of two columns that differ in them alone, neither could be named any more."""
    if any(one.lower() == name.lower() and one != old for one in schema.names):
        remedy = "Choose another name, or drop the column that is there."
        raise InvalidInput(f"there is a column {name!r} already", remedy=remedy, column=name)


def _columns_of(found: "TransactionTable") -> Any:
    """What has the verbs that change columns."""
    if found.format != "iceberg":
        return found
    from seiche.spark.sql.iceberg_columns import IcebergColumns

    return IcebergColumns(found)


def _create_namespace(statement: made.CreateNamespace, reader: Reader) -> None:
    if statement.if_not_exists and _is_namespace(reader.tx, statement.name):
        return
    reader.tx.create_namespace(statement.name, statement.properties)


def _alter_namespace(statement: made.AlterNamespace, reader: Reader) -> None:
    reader.tx.alter_namespace(statement.name, statement.properties)


def _drop_namespace(statement: made.DropNamespace, reader: Reader) -> None:
    if statement.if_exists and not _is_namespace(reader.tx, statement.name):
        return
    if statement.cascade:
        _empty(reader.tx, statement.name)
    reader.tx.drop_namespace(statement.name)


def _empty(tx: SparkTransaction, name: Name) -> None:
    for inner in tx.tables(name):
        (tx.drop_table if view(tx, inner) is None else tx.drop_view)(inner)
    for namespace in tx.namespaces(name):
        _empty(tx, namespace)
        tx.drop_namespace(namespace)


def _is_namespace(tx: SparkTransaction, name: Name) -> bool:
    return name in tx.namespaces(name[:-1])


DEFINITIONS: dict[type, Callable[[Any, Reader], int | None]] = {
    made.CreateTable: _create_table,
    made.DropTable: _drop_table,
    made.CreateView: _create_view,
    made.DropView: _drop_view,
    made.AlterTable: _alter_table,
    made.CreateNamespace: _create_namespace,
    made.AlterNamespace: _alter_namespace,
    made.DropNamespace: _drop_namespace,
}
