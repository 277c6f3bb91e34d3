"""Fields of structs go by their names, whichever way the rows of a frame come into a table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIR = pa.struct([("a", pa.int64()), ("b", pa.int64())])
OTHERWISE = "named_struct('b', 20L, 'a', 10L)"


def table_of(lake: Any, kind: pa.DataType, value: Any, table_format: str = "lance") -> str:
    schema = pa.schema([("id", pa.int64()), ("s", kind)])
    lake.create_table("shop.t", schema, format=table_format)
    lake.table("shop.t").append(pa.Table.from_pylist([{"id": 1, "s": value}], schema))
    return "shop.t"


def held(lake: Any) -> dict[int, Any]:
    return {row["id"]: row["s"] for row in lake.table("shop.t").to_arrow().to_pylist()}


def update_all(tx: Any, table: str, frame: "DataFrame") -> None:
    tx.merge(table, frame, on="id").when_matched_update_all().execute()


def upsert(tx: Any, table: str, frame: "DataFrame") -> None:
    tx.merge(table, frame, on="id").when_matched_update_all().when_not_matched_insert_all().execute()


def by_clauses(tx: Any, table: str, frame: "DataFrame") -> None:
    merge = tx.merge(table, frame, on="id").when_matched_update({"s": "source.s"})
    merge.when_not_matched_insert({"id": "id", "s": "s"}).execute()


def overwrite(tx: Any, table: str, frame: "DataFrame") -> None:
    tx.overwrite(table, frame)


WAYS = [overwrite, upsert, update_all, by_clauses]
Way = Callable[[Any, str, Any], None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("table_format", ["lance", "iceberg"])
def test_fields_in_another_order_keep_their_values(
    spark: "SparkSession", lake: Any, table_format: str, way: Way
) -> None:
    name = table_of(lake, PAIR, {"a": 1, "b": 2}, table_format)
    with lake.transaction(spark=spark) as tx:
        way(tx, name, spark.sql(f"SELECT 1L AS id, {OTHERWISE} AS s"))
    assert held(lake) == {1: {"a": 10, "b": 20}}
    with lake.transaction(spark=spark) as tx:
        tx.update(name, {"s": "named_struct('b', s.a, 'a', s.b)"})
    assert held(lake) == {1: {"a": 20, "b": 10}}


@pytest.mark.parametrize("way", WAYS)
def test_fields_that_are_not_given_are_null_and_unknown_ones_are_refused(
    spark: "SparkSession", lake: Any, way: Way
) -> None:
    name = table_of(lake, PAIR, {"a": 1, "b": 2})
    with lake.transaction(spark=spark) as tx:
        way(tx, name, spark.sql("SELECT 1L AS id, named_struct('b', 20L) AS s"))
    assert held(lake) == {1: {"a": None, "b": 20}}
    for wrong in ("named_struct('a', 1L, 'b', 2L, 'c', 3L)", "named_struct('a', 1L, 'c', 3L)"):
        with pytest.raises(InvalidInput, match="'s'"), lake.transaction(spark=spark) as tx:
            way(tx, name, spark.sql(f"SELECT 1L AS id, {wrong} AS s"))
        with pytest.raises(InvalidInput, match="no place for 'c'"), lake.transaction(spark=spark) as tx:
            tx.update(name, {"s": wrong})
    assert held(lake) == {1: {"a": None, "b": 20}}


@pytest.mark.parametrize(
    ("kind", "value", "given", "expected"),
    [
        (pa.list_(PAIR), [None], f"array({OTHERWISE}, null)", [{"a": 10, "b": 20}, None]),
        (pa.map_(pa.string(), PAIR), [], f"map('k', {OTHERWISE}, 'n', null)", [("k", {"a": 10, "b": 20}), ("n", None)]),
        (pa.struct([("in", PAIR), ("n", pa.int64())]), None, f"named_struct('n', 1L, 'in', {OTHERWISE})",
         {"in": {"a": 10, "b": 20}, "n": 1}),
    ],
    ids=["list", "map", "struct"],
)  # fmt: skip
def test_so_they_do_inside_of_lists_maps_and_structs(
    spark: "SparkSession", lake: Any, kind: pa.DataType, value: Any, given: str, expected: Any
) -> None:
    name = table_of(lake, kind, value)
    with lake.transaction(spark=spark) as tx:
        update_all(tx, name, spark.sql(f"SELECT 1L AS id, {given} AS s"))
    assert held(lake) == {1: expected}
    nothing = f"SELECT 1L AS id, if(rand() > 2, {given}, null) AS s"
    with lake.transaction(spark=spark) as tx:
        update_all(tx, name, spark.sql(nothing))
    assert held(lake) == {1: None}
    with lake.transaction(spark=spark) as tx:
        tx.update(name, {"s": given})
    assert held(lake) == {1: expected}


def test_fields_that_must_not_be_null_take_values_that_could_be(spark: "SparkSession", lake: Any) -> None:
    """What a column of Spark could have is not what it has: the values are looked at."""
    strict = pa.struct([pa.field("a", pa.int64(), nullable=False), ("b", pa.int64())])
    name = table_of(lake, strict, {"a": 1, "b": 2})
    given = spark.createDataFrame([(1, (5, 6))], "id long, s struct<a: long, b: long>")
    with lake.transaction(spark=spark) as tx:
        update_all(tx, name, given)
    assert held(lake) == {1: {"a": 5, "b": 6}}
    given.createOrReplaceTempView("given_structs")
    lake.spark(spark).sql(f"INSERT INTO {name} SELECT id + 1, s FROM given_structs")
    with lake.transaction(spark=spark) as tx:
        tx.update(name, {"s": "named_struct('a', s.b, 'b', s.a)"}, "id = 1")
    assert held(lake) == {1: {"a": 6, "b": 5}, 2: {"a": 5, "b": 6}}
    for null in ("named_struct('a', cast(null AS long), 'b', 1L)", "named_struct('b', 1L)"):
        with pytest.raises(InvalidInput, match="null"), lake.transaction(spark=spark) as tx:
            tx.update(name, {"s": null})
