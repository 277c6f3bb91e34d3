"""The compare-and-swap: who wins, who lost, who cannot know, and what never reaches storage."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    Unavailable,
)
from seiche.lake.objects.keys import transaction_key
from seiche.lake.tree.create import create_lake
from seiche.lake.tree.latest import latest_root, read_root
from seiche.lake.tree.node import Node
from seiche.lake.tree.root import Root
from seiche.lake.tree.swap import Lost, Won, check, publish, stage
from seiche.lake.tree.transactions import TransactionRecord
from seiche.store import open_store
from seiche.store.base import Data, Store
from seiche.testing import Call, DictStore, Fault, SimulatedStore, VolatileStore, WrappingStore
from tests.unit.lake.roots import a_root, chain, commit, follow

T = TypeVar("T")

ONCE = Patience(attempts=1)


def lake() -> tuple[DictStore, Root, Runtime]:
    runtime = Runtime.seeded(1)
    store = DictStore(runtime=runtime)
    return store, chain(store, 2, runtime)[-1], runtime


@pytest.mark.parametrize("kind", ["dict", "file"])
def test_of_eight_creators_one_wins_and_the_others_are_told(kind: str, tmp_path: Path) -> None:
    shared = DictStore()
    barrier = Barrier(8)

    def create(_: int) -> str:
        store: Store = shared if kind == "dict" else open_store(tmp_path / "lake")
        barrier.wait()
        try:
            return create_lake(store)[0].root_id
        except AlreadyExists:
            return "exists"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(create, range(8)))
    store = shared if kind == "dict" else open_store(tmp_path / "lake")
    assert outcomes.count("exists") == 7
    assert latest_root(store).root_id in outcomes
    assert latest_root(store).version == 0


def test_a_lake_is_never_created_over_even_if_its_first_version_is_missing() -> None:
    store, root, _ = lake()
    for version in (0, 1):
        store.delete(read_root(store, version).name)
    with pytest.raises(AlreadyExists, match="already holds a lake"):
        create_lake(store)
    assert latest_root(store) == root


def test_settings_of_a_new_lake_are_checked_before_anything_is_written() -> None:
    store = DictStore()
    with pytest.raises(InvalidInput):
        create_lake(store, order=2)
    assert list(store.list()) == []
    _, made = create_lake(store, order=16, properties={"owner": "ann"})
    assert (made.order, made.properties) == (16, {"owner": "ann"})


def test_the_first_of_two_wins_and_the_other_gets_the_winner() -> None:
    store, base, runtime = lake()
    mine, other = follow(store, base, runtime), follow(store, base, runtime)
    assert publish(store, mine, base, order=128) == Won(mine)
    assert publish(store, other, base, order=128) == Lost(mine)
    assert read_root(store, 3) == mine


@pytest.mark.parametrize("fault", ["before", "lost", "after", "late", "conflict"])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_put_with_any_fault_is_settled(fault: Fault, at: int) -> None:
    inner, base, runtime = lake()
    root = follow(inner, base, runtime)
    store = SimulatedStore(inner, plan={1: "after", at: fault}, runtime=runtime)
    assert publish(store, root, base, order=128, runtime=runtime) == Won(root)
    store.deliver()
    assert read_root(inner, 3) == root


@pytest.mark.parametrize("fault", ["lost", "after", "late"])
def test_a_lost_answer_with_another_root_under_the_name_is_a_loss(fault: Fault) -> None:
    inner, base, runtime = lake()
    winner, root = follow(inner, base, runtime), follow(inner, base, runtime)
    inner.put_if_absent(winner.name, winner.encode(128))
    store = SimulatedStore(inner, plan={1: fault}, runtime=runtime)
    assert publish(store, root, base, order=128, runtime=runtime) == Lost(winner)
    store.deliver()
    assert read_root(inner, 3) == winner


def test_absent_is_not_no() -> None:
    """A put can be under way still when its name is found free: nothing may be concluded, and then it arrives."""
    unknown = 0
    for seed in range(20):
        inner, base, runtime = lake()
        root = follow(inner, base, runtime)
        store = SimulatedStore(inner, plan={1: "late"}, seed=seed, runtime=runtime)
        try:
            outcome = publish(store, root, base, order=128, patience=ONCE, runtime=runtime)
        except CommitUnknown as error:
            assert error.transactions == sorted(root.ids)  # noqa: PT017
            assert not inner.exists(root.name)
            unknown += 1
        else:
            assert outcome == Won(root)
        store.deliver()
        assert read_root(inner, 3) == root
    assert 0 < unknown < 20


def test_what_the_store_will_not_tell_is_unknown_and_names_the_transactions() -> None:
    inner, base, runtime = lake()
    root = follow(inner, base, runtime)
    plan: dict[int, Fault] = dict.fromkeys(range(1, 50), "before")
    store = SimulatedStore(inner, plan={**plan, 1: "lost"}, runtime=runtime)
    with pytest.raises(CommitUnknown, match="did not say whether version 3") as caught:
        publish(store, root, base, order=128, runtime=runtime)
    assert caught.value.transactions == sorted(root.ids)
    with pytest.raises(Unavailable, match="could not be written"):
        publish(SimulatedStore(inner, plan=plan, runtime=runtime), root, base, order=128, runtime=runtime)


class Refusing(WrappingStore):
    """Loses the answer of the first put, then refuses: to write, or only to read."""

    def __init__(self, inner: Store, *, lose_first: bool, verb: str = "put_if_absent") -> None:
        super().__init__(inner)
        self.lose = lose_first
        self.verb = verb

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        if call.verb not in (self.verb, "put_if_absent"):
            return act()
        if self.lose:
            if self.verb == "get":
                act()
            self.lose = False
            raise CommitUnknown("lost")
        raise PermissionDenied("no more")


def test_a_refusal_after_a_lost_answer_decides_nothing() -> None:
    inner, base, runtime = lake()
    root = follow(inner, base, runtime)
    with pytest.raises(CommitUnknown):
        publish(Refusing(inner, lose_first=True), root, base, order=128, runtime=runtime)
    with pytest.raises(PermissionDenied):
        publish(Refusing(inner, lose_first=False), root, base, order=128, runtime=runtime)


def test_damage_and_refused_reads_after_a_lost_answer_decide_nothing() -> None:
    inner, base, runtime = lake()
    root = follow(inner, base, runtime)
    with pytest.raises(CommitUnknown):
        publish(Refusing(inner, lose_first=True, verb="get"), root, base, order=128, runtime=runtime)
    assert read_root(inner, 3) == root
    inner.put(root.name, b"torn")
    with pytest.raises(CommitUnknown):
        publish(SimulatedStore(inner, plan={1: "lost"}, runtime=runtime), root, base, order=128, runtime=runtime)


class Settling(VolatileStore):
    """A disk that does not say for a while whether new names last."""

    failures = 2

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put_if_absent(path, data, durable=False)
        raise CommitUnknown("the names of the directory could not be flushed")

    def flush(self, paths: Iterable[str]) -> int:
        files = list(paths)
        if files and self.failures:
            self.failures -= 1
            raise Unavailable("nor now")
        return super().flush(files)


def test_a_root_that_stands_after_an_unclear_answer_lasts_before_anybody_is_told() -> None:
    runtime = Runtime.seeded(1)
    store = Settling(runtime=runtime)
    root = a_root(0)
    assert publish(store, root, None, order=128, runtime=runtime) == Won(root)
    assert store.at_risk == frozenset()
    store.failures = 99
    with pytest.raises(CommitUnknown):
        publish(
            store,
            a_root(1, prev_eff_micros=0, created_at_millis=root.created_at_millis + 1),
            root,
            order=128,
            runtime=runtime,
        )


def test_a_root_that_expired_while_its_writer_waited_is_still_his() -> None:
    store, base, runtime = lake()
    root = follow(store, base, runtime)
    store.put(root.name, root.tombstone(runtime.clock.now()).encode(128))
    assert publish(store, root, base, order=128, runtime=runtime) == Won(root)


def test_a_damaged_winner_is_damage_and_not_a_loss() -> None:
    store, base, runtime = lake()
    root = follow(store, base, runtime)
    store.put(root.name, b"torn")
    with pytest.raises(Corrupt):
        publish(store, root, base, order=128, runtime=runtime)


def test_a_transaction_that_is_in_the_base_cannot_be_applied_again() -> None:
    store, base, runtime = lake()
    done = base.transactions[0].id
    for _ in range(3):
        outcome = commit(store, base, runtime)
        assert isinstance(outcome, Won)
        base = outcome.root
    with pytest.raises(AlreadyExists, match="already decided in version 5"):
        commit(store, base, runtime, done)
    assert latest_root(store).version == 5


TXN = TransactionRecord("t", 3)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"version": 5}, "version does not follow"),
        ({"version": 3}, "version does not follow"),
        ({"created_at_millis": 1003}, "time does not follow"),
        ({"min_base": 1}, "min_base falls"),
        ({"min_base": 9}, "ahead of the version"),
        ({"prev_eff_micros": 49}, "timeline goes back"),
        ({"prev_eff_micros": None}, "timeline is missing"),
        ({"node": Node(0, (b"b", b"a"), (b"1", b"2"))}, "keys are not sorted"),
        ({"node": Node(1, (b"b",), (b"1",), ("x#00000000",))}, "children do not fit"),
        ({"transactions": (TransactionRecord("t", 4),)}, "began after its base"),
        ({"transactions": (TXN, TXN)}, "in it twice"),
        ({"transactions": (TransactionRecord("old", 2),)}, "of its base is in it again"),
        ({"expired_at_millis": 5}, "tombstone"),
    ],
)
def test_a_root_that_breaks_an_invariant_never_reaches_storage(wrong: dict[str, object], why: str) -> None:
    base = a_root(3, min_base=2, prev_eff_micros=50, transactions=(TransactionRecord("old", 2),))
    good = a_root(4, min_base=2, prev_eff_micros=50, transactions=(TXN,))
    check(good, base)
    store = DictStore()
    with pytest.raises(InvalidInput, match=why):
        publish(store, replace(good, **wrong), base, order=16)  # type: ignore[arg-type]
    assert list(store.list()) == []


@pytest.mark.parametrize("fault", ["before", "lost", "after", "late", "conflict"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_staged_files_are_all_there_whatever_happens_on_the_way(fault: Fault, at: int) -> None:
    inner, runtime = DictStore(), Runtime.seeded(1)
    files = {f"a/{number}": b"%d" % number for number in range(1)} | {"b": b"x"}
    store = SimulatedStore(inner, plan={at: fault}, runtime=runtime)
    stage(store, files, runtime=runtime)
    store.deliver()
    assert {info.path: inner.get(info.path) for info in inner.list()} == files


def test_staged_files_that_cannot_be_written_decide_nothing_and_torn_ones_are_found() -> None:
    runtime = Runtime.seeded(1)
    never = SimulatedStore(DictStore(), plan=dict.fromkeys(range(1, 99), "before"), runtime=runtime)
    with pytest.raises(Unavailable, match="could not be written"):
        stage(never, {"a": b"1"}, runtime=runtime)
    torn = SimulatedStore(DictStore(), plan={1: "torn"}, runtime=runtime)
    with pytest.raises(Corrupt, match="holds something else"):
        stage(torn, {"a": b"12345"}, runtime=runtime)


def test_only_the_transactions_own_key_has_to_be_absent() -> None:
    store, base, runtime = lake()
    assert isinstance(publish(store, follow(store, base, runtime), base, order=128, absent=[transaction_key("x")]), Won)


def test_what_an_attempt_without_an_answer_has_left_is_flushed_by_the_next() -> None:
    runtime = Runtime.seeded(1)
    inner = VolatileStore(runtime=runtime)
    inner.put("data", b"0", durable=False)
    store = SimulatedStore(inner, plan={2: "after"}, runtime=runtime)
    stage(store, {"first": b"1", "second": b"2", "third": b"3"}, runtime=runtime)
    assert store.injected == [(2, "after")]
    assert {info.path for info in inner.list()} == {"data", "first", "second", "third"}
    assert inner.at_risk == {"data"}


@pytest.mark.parametrize("fault", ["before", "lost", "after", "late", "conflict"])
def test_files_last_before_the_root_that_names_them_whatever_becomes_of_its_put(fault: Fault) -> None:
    store, base, runtime = lake()
    inner = VolatileStore(runtime=runtime)
    for info in store.list():
        inner.put(info.path, store.get(info.path))
    stage(inner, {"first": b"1", "second": b"2"}, lasting=False, runtime=runtime)
    assert inner.at_risk == {"first", "second"}
    root = follow(store, base, runtime)
    with pytest.raises(NotFound):
        publish(inner, root, base, order=128, flush=["first", "none"], runtime=runtime)
    assert not inner.exists(root.name)
    inner.put("first", b"1", durable=False)
    simulated = SimulatedStore(inner, plan={1: fault}, runtime=runtime)
    publish(simulated, root, base, order=128, flush=["first", "second"], runtime=runtime)
    simulated.deliver()
    assert inner.exists(root.name)
    assert not inner.at_risk
