"""Iceberg tables of a lake, by the same means as all others."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(9, 2))])


@pytest.fixture
def facts(lake: Any) -> str:
    lake.create_table("shop.facts", SCHEMA, format="iceberg")
    lake.create_table("shop.t", SCHEMA)
    return "shop.facts"


def ids(lake: Any, name: str) -> list[int]:
    return sorted(lake.table(name).to_arrow()["id"].to_pylist())


def test_append_read_and_overwrite_together_with_a_lance_table(spark: "SparkSession", lake: Any, facts: str) -> None:
    rows = spark.range(100).selectExpr("id", "concat('n', id) as s", "cast(id / 4 as decimal(9, 2)) as d")
    before = lake.version
    with lake.transaction(spark=spark) as tx:
        assert tx.append(facts, rows.repartition(3)).rows == 100
        tx.append("shop.t", tx.read(facts, columns=["id", "d"], filter="id >= 90"))
        assert tx.count(facts) == 100
    assert lake.version == before + 1
    assert ids(lake, facts) == list(range(100))
    assert ids(lake, "shop.t") == list(range(90, 100))
    with lake.transaction(spark=spark) as tx:
        tx.overwrite(facts, rows.where("id < 5"))
        tx.delete(facts, "id = 3")
    assert ids(lake, facts) == [0, 1, 2, 4]
    assert sorted(map(tuple, lake.spark(spark).read(facts).collect()))[1] == sorted(map(tuple, rows.collect()))[1]


def test_the_same_format_name(spark: "SparkSession", lake: Any, facts: str) -> None:
    options = {"lake": lake.uri, "table": facts}
    rows = spark.range(20).selectExpr("id", "'x' as s")
    rows.write.format("seiche").options(**options).mode("append").save()
    version = lake.version
    rows.where("id < 3").write.format("seiche").options(**options).mode("append").save()
    read = spark.read.format("seiche").options(**options)
    assert read.load().where("id < 3").count() == 6
    assert read.option("version", version).load().count() == 20
    rows.where("id > 17").write.format("seiche").options(**options).mode("overwrite").save()
    assert ids(lake, facts) == [18, 19]
    assert lake.fsck().problems == ()
