"""A real cluster: a master and two workers with one core each, from the installed pyspark."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from examples.cluster.cluster import cluster
from tests.spark.quick import QUICK_JAVA

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def master(
    java: None, tmp_path: Path, effort: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of the master, when both workers are there."""
    if effort(1, 0):
        for name, value in QUICK_JAVA.items():
            monkeypatch.setenv(name, value)
    with cluster(tmp_path) as address:
        yield address


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_workers_share_the_work_and_one_dies(
    master: str, tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    """In the long form it merges two and a half million rows into five, with a driver of 1 GB that takes 16 MB, and
    executors are killed meanwhile.
    """
    rows = effort(40_000, 5_000_000)
    job = [sys.executable, "-m", "tests.spark.cluster_job"]
    kills = effort(0, 1)
    command = [*job, master, f"file://{tmp_path}/lake", str(tmp_path), str(rows), "kills" if kills else ""]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=effort(270, 1700), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    print(f"{rows:,} rows: {seen}")
    # In the merge, of those that wrote fragments and of those that wrote deletion vectors.
    assert (seen["append"]["executors"], seen["merge"].pop("executors")) == (2, 2)
    # Where one dies the other may have to do all of it.
    busy = [seen[what].pop("executors") for what in ("join", "compact")]
    assert kills or busy == [2, 2]
    assert seen["merge"] == {"inserted": 500, "updated": rows // 2, "deleted": 0}
    assert seen["join"] == {"inserted": 0, "updated": rows // 20, "deleted": 0}
    assert sum(seen["kills"]) >= kills
    assert seen.get("stream", [6000] * 4) == [6000] * 4
    assert seen["index"] == rows + 500
    assert seen["killed"]
    assert seen["read"] == [rows + 600, rows // 2 + 500, rows + 600]
    assert seen["source"] == 5
