"""Rows that come to Spark many at a time are the same rows, under the same schema."""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seiche.spark.packing import packed_schema
from seiche.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
# Names that a careless plan would take for something else.
SCHEMA = pa.schema(
    [
        pa.field("_seiche_position", pa.int64(), nullable=False),
        pa.field("a b", pa.float64()),
        pa.field("0", pa.int16(), nullable=False),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("day", pa.date32()),
        pa.field("yes", pa.bool_()),
        pa.field("s", pa.string()),
    ]
)


@pytest.fixture
def rows(lake: Any) -> pa.Table:
    """In several fragments, some with rows deleted, and with nulls in all columns that can have them."""
    columns = [
        range(ROWS),
        [None if one % 7 == 0 else one / 4 for one in range(ROWS)],
        [one % 100 for one in range(ROWS)],
        [None if one % 11 == 0 else datetime.fromtimestamp(one, UTC) for one in range(ROWS)],
        [None if one % 13 == 0 else date.fromordinal(700_000 + one) for one in range(ROWS)],
        [None if one % 3 == 0 else one % 2 == 0 for one in range(ROWS)],
        [str(one) for one in range(ROWS)],
    ]
    made = pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    lake.create_table("shop.t", SCHEMA)
    lake.table("shop.t").append(made, max_rows_per_file=9_000)
    lake.table("shop.t").delete("`0` = 50")
    return made.filter(pa.compute.not_equal(made["0"], 50))


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "names", [["a b"], ["_seiche_position"], ["0", "a b", "_seiche_position"], ["at", "day", "yes"]]
)
def test_rows_and_schema_are_those_of_the_table(
    spark: "SparkSession", lake: Any, rows: pa.Table, names: list[str], ansi: str
) -> None:
    kept = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        wanted = spark_schema(pa.schema([SCHEMA.field(name) for name in names]))
        # Without ANSI mode Spark would say of a value from an array that it may be null.
        strict = not all(one.nullable for one in wanted.fields[1:])
        assert (packed_schema(spark, wanted) is None) is (strict and ansi == "false")
        frame = lake.spark(spark).read("shop.t", columns=names)
        assert frame.schema == wanted
        assert frame.toArrow().to_pylist() == rows.select(names).to_pylist()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", kept)


def test_texts_and_many_columns_come_as_they_are(spark: "SparkSession") -> None:
    assert packed_schema(spark, spark_schema(pa.schema([SCHEMA.field("s")]))) is None
    assert packed_schema(spark, spark_schema(pa.schema([pa.field(str(n), pa.int64()) for n in range(9)]))) is None
    assert packed_schema(spark, spark_schema(pa.schema([]))) is None
