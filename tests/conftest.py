"""What all tests share: the two lengths of a proof, and real storage servers."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import databases, servers


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run proofs in their long form (make soak)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests with Spark go to one worker, which starts one and keeps it; all others go to whoever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith("tests/spark/") else nodeid

    return OneSpark(config, log)


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
