"""Exporting a lake against copying its directory with `cp -r`, which neither hashes nor reads back what it wrote.

Data files have no rows in them: nobody here looks at more than their bytes.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import pyarrow as pa

import seiche
from bench.report import Table
from seiche.lake.lake import Lake
from seiche.store import open_store
from seiche.table.change import Change
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.operations import Append

# How many data files of how many bytes.
SHAPES = {"a few large files": (40, 8 << 20), "many small files": (5_000, 4 << 10)}
SCHEMA = pa.schema([("id", pa.int64())])
ROUNDS = 3


def run() -> Iterable[Table]:
    """The same bytes by each of them, taking turns; the best of each."""
    rows = []
    for shape, (count, size) in SHAPES.items():
        with tempfile.TemporaryDirectory() as directory:
            lake = built(Path(directory) / "lake", count, size)
            ways: dict[str, Callable[[Path], None]] = {
                "cp -r": lambda to, lake=lake: copy(lake, to),  # type: ignore[misc]
                "export": lambda to, lake=lake: export(lake, to, "os"),  # type: ignore[misc]
                "export, every file flushed": lambda to, lake=lake: export(lake, to, "fsync"),  # type: ignore[misc]
            }
            best = dict.fromkeys(ways, float("inf"))
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    best[name] = min(best[name], measured(way, Path(directory) / "copy"))
        for name, spent in best.items():
            rate = count * size / spent / (1 << 20)
            rows.append((f"{shape}: {name}", f"{rate:,.0f}", f"{count / spent:,.0f}", f"{spent / best['cp -r']:.1f}"))
    note = "An export also reads every file and its copy back, compares them and hashes them before it is a lake."
    yield Table("Copying a lake", ("what", "MiB/s", "files/s", "times cp -r"), rows, note)


def measured(way: Callable[[Path], None], target: Path) -> float:
    """Seconds, with nothing left over from before that has to be written."""
    os.sync()
    began = time.perf_counter()
    way(target)
    spent = time.perf_counter() - began
    shutil.rmtree(target)
    return spent


def copy(lake: Lake, target: Path) -> None:
    """As somebody would who knows nothing of lakes."""
    subprocess.run(["cp", "-r", lake.store.native_uri(), target], check=True)


def export(lake: Lake, target: Path, durability: Literal["os", "fsync"]) -> None:
    """A full export."""
    lake.export("bench", open_store(target, durability=durability))
    lake.unexport("bench")


def built(place: Path, count: int, size: int) -> Lake:
    """A lake with one table of so many files."""
    lake = seiche.create(open_store(place, durability="os"))
    lake.create_namespace("shop")
    lake.create_table("shop.t", SCHEMA)
    data = os.urandom(size)
    with lake.transaction() as tx:
        table = tx.table("shop.t")
        location = tx.edit(table.id).row.location
        fragments = []
        for number in range(count):
            path = f"{number:06}-{'x' * 32}.lance"
            tx.state.store.put(f"{location}/data/{path}", data)
            file = DataFile(path=path, fields=[0], column_indices=[0], file_size_bytes=size)
            file.file_major_version = file.file_minor_version = 2
            fragments.append(DataFragment(files=[file], physical_rows=1))
        table.apply(Change(Append(tuple(fragments)), rows=count))
    return lake
