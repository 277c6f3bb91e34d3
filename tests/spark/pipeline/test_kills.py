"""Pipelines whose driver is killed at some moment: readers see complete publishes only, and every row counts once."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import pytest

import seiche
from seiche.errors import NotFound

COMMAND = Path(sys.executable).parent / "seiche"
PIPELINE = """\
lake: lake
sources:
  raw: {format: csv, path: "in/*.csv", schema: "id BIGINT, customer STRING", new: true}
steps:
  - {table: shop.orders, mode: append, sql: "SELECT id, customer FROM raw"}
  - {table: shop.latest, mode: merge, key: customer, sql: "SELECT customer, max(id) AS id FROM raw GROUP BY customer"}
  - {table: shop.counts, sql: "SELECT customer, count(*) AS orders FROM shop.orders GROUP BY customer"}
checks:
  - foreign_key: {table: shop.orders, columns: customer, references: shop.counts}
"""
# What the command prints while it works; it is killed when it says one of these, or a random while after.
MOMENTS = ("shop.orders: running", "shop.orders: ", "shop.counts: running", "shop.counts: ", "checking", "passed")


class Reader(Thread):
    """Looks at all tables of the newest version, again and again, and notes what does not fit together."""

    def __init__(self, lake: Path) -> None:
        super().__init__(daemon=True)
        self._lake = lake
        self.stop = Event()
        self.looks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stop.wait(0.05):
            try:
                lake = seiche.open(str(self._lake))
                pinned = seiche.open(lake.store, version=lake.version)
                orders = Counter(pinned.table("shop.orders").to_arrow()["customer"].to_pylist())
                counts = {row["customer"]: row["orders"] for row in pinned.table("shop.counts").to_arrow().to_pylist()}
                latest = set(pinned.table("shop.latest").to_arrow()["customer"].to_pylist())
            except NotFound:
                continue  # nothing is published yet
            self.looks += 1
            if orders != counts or latest != set(counts):
                self.wrong.append(f"version {pinned.version}: {orders}, {counts}, {latest}")


def killed(folder: Path, moment: str, wait: float) -> bool:
    """Run the pipeline in a process group of its own and kill all of it; whether there was anything to kill."""
    process = subprocess.Popen(
        [COMMAND, "run", "shop.yaml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if moment in line:
            break
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    finally:
        process.stderr.close()
    return False


@pytest.mark.slow
@pytest.mark.soak
def test_killed_drivers(tmp_path: Path, java: None, one_spark: None, effort: Callable[[int, int], int]) -> None:
    rounds, chance = effort(1, 50), random.Random(11)
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    reader = Reader(tmp_path / "lake")
    reader.start()
    kills = 0
    rows: list[int] = []
    for number in range(rounds):
        new = range(number * 100, number * 100 + 100)
        (tmp_path / "in" / f"{number}.csv").write_text("".join(f"{one},customer-{one % 7}\n" for one in new))
        rows += new
        kills += killed(tmp_path, MOMENTS[chance.randrange(len(MOMENTS))], chance.random() * 2)
    done = subprocess.run([COMMAND, "run", "shop.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    reader.stop.set()
    reader.join()
    assert done.returncode == 0, done.stderr
    assert kills >= max(1, rounds // 3)
    assert reader.looks > 0
    assert reader.wrong == []
    lake = seiche.open(str(tmp_path / "lake"))
    assert sorted(lake.table("shop.orders").to_arrow()["id"].to_pylist()) == rows
    assert lake.fsck().ok
