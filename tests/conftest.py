"""What all tests share: the two lengths of a proof, and real storage servers."""

import gc
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import databases, servers

SPARK = "tests/spark/"
# Native code builds an NGRAM index in several parts for each processor, with files for each, and puts them together:
# two hundred milliseconds for a few rows.
os.environ.setdefault("LANCE_NGRAM_NUM_PARTITIONS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run proofs in their long form (make soak)")


# Small tests of one file go to a worker together: what they share is made once, and nobody asks for work after each.
TOGETHER = ("tests/unit/", "tests/interop/test_matrix_")
AT_A_TIME = 20


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests with Spark are begun first and go to one worker, which starts one Spark and keeps it; all others go to
    whoever is free, also to that worker when it is done.
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(config, log)
            config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
            self._scopes: dict[str, str] = {}
            self._seen: Counter[str] = Counter()

        def _split_scope(self, nodeid: str) -> str:
            """The tests that go to one worker together. The first calls come in the order of the tests."""
            if nodeid not in self._scopes:
                self._scopes[nodeid] = self._scope(nodeid)
            return self._scopes[nodeid]

        def _scope(self, nodeid: str) -> str:
            if nodeid.startswith(SPARK):
                return SPARK
            if not nodeid.startswith(TOGETHER):
                return nodeid
            file = nodeid.partition("::")[0]
            self._seen[file] += 1
            return f"{file} {(self._seen[file] - 1) // AT_A_TIME}"

    return OneSpark()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand tests stay until the end: looking for garbage among them, again and again while they are collected,
    took a third of that time, and some of every test's.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several workers what takes longest comes first, so that all of them end at about the same time."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        order = (SPARK, "tests/e2e/", "tests/simulation/", "tests/interop/", "tests/contract/", "tests/unit/")
        items.sort(key=lambda item: next((n for n, folder in enumerate(order) if item.nodeid.startswith(folder)), 9))


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """`effort(short, long)`: how much of it to do. Long under `make soak`; mark such a test with `pytest.mark.soak`."""
    soaking = bool(request.config.getoption("--soak"))
    return lambda short, long: long if soaking else short


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers of this run meet to share servers."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "servers"


@pytest.fixture(scope="session")
def seaweedfs(server_folder: Path) -> Iterator[servers.S3Server]:
    """A real S3 server in a process of its own, on disk, that lists in an order of its own."""
    with servers.running("seaweedfs", server_folder, servers.seaweedfs_command) as server:
        yield server


@pytest.fixture(scope="session")
def moto(server_folder: Path) -> Iterator[servers.S3Server]:
    """An imitation of S3 in memory: the second opinion."""
    with servers.running("moto", server_folder, servers.moto_command) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a real PostgreSQL server."""
    with databases.postgres() as address:
        yield address
