"""A stream into two tables, each batch once, and a stream that follows one of them.

    python examples/streaming.py

Orders arrive as files. Each batch goes into `shop.orders` and, added up, into `shop.totals`, in one transaction of the
lake. The query is then stopped in the worst moment, after the lake has committed a batch and before Spark knows; when
it goes on, nothing is counted twice.
"""

import json
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import seiche
from seiche.spark import SparkTransaction, session
from seiche.spark.stream import sink


def load(tx: SparkTransaction, batch: DataFrame) -> None:
    """What a batch does to the lake: all of it, or nothing."""
    tx.append("shop.orders", batch)
    sums = batch.groupBy("product").sum("amount").toDF("product", "amount")
    merge = tx.merge("shop.totals", sums, on="product")
    merge = merge.when_matched_update({"amount": "target.amount + source.amount"})
    merge.when_not_matched_insert_all().execute()


def arrive(folder: Path, number: int) -> None:
    """A file with a hundred orders."""
    rows = [{"id": 100 * number + one, "product": f"p{one % 3}", "amount": 1} for one in range(100)]
    (folder / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))


def drain(spark: SparkSession, folder: Path, lake: seiche.Lake, *, stop: bool) -> None:
    """Take in what is there; if `stop`, die when the first batch is in the lake."""
    write = sink(lake, load)

    def batch(frame: DataFrame, number: int) -> None:
        write(frame, number)
        if stop:
            raise SystemError("stopped before Spark has noted that the batch is done")

    orders = spark.readStream.schema("id long, product string, amount long").json(str(folder / "orders"))
    query = orders.writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "checkpoint"))
    try:
        query.trigger(availableNow=True).start().awaitTermination()
    except Exception as error:
        if not stop:
            raise
        print(f"the query failed: {'stopped before' in str(error)}")


def main(spark: SparkSession, folder: Path) -> None:
    lake = seiche.create(f"file://{folder}/lake")
    lake.create_namespace("shop")
    columns = [("product", pa.string()), ("amount", pa.int64())]
    lake.create_table("shop.orders", pa.schema([("id", pa.int64()), *columns]))
    lake.create_table("shop.totals", pa.schema(columns))
    (folder / "orders").mkdir()
    arrive(folder / "orders", 0)
    drain(spark, folder, lake, stop=True)
    arrive(folder / "orders", 1)
    drain(spark, folder, lake, stop=False)
    for row in lake.table("shop.totals").to_arrow().sort_by("product").to_pylist():
        print(f"{row['product']}: {row['amount']}")

    follow = spark.readStream.format("seiche").options(lake=lake.uri, table="shop.orders").load()
    seen: list[int] = []
    query = follow.writeStream.foreachBatch(lambda frame, _: seen.append(frame.count()))
    query.option("checkpointLocation", str(folder / "follower")).trigger(availableNow=True).start().awaitTermination()
    print(f"{sum(seen)} orders seen by the stream that follows the table")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(session("streaming"), Path(temporary))
    sys.stdout.flush()
