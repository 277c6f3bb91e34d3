"""Rows that go to Spark many at a time: as arrays of numbers, which Spark takes apart again.

Spark makes a row of its own of each row that comes from Python, through eight calls, and only then looks at it. Of an
array it copies the values in one loop, and takes it apart in the loop of the query itself: half of the time for one
column, two thirds for three. For texts, which it has to make one by one either way, it gains nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as fn
from pyspark.sql import types as spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["pack", "packed_schema", "unpacked"]

_FIXED = (
    spark.ByteType,
    spark.ShortType,
    spark.IntegerType,
    spark.LongType,
    spark.FloatType,
    spark.DoubleType,
    spark.BooleanType,
    spark.DateType,
    spark.TimestampType,
    spark.TimestampNTZType,
)
# What was measured; of many columns most may not be looked at.
_MOST_COLUMNS = 4
# Rows of an array: few enough for all of it to stay near the processor.
_ROWS = 1 << 13
_POSITION, _FIRST = "_seiche_position", "_seiche_first"


def packed_schema(session: "SparkSession", schema: spark.StructType) -> spark.StructType | None:
    """Arrays in the place of values, under names of their own; `None` if that would gain nothing, or lose something."""
    if not 0 < len(schema) <= _MOST_COLUMNS or not all(isinstance(one.dataType, _FIXED) for one in schema):
        return None
    if not all(one.nullable for one in schema.fields[1:]) and session.conf.get("spark.sql.ansi.enabled") != "true":
        # There Spark takes any value of an array for one that may be null.
        return None
    return spark.StructType(
        [
            spark.StructField(str(number), spark.ArrayType(one.dataType, one.nullable), nullable=False)
            for number, one in enumerate(schema)
        ]
    )


def pack(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as arrays of some thousands each; no value is copied. `schema` is that of the arrays."""
    for batch in batches:
        rows = batch.num_rows
        ends = pa.array([*range(0, rows, _ROWS), rows], pa.int32())
        columns = zip(batch.columns, schema.types, strict=True)
        arrays = [pa.ListArray.from_arrays(ends, column, type=kind) for column, kind in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def unpacked(frame: "DataFrame", schema: spark.StructType) -> "DataFrame":
    """The rows themselves, under their schema to the letter, of a frame of arrays."""
    first, *others = schema.names
    if not others:
        return frame.select(fn.explode("0").alias(first))
    apart = frame.select(fn.posexplode("0").alias(_POSITION, _FIRST), *(str(1 + at) for at in range(len(others))))
    values = [fn.col(str(1 + at))[fn.col(_POSITION)].alias(name) for at, name in enumerate(others)]
    return apart.select(fn.col(_FIRST).alias(first), *values)
