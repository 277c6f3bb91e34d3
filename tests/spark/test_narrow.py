"""Rows on their way to Python: quickly where they are narrow, and as they are in any case."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from seiche.spark import narrow
from seiche.spark.jobs import Batches
from seiche.spark.narrow import collected_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
# Two names that are one to Spark, a null in each column that can be long, and one row of 100 kB (if `long` says so).
COLUMNS = (
    "id",
    "if(id % 3 = 0, null, concat('name ', id)) AS `Na.me`",
    "upper(hex(id)) AS `NA.ME`",
    "if(id = 4, {long}, if(id % 5 = 0, null, encode(string(id), 'utf-8'))) AS bytes",
    "if(id % 4 = 0, null, array(id, null, -id)) AS list",
    "CAST(id AS DECIMAL(20, 2)) AS price",
)


def every(batches: Batches) -> Iterator[pa.RecordBatch]:
    yield from batches


def widths(batches: Batches) -> Iterator[int]:
    return (batch.num_rows for batch in batches)


@pytest.mark.parametrize("long", ["X'00'", *(f"encode(repeat('x', {size}), 'utf-8')" for size in (6_500, 100_000))])
def test_rows_come_as_they_are(spark: "SparkSession", long: str) -> None:
    frame = spark.range(40).selectExpr(*(column.format(long=long) for column in COLUMNS))
    found = pa.Table.from_batches(collected_rows(frame, every)).sort_by("id")
    assert found.to_pylist() == frame.toArrow().sort_by("id").to_pylist()
    assert found.column_names == ["id", "Na.me", "NA.ME", "bytes", "list", "price"]


def test_wide_rows_are_weighed(spark: "SparkSession") -> None:
    """The limit of Spark's own, 64 MB, holds for them; the first try has none, so it must not let them in."""
    frame = spark.range(0, 1500, 1, 1).selectExpr("id", "repeat('x', 50000) AS text")
    assert len(collected_rows(frame, widths)) == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(narrow, "_BATCH_BYTES", 1 << 40)  # as if such rows were narrow
        assert collected_rows(frame, widths) == [1500]
    assert spark.sparkContext.getLocalProperty(LIMIT) is None


def test_what_the_session_says_counts(spark: "SparkSession") -> None:
    spark.conf.set(LIMIT, "4k")
    try:
        sizes = collected_rows(spark.range(0, 2000, 1, 1).selectExpr("id", "'x' AS text"), widths)
    finally:
        spark.conf.unset(LIMIT)
    assert sum(sizes) == 2000
    assert max(sizes) < 1000


def test_what_is_known_of_types(spark: "SparkSession") -> None:
    """Of rows that may be of any width Spark knows best; nothing is marked where every row is short."""
    short = spark.range(1).selectExpr("id", "current_date() AS day")
    assert narrow._narrow(short) is short
    for unknown in ("map(1, 2)", "array('a')", "struct('a')", "array(array(1))"):
        assert narrow._narrow(spark.range(1).selectExpr(f"{unknown} AS x")) is None
    assert narrow._narrow(spark.range(1).selectExpr(*(f"id AS x{number}" for number in range(500)))) is None
