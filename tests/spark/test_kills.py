"""The driver of a stream is killed at any moment; when it has been started again, every row is there once."""

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

ROOT = Path(__file__).resolve().parents[2]
FILES = 4


def driver(lake: Any, folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.spark.stream_job", lake.uri, str(folder / "feed"), str(folder / "point")]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)


def kill_after(running: "subprocess.Popen[bytes]", lake: Any, version: int, pause: float) -> None:
    """Kill the driver and all it started, a little after the lake has got this far; or let it end."""
    deadline = time.monotonic() + 120
    while lake.version < version and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(pause)
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


@pytest.mark.slow
@pytest.mark.soak
def test_a_stream_whose_driver_is_killed(
    java: None, one_spark: None, lake: Any, tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    kills, files = effort(1, 12), FILES * effort(1, 4)
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    for name in ("shop.all", "shop.zero"):
        lake.create_table(name, schema)
    lake.create_table("shop.counts", pa.schema([("n", pa.int64()), ("count", pa.int64())]))
    (tmp_path / "feed").mkdir()
    for number in range(files):
        rows = range(10 * number, 10 * number + 10)
        text = "".join(f'{{"id": {one}, "n": {one % 3}}}\n' for one in rows)
        (tmp_path / "feed" / f"{number:04}.json").write_text(text)
    chance = random.Random(kills)
    for _ in range(kills):
        kill_after(driver(lake, tmp_path), lake, lake.version + chance.randint(1, 3), chance.random() * 0.3)
    last = driver(lake, tmp_path)
    assert last.wait(240) == 0, (tmp_path / "log").read_text()[-3000:]
    every = list(range(10 * files))
    assert sorted(lake.table("shop.all").to_arrow()["id"].to_pylist()) == every
    assert sorted(lake.table("shop.zero").to_arrow()["id"].to_pylist()) == [one for one in every if one % 3 == 0]
    counts = lake.table("shop.counts").to_arrow().sort_by("n")["count"].to_pylist()
    assert counts == [sum(one % 3 == kind for one in every) for kind in range(3)]
    print(f"{kills} kills, {files} batches, {lake.version} versions")
