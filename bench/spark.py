"""Spark on a lake against Spark on parquet, and merges against delta-rs: the same work in the same run.

Sizes are set by environment variables: SEICHE_BENCH_ROWS (5,000,000), SEICHE_BENCH_ROUNDS (2), SEICHE_BENCH_FRAGMENTS
(1,000); SEICHE_BENCH_PARTS chooses among parquet, merge and compact. A ratio is our time divided by theirs, each the
best of the rounds after one to warm up. What no source in Python can go below is shown too: the same by one that does
nothing (`_spark_floor`).
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import seiche
from bench._spark_floor import Nothing
from bench.report import Table
from seiche.spark import session
from tools import java_home

ROWS = int(os.environ.get("SEICHE_BENCH_ROWS", "5000000"))
ROUNDS = int(os.environ.get("SEICHE_BENCH_ROUNDS", "2"))
FRAGMENTS = int(os.environ.get("SEICHE_BENCH_FRAGMENTS", "1000"))
PARTS = os.environ.get("SEICHE_BENCH_PARTS", "parquet,merge,compact").split(",")
MERGED = ROWS // 50

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("n", pa.int64()),
    ]
)
COLUMNS = (
    "id",
    "cast(id % 100 as int) as k",
    "rand(1) as x",
    "id / 7.0D as y",
    "concat('name ', id % 5000) as name",
    "date_add(date'2020-01-01', cast(id % 1000 as int)) as day",
    "id % 3 = 0 as flag",
    "id * 17 % 1000003 as n",
)
# To keep to it Spark weighs a batch after every row.
_WEIGHED = "spark.sql.execution.arrow.maxBytesPerBatch"
# Name, and what the bar is: at most so many times the other's time.
WRITE, PRUNED, ONE, COUNT, MERGE = ("1.3", "1.0", "1.5", "0.1", "1.0")


def interleaved(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    """The best time of both, measured in turns: what else the machine does meets both."""
    ours()
    theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, taken in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


class Bench:
    """One lake, one folder of parquet, one source of rows for both."""

    def __init__(self, folder: Path) -> None:
        found = java_home.from_machine() or java_home.from_pypi(Path(__file__).resolve().parents[1])
        os.environ["JAVA_HOME"] = str(found)
        self.folder = folder
        self.spark = session("bench", master=f"local[{os.cpu_count()}]", memory="2g")
        self.spark.sparkContext.setLogLevel("ERROR")
        self.lake = seiche.create(f"file://{folder}/lake")
        self.lake.create_namespace("b")
        self.lake.create_table("b.t", SCHEMA)
        self.source = str(folder / "source")
        parts = 2 * (os.cpu_count() or 1)
        self.spark.range(0, ROWS, 1, parts).selectExpr(*COLUMNS).write.parquet(self.source)
        self.options = {"lake": self.lake.uri, "table": "b.t"}
        self.spark.dataSource.register(Nothing)

    def written(self) -> Iterable[list[object]]:
        frame = self.spark.read.parquet(self.source)
        target = str(self.folder / "target")

        def in_a_transaction() -> None:
            with self.lake.transaction(spark=self.spark) as tx:
                tx.overwrite("b.t", frame)

        def by_the_source() -> None:
            frame.write.format("seiche").options(**self.options).mode("overwrite").save()

        def dropped() -> None:
            frame.write.format(Nothing.name()).mode("append").save()

        def unweighed() -> None:
            self.spark.conf.set(_WEIGHED, str((1 << 31) - 1))
            by_the_source()
            self.spark.conf.unset(_WEIGHED)

        for name, ours, bar in (
            ("write", in_a_transaction, WRITE),
            ("the same through the data source", by_the_source, WRITE),
            ("  by a source that drops all rows", dropped, "-"),
            ("  and with batches of any size", unweighed, WRITE),
        ):
            taken, parquet = interleaved(ours, lambda: frame.write.parquet(target, mode="overwrite"))
            yield [name, taken, parquet, taken / parquet, bar]

    def read(self) -> Iterable[list[object]]:
        """What a query takes, of frames that were made before, both: to make one of parquet takes a job of its own."""
        parquet = self.spark.read.parquet(self.source)
        some = parquet.where("k = 7")
        with_spark = self.lake.spark(self.spark)
        cases: list[tuple[str, Any, Any, Callable[[Any], object], str]] = [
            ("read all columns", with_spark.read("b.t"), parquet, _maxima, "-"),
            ("sum of one column, pruned", with_spark.read("b.t", columns=["x"]), parquet, _sum, ONE),
            ("the same through the data source", self.source_of("x"), parquet, _sum, ONE),
            ("  by a source that has the rows in memory", self._in_memory(), parquet, _sum, "-"),
            (
                "sum where k = 7, pruned and filtered",
                with_spark.read("b.t", columns=["x"], filter="k = 7"),
                some,
                _sum,
                PRUNED,
            ),
            ("the same through the data source", self.source_of("x", filter="k = 7"), some, _sum, PRUNED),
        ]
        for name, ours, theirs, query, bar in cases:
            yield self._compared(name, partial(query, ours), partial(query, theirs), bar)
        yield self._compared("count from metadata", partial(with_spark.count, "b.t"), parquet.count, COUNT)

    @staticmethod
    def _compared(name: str, ours: Callable[[], object], theirs: Callable[[], object], bar: str) -> list[object]:
        # Short ones: what the virtual machine compiles on the way counts for little only after a few.
        taken, other = interleaved(ours, theirs, 4 * ROUNDS)
        return [name, taken, other, taken / other, bar]

    def source_of(self, columns: str, **options: str) -> Any:
        reader = self.spark.read.format("seiche").options(**self.options, columns=columns, **options)
        return reader.load()

    def _in_memory(self) -> Any:
        """As many rows of one column, by as many tasks as the lake's source makes of them."""
        tasks = self.source_of("x").rdd.getNumPartitions()
        return self.spark.read.format(Nothing.name()).options(rows=ROWS, partitions=tasks).load()

    def merged(self) -> list[object]:
        """Half of the rows are in the table already."""
        import deltalake

        delta = str(self.folder / "delta")
        deltalake.write_deltalake(delta, _table(self.source))
        start = ROWS - MERGED // 2
        data = self.spark.range(start, start + MERGED, 1, 4).selectExpr(*COLUMNS).persist()
        data.count()
        rows = data.toArrow()

        def ours() -> None:
            with self.lake.transaction(spark=self.spark) as tx:
                tx.merge("b.t", data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

        def theirs() -> None:
            merge = deltalake.DeltaTable(delta).merge(rows, "s.id = t.id", source_alias="s", target_alias="t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()

        taken, other = interleaved(ours, theirs)
        return [f"merge {MERGED:,} into {ROWS:,} rows", taken, other, taken / other, MERGE]

    def compacted(self) -> list[object]:
        """Once each: a table that is compacted has nothing left to do."""
        per = max(1, ROWS // FRAGMENTS // 5)
        times = []
        for name in ("b.spark", "b.native"):
            self.lake.create_table(name, SCHEMA)
            frame = self.spark.read.parquet(self.source).limit(per * FRAGMENTS)
            self.lake.table(name).append(frame.toArrow(), max_rows_per_file=per)
        for work in (
            lambda: self.lake.spark(self.spark).compact("b.spark", target_rows_per_fragment=per * 50),
            lambda: self.lake.table("b.native").compact(target_rows_per_fragment=per * 50),
        ):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return [f"compact {FRAGMENTS:,} fragments of {per:,} rows", *times, times[0] / times[1], "-"]


def _maxima(frame: Any) -> object:
    return frame.selectExpr(*(f"max({field.name})" for field in SCHEMA)).collect()


def _sum(frame: Any) -> object:
    return frame.selectExpr("sum(x)").collect()


def _table(folder: str) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(folder)


def run() -> Iterable[Table]:
    """All of it; about five minutes on two cores at full size."""
    folder = Path(tempfile.mkdtemp(prefix="seiche-bench-"))
    columns = ("what", "ours, s", "theirs, s", "ratio", "bar")
    try:
        bench = Bench(folder)
        rows = [*bench.written(), *(bench.read() if "parquet" in PARTS else ())]
        note = "Ours is fsynced; parquet and Delta are not."
        yield Table(f"Spark, {ROWS:,} rows of 8 columns, against parquet", columns, rows, note)
        if "merge" in PARTS:
            yield Table("A merge by Spark, against delta-rs in one process", columns, [bench.merged()])
        if "compact" in PARTS:
            yield Table("Compaction by Spark, against threads of one process", columns, [bench.compacted()])
        bench.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
