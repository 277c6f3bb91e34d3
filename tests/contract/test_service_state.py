"""What the service's memory promises, on SQLite and on a real PostgreSQL."""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from seiche.core.retry import Patience
from seiche.errors import Corrupt, InvalidInput, Unavailable
from seiche.service.state.database import Database, Session
from seiche.service.state.keys import LEASE_MILLIS, TTL_MILLIS, Claim, KeyStore, Verdict
from seiche.service.state.lakes import Kept, Seen, claimed, note_seen, seen
from seiche.service.state.opening import open_database
from seiche.service.state.records import ApplyError, IntentRecord, Record
from seiche.service.state.sqlite import SqliteDatabase
from seiche.service.state.transactions import Ending, Held, TransactionStore
from seiche.service.states import State
from tests.cutting_proxy import cutting_proxy

NOW = 1_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """Opens the same database, as often as there are servers."""
    address = f"sqlite://{tmp_path}/state.db"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres")
    opened: list[Database] = []

    def connect() -> Database:
        opened.append(open_database(address))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def store(connect: Callable[[], Database]) -> TransactionStore:
    return TransactionStore(connect())


@pytest.fixture
def account() -> str:
    """PostgreSQL is shared by all tests; an account is not."""
    return f"account-{uuid.uuid4()}"


def record(account: str, *, state: State = State.OPEN, expires: int = NOW + 600_000, **rest: object) -> Record:
    given = {"created": NOW, "updated": NOW, "base_version": 3, **rest}
    return Record(account, str(uuid.uuid4()), state, expires=expires, **given)  # type: ignore[arg-type]


def intent(of: Record, target: str = "/t/1", *, exclusive: bool = True, position: int = 0) -> IntentRecord:
    return IntentRecord(of.account, of.id, target, "operation", "hash", exclusive, 7, NOW, position)


def test_what_is_inserted_is_found(store: TransactionStore, account: str) -> None:
    made = record(account, properties={"a": "ü'\"", "b": ""}, request_hash="h")
    assert store.insert(made) == made
    assert store.get(account, made.id) == made
    assert store.get("somebody else", made.id) is None


def test_the_first_insert_counts(store: TransactionStore, account: str) -> None:
    made = record(account, request_hash="first")
    store.insert(made)
    again = Record(account, made.id, State.OPEN, NOW + 5, NOW + 5, NOW + 6, 9, request_hash="second")
    assert store.insert(again) == made


def test_preparing_writes_all_intents_and_the_state(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    wanted = [intent(made, "/t/2", position=0), intent(made, "/t/1", position=1, exclusive=False)]
    done = store.prepare(made, wanted, NOW)
    assert isinstance(done, Record)
    assert done.state is State.PREPARED
    assert store.intents(account, [made.id]) == {made.id: wanted}
    assert store.get(account, made.id) == done


def test_an_exclusive_target_has_one_owner(store: TransactionStore, account: str) -> None:
    first, second = store.insert(record(account)), store.insert(record(account))
    store.prepare(first, [intent(first)], NOW)
    held = store.prepare(second, [intent(second, "/t/0"), intent(second)], NOW)
    assert held == Held("/t/1", first.id, NOW)
    assert store.intents(account, [second.id]) == {}, "all or nothing"
    found = store.get(account, second.id)
    assert found is not None
    assert found.state is State.OPEN


def test_accounts_do_not_meet(store: TransactionStore, account: str) -> None:
    first, second = store.insert(record(account)), store.insert(record(account + "x"))
    store.prepare(first, [intent(first)], NOW)
    assert isinstance(store.prepare(second, [intent(second)], NOW), Record)


def test_shared_targets_have_many(store: TransactionStore, account: str) -> None:
    for _ in range(3):
        made = store.insert(record(account))
        assert isinstance(store.prepare(made, [intent(made, exclusive=False)], NOW), Record)


@pytest.mark.parametrize("fate", ["aborted", "applied", "conflict", "expired", "expired after a failure", "forgotten"])
def test_locks_of_stale_owners_are_taken_over(store: TransactionStore, account: str, fate: str) -> None:
    old, new = store.insert(record(account)), store.insert(record(account, expires=NOW * 10))
    store.prepare(old, [intent(old)], NOW)
    now = NOW
    if fate == "forgotten":
        store.database.transact(lambda one: one.run("DELETE FROM seiche_transactions WHERE id = ?", (old.id,)))
    elif fate.startswith("expired"):
        now = old.expires + 1
        if fate != "expired":
            store.start(account, [], [old.id], NOW)
            store.finish(account, [Ending(old.id, State.APPLY_FAILED_RETRYABLE)], NOW)
    else:
        state = {"aborted": State.ABORTED, "applied": State.APPLIED, "conflict": State.APPLY_FAILED_CONFLICT}[fate]
        # As if the server had died before it cleared the intents away.
        store.database.transact(
            lambda one: one.run("UPDATE seiche_transactions SET state = ? WHERE id = ?", (int(state), old.id))
        )
    assert isinstance(store.prepare(new, [intent(new)], now), Record)
    assert store.intents(account, [old.id, new.id]) == {new.id: [intent(new)]}


@pytest.mark.parametrize("attempts", [0, 1])
def test_who_loses_one_lock_loses_all_he_wants(store: TransactionStore, account: str, attempts: int) -> None:
    """What is left of it would be committed by a server whose clock is behind, and that is a part of it."""
    old, new = store.insert(record(account)), store.insert(record(account, expires=NOW * 10))
    store.prepare(old, [intent(old, "/t/1"), intent(old, "/t/2"), intent(old, "/t/3", exclusive=False)], NOW)
    if attempts:
        store.start(account, [], [old.id], NOW)
    assert isinstance(store.prepare(new, [intent(new, "/t/2")], old.expires + 1), Record)
    assert store.intents(account, [old.id, new.id]) == {new.id: [intent(new, "/t/2")]}
    found = store.get(account, old.id)
    assert found is not None
    assert found.state is (State.PREPARED if attempts else State.ABORTED), "after the first commit only a root decides"


@pytest.mark.parametrize("state", [State.PREPARED, State.APPLY_FAILED_RETRYABLE])
def test_locks_of_living_owners_are_not(store: TransactionStore, account: str, state: State) -> None:
    old, new = store.insert(record(account)), store.insert(record(account))
    store.prepare(old, [intent(old)], NOW)
    store.finish(account, [Ending(old.id, state)], NOW)
    assert isinstance(store.prepare(new, [intent(new)], old.expires), Held), "the last moment still counts"


def test_preparing_again_after_a_crash_replaces_its_own(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    store.database.transact(
        lambda one: one.run(
            "INSERT INTO seiche_intents (account, tx, target, kind, blob, exclusive, created, position)"
            " VALUES (?, ?, '/t/1', 'operation', 'old', 1, 0, 0)",
            (account, made.id),
        )
    )
    assert isinstance(store.prepare(made, [intent(made)], NOW), Record)
    assert store.intents(account, [made.id])[made.id] == [intent(made)]


def test_nothing_is_abandoned_once_a_commit_was_begun(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    store.prepare(made, [intent(made)], NOW)
    started = store.start(account, [], [made.id], NOW)
    assert started[made.id].attempts == 1
    after = store.abandon(account, made.id, NOW)
    assert after is not None
    assert after.state is State.PREPARED
    assert store.intents(account, [made.id]) != {}


def test_what_was_abandoned_cannot_be_started(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    store.prepare(made, [intent(made)], NOW)
    ended = store.abandon(account, made.id, NOW, "no more")
    assert ended is not None
    assert (ended.state, ended.reason) == (State.ABORTED, "no more")
    assert store.intents(account, [made.id]) == {}
    started = store.start(account, [], [made.id], NOW)[made.id]
    assert (started.state, started.attempts) == (State.ABORTED, 0)


def test_a_conflict_is_noted_only_while_one_commit_was_begun(store: TransactionStore, account: str) -> None:
    alone, shared, open_ = (store.insert(record(account)) for _ in range(3))
    for made in (alone, shared):
        store.prepare(made, [intent(made, exclusive=False)], NOW)
        store.start(account, [], [made.id], NOW)
    store.start(account, [], [shared.id], NOW)
    why = {"": ApplyError("SOME", "why", NOW)}
    assert [store.refuse(account, one.id, why, NOW) for one in (alone, shared, open_)] == [True, False, False]
    found = store.known(account, [alone.id, shared.id])
    assert [found[one.id].error_code for one in (alone, shared)] == ["SOME", ""], "why, in the same moment"
    assert [one.error for one in store.intents(account, [alone.id])[alone.id]] == [why[""]]
    started = store.start(account, [], [alone.id, shared.id], NOW)
    assert (started[alone.id].state, started[alone.id].attempts) == (State.APPLY_FAILED_CONFLICT, 1)
    assert (started[shared.id].state, started[shared.id].attempts) == (State.PREPARED, 3)


def test_executing_is_counted_from_the_first(store: TransactionStore, account: str) -> None:
    made = [record(account, state=State.PREPARED, attempts=1) for _ in range(3)]
    assert store.start(account, made, [], NOW) == {one.id: one for one in made}
    again = store.start(account, made, [], NOW)
    assert [again[one.id].attempts for one in made] == [2, 2, 2]
    store.finish(account, [Ending(made[0].id, State.APPLIED, 12)], NOW)
    third = store.start(account, made, [], NOW)
    assert third[made[0].id].state is State.APPLIED
    assert (third[made[0].id].lake_version, third[made[0].id].attempts) == (12, 2)


def test_what_is_noted_only_when_it_is_decided(store: TransactionStore, account: str) -> None:
    applied = record(account, state=State.APPLIED, attempts=1, lake_version=9, properties={"who": "me"})
    failed = record(account, state=State.APPLY_FAILED_RETRYABLE, attempts=1, error_code="UNAVAILABLE")
    assert store.known(account, [applied.id, failed.id]) == {}
    store.note([applied, failed])
    assert store.known(account, [applied.id, failed.id]) == {one.id: one for one in (applied, failed)}
    store.note([replace(applied, state=State.ABORTED), replace(failed, state=State.APPLIED, lake_version=11)])
    found = store.known(account, [applied.id, failed.id])
    assert (found[applied.id].state, found[applied.id].lake_version) == (State.APPLIED, 9), "final"
    assert (found[failed.id].state, found[failed.id].lake_version) == (State.APPLIED, 11)


def test_who_notes_what_others_have_begun_again_forgets_none_of_that(store: TransactionStore, account: str) -> None:
    """Two servers tried the same one unseen. As long as one may be at it, a conflict is not written down."""
    failed = record(account, state=State.APPLY_FAILED_RETRYABLE, attempts=1)
    store.note([failed])
    store.start(account, [], [failed.id], NOW)
    store.note([failed])
    assert store.known(account, [failed.id])[failed.id].attempts == 3
    assert not store.refuse(account, failed.id, {}, NOW)


def test_what_may_be_tried_again_is_kept_whole_or_not_at_all(store: TransactionStore, account: str) -> None:
    mine, theirs, done = (record(account, state=State.APPLY_FAILED_RETRYABLE, attempts=1) for _ in range(3))
    store.note([mine, theirs, replace(done, state=State.APPLIED)])
    assert store.keep([intent(mine, "/t/1"), intent(mine, "/t/2", position=1)], NOW) is None
    assert store.keep([intent(mine, "/t/1"), intent(mine, "/t/2", position=1)], NOW) is None, "twice is once"
    held = store.keep([intent(theirs, "/t/0"), intent(theirs, "/t/2", position=1)], NOW)
    assert held == Held("/t/2", mine.id, NOW)
    assert store.keep([intent(done, "/t/7")], NOW) is None
    found = store.intents(account, [mine.id, theirs.id, done.id])
    assert {tx: [one.target for one in kept] for tx, kept in found.items()} == {mine.id: ["/t/1", "/t/2"]}


def test_what_is_final_stays(store: TransactionStore, account: str) -> None:
    made = record(account, state=State.PREPARED, attempts=1)
    store.start(account, [made], [], NOW)
    store.finish(account, [Ending(made.id, State.APPLIED, 12)], NOW)
    store.finish(account, [Ending(made.id, State.ABORTED)], NOW)
    found = store.get(account, made.id)
    assert found is not None
    assert (found.state, found.lake_version) == (State.APPLIED, 12)


def test_failures_are_written_on_the_intents(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    store.prepare(made, [intent(made, "/t/1"), intent(made, "/t/2", position=1)], NOW)
    every = ApplyError("SOME", "all", NOW)
    one = ApplyError("EXPECTED_VERSION_MISMATCH", "moved", NOW, 7, 9, "owner")
    store.finish(account, [Ending(made.id, State.APPLY_FAILED_CONFLICT, 0, {"": every, "/t/2": one})], NOW)
    assert [each.error for each in store.intents(account, [made.id])[made.id]] == [every, one]
    found = store.get(account, made.id)
    assert found is not None
    assert found.error_code == "SOME"


def test_all_that_there_is_to_say_about_a_failure_is_kept_as_long_as_it_is_remembered(
    store: TransactionStore, account: str
) -> None:
    errors = {"": ApplyError("RETRYABLE_CONFLICT", "others were faster", NOW)}
    made = [store.insert(record(account)) for _ in range(3)]
    store.start(account, [], [one.id for one in made], NOW)
    first, second, third = (one.id for one in made)
    assert not store.refuse(account, first, errors, NOW, "why"), "it is not prepared"
    for one in made:
        store.prepare(one, [], NOW)
    store.start(account, [], [first, second, third], NOW)
    assert store.refuse(account, first, errors, NOW, "why")
    ends = [Ending(one, State.APPLY_FAILED_CONFLICT, 0, errors, f"{one} é") for one in (first, second)]
    store.finish(account, [*ends, Ending(third, State.APPLY_FAILED_RETRYABLE, 0, errors)], NOW)
    assert store.failures(account, [first, second, third, "x"]) == {one.id: one.failure for one in ends}
    assert store.failures(f"{account}x", [first]) == {}
    store.collect(made[0].expires + 1)
    assert store.failures(account, [first, second]) == {}


def test_what_was_applied_in_the_end_has_not_failed(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    store.prepare(made, [intent(made, "/t/1")], NOW)
    store.finish(account, [Ending(made.id, State.APPLY_FAILED_RETRYABLE, 0, {"": ApplyError("SOME", "why", NOW)})], NOW)
    failed = store.get(account, made.id)
    store.finish(account, [Ending(made.id, State.APPLIED, 7)], NOW)
    applied = store.get(account, made.id)
    assert failed is not None
    assert applied is not None
    assert (failed.error_code, failed.error_message) == ("SOME", "why")
    assert (applied.error_code, applied.error_message) == ("", "")


def test_what_failed_lets_go_of_its_targets_all_the_same(store: TransactionStore, account: str) -> None:
    """Whose an intent is does not depend on what was written on it."""
    why = {"": ApplyError("SOME", "why", NOW)}
    retryable, conflict, third = (store.insert(record(account)) for _ in range(3))
    store.prepare(retryable, [intent(retryable, "/t/1")], NOW)
    store.prepare(conflict, [intent(conflict, "/t/2")], NOW)
    store.start(account, [], [retryable.id, conflict.id], NOW)
    store.finish(account, [Ending(retryable.id, State.APPLY_FAILED_RETRYABLE, 0, why)], NOW)
    store.finish(account, [Ending(conflict.id, State.APPLY_FAILED_CONFLICT, 0, why)], NOW)
    assert isinstance(store.prepare(third, [intent(third, "/t/1")], NOW), Held), "it may be committed still"
    store.finish(account, [Ending(retryable.id, State.ABORTED)], NOW)
    assert store.intents(account, [retryable.id]) == {}
    done = store.prepare(third, [intent(third, "/t/1"), intent(third, "/t/2", position=1)], NOW)
    assert isinstance(done, Record)
    assert done.state is State.PREPARED


def test_the_sweep_finds_what_is_overdue_and_what_is_in_doubt(store: TransactionStore, account: str) -> None:
    late = store.insert(record(account, expires=NOW - 5))
    final = record(account, state=State.PREPARED, attempts=1, expires=NOW - 5)
    doubt = record(account, state=State.PREPARED, attempts=1)
    store.start(account, [final, doubt], [], NOW)
    store.finish(account, [Ending(final.id, State.APPLIED, 1)], NOW)
    assert [one.id for one in store.overdue(account, NOW, 1000)] == [late.id]
    assert [one.id for one in store.doubtful(account, 1000)] == [doubt.id]
    newer = record(account, state=State.PREPARED, attempts=1, updated=NOW + 1)
    store.start(account, [newer], [], NOW + 1)
    assert [one.id for one in store.doubtful(account, 1, after=doubt)] == [newer.id]
    assert store.doubtful(account, 1, after=newer) == []
    assert store.overdue("another", NOW, 1000) == store.doubtful("another", 1000) == [], "each account by itself"
    store.collect(NOW)
    assert store.get(account, final.id) is None
    assert store.get(account, late.id) is not None, "not decided yet: only the sweep may"


def test_a_reserved_value_is_the_first_one(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    for value in ("one", "two"):
        kept = store.reserve(made, "name", value, NOW)
        assert kept is not None
        assert kept.properties == {"name": "one"} == store.get(account, made.id).properties  # type: ignore[union-attr]


def test_a_value_that_is_reserved_meanwhile_is_not_forgotten_by_a_prepare(
    store: TransactionStore, account: str
) -> None:
    made = store.insert(record(account))
    store.reserve(made, "name", "one", NOW)
    prepared = store.prepare(made, [intent(made, "/t/1")], NOW)
    assert isinstance(prepared, Record)
    assert (prepared.state, prepared.properties) == (State.PREPARED, {"name": "one"})
    assert store.get(account, made.id) == prepared


def test_nothing_is_reserved_in_a_transaction_that_is_prepared_or_gone(store: TransactionStore, account: str) -> None:
    made = store.insert(record(account))
    prepared = store.prepare(made, [intent(made, "/t/1")], NOW)
    assert store.reserve(made, "name", "one", NOW) == prepared == store.get(account, made.id)
    assert store.reserve(record(account), "name", "one", NOW) is None


def test_servers_that_prepare_at_once_have_one_winner(connect: Callable[[], Database], account: str) -> None:
    stores = [TransactionStore(connect()) for _ in range(4)]
    made = [store.insert(record(account)) for store in stores]
    targets = [f"/t/{number}" for number in range(5)]
    barrier = threading.Barrier(len(stores))
    results: list[Record | Held] = []

    def prepare(store: TransactionStore, one: Record, order: int) -> None:
        mine = targets[order:] + targets[:order]
        barrier.wait()
        results.append(store.prepare(one, [intent(one, target) for target in mine], NOW))

    threads = [
        threading.Thread(target=prepare, args=(*pair, n)) for n, pair in enumerate(zip(stores, made, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [one for one in results if isinstance(one, Record)]
    assert len(winners) == 1
    assert len(results) == len(stores)
    found = stores[0].intents(account, [one.id for one in made])
    assert {one: len(each) for one, each in found.items()} == {winners[0].id: len(targets)}


@pytest.fixture
def keys(connect: Callable[[], Database]) -> KeyStore:
    return KeyStore(connect())


def claim(account: str, owner: str = "a", key: str = "k", request: str = "r", operation: str = "Commit") -> Claim:
    return Claim(account, operation, key, request, owner)


def test_a_key_is_worked_on_by_one_and_then_replayed(keys: KeyStore, account: str) -> None:
    assert keys.claim(claim(account), NOW) is Verdict.RUN
    assert keys.claim(claim(account, "b"), NOW) is Verdict.PENDING
    keys.done(claim(account), NOW)
    assert keys.claim(claim(account, "b"), NOW) is Verdict.REPLAY


def test_a_key_stands_for_one_request(keys: KeyStore, account: str) -> None:
    keys.claim(claim(account), NOW)
    assert keys.claim(claim(account, "b", request="other"), NOW) is Verdict.MISMATCH
    keys.done(claim(account), NOW)
    assert keys.claim(claim(account, "b", request="other"), NOW) is Verdict.MISMATCH


@pytest.mark.parametrize("other", [{"key": "l"}, {"operation": "Begin"}])
def test_keys_are_told_apart_by_operation_and_account(keys: KeyStore, account: str, other: dict[str, str]) -> None:
    keys.claim(claim(account), NOW)
    assert keys.claim(claim(account, "b", request="other", **other), NOW) is Verdict.RUN
    assert keys.claim(claim(account + "x", "b", request="other"), NOW) is Verdict.RUN


def test_the_work_of_one_who_died_is_taken_over(keys: KeyStore, account: str) -> None:
    keys.claim(claim(account), NOW)
    assert keys.claim(claim(account, "b"), NOW + LEASE_MILLIS) is Verdict.PENDING
    assert keys.claim(claim(account, "b"), NOW + LEASE_MILLIS + 1) is Verdict.RUN
    keys.done(claim(account, "a"), NOW)
    assert keys.claim(claim(account, "c"), NOW + LEASE_MILLIS + 2) is Verdict.PENDING, "the first does not own it now"


def test_a_lease_by_a_clock_that_was_ahead_keeps_nobody_out_for_longer(keys: KeyStore, account: str) -> None:
    ahead = NOW + 3_600_000
    keys.claim(claim(account), ahead)
    assert keys.claim(claim(account, "b"), NOW) is Verdict.RUN
    assert keys.claim(claim(account, "c"), NOW) is Verdict.PENDING, "this one is of today"
    keys.done(claim(account, "a"), ahead)
    assert keys.claim(claim(account, "c"), NOW) is Verdict.PENDING, "the first does not own it now"


def test_clocks_that_differ_a_little_leave_a_lease_what_it_is(keys: KeyStore, account: str) -> None:
    keys.claim(claim(account), NOW + LEASE_MILLIS)
    assert keys.claim(claim(account, "b"), NOW) is Verdict.PENDING


def test_of_two_who_take_over_at_once_one_works(postgres: str, account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen that the lease of the first has run out. On SQLite only one at a time looks."""
    first, second = open_database(postgres), KeyStore(open_database(postgres))
    keys, later = KeyStore(first), NOW + LEASE_MILLIS + 1
    keys.claim(claim(account), NOW)
    verdicts = []
    transact = first.transact

    def slow(act: Callable[[Session], Verdict]) -> Verdict:
        def between(session: Session) -> Verdict:
            class Slow:
                def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                    if statement.startswith("UPDATE"):
                        verdicts.append(second.claim(claim(account, "c"), later))
                    return session.run(statement, values)

            return act(Slow())

        return transact(between)

    monkeypatch.setattr(first, "transact", slow)
    verdicts.append(keys.claim(claim(account, "b"), later))
    assert verdicts == [Verdict.RUN, Verdict.PENDING]
    first.close()
    second._database.close()


def test_a_released_key_waits_for_nobody(keys: KeyStore, account: str) -> None:
    keys.claim(claim(account), NOW)
    keys.release(claim(account))
    assert keys.claim(claim(account, "b"), NOW) is Verdict.RUN


def test_a_forgotten_key_can_stand_for_something_else(keys: KeyStore, account: str) -> None:
    keys.claim(claim(account), NOW)
    keys.forget(claim(account, "somebody else"))
    assert keys.claim(claim(account, "b"), NOW) is Verdict.PENDING
    keys.forget(claim(account))
    assert keys.claim(claim(account, "b", request="other"), NOW) is Verdict.RUN


def test_keys_do_not_last_for_ever(keys: KeyStore, account: str) -> None:
    keys.claim(claim(account), NOW)
    keys.done(claim(account), NOW)
    assert keys.claim(claim(account, "b", request="other"), NOW + TTL_MILLIS + 1) is Verdict.RUN


def test_the_transactions_of_an_account_are_those_of_the_first_lake(
    connect: Callable[[], Database], account: str
) -> None:
    first, second, one, other = connect(), connect(), f"{account}-a", f"{account}-b"
    for database, lake in ((first, one), (second, other), (second, one)):
        assert claimed(database, account, lake) == Kept(account, one)
    beside = Kept(f"{account}-2", other)
    assert claimed(second, *beside) == beside
    assert claimed(first, f"{account}-3", one) == Kept(account, one), "a lake is of one account"


def test_the_newest_version_that_any_server_has_seen_is_kept(connect: Callable[[], Database], account: str) -> None:
    first, second = connect(), connect()
    assert seen(first, account) is None
    for database, now in ((first, Seen(7, "a")), (second, Seen(2**40, "b")), (first, Seen(8, "c"))):
        note_seen(database, account, now)
    assert seen(first, account) == seen(second, account) == Seen(2**40, "b")
    assert seen(first, f"{account}-2") is None


def test_of_accounts_that_claim_one_lake_at_once_one_has_it(connect: Callable[[], Database], account: str) -> None:
    """Both found that nobody had it; from then on each of them was right, and neither saw what the other locked."""
    databases, rounds = [connect() for _ in range(4)], 10
    barrier = threading.Barrier(len(databases))

    def claim(number: int) -> list[str]:
        databases[number].read(lambda session: session.run("SELECT 1"))  # connected before it counts
        found = []
        for turn in range(rounds):
            barrier.wait()
            found.append(claimed(databases[number], f"{account}-{turn}-{number}", f"{account}-{turn}").account)
        return found

    with ThreadPoolExecutor(len(databases)) as threads:
        told = list(threads.map(claim, range(len(databases))))
    assert [len(set(owners)) for owners in zip(*told, strict=True)] == [1] * rounds


def test_texts_that_a_database_cannot_hold(connect: Callable[[], Database], account: str) -> None:
    """PostgreSQL has no NUL in texts: that is the caller's mistake, and says nothing about the database."""
    database = connect()
    keys, store = KeyStore(database), TransactionStore(database)
    for act in (
        lambda: keys.claim(claim(account, key="a\x00b"), NOW),
        lambda: store.get(account, "a\x00b"),
    ):
        with suppress(InvalidInput):
            act()
    assert keys.claim(claim(account), NOW) is Verdict.RUN


@pytest.mark.parametrize("cuts", [1, 2, 3])
def test_connections_that_are_lost(postgres: str, account: str, cuts: int) -> None:
    """As when PostgreSQL is started again: what was under way is done again, and done twice it is the same."""
    (folder,) = parse_qs(urlsplit(postgres).query)["host"]
    with cutting_proxy(f"{folder}/.s.PGSQL.5432") as proxy:
        database = open_database(f"postgresql://postgres:secret@127.0.0.1:{proxy.port}/postgres")
        store = TransactionStore(database)
        made = store.insert(record(account))
        proxy.cuts = cuts
        assert isinstance(store.prepare(made, [intent(made)], NOW), Record)
        proxy.cuts = cuts
        assert store.start(account, [], [made.id], NOW)[made.id].attempts >= 1
        proxy.cuts = cuts
        store.finish(account, [Ending(made.id, State.APPLIED, 5)], NOW)
        found = store.get(account, made.id)
        assert found is not None
        assert (found.state, found.lake_version) == (State.APPLIED, 5)
        assert store.intents(account, [made.id]) == {}
        assert proxy.cut >= 3
        database.close()


def test_a_server_that_is_stopped_holds_nobody_up_for_long(
    postgres: str, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, or cut off, in the middle of a SQL transaction. When it goes on it does that again."""
    monkeypatch.setattr("seiche.service.state.postgres._IDLE_SECONDS", 0.5)
    stopped, other = open_database(postgres), TransactionStore(open_database(postgres))
    made = other.insert(record(account, state=State.PREPARED))
    locked, resumed, tries = threading.Event(), threading.Event(), []

    def act(session: Session) -> None:
        tries.append(session.run("UPDATE seiche_transactions SET reason = ? WHERE id = ?", ("late", made.id)))
        locked.set()
        assert resumed.wait(30)
        session.run("UPDATE seiche_transactions SET attempts = attempts + 1 WHERE id = ?", (made.id,))

    thread = threading.Thread(target=stopped.transact, args=(act,))
    thread.start()
    assert locked.wait(30)
    assert other.start(account, [], [made.id], NOW)[made.id].attempts == 1, "waits, and then goes on"
    resumed.set()
    thread.join()
    found = other.get(account, made.id)
    assert found is not None
    assert (found.reason, found.attempts, len(tries)) == ("late", 2, 2)
    stopped.close()
    other.database.close()


def test_who_connects_to_tables_that_are_there_waits_for_nobody_who_writes(
    postgres: str, account: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited for one of them would keep out all others meanwhile."""
    monkeypatch.setattr("seiche.service.state.postgres._PATIENCE", Patience(attempts=1))
    writing = open_database(postgres)
    hurried = open_database(f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20lock_timeout%3D200")

    def act(session: Session) -> list[tuple[Any, ...]]:
        session.run("DELETE FROM seiche_transactions WHERE account = ?", (account,))
        return hurried.read(lambda other: other.run("SELECT 1"))

    assert writing.transact(act) == [(1,)]
    writing.close()
    hurried.close()


def test_a_disk_that_is_full_is_called_that(tmp_path: Path, account: str) -> None:
    database = SqliteDatabase(str(tmp_path / "state.db"))
    store = TransactionStore(database)
    kept = store.insert(record(account))

    def limit(pages: int) -> None:
        database.read(lambda session: session.run(f"PRAGMA max_page_count = {pages}"))

    limit(1)
    with pytest.raises(Unavailable, match="disk is full"):
        store.insert(record(account, properties={"large": "x" * 100_000}))
    assert store.get(account, kept.id) == kept
    limit(10_000)
    again = record(account, properties={"large": "x" * 100_000})
    assert store.insert(again) == again, "as soon as there is room"
    database.close()


def test_a_file_that_was_broken_and_then_removed_is_made_anew(tmp_path: Path, account: str) -> None:
    """As the refusal says, without the server being started again."""
    path = tmp_path / "state.db"
    store = TransactionStore(SqliteDatabase(str(path)))
    kept = store.insert(record(account))
    store.database.close()
    sound = path.read_bytes()
    path.write_bytes(sound[:4096].ljust(len(sound), b"?"))
    with pytest.raises(Corrupt, match=r"malformed\n  If it is that file, remove the file"):
        store.get(account, kept.id)
    for left in tmp_path.iterdir():
        left.unlink()
    assert store.get(account, kept.id) is None
    assert store.insert(kept) == kept
    store.database.close()
