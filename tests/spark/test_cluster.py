"""A real cluster: a master and two workers with one core each, from the installed pyspark."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """Processes that are ended together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self, name: str, *arguments: str) -> Path:
        """Start a process of Spark; returns where its log is."""
        log = self._folder / f"{name}.log"
        command = [str(Path(self._environment["SPARK_HOME"], "bin", "spark-class")), *arguments]
        with log.open("wb") as file:
            self._running.append(
                subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=self._environment)
            )
        return log

    def stop(self) -> None:
        for one in reversed(self._running):
            one.terminate()
        for one in self._running:
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


def line_with(log: Path, text: str) -> str:
    """The first line of a log that has the text, as soon as there is one."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for line in log.read_text(errors="replace").splitlines():
            if text in line:
                return line
        time.sleep(0.2)
    raise AssertionError(f"{log} never said {text!r}:\n{log.read_text(errors='replace')}")


@pytest.fixture
def master(java: None, tmp_path: Path) -> Iterator[str]:
    """The address of the master, when both workers are there."""
    cluster = Cluster(tmp_path)
    deploy = "org.apache.spark.deploy"
    try:
        log = cluster.start(
            "master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        address = "spark://" + line_with(log, "Starting Spark master at spark://").rpartition("spark://")[2].strip()
        for number in (1, 2):
            folder = tmp_path / f"work{number}"
            options = ("-c", "1", "-m", "700m", "--host", "127.0.0.1", "--webui-port", "0", "-d", str(folder))
            worker = cluster.start(f"worker{number}", f"{deploy}.worker.Worker", *options, address)
            line_with(worker, "Successfully registered with master")
        yield address
    finally:
        cluster.stop()


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_two_workers_share_the_work_and_one_dies(
    master: str, tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    """In the long form it merges two and a half million rows into five, with a driver of 1 GB that takes 16 MB."""
    rows = effort(40_000, 5_000_000)
    job = [sys.executable, "-m", "tests.spark.cluster_job"]
    command = [*job, master, f"file://{tmp_path}/lake", str(tmp_path), str(rows)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=effort(270, 1700), check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["append"]["executors"] == 2
    assert seen["merge"] == {"inserted": 500, "updated": rows // 2, "deleted": 0, "executors": 2}
    assert seen["join"] == {"inserted": 0, "updated": rows // 20, "deleted": 0, "executors": 2}
    assert seen["compact"]["executors"] == 2
    assert seen["index"] == rows + 500
    assert seen["killed"]
    assert seen["read"] == [rows + 600, rows // 2 + 500, rows + 600]
    assert seen["source"] == 5
