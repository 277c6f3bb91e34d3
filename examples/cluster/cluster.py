"""A standalone Spark cluster on this machine, from the pyspark that pip installed: a master and some workers."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_DEPLOY = "org.apache.spark.deploy"
_PATIENCE = 120.0


class Cluster:
    """Processes of Spark that are ended together, each with a log in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }

    def start_master(self) -> str:
        """Start the master; its address."""
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = self._start("master", f"{_DEPLOY}.master.Master", *options)
        return "spark://" + _line(log, "Starting Spark master at spark://").rpartition("spark://")[2].strip()

    def start_workers(self, master: str, count: int, memory: str) -> None:
        """Start workers with one core each, and wait until the master knows them all."""
        logs = []
        for number in range(1, count + 1):
            place = str(self.folder / f"work{number}")
            options = ("-c", "1", "-m", memory, "--host", "127.0.0.1", "--webui-port", "0", "-d", place)
            logs.append(self._start(f"worker{number}", f"{_DEPLOY}.worker.Worker", *options, master))
        for log in logs:
            _line(log, "Successfully registered with master")

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        command = [str(Path(self._environment["SPARK_HOME"], "bin", "spark-class")), *arguments]
        with log.open("wb") as file:
            self.processes.append(
                subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=self._environment)
            )
        return log


@contextmanager
def cluster(folder: Path, workers: int = 2, memory: str = "700m") -> Iterator[str]:
    """A cluster for the length of the block; gives the address of its master."""
    made = Cluster(folder)
    try:
        address = made.start_master()
        made.start_workers(address, workers, memory)
        yield address
    finally:
        made.stop()


def _line(log: Path, text: str) -> str:
    """The first line of a log that has the text, as soon as there is one."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for line in log.read_text(errors="replace").splitlines():
            if text in line:
                return line
        time.sleep(0.2)
    raise RuntimeError(f"{log} never said {text!r}:\n{log.read_text(errors='replace')}")
