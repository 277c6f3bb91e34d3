"""Expiry, clean-up and bringing back, interrupted at every one of their storage calls.

Nothing that is needed is ever missing, and whatever was interrupted can be run again and then is done.
"""

import pytest

from seiche import CommitUnknown, Lake, Unavailable
from seiche.lake.lake import open_lake
from seiche.lake.tree.latest import read_root
from seiche.lake.versions import LakeVersions
from seiche.testing import CRASHES, DictStore, Fault, SeenStates, SimulatedStore, crash_points
from tests.simulation.care_model import DAY, at, committed, copied, garbage, missing, moved_on, past, write
from tests.simulation.lake_model import TABLES

A = TABLES[0]
UNANSWERED: tuple[Fault, ...] = ("before", "after", "lost", "late", "conflict")


def neglected() -> DictStore:
    """A lake with versions that may go, a dropped table, and files of a transaction that never committed."""
    store = past(versions=3)
    lake = at(store, 50)
    tx = lake.transaction()
    write(tx, "lost", A)
    tx.rollback()
    lake.drop_table(TABLES[2])
    lake.tag("old", 5)
    return store


def expired() -> DictStore:
    store = copied(NEGLECTED)
    at(store, 60).expire(older_than=0, keep=1)
    return store


def noted() -> DictStore:
    """As a clean-up finds it that comes a day after another."""
    store = expired()
    at(store, 61).gc(dry_run=False)
    moved_on(store, 2 * DAY)
    return store


def trashed() -> DictStore:
    """As a clean-up finds it that comes a week later still."""
    store = noted()
    at(store, 62).gc(dry_run=False)
    moved_on(store, 8 * DAY)
    return store


NEGLECTED = neglected()
EXPIRED, NOTED, TRASHED = expired(), noted(), trashed()


def expire(store: SimulatedStore) -> object:
    return at(store, 70).expire(older_than=0, keep=1)


def clean(store: SimulatedStore) -> object:
    return at(store, 70).gc(dry_run=False)


def restore(store: SimulatedStore) -> object:
    trash = at(store, 70).trash()
    return [trash.restore(run.id) for run in trash]


def marks(lake: Lake, version: int | str | None = None) -> list[str]:
    """What was appended to the first table, in order, as a version has it."""
    seen = lake if version is None else open_lake(lake.store, version=version)
    row = seen.state().table(("bank", "a"))
    manifest = LakeVersions(lake.store, row).read(row.table_version).manifest
    for one in manifest.fragments:
        assert lake.store.exists(f"{row.location}/data/{one.files[0].path}")
    return [one.files[0].path.removesuffix(".lance") for one in manifest.fragments]


def usable(store: DictStore, seed: int) -> None:
    """Nothing is missing, the tagged version can be read, and the next writer succeeds."""
    assert missing(store) == []
    lake = at(store, seed)
    assert marks(lake, "old") == ["a-old0"]
    committed(lake, f"next{seed}", A)
    assert marks(at(store, seed + 1)) == ["a-old0", "a-old1", "a-old2", f"a-next{seed}"]
    assert missing(store) == []


def live(store: DictStore) -> list[int]:
    """The versions that can be read."""
    newest = at(store, 80).version
    return [version for version in range(newest + 1) if read_root(store, version).expired_at_millis is None]


@pytest.mark.parametrize("faults", [CRASHES, UNANSWERED], ids=["crash", "unanswered"])
def test_an_expiry_interrupted_anywhere_is_finished_by_the_next(faults: tuple[Fault, ...]) -> None:
    last = at(NEGLECTED, 80).version
    count = 0
    half = 0
    seen = SeenStates()
    for crash in crash_points(lambda: copied(NEGLECTED), expire, faults=faults):
        store = crash.store
        assert isinstance(store, DictStore)
        assert faults is CRASHES or isinstance(crash.error, CommitUnknown | Unavailable | None.__class__), str(crash)
        count += 1
        if not seen.is_new(store):
            continue
        assert missing(store) == [], str(crash)
        half += 0 in live(store) and len(live(store)) < last
        at(store, 81).expire(older_than=0, keep=1)
        left = live(store)
        assert left[0] == 5, str(crash)
        assert all(version >= last for version in left[1:]), f"{crash}: {left}"
        usable(store, 82)
    assert count >= 60
    assert len(seen) >= 10
    assert faults is UNANSWERED or not half, "oldest first: version 0 goes before any other"


@pytest.mark.parametrize("stage", [EXPIRED, NOTED, TRASHED], ids=["first run", "second run", "third run"])
@pytest.mark.parametrize("faults", [CRASHES, UNANSWERED], ids=["crash", "unanswered"])
def test_a_clean_up_interrupted_anywhere_takes_nothing_that_is_needed_and_is_finished_by_the_next(
    stage: DictStore, faults: tuple[Fault, ...]
) -> None:
    count = 0
    seen = SeenStates()
    for crash in crash_points(lambda: copied(stage), clean, faults=faults):
        store = crash.store
        assert isinstance(store, DictStore)
        count += 1
        if not seen.is_new(store):
            continue
        assert missing(store) == [], str(crash)
        for number in range(4):
            at(store, 81 + number).gc(dry_run=False)
            moved_on(store, 8 * DAY)
        assert garbage(store) == [], str(crash)
        usable(store, 90)
    assert count >= 60
    assert len(seen) >= 2


def test_bringing_back_interrupted_anywhere_loses_nothing() -> None:
    store = copied(NOTED)
    before = {info.path: store.get(info.path) for info in store.list("tables")}
    at(store, 62).gc(dry_run=False)
    (run,) = at(store, 63).trash()
    assert len(run.files) >= 5
    count = 0
    for crash in crash_points(lambda: copied(store), restore):
        for again in at(crash.store, 64).trash():
            at(crash.store, 65).trash().restore(again.id)
        after = {info.path: crash.store.get(info.path) for info in crash.store.list("tables")}
        assert after == before, str(crash)
        assert list(at(crash.store, 66).trash()) == []
        count += 1
    assert count >= 20


def torn() -> DictStore:
    """A lake whose hints are wrong, and of which published manifests are missing or damaged."""
    store = copied(NEGLECTED)
    lake = at(store, 60)
    for name in TABLES[:2]:
        row = lake.table(name).row
        paths = sorted(info.path for info in store.list(f"{row.location}/_versions"))
        store.delete(paths[0])
        store.delete(paths[-1])
        store.put(paths[1], b"torn")
    store.put("_latest_hint", b"3")
    store.put("_oldest", b"nonsense")
    return store


TORN = torn()


def mend(store: SimulatedStore) -> object:
    return at(store, 70).fsck(repair=True)


@pytest.mark.parametrize("faults", [CRASHES, UNANSWERED], ids=["crash", "unanswered"])
def test_mending_interrupted_anywhere_makes_nothing_worse_and_is_finished_by_the_next(
    faults: tuple[Fault, ...],
) -> None:
    before = at(copied(TORN), 81).fsck()
    assert len(before.problems) == 8
    count = 0
    seen = SeenStates()
    for crash in crash_points(lambda: copied(TORN), mend, faults=faults):
        store = crash.store
        assert isinstance(store, DictStore)
        count += 1
        if not seen.is_new(store):
            continue
        found = at(store, 82).fsck()
        assert found.kinds() <= before.kinds(), str(crash)
        assert len(found.problems) <= len(before.problems), str(crash)
        assert at(store, 83).fsck(repair=True).ok, str(crash)
        assert at(store, 84).fsck().problems == (), str(crash)
        usable(store, 85)
    assert count >= 60
    assert len(seen) >= 10
