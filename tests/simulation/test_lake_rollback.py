"""A rollback interrupted at every storage call, and against writers under many schedules."""

import os
from collections.abc import Callable, Sequence

import pytest

from seiche import CommitUnknown, ConflictError, Lake, Unavailable
from seiche.core.runtime import Runtime
from seiche.lake.commit.edits import Planned
from seiche.lake.history import rollback as rollback_module
from seiche.lake.lake import open_lake
from seiche.lake.objects.names import text
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.latest import read_root
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.change import Change
from seiche.table.operations import UpdateConfig, UpdateMap
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions
from seiche.testing import DictStore, Fault, Faults, SimulatedStore, Stopped, crash_points
from seiche.testing.scheduling import Process, Run, explore, sample
from seiche.testing.wrapping import Call
from tests.simulation.lake_model import SCHEMA, append, opened, prepared

SCHEDULES = int(os.environ.get("SEICHE_SCHEDULES", "150"))

Seen = dict[str, list[str]]


def write(lake: Lake, mark: str, *tables: str) -> int | None:
    with lake.transaction() as tx:
        for name in tables:
            tx.table(name).apply(append(mark))
    return tx.version


def seen(lake: Lake, version: int | None = None) -> Seen:
    """The tables of a version by name, each with the marks that were appended to it, and the namespaces."""
    state = (lake if version is None else open_lake(lake.store, version=version)).state()
    found: Seen = {}
    for namespace in ("bank", "late"):
        if state.namespace((namespace,)) is None:
            continue
        found[namespace] = []
        for name in open_lake(lake.store, version=state.version).tables(namespace):
            row = state.table(name)
            manifest = LakeVersions(lake.store, row).read(row.table_version).manifest
            found[text(name)] = [one.files[0].path.removesuffix(".lance") for one in manifest.fragments]
    return found


def rows_of(lake: Lake) -> list[TableRow]:
    state = lake.state()
    names = [name for namespace in lake.namespaces() for name in lake.tables(namespace)]
    return [state.table(name) for name in names]


def check_published(store: Store, lake: Lake, *, behind: int) -> None:
    """Plain readers see versions without a gap, at most `behind` of the lake's newest."""
    for row in rows_of(lake):
        versions = PutVersions(below(store, row.location)).all()
        assert versions == list(range(1, versions[-1] + 1)), f"{row.location} has a gap: {versions}"
        assert 0 <= row.table_version - versions[-1] <= behind


def eventful() -> DictStore:
    """A lake with everything to undo: content changed, a table dropped, one renamed, one made, a new namespace."""
    store = prepared()
    lake = opened(store, seed=5)
    write(lake, "kept", "bank.a", "bank.b", "bank.c")
    lake.tag("good")
    write(lake, "undone", "bank.a", "bank.b")
    write(lake, "undone-too", "bank.a", "bank.c")
    with lake.transaction() as tx:
        tx.create_namespace("late")
        tx.drop_table("bank.b")
        tx.rename_table("bank.c", "late.c")
        tx.create_table("bank.b", SCHEMA).apply(append("another"))
    return store


BASE = eventful()
BEFORE = seen(opened(BASE))
AFTER: Seen = {"bank": [], "bank.a": ["kept"], "bank.b": ["kept"], "bank.c": ["kept"]}


def copied(store: DictStore = BASE) -> DictStore:
    """The same files. Storage time stands still: roots tell it, and every run must write the same ones."""
    copy = DictStore(runtime=Runtime.seeded(0))
    for info in store.list():
        copy.put(info.path, store.get(info.path))
    return copy


def roll_back(store: SimulatedStore) -> int:
    return opened(store, seed=6).rollback(to="good")


def test_the_lake_is_worth_rolling_back() -> None:
    assert BEFORE == {
        "bank": [],
        "bank.a": ["kept", "undone", "undone-too"],
        "bank.b": ["another"],
        "late": [],
        "late.c": ["kept", "undone-too"],
    }


def crash(fresh: Callable[[], DictStore]) -> dict[str, int]:
    """Interrupt the rollback everywhere; what is left is before or after, and the rollback can be run again."""
    found = {"before": 0, "after": 0}
    for crash in crash_points(fresh, roll_back):
        lake = opened(crash.store, seed=7)
        now = seen(lake)
        assert now in (BEFORE, AFTER), f"{crash}: {now}"
        found["after" if now == AFTER else "before"] += 1
        check_published(crash.store, lake, behind=1)
        lake.rollback(to="good")
        assert seen(lake) == AFTER, str(crash)
        write(lake, "next", "bank.a", "bank.b", "bank.c")
        assert seen(opened(crash.store, seed=8)) == AFTER | {
            name: ["kept", "next"] for name in ("bank.a", "bank.b", "bank.c")
        }
        check_published(crash.store, lake, behind=0)
        assert seen(lake, lake.tags()["good"].version) == AFTER
    return found


def test_a_crash_at_any_call_leaves_everything_before_or_everything_after() -> None:
    found = crash(copied)
    assert found["before"] >= 15
    assert found["after"] >= 5


def test_a_lost_reply_at_any_call_is_at_most_one_rollback() -> None:
    faults: tuple[Fault, ...] = ("after", "lost", "late", "before", "conflict")
    before = opened(BASE).version
    runs = 0
    for crash in crash_points(copied, roll_back, faults=faults):
        runs += 1
        lake = opened(crash.store, seed=7)
        now = seen(lake)
        assert now in (BEFORE, AFTER), str(crash)
        assert lake.version == before + (now == AFTER), str(crash)
        if crash.error is None:
            assert crash.result == before + 1
            assert now == AFTER
        else:
            assert isinstance(crash.error, CommitUnknown | Unavailable), str(crash)
    assert runs >= 80


def dropped_and_unpublished() -> DictStore:
    """A table that gets a version and is dropped in one root, by a committer that dies right behind it."""
    store = prepared()
    lake = opened(store, seed=5)
    write(lake, "kept", "bank.a")
    lake.tag("good")
    last = lake.state().table(("bank", "a")).table_version

    def die(call: Call) -> None:
        if call.verb == "put_if_absent" and call.path.endswith(Naming.V2.path(last + 1)):
            raise Stopped

    dying = opened(SimulatedStore(store, on_call=die), seed=6)
    setting, dropping = dying.transaction(), dying.transaction()
    setting.table("bank.a").apply(Change(UpdateConfig(config_updates=UpdateMap({"owner": "me"}))))
    dropping.drop_table("bank.a")
    members = [tx.intent() for tx in (setting, dropping)]
    with pytest.raises(Stopped):
        dying._committer.commit_group([one for one in members if one is not None])
    return store


def test_a_table_that_comes_back_has_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 7: also what was decided in the root that dropped it is published first."""

    def come_back() -> None:
        store = dropped_and_unpublished()
        lake = opened(store, seed=7)
        assert lake.tables("bank") == [("bank", "b"), ("bank", "c")]
        lake.rollback(to="good")
        assert seen(lake)["bank.a"] == ["kept"]
        check_published(store, lake, behind=0)

    come_back()
    monkeypatch.setattr(rollback_module, "Planned", lambda rows, made=None, standing=(): Planned(rows, made))
    with pytest.raises(AssertionError, match="gap"):
        come_back()


class Schedule:
    """A rollback of the lake and one or two writers of its tables, each in a process of its own."""

    def __init__(
        self, writers: int = 2, *, expected: bool = False, faults: Faults | None = None, seed: int = 0
    ) -> None:
        self.writers = writers
        self.expected = expected
        self.faults = faults
        self.seed = seed
        self.saw: int | None = None
        self.store = DictStore()
        self.stores: list[SimulatedStore] = []

    def __call__(self) -> Sequence[Process[int | None]]:
        self.store = copied()
        self.stores = []
        return [self._rollback(), *(self._writer(number) for number in range(1, self.writers + 1))]

    def _opened(self, on_call: Callable[[Call], None], number: int) -> Lake:
        store = SimulatedStore(self.store, on_call=on_call, faults=self.faults, seed=self.seed * 10 + number)
        self.stores.append(store)
        return opened(store, seed=10_000 + self.seed * 100 + number)

    def _writer(self, number: int) -> Process[int | None]:
        def process(on_call: Callable[[Call], None]) -> int | None:
            lake = self._opened(on_call, number)
            with lake.transaction() as tx:
                for name in ("bank.a", "late.c" if ("late",) in tx.namespaces() else "bank.c"):
                    tx.table(name).apply(append(f"w{number}"))
            return tx.version

        return process

    def _rollback(self) -> Process[int | None]:
        def process(on_call: Callable[[Call], None]) -> int | None:
            lake = self._opened(on_call, 0)
            self.saw = lake.version
            return lake.rollback(to="good", expected_version=self.saw if self.expected else None)

        return process

    def check(self, run: Run[int | None]) -> None:
        for store in self.stores:
            store.deliver()
        lake = opened(self.store, seed=9_999)
        first = opened(BASE).version
        roots = [read_root(self.store, version) for version in range(first + 1, lake.version + 1)]
        rolled = [root.version for root in roots if root.rollback_to is not None]
        assert len(rolled) <= 1
        errors = [error for error in run.errors if error is not None]
        assert all(isinstance(error, ConflictError | CommitUnknown | Unavailable) for error in errors), errors
        if run.errors[0] is None:
            assert rolled == [run.results[0]]
            assert seen(lake, rolled[0]) == AFTER, "whatever came before is undone, all of it"
            if self.expected:
                assert rolled == [(self.saw or 0) + 1]
        for root in roots:
            now = seen(lake, root.version)
            undone = rolled and root.version >= rolled[0]
            assert ("undone" in now["bank.a"]) == (not undone), f"version {root.version}: {now}"
            assert ("late" in now) == (not undone)
        # Who was acknowledged before the rollback is undone, who came after it stays; who lost is not there.
        for number in range(1, self.writers + 1):
            version, mark = run.results[number], f"w{number}"
            marks = seen(lake)["bank.a"]
            if version is not None:
                assert (mark in marks) == (not rolled or version > rolled[0]), f"{mark} at {version}, rolled {rolled}"
            elif isinstance(run.errors[number], ConflictError):
                assert mark not in marks
        check_published(self.store, lake, behind=1)


def test_a_rollback_and_a_writer_under_every_schedule_with_one_switch() -> None:
    outcomes = set()
    schedule = Schedule(1)
    for run in explore(schedule, switches=1):
        schedule.check(run)
        assert run.errors[0] is None, "without an expected version nobody can stop it"
        outcomes.add(tuple(type(error).__name__ for error in run.errors))
    assert outcomes == {("NoneType", "NoneType"), ("NoneType", "IncompatibleConflict")}


@pytest.mark.parametrize("expected", [False, True])
def test_random_schedules(expected: bool) -> None:
    stopped = 0
    for seed in range(SCHEDULES // 2):
        schedule = Schedule(expected=expected, seed=seed)
        run = sample(schedule, seed)
        schedule.check(run)
        stopped += run.errors[0] is not None
    assert (stopped > 0) == expected


def test_random_schedules_on_a_store_that_fails() -> None:
    faults = Faults(before=0.03, after=0.05, lost=0.03, late=0.03, conflict=0.03)
    injected = 0
    for seed in range(SCHEDULES):
        schedule = Schedule(faults=faults, seed=seed)
        schedule.check(sample(schedule, seed))
        injected += sum(len(store.injected) for store in schedule.stores)
    assert injected >= SCHEDULES
