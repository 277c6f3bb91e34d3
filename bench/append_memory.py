"""How much memory an append takes, however much is appended.

    python -m bench.append_memory --gigabytes 5

The rows come from a generator and are written by a process of its own, whose largest resident memory is what counts. As
a part of all benchmarks it appends less.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.report import Table
from seiche.store.local import LocalStore
from seiche.table.table import Table as SeicheTable

BATCH_ROWS = 8192
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("price", pa.float64()),
        ("vector", pa.list_(pa.float32(), 64)),
    ]
)


def batches(size: int) -> Iterator[pa.RecordBatch]:
    """Batches until they have so many bytes in all, each made when it is asked for. Chance does not compress."""
    chance = np.random.default_rng(1)
    made = start = 0
    while made < size:
        ids = np.arange(start, start + BATCH_ROWS)
        text = pa.array([f"row {number} of some text that is a little longer" for number in ids])
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(chance.random(BATCH_ROWS * 64, dtype=np.float32)), 64)
        batch = pa.record_batch([pa.array(ids), text, pa.array(chance.random(BATCH_ROWS)), vectors], schema=SCHEMA)
        made += batch.nbytes
        start += BATCH_ROWS
        yield batch


def append(path: str, size: int) -> dict[str, float]:
    """Append in this process, and say what it took."""
    table = SeicheTable.create(LocalStore(path), SCHEMA)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    made = table.append(batches(size))
    return {
        "rows": made.rows,
        "bytes": made.bytes,
        "seconds": time.perf_counter() - start,
        "before": before * 1024,
        "largest": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measured(sizes: Iterable[int]) -> Table:
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="seiche-bench-", dir=os.environ.get("BENCH_DIR")) as folder:
            command = [sys.executable, "-m", "bench.append_memory", "--append", str(size), str(Path(folder) / "t")]
            made = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        rows.append(
            [
                f"{size / 1e9:.1f} GB",
                f"{made['rows']:,}",
                f"{made['bytes'] / 1e9:.2f} GB",
                made["seconds"],
                f"{made['before'] / 1e6:.0f} MB",
                f"{made['largest'] / 1e6:.0f} MB",
            ]
        )
    return Table(
        "Memory of an append from a generator, data files flushed",
        ["appended", "rows", "written", "seconds", "memory before", "largest memory"],
        rows,
        "The bar is 1 GB for 5 GB.",
    )


def run() -> Iterable[Table]:
    yield measured([100_000_000, 500_000_000])


def main() -> None:
    from rich.console import Console

    from bench.__main__ import show

    parser = argparse.ArgumentParser(description="Measure the memory of an append.")
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--append", nargs=2, metavar=("BYTES", "PATH"), help="append in this process")
    wanted = parser.parse_args()
    if wanted.append:
        size, path = wanted.append
        print(json.dumps(append(path, int(size))))
    else:
        show(Console(width=140), [measured([int(wanted.gigabytes * 1e9)])])


if __name__ == "__main__":
    main()
