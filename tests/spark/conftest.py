"""One small Spark for all tests that need one, and at most one at a time on a machine."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import seiche
from tests.spark.quick import QUICK
from tools import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent


def pytest_itemcollected(item: pytest.Item) -> None:
    """Spark and what it imports warn of things that are theirs to mend."""
    if FOLDER in item.path.parents:
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def java() -> None:
    """A Java that Spark can use, from PyPI if the machine has none."""
    found = java_home.from_machine() or java_home.from_pypi(Path(__file__).resolve().parents[2])
    os.environ["JAVA_HOME"] = str(found)


@pytest.fixture(scope="session")
def one_spark(server_folder: Path) -> Iterator[None]:
    """Held by whoever has a Spark: several at once would only take turns on the processors, and need the memory.

    A courtesy: if the tests of this folder were spread over workers, one that waited for another to end would wait for
    ever.
    """
    server_folder.mkdir(parents=True, exist_ok=True)
    with (server_folder / "spark.lock").open("w") as lock:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.5)
        yield


@pytest.fixture(scope="session")
def spark(java: None, one_spark: None, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Spark on two threads, with little memory and no pages of its own; a task that fails is tried once more."""
    from seiche.spark import session

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        **QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        # For whoever comes through Spark Connect, which is served only while somebody does.
        "spark.connect.grpc.binding.port": str(_free_port()),
        "spark.default.parallelism": "2",
    }
    made = session("tests", master="local[2,2]", memory="800m", settings=settings)
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        number: int = asked.getsockname()[1]
        return number


@pytest.fixture
def connect(spark: "SparkSession") -> Iterator[str]:
    """The address of Spark Connect, served by the same Spark."""
    pytest.importorskip("grpc_status", reason="Spark Connect needs grpcio-status")
    java: Any = spark._jvm
    service = java.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(spark._jsc.sc())
    yield f"sc://127.0.0.1:{spark.conf.get('spark.connect.grpc.binding.port')}"
    service.stop(java.scala.Option.empty(), java.scala.Option.empty())


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    """An empty lake on disk with one namespace."""
    made = seiche.create(f"file://{tmp_path}/lake", durability="os")
    made.create_namespace("shop")
    return made
