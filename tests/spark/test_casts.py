"""Values for a column of another type: what does not fit is refused, however Spark is set."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as fn
from pyspark.sql.types import DataType

from seiche.errors import InvalidInput
from seiche.spark.casting import stored_as

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lenient(spark: "SparkSession") -> "Iterator[SparkSession]":
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


def stored(spark: "SparkSession", value: str, kind: str) -> Any:
    """What a value becomes in a column; no job is needed for it."""
    frame = spark.sql(f"SELECT {value} AS v")
    made = stored_as(fn.col("v"), frame.schema["v"].dataType, DataType.fromDDL(kind), "c", spark)
    return frame.select(made.alias("c")).collect()[0].c


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("300", "tinyint"),
        ("5000000000L", "int"),
        ("1.5D", "bigint"),
        ("1000BD", "tinyint"),
        ("99.999BD", "decimal(4,2)"),
        ("100", "decimal(4,2)"),
        ("'nothing'", "double"),
        ("'no day'", "date"),
        ("array(5000000000L)", "array<int>"),
        ("map('a', 5000000000L)", "map<string,int>"),
        ("named_struct('b', 5000000000L, 'a', 1)", "struct<a:int,b:int>"),
    ],
)
def test_what_may_not_fit_is_refused_where_spark_would_change_it_silently(
    lenient: "SparkSession", value: str, kind: str
) -> None:
    with pytest.raises(InvalidInput, match="changed silently"):
        stored(lenient, value, kind)


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("7", "bigint", "7"),
        ("null", "tinyint", "None"),
        ("0.5BD", "decimal(4,2)", "Decimal('0.50')"),
        ("9.999BD", "decimal(4,2)", "Decimal('10.00')"),
        ("12Y", "decimal(5,2)", "Decimal('12.00')"),
        ("99BD", "tinyint", "99"),
        ("1", "float", "1.0"),
        ("2.5BD", "double", "2.5"),
        ("0.5D", "float", "0.5"),
        ("10L", "string", "'10'"),
        ("date'2026-01-02'", "timestamp_ntz", "datetime.datetime(2026, 1, 2, 0, 0)"),
        ("array(1Y, null)", "array<int>", "[1, None]"),
        ("named_struct('b', 3S)", "struct<a:int,b:int>", "Row(a=None, b=3)"),
    ],
)
def test_what_always_fits_is_stored_also_there(lenient: "SparkSession", value: str, kind: str, wanted: str) -> None:
    assert repr(stored(lenient, value, kind)) == wanted


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("1e300D", "float"),
        ("-1e39D", "float"),
        ("'1e39'", "float"),
        ("array(1D, 1e300D)", "array<float>"),
        ("map('a', 1e300D)", "map<string,float>"),
        ("named_struct('x', 1e300D, 'n', 1)", "struct<x:float,n:int>"),
        ("named_struct('X', 1e300D, 'N', 1)", "struct<x:float,n:int>"),
    ],
)
def test_numbers_too_large_for_a_short_float_are_refused(spark: "SparkSession", value: str, kind: str) -> None:
    """Spark itself makes infinity of them, also by ANSI rules."""
    with pytest.raises(Exception, match=r"values of column 'c(\.x)?' do not fit its type float: -?1(\.0)?[eE]"):
        stored(spark, value, kind)


def test_infinity_and_what_is_no_number_are_stored_as_short_floats(spark: "SparkSession") -> None:
    value = "array(double('NaN'), double('Infinity'), double('-Infinity'), 0.5D, null)"
    assert repr(stored(spark, value, "array<float>")) == "[nan, inf, -inf, 0.5, None]"
    assert stored(spark, "named_struct('X', 0.5D, 'N', 1)", "struct<x:float,n:int>").asDict() == {"x": 0.5, "n": 1}


def test_updates_and_merges_store_no_other_values_than_they_say(spark: "SparkSession", lake: Any) -> None:
    lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("n", pa.int32()), ("x", pa.float32())]))
    lake.table("shop.t").append(pa.table({"id": [1]}))
    first = lake.table("shop.t").to_arrow().to_pylist()
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with lake.transaction(spark=spark) as tx:
            with pytest.raises(InvalidInput, match="changed silently") as caught:
                tx.update("shop.t", {"n": "id + 5000000000"})
            assert caught.value.details["column"] == "n"
            merge = tx.merge("shop.t", spark.sql("SELECT 2L AS id"), on="id")
            with pytest.raises(InvalidInput, match="changed silently"):
                merge.when_not_matched_insert({"id": "id", "n": "id + 5000000000"}).execute()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    with pytest.raises(InvalidInput, match="do not fit its type float"):
        lake.spark(spark).sql("INSERT INTO shop.t (id, x) VALUES (2, 1e300D)")
    assert lake.table("shop.t").to_arrow().to_pylist() == first
