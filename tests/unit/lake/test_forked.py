"""A lake in a process that was forked: threads of its parent are not there, and let go of no locks."""

import multiprocessing
import os
from typing import Any

import pytest

from seiche import InvalidInput, Lake
from seiche.lake.objects.rows import TableRow
from seiche.lake.transaction import Transaction
from seiche.lake.versions import LakeVersions


def go_on(tx: Transaction, said: Any) -> None:
    """As a child that takes the transaction for its own."""
    tx.create_namespace("child")
    for end in (tx.save, tx.commit):
        try:
            end()
        except InvalidInput as error:
            said.send(error.message)
    said.close()
    os._exit(0)


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


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_transaction_of_the_parent_is_committed_by_the_parent(lake: Lake) -> None:
    """A child that had been quicker with the same id would have had its own changes taken for the parent's."""
    context = multiprocessing.get_context("fork")
    heard, said = context.Pipe(duplex=False)
    with lake.transaction() as tx:
        child = context.Process(target=go_on, args=(tx, said))
        child.start()
        child.join(30)
        tx.create_namespace("parent")
    said.close()
    for _ in range(2):
        assert "was begun before this process was forked" in heard.recv()
    assert not tx.replayed
    assert lake.namespaces() == [("parent",), ("shop",)]
