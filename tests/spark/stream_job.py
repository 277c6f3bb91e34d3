"""A driver of its own, run and killed by a test: a stream from files into three tables of a lake.

python -m tests.spark.stream_job LAKE FEED CHECKPOINT
"""

import sys
from typing import Any

import seiche
from seiche.spark import session, stream


def load(tx: Any, batch: Any) -> None:
    """All rows, some of them, and how many there were of each kind."""
    tx.append("shop.all", batch)
    tx.append("shop.zero", batch.where("n = 0"))
    counts = batch.groupBy("n").count()
    (
        tx.merge("shop.counts", counts, on="n")
        .when_matched_update({"count": "target.count + source.count"})
        .when_not_matched_insert_all()
        .execute()
    )


def run(uri: str, feed: str, checkpoint: str) -> None:
    spark = session("stream", master="local[2]", memory="600m", settings={"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.schema("id long, n long").option("maxFilesPerTrigger", "1").json(feed)
    writer = reader.writeStream.foreachBatch(stream.sink(seiche.open(uri), load))
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    run(*sys.argv[1:])
