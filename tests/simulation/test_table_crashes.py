"""A commit interrupted at every one of its storage calls: the table is at the old or the new version, and whole."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, Unavailable
from seiche.store.base import Store
from seiche.table.build import empty
from seiche.table.commit import Committer
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.schema import from_arrow
from seiche.table.operations import Overwrite
from seiche.table.transaction import Transaction
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions, RenameVersions, StoredVersions
from seiche.testing import Aftermath, DictStore, Fault, SimulatedStore, crash_points
from tests.simulation.table_model import SCHEMA, Attempt, Nearby, World, append, delete

KINDS: list[type[StoredVersions]] = [PutVersions, RenameVersions]
# Answers that are lost, or come too late, or say no; each alone, so a writer that tries again always gets through.
LOST: tuple[Fault, ...] = ("after", "lost", "late", "before", "conflict")


@dataclass
class Scenario:
    """A table where others have committed since our change was prepared, made anew for each run."""

    prepare: Callable[[World], Attempt]
    kind: type[StoredVersions]
    naming: Naming
    store: type[DictStore]
    world: World = field(init=False)
    attempt: Attempt = field(init=False)

    def fresh(self) -> Store:
        self.world = World(kind=self.kind, naming=self.naming, store=self.store())
        self.attempt = self.prepare(self.world)
        self.world.check()
        return self.world.store

    def run(self, store: SimulatedStore) -> Attempt:
        """Opened and committed by one process, which may die; then whoever is told that it failed looks again."""
        table = self.world.opened(store, seed=1)
        error = self.world.commit(table, self.attempt).error
        if error is not None:
            raise error
        return self.attempt

    def goes_on(self) -> None:
        """The next process opens the table and commits."""
        before = self.world.version
        table = self.world.opened(self.world.store, seed=2)
        following = append(self.world, self.world.manifest())
        assert self.world.commit(table, following).status == "done"
        self.world.check()
        assert (self.world.version, following.version) == (before + 1, before + 1)


def an_append(world: World) -> Attempt:
    """Prepared from version 1, while somebody else committed version 2."""
    mine = append(world, world.manifest(), rows=2)
    other = append(world, world.manifest())
    world.commit(world.opened(world.store, seed=3), other)
    return mine


def a_delete_that_must_be_merged(world: World) -> Attempt:
    """One row of a fragment of four, of which somebody else deleted another row since."""
    table = world.opened(world.store, seed=3)
    world.commit(table, append(world, world.manifest(), rows=4))
    world.check()
    read = world.manifest()
    rows = sorted(world.states[-1].values)
    mine = delete(world, read, rows[:1], world.store)
    world.commit(table, delete(world, read, rows[1:2], world.store))
    return mine


PREPARATIONS = [an_append, a_delete_that_must_be_merged]


def _scenarios() -> Iterator[Scenario]:
    for prepare in PREPARATIONS:
        for kind in KINDS:
            for naming in Naming:
                for store in (DictStore, Nearby):
                    yield Scenario(prepare, kind, naming, store)


SCENARIOS = list(_scenarios())


def name_of(scenario: Scenario) -> str:
    parts = (scenario.prepare, scenario.kind, scenario.store)
    return "-".join([*(part.__name__ for part in parts), scenario.naming.name])


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_a_crash_at_any_call_leaves_the_old_or_the_new_version_and_the_next_writer_succeeds(scenario: Scenario) -> None:
    seen: Counter[bool] = Counter()
    for crash in crash_points(scenario.fresh, scenario.run):
        try:
            before = scenario.world.version
            scenario.world.check()
            assert scenario.world.version in (before, before + 1)
            seen[scenario.world.version > before] += 1
            scenario.goes_on()
        except BaseException as error:
            error.add_note(str(crash))
            raise
    assert seen[False] >= 6, seen
    assert seen[True] >= 1, seen


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_a_lost_answer_at_any_call_is_exactly_one_commit(scenario: Scenario) -> None:
    runs: Counter[str] = Counter()
    for crash in crash_points(scenario.fresh, scenario.run, faults=LOST):
        try:
            outcome = check_answer(scenario, crash)
            scenario.goes_on()
        except BaseException as error:
            error.add_note(str(crash))
            raise
        runs[outcome] += 1
    # One answer alone that is missing leaves nobody in doubt about a commit.
    assert runs["unknown"] == 0, runs
    assert runs["done"] >= 8, runs
    assert runs.total() >= 20, runs


def check_answer(scenario: Scenario, crash: Aftermath) -> str:
    """What the writer was told is true; and if it was told of a failure, the same change can be made again."""
    world, attempt = scenario.world, scenario.attempt
    world.check()
    if crash.error is not None:
        assert isinstance(crash.error, Unavailable), crash.error
        if attempt.status == "failed":
            assert attempt.version is None
            attempt.status = "running"
        world.commit(world.opened(world.store, seed=4), attempt)
        world.check()
        assert attempt.status == "done"
        return "failed"
    assert attempt.version == world.version
    return attempt.status


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("naming", Naming)
def test_a_commit_that_nobody_knows_about_is_finished_by_committing_the_same_bytes_again(
    kind: type[StoredVersions], naming: Naming
) -> None:
    """Whoever holds the bytes of a transaction may commit them as often as they like: it is one version."""
    runs = 0
    for prepare in PREPARATIONS:
        scenario = Scenario(prepare, kind, naming, Nearby)

        def commit_bytes(store: Store, scenario: Scenario = scenario) -> None:
            attempt = scenario.attempt
            properties = {"label": attempt.label}
            transaction = Transaction(attempt.read.version, "the one", attempt.operation, properties=properties)
            scenario.world.opened(store, seed=1).commit(transaction.encode())

        for crash in crash_points(scenario.fresh, commit_bytes):
            scenario.attempt.status = "unknown"
            before = scenario.world.version
            for _ in range(2):
                commit_bytes(scenario.world.store)
                scenario.world.check()
                assert scenario.world.version == before + 1, str(crash)
                assert scenario.attempt.version == before + 1, str(crash)
            scenario.goes_on()
            runs += 1
    assert runs >= 30


def creation(kind: type[StoredVersions], naming: Naming, seed: int = 5) -> Callable[[Store], object]:
    def create(store: Store) -> object:
        runtime = Runtime.seeded(seed)
        versions = kind(store, naming=naming, runtime=runtime)
        operation = Overwrite((), tuple(from_arrow(SCHEMA)))
        transaction = Transaction(0, "the first", operation)
        return Committer(versions, runtime, Patience()).create(transaction, empty()).version

    return create


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("naming", Naming)
@pytest.mark.parametrize("store", [DictStore, Nearby])
def test_a_crash_while_a_table_is_made_leaves_none_or_a_whole_one(
    kind: type[StoredVersions], naming: Naming, store: type[DictStore]
) -> None:
    seen: Counter[bool] = Counter()
    for crash in crash_points(store, creation(kind, naming)):
        versions = kind(crash.store)
        try:
            made = versions.newest() == 1
        except NotFound:
            made = False
            creation(kind, naming, seed=6)(crash.store)
        else:
            with pytest.raises(AlreadyExists):
                creation(kind, naming, seed=6)(crash.store)
        seen[made] += 1
        assert kind(crash.store).all() == [1], str(crash)
        assert kind(crash.store).read(1).manifest.version == 1
        assert kind(crash.store).naming is naming
    assert seen[False] >= 4, seen
    assert seen[True] >= 1, seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("naming", Naming)
def test_a_lost_answer_while_a_table_is_made_is_survived(kind: type[StoredVersions], naming: Naming) -> None:
    made = 0
    for crash in crash_points(Nearby, creation(kind, naming), faults=LOST):
        if crash.error is None:
            made += 1
            assert crash.result == 1
            assert kind(crash.store).all() == [1], str(crash)
        else:
            assert isinstance(crash.error, Unavailable), (str(crash), crash.error)
            with pytest.raises(NotFound):
                kind(crash.store).newest()
    assert made >= 5


def test_files_that_an_interrupted_rebase_left_are_named_by_nobody() -> None:
    """A merged deletion vector is written before the claim; whoever dies between leaves a file, not a version."""
    scenario = Scenario(a_delete_that_must_be_merged, PutVersions, Naming.V2, Nearby)
    leftovers = 0
    for crash in crash_points(scenario.fresh, scenario.run):
        scenario.world.check()
        manifest = scenario.world.manifest()
        named = {f"_deletions/{one.id}-{one.deletion_file.read_version}-" for one in manifest.fragments}
        files = [info.path for info in crash.store.list("_deletions")]
        # Ours and theirs as they were prepared, and the one of both.
        assert len(files) in (2, 3), str(crash)
        leftovers += len(files) == 3 and scenario.attempt.version is None
        assert sum(path.startswith(tuple(named)) for path in files) >= 1
        for fragment in manifest.fragments:
            assert len(DeletionFiles(crash.store).read(fragment)) in (1, 2)
    assert leftovers >= 2


def test_a_storage_that_never_answers_leaves_the_writer_in_doubt_and_says_what_to_ask_for() -> None:
    scenario = Scenario(an_append, PutVersions, Naming.V2, Nearby)
    scenario.fresh()
    store = SimulatedStore(scenario.world.store, plan=dict.fromkeys(range(8, 200), "lost"))
    table = scenario.world.opened(store, seed=1)
    with pytest.raises(CommitUnknown) as caught:
        table.commit(scenario.attempt.operation, read_version=1)
    assert caught.value.version == 3
    assert caught.value.transaction_id
    assert "Look before you repeat it" in str(caught.value)
