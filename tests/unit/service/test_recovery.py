"""Servers that die, are paused, or lose their memory: the tree tells all of them the same."""

import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from seiche import InvalidInput, Lake, RetryableConflict, SeicheError, Unavailable
from seiche.lake.commit.committer import Committer
from seiche.lake.transacting import Status
from seiche.service.commit.noting import Notes
from seiche.service.core import Service
from seiche.service.properties import FLUSHED
from seiche.service.state.opening import open_database
from seiche.service.state.transactions import TransactionStore
from seiche.service.states import State
from tests.service_lake import (
    SCHEMA,
    appending,
    defining,
    make_lake,
    make_service,
    numbers_in,
    overwriting,
    reopened,
    shifted,
)


def raising(error: Exception) -> Any:
    def act(*_: object, **__: object) -> None:
        raise error

    return act


class Killed(BaseException):
    """The process ends here: nothing of it is caught."""


def test_without_the_database_every_decision_is_still_known(service: Service, lake: Lake, tmp_path: Path) -> None:
    told = {}
    for number in range(6):
        tx = service.begin(key=f"k{number}").id
        service.prepare(tx, [appending(lake, "shop.orders", numbers=[number])])
        told[tx] = service.commit(tx)
    executed = service.execute([appending(lake, "shop.orders", numbers=[9])], key="e").record
    settled = service.begin().id
    service.prepare(settled, [appending(lake, "shop.orders")])
    service.store.start("default", [], [settled], 0)
    service.abort(settled)
    fresh = make_service(reopened(lake), tmp_path, database=open_database(f"sqlite://{tmp_path}/new.db"))
    for tx, record in {**told, executed.id: executed}.items():
        found = fresh.get(tx)
        assert (found.state, found.lake_version) == (record.state, record.lake_version)
        assert fresh.commit(tx).state is State.APPLIED
        with pytest.raises(InvalidInput):
            fresh.abort(tx)
    assert fresh.get(settled).state is State.ABORTED
    assert fresh.begin(key="k3").state is State.APPLIED
    assert numbers_in(lake) == [0, 1, 2, 3, 4, 5, 9]
    fresh.close()


def test_what_may_still_be_committed_does_not_keep_the_sweep_from_what_was(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server died between a root and its note; those who could not commit while storage was away were there first."""
    waiting, applied, last = (service.begin().id for _ in range(3))
    for tx, change in ((waiting, appending(lake, "shop.orders")), (applied, defining(lake, "shop.stock", "renamed"))):
        service.prepare(tx, [change])
    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", raising(Unavailable("the storage is away")))
        assert service.commit(waiting).state is State.APPLY_FAILED_RETRYABLE
    with monkeypatch.context() as patch:
        patch.setattr(service.store, "finish", raising(Unavailable("dead")))
        assert service.commit(applied).state is State.APPLIED
    with pytest.raises(RetryableConflict, match="locked by"):
        service.prepare(last, [defining(lake, "shop.renamed", "other")])
    assert [service.sweep(1), service.sweep(1), service.sweep(1)] == [0, 1, 0]
    service.prepare(last, [defining(lake, "shop.renamed", "other")])
    assert service.commit(last).state is service.commit(waiting).state is State.APPLIED


def test_a_commit_that_nobody_noted_is_told_also_when_its_version_has_expired(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tree forgets it with its version: whoever asked was told that it is prepared, until its time was up."""
    tx = service.begin().id
    service.prepare(tx, [appending(lake, "shop.orders")])
    with monkeypatch.context() as patch:
        patch.setattr(service.store, "finish", raising(Unavailable("dead")))
        made = service.commit(tx).lake_version
    lake.create_namespace("later")
    lake.expire(older_than=0, keep=1)
    found = service.get(tx)
    assert (found.state, found.lake_version) == (State.APPLIED, made)


@pytest.mark.parametrize("then", ["get", "commit", "abort", "sweep", "begin", "late", "prepare by others"])
def test_a_server_that_dies_between_the_root_and_its_note(
    lake: Lake, tmp_path: Path, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one answers APPLIED, and applies nothing again."""
    first = make_service(lake, tmp_path)
    runtime, clock = shifted()
    second = make_service(reopened(lake), tmp_path, runtime=runtime)
    tx = first.begin(key="k").id
    first.prepare(tx, [appending(lake, "shop.orders", numbers=[1]), defining(lake, "shop.stock", "renamed")])
    dead = threading.Event()

    def die(*_: Any) -> None:
        dead.set()
        raise Killed

    monkeypatch.setattr(first.store, "finish", die)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    threading.Thread(target=lambda: first.commit(tx), daemon=True).start()
    assert dead.wait(30)
    before = lake.version
    if then == "get":
        assert second.get(tx).state is State.APPLIED
    elif then == "late":
        clock.later = timedelta(hours=1)
        assert second.commit(tx).state is State.APPLIED, "what is in the tree has not expired"
    elif then == "commit":
        assert second.commit(tx).state is State.APPLIED
    elif then == "abort":
        with pytest.raises(InvalidInput) as caught:
            second.abort(tx)
        assert caught.value.reason == "transaction.already-committed"
    elif then == "sweep":
        assert second.sweep() == 1
    elif then == "begin":
        assert second.get(second.begin(key="k").id).state is State.APPLIED
    else:
        assert second.get(tx).state is State.APPLIED
        other = second.begin().id
        second.prepare(other, [defining(lake, "shop.renamed", "again")])
    found = TransactionStore(second.store.database).get("default", tx)
    assert found is not None
    assert (found.state, found.lake_version) == (State.APPLIED, before)
    assert second.intents(tx) == []
    assert lake.version == before
    assert numbers_in(lake) == [1]
    second.close()


@pytest.mark.parametrize("then", ["abort", "late", "sweep", "begin", "prepare by others"])
def test_a_database_that_has_forgotten_the_last_of_it_says_nothing_that_is_not_so(
    lake: Lake, tmp_path: Path, then: str
) -> None:
    """As after a power failure, which takes what SQLite has not flushed, or with a backup: prepared, and no more."""
    first = make_service(lake, tmp_path)
    tx = first.begin(key="k").id
    first.prepare(tx, [appending(lake, "shop.orders", numbers=[1]), defining(lake, "shop.stock", "renamed")])
    with closing(sqlite3.connect(tmp_path / "state.db")) as now, closing(sqlite3.connect(tmp_path / "old.db")) as old:
        now.backup(old)
    assert first.commit(tx).state is State.APPLIED
    first.close()
    runtime, clock = shifted()
    database = open_database(f"sqlite://{tmp_path}/old.db")
    second = make_service(reopened(lake), tmp_path, database=database, runtime=runtime)
    if then == "abort":
        with pytest.raises(InvalidInput) as caught:
            second.abort(tx)
        assert caught.value.reason == "transaction.already-committed"
    else:
        clock.later = timedelta(hours=1)
    if then == "late":
        assert second.commit(tx).state is State.APPLIED
    elif then == "sweep":
        assert second.sweep() == 1
    elif then == "begin":
        second.sweep()
        assert second.begin(key="k").state is State.APPLIED
    elif then == "prepare by others":
        second.prepare(second.begin().id, [defining(lake, "shop.renamed", "again")])
    found = second.get(tx)
    assert (found.state, found.lake_version) == (State.APPLIED, lake.version)
    assert second.commit(tx).state is State.APPLIED
    assert numbers_in(lake) == [1]
    second.close()


@pytest.mark.parametrize("call", ["abort", "expire"])
def test_a_paused_server_and_another_that_aborts(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 2: the one that is paused before its root finds the abort there. One truth, told to both."""
    lake = make_lake(tmp_path)
    runtime, clock = shifted()
    first = make_service(lake, tmp_path)
    second = make_service(reopened(lake), tmp_path, runtime=runtime)
    tx = first.begin().id
    first.prepare(tx, [appending(lake, "shop.orders", numbers=[1])])
    paused, resumed = threading.Event(), threading.Event()
    real = Committer._put

    def pause(self: Committer, *given: Any) -> bool:
        if self.states is lake.states and not paused.is_set():
            paused.set()
            assert resumed.wait(30)
        return real(self, *given)

    monkeypatch.setattr(Committer, "_put", pause)
    answers: list[State] = []
    thread = threading.Thread(target=lambda: answers.append(first.commit(tx).state))
    thread.start()
    assert paused.wait(30)
    if call == "abort":
        answers.append(second.abort(tx).state)
    else:
        clock.later = timedelta(seconds=601)
        assert second.sweep() == 1
        answers.append(second.get(tx).state)
    resumed.set()
    thread.join()
    assert answers == [State.ABORTED, State.ABORTED]
    assert numbers_in(lake) == []
    assert lake.status(tx).outcome == "aborted"
    first.close()
    second.close()


@pytest.mark.parametrize("same", [True, False])
def test_one_key_at_two_servers_at_once(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    """The same request is applied once, and told to both. Another one is refused: it did not happen."""
    first, second = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)
    one = [appending(lake, "shop.orders", numbers=[1])]
    other = one if same else [appending(lake, "shop.orders", numbers=[2])]
    put = Committer._put
    told: list[object] = []

    def between(self: Committer, *given: Any) -> bool:
        if self.states is lake.states and not told:
            try:
                told.append(second.execute(other, key="k").record.state)
            except SeicheError as error:
                told.append(error.details["reason"])
        return put(self, *given)

    monkeypatch.setattr(Committer, "_put", between)
    told.append(first.execute(one, key="k").record.state)
    assert told == [State.APPLIED if same else "idempotency.mismatch", State.APPLIED]
    assert numbers_in(lake) == [1]
    first.close()
    second.close()


def test_two_servers_that_commit_the_same_transaction(lake: Lake, tmp_path: Path) -> None:
    services = [make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)]
    for round_ in range(10):
        tx = services[0].begin().id
        services[0].prepare(tx, [appending(lake, "shop.orders", numbers=[round_])])
        barrier = threading.Barrier(2)
        states: list[tuple[State, int]] = []

        def commit(service: Service, tx: str = tx, barrier: Any = barrier, states: Any = states) -> None:
            barrier.wait()
            done = service.commit(tx)
            states.append((done.state, done.lake_version))

        threads = [threading.Thread(target=commit, args=(one,)) for one in services]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(states) == 2
        assert len(set(states)) == 1
        assert states[0][0] is State.APPLIED
    assert numbers_in(lake) == list(range(10))
    for service in services:
        service.close()


def test_a_server_that_has_not_looked_for_a_while_commits_what_was_prepared_on_a_newer_version(
    lake: Lake, tmp_path: Path
) -> None:
    first, second = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)
    for number in range(2):
        tx = first.begin().id
        first.prepare(tx, [appending(lake, "shop.orders", numbers=[number])])
        assert (second if number else first).commit(tx).state is State.APPLIED
    assert numbers_in(lake) == [0, 1]
    first.close()
    second.close()


def test_a_server_that_has_not_looked_for_a_while_captures_the_version_that_is_the_latest(
    lake: Lake, tmp_path: Path
) -> None:
    """What others did before a transaction was prepared is no conflict with it."""
    service, other = make_service(lake, tmp_path), reopened(lake)
    other.table("shop.orders").append([{"writer": 1, "number": 1}])
    tx = service.begin().id
    service.prepare(tx, [defining(other, "shop.orders", "renamed")])
    assert service.commit(tx).state is State.APPLIED
    other.table("shop.renamed").append([{"writer": 1, "number": 2}])
    assert service.execute([defining(other, "shop.renamed", "orders")]).record.state is State.APPLIED
    assert numbers_in(other) == [1, 2]
    service.close()


@pytest.mark.parametrize("calls", ["three", "one"])
def test_a_server_that_has_not_looked_for_a_while_changes_the_table_that_has_the_name_now(
    lake: Lake, tmp_path: Path, calls: str
) -> None:
    service, other = make_service(lake, tmp_path), reopened(lake)
    for number, name in enumerate(("shop.orders", "shop.stock")):
        lake.table(name).append([{"writer": 1, "number": number}])
    with other.transaction() as tx:
        tx.rename_tables([("shop.orders", "shop.stock"), ("shop.stock", "shop.orders")])
    emptied = overwriting(other, "shop.orders")
    if calls == "three":
        begun = service.begin().id
        service.prepare(begun, [emptied])
        assert service.commit(begun).state is State.APPLIED
    else:
        with pytest.raises(Unavailable):
            service.submit([emptied], lambda _: None, look=False)
        assert service.execute([emptied]).record.state is State.APPLIED
    assert (numbers_in(other), numbers_in(other, "shop.stock")) == ([], [0])
    service.close()


@pytest.mark.parametrize("properties", [{}, {FLUSHED: "true"}])
def test_a_server_that_has_not_looked_for_a_while_appends_to_the_table_that_has_the_name_now(
    lake: Lake, tmp_path: Path, properties: dict[str, str]
) -> None:
    """It was refused for good, or made the table that had the name before one that nobody can read."""
    service, other = make_service(lake, tmp_path), reopened(lake)
    base = lake.version
    with other.transaction() as tx:
        tx.rename_tables([("shop.orders", "shop.stock"), ("shop.stock", "shop.orders")])
    change = appending(other, "shop.orders", numbers=[1])
    with pytest.raises(Unavailable):
        service.submit([change], lambda _: None, base_version=base, properties=properties, look=False)
    assert service.execute([change], base_version=base, properties=properties).record.state is State.APPLIED
    assert (numbers_in(other), numbers_in(other, "shop.stock")) == ([1], [])
    service.close()


def test_files_that_were_written_when_another_table_had_the_name_are_not_believed_in(
    service: Service, lake: Lake
) -> None:
    """The table that has it now would name files that are in the place of the other, and could not be read any more."""
    change, base = appending(lake, "shop.orders", numbers=[1]), lake.version
    with lake.transaction() as tx:
        tx.rename_tables([("shop.orders", "shop.stock"), ("shop.stock", "shop.orders")])
    with pytest.raises(InvalidInput) as caught:
        service.execute([change], base_version=base, properties={FLUSHED: "true"})
    assert caught.value.reason == "files.elsewhere"
    assert (numbers_in(lake), numbers_in(lake, "shop.stock")) == ([], [])


def test_a_conflict_is_not_answered_while_another_server_may_apply_it(lake: Lake, tmp_path: Path) -> None:
    """Two commits were begun: whoever finds a conflict makes it true by a root before saying so."""
    service = make_service(lake, tmp_path)
    tx = service.begin().id
    service.prepare(tx, [defining(lake, "shop.orders", "taken")])
    service.store.start("default", [], [tx], 0)  # another server, which has not put its root yet
    lake.run(lambda other: other.create_view("shop.taken", "SELECT 1"))
    assert service.commit(tx).state is State.APPLY_FAILED_CONFLICT
    assert lake.status(tx).outcome == "aborted"
    service.close()


def test_a_conflict_is_told_without_reading_what_is_left_of_expired_versions(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they expire within a day there may be tens of thousands, and everybody else in the group would wait."""
    service = make_service(lake, tmp_path)
    for number in range(3):
        lake.create_namespace(f"n{number}")
    lake.expire(older_than=0, keep=1)
    tx = service.begin().id
    service.prepare(tx, [defining(lake, "shop.orders", "taken")])
    lake.create_table("shop.taken", SCHEMA)
    monkeypatch.setattr("seiche.lake.transacting.forgotten_outcome", raising(AssertionError("old roots are read")))
    assert service.commit(tx).state is State.APPLY_FAILED_CONFLICT
    assert service.get(tx).state is State.APPLY_FAILED_CONFLICT
    service.close()


def test_a_conflict_is_not_answered_if_another_server_applies_it_meanwhile(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in the way may be gone by the time the other one comes."""
    first, second = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)
    tx = first.begin().id
    first.prepare(tx, [defining(lake, "shop.orders", "taken")])
    lake.create_table("shop.taken", SCHEMA)
    told = []

    def slow(id_: str) -> Status:
        found = type(lake).remembered(lake, id_)
        monkeypatch.undo()
        lake.drop_table("shop.taken")
        told.append(second.commit(tx).state)
        return found

    monkeypatch.setattr(lake, "remembered", slow)
    assert [first.commit(tx).state, *told] == [State.APPLIED] * 2
    first.close()
    second.close()


def test_who_comes_after_a_conflict_was_found_hears_of_it(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)
    tx = first.begin().id
    first.prepare(tx, [defining(lake, "shop.orders", "taken")])
    lake.create_table("shop.taken", SCHEMA)
    told = []

    def late(self: Notes, *given: Any) -> None:
        monkeypatch.undo()
        lake.drop_table("shop.taken")
        told.append(second.commit(tx).state)
        self.end(*given)

    monkeypatch.setattr(Notes, "end", late)
    assert [first.commit(tx).state, *told] == [State.APPLY_FAILED_CONFLICT] * 2
    assert first.get(tx).error_code
    assert lake.table("shop.orders").row.id, "it has its name still"
    first.close()
    second.close()


def test_what_failed_at_one_server_is_not_written_on_what_another_has_applied(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients look there for whether to try anew."""
    first, second = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)
    tx = first.begin().id
    first.prepare(tx, [appending(lake, "shop.orders", numbers=[1])])
    told = []

    def late(self: Notes, *given: Any) -> None:
        monkeypatch.undo()
        told.append(second.commit(tx).state)
        self.end(*given)

    monkeypatch.setattr(lake, "decide_group", raising(Unavailable("storage is away")))
    monkeypatch.setattr(Notes, "end", late)
    assert [first.commit(tx).state, *told] == [State.APPLY_FAILED_RETRYABLE, State.APPLIED]
    found = first.get(tx)
    assert (found.state, found.error_code, found.error_message) == (State.APPLIED, "", "")
    first.close()
    second.close()


def test_a_commit_that_comes_late_and_finds_another_that_was_in_time_is_told_so(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, clock = shifted()
    late, early = make_service(lake, tmp_path, runtime=runtime), make_service(reopened(lake), tmp_path)
    tx = late.begin(ttl=60).id
    late.prepare(tx, [appending(lake, "shop.orders", numbers=[1])])
    abandon = TransactionStore.abandon

    def slow(self: TransactionStore, *given: Any) -> Any:
        monkeypatch.undo()
        assert early.commit(tx).state is State.APPLIED
        return abandon(self, *given)

    clock.later = timedelta(hours=1)
    monkeypatch.setattr(TransactionStore, "abandon", slow)
    assert late.commit(tx).state is State.APPLIED
    late.close()
    early.close()


def test_alone_a_conflict_needs_no_root(service: Service, lake: Lake) -> None:
    tx = service.begin().id
    service.prepare(tx, [defining(lake, "shop.orders", "taken")])
    lake.run(lambda other: other.create_view("shop.taken", "SELECT 1"))
    before = lake.version
    assert service.commit(tx).state is State.APPLY_FAILED_CONFLICT
    assert (lake.version, lake.status(tx).outcome) == (before, "undecided")


def test_who_lost_one_lock_to_a_server_whose_clock_is_ahead_is_not_applied_in_part(lake: Lake, tmp_path: Path) -> None:
    runtime, clock = shifted()
    first, ahead = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path, runtime=runtime)
    tx = first.begin().id
    first.prepare(tx, [defining(lake, "shop.orders", "orders2"), defining(lake, "shop.stock", "stock2")])
    clock.later = timedelta(hours=1)
    other = ahead.begin().id
    ahead.prepare(other, [defining(lake, "shop.stock", "stock3")])
    with pytest.raises(InvalidInput):
        first.commit(tx)
    assert ahead.commit(other).state is State.APPLIED
    assert sorted(name[-1] for name in lake.tables("shop")) == ["carts", "orders", "stock3"]
    assert (first.get(tx).state, first.get(tx).reason) == (State.ABORTED, "expired")
    first.close()
    ahead.close()


@pytest.mark.parametrize(
    ("other", "reason"),
    [("prepares other changes", "prepare.mismatch"), ("aborts", "transaction.not-open"), ("prepares the same", "")],
)
def test_who_prepares_what_another_server_prepares_or_aborts_just_then(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, reason: str
) -> None:
    """Nobody is told that his changes are prepared when they are somebody else's."""
    first, second = make_service(lake, tmp_path), make_service(reopened(lake), tmp_path)
    tx = first.begin().id
    mine, theirs = appending(lake, "shop.orders", numbers=[1]), appending(lake, "shop.orders", numbers=[2])
    wanted = first._targets.wanted

    def slow(*given: Any) -> Any:
        found = wanted(*given)
        if other == "aborts":
            second.abort(tx)
        else:
            second.prepare(tx, [mine if other == "prepares the same" else theirs])
        return found

    monkeypatch.setattr(first._targets, "wanted", slow)
    if reason:
        with pytest.raises(InvalidInput) as caught:
            first.prepare(tx, [mine])
        assert caught.value.reason == reason
    else:
        assert first.prepare(tx, [mine]).state is State.PREPARED
    first.close()
    second.close()
