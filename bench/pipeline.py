"""Pipelines: what publishing ten tables at once costs, and what the transaction and its checks add to Spark's work.

Sizes are set by SEICHE_BENCH_PIPELINE_ROWS (500,000 for each table). Ratios are of best times, measured in turns.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.report import Table
from seiche.spark import session
from seiche.spark.pipeline.decorators import Pipeline
from seiche.spark.pipeline.run import run as publish
from tools import java_home

ROWS = int(os.environ.get("SEICHE_BENCH_PIPELINE_ROWS", "500000"))
ROUNDS = 3
TABLES = 10


def definition(folder: Path, tables: int) -> Any:
    """Tables of the same size from one source, each with a check."""
    made = Pipeline("bench", str(folder / "lake"))

    @made.source()
    def numbers(spark: Any) -> Any:
        return spark.range(ROWS).selectExpr("id", "id % 97 AS k", "rand(7) AS x", "concat('name ', id % 5000) AS name")

    for number in range(tables):
        made.step(f"bench.t{number}", sql=f"SELECT id, k, x + {number} AS x, name FROM numbers")
        made.check(f"rows of t{number}", f"SELECT count(*) FROM bench.t{number}", expect=ROWS)
    return made.definition


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run() -> Iterable[Table]:
    os.environ["JAVA_HOME"] = str(java_home.from_machine() or java_home.from_pypi(Path(__file__).resolve().parents[1]))
    folder = Path(tempfile.mkdtemp(prefix="seiche-bench-"))
    spark = session("bench", memory="4g", settings={"spark.sql.shuffle.partitions": "4"})
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield together(spark, folder)
        yield overhead(spark, folder)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def together(spark: Any, folder: Path) -> Table:
    """Ten tables in one publish, and in ten."""
    whole = definition(folder, TABLES)

    def separately() -> None:
        for step, check in zip(whole.steps, whole.checks, strict=True):
            publish(replace(whole, steps=(step,), checks=(check,)), spark)

    publish(whole, spark)
    separately()
    pairs = [(timed(lambda: publish(whole, spark)), timed(separately)) for _ in range(ROUNDS)]
    once, apart = (min(times) for times in zip(*pairs, strict=True))
    rows = [("at once", once, 1.0), ("one by one", apart, apart / once)]
    return Table(f"{TABLES} tables of {ROWS:,} rows, seconds", ("published", "seconds", "times"), rows)


def overhead(spark: Any, folder: Path) -> Table:
    """One pipeline of three tables with checks, and the same frames written as parquet."""
    whole = definition(folder / "three", 3)

    def parquet() -> None:
        source = whole.sources[0].make(spark)
        for step in whole.steps:
            frame = source.selectExpr("id", "k", "x + 1 AS x", "name")
            frame.write.mode("overwrite").parquet(str(folder / "parquet" / step.table))

    publish(whole, spark)
    parquet()
    pairs = [(timed(lambda: publish(whole, spark)), timed(parquet)) for _ in range(ROUNDS)]
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    rows = [("pipeline, checked and committed", ours, ours / theirs), ("parquet, neither", theirs, 1.0)]
    note = "the bar: at most 1.3 times"
    return Table(f"3 tables of {ROWS:,} rows, seconds", ("written as", "seconds", "times parquet"), rows, note)
