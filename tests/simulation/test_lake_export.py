"""An export interrupted at every one of its storage calls, and with expiry and clean-up at work at every one of them.

The lake that is exported never lacks anything. At the target there is no lake, or a whole one; and whatever was
interrupted is finished by running it again.
"""

from collections.abc import Callable

import pytest

from seiche import CommitUnknown, Lake, NotFound, SeicheError, Unavailable
from seiche.lake import pins
from seiche.lake.care import expiry
from seiche.lake.lake import open_lake
from seiche.lake.state import State
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.testing import CRASHES, Aftermath, Call, DictStore, Fault, SimulatedStore, Stopped, crash_points
from seiche.testing.wrapping import WRITES
from tests.simulation.care_model import at, committed, copied, missing, moved_on, past, write
from tests.simulation.lake_model import TABLES
from tests.simulation.test_lake_care_crashes import marks

A = TABLES[0]
UNANSWERED: tuple[Fault, ...] = ("before", "after", "lost", "late", "conflict")


def prepared() -> DictStore:
    """A lake in the folder `lake`, with a tag, a dropped table and files of a transaction that never committed."""
    made = past(versions=3)
    lake = at(made, 50)
    write(lake.transaction(), "lost", A)
    lake.tag("old", 5)
    lake.drop_table(TABLES[2])
    store = DictStore("both", runtime=lake.states.runtime)
    for info in made.list():
        store.put(f"lake/{info.path}", made.get(info.path))
    return store


PREPARED = prepared()
VERSION = at(below(PREPARED, "lake"), 51).version


def original(store: Store, seed: int) -> Lake:
    return at(below(store, "lake"), seed)


def export(store: SimulatedStore) -> object:
    return original(store, 70).export("x", below(store, "copy"), mode="full")


def export_again(store: Store) -> None:
    """As whoever finds it interrupted would do."""
    lake = original(store, 90)
    found = lake.exports().get("x")
    if found is None or not found.done:
        lake.export("x", below(store, "copy"), version=None if found else VERSION)


def copy_of(store: Store) -> Lake | None:
    try:
        return at(below(store, "copy"), 91)
    except NotFound:
        return None


def check_copy(store: Store) -> None:
    """What is at the target is the version, and whole."""
    copy = copy_of(store)
    assert copy is not None
    assert copy.version == VERSION
    assert copy.fsck().kinds() <= {"hint.stale"}
    assert marks(copy) == ["a-old0", "a-old1", "a-old2"]
    assert marks(copy, "old") == ["a-old0"]
    assert copy.gc().unneeded == ()


def finished_after(crash: Aftermath, number: int) -> bool:
    """Check what an interrupted run left, and that the next one finishes it; whether there was a lake already."""
    store = crash.store
    assert isinstance(store, DictStore)
    assert missing(below(store, "lake")) == [], str(crash)
    copy = copy_of(store)
    if copy is not None:
        assert (copy.version, marks(copy)) == (VERSION, ["a-old0", "a-old1", "a-old2"]), str(crash)
    if number % 5 == 0 and "x" in original(store, 93).exports():
        hungry(store)
    export_again(store)
    assert original(store, 92).exports()["x"].done, str(crash)
    check_copy(store)
    return copy is not None


def test_an_export_that_dies_after_any_write_is_none_or_whole_and_is_finished_by_the_next() -> None:
    """What it has read does not matter to those who come after."""
    rehearsal = SimulatedStore(copied(PREPARED))
    export(rehearsal)
    writes = [number for number, call in enumerate(rehearsal.calls, 1) if call.verb in WRITES]
    whole = 0
    for number in writes:
        store = SimulatedStore(copied(PREPARED), plan={number: "stop_after"})
        with pytest.raises(Stopped):
            export(store)
        whole += finished_after(
            Aftermath(number, "stop_after", rehearsal.calls[number - 1], store.inner, None, None), number
        )
    assert len(writes) >= 40
    assert 5 <= whole < len(writes)


@pytest.mark.soak
@pytest.mark.parametrize("faults", [CRASHES, UNANSWERED], ids=["crash", "unanswered"])
def test_an_export_interrupted_at_any_call(faults: tuple[Fault, ...], effort: Callable[[int, int], int]) -> None:
    count = 0
    points = crash_points(lambda: copied(PREPARED), export, faults=faults, every=effort(13, 1))
    for number, crash in enumerate(points):
        assert faults is CRASHES or isinstance(crash.error, CommitUnknown | Unavailable | None.__class__), str(crash)
        finished_after(crash, number)
        count += 1
    assert count >= effort(30, 400)


def hungry(store: Store) -> None:
    """An operator who gives up and takes all that can be taken, at once."""
    lake = original(store, 80)
    committed(lake, "later", A)
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)


def paused(number: int) -> DictStore:
    """An export during whose call of this number somebody clears everything away that can be."""
    inner = copied(PREPARED)
    store = SimulatedStore(inner)
    passed = 0

    def interfere(_call: Call) -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            lake = original(inner, 60)
            if "old" in lake.tags():
                lake.untag("old")
            hungry(inner)

    store.on_call = interfere
    try:
        original(store, 70).export("x", below(store, "copy"), version=VERSION)
    except SeicheError:
        # What is not recorded yet holds nothing. Then the export is told, and has written nothing.
        assert "x" not in original(inner, 71).exports(), f"call {number}"
        assert not list(inner.list("copy")), f"call {number}"
        raise
    return inner


def calls() -> int:
    store = SimulatedStore(copied(PREPARED))
    export(store)
    return len(store.calls)


def test_a_clean_up_at_any_moment_of_an_export_takes_nothing_from_it() -> None:
    """Also if the tag goes, whose version is being copied."""
    finished = given_up = 0
    for number in range(1, calls() + 1, 5):
        try:
            store = paused(number)
        except SeicheError:
            given_up += 1
            continue
        copy = copy_of(store)
        assert copy is not None
        assert copy.fsck().problems == (), f"call {number}"
        assert marks(copy) == ["a-old0", "a-old1", "a-old2"], f"call {number}"
        assert missing(below(store, "lake")) == []
        finished += 1
    assert finished >= 40
    assert given_up <= 20


def test_without_the_hold_a_clean_up_robs_an_export(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(state: State) -> dict[int, tuple[str, ...]]:
        return {version: why for version, why in pins.pins(state).items() if "export" not in str(why)}

    monkeypatch.setattr(expiry, "pins", careless)
    with pytest.raises(AssertionError):
        test_a_clean_up_at_any_moment_of_an_export_takes_nothing_from_it()


def test_after_a_full_export_its_version_may_go_and_the_copy_stays() -> None:
    store = copied(PREPARED)
    original(store, 70).export("x", below(store, "copy"))
    lake = original(store, 71)
    lake.untag("old")
    hungry(store)
    moved_on(store, 10)
    with pytest.raises(NotFound, match="expired"):
        open_lake(lake.store, version="x")
    check_copy(store)
