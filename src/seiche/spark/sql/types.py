"""Types of columns as Spark's SQL writes them, as Arrow types."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from seiche.spark.sql.refusals import refusal
from seiche.spark.sql.words import Cursor

__all__ = ["parse_column", "parse_columns", "parse_type"]

_PLAIN: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "BYTE": pa.int8(),
        "SMALLINT": pa.int16(),
        "SHORT": pa.int16(),
        "INT": pa.int32(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "LONG": pa.int64(),
        "FLOAT": pa.float32(),
        "REAL": pa.float32(),
        "DOUBLE": pa.float64(),
        "STRING": pa.string(),
        "BINARY": pa.binary(),
        "DATE": pa.date32(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
        "TIMESTAMP_LTZ": pa.timestamp("us", tz="UTC"),
        "TIMESTAMP_NTZ": pa.timestamp("us"),
        # As Spark hands it over, and knows it again.
        "VARIANT": pa.struct(
            [
                pa.field("value", pa.binary(), nullable=False),
                pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
            ]
        ),
    }
)
# What others call a type, or what Spark has beside the types that a table keeps, and what to write.
_INSTEAD: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("CHAR", "CHARACTER", "VARCHAR", "NCHAR", "NVARCHAR", "TEXT", "CLOB", "UUID"), "STRING"),
        **dict.fromkeys(("BLOB", "BYTES", "BYTEA", "VARBINARY"), "BINARY"),
        **dict.fromkeys(("DATETIME", "TIMESTAMPTZ"), "TIMESTAMP"),
        **dict.fromkeys(("INT8", "INT64"), "BIGINT"),
        **dict.fromkeys(("INT4", "INT32"), "INT"),
        **dict.fromkeys(("FLOAT8", "FLOAT64"), "DOUBLE"),
        **dict.fromkeys(("FLOAT4", "FLOAT32"), "FLOAT"),
        "BOOL": "BOOLEAN",
        "ARRAY": "ARRAY<a type>",
        "MAP": "MAP<a type, a type>",
        "STRUCT": "STRUCT<name: a type, ...>",
        "INTERVAL": "INTERVAL DAY TO SECOND",
        "JSON": "VARIANT, or STRING",
        # Spark has it, and casts nothing to it.
        "TIME": "STRING, or INTERVAL DAY TO SECOND",
        "VECTOR": "ARRAY<FLOAT>",
    }
)
_DECIMALS: Final = frozenset({"DECIMAL", "DEC", "NUMERIC"})


def parse_columns(cursor: Cursor) -> tuple[pa.Field, ...]:
    """Columns in brackets: `(id BIGINT NOT NULL COMMENT '...', name STRING)`."""
    cursor.expect("(")
    columns = [parse_column(cursor)]
    while cursor.take(","):
        columns.append(parse_column(cursor))
    cursor.expect(")")
    return tuple(columns)


def parse_column(cursor: Cursor) -> pa.Field:
    """One column: its name, its type, and whether it may have nulls."""
    if cursor.here.key in {"PRIMARY", "CONSTRAINT", "FOREIGN", "UNIQUE", "CHECK"} and cursor.ahead(1).sort == "word":
        cursor.refuse("tables of a lake have no constraints but NOT NULL")
    name = cursor.part("the name of a column")
    cursor.take(":")
    type_ = parse_type(cursor)
    nullable, metadata = True, None
    while True:
        if cursor.take("NOT", "NULL"):
            nullable = False
        elif cursor.take("COMMENT"):
            metadata = {"comment": cursor.string()}
        elif cursor.here.key in {"DEFAULT", "GENERATED", "PRIMARY", "REFERENCES", "UNIQUE", "CHECK", "AFTER", "FIRST"}:
            cursor.refuse(f"columns of a lake know no {cursor.here.key}")
        else:
            return pa.field(name, type_, nullable=nullable, metadata=metadata)


def parse_type(cursor: Cursor) -> pa.DataType:
    """One type, also a nested one."""
    key = cursor.here.key
    if key in _PLAIN:
        cursor.next()
        if cursor.sees("("):
            cursor.refuse(f"{key} has no size")
        return _PLAIN[key]
    if key in _DECIMALS:
        cursor.next()
        return _decimal(cursor)
    if cursor.take("ARRAY", "<"):
        inner = parse_type(cursor)
        cursor.expect(">")
        return pa.list_(pa.field("element", inner))
    if cursor.take("MAP", "<"):
        keys = parse_type(cursor)
        cursor.expect(",")
        values = parse_type(cursor)
        cursor.expect(">")
        return pa.map_(keys, values)
    if cursor.take("STRUCT", "<"):
        fields = [parse_column(cursor)]
        while cursor.take(","):
            fields.append(parse_column(cursor))
        cursor.expect(">")
        return pa.struct(fields)
    if cursor.take("INTERVAL", "DAY", "TO", "SECOND"):
        return pa.duration("us")
    known = f"{', '.join(_PLAIN)}, DECIMAL(n, n), INTERVAL DAY TO SECOND, ARRAY<...>, MAP<...> and STRUCT<...>"
    remedy = f"Write {_INSTEAD[key]}." if key in _INSTEAD else f"There are {known}."
    return cursor.refuse("columns of a lake have no such type", remedy)


def _decimal(cursor: Cursor) -> pa.DataType:
    precision, scale = 10, 0
    if cursor.take("("):
        at = cursor.here
        precision = cursor.integer()
        scale = cursor.integer() if cursor.take(",") else 0
        if not 1 <= precision <= 38 or scale > precision:
            said = f"DECIMAL({at.text}, {scale})"
            raise refusal(
                cursor.text, at.start, f"{said} is not possible: at most 38 digits, and no more behind the point"
            )
        cursor.expect(")")
    return pa.decimal128(precision, scale)
