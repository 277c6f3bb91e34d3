"""Clean-up as an adversary: at every step of writers, readers of old versions and saved transactions.

Whatever the schedule and however wrong the clocks: no file that a kept version needs is ever missing, nothing that was
acknowledged is lost, and in the end nothing is left that nobody needs. Each safeguard is taken away once, and missed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from seiche import Lake, NotFound, RetryableConflict, SeicheError
from seiche.core.runtime import Runtime
from seiche.lake.care import expiry as expiry_module
from seiche.lake.care import leases as leases_module
from seiche.lake.care.gc import _Job
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.ranges import NONE, Ranges
from seiche.lake.care.reachable import Reachable
from seiche.lake.care.table_files import LanceFiles
from seiche.lake.commit.intent import Intent
from seiche.lake.lake import open_lake
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.names import HINT, root_name
from seiche.lake.tree.tree import Tree
from seiche.lake.versions import LakeVersions
from seiche.store.paths import join
from seiche.testing import DictStore, SimulatedStore
from seiche.testing.scheduling import Process, Run, explore, sample
from seiche.testing.wrapping import Call
from tests.simulation.care_model import DAY, at, cleaned, copied, garbage, missing, moved_on, past, write
from tests.simulation.lake_model import TABLES, contents

A = TABLES[0]
PAST = past(versions=3)
OnCall = Callable[[Call], None]


class World:
    """Processes on a lake with some history; made anew for each run."""

    def __init__(self, *makers: Callable[["World"], Process[object]], skews: Sequence[float] = ()) -> None:
        self.makers = makers
        self.skews = [*skews, *[0.0] * 10]
        self.store = DictStore()
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    def __call__(self) -> Sequence[Process[object]]:
        self.store = copied(PAST)
        self.acknowledged, self.refused = [], []
        return [maker(self) for maker in self.makers]

    def process(self, number: int, on_call: OnCall) -> Lake:
        """The lake, as one of the processes sees it; what hints say is wrong as often as not."""
        if number % 2:
            self.store.put(HINT, [b"", b"2", b"99999"][number % 3])
        return at(SimulatedStore(self.store, on_call=on_call), 1000 + number, skew=self.skews[number])

    def check(self, run: Run[object]) -> None:
        """Nothing needed is missing, nothing acknowledged is lost."""
        for error in run.errors:
            assert error is None, f"{run.schedule}: {error!r}"
        assert missing(self.store) == [], run.schedule
        held = {mark for marks in contents(at(self.store, 1)).values() for mark in marks}
        for mark in self.acknowledged:
            assert f"a-{mark}" in held, f"{mark} was acknowledged and is lost: {run.schedule}"
        for mark in self.refused:
            assert f"a-{mark}" not in held

    def check_clean(self) -> None:
        """After some weeks of care nothing is left over, and everything that is there can still be read."""
        before = contents(at(self.store, 2))
        cleaned(self.store)
        assert garbage(self.store) == []
        assert missing(self.store) == []
        assert contents(at(self.store, 3)) == before


def writer(number: int, times: int = 1) -> Callable[[World], Process[object]]:
    """Appends to a table; refused at most by a fence."""

    def make(world: World) -> Process[object]:
        def process(on_call: OnCall) -> None:
            lake = world.process(number, on_call)
            for time in range(times):
                mark = f"w{number}.{time}"
                tx = lake.transaction()
                try:
                    write(tx, mark, A)
                    tx.commit()
                except (RetryableConflict, NotFound):
                    world.refused.append(mark)
                else:
                    world.acknowledged.append(mark)

        return process

    return make


def operator(number: int, *, expire: bool = True, **options: Any) -> Callable[[World], Process[object]]:
    """Expires what it can and clears away at once."""

    def make(world: World) -> Process[object]:
        def process(on_call: OnCall) -> None:
            lake = world.process(number, on_call)
            if expire:
                lake.expire(older_than=0, keep=1)
            assert lake.gc(**{"dry_run": False, "grace": 0, "window": 0, **options}).restored == ()

        return process

    return make


def patient_operator(number: int) -> Callable[[World], Process[object]]:
    """Clears away in three runs, days apart."""

    def make(world: World) -> Process[object]:
        def process(on_call: OnCall) -> None:
            lake = world.process(number, on_call)
            for _ in range(3):
                lake.expire(older_than=0, keep=1)
                assert lake.gc(dry_run=False).restored == ()
                moved_on(world.store, 8 * DAY)

        return process

    return make


def reader(number: int, version: int = 5) -> Callable[[World], Process[object]]:
    """Holds an old version and reads it, again and again."""

    def make(world: World) -> Process[object]:
        def process(on_call: OnCall) -> None:
            store = SimulatedStore(world.store, on_call=on_call)
            try:
                lake = open_lake(store, version=version, lease="1h", runtime=Runtime.seeded(number))
            except NotFound:
                return
            for _ in range(2):
                for name in TABLES:
                    read_all(lake, store, name)
            lake.close()

        return process

    return make


def read_all(lake: Lake, store: SimulatedStore, name: str) -> None:
    """Every file that the version has of a table."""
    with lake.reading():
        row = lake.state().table(tuple(name.split(".")))
        manifest = LakeVersions(store, row).read(row.table_version).manifest
        for fragment in manifest.fragments:
            store.get(f"{row.location}/data/{fragment.files[0].path}")


def saver(number: int) -> Callable[[World], Process[object]]:
    """Saves a transaction, which another process then commits."""

    def make(world: World) -> Process[object]:
        def process(on_call: OnCall) -> None:
            mark = f"w{number}.0"
            tx = world.process(number, on_call).transaction()
            write(tx, mark, A)
            tx.save()
            try:
                world.process(number + 1, on_call).resume(tx.id).commit()
            except (RetryableConflict, NotFound):
                world.refused.append(mark)
            else:
                world.acknowledged.append(mark)

        return process

    return make


def runs(world: World, switches: int = 1) -> Iterator[Run[object]]:
    for run in explore(world, switches=switches):
        world.check(run)
        yield run


def test_a_writer_and_a_clean_up_in_every_order_with_one_switch() -> None:
    world = World(writer(0), operator(1))
    outcomes = set()
    count = 0
    for _ in runs(world):
        count += 1
        outcomes.add(bool(world.acknowledged))
        if count % 10 == 0:
            world.check_clean()
    assert outcomes == {True, False}, "some writers must get through, and some must meet the fence"
    assert count >= 60


def test_a_reader_that_holds_an_old_version_is_never_robbed() -> None:
    world = World(reader(0), operator(1))
    count = 0
    kept = 0
    for _ in runs(world):
        count += 1
        assert list(world.store.list("_leases")) == []
        kept += read_root(world.store, 5).expired_at_millis is None
    assert count >= 60
    assert kept, "in some of the orders the reader was there first"


def test_a_saved_transaction_is_not_robbed() -> None:
    world = World(saver(0), operator(2, expire=False))
    committed = 0
    count = 0
    for _ in runs(world):
        count += 1
        committed += bool(world.acknowledged)
    assert count >= 60
    assert committed > count // 2


@pytest.mark.soak
def test_random_schedules_of_everybody(effort: Callable[[int, int], int]) -> None:
    chance = Runtime.seeded(7).random
    acknowledged = 0
    for seed in range(effort(60, 3000)):
        skews = [chance.choice([-DAY, 0.0, DAY]) for _ in range(6)]
        world = World(
            writer(0, 2),
            writer(1, 2),
            reader(2),
            saver(3),
            patient_operator(5) if seed % 2 else operator(5),
            skews=skews,
        )
        world.check(sample(world, seed))
        acknowledged += len(world.acknowledged)
        if seed % 4 == 0:
            world.check_clean()
    assert acknowledged >= effort(100, 5000)


@pytest.mark.soak
def test_random_schedules_of_writers_and_two_operators(effort: Callable[[int, int], int]) -> None:
    """In the first of the seeds one operator empties the trash of the other, and what it knows is older."""
    for seed in range(36, 36 + effort(20, 2000)):
        world = World(writer(0, 2), writer(1, 2), operator(2), operator(3, window="7d"))
        world.check(sample(world, seed))
    world.check_clean()


def without_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Intent, "_check_fence", lambda self, state: None)


def without_looking_again(patch: pytest.MonkeyPatch) -> None:
    """Reachability from before the fence only."""
    real = _Job._put_up_fence

    def put_up(self: _Job, min_base: int) -> int:
        patch.setattr(_Job, "_catch_up", lambda self: None)
        try:
            return real(self, min_base)
        finally:
            patch.setattr(_Job, "_catch_up", CATCH_UP)

    patch.setattr(_Job, "_put_up_fence", put_up)


CATCH_UP = _Job._catch_up


def without_staged_manifests(patch: pytest.MonkeyPatch) -> None:
    real = LanceFiles.add

    def add(self: LanceFiles, row: TableRow) -> None:
        kept = self.needed
        self.needed = type(kept)()
        real(self, row)
        self.needed = kept

    patch.setattr(LanceFiles, "add", add)


def without_versions_between(patch: pytest.MonkeyPatch) -> None:
    """Only the versions that kept versions of the lake name, as other systems have it."""
    real = LanceFiles.unread

    def unread(self: LanceFiles) -> Sequence[tuple[LakeVersions, int]]:
        lowest, self._lowest = self._lowest, self.newest
        try:
            return real(self)
        finally:
            self._lowest = lowest

    patch.setattr(LanceFiles, "unread", unread)


def without_data_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("seiche.lake.care.table_files.NeededNames.add_manifest", lambda self, manifest: None)


def without_nodes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tree, "walk", lambda self, **options: iter(()))


def without_definitions(patch: pytest.MonkeyPatch) -> None:
    real = Reachable._add_root

    def add_root(self: Reachable, state: State) -> None:
        real(self, replace(state, root=replace(state.root, definition="_lakehouse_def_none.binpb#00000000")))

    patch.setattr(Reachable, "_add_root", add_root)


MUTANTS = [
    without_fence,
    without_looking_again,
    without_staged_manifests,
    without_data_files,
    without_nodes,
    without_definitions,
]


def fails(world: World, seeds: int = 300) -> str:
    """What goes wrong in the first schedule in which something does."""
    hesitant = (sample(world, seed, switching=0.05) for seed in range(45))  # quicker than all with one switch
    random = (sample(world, seed, switching=0.1) for seed in range(seeds))
    for run in chain(hesitant, explore(world, switches=1), random):
        try:
            world.check(run)
        except (AssertionError, SeicheError) as error:
            return str(error)
    return ""


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda one: one.__name__)
def test_without_a_safeguard_a_clean_up_takes_what_is_needed(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert fails(World(writer(0), operator(1)))


def test_without_the_versions_between_a_table_has_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    def clean(store: DictStore) -> list[str]:
        at(store, 5).tag("old", 4)
        at(store, 6).expire(older_than=0, keep=1)
        at(store, 7).gc(dry_run=False, grace=0, window=0)
        return missing(store)

    assert clean(copied(PAST)) == []
    without_versions_between(monkeypatch)
    assert clean(copied(PAST))


def without_leases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry_module, "leases", lambda store: [])


def without_looking_at_the_root_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases_module, "check_kept", lambda state, version: None)


@pytest.mark.parametrize("mutate", [without_leases, without_looking_at_the_root_again], ids=lambda one: one.__name__)
def test_without_the_rules_of_leases_a_reader_is_robbed(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    assert "expired while it was being read" in fails(World(reader(0), operator(1)))


def slow_commit(store: DictStore, *, clean: bool = True) -> bool:
    """A writer that began long before it commits; whether it was told that it did so, and then something is lost."""
    slow = at(store, 20)
    slow.states.storage_time(slow.state())  # it has all that it needs to go on without looking
    tx = slow.transaction()
    write(tx, "slow", A)
    for number in range(3):
        at(store, 30 + number).run(lambda tx: write(tx, f"quick{number}", TABLES[1]))  # noqa: B023
    at(store, 40).expire(older_than=0, keep=1)
    if clean:
        at(store, 41).gc(dry_run=False, grace=0, window=0)
    try:
        tx.commit()
    except RetryableConflict:
        return False
    held = contents(at(store, 42))
    return "a-slow" not in held[A] or "b-quick2" not in held[TABLES[1]] or bool(missing(store))


def delete_roots(states: States, state: State) -> Ranges:
    """What others do: expired roots are deleted, and their names become free."""
    for version in GivenUp.of(state).versions:
        states.store.delete(root_name(version))
    return NONE


def test_expiry_against_a_slow_writer_loses_no_write(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not slow_commit(copied(PAST))
    with monkeypatch.context() as patch:
        without_fence(patch)
        assert slow_commit(copied(PAST)), "without the fence its files are gone"
    monkeypatch.setattr(expiry_module, "_bury", delete_roots)
    assert slow_commit(copied(PAST), clean=False), "without tombstones it is acknowledged under a name below the latest"


def test_a_staged_file_is_taken_only_behind_a_fence_that_its_writer_meets() -> None:
    store = copied(PAST)
    tx = at(store, 20).transaction()
    write(tx, "slow", A)
    location = tx.edit(tx.table(A).id).row.location
    staged = join(location, "data/a-slow.lance")
    at(store, 21).gc(dry_run=False)
    moved_on(store, 2 * DAY)
    moved = at(store, 22).gc(dry_run=False)
    assert staged in [one.path for one in moved.moved]
    assert moved.fence is not None
    assert tx.base < moved.fence
    with pytest.raises(RetryableConflict, match="clean-up"):
        tx.commit()


def test_a_clean_up_lets_transactions_go_on_that_began_after_its_note() -> None:
    store = copied(PAST)
    at(store, 20).transaction().rollback()
    tx = at(store, 21).transaction()
    write(tx, "lost", A)
    at(store, 22).gc(dry_run=False)
    at(store, 23).run(lambda tx: write(tx, "between", A))
    young = at(store, 24).transaction()
    write(young, "young", A)
    moved_on(store, 2 * DAY)
    moved = at(store, 25).gc(dry_run=False)
    assert [one.path.rpartition("/")[2] for one in moved.moved] == ["a-lost.lance"]
    young.commit()
    assert contents(at(store, 26))[A][-2:] == ["a-between", "a-young"]
    assert missing(store) == []
