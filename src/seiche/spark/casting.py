"""Values of Spark under the types of a table: fields of structs go by their names, and what does not fit is refused.

Spark's own cast takes fields by their order, whatever they are called: values would change places. And it changes what
does not fit without a word: numbers that are too large for a short float, and if so set all others, too.
"""

import struct
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn
from pyspark.sql import types as spark

from seiche.errors import InvalidInput
from seiche.spark.types import nullable

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["as_half", "is_strict", "stored_as"]

# So many digits may be any; the largest number has one more.
_INTEGERS: "dict[type[spark.DataType], int]" = {
    spark.ByteType: 2,
    spark.ShortType: 4,
    spark.IntegerType: 9,
    spark.LongType: 18,
}
_INFINITE = float("inf")
_FLOATS = (spark.FloatType, spark.DoubleType)
_TIMES = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)


def stored_as(
    value: "Column", given: spark.DataType, wanted: spark.DataType, column: str, session: "SparkSession"
) -> "Column":
    """A value of the type `given` for a column that is shown as `wanted`. What does not fit fails when it comes.

    Fields that are not given are null; `InvalidInput` names one that would have no place, and a column that values may
    not fit into while Spark is set to change them silently. Where nulls may not be inside of the column is not for
    Spark to say, which refuses whatever could have some: workers look at the values.
    """
    if given == wanted:
        return value  # Spark has types that it casts nothing to, not even their own
    if not _always_fits(given, wanted) and not is_strict(session):
        raise InvalidInput(
            f"column {column!r} is {wanted.simpleString()}, and the values are {given.simpleString()}: while "
            "spark.sql.ansi.enabled is off, those that do not fit would be changed silently",
            remedy="Say spark.conf.set('spark.sql.ansi.enabled', 'true'), or cast the values to the type of the column "
            "yourself.",
            column=column,
        )
    if not _in_place(given, wanted):
        # In a list of one, so that it is worked out once, however many fields are taken from it.
        value = fn.transform(fn.array(value), lambda one: _named(one, given, wanted, column))[0]
    return value.cast(nullable(wanted))


def is_strict(session: "SparkSession") -> bool:
    """Whether Spark fails for values that do not fit a type, and does not put others into their place."""
    return str(session.conf.get("spark.sql.ansi.enabled")).lower() == "true"


def as_half(value: "Column", given: spark.DataType) -> "Column":
    """A number of the type `given` as a column of two-byte floats holds it, which Spark shows as its short floats."""
    if not isinstance(given, _FLOATS):
        return value
    return fn.udf(_halved, spark.DoubleType(), useArrow=False)(value.cast("double")).cast(given)


def _halved(value: float | None) -> float | None:
    """The number, rounded; one that is too large stays, and is refused where it would be stored. In a worker."""
    if value is None:
        return None
    try:
        (made,) = struct.unpack("<e", struct.pack("<e", value))
    except OverflowError:
        return value
    return float(made)


def _always_fits(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether a cast has nothing to refuse, whatever the values are."""
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        by_name = {field.name.lower(): field.dataType for field in wanted}
        return all(_always_fits(one.dataType, by_name.get(one.name.lower(), one.dataType)) for one in given)
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        return _always_fits(given.elementType, wanted.elementType)
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        return _always_fits(given.keyType, wanted.keyType) and _always_fits(given.valueType, wanted.valueType)
    if given == wanted or isinstance(given, spark.NullType) or isinstance(wanted, spark.StringType):
        return True
    if isinstance(given, spark.NumericType) and isinstance(wanted, _FLOATS):
        return True  # rounded, as everywhere; what is too large is looked for in any case
    if isinstance(given, _TIMES) and isinstance(wanted, _TIMES):
        return True
    return _has_the_digits(given, wanted)


def _has_the_digits(given: spark.DataType, wanted: spark.DataType) -> bool:
    if isinstance(given, spark.DecimalType):
        most, places = given.precision - given.scale, given.scale
    elif type(given) in _INTEGERS:
        most, places = _INTEGERS[type(given)] + 1, 0
    else:
        return False
    if isinstance(wanted, spark.DecimalType):
        # If places are rounded off, nines may carry over into one digit more.
        return most + (places > wanted.scale) <= wanted.precision - wanted.scale
    return most <= _INTEGERS.get(type(wanted), -1)


def _in_place(given: spark.DataType, wanted: spark.DataType) -> bool:
    """Whether Spark's cast will do: the fields of all structs come in the order of the others (capitals do not count,
    as in SQL), and no float becomes a shorter one.
    """
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        return len(given) == len(wanted) and all(
            one.name.lower() == other.name.lower() and _in_place(one.dataType, other.dataType)
            for one, other in zip(given, wanted, strict=True)
        )
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        return _in_place(given.elementType, wanted.elementType)
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        return _in_place(given.keyType, wanted.keyType) and _in_place(given.valueType, wanted.valueType)
    return not _is_shortened(given, wanted)


def _named(value: "Column", given: spark.DataType, wanted: spark.DataType, where: str) -> "Column":
    """The value with the fields of structs in the order of the other type, and with its short floats."""
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        return fn.when(value.isNotNull(), fn.struct(*_fields(value, given, wanted, where)))
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        inside = given.elementType, wanted.elementType
        return fn.transform(value, lambda one: _named(one, *inside, where))
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        keys, items = (given.keyType, wanted.keyType), (given.valueType, wanted.valueType)
        value = fn.transform_values(value, lambda _, one: _named(one, *items, where))
        return fn.transform_keys(value, lambda one, _: _named(one, *keys, where))
    return _shortened(value, where) if _is_shortened(given, wanted) else value


def _is_shortened(given: spark.DataType, wanted: spark.DataType) -> bool:
    return isinstance(wanted, spark.FloatType) and isinstance(given, spark.DoubleType | spark.StringType)


def _shortened(value: "Column", where: str) -> "Column":
    """As a short float. Of a number that is too large Spark would make infinity, however it is set."""
    made = value.cast("float")
    lost = (fn.abs(made) == _INFINITE) & (fn.abs(value.cast("double")) < _INFINITE)
    said = fn.concat(fn.lit(f"values of column '{where}' do not fit its type float: "), value.cast("string"))
    return fn.when(lost, fn.raise_error(said)).otherwise(made)


def _fields(value: "Column", given: spark.StructType, wanted: spark.StructType, where: str) -> "list[Column]":
    found = _by_name(given, wanted, where)
    made = []
    for field in wanted:
        one = fn.lit(None)
        if field.name in found:
            there = found[field.name]
            one = _named(value.getField(there.name), there.dataType, field.dataType, f"{where}.{field.name}")
        made.append(one.alias(field.name))
    return made


def _by_name(given: spark.StructType, wanted: spark.StructType, where: str) -> dict[str, spark.StructField]:
    """The fields that come for those of a struct, by the names of these."""
    names = given.names
    if [name.lower() for name in names] == [name.lower() for name in wanted.names]:
        return dict(zip(wanted.names, given, strict=True))
    odd = next((name for name in names if name not in wanted.names or names.count(name) > 1), None)
    if odd is not None:
        raise InvalidInput(
            f"column {where!r} is {wanted.simpleString()}, which has no place for {odd!r} of {given.simpleString()}",
            remedy="Give each field once, under its name: named_struct('a', 1, 'b', 2).",
            column=where,
        )
    return {field.name: field for field in given}
