"""Checks that the driver answers by itself say what Spark would say, or leave it to Spark."""

import math
import struct
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seiche.spark.pipeline.definition import Check
from seiche.spark.pipeline.frames import Frames
from seiche.spark.pipeline.shorthands import foreign_key, not_null, row_count, unique

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A NaN with a minus sign: to some it is below all numbers.
MINUS_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
NUMBERS = [None, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, MINUS_NAN, 1e300, 5e-324, 2.0]
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 3, None, -(2**63), 2**63 - 1, 0, None, 10, 11, 12], pa.int64()),
        "small": pa.array([1, 1, None, 3, 4, -128, 127, 0, 8, 9, 10, 11], pa.int8()),
        "x": pa.array(NUMBERS, pa.float64()),
        "name": ["ann", "", None, "Ann", "ann", "z", "\u00e9", "a b", "-", "10", "9", "\U0001f30a"],
        "ok": [True, False, None] * 4,
        "day": [date(2030, 1, 1), None] * 6,
        "Total": pa.array(range(12), pa.int64()),
    }
)
CONDITIONS = [
    *(f"x {sign} {value}" for sign in ("<", "<=", ">", ">=", "=", "<>") for value in ("0", "-0.0", "1.5", "-1.5")),
    *(f"0 {sign} x" for sign in ("<", "<=", ">", ">=")),
    *(f"id {sign} 3" for sign in ("<", "<=", ">", ">=", "=", "!=")),
    "id <= -9223372036854775807",
    "small > 127",
    "small < 1000",
    "name = 'ann'",
    "name < 'b'",
    "name >= ''",
    "name <> 'ann' AND ok = true",
    "NOT (x <= 0)",
    "NOT (x > 0 OR id IS NULL)",
    "x IS NULL OR name IS NULL OR day IS NULL",
    "day IS NOT NULL AND (ok = false OR id > 2)",
    "NOT (name = 'ann' AND x < 0)",
    "TOTAL > 4",
    "kept.total > 4 AND `id` = 3",
]
# For Spark to say: values that it converts, and names and functions that it knows better.
LEFT_ALONE = [
    "id > 0.5",
    "x > '1'",
    "name > 1",
    "id = 99999999999999999999",
    "abs(x) > 1",
    "x > id",
    "name LIKE 'a%'",
    "day > '2029-01-01'",
    "name = 'it\\'s'",
    "id IN (1, 2)",
]


@pytest.fixture(scope="module")
def frames(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Frames:
    import seiche

    lake = seiche.create(f"file://{tmp_path_factory.mktemp('direct')}/lake", durability="os")
    lake.create_namespace("shop")
    lake.create_table("shop.kept", ROWS.schema)
    lake.create_table("shop.other", ROWS.schema)
    lake.table("shop.kept").append(ROWS.slice(0, 7))
    lake.table("shop.other").append(ROWS.slice(0, 4))
    lake.create_table("shop.ice", pa.schema([("id", pa.int64())]), format="iceberg")
    tx: Any = lake.transaction(spark=spark)
    tx.table("shop.kept").append(ROWS.slice(7))  # seen by this transaction only
    tx.table("shop.other").delete("id = 2")
    return Frames(tx, {})


def counting(condition: str) -> Check:
    return Check("counted", f"SELECT count(*) FROM shop.kept WHERE {condition}")


def test_conditions_are_true_for_the_same_rows(frames: Frames) -> None:
    together = ", ".join(f"count_if({condition})" for condition in CONDITIONS)
    (row,) = frames.query(f"SELECT {together} FROM shop.kept").collect()
    answers = {condition: frames.count(counting(condition)) for condition in CONDITIONS}
    assert answers == dict(zip(CONDITIONS, row, strict=True))


@pytest.mark.parametrize("condition", LEFT_ALONE)
def test_what_is_left_to_spark(frames: Frames, condition: str) -> None:
    assert frames.count(counting(condition)) is None


def test_more_that_is_left_to_spark(frames: Frames) -> None:
    for sql in (
        "SELECT count(*) FROM shop.ice WHERE id > 1",
        "SELECT count(id) FROM shop.kept",
        "SELECT count(*) FROM shop.kept JOIN shop.other USING (id)",
        "SELECT count(*) FROM shop.kept GROUP BY id",
        "SELECT max(id) FROM shop.kept",
        "SELECT count(*) FROM shop.kept AS k(a, b, c, d, e, f, g) WHERE a > 1",
    ):
        assert frames.count(Check("counted", sql)) is None, sql
    assert frames.count(unique("shop.kept", "x")) is None
    assert frames.count(foreign_key("shop.kept", "id", "shop.other", "small")) is None
    sources = Frames(frames._tx, {"raw": frames.frame("shop.kept")})
    for check in (unique("raw", "id"), foreign_key("raw", "id", "shop.kept"), foreign_key("shop.kept", "id", "raw")):
        assert sources.count(check) is None


def test_shorthands_count_what_their_queries_count(frames: Frames) -> None:
    checks = [
        row_count("shop.kept", at_least=1),
        not_null("shop.kept", ["id", "x"]),
        unique("shop.kept", "id"),
        unique("shop.kept", ["name", "ok"]),
        foreign_key("shop.kept", "id", "shop.other"),
        foreign_key("shop.kept", ["id", "small"], "shop.other"),
        foreign_key("shop.other", "name", "shop.kept"),
    ]
    spark_says = " UNION ALL ".join(
        f"SELECT {number} AS number, ({check.sql}) AS found" for number, check in enumerate(checks)
    )
    found = {row.number: row.found for row in frames.query(spark_says).collect()}
    assert [frames.count(check) for check in checks] == [found[number] for number in range(len(checks))]
    assert found[0] == 12
    assert min(found[1], found[2], found[4]) > 0
