"""A lake in a process that was forked: threads of its parent are not there, and let go of no locks."""

import multiprocessing
import os

import pytest

from seiche import Lake
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import LakeVersions


def look(lake: Lake) -> None:
    state = lake.states.latest()
    row = state.relation(("shop", "a"))
    assert isinstance(row, TableRow)
    LakeVersions(state.store, row, state.manifests).read(1)
    assert lake.states.nodes._recall("of no node") is None
    os._exit(0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("what", ["nodes", "manifests"])
def test_a_cache_that_a_thread_of_the_parent_was_changing(lake: Lake, what: str) -> None:
    state = lake.state()
    lock = lake.states.nodes._lock if what == "nodes" else state.manifests._lock
    child = multiprocessing.get_context("fork").Process(target=look, args=(lake,))
    with lock:
        child.start()
    child.join(30)
    child.kill()
    child.join()
    assert child.exitcode == 0
