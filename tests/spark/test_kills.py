"""The driver is killed at any moment of writes, merges, compaction and a stream; run again, every row is there once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.killed_job import ROWS

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def driver(lake: Any, folder: Path, steps: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.spark.killed_job", lake.uri, str(folder), str(steps)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)


def kill_after(running: "subprocess.Popen[bytes]", lake: Any, version: int, pause: float) -> bool:
    """Kill the driver and all it started, a little after the lake has got this far; `False` if it had ended."""
    deadline = time.monotonic() + 120
    while lake.version < version and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(pause)
    alive = running.poll() is None
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    return alive


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_driver_that_is_killed(
    java: None, one_spark: None, lake: Any, tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    kills, steps, files = effort(1, 8), effort(2, 6), effort(2, 6)
    for name in ("shop.all", "shop.zero", "shop.plain"):
        lake.create_table(name, SCHEMA)
    lake.create_table("shop.steps", pa.schema([("step", pa.int64())]))
    lake.create_table("shop.counts", pa.schema([("n", pa.int64()), ("count", pa.int64())]))
    (tmp_path / "feed").mkdir()
    for number in range(files):
        rows = range(10 * number, 10 * number + 10)
        text = "".join(f'{{"id": {one}, "n": {one % 3}}}\n' for one in rows)
        (tmp_path / "feed" / f"{number:04}.json").write_text(text)
    chance = random.Random(kills)
    killed = []
    for _ in range(kills):
        at = lake.version
        begun = driver(lake, tmp_path, steps)
        if not kill_after(begun, lake, at + chance.randint(0, 4), chance.random() * 2):
            break
        killed.append(lake.version - at)
    last = driver(lake, tmp_path, steps)
    assert last.wait(400) == 0, (tmp_path / "log").read_text()[-3000:]
    assert killed, "it never got to be killed"
    every = [*range(-ROWS * steps, 0), *range(10 * files)]
    kinds = [(-1 - one if one < 0 else one) % 3 for one in every]
    assert sorted(lake.table("shop.all").to_arrow()["id"].to_pylist()) == every
    zero = [one for one, kind in zip(every, kinds, strict=True) if not kind]
    assert sorted(lake.table("shop.zero").to_arrow()["id"].to_pylist()) == zero
    counts = lake.table("shop.counts").to_arrow().sort_by("n")["count"].to_pylist()
    assert counts == [kinds.count(kind) for kind in range(3)]
    plain = sorted((row["n"], row["id"]) for row in lake.table("shop.plain").to_arrow().to_pylist())
    assert plain == [(number, row) for number in range(steps) for row in range(ROWS)]
    assert lake.fsck().problems == ()
    print(f"{len(killed)} kills, after {killed} versions each; {steps} steps, {files} batches, {lake.version} versions")
