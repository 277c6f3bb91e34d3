"""Streams into a lake and out of it: every row once, whatever stops the query and when."""

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seiche.errors import InvalidInput
from seiche.spark import stream
from seiche.spark.options import Options
from seiche.spark.stream_sink import StreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


class Feed:
    """Files that a stream reads one by one: each is a batch of ten rows."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.folder = folder
        self._spark = spark
        self.files = 0
        folder.mkdir()

    def add(self, files: int = 1) -> None:
        for _ in range(files):
            rows = range(10 * self.files, 10 * self.files + 10)
            text = "".join(f'{{"id": {one}, "n": {one % 3}}}\n' for one in rows)
            hidden = self.folder / f".{self.files}"
            hidden.write_text(text)
            hidden.rename(self.folder / f"{self.files:04}.json")
            self.files += 1

    def frame(self) -> "DataFrame":
        reader = self._spark.readStream.schema("id long, n long").option("maxFilesPerTrigger", "1")
        return reader.json(str(self.folder))


@pytest.fixture
def feed(spark: "SparkSession", tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def tables(lake: Any) -> Any:
    for name in ("shop.all", "shop.zero"):
        lake.create_table(name, SCHEMA)
    return lake


def load(tx: Any, batch: "DataFrame") -> None:
    """One batch into two tables."""
    tx.append("shop.all", batch)
    tx.append("shop.zero", batch.where("n = 0"))


class Stopped(Exception):
    """Planted: the query stops when the lake has committed a batch and Spark does not know it yet."""


def stopping(sink: Callable[..., None], at: int) -> Callable[..., None]:
    def run(batch: "DataFrame", epoch: int) -> None:
        sink(batch, epoch)
        if epoch == at:
            raise Stopped(epoch)

    return run


def drain(frame: "DataFrame", run: Callable[..., None], checkpoint: Path) -> None:
    """Everything that is there, then stop; errors of the query are raised."""
    writer = frame.writeStream.foreachBatch(run).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def counted(lake: Any, name: str) -> list[int]:
    return sorted(lake.table(name).to_arrow()["id"].to_pylist())


@pytest.mark.soak
def test_every_row_once_over_two_tables_whenever_it_stops(
    spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    stops = effort(4, 20)
    for epoch in range(stops):
        feed.add()
        with pytest.raises(Exception, match="Stopped"):
            drain(feed.frame(), stopping(stream.sink(tables, load), epoch), tmp_path / "checkpoint")
    before = tables.version
    drain(feed.frame(), stream.sink(tables, load), tmp_path / "checkpoint")
    assert counted(tables, "shop.all") == list(range(10 * stops))
    assert counted(tables, "shop.zero") == [one for one in range(10 * stops) if one % 3 == 0]
    assert tables.version == before


def test_without_epochs_rows_come_twice(spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path) -> None:
    """So the test above would notice."""

    def without(batch: "DataFrame", epoch: int) -> None:
        with tables.transaction(spark=spark) as tx:
            load(tx, batch)

    feed.add()
    with pytest.raises(Exception, match="Stopped"):
        drain(feed.frame(), stopping(without, 0), tmp_path / "checkpoint")
    drain(feed.frame(), without, tmp_path / "checkpoint")
    assert len(counted(tables, "shop.all")) == 20


def test_a_named_stream_that_begins_anew_is_not_taken_for_a_repetition(
    spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path
) -> None:
    feed.add()
    drain(feed.frame(), stream.sink(tables, load, stream="orders"), tmp_path / "one")
    with pytest.raises(Exception, match="has committed epoch 0"):
        drain(feed.frame(), stream.sink(tables, load, stream="orders"), tmp_path / "two")
    assert counted(tables, "shop.all") == list(range(10))


def test_a_second_sink_of_a_query_is_not_taken_for_a_repetition_of_the_first(
    spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path
) -> None:
    feed.add()

    def both(named: str | None) -> Callable[..., None]:
        def run(batch: "DataFrame", epoch: int) -> None:
            stream.sink(tables, lambda tx, rows: tx.append("shop.all", rows))(batch, epoch)
            stream.sink(tables, lambda tx, rows: tx.append("shop.zero", rows), stream=named)(batch, epoch)

        return run

    for _ in range(2):  # and starting the query again does not help
        with pytest.raises(Exception, match="another sink of the same query"):
            drain(feed.frame(), both(None), tmp_path / "checkpoint")
    drain(feed.frame(), both("zero"), tmp_path / "checkpoint")
    assert counted(tables, "shop.all") == counted(tables, "shop.zero") == list(range(10))


def test_a_batch_whose_function_rolls_back_is_not_taken_for_done(
    spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path
) -> None:
    """Spark never gives a batch again for which the function has returned: its rows would be lost."""

    def gives_up(tx: Any, batch: "DataFrame") -> None:
        load(tx, batch)
        tx.rollback()

    feed.add()
    before = tables.version
    with pytest.raises(Exception, match="rolled its transaction back, and batch 0 is not committed"):
        drain(feed.frame(), stream.sink(tables, gives_up), tmp_path / "checkpoint")
    assert tables.version == before
    drain(feed.frame(), stream.sink(tables, load), tmp_path / "checkpoint")
    assert counted(tables, "shop.all") == list(range(10))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stream": 5}, "the name of a stream cannot be 5"),
        ({"stream": ""}, "the name of the stream is empty"),
        ({"stream": " "}, "the name of the stream is empty"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": "3"}, "attempts"),
    ],
    ids=str,
)
def test_names_and_attempts_that_are_none_are_refused_before_the_query_starts(
    tables: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        stream.sink(tables, load, **given)


def test_outside_of_a_query_the_sink_refuses(spark: "SparkSession", tables: Any) -> None:
    with pytest.raises(InvalidInput, match="outside of a streaming query"):
        stream.sink(tables, load)(spark.range(1), 0)


def start(frame: "DataFrame", lake: Any, table: str, checkpoint: Path, **options: str) -> "StreamingQuery":
    writer = frame.writeStream.format("seiche").options(lake=lake.uri, table=table, **options)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def test_the_format_writes_each_batch_once(spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path) -> None:
    feed.add(2)
    checkpoint = tmp_path / "checkpoint"
    start(feed.frame(), tables, "shop.all", checkpoint).awaitTermination()
    assert counted(tables, "shop.all") == list(range(20))
    # As if Spark had stopped before it wrote down that the last batch was done.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    feed.add()
    start(feed.frame(), tables, "shop.all", checkpoint).awaitTermination()
    assert counted(tables, "shop.all") == list(range(30))


@pytest.mark.parametrize("behind", [1, 2])
@pytest.mark.parametrize("sink", ["function", "format"])
def test_a_checkpoint_that_was_put_back_is_not_taken_for_a_repetition(
    spark: "SparkSession", tables: Any, feed: Feed, tmp_path: Path, sink: str, behind: int
) -> None:
    """Its batches have the numbers of others, and may have rows that were never committed."""

    def go() -> None:
        frame = feed.frame()
        if sink == "format":
            start(frame, tables, "shop.all", tmp_path / "checkpoint").awaitTermination()
        else:
            drain(frame, stream.sink(tables, lambda tx, batch: tx.append("shop.all", batch)), tmp_path / "checkpoint")

    feed.add()
    go()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    for _ in range(behind):
        feed.add()
        go()
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "copy", tmp_path / "checkpoint")
    # What comes first now is what had not come yet.
    for one in feed.folder.glob("000[1-9].json"):
        one.unlink()
    feed.add()
    before = tables.version
    told = f"batch 1 is planned anew, but version {before} of the lake has batch {behind}"
    with pytest.raises(Exception, match=told):
        go()
    assert tables.version == before


def test_a_stream_by_the_format_has_a_name_or_none(tables: Any, tmp_path: Path) -> None:
    from pyspark.sql.types import LongType, StructType

    given = {"lake": tables.uri, "table": "shop.all", "checkpointLocation": str(tmp_path), "stream": ""}
    columns = StructType().add("id", LongType()).add("n", LongType())
    with pytest.raises(InvalidInput, match="the name of the stream is empty"):
        StreamWriter(Options.of(given), columns, overwrite=False)


def test_a_stream_needs_a_checkpoint(tables: Any) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    options = Options.of({"lake": tables.uri, "table": "shop.all"})
    with pytest.raises(InvalidInput, match="no checkpoint"):
        StreamWriter(options, StructType([StructField("id", LongType())]), overwrite=False)


class Collected:
    """What a stream out of a table gave, batch by batch."""

    def __init__(self, spark: "SparkSession", lake: Any, checkpoint: Path, **options: str) -> None:
        self._spark = spark
        self._lake = lake
        self._checkpoint = checkpoint
        self._options = options
        self.batches: list[list[tuple[Any, ...]]] = []

    def drain(self) -> list[list[tuple[Any, ...]]]:
        self.batches = []
        reader = self._spark.readStream.format("seiche").options(lake=self._lake.uri, table="shop.all")
        drain(reader.options(**self._options).load(), self._keep, self._checkpoint)
        return [sorted(one) for one in self.batches if one]

    def _keep(self, batch: "DataFrame", epoch: int) -> None:
        self.batches.append([tuple(row) for row in batch.collect()])


def append(lake: Any, *ids: int) -> None:
    lake.table("shop.all").append([{"id": one, "n": 0} for one in ids])


def test_a_stream_follows_new_rows_and_ignores_compaction(spark: "SparkSession", tables: Any, tmp_path: Path) -> None:
    append(tables, 1)
    append(tables, 2)
    follower = Collected(spark, tables, tmp_path / "checkpoint", max_rows_per_trigger="2")
    assert follower.drain() == [[(1, 0), (2, 0)]]
    append(tables, 3)
    tables.table("shop.all").compact()
    tables.table("shop.all").create_index("id")
    append(tables, 4)
    append(tables, 5, 6)
    assert follower.drain() == [[(3, 0), (4, 0)], [(5, 0), (6, 0)]]
    assert follower.drain() == []
    tables.table("shop.all").delete("id = 1")
    with pytest.raises(Exception, match="removed or changed 1 rows"):
        follower.drain()


def test_a_stream_can_pass_over_changes_or_show_them(spark: "SparkSession", tables: Any, tmp_path: Path) -> None:
    append(tables, 1, 2)
    passing = Collected(spark, tables, tmp_path / "one", starting_version="latest", on_change="skip")
    showing = Collected(spark, tables, tmp_path / "two", starting_version=str(tables.version), changes="true")
    assert passing.drain() == []
    assert showing.drain() == []
    tables.table("shop.all").update({"n": "9"}, where="id = 2", mode="columns")
    tables.table("shop.all").delete("id = 1")
    append(tables, 3)
    assert passing.drain() == [[(3, 0)]]
    (batch,) = showing.drain()
    assert [row[:3] for row in batch] == [(1, 0, "delete"), (2, 9, "update"), (3, 0, "insert")]


def test_the_example(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    streaming = importlib.import_module("examples.streaming")
    streaming.main(spark, tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "the query failed: True",
        "p0: 68",
        "p1: 66",
        "p2: 66",
        "200 orders seen by the stream that follows the table",
    ]
