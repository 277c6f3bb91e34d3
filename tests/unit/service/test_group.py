"""Group commit: one root for many, and each with an answer of its own."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from seiche import CommitUnknown, Lake, SeicheError, Unavailable
from seiche.core.clock import SystemClock
from seiche.lake.saved import encode
from seiche.service.changes import Change
from seiche.service.commit import deciding, group, merging
from seiche.service.commit.deciding import Decided, Ticket
from seiche.service.commit.group import Limits
from seiche.service.commit.noting import Notes
from seiche.service.commit.planning import intent_of
from seiche.service.core import Service, Settings
from seiche.service.operations import Operation
from seiche.service.properties import FLUSHED
from seiche.service.states import State
from seiche.table.operations import Append
from tests.service_lake import appending, defining, make_service, numbers_in, overwriting, payload, reopened, rows

CLIENTS = 16


class SlowClock(SystemClock):
    """A clock by which commits take as long as a test wants."""

    later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


class Gate:
    """Holds the next commit up until all who should be in the group after it wait."""

    def __init__(self, lake: Lake, patch: pytest.MonkeyPatch) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.groups: list[int] = []
        self._real = lake.decide_group
        patch.setattr(lake, "decide_group", self)

    def __call__(self, intents: Sequence[Any], *rest: Any) -> Any:
        self.groups.append(len(intents))
        if not self.entered.is_set():
            self.entered.set()
            assert self.opened.wait(30)
        return self._real(intents, *rest)


def together(service: Service, lake: Lake, patch: pytest.MonkeyPatch, acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """What the calls give, when all but the first have to wait for the first."""
    gate = Gate(lake, patch)
    results: list[Any] = [None] * len(acts)

    def run(number: int) -> None:
        try:
            results[number] = acts[number]()
        except SeicheError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    threads[0].start()
    assert gate.entered.wait(30)
    for number, thread in enumerate(threads[1:], 1):
        thread.start()
        wait_for(lambda number=number: service.group.waiting == number)  # type: ignore[misc]
    gate.opened.set()
    for thread in threads:
        thread.join()
    return results


def wait_for(reached: Callable[[], bool]) -> None:
    event = threading.Event()
    for _ in range(3000):
        if reached():
            return
        event.wait(0.01)
    raise AssertionError("never reached")


def executing(service: Service, *changes: Change, **options: Any) -> Callable[[], Decided]:
    return lambda: service.execute(changes, **options)


def test_many_appends_are_one_root_and_one_version(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts = [
        executing(service, appending(lake, "shop.orders", writer=n, numbers=[n]), base_version=lake.version)
        for n in range(CLIENTS)
    ]
    before, table = lake.version, lake.table("shop.orders").version
    done = together(service, lake, monkeypatch, acts)
    assert [one.record.state for one in done] == [State.APPLIED] * CLIENTS
    assert lake.version == before + 2, "the first alone, all others together"
    assert lake.table("shop.orders").version == table + 2
    assert numbers_in(lake) == list(range(CLIENTS))
    assert {lake.status(one.record.id).version for one in done[1:]} == {lake.version}
    newest = lake.log()[0]
    assert len(newest.transactions) == CLIENTS - 1, "each is recorded by itself"
    assert done[-1].tables[0].table_version == lake.table("shop.orders").version


def test_each_is_told_and_recorded_what_is_its_own(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where two of a group change the same table by different versions, or tables in part the same."""
    stock = lake.table("shop.stock").row
    exact = appending(lake, "shop.stock", numbers=[1], expected_version=stock.pointer_version)
    wanted = [
        (exact,),
        (appending(lake, "shop.stock", numbers=[2]),),
        (appending(lake, "shop.carts", numbers=[3]),),
        (appending(lake, "shop.carts", numbers=[4]), appending(lake, "shop.stock", numbers=[5])),
    ]
    acts = [executing(service, appending(lake, "shop.orders"))] + [executing(service, *some) for some in wanted]
    done = together(service, lake, monkeypatch, acts)[1:]
    carts = lake.table("shop.carts").row
    assert [{(one.table, one.table_version - stock.table_version) for one in made.tables} for made in done] == [
        {(stock.id, 1)},
        {(stock.id, 2)},
        {(carts.id, 1)},
        {(carts.id, 1), (stock.id, 2)},
    ]
    recorded = {
        one.id: {str(object_).split()[-1] for object_ in one.objects or ()} for one in lake.log(1)[0].transactions
    }
    assert [recorded[one.record.id] for one in done] == [
        {"shop.stock"},
        {"shop.stock"},
        {"shop.carts"},
        {"shop.carts", "shop.stock"},
    ]


@pytest.mark.timeout(20)
def test_when_idle_nobody_waits_for_others(service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long one may wait under load."""
    monkeypatch.setattr(group, "_LONGEST_WINDOW", 60.0)
    decide = service.group._decide

    def slowly(tickets: Any) -> None:
        decide(tickets)
        clock.later += 60.0

    clock = SlowClock()
    monkeypatch.setattr(service.group, "_clock", clock)
    monkeypatch.setattr(service.group, "_decide", slowly)
    for number in range(4):
        assert service.execute([appending(lake, "shop.orders", numbers=[number])]).record.state is State.APPLIED


def test_the_order_of_arrival_is_kept(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is passed over, however many come after."""
    service = make_service(lake, tmp_path, settings=Settings(limits=Limits(group=4)))
    acts = [executing(service, appending(lake, "shop.orders", numbers=[number])) for number in range(13)]
    versions = [one.record.lake_version for one in together(service, lake, monkeypatch, acts)]
    first = versions[0]
    assert versions == [first, *(first + 1 + number // 4 for number in range(12))]
    service.close()


def test_one_that_conflicts_fails_alone(service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first overwrites the table. Whoever appended to what it was has lost, and nobody else."""
    others = [appending(lake, "shop.stock", numbers=[n]) for n in range(5)]
    loser = appending(lake, "shop.orders", numbers=[99])
    acts = [executing(service, overwriting(lake, "shop.orders"))]
    acts += [executing(service, one) for one in (*others[:2], loser, *others[2:])]
    _, *done = together(service, lake, monkeypatch, acts)
    states = [one.record.state for one in done]
    assert states == [State.APPLIED] * 2 + [State.APPLY_FAILED_CONFLICT] + [State.APPLIED] * 3
    assert done[2].record.error_code == "INCOMPATIBLE_CONFLICT"
    assert numbers_in(lake, "shop.stock") == [0, 1, 2, 3, 4]
    assert numbers_in(lake, "shop.orders") == []


def test_one_of_which_it_cannot_be_found_out_what_became_is_open_alone(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = service.begin().id
    service.prepare(prepared, [defining(lake, "shop.stock", "renamed")])
    loser = appending(lake, "shop.orders", numbers=[99])
    acts = [executing(service, overwriting(lake, "shop.orders"))]
    acts += [lambda: Decided(service.commit(prepared)), executing(service, loser)]

    def away(_: str) -> Any:
        raise Unavailable("storage is away")

    monkeypatch.setattr(lake, "settle", away)
    _, *done = together(service, lake, monkeypatch, acts)
    assert [one.record.state for one in done] == [State.APPLIED, State.APPLY_FAILED_RETRYABLE]
    assert service.intents(prepared) == []


@pytest.mark.parametrize("where", ["planning", "looking at files", "reading what was prepared"])
def test_what_nobody_thought_of_fails_alone(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A defect that one transaction meets is not that of those who are decided with it."""
    prepared = service.begin().id
    service.prepare(prepared, [overwriting(lake, "shop.carts")])

    def defect(*given: Any) -> Any:
        if where == "planning" and given[0].id != prepared:
            return intent_of(*given)
        raise AttributeError("nobody thought of it")

    match where:
        case "planning":
            monkeypatch.setattr(deciding, "intent_of", defect)
        case "looking at files":
            ready = Operation.files
            fails = lambda one, *rest: ready(one, *rest) if one.appends else defect()  # noqa: E731
            monkeypatch.setattr(Operation, "files", fails)
        case _:
            monkeypatch.setattr(deciding, "decode", defect)
    acts = [executing(service, appending(lake, "shop.stock", numbers=[n])) for n in range(3)]
    acts.insert(1, lambda: Decided(service.commit(prepared)))
    _, failed, *done = together(service, lake, monkeypatch, acts)
    assert failed.record.state is State.APPLY_FAILED_RETRYABLE
    assert "AttributeError" in failed.record.error_message
    assert [one.record.state for one in done] == [State.APPLIED] * 2
    assert numbers_in(lake, "shop.stock") == [0, 1, 2]


def test_nothing_is_said_about_a_commit_when_what_nobody_thought_of_comes_behind_its_root(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = service.begin().id
    service.prepare(tx, [appending(lake, "shop.stock", numbers=[7])])

    def defect(*_: Any) -> None:
        raise ValueError("nobody thought of it")

    with monkeypatch.context() as patch:
        patch.setattr(Notes, "end", defect)
        with pytest.raises(CommitUnknown, match="ValueError"):
            service.commit(tx, key="once")
    assert numbers_in(lake, "shop.stock") == [7]
    assert service.commit(tx, key="once").state is State.APPLIED


def test_members_are_checked_against_those_before_them(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 11: an overwrite and an append of one group are as if they had come one after the other."""
    acts = [
        executing(service, appending(lake, "shop.stock")),
        executing(service, defining(lake, "shop.orders", "renamed")),
        executing(service, defining(lake, "shop.orders", "other")),
        executing(service, appending(lake, "shop.orders", numbers=[5])),
    ]
    _, first, second, append = together(service, lake, monkeypatch, acts)
    assert first.record.state is State.APPLIED
    assert second.record.state is State.APPLY_FAILED_CONFLICT
    assert append.record.state is State.APPLIED, "a rename does not matter to it"
    assert numbers_in(lake, "shop.renamed") == [5]


def test_files_that_are_not_there_fail_alone(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import seiche

    synced = seiche.open(lake.uri)  # flushes, and so finds out
    service = make_service(synced, tmp_path)
    good = [appending(lake, "shop.orders", numbers=[n]) for n in range(3)]
    gone = rows(lake, "shop.orders", 0, [9])
    gone.fragments[0].files[0].path = "gone.lance"
    bad = Change(table_name="lake.shop.orders", payload=payload(lake, "shop.orders", gone))
    acts = [executing(service, one) for one in (good[0], bad, good[1], good[2])]
    done = together(service, synced, monkeypatch, acts)
    expected = [State.APPLIED, State.APPLY_FAILED_CONFLICT, State.APPLIED, State.APPLIED]
    assert [one.record.state for one in done] == expected
    assert numbers_in(lake) == [0, 1, 2]
    service.close()


def test_the_same_transaction_twice_is_applied_once(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = appending(lake, "shop.orders", numbers=[1])
    acts = [executing(service, appending(lake, "shop.stock"))]
    acts += [executing(service, change, key="k") for _ in range(4)]
    _, *done = together(service, lake, monkeypatch, acts)
    assert len({(one.record.id, one.record.state, one.record.lake_version) for one in done}) == 1
    assert numbers_in(lake) == [1]


def test_another_request_under_the_same_key_is_refused(service: Service, lake: Lake) -> None:
    service.execute([appending(lake, "shop.orders", numbers=[1])], key="k")
    with pytest.raises(SeicheError) as caught:
        service.execute([appending(lake, "shop.orders", numbers=[2])], key="k")
    assert caught.value.reason == "idempotency.mismatch"
    assert numbers_in(lake) == [1]


def test_who_waits_too_many_is_told_so(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = make_service(lake, tmp_path, settings=Settings(limits=Limits(waiting=2, group=10)))
    gate = Gate(lake, monkeypatch)
    done: list[Decided | SeicheError] = []
    changes = [appending(lake, "shop.orders", numbers=[n]) for n in range(4)]
    service.submit(changes[:1], done.append)
    assert gate.entered.wait(30)
    service.submit(changes[1:2], done.append)
    service.submit(changes[2:3], done.append)
    with pytest.raises(Unavailable) as caught:
        service.submit(changes[3:], done.append)
    assert caught.value.reason == "queue.full"
    gate.opened.set()
    service.close()
    assert len(done) == 3, "those who were let in are answered"
    assert numbers_in(lake) == [0, 1, 2]


def test_a_service_that_stops_answers_those_who_wait(lake: Lake, tmp_path: Path) -> None:
    service = make_service(lake, tmp_path)
    done: list[Decided | SeicheError] = []
    for number in range(20):
        service.submit([appending(lake, "shop.orders", numbers=[number])], done.append)
    service.close()
    assert len(done) == 20
    assert numbers_in(lake) == list(range(20))
    with pytest.raises(Unavailable):
        service.submit([appending(lake, "shop.orders")], done.append)


def test_a_member_that_another_server_has_decided_does_not_hold_up_the_others(
    service: Service, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seiche.service.state.opening import open_database

    other = make_service(lake, tmp_path, database=open_database(f"sqlite://{tmp_path}/other.db"))
    twice = appending(lake, "shop.orders", numbers=[1])
    given = other.execute([twice], key="k")
    other.close()
    acts = [executing(service, appending(lake, "shop.stock"))]
    acts += [executing(service, twice, key="k"), executing(service, appending(lake, "shop.orders", numbers=[2]))]
    _, again, second = together(service, lake, monkeypatch, acts)
    assert (again.record.state, again.record.lake_version) == (State.APPLIED, given.record.lake_version)
    assert second.record.state is State.APPLIED
    assert numbers_in(lake) == [1, 2]


def test_appends_built_on_an_old_version_are_still_joined(service: Service, lake: Lake) -> None:
    old = rows(lake, "shop.orders", 0, [1])
    for number in range(5):
        data = payload(lake, "shop.orders", Append(old.fragments), 1)
        done = service.execute([Change(table_name="lake.shop.orders", payload=data)], base_version=1)
        assert done.record.state is State.APPLIED, number
    lake.table("shop.orders").delete("number = 1")
    done = service.execute([Change(table_name="lake.shop.orders", payload=data)], base_version=1)
    assert done.record.state is State.APPLIED
    assert numbers_in(lake) == [1]


def added_at(lake: Lake, version: int | None = None, number: int = 0) -> Change:
    """An append that was built on a version of `shop.orders`."""
    data = payload(lake, "shop.orders", rows(lake, "shop.orders", 0, [number]), version)
    return Change(table_name="lake.shop.orders", payload=data)


def overwritten(lake: Lake) -> None:
    """What no append survives that was built before, by somebody who knows nothing of the service."""
    reopened(lake).table("shop.orders").overwrite([{"writer": 9, "number": 9}])


@pytest.mark.parametrize("seen", [False, True])
def test_an_append_meets_what_others_did_since_the_last_one_of_this_server(
    service: Service, lake: Lake, seen: bool
) -> None:
    late = added_at(lake, 1)
    assert service.execute([added_at(lake, number=1)]).record.state is State.APPLIED
    overwritten(lake)
    if seen:
        lake.states.latest()
    assert service.execute([late], base_version=1).record.state is State.APPLY_FAILED_CONFLICT
    assert service.execute([added_at(reopened(lake), number=2)]).record.state is State.APPLIED
    assert service.execute([late], base_version=1).record.state is State.APPLY_FAILED_CONFLICT, "nor behind a later one"
    assert numbers_in(lake) == [2, 9]


def test_an_append_meets_what_others_did_between_two_of_this_server(service: Service, lake: Lake) -> None:
    """Nobody has met it yet: the first append after it was built behind it."""
    late = added_at(lake, 1)
    assert service.execute([added_at(lake, number=1)]).record.state is State.APPLIED
    overwritten(lake)
    assert service.execute([added_at(reopened(lake), number=2)]).record.state is State.APPLIED
    assert service.execute([late], base_version=1).record.state is State.APPLY_FAILED_CONFLICT
    assert numbers_in(lake) == [2, 9]


def test_an_append_in_a_group_meets_what_others_did_since_it_was_built(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = added_at(lake)
    overwritten(lake)
    acts = [
        executing(service, one) for one in (appending(lake, "shop.stock"), late, added_at(reopened(lake), number=2))
    ]
    _, old, new = together(service, lake, monkeypatch, acts)
    assert [one.record.state for one in (old, new)] == [State.APPLY_FAILED_CONFLICT, State.APPLIED]
    assert numbers_in(lake) == [2, 9]


def test_an_append_in_a_group_meets_the_fence(service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    base = lake.version
    late, new = added_at(lake, number=1), added_at(lake, number=2)
    lake.table("shop.stock").append([{"writer": 1, "number": 1}])
    lake.expire(older_than=0, keep=1)
    acts: list[Callable[[], Any]] = [executing(service, appending(lake, "shop.stock"))]
    acts += [lambda: service.execute([late], base_version=base, properties={FLUSHED: "true"})]
    acts += [lambda: service.execute([new], base_version=lake.version, properties={FLUSHED: "true"})]
    _, old, young = together(service, lake, monkeypatch, acts)
    assert [one.record.state for one in (old, young)] == [State.APPLY_FAILED_CONFLICT, State.APPLIED]
    assert numbers_in(lake) == [2]


def test_what_others_commit_before_this_server_has_told_its_own_is_not_taken_for_its_own(
    service: Service, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = lake.decide_group

    def slow(*given: Any) -> Any:
        found = decide(*given[:1])
        overwritten(lake)
        lake.states.latest()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(lake, "decide_group", slow)
        done = service.execute([added_at(lake, number=1)])
    assert (done.record.state, done.tables) == (State.APPLIED, ())
    assert service.execute([added_at(lake, 2)], base_version=1).record.state is State.APPLY_FAILED_CONFLICT
    assert numbers_in(lake) == [9]


def test_who_says_that_files_are_younger_than_the_lake_is_not_believed(service: Service, lake: Lake) -> None:
    done = service.execute([added_at(lake, number=1)], base_version=lake.version + 1000)
    assert done.record.state is State.APPLIED
    assert done.record.base_version < lake.version


def test_work_that_an_expired_version_was_built_on_is_refused(service: Service, lake: Lake) -> None:
    """Rule 1: who began below the fence cannot commit."""
    change = appending(lake, "shop.orders")
    base = lake.version
    lake.table("shop.stock").append([{"writer": 1, "number": 1}])
    lake.expire(older_than=0, keep=1)
    done = service.execute([change], base_version=base)
    assert done.record.state is State.APPLY_FAILED_CONFLICT
    assert numbers_in(lake) == []


def test_work_that_another_process_did_before_its_version_expired_is_told_as_done(lake: Lake, tmp_path: Path) -> None:
    """Told as a conflict, it would be run again, and be done twice."""
    tx = lake.transaction(key="monday")
    tx.append("shop.orders", [{"writer": 1, "number": 1}])
    tx.late.write()
    asked = tx.intent()
    assert asked is not None
    version = tx.commit()
    lake.table("shop.stock").append([{"writer": 1, "number": 1}])
    lake.expire(older_than=0, keep=1)
    service = make_service(reopened(lake), tmp_path)  # which has not seen what it was built on
    done = service.execute(work=encode(asked, 1 << 60).SerializeToString(), tx=tx.id, base_version=asked.base)
    assert (done.record.state, done.record.lake_version) == (State.APPLIED, version)
    service.close()


def test_what_was_prepared_is_not_executed_as_something_else(service: Service, lake: Lake) -> None:
    tx = service.begin().id
    with pytest.raises(SeicheError) as caught:
        service.execute([appending(lake, "shop.orders")], tx=tx)
    assert caught.value.reason == "transaction.not-prepared"
    service.prepare(tx, [appending(lake, "shop.orders", numbers=[1])])
    with pytest.raises(SeicheError) as caught:
        service.execute([appending(lake, "shop.orders", numbers=[2])], tx=tx)
    assert caught.value.reason == "prepare.mismatch"
    assert service.commit(tx).state is State.APPLIED
    assert numbers_in(lake) == [1]


def test_who_does_not_listen_any_more_is_told_once() -> None:
    told = []

    def gone(answer: Decided | SeicheError) -> None:
        told.append(answer)
        raise ValueError("gone")

    ticket, answer = Ticket("x", gone), Unavailable("away")
    ticket.tell(answer)
    ticket.tell(answer)
    assert told == [answer]


def test_of_tables_without_end_only_the_last_ones_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MOST_KNOWN", 2)
    lineage = merging.Lineage()
    for table in ("a", "b", "a", "c"):
        lineage.extend(table, lineage.newest(table, 1, 1) + 1)
    assert [lineage.newest(table, 1, 2) for table in "abc"] == [2, 1, 2]
