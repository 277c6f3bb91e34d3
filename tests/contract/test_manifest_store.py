"""What every manifest store promises, over every one there is."""

import multiprocessing
import os
import pickle
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from threading import Barrier
from typing import Any

import pytest

from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.store.prefix import below
from seiche.table.versions.external import ManifestRecord, ManifestStore
from seiche.testing import DictStore
from tests.external_history import begin, check_version
from tests.manifest_stores import KINDS, SHARED_KINDS, address, opened
from tests.processes import CONTEXT


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return address(request.param, request, tmp_path)


@pytest.fixture
def store(where: str) -> Iterator[ManifestStore]:
    store = opened(where)
    yield store
    store.close()


@pytest.fixture
def table() -> str:
    """A table that no other test has records of; its name needs quoting in every language."""
    return f"s3://bucket/a 'table' \"é\" %s :x {uuid.uuid4()}"


def record(version: int, path: str = "", size: int = 100, e_tag: str | None = None) -> ManifestRecord:
    return ManifestRecord(version, path or f"t/_versions/{version}.manifest-{uuid.uuid4()}", size, e_tag)


def test_a_table_without_records_has_none(store: ManifestStore, table: str) -> None:
    assert store.get(table, 1) is None
    assert store.get_latest(table) is None


@pytest.mark.parametrize(
    "one",
    [
        record(1),
        record(1, e_tag='"etag"'),
        record(1, path="a 'path' with \"é\"/_versions/1.manifest"),
        record((1 << 63) - 1, size=1 << 50),
    ],
    ids=["plain", "e_tag", "quotes", "largest"],
)
def test_what_was_put_is_found(store: ManifestStore, table: str, one: ManifestRecord) -> None:
    store.put_if_absent(table, one)
    assert store.get(table, one.version) == one
    assert store.get_latest(table) == one


def test_the_first_record_of_a_version_wins(store: ManifestStore, table: str) -> None:
    first = record(1)
    store.put_if_absent(table, first)
    with pytest.raises(AlreadyExists) as lost:
        store.put_if_absent(table, record(1))
    assert lost.value.path == first.path
    assert store.get(table, 1) == first


def test_putting_the_identical_record_again_is_no_conflict(store: ManifestStore, table: str) -> None:
    one = record(1)
    store.put_if_absent(table, one)
    store.put_if_absent(table, one)
    assert store.get(table, 1) == one


def test_the_latest_is_the_highest_number(store: ManifestStore, table: str) -> None:
    for version in range(8, 12):
        store.put_if_absent(table, record(version))
    latest = store.get_latest(table)
    assert latest is not None
    assert latest.version == 11


def test_tables_do_not_see_each_other(store: ManifestStore, table: str) -> None:
    mine, other = record(3), record(7)
    store.put_if_absent(table, mine)
    store.put_if_absent(table + "/tree/branch", other)
    assert store.get_latest(table) == mine
    assert store.get(table, 7) is None
    assert store.get_latest(table + "/tree/branch") == other


def test_another_client_sees_it_at_once(store: ManifestStore, where: str, table: str) -> None:
    other = opened(where)
    assert other.get_latest(table) is None
    one = record(1)
    store.put_if_absent(table, one)
    assert other.get_latest(table) == one
    other.close()


def test_a_record_is_replaced_by_its_old_path(store: ManifestStore, table: str) -> None:
    staged, final = record(1), record(1, "t/_versions/1.manifest", 120, "tag")
    store.put_if_absent(table, staged)
    store.put_if_present(table, final, replacing=staged.path)
    assert store.get(table, 1) == final
    store.put_if_present(table, final, replacing=staged.path)  # a repetition
    assert store.get(table, 1) == final


def test_a_late_replacement_undoes_nothing(store: ManifestStore, table: str) -> None:
    there = record(1)
    store.put_if_absent(table, there)
    with pytest.raises(NotFound):
        store.put_if_present(table, record(1), replacing="another path")
    with pytest.raises(NotFound):
        store.put_if_present(table, record(2), replacing=there.path)
    assert store.get_latest(table) == there


def test_a_replacement_makes_no_record(store: ManifestStore, table: str) -> None:
    with pytest.raises(NotFound):
        store.put_if_present(table, record(1), replacing="x")
    for version in (1, 2):
        store.put_if_absent(table, record(version, f"p{version}"))
    store.delete(table, 1)
    with pytest.raises(NotFound):
        store.put_if_present(table, record(1), replacing="p1")
    assert store.get(table, 1) is None


def test_what_was_made_is_never_made_again(store: ManifestStore, table: str) -> None:
    """A writer that slept for days must not win a version whose record was cleaned up meanwhile."""
    for version in range(1, 5):
        store.put_if_absent(table, record(version, f"p{version}"))
    for version in (1, 2):
        store.delete(table, version)
        assert store.get(table, version) is None
    for version in (1, 2):
        with pytest.raises(AlreadyExists):
            store.put_if_absent(table, record(version))
        with pytest.raises(AlreadyExists):
            store.put_if_absent(table, record(version, f"p{version}"))
        assert store.get(table, version) is None
    latest = store.get_latest(table)
    assert latest is not None
    assert latest.version == 4


def test_the_latest_can_be_given_up(store: ManifestStore, table: str) -> None:
    for version in (1, 2):
        store.put_if_absent(table, record(version, f"p{version}"))
    store.delete(table, 2)
    assert store.get_latest(table) == record(1, "p1")
    again = record(2)
    store.put_if_absent(table, again)
    assert store.get_latest(table) == again


def test_when_all_records_are_gone_there_is_no_latest(store: ManifestStore, table: str) -> None:
    for version in (1, 2, 3):
        store.put_if_absent(table, record(version))
    for version in (1, 3, 2):
        store.delete(table, version)
    assert store.get_latest(table) is None
    store.delete(table, 3)  # what is not there can be deleted


def test_a_name_that_was_given_up_can_be_used_again(store: ManifestStore) -> None:
    """A branch is removed, after a clean-up of its old versions, and another one made under its name."""
    root, other = (below(DictStore(), f"{name}-{uuid.uuid4()}") for name in ("t", "other"))
    begin(other, store, 1)
    first = begin(root, store, 3)
    for version in (1, 2):
        first.forget(version)
    first.forget_all()
    for info in list(root.list()):
        root.delete(info.path)
    check_version(begin(root, store, 2), 2)
    assert store.get_latest(store.base_uri(other)) is not None


def test_closing_is_not_the_end(store: ManifestStore, table: str) -> None:
    one = record(1)
    store.put_if_absent(table, one)
    store.close()
    store.close()
    assert store.get(table, 1) == one


@pytest.mark.parametrize("own_clients", [False, True], ids=["one client", "own clients"])
def test_of_many_threads_one_wins(store: ManifestStore, where: str, table: str, own_clients: bool) -> None:
    threads, rounds = 4, 10
    barrier = Barrier(threads)

    def race(_: int) -> list[ManifestRecord]:
        mine = opened(where) if own_clients else store
        won = []
        for version in range(1, rounds + 1):
            one = record(version)
            barrier.wait(60)
            try:
                mine.put_if_absent(table, one)
                won.append(one)
            except AlreadyExists:
                pass
        if own_clients:
            mine.close()
        return won

    with ThreadPoolExecutor(threads) as pool:
        winners = sorted((one for won in pool.map(race, range(threads)) for one in won), key=lambda one: one.version)
    assert [one.version for one in winners] == list(range(1, rounds + 1))
    assert [store.get(table, one.version) for one in winners] == winners


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_of_many_processes_one_wins(kind: str, request: pytest.FixtureRequest, tmp_path: Path, table: str) -> None:
    where = address(kind, request, tmp_path)
    processes, rounds = 3, 15
    barrier, answers = CONTEXT.Barrier(processes), CONTEXT.Queue()
    racers = [CONTEXT.Process(target=race, args=(where, table, rounds, barrier, answers)) for _ in range(processes)]
    for racer in racers:
        racer.start()
    winners = dict(entry for _ in racers for entry in answers.get(timeout=120))
    for racer in racers:
        racer.join()
    store = opened(where)
    found = {version: store.get(table, version) for version in range(1, rounds + 1)}
    store.close()
    assert {version: one.path for version, one in found.items() if one is not None} == winners
    assert len(winners) == rounds


def race(where: str, table: str, rounds: int, barrier: Any, answers: "Queue[list[tuple[int, str]]]") -> None:
    """Try for every version at the same time as the others; answer with what was won."""
    store = opened(where)
    won = []
    for version in range(1, rounds + 1):
        one = record(version)
        barrier.wait(60)
        try:
            store.put_if_absent(table, one)
            won.append((version, one.path))
        except AlreadyExists:
            pass
    store.close()
    answers.put(won)


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_a_forked_child_has_a_connection_of_its_own(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, table: str
) -> None:
    # In a process that has only loaded what it needs: pylance, for one, does not like to be forked.
    where = address(kind, request, tmp_path)
    parent = multiprocessing.get_context("spawn").Process(target=fork, args=(where, table))
    parent.start()
    parent.join()
    assert parent.exitcode == 0


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_a_pickled_one_has_a_connection_of_its_own(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, table: str
) -> None:
    store = opened(address(kind, request, tmp_path))
    store.put_if_absent(table, record(1))
    copied = pickle.loads(pickle.dumps(store))
    copied.put_if_absent(table, record(2))
    assert store.get_latest(table) == copied.get_latest(table)
    assert connection(store) is not connection(copied)
    store.close()
    copied.close()


def test_one_in_memory_stays_in_its_process() -> None:
    with pytest.raises(InvalidInput, match="stays in its process"):
        pickle.dumps(opened("memory://here"))


def fork(where: str, table: str) -> None:
    store = opened(where)
    store.put_if_absent(table, record(1))
    inherited = connection(store)
    child = os.fork()
    if child == 0:
        try:
            store.put_if_absent(table, record(2, "by the child"))
            os._exit(0 if connection(store) is not inherited else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get_latest(table) == record(2, "by the child")
    store.put_if_absent(table, record(3))
    assert connection(store) is inherited
    store.close()


def connection(store: ManifestStore) -> object:
    """What must not be shared by two processes."""
    return vars(store).get("_connection") or vars(store).get("_client")
