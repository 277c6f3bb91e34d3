"""A driver of its own, run by the test of the cluster: writes, merges, compacts and reads, and says what it saw.

python -m tests.spark.cluster_job MASTER LAKE
"""

import json
import sys
from typing import Any

import pyarrow as pa

import seiche
from seiche.spark import session

ROWS = 40_000


def run(master: str, uri: str) -> dict[str, Any]:
    settings = {
        "spark.driver.maxResultSize": "1m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "4",
        # Both executors before the first task: else one might do everything while the other starts.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.cores.max": "2",
        "spark.locality.wait": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    spark = session("cluster", master=master, memory="512m", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    lake = seiche.create(uri, durability="os")
    lake.create_namespace("shop")
    lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string())]))
    seen: dict[str, Any] = {}
    rows = spark.range(0, ROWS, 1, 8).selectExpr("id", "id % 10 as n", "cast(id as string) as s")
    with lake.transaction(spark=spark) as tx:
        seen["append"] = dict(tx.append("shop.t", rows).notes)
    data = spark.range(0, ROWS + 1000, 2, 4).selectExpr("id", "-1L as n", "'new' as s")
    with lake.transaction(spark=spark) as tx:
        merge = tx.merge("shop.t", data, on="id").when_matched_update_all().when_not_matched_insert_all()
        seen["merge"] = dict(merge.execute().notes)
    seen["compact"] = dict(lake.spark(spark).compact("shop.t", target_rows_per_fragment=ROWS // 4).notes)
    seen["index"] = lake.spark(spark).create_index("shop.t", "id").rows
    frame = lake.spark(spark).read("shop.t")
    seen["read"] = [frame.count(), frame.where("n = -1").count(), frame.select("id").distinct().count()]
    source = spark.read.format("seiche").options(lake=uri, table="shop.t").load()
    seen["source"] = source.where("id < 10 and n >= 0").count()
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2])))
