"""Values of Spark under the types of a table, where fields of structs go by their names.

Spark's own cast goes by their order, whatever they are called: values would change places.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn
from pyspark.sql import types as spark

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["stored_as"]


def stored_as(value: "Column", given: spark.DataType, wanted: spark.DataType, column: str) -> "Column":
    """A value of the type `given` for a column that is shown as `wanted`.

    Fields that are not given are null; `InvalidInput` names one that would have no place. Where nulls may not be inside
    of the column is not for Spark to say, which refuses whatever could have some: workers look at the values.
    """
    if given == wanted:
        return value  # Spark has types that it casts nothing to, not even their own
    if not _in_place(given, wanted):
        # In a list of one, so that it is worked out once, however many fields are taken from it.
        value = fn.transform(fn.array(value), lambda one: _named(one, given, wanted, column))[0]
    return value.cast(_nullable(wanted))


def _in_place(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether the fields of all structs come in the order of the others. Capitals do not count, as in SQL."""
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        return len(given) == len(wanted) and all(
            one.name.lower() == other.name.lower() and _in_place(one.dataType, other.dataType)
            for one, other in zip(given, wanted, strict=True)
        )
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        return _in_place(given.elementType, wanted.elementType)
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        return _in_place(given.keyType, wanted.keyType) and _in_place(given.valueType, wanted.valueType)
    return True


def _named(value: "Column", given: spark.DataType, wanted: spark.DataType, where: str) -> "Column":
    """The value with the fields of structs in the order of the other type, still under its own types."""
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        return fn.when(value.isNotNull(), fn.struct(*_fields(value, given, wanted, where)))
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        inside = given.elementType, wanted.elementType
        return fn.transform(value, lambda one: _named(one, *inside, where))
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        keys, items = (given.keyType, wanted.keyType), (given.valueType, wanted.valueType)
        value = fn.transform_values(value, lambda _, one: _named(one, *items, where))
        return fn.transform_keys(value, lambda one, _: _named(one, *keys, where))
    return value


def _fields(value: "Column", given: spark.StructType, wanted: spark.StructType, where: str) -> "list[Column]":
    names = given.names
    odd = next((name for name in names if name not in wanted.names or names.count(name) > 1), None)
    if odd is not None:
        raise InvalidInput(
            f"column {where!r} is {wanted.simpleString()}, which has no place for {odd!r} of {given.simpleString()}",
            remedy="Give each field once, under its name: named_struct('a', 1, 'b', 2).",
            column=where,
        )
    made = []
    for field in wanted:
        one = fn.lit(None)
        if field.name in names:
            one = _named(
                value.getField(field.name), given[field.name].dataType, field.dataType, f"{where}.{field.name}"
            )
        made.append(one.alias(field.name))
    return made


def _nullable(kind: spark.DataType) -> spark.DataType:
    """The type, where everything inside may be null."""
    if isinstance(kind, spark.StructType):
        return spark.StructType([spark.StructField(one.name, _nullable(one.dataType)) for one in kind])
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(_nullable(kind.elementType))
    if isinstance(kind, spark.MapType):
        return spark.MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind
