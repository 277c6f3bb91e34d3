"""Rows of a query, made to fit a table as SQL says: by position or by name, cast where an assignment may cast."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql import types as spark

from seiche.errors import InvalidInput
from seiche.lake.objects.names import Name, text
from seiche.spark.casting import stored_as
from seiche.spark.names import quoted
from seiche.spark.types import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["check_storable", "column_of", "fitted"]

_TIMES = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)


def fitted(
    frame: "DataFrame", schema: "pa.Schema", table: Name, columns: Sequence[str] | None, *, by_name: bool
) -> "DataFrame":
    """The rows under the columns of the table; those that are not given are null."""
    wanted = spark_schema(schema)
    if by_name:
        given = {column_of(schema, one, table): one for one in frame.columns}
        if len(given) < len(frame.columns):
            raise InvalidInput("the query has a column twice", remedy="Give each column another name.")
    else:
        names = schema.names if columns is None else [column_of(schema, one, table) for one in columns]
        if len(set(names)) < len(names):
            raise InvalidInput("a column is named twice", remedy="Name each column once.")
        if len(names) != len(frame.columns):
            raise InvalidInput(
                f"{text(table)} takes {len(names)} columns here ({', '.join(names)}), not {len(frame.columns)}",
                remedy="Name the columns: INSERT INTO table (a, b) and so on.",
            )
        # Columns of a query may have the same name twice; by position they have none.
        frame = frame.toDF(*(f"c{number}" for number in range(len(names))))
        given = {name: f"c{number}" for number, name in enumerate(names)}
    _check_given(given, schema, table)
    types = {field.name: field.dataType for field in frame.schema}
    chosen = []
    for field in wanted:
        type_: spark.DataType = spark.NullType()
        value = functions.lit(None)
        if field.name in given:
            type_, value = types[given[field.name]], functions.col(quoted(given[field.name]))
            check_storable(type_, field.dataType, field.name)
        chosen.append(stored_as(value, type_, field.dataType, field.name, frame.sparkSession).alias(field.name))
    return frame.select(*chosen)


def column_of(schema: "pa.Schema", name: str, table: Name) -> str:
    """The column that is meant by a name in SQL, where capitals do not count."""
    found = [one for one in schema.names if one.lower() == name.lower()]
    if name in found:
        return name
    if len(found) == 1:
        return str(found[0])
    raise InvalidInput(
        f"{text(table)} has {'several columns' if found else 'no column'} {name!r}",
        remedy=f"Its columns are {', '.join(schema.names)}.",
        column=name,
    )


def check_storable(given: spark.DataType, wanted: spark.DataType, column: str) -> None:
    """`InvalidInput` if SQL's assignment does not take values of the one type for a column of the other."""
    if not _storable(given, wanted):
        raise InvalidInput(
            f"column {column} is {wanted.simpleString()}, and cannot take {given.simpleString()}",
            remedy="Say how with CAST.",
            column=column,
        )


def _storable(given: spark.DataType, wanted: spark.DataType) -> bool:
    if given == wanted or isinstance(given, spark.NullType):
        return True
    if isinstance(given, spark.NumericType) and isinstance(wanted, spark.NumericType):
        return True
    if any(isinstance(given, kind) and isinstance(wanted, kind) for kind in (_TIMES, spark.DayTimeIntervalType)):
        return True
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        return _storable(given.elementType, wanted.elementType)
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        return _storable(given.keyType, wanted.keyType) and _storable(given.valueType, wanted.valueType)
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        # Fields of a struct are stored by their order: the names must be the same, or values change places.
        pairs = list(zip(given.fields, wanted.fields, strict=False))
        same = len(given) == len(wanted) and all(one.name.lower() == other.name.lower() for one, other in pairs)
        return same and all(_storable(one.dataType, other.dataType) for one, other in pairs)
    return (
        isinstance(wanted, spark.StringType)
        and isinstance(given, spark.AtomicType)
        and not isinstance(given, spark.BinaryType)
    )


def _check_given(given: Mapping[str, str], schema: "pa.Schema", table: Name) -> None:
    for field in schema:
        if not field.nullable and field.name not in given:
            raise InvalidInput(
                f"{text(table)} needs a value for {field.name}, which is NOT NULL",
                remedy="Give it one.",
                column=field.name,
            )
