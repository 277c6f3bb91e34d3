"""A driver of its own, run by the test of the cluster: writes, merges, compacts and reads, with an executor that dies.

python -m tests.spark.cluster_job MASTER LAKE FOLDER ROWS KILLS

With KILLS an executor is killed during the second merge, the compaction and a stream, at some moment, too.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import seiche
from seiche.spark import session, stream
from tests.spark.quick import QUICK


def dying(folder: str, batches: Any) -> Iterator[Any]:
    """The first to come here kills the executor that it works for, when it has given its rows on."""
    yield from batches
    try:
        Path(folder, "killed").touch(exist_ok=False)
    except FileExistsError:
        return
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    time.sleep(60)


@contextmanager
def killing(application: str, wanted: bool) -> Iterator[list[int]]:
    """An executor of the application is killed at some moment of the block; gives the processes that were."""
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        if not ended.wait(1 + 4 * random.random()):
            found = [int(one.parent.name) for one in Path("/proc").glob("[0-9]*/cmdline") if _is_executor(one)]
            victim = random.choice(found)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    def _is_executor(commands: Path) -> bool:
        with suppress(OSError):
            words = commands.read_bytes().split(b"\0")
            return application.encode() in words and b"--executor-id" in words
        return False

    killer = threading.Thread(target=kill)
    if wanted:
        killer.start()
    try:
        yield killed
    finally:
        ended.set()
        if wanted:
            killer.join()


def streamed(spark: Any, lake: Any, folder: Path, danger: Any) -> list[int]:
    """A stream of six batches into two tables, while an executor is killed; how many were, and rows in both."""
    folder.mkdir()
    for number in range(6):
        rows = range(1000 * number, 1000 * (number + 1))
        (folder / f"{number}.json").write_text("".join(f'{{"id": {one}}}\n' for one in rows))
    names = ("shop.one", "shop.two")
    for name in names:
        lake.create_table(name, pa.schema([("id", pa.int64())]))

    def load(tx: Any, batch: Any) -> None:
        for name in names:
            tx.append(name, batch)

    feed = spark.readStream.schema("id long").option("maxFilesPerTrigger", "1").json(str(folder))
    writer = feed.writeStream.foreachBatch(stream.sink(lake, load)).trigger(availableNow=True)
    with danger() as killed:
        writer.option("checkpointLocation", str(folder.with_name("point"))).start().awaitTermination()
    frames = [lake.spark(spark).read(name) for name in names]
    return [len(killed), *(number for frame in frames for number in (frame.count(), frame.distinct().count()))]


def run(master: str, uri: str, folder: str, rows_text: str, kills_text: str) -> dict[str, Any]:
    count, kills = int(rows_text), kills_text == "kills"
    settings = {
        **({} if kills else QUICK),
        "spark.driver.maxResultSize": "16m",
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
    spark = session("cluster", master=master, memory="1g", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    lake = seiche.create(uri, durability="os")
    lake.create_namespace("shop")
    lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string())]))
    seen: dict[str, Any] = {}
    danger = partial(killing, spark.sparkContext.applicationId, kills)
    rows = spark.range(0, count, 1, 8).selectExpr("id", "id % 10 as n", "cast(id as string) as s")
    with lake.transaction(spark=spark) as tx:
        seen["append"] = dict(tx.append("shop.t", rows).notes)
    data = spark.range(0, count + 1000, 2, 4).selectExpr("id", "-1L as n", "'new' as s")
    with lake.transaction(spark=spark) as tx:
        merge = tx.merge("shop.t", data, on="id").when_matched_update_all().when_not_matched_insert_all()
        seen["merge"] = dict(merge.execute().notes)
    data = spark.range(0, count, 20, 4).selectExpr("id")
    with danger() as killed, lake.transaction(spark=spark) as tx:
        join = tx.merge("shop.t", data, on="id").when_matched_update({"s": "concat(target.s, '!')"})
        seen["join"] = dict(join.execute().notes)
    seen["kills"] = [len(killed)]
    with danger() as killed:
        seen["compact"] = dict(lake.spark(spark).compact("shop.t", target_rows_per_fragment=count // 4).notes)
    seen["kills"].append(len(killed))
    seen["index"] = lake.spark(spark).create_index("shop.t", "id").rows
    if kills:
        died, *seen["stream"] = streamed(spark, lake, Path(folder, "feed"), danger)
        seen["kills"].append(died)
    more = spark.range(2 * count, 2 * count + 100, 1, 4).selectExpr("id", "7L as n", "'late' as s")
    with lake.transaction(spark=spark) as tx:
        tx.append("shop.t", more.mapInArrow(partial(dying, folder), more.schema))
    seen["killed"] = Path(folder, "killed").exists()
    frame = lake.spark(spark).read("shop.t")
    seen["read"] = [frame.count(), frame.where("n = -1").count(), frame.select("id").distinct().count()]
    source = spark.read.format("seiche").options(lake=uri, table="shop.t").load()
    seen["source"] = source.where("id < 10 and n >= 0").count()
    spark.stop()
    return seen


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
