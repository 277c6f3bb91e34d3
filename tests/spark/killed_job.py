"""A driver of its own, run and killed by a test, and run again: batches, merges and compaction, then a stream.

python -m tests.spark.killed_job LAKE FOLDER STEPS

What it has done it knows from the lake alone: the number of a step is committed with what the step did.
"""

import sys
from pathlib import Path
from typing import Any

import seiche
from seiche.spark import session, stream
from tests.spark.quick import QUICK

ROWS = 30


def load(tx: Any, batch: Any) -> None:
    """All rows, some of them, and how many there were of each kind."""
    tx.append("shop.all", batch)
    tx.append("shop.zero", batch.where("n = 0"))
    count(tx, batch)


def count(tx: Any, rows: Any) -> None:
    counts = rows.groupBy("n").count()
    (
        tx.merge("shop.counts", counts, on="n")
        .when_matched_update({"count": "target.count + source.count"})
        .when_not_matched_insert_all()
        .execute()
    )


def step(lake: Any, spark: Any, number: int) -> None:
    """Rows of one step into three tables, with the number of the step; then the same rows through the data source."""
    rows = spark.range(number * ROWS, (number + 1) * ROWS, 1, 2).selectExpr("-1 - id as id", "id % 3 as n")
    with lake.transaction(spark=spark) as tx:
        load(tx, rows)
        tx.append("shop.steps", [{"step": number}])


def plain(lake: Any, spark: Any, number: int) -> None:
    """A job that commits by itself: its rows are all there, or none is, and then it is run."""
    there = lake.spark(spark).read("shop.plain", filter=f"n = {number}").count()
    if there not in (0, ROWS):
        raise RuntimeError(f"{there} rows of job {number}")
    if not there:
        rows = spark.range(0, ROWS, 1, 3).selectExpr("id", f"{number}L as n")
        rows.write.format("seiche").options(lake=lake.uri, table="shop.plain").mode("append").save()


def run(uri: str, folder: str, steps: str) -> None:
    settings = {**QUICK, "spark.sql.shuffle.partitions": "2"}
    spark = session("killed", master="local[2]", memory="600m", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    lake = seiche.open(uri, durability="os")
    for number in range(int(steps)):
        if number >= lake.table("shop.steps").to_arrow().num_rows:
            step(lake, spark, number)
        plain(lake, spark, number)
        lake.spark(spark).compact("shop.all", target_rows_per_fragment=10_000)
    reader = spark.readStream.schema("id long, n long").option("maxFilesPerTrigger", "1").json(f"{folder}/feed")
    writer = reader.writeStream.foreachBatch(stream.sink(lake, load))
    point = str(Path(folder, "point"))
    writer.option("checkpointLocation", point).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(*sys.argv[1:])
