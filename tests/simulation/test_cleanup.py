"""Clean-up as an adversary: among random work and processes that die, at every call of its own, against everybody who
refers to a version at the same moment. Nothing that is needed ever goes; what nobody needs does, in time.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import NotFound, SeicheError, Unavailable
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.cleanup import Cleaner
from seiche.table.cleanup_plan import Cleanup, Policy
from seiche.table.cleanup_survey import Names, Needs
from seiche.table.format.refs import Tag
from seiche.table.reachable import Reach
from seiche.table.refs import References
from seiche.table.table import Table
from seiche.table.versions.naming import Naming, parse
from seiche.table.versions.stored import PutVersions
from seiche.testing import Call, DictStore, SimulatedStore, Stopped, crash_points
from seiche.testing.scheduling import Process, explore
from tests.made_up_table import MadeUpTable, missing_files, paths_below, simulated
from tests.simulation.cleanup_model import Broken, World

STEPS = 70
DAY = 86400.0
ROOTS = ["table", "table/tree/dev", "table/tree/late", "copy"]


@pytest.mark.soak
def test_random_work_with_clean_up_at_every_turn(effort: Callable[[int, int], int]) -> None:
    seeds, total = effort(14, 1500), Counter[str]()
    for seed in range(seeds):
        world = World(seed, gaps=seed % 3 == 0)
        try:
            for _ in range(STEPS):
                world.step()
            world.settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
        total += world.outcomes
    print(f"{seeds} runs of {STEPS} steps: {dict(total.most_common())}")
    assert total["clean"] >= 8 * seeds
    assert total["versions dropped"] >= 8 * seeds
    assert total["files removed"] >= 20 * seeds
    assert total["died"] >= seeds
    assert min(total[name] for name in ("branch", "clone", "tag", "restore", "commit slowly", "detach")) >= seeds // 2


def work_at_random(seeds: int) -> None:
    for seed in range(seeds):
        world = World(seed, gaps=seed % 3 == 0)
        for _ in range(STEPS):
            world.step()


def _forget_deletion_files(patch: pytest.MonkeyPatch) -> None:
    def add(self: Reach, fragment: Any) -> None:
        for one in fragment.files:
            self._add_path(one.path)

    patch.setattr(Reach, "_add_files", add)


def _forget_values_beside_data_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reach, "_add_path", lambda self, path: self._files.add(f"data/{path}"))


def _forget_indices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reach, "_add_indices", lambda *_: None)


def _forget_all_versions_but_the_newest(patch: pytest.MonkeyPatch) -> None:
    def add(self: Needs, folder: Any, going: Any) -> None:
        self._add_all(self.here.versions.store, [folder.manifests[max(folder.manifests)].path])

    patch.setattr(Needs, "add_own", add)


def _forget_other_lines(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Needs, "add_others", lambda *_: None)


def _forget_references(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Names, "protected", lambda *_: {})


def _forget_how_old_files_are(patch: pytest.MonkeyPatch) -> None:
    sort_out = Cleaner._sorted_out

    def at_any_age(self: Cleaner, files: Any, needs: Any, theirs: Any, now: datetime) -> Any:
        return sort_out(self, files, needs, theirs, now + timedelta(days=365))

    patch.setattr(Cleaner, "_sorted_out", at_any_age)


def _forget_how_long_versions_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Policy, "version_age", property(lambda _: timedelta(0)))


@pytest.mark.parametrize(
    "plant",
    [
        _forget_deletion_files,
        _forget_values_beside_data_files,
        _forget_indices,
        _forget_all_versions_but_the_newest,
        _forget_other_lines,
        _forget_references,
        _forget_how_old_files_are,
        _forget_how_long_versions_are_kept,
    ],
)
def test_a_clean_up_that_forgets_something_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, SeicheError)):
        work_at_random(100)


class Scene:
    """A table with a history of which most is old, a branch, a shallow clone, garbage; and copies of all that."""

    def __init__(self, *, small: bool = False) -> None:
        store, clock = simulated()
        made = MadeUpTable(store, clock=clock)
        made.append(blobs=1)
        if not small:
            made.delete()
            made.index()
            branch = made.table.branch("dev")
            made.append(branch)
            made.compact()
        made.overwrite()
        made.fragment()
        made.root.put("_transactions/1-dead.txn", b"")
        self._content = {path: store.get(path) for path in paths_below(store)}
        self.newest = made.table.version

    def fresh(self) -> Store:
        """A store that holds all of it, 30 days old."""
        clock = SimulatedClock()
        store = DictStore(runtime=Runtime(clock, Runtime.seeded(0).random))
        for path, data in self._content.items():
            store.put(path, data)
        clock.advance(30 * DAY)
        return store


def opened(store: Store, seed: int = 5, **options: Any) -> Table:
    return Table.open(below(store, "table"), runtime=Runtime.seeded(seed), **options)


def clean(store: Store, **options: Any) -> Cleanup:
    return opened(store).cleanup(dry_run=False, **options)


def versions_of(store: Store, root: str = "table") -> list[int]:
    names = (path.rpartition("/")[2] for path in paths_below(store, f"{root}/_versions"))
    return sorted(found[1] for name in names if (found := parse(name)))


def test_a_crash_at_every_call_leaves_a_whole_table() -> None:
    scene = Scene()
    done = scene.fresh()
    clean(done)
    wanted = paths_below(done)
    tried = 0
    for after in crash_points(scene.fresh, clean):
        tried += 1
        versions = versions_of(after.store)
        assert versions[-1] == scene.newest, after
        assert versions == list(range(versions[0], scene.newest + 1)), after
        assert not missing_files(after.store, ROOTS), after
        assert opened(after.store).version == scene.newest
        assert clean(after.store, grace=0).done
        assert paths_below(after.store) == wanted, after
    assert tried > 100


def test_failing_storage_is_settled_or_told() -> None:
    scene = Scene()
    tried, done = 0, 0
    for after in crash_points(scene.fresh, clean, faults=["before", "lost", "after", "late"]):
        tried += 1
        assert not missing_files(after.store, ROOTS), after
        assert versions_of(after.store)[-1] == scene.newest
        assert after.error is None or isinstance(after.error, Unavailable), after
        done += after.error is None
    assert tried > 100
    assert done >= 3


def test_a_crash_while_versions_are_put_back_leaves_no_gap() -> None:
    """A tag appears when all old versions are gone already. They come back from the newest down."""
    scene = Scene()
    counts: set[int] = set()
    for stop in range(1, 400):
        store = scene.fresh()

        def tag(call: Call, store: Store = store) -> None:
            if call.verb == "delete" and call.path.endswith(Naming.V2.file_name(scene.newest - 1)):
                versions = set(versions_of(store))
                references = References(PutVersions(below(store, "table")))
                store.put("table/_refs/tags/late.json", Tag(version=2).encode())
                assert scene.newest in versions
                assert references.tags().keys() == {"late"}

        process = SimulatedStore(store, on_call=tag, plan={stop: "stop_after"})
        try:
            done = clean(process)
        except Stopped:
            versions = versions_of(store)
            assert versions == list(range(versions[0], scene.newest + 1)), (stop, versions)
            assert not missing_files(store, ROOTS)
            counts.add(len(versions))
        else:
            assert done.kept == tuple(range(2, scene.newest + 1))
            assert versions_of(store) == list(done.kept)
            break
    assert counts >= set(range(1, scene.newest))


def _tags(table: Table, _: Store) -> None:
    table.tag("late", 2)


def _branches(table: Table, _: Store) -> None:
    table.branch("late", 2)


def _clones(table: Table, store: Store) -> None:
    table.clone(below(store, "copy"), shallow=True, version=2)


def _restores(table: Table, _: Store) -> None:
    table.restore(2)


def _cleans_up_too(table: Table, _: Store) -> None:
    table.cleanup(dry_run=False)


def _moves_a_tag(table: Table, _: Store) -> None:
    table.tag("late", 3)
    table.tag("late", 2, replace=True)


class Race:
    """Clean-up and somebody else at the same time, interleaved in every way with at most so many switches."""

    def __init__(self, other: Callable[[Table, Store], None]) -> None:
        self.other = other
        self.scene = Scene(small=True)
        self.stores: list[Store] = []
        self.outcomes: Counter[str] = Counter()

    def run(self, switches: int) -> None:
        for run in explore(self._processes, switches=switches):
            store = self.stores.pop()
            cleaned, refused = run.errors
            if cleaned is not None and not isinstance(cleaned, NotFound):
                raise cleaned
            if refused is not None and not isinstance(refused, SeicheError):
                raise refused
            problems = missing_files(store, ROOTS)
            table = opened(store)
            for name, tag in table.tags().items():
                if tag.version not in versions_of(store):
                    problems.append(f"tag {name} is for version {tag.version}, which is gone")
            for name in table.branches():
                table.checkout(branch=name)
            if problems:
                raise Broken(run.schedule, problems)
            self.outcomes["refused" if refused is not None else "done"] += 1

    def _processes(self) -> list[Process[None]]:
        self.stores.append(self.scene.fresh())

        def cleaning(pause: Callable[[Call], None]) -> None:
            clean(SimulatedStore(self.stores[-1], on_call=pause))

        def doing(pause: Callable[[Call], None]) -> None:
            store = SimulatedStore(self.stores[-1], on_call=pause)
            self.other(opened(store, 6), store)

        return [cleaning, doing]


@pytest.mark.soak
@pytest.mark.parametrize("other", [_tags, _moves_a_tag, _branches, _clones, _restores])
def test_who_refers_to_a_version_while_it_is_cleaned_up(
    other: Callable[[Table, Store], None], effort: Callable[[int, int], int]
) -> None:
    """Either clean-up notices and the version stays, or the other is told that it is gone."""
    race = Race(other)
    race.run(effort(1, 2))
    assert race.outcomes["refused"] >= 5
    assert race.outcomes["done"] >= 5


@pytest.mark.parametrize(
    ("owner", "name", "planted", "other"),
    [
        (References, "check_still_there", lambda *_: None, _tags),
        (References, "check_still_there", lambda *_: None, _branches),
        (References, "held", lambda *_: nullcontext(), _restores),
        (Cleaner, "_put_back", lambda *_: None, _tags),
        (Cleaner, "_still_unneeded", lambda _, survey, __: list(survey.files), _restores),
    ],
    ids=["tag unchecked", "branch unchecked", "restore unheld", "nothing put back", "no second look"],
)
def test_who_does_not_look_again_is_caught(
    owner: type, name: str, planted: Any, other: Callable[[Table, Store], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, planted)
    with pytest.raises((Broken, SeicheError)):
        Race(other).run(2)


def test_two_clean_ups_at_once() -> None:
    race = Race(_cleans_up_too)
    race.run(1)
    assert race.outcomes["done"] >= 20
