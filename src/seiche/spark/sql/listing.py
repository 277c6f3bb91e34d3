"""SHOW and DESCRIBE: what there is, as rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from seiche.errors import NotFound
from seiche.lake.objects.keys import namespace_key
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import NamespaceRow, ViewRow, decode
from seiche.spark.names import quoted
from seiche.spark.sql.reading import Reader
from seiche.spark.sql.relations import find, qualified, table, view
from seiche.spark.sql.statements import Describe, Show
from seiche.spark.sql.writing import literal, written_column
from seiche.spark.types import spark_schema
from seiche.table.format.manifest import Manifest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seiche.lake.handles import TransactionTable

__all__ = ["Listing", "describe", "listing_frame", "show"]

_FEW = 50


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows with named columns, for people and programs. `columns` is a schema as Spark writes it."""

    columns: str
    rows: tuple[tuple[Any, ...], ...]


def listing_frame(session: "SparkSession", listing: Listing) -> "DataFrame":
    """The rows as a data frame. A few of them are put into the query itself: then no job is needed to see them."""
    if len(listing.rows) > _FEW:
        return session.createDataFrame([tuple(row) for row in listing.rows], listing.columns)
    columns = [column.split(" ") for column in listing.columns.split(", ")]
    if not listing.rows:
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns)
        return session.sql(f"SELECT {nothing} WHERE false")
    values: dict[str, Any] = {}
    rows = []
    for number, row in enumerate(listing.rows):
        names = [f"r{number}_{column}" for column in range(len(row))]
        values |= dict(zip(names, row, strict=True))
        cast = (f"CAST(:{name} AS {kind})" for name, (_, kind) in zip(names, columns, strict=True))
        rows.append(f"({', '.join(cast)})")
    called = ", ".join(quoted(name) for name, _ in columns)
    return session.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS listed({called})", values)


def show(statement: Show, reader: Reader) -> Listing:
    """What a SHOW asks for."""
    return _SHOWN[statement.what](statement, reader)


def describe(statement: Describe, reader: Reader) -> Listing:
    """What a DESCRIBE asks for."""
    if statement.what == "query" and statement.query is not None:
        return _columns_of(reader.frame(statement.query).schema)
    if statement.what == "namespace":
        return _namespace(statement, reader)
    name = qualified(statement.name, reader.namespace)
    if statement.what == "history":
        return _history(name, reader)
    return _table(name, reader, extended=statement.extended)


def _namespaces(statement: Show, reader: Reader) -> Listing:
    names = (text(one) for one in reader.tx.namespaces(statement.name))
    return Listing("namespace string", tuple((one,) for one in names if _fits(one, statement.like)))


def _relations(statement: Show, reader: Reader) -> Iterator[tuple[Name, bool]]:
    for name in reader.tx.tables(_namespace_of(statement, reader)):
        if _fits(name[-1], statement.like):
            yield name, view(reader.tx, name) is not None


def _tables(statement: Show, reader: Reader) -> Listing:
    rows = tuple((text(name[:-1]), name[-1], False) for name, _ in _relations(statement, reader))
    return Listing("namespace string, tableName string, isTemporary boolean", rows)


def _views(statement: Show, reader: Reader) -> Listing:
    rows = tuple((text(name[:-1]), name[-1], False) for name, is_view in _relations(statement, reader) if is_view)
    return Listing("namespace string, viewName string, isTemporary boolean", rows)


def _tags(statement: Show, reader: Reader) -> Listing:
    found = reader.lake.lake.tags().values()
    rows = tuple((one.name, one.version, one.created_at) for one in found if _fits(one.name, statement.like))
    return Listing("tag string, version bigint, created timestamp", rows)


def _versions(_: Show, reader: Reader) -> Listing:
    rows = tuple((one.version, one.time, ", ".join(one.tags), one.summary) for one in reader.lake.lake.log(limit=1000))
    return Listing("version bigint, time timestamp, tags string, summary string", rows)


def _columns(statement: Show, reader: Reader) -> Listing:
    name = qualified(statement.name, reader.namespace)
    return Listing("col_name string", tuple((row[0],) for row in _table(name, reader, extended=False).rows))


def _properties(statement: Show, reader: Reader) -> Listing:
    name = qualified(statement.name, reader.namespace)
    found = find(reader.tx, name)
    properties = found.properties if isinstance(found, ViewRow) else _table_properties(table(reader.tx, name))
    return Listing("key string, value string", tuple(sorted(properties.items())))


def _create(statement: Show, reader: Reader) -> Listing:
    name = qualified(statement.name, reader.namespace)
    shown = ".".join(map(quoted, name))
    found = find(reader.tx, name)
    if isinstance(found, ViewRow):
        return Listing("createtab_stmt string", ((f"CREATE VIEW {shown} AS\n{found.sql}",),))
    target = table(reader.tx, name)
    stored = target.schema
    lines = [f"  {written_column(field, _comment(stored.field(field.name)))}" for field in spark_schema(stored)]
    written = f"CREATE TABLE {shown} (\n" + ",\n".join(lines) + ")"
    if target._edit.row.format != "lance":
        written += f"\nUSING {target._edit.row.format}"
    properties = _table_properties(target)
    if properties:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in sorted(properties.items()))
        written += f"\nTBLPROPERTIES ({pairs})"
    return Listing("createtab_stmt string", ((written,),))


def _table(name: Name, reader: Reader, *, extended: bool) -> Listing:
    found = find(reader.tx, name)
    if isinstance(found, ViewRow):
        from seiche.spark.sql.queries import parse_query

        sql = f"SELECT * FROM {'.'.join(map(quoted, name))}"
        listing = _columns_of(reader.frame(parse_query(sql, 0, len(sql))).schema)
        facts: Sequence[tuple[str, object]] = [("view", found.sql)]
    else:
        target = table(reader.tx, name)
        listing = _columns_of(spark_schema(target.schema), target.schema)
        facts = _facts(target) if extended else []
    if not extended:
        return listing
    rows = [("", "", ""), ("# Detailed Table Information", "", ""), *((key, str(value), "") for key, value in facts)]
    return Listing(listing.columns, (*listing.rows, *rows))


def _facts(target: "TransactionTable") -> list[tuple[str, object]]:
    row = target._edit.row
    facts: list[tuple[str, object]] = [
        ("name", target.name),
        ("id", row.id),
        ("type", row.type),
        ("format", row.format),
        ("location", row.location),
        ("table version", row.table_version),
    ]
    if row.format == "lance":
        manifest: Manifest = target._snapshot().manifest
        indices = ", ".join(dict.fromkeys(one.name for one in manifest.indices))
        facts += [("fragments", len(manifest.fragments)), ("indices", indices)]
    return [*facts, *((f"property {key}", value) for key, value in sorted(_table_properties(target).items()))]


def _columns_of(schema: Any, arrow: Any = None) -> Listing:
    rows = []
    for field in schema:
        comment = _comment(arrow.field(field.name)) if arrow is not None else ""
        rows.append((field.name, field.dataType.simpleString(), comment or None))
    return Listing("col_name string, data_type string, comment string", tuple(rows))


def _comment(field: Any) -> str:
    return str((field.metadata or {}).get(b"comment", b"").decode())


def _namespace(statement: Describe, reader: Reader) -> Listing:
    key = namespace_key(statement.name)
    tx = reader.tx
    value = tx.rows[key].wanted if key in tx.rows else tx.state.get(key)
    if value is None:
        raise NotFound(f"there is no namespace {text(statement.name)}", remedy="SHOW NAMESPACES lists what there is.")
    row = decode(value, NamespaceRow)
    facts = [("name", text(statement.name)), ("id", row.id)]
    return Listing("info_name string, info_value string", (*facts, *sorted(row.properties.items())))


def _history(name: Name, reader: Reader) -> Listing:
    """The versions of the lake that changed a table, newest first."""
    row = table(reader.tx, name)._edit.row
    rows = []
    for entry in reader.lake.lake.log():
        for one in entry.objects:
            if one.id == row.id:
                after = getattr(one.after, "table_version", None)
                rows.append((entry.version, entry.time, after, str(one)))
    return Listing("version bigint, timestamp timestamp, table_version bigint, operation string", tuple(rows))


def _namespace_of(statement: Show, reader: Reader) -> Name | None:
    """The one that is named, or in use; without either all are meant."""
    found = statement.name or reader.namespace
    if not found:
        return None
    if found not in reader.tx.namespaces(found[:-1]):
        raise NotFound(f"there is no namespace {text(found)}", remedy="SHOW NAMESPACES lists what there is.")
    return found


def _table_properties(target: "TransactionTable") -> dict[str, str]:
    edit = target._edit
    target._transaction.note_properties(target.id)
    merged = {**edit.row.properties, **edit.properties}
    return {key: value for key, value in merged.items() if value is not None}


def _fits(name: str, pattern: str | None) -> bool:
    """Whether a name fits a pattern as SHOW has it: `*` for anything, `|` between choices; capitals do not count."""
    if pattern is None:
        return True
    choices = (one.strip().lower() for one in pattern.replace("%", "*").split("|"))
    return any(fnmatchcase(name.lower(), one.replace("[", "[[]").replace("?", "[?]")) for one in choices)


_SHOWN: dict[str, Callable[[Show, Reader], Listing]] = {
    "namespaces": _namespaces,
    "tables": _tables,
    "views": _views,
    "columns": _columns,
    "properties": _properties,
    "create": _create,
    "tags": _tags,
    "versions": _versions,
}
