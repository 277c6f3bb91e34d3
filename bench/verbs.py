"""Delete, update and merge against pylance: the same statement on copies of one table, in the same run.

pylance commits without flushing to disk, so the ratio compares with our store in the same mode; the last column is ours
with everything flushed, data files included.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from bench.report import Table
from seiche.store.local import Durability, LocalStore
from seiche.table.table import Table as SeicheTable

ROWS = 1_000_000
ROWS_PER_FILE = 100_000
ROUNDS = 7


@dataclass(frozen=True)
class Case:
    """One statement, as pylance and as we say it."""

    title: str
    theirs: Callable[[lance.LanceDataset], object]
    ours: Callable[[SeicheTable], object]


def rows(ids: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    """Rows of about 110 bytes: a key, text, numbers, and a short vector."""
    chance = np.random.default_rng(len(ids))
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "name": pa.array([f"name {number % 5000}" for number in range(count)]),
            "price": chance.random(count),
            "amount": chance.integers(0, 1000, count),
            "weight": chance.random(count),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(chance.random(count * 16, dtype=np.float32)), 16),
        }
    )


def cases() -> list[Case]:
    chance = np.random.default_rng(1)
    mixed = rows(np.concatenate([chance.choice(ROWS, 50_000, replace=False), np.arange(ROWS, ROWS + 50_000)]))
    two = rows(np.array([5, 2 * ROWS]))
    columns = mixed.select(["id", "price"]).slice(0, 50_000)
    return [
        Case("delete 10 %", lambda ds: ds.delete("amount % 10 = 0"), lambda t: t.delete("amount % 10 = 0")),
        Case("delete one row", lambda ds: ds.delete("id = 5"), lambda t: t.delete("id = 5")),
        Case("delete all", lambda ds: ds.delete("true"), lambda t: t.delete("true")),
        _update("update 10 %", {"price": "price + 1"}, "amount % 10 = 0"),
        _update("update one row", {"price": "price + 1"}, "id = 5"),
        _update("update all", {"price": "price + 1"}, None),
        _update("update all, most columns", {name: f"{name} + 1" for name in ("price", "amount", "weight")}, None),
        _upsert("upsert 50,000 old and 50,000 new", mixed),
        _upsert("upsert 1 old and 1 new", two),
        Case(
            "merge 1 column into 50,000",
            lambda ds: ds.merge_insert("id").when_matched_update_all().execute(columns),
            lambda t: t.merge(columns, on="id").when_matched_update_all().execute(),
        ),
        Case(
            "merge if newer",
            lambda ds: ds.merge_insert("id").when_matched_update_all("source.price > target.price").execute(mixed),
            lambda t: t.merge(mixed, on="id").when_matched_update_all("source.price > target.price").execute(),
        ),
    ]


def _update(title: str, assignments: dict[str, str], where: str | None) -> Case:
    return Case(title, lambda ds: ds.update(assignments, where=where), lambda t: t.update(assignments, where=where))


def _upsert(title: str, data: pa.Table) -> Case:
    return Case(
        title,
        lambda ds: ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data),
        lambda t: t.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute(),
    )


def run() -> Iterable[Table]:
    # Under the working directory: the usual place for temporary files may be in memory, where flushing costs nothing.
    with tempfile.TemporaryDirectory(prefix="seiche-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
        origin = Path(folder) / "origin"
        lance.write_dataset(rows(np.arange(ROWS)), str(origin), max_rows_per_file=ROWS_PER_FILE)
        measured = [_measured(case, origin, Path(folder) / "copy") for case in cases()]
    yield Table(
        f"Verbs on {ROWS:,} rows in {ROWS // ROWS_PER_FILE} fragments, one writer (median of {ROUNDS})",
        ["statement", "pylance, ms", "Seiche, ms", "ratio", "Seiche flushed, ms"],
        measured,
        "The bar is a ratio of 1.20.",
    )


def _measured(case: Case, origin: Path, copy: Path) -> list[object]:
    times: dict[str, list[float]] = {"pylance": [], "os": [], "fsync": []}
    for _ in range(ROUNDS):
        times["pylance"].append(_timed(origin, copy, lambda: lance.dataset(str(copy)), case.theirs))
        for durability in ("os", "fsync"):
            times[durability].append(_timed(origin, copy, lambda d=durability: _opened(copy, d), case.ours))  # type: ignore[misc]
    theirs, ours, flushed = (1000 * median(times[name]) for name in ("pylance", "os", "fsync"))
    return [case.title, theirs, ours, ours / theirs, flushed]


def _opened(path: Path, durability: Durability) -> SeicheTable:
    return SeicheTable.open(LocalStore(path, durability=durability))


def _timed(origin: Path, copy: Path, opened: Callable[[], Any], statement: Callable[[Any], object]) -> float:
    """Seconds for the statement on a fresh copy, opening not counted. Data files never change, so links will do."""
    shutil.copytree(origin, copy, copy_function=os.link)
    try:
        table = opened()
        start = time.perf_counter()
        statement(table)
        return time.perf_counter() - start
    finally:
        shutil.rmtree(copy)
