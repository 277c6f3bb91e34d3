"""Processes that race for versions on a store which lets everybody win: the manifest store has the say."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from queue import Queue
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

from seiche.store.base import Data
from seiche.store.local import LocalStore
from seiche.table.operations import UpdateConfig
from seiche.table.operations.update_config import UpdateMap
from seiche.table.table import Table
from seiche.table.versions.base import Versions
from seiche.table.versions.external import external_versions
from seiche.table.versions.stored import PutVersions
from tests.manifest_stores import SHARED_KINDS, address
from tests.processes import CONTEXT

PROCESSES, COMMITS = 3, 5


class LetsEverybodyWin(LocalStore):
    """A store without atomic create, as some S3 servers are: a condition is accepted and ignored."""

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return nullcontext(False)  # writers on one machine would let each other in one by one

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.put(path, data, durable=durable)

    def copy_if_absent(self, source: str, target: str) -> None:
        self.copy(source, target)

    def rename_if_absent(self, source: str, target: str) -> None:
        self.copy(source, target)
        self.delete(source)


def opened(folder: Path, where: str) -> Table:
    """The table in `folder`, its versions decided in the manifest store, or by the store itself without one."""
    store = LetsEverybodyWin(folder, durability="os")
    versions: Versions = external_versions(store, where) if where else PutVersions(store)
    return Table(versions, versions.read(versions.newest()).manifest)


def commit(folder: Path, where: str, name: str, barrier: Any, answers: "Queue[list[int]]") -> None:
    table = opened(folder, where)
    made = []
    for number in range(COMMITS):
        barrier.wait(60)
        table.commit(UpdateConfig(config_updates=UpdateMap({f"{name}.{number}": "x"})))
        made.append(table._manifest.version)
    answers.put(made)


def race(folder: Path, where: str) -> tuple[list[int], Table]:
    """The versions that processes say they have made, and the table they leave."""
    lance.write_dataset(pa.table({"row": [1]}), str(folder))
    barrier, answers = CONTEXT.Barrier(PROCESSES), CONTEXT.Queue()
    racers = [
        CONTEXT.Process(target=commit, args=(folder, where, f"p{one}", barrier, answers)) for one in range(PROCESSES)
    ]
    for racer in racers:
        racer.start()
    made = [version for _ in racers for version in answers.get(timeout=120)]
    for racer in racers:
        racer.join()
    return sorted(made), opened(folder, where)


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_every_commit_of_every_process_is_kept(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder = tmp_path / f"table-{uuid4()}"
    made, table = race(folder, address(kind, request, tmp_path))
    assert made == list(range(2, 2 + PROCESSES * COMMITS))
    assert [one.version for one in table.versions()] == [1, *made]
    expected = {f"p{one}.{number}" for one in range(PROCESSES) for number in range(COMMITS)}
    assert set(table.manifest.header.config) == expected
    plain: Any = lance.dataset(str(folder))
    assert plain.version == made[-1]
    assert set(plain.config()) == expected
    assert not [info.path for info in table.store.list("_versions") if "-" in info.path.rpartition("/")[2]]


def test_without_a_manifest_store_that_store_loses_commits(tmp_path: Path) -> None:
    """That the race above is one. Chance decides in which round it shows."""
    for attempt in range(10):
        made, table = race(tmp_path / f"table{attempt}", "")
        if len(set(made)) < len(made):
            assert len(table.manifest.header.config) < PROCESSES * COMMITS
            return
    pytest.fail("ten races, and every commit was kept by a store that lets everybody win")
