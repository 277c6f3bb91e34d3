"""A client of Spark Connect, run by a test in a process of its own: it has no Java, only a connection.

python -m tests.spark.connect_job ADDRESS LAKE
"""

import json
import re
import sys
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import seiche
from seiche.spark.stream import sink


def run(address: str, uri: str) -> dict[str, Any]:
    spark = SparkSession.builder.remote(address).getOrCreate()
    lake = seiche.create(uri, durability="os")
    lake.create_namespace("shop")
    lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    rows = spark.range(100).selectExpr("id", "cast(id as string) as s")
    data = spark.range(95, 105).selectExpr("id", "'m' as s")
    seen: dict[str, Any] = {}
    options = {"lake": uri, "table": "shop.t"}
    # Nobody has registered the format yet: Spark finds it by itself.
    spark.range(1000, 1100).selectExpr("id", "'w' as s").write.format("seiche").options(**options).mode("append").save()
    with lake.spark(spark).transaction() as tx:
        seen["append"] = tx.append("shop.t", rows).rows
        seen["delete"] = tx.delete("shop.t", "id < 10").rows
        seen["update"] = tx.update("shop.t", {"s": "'x'"}, "id > 90 and id < 1000").rows
        upsert = tx.merge("shop.t", data, on="id").when_matched_update_all().when_not_matched_insert_all()
        seen["upsert"] = dict(upsert.execute().notes)
        seen["join"] = tx.merge("shop.t", data, on="id").when_matched_delete("source.id > 100").execute().rows
        seen["read"] = tx.read("shop.t").count()
    seen["source"] = spark.read.format("seiche").options(**options).load().where("id > 50 and s <> 'w'").count()
    seen["rows"] = lake.table("shop.t").to_arrow().num_rows
    seen["sink"] = _refused_sink(spark, lake)
    spark.stop()
    return seen


def _refused_sink(spark: SparkSession, lake: seiche.Lake) -> str:
    """What a query is told whose batches are to be transactions: it cannot be known here."""
    before = lake.version
    query = spark.readStream.format("rate").load().writeStream.foreachBatch(sink(lake, lambda tx, batch: None))
    try:
        query.start().awaitTermination(60)
    except StreamingQueryException as error:
        found = re.search(r"InvalidInput: (.*?),", str(error))
        return found[1] if found and lake.version == before else str(error)
    return "it ran"


if __name__ == "__main__":
    print("\n" + json.dumps(run(*sys.argv[1:])))
