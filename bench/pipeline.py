"""Pipelines: what publishing ten tables at once costs, and what the transaction and its checks add to Spark's work.

Sizes are set by SEICHE_BENCH_PIPELINE_ROWS (500,000 for each table; the second comparison also with four times as
many). Ratios are of best times, measured in turns; each pipeline checks the number of rows, a column and the key of
every table.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import seiche
from bench.report import Table
from seiche.spark import session
from seiche.spark.pipeline.decorators import Pipeline
from seiche.spark.pipeline.run import run as publish
from seiche.spark.pipeline.shorthands import unique
from tools import java_home

ROWS = int(os.environ.get("SEICHE_BENCH_PIPELINE_ROWS", "500000"))
ROUNDS = 4
TABLES = 10
CHECKS = 3


def definition(folder: Path, tables: int, rows: int) -> Any:
    """Tables of the same size from one source, each with three checks: rows, values, keys."""
    made = Pipeline("bench", str(folder / "lake"))

    @made.source()
    def numbers(spark: Any) -> Any:
        return spark.range(rows).selectExpr("id", "id % 97 AS k", "rand(7) AS x", "concat('name ', id % 5000) AS name")

    for number in range(tables):
        made.step(f"bench.t{number}", sql=f"SELECT id, k, x + {number} AS x, name FROM numbers")
        made.check(f"rows of t{number}", f"SELECT count(*) FROM bench.t{number}", expect=rows)
        made.check(f"x of t{number}", f"SELECT count(*) FROM bench.t{number} WHERE x < 0 OR x IS NULL", expect=0)
        made.check(unique(f"bench.t{number}", "id"))
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
        for rows in (ROWS, 4 * ROWS):
            yield overhead(spark, folder, rows)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def together(spark: Any, folder: Path) -> Table:
    """Ten tables in one publish, and in ten."""
    whole = definition(folder, TABLES, ROWS)

    def separately() -> None:
        for number, step in enumerate(whole.steps):
            checks = whole.checks[number * CHECKS : (number + 1) * CHECKS]
            publish(replace(whole, steps=(step,), checks=checks), spark)

    publish(whole, spark)
    separately()
    pairs = [(timed(lambda: publish(whole, spark)), timed(separately)) for _ in range(ROUNDS)]
    once, apart = (min(times) for times in zip(*pairs, strict=True))
    rows = [("at once", once, 1.0), ("one by one", apart, apart / once)]
    return Table(f"{TABLES} tables of {ROWS:,} rows, seconds", ("published", "seconds", "times"), rows)


def overhead(spark: Any, folder: Path, rows: int) -> Table:
    """One pipeline of three tables with checks, and the same frames written as parquet: one by one, and at once."""
    whole = definition(folder / f"three-{rows}", 3, rows)

    def write(step: Any) -> None:
        frame = whole.sources[0].make(spark).selectExpr("id", "k", "x + 1 AS x", "name")
        frame.write.mode("overwrite").parquet(str(folder / "parquet" / step.table))

    def one_by_one() -> None:
        for step in whole.steps:
            write(step)

    def at_once() -> None:
        with ThreadPoolExecutor(len(whole.steps)) as pool:
            list(pool.map(write, whole.steps))

    quick = seiche.create(str(folder / f"quick-{rows}"), durability="os")
    works = {
        "pipeline, checked and committed": lambda: publish(whole, spark, lake=quick),
        "the same, on the disk when it returns": lambda: publish(whole, spark),
        "parquet, one by one": one_by_one,
        "parquet, side by side": at_once,
    }
    for work in works.values():
        work()
    rounds = [[timed(work) for work in works.values()] for _ in range(ROUNDS)]
    seconds = [min(times) for times in zip(*rounds, strict=True)]
    best = min(seconds[-2:])
    shown = [(name, one, one / best) for name, one in zip(works, seconds, strict=True)]
    note = "the bar: at most 1.3 times the better parquet, which leaves it to the system when to write to the disk"
    return Table(f"3 tables of {rows:,} rows, seconds", ("written as", "seconds", "times parquet"), shown, note)
