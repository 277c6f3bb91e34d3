"""The store that fails on purpose: each fault does what it says, and the same seed does the same again."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, NotFound, SeicheError, Unavailable
from seiche.store import Store, open_store
from seiche.testing import (
    CRASHES,
    Call,
    CountingStore,
    DictStore,
    Fault,
    Faults,
    SimulatedStore,
    Stopped,
    crash_points,
)
from seiche.testing.wrapping import READS, WRITES

VERBS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("old"),
    "get_range": lambda store: store.get_range("old", 0, 2),
    "head": lambda store: store.head("old"),
    "list": lambda store: list(store.list()),
    "put": lambda store: store.put("new", b"12345678"),
    "put_if_absent": lambda store: store.put_if_absent("new", b"12345678"),
    "copy": lambda store: store.copy("old", "new"),
    "copy_if_absent": lambda store: store.copy_if_absent("old", "new"),
    "rename_if_absent": lambda store: store.rename_if_absent("old", "new"),
    "delete": lambda store: store.delete("old"),
}
DECIDING = sorted(WRITES - {"delete"})
CONDITIONAL = ["copy_if_absent", "put_if_absent", "rename_if_absent"]


@pytest.fixture
def inner() -> DictStore:
    store = DictStore()
    store.put("old", b"abcdefgh")
    return store


def files(store: Store) -> dict[str, bytes]:
    return {info.path: store.get(info.path) for info in store.list()}


def after(verb: str) -> dict[str, bytes]:
    """What the store holds once `verb` has taken effect."""
    store = DictStore()
    store.put("old", b"abcdefgh")
    VERBS[verb](store)
    return files(store)


def met(inner: Store, verb: str, fault: Fault) -> BaseException | None:
    store = SimulatedStore(inner, plan={1: fault})
    try:
        VERBS[verb](store)
    except (SeicheError, Stopped) as error:
        assert store.injected == [(1, fault)]
        return error
    assert store.injected == []
    return None


@pytest.mark.parametrize("verb", VERBS)
def test_a_failure_before_has_no_effect(inner: DictStore, verb: str) -> None:
    assert type(met(inner, verb, "before")) is Unavailable
    assert files(inner) == {"old": b"abcdefgh"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_failure_after_took_effect(inner: DictStore, verb: str) -> None:
    assert type(met(inner, verb, "after")) is (CommitUnknown if verb in DECIDING else Unavailable)
    assert files(inner) == after(verb)


@pytest.mark.parametrize("verb", DECIDING)
def test_a_lost_request_cannot_be_told_from_a_lost_answer(inner: DictStore, verb: str) -> None:
    assert type(met(inner, verb, "lost")) is CommitUnknown
    assert files(inner) == {"old": b"abcdefgh"}


@pytest.mark.parametrize("verb", CONDITIONAL)
def test_a_lost_answer_hides_who_won(inner: DictStore, verb: str) -> None:
    inner.put("new", b"theirs")
    assert type(met(inner, verb, "after")) is CommitUnknown
    assert inner.get("new") == b"theirs"


@pytest.mark.parametrize("verb", DECIDING)
def test_a_late_request_arrives_when_nobody_waits_for_it_any_more(inner: DictStore, verb: str) -> None:
    store = SimulatedStore(inner, plan={1: "late"})
    with pytest.raises(CommitUnknown):
        VERBS[verb](store)
    assert files(inner) == {"old": b"abcdefgh"}
    store.stop()
    store.deliver()
    assert files(inner) == after(verb)


def test_late_requests_arrive_sooner_or_later() -> None:
    inner = DictStore()
    store = SimulatedStore(inner, plan={1: "late"})
    with pytest.raises(CommitUnknown):
        store.put_if_absent("f", b"x")
    seen = [store.exists("f") for _ in range(30)]
    assert seen == sorted(seen)
    assert seen[-1]


@pytest.mark.parametrize("verb", CONDITIONAL)
def test_a_conflict_decides_nothing(inner: DictStore, verb: str) -> None:
    error = met(inner, verb, "conflict")
    assert type(error) is Unavailable
    assert error.status == 409
    assert files(inner) == {"old": b"abcdefgh"}


@pytest.mark.parametrize("verb", ["put", "put_if_absent"])
def test_torn_and_empty_files_of_a_store_without_atomic_writes(verb: str) -> None:
    sizes = set()
    for seed in range(40):
        inner = DictStore()
        store = SimulatedStore(inner, seed=seed, plan={1: "torn"})
        with pytest.raises(CommitUnknown):
            getattr(store, verb)("new", b"12345678")
        assert b"12345678".startswith(inner.get("new"))
        sizes.add(len(inner.get("new")))
    assert sizes == set(range(8))
    inner = DictStore()
    with pytest.raises(CommitUnknown):
        getattr(SimulatedStore(inner, plan={1: "empty"}), verb)("new", b"12345678")
    assert inner.get("new") == b""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", ["stop_before", "stop_after"])
def test_a_stopped_process_is_dead(inner: DictStore, verb: str, fault: Fault) -> None:
    store = SimulatedStore(inner, plan={1: fault})
    with pytest.raises(Stopped):
        VERBS[verb](store)
    assert files(inner) == (after(verb) if fault == "stop_after" else {"old": b"abcdefgh"})
    for other in VERBS.values():
        with pytest.raises(Stopped):
            other(store)
    assert len(store.calls) == 1
    assert not issubclass(Stopped, Exception), "an `except Exception` must not catch the death of the process"


def test_a_process_may_die_in_the_middle_of_a_rename(inner: DictStore) -> None:
    assert type(met(inner, "rename_if_absent", "stop_halfway")) is Stopped
    assert files(inner) == {"old": b"abcdefgh", "new": b"abcdefgh"}


def test_a_listing_ends_when_the_process_does(inner: DictStore) -> None:
    inner.put("other", b"x")
    store = SimulatedStore(inner)
    listing = store.list()
    next(listing)
    store.stop()
    with pytest.raises(Stopped):
        next(listing)


@pytest.mark.parametrize("fault", ["lost", "late", "conflict", "torn", "empty", "stop_halfway", "stop_torn"])
def test_faults_that_cannot_happen_to_a_verb_do_not(inner: DictStore, fault: Fault) -> None:
    for verb in (*sorted(READS), "delete"):
        assert met(inner, verb, fault) is None


@pytest.mark.parametrize("fault", ["before", "lost", "after", "late", "torn", "stop_before"])
def test_bad_paths_are_still_refused_first(inner: DictStore, fault: Fault) -> None:
    calls: list[Callable[[Store], object]] = [
        lambda store: store.put("../f", b"x"),
        lambda store: store.get("/f"),
        lambda store: store.rename_if_absent("old", "a//b"),
        lambda store: store.copy("a//b", "new"),
        lambda store: store.list("a//b"),
    ]
    for call in calls:
        store = SimulatedStore(inner, plan={1: fault})
        with pytest.raises(InvalidInput):
            call(store)
        assert store.calls == []


def test_calls_are_recorded_and_announced(inner: DictStore) -> None:
    announced: list[str] = []
    store = SimulatedStore(inner, on_call=lambda call: announced.append(str(call)))
    for verb in VERBS.values():
        with contextlib.suppress(SeicheError):
            verb(store)
    assert announced == [str(call) for call in store.calls]
    assert [call.verb for call in store.calls] == list(VERBS)
    assert Call("copy", "new", "old") in store.calls
    assert Call("put", "new", size=8) in store.calls


def test_a_process_can_be_killed_while_others_have_their_turn(inner: DictStore) -> None:
    store = SimulatedStore(inner)
    store.on_call = lambda call: store.stop()
    with pytest.raises(Stopped):
        store.put("new", b"x")
    assert files(inner) == {"old": b"abcdefgh"}
    assert store.calls == []


def test_delays_pass_on_the_runtimes_clock() -> None:
    runtime = Runtime.seeded(1)
    store = SimulatedStore(DictStore(), faults=Faults(delay=1.0, longest_delay=10.0), runtime=runtime)
    for number in range(20):
        store.put(f"{number}", b"")
    assert 20 < runtime.clock.monotonic() < 180


def test_listings_mix_directories_but_keep_the_order_within_each() -> None:
    inner = DictStore()
    for directory in "abc":
        for number in range(6):
            inner.put(f"{directory}/{number}", b"")
    orders = set()
    for seed in range(10):
        listed = [info.path for info in SimulatedStore(inner, seed=seed, faults=Faults(odd_order=True)).list()]
        orders.add(tuple(listed))
        assert sorted(listed) == [info.path for info in inner.list()]
        for directory in "abc":
            names = [path for path in listed if path.startswith(directory)]
            assert names == sorted(names)
    assert len(orders) == 10


FAULTS = Faults(
    before=0.05, lost=0.05, after=0.05, late=0.05, conflict=0.05, torn=0.02, empty=0.02, delay=0.1, odd_order=True
)


def busy(store: Store, steps: int = 300) -> list[str]:
    """Much of everything; returns what came of each step."""
    outcomes = []
    for number in range(steps):
        verb = list(VERBS)[number * 7 % len(VERBS)]
        try:
            outcomes.append(f"{verb} {VERBS[verb](store)}")
        except SeicheError as error:
            outcomes.append(f"{verb} {error.kind}")
        if number % 5 == 0:
            for path in ("old", "new"):
                try:
                    store.put(path, b"%d" % number)
                except SeicheError as error:
                    outcomes.append(error.kind)
    return outcomes


def test_the_same_seed_does_the_same_again() -> None:
    def run(seed: int) -> tuple[list[str], list[tuple[int, Fault]], float]:
        runtime = Runtime.seeded(7)
        store = SimulatedStore(DictStore(runtime=runtime), seed=seed, faults=FAULTS, runtime=runtime)
        return busy(store), store.injected, runtime.clock.monotonic()

    assert run(3) == run(3)
    assert run(3) != run(4)
    kinds = Counter(fault for seed in range(5) for _, fault in run(seed)[1])
    assert set(kinds) == {"before", "lost", "after", "late", "conflict", "torn", "empty"}
    assert min(kinds.values()) >= 10


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_without_torn_writes_files_are_whole_under_every_fault(seed: int) -> None:
    faults = Faults(before=0.1, lost=0.1, after=0.1, late=0.1, conflict=0.1)
    inner = DictStore()
    store = SimulatedStore(inner, seed=seed, faults=faults)
    for number in range(30):
        with contextlib.suppress(AlreadyExists, CommitUnknown, Unavailable):
            store.put_if_absent(f"{number % 10}", b"whole %d" % number)
    store.deliver()
    for path, data in files(inner).items():
        assert data.startswith(b"whole ")
        assert int(data.split()[1]) % 10 == int(path)


def commit(store: Store) -> str:
    """A small protocol: write a body, then claim a name for it."""
    store.put_if_absent("body", b"content")
    store.put_if_absent("commit", b"body")
    store.put("hint", b"commit")
    return store.get("commit").decode()


def test_a_scenario_is_interrupted_at_each_of_its_calls() -> None:
    points = []
    for point in crash_points(DictStore, commit):
        points.append(str(point))
        assert isinstance(point.error, Stopped)
        if point.store.exists("commit"):
            assert point.store.get(point.store.get("commit").decode()) == b"content"
    assert len(points) == 8
    assert points[2] == "stop_before call 2 (put_if_absent commit)"


def test_a_protocol_in_the_wrong_order_is_caught() -> None:
    def wrong(store: Store) -> None:
        store.put_if_absent("commit", b"body")
        store.put_if_absent("body", b"content")

    broken = [
        str(point)
        for point in crash_points(DictStore, wrong)
        if point.store.exists("commit") and not point.store.exists("body")
    ]
    assert broken == ["stop_after call 1 (put_if_absent commit)", "stop_before call 2 (put_if_absent body)"]


def test_other_faults_at_each_call() -> None:
    outcomes = {str(point): point for point in crash_points(DictStore, commit, faults=("after", "late"))}
    assert len(outcomes) == 7
    lost = outcomes["after call 2 (put_if_absent commit)"]
    assert isinstance(lost.error, CommitUnknown)
    assert lost.store.get("commit") == b"body"
    read = outcomes["after call 4 (get commit)"]
    assert isinstance(read.error, Unavailable)


def test_a_scenario_that_swallows_its_own_death_is_caught() -> None:
    def stubborn(store: Store) -> None:
        with contextlib.suppress(BaseException):
            store.put("f", b"x")

    with pytest.raises(AssertionError, match="caught the death"):
        list(crash_points(DictStore, stubborn))


def test_a_scenario_that_does_something_else_each_time_is_caught() -> None:
    numbers: Iterator[int] = iter(range(100))
    with pytest.raises(AssertionError, match="the first time"):
        list(crash_points(DictStore, lambda store: store.put(f"{next(numbers)}", b"")))


def test_crash_points_on_a_real_disk(tmp_path: Path) -> None:
    stores = iter(range(100))
    points = list(
        crash_points(lambda: open_store(tmp_path / f"{next(stores)}", durability="os"), commit, faults=CRASHES)
    )
    assert len(points) == 8
    assert [info.path for info in points[-1].store.list()] == ["body", "commit", "hint"]


def test_counting(inner: DictStore) -> None:
    store = CountingStore(inner)
    for verb in VERBS.values():
        with contextlib.suppress(AlreadyExists, NotFound):
            verb(store)
    assert store.counts == Counter(dict.fromkeys(VERBS, 1))
    assert (store.requests, store.reads, store.writes) == (10, 4, 6)
    assert (store.bytes_read, store.bytes_written) == (10, 16)
    store.reset()
    assert not store.exists("none")
    store.put_many({"a": b"1", "b": [b"2", b"3"]})
    store.get_many(["a", "b"])
    assert store.counts == {"head": 1, "put_if_absent": 2, "get": 2}
    assert (store.bytes_read, store.bytes_written) == (3, 3)
