"""Columns as the table stores them and as Spark shows them.

Spark has fewer types than Arrow: no unsigned numbers, no lists of fixed length, no nanoseconds. A column is shown as
the narrowest type of Spark that holds its values, and is written from everything that fits either of the two.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type, is_geography, is_geometry, is_variant, to_arrow_schema

from seiche.errors import InvalidInput
from seiche.table.data.blobs import is_blob
from seiche.table.data.conform import Conform, conform
from seiche.table.data.fitting import fits, is_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "arrow_schema",
    "as_shown",
    "check_iceberg",
    "columns_for",
    "conform_shown",
    "nullable",
    "settled",
    "shown",
    "shown_schema",
    "spark_schema",
    "storable",
]

# Spark's most digits.
_DIGITS = 38
_UNSIGNED: "dict[pa.DataType, spark.DataType]" = {
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType(),
    pa.date64(): spark.DateType(),
}


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """The columns of a table as Spark shows them; `InvalidInput` names one that Spark has no type for."""
    return spark.StructType([_struct_field(field, field.name) for field in schema])


def shown_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema in which Spark takes such columns from Python, to the letter."""
    return to_arrow_schema(schema, timezone="UTC")


def shown(schema: pa.Schema) -> pa.Schema:
    """The columns of a table in the Arrow types in which Spark takes them."""
    return shown_schema(spark_schema(schema))


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The columns that a table gets that is made for rows of this Spark schema.

    `InvalidInput` names a column of a type that Arrow has not, and says so if there are none: nothing would be left of
    such rows.
    """
    if not schema.names:
        raise InvalidInput("the rows have no columns", remedy="Select those that the table shall have.")
    try:
        return storable(to_arrow_schema(schema, timezone="UTC"))
    except Exception:
        for field in schema:
            _check_kept(field)
        raise


def columns_for(rows: spark.StructType) -> pa.Schema:
    """The columns that a table gets that is made for the rows of a query, and for those that follow.

    That there are no nulls today, such as in a count or a list of what was collected, says nothing of later ones. So
    there may be some everywhere. `InvalidInput` for a collation: no column keeps one, and comparisons with what is read
    back would be others.
    """
    for field in rows:
        if (collated := _collation(field.dataType)) is not None:
            raise InvalidInput(
                f"column {field.name!r} has the collation {collated}, which no table keeps",
                remedy="Make it a plain text with COLLATE UTF8_BINARY, and say the collation where texts are compared.",
                column=field.name,
            )
    return arrow_schema(spark.StructType([spark.StructField(one.name, nullable(one.dataType)) for one in rows]))


def _collation(kind: spark.DataType) -> str | None:
    if isinstance(kind, spark.StructType):
        inside = [field.dataType for field in kind]
    elif isinstance(kind, spark.ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, spark.MapType):
        inside = [kind.keyType, kind.valueType]
    else:
        return kind.collation if isinstance(kind, spark.StringType) and not kind.isUTF8BinaryCollation() else None
    return next(filter(None, map(_collation, inside)), None)


def nullable(kind: spark.DataType) -> spark.DataType:
    """The type, where everything inside may be null."""
    if isinstance(kind, spark.StructType):
        return spark.StructType([spark.StructField(one.name, nullable(one.dataType)) for one in kind])
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(nullable(kind.elementType))
    if isinstance(kind, spark.MapType):
        return spark.MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind


def as_shown(batch: pa.RecordBatch, wanted: pa.Schema, *, exact: "Sequence[str]" = ()) -> pa.RecordBatch:
    """Rows of the table as Spark takes them. Times lose what is finer than a microsecond: Spark has nothing finer.

    `InvalidInput` for times that are beyond those of Spark, and in the columns `exact` for such as would lose any.
    """
    columns = [_shown(batch.column(field.name), field, exact=field.name in exact) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def conform_shown(given: pa.Schema, table: pa.Schema, *, whole_rows: bool = True) -> Conform:
    """How rows from Spark go into a table: by name, cast where every value fits the column or its shown type.

    A value that fits the shown type but not the column, such as a negative one for an unsigned column, is
    `InvalidInput` when it comes.
    """
    columns, known = [], set(table.names)
    for field in given:
        wanted = table.field(field.name).type if field.name in known else field.type
        if not fits(field.type, wanted) and fits(field.type, _shown_type(wanted, field.name)):
            field = field.with_type(wanted)  # noqa: PLW2901 - what it is shown as comes back as what it is
        columns.append(field)
    return conform(pa.schema(columns), table, whole_rows=whole_rows)


def settled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in memory as native writers need it.

    The buffers of batches that come from Spark lie where they lay in the stream; native code stops the whole process
    when those of a decimal, which are read 16 bytes at a time, do not lie at a multiple of that.
    """
    if not any(_has_decimals(field.type) for field in batch.schema):
        return batch
    every = pa.array(range(batch.num_rows), pa.int64())
    columns = [
        column.take(every) if _has_decimals(column.type) else column
        for column in (batch.column(index) for index in range(batch.num_columns))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def storable(schema: pa.Schema) -> pa.Schema:
    """A schema without the notes that Spark leaves on fields, which are no concern of the table's."""
    return pa.schema([_storable(field) for field in schema])


def check_iceberg(schema: pa.Schema) -> None:
    """Raise `InvalidInput` for a column that an Iceberg table would keep as something else, and nobody would say so."""
    for field in schema:
        if _has_variant(field.type):
            raise InvalidInput(
                f"column {field.name!r} has a VARIANT, which Iceberg tables here have not",
                remedy="Keep the table in the format lance, or the column as STRING.",
                column=field.name,
            )


def _has_variant(kind: pa.DataType) -> bool:
    if kinds.is_struct(kind) and is_variant(kind):
        return True
    return any(_has_variant(kind.field(index).type) for index in range(kind.num_fields))


def _check_kept(field: spark.StructField) -> None:
    try:
        to_arrow_schema(spark.StructType([field]), timezone="UTC")
    except Exception as error:
        raise InvalidInput(
            f"column {field.name!r} is of type {field.dataType.simpleString()}, which no table can keep",
            remedy="Cast or drop the column.",
            column=field.name,
        ) from error


def _struct_field(field: pa.Field, path: str) -> spark.StructField:
    return spark.StructField(field.name, _spark_type(field.type, path), field.nullable)


def _spark_type(kind: pa.DataType, path: str) -> spark.DataType:
    if is_blob(kind):
        # As scans for Spark give it. What a blob is stored as says only where it lies.
        return spark.BinaryType()
    if isinstance(kind, pa.BaseExtensionType):
        return _spark_type(kind.storage_type, path)
    if kind in _UNSIGNED:
        return _UNSIGNED[kind]
    for fitting, make in _NESTED:
        if fitting(kind):
            return make(kind, path)
    if kinds.is_decimal(kind) and kind.precision > _DIGITS:
        raise _unknown(kind, path)
    if kinds.is_string_view(kind):
        return spark.StringType()
    if kinds.is_binary_view(kind):
        return spark.BinaryType()
    if kinds.is_time(kind):
        return spark.TimeType()
    try:
        return from_arrow_type(kind)
    except Exception as error:
        raise _unknown(kind, path) from error


def _list(kind: pa.DataType, path: str) -> spark.DataType:
    return spark.ArrayType(_spark_type(kind.value_type, f"{path}.element"), kind.value_field.nullable)


def _map(kind: pa.DataType, path: str) -> spark.DataType:
    key, item = _spark_type(kind.key_type, f"{path}.key"), _spark_type(kind.item_type, f"{path}.value")
    return spark.MapType(key, item, kind.item_field.nullable)


def _struct(kind: pa.DataType, path: str) -> spark.DataType:
    if is_variant(kind) or is_geometry(kind) or is_geography(kind):
        return from_arrow_type(kind)
    return spark.StructType([_struct_field(field, f"{path}.{field.name}") for field in kind])


def _dictionary(kind: pa.DataType, path: str) -> spark.DataType:
    return _spark_type(kind.value_type, path)


_NESTED: "tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], spark.DataType]], ...]" = (
    (is_list, _list),
    (kinds.is_map, _map),
    (kinds.is_struct, _struct),
    (kinds.is_dictionary, _dictionary),
)


def _shown_type(kind: pa.DataType, path: str) -> pa.DataType:
    return shown(pa.schema([pa.field(path, kind)])).field(0).type


def _shown(column: pa.Array, field: pa.Field, *, exact: bool) -> pa.Array:
    if column.type == field.type:
        return column
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        # Not simply unsafe: seconds that are too many microseconds would come as other times.
        return column.cast(options=pc.CastOptions(field.type, allow_time_truncate=not exact))
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"column {field.name!r} of type {column.type} has a value that Spark cannot hold: {error}",
            remedy="Round such times to microseconds, or do it without Spark."
            if exact
            else "Read the other columns, or the table with `to_arrow()`.",
            column=field.name,
        ) from error


def _storable(field: pa.Field) -> pa.Field:
    return pa.field(field.name, field.type, field.nullable)


def _has_decimals(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_decimals(kind.storage_type)
    if kinds.is_decimal(kind):
        return True
    return any(_has_decimals(kind.field(index).type) for index in range(kind.num_fields))


def _unknown(kind: pa.DataType, path: str) -> InvalidInput:
    return InvalidInput(
        f"column {path!r} is of type {kind}, which Spark has no type for",
        remedy="Read the other columns, or the table with `to_arrow()`.",
        column=path,
    )
