"""Compaction, columns and indices against pylance: the same work on copies of one table, in the same run.

pylance commits without flushing to disk, so the ratio compares with our store in the same mode; the last column is ours
with everything flushed, data files included.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from bench.report import Table
from bench.verbs import Case, rows
from seiche.store.local import Durability, LocalStore
from seiche.table.table import Table as SeicheTable

ROWS = 1_000_000
ROWS_PER_FILE = 20_000
ROUNDS = 5


def prepared(folder: Path) -> dict[str, Path]:
    """Tables that the cases start from."""
    made = {name: folder / name for name in ("plain", "deleted", "indexed", "vectors", "dictionary", "appended")}
    data = rows(np.arange(ROWS))
    for name, path in made.items():
        table = data
        if name == "dictionary":
            table = data.set_column(1, "name", data["name"].dictionary_encode())
        dataset: Any = lance.write_dataset(table, str(path), max_rows_per_file=ROWS_PER_FILE)
        if name == "deleted":
            dataset.delete("amount % 5 = 0")
        if name in ("indexed", "appended"):
            dataset.create_scalar_index("id", "BTREE")
            dataset.create_scalar_index("amount", "BITMAP")
        if name == "vectors":
            dataset.create_index("vector", "IVF_PQ", num_partitions=16, num_sub_vectors=4)
        if name == "appended":
            lance.write_dataset(rows(np.arange(ROWS, ROWS + 50_000)), str(path), mode="append")
    return made


def cases() -> list[tuple[str, Case]]:
    cast: Any = {"path": "price", "data_type": pa.float32()}

    def compact(ds: Any) -> object:
        return ds.optimize.compact_files()

    compactions = [
        ("plain", "compact 50 fragments"),
        ("deleted", "compact, 20 % deleted"),
        ("indexed", "compact, two scalar indices"),
        ("vectors", "compact, a vector index"),
        ("dictionary", "compact, a dictionary column"),
    ]
    return [
        *((origin, Case(title, compact, lambda t: t.compact())) for origin, title in compactions),
        (
            "plain",
            Case(
                "add a column by SQL",
                lambda ds: ds.add_columns({"total": "price * amount"}),
                lambda t: t.add_columns({"total": "price * amount"}),
            ),
        ),
        (
            "plain",
            Case(
                "cast a column",
                lambda ds: ds.alter_columns(cast),
                lambda t: t.alter_columns(cast),
            ),
        ),
        (
            "plain",
            Case(
                "build a B-tree",
                lambda ds: ds.create_scalar_index("id", "BTREE"),
                lambda t: t.create_index("id", "BTREE"),
            ),
        ),
        (
            "appended",
            Case("optimise two indices", lambda ds: ds.optimize.optimize_indices(), lambda t: t.optimize_indices()),
        ),
    ]


def run() -> Iterable[Table]:
    with tempfile.TemporaryDirectory(prefix="seiche-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
        origins = prepared(Path(folder))
        measured = [_measured(case, origins[name], Path(folder) / "copy") for name, case in cases()]
    yield Table(
        f"Maintenance of {ROWS:,} rows in {ROWS // ROWS_PER_FILE} fragments, one writer (median of {ROUNDS})",
        ["work", "pylance, ms", "Seiche, ms", "ratio", "Seiche flushed, ms"],
        measured,
        "The bar is a ratio of 1.20.",
    )


def _measured(case: Case, origin: Path, copy: Path) -> list[object]:
    times: dict[str, list[float]] = {"pylance": [], "os": [], "fsync": []}
    for _ in range(ROUNDS):
        times["pylance"].append(_timed(origin, copy, lambda: lance.dataset(str(copy)), case.theirs))
        times["os"].append(_timed(origin, copy, lambda: _opened(copy, "os"), case.ours))
        times["fsync"].append(_timed(origin, copy, lambda: _opened(copy, "fsync"), case.ours))
    theirs, ours, flushed = (1000 * median(times[name]) for name in ("pylance", "os", "fsync"))
    return [case.title, theirs, ours, ours / theirs, flushed]


def _opened(path: Path, durability: Durability) -> SeicheTable:
    return SeicheTable.open(LocalStore(path, durability=durability))


def _timed(origin: Path, copy: Path, opened: Callable[[], Any], work: Callable[[Any], object]) -> float:
    """Seconds for the work on a fresh copy, opening not counted. Data files never change, so links will do."""
    shutil.copytree(origin, copy, copy_function=os.link)
    try:
        table = opened()
        begin = time.perf_counter()
        work(table)
        return time.perf_counter() - begin
    finally:
        shutil.rmtree(copy)
