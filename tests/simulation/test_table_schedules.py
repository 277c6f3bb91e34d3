"""Writers of one table, interleaved request by request: every schedule with few switches, and many random ones."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from seiche.errors import AlreadyExists, RetryableConflict
from seiche.store.base import Data
from seiche.table.commit import Committer
from seiche.table.pending import Pending
from seiche.table.rebase import Committed
from seiche.table.row_merge import RowMerge
from seiche.table.versions import hint
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions, RenameVersions, StoredVersions
from seiche.testing import Call, DictStore, Faults
from seiche.testing.scheduling import Process, Run, explore, sample
from tests.simulation.table_model import Attempt, Nearby, World, Writer, append, delete

FAULTS = Faults(before=0.02, after=0.05, lost=0.03, late=0.05, conflict=0.03)
# Prepares the changes of one writer from what the table is at the beginning.
Plan = Callable[[World, Writer], Sequence[Attempt]]


def appends(count: int) -> Plan:
    return lambda world, writer: [append(world, writer.seen) for _ in range(count)]


def deletes(*offsets: int) -> Plan:
    """The rows at these places of the one fragment that there is; all in one delete."""

    def plan(world: World, writer: Writer) -> Sequence[Attempt]:
        rows = sorted(world.states[writer.seen.version].values)
        return [delete(world, writer.seen, [rows[offset] for offset in offsets], writer.store)]

    return plan


@dataclass
class Scenario:
    """Writers with a plan each; makes the table and the writers anew for every run."""

    plans: Sequence[Plan]
    kind: type[StoredVersions] = PutVersions
    store: type[DictStore] = Nearby
    naming: Naming = Naming.V2
    faults: Faults | None = None
    seed: int = 0
    # The versions are looked at before every single request: slow, but nothing stays hidden.
    at_every_step: bool = False
    world: World = field(init=False)
    writers: list[Writer] = field(init=False)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __call__(self) -> Sequence[Process[None]]:
        self.world = World(kind=PutVersions, naming=self.naming, store=self.store())
        self.world.commit(self.world.opened(self.world.store, seed=99), append(self.world, self.world.manifest(), 4))
        self.world.check()
        self.world.kind = self.kind
        self.writers = [self.world.writer(self.seed * 10 + number) for number in range(len(self.plans))]
        attempts = [plan(self.world, writer) for plan, writer in zip(self.plans, self.writers, strict=True)]
        return [self._process(*pair) for pair in zip(self.writers, attempts, strict=True)]

    def _process(self, writer: Writer, attempts: Sequence[Attempt]) -> Process[None]:
        def process(on_call: Callable[[Call], None]) -> None:
            def step(call: Call) -> None:
                if self.at_every_step:
                    self.world.check()
                on_call(call)

            writer.store.on_call = step
            writer.store.expect(self.faults or Faults())
            for attempt in attempts:
                self.world.commit(writer.table, attempt)
            writer.store.on_call = None

        return process

    def check(self, run: Run[None]) -> None:
        """Nothing but what the writers were told, whatever is still under way."""
        for error in run.errors:
            if error is not None:
                raise error
        for writer in self.writers:
            writer.store.deliver()
            self.outcomes["faults"] += len(writer.store.injected)
        self.world.check()
        self.outcomes += self.world.outcomes
        self.outcomes["schedules"] += 1
        following = append(self.world, self.world.manifest())
        self.world.commit(self.world.opened(self.world.store, seed=98), following)
        self.world.check()
        assert following.version == self.world.version


@pytest.mark.parametrize("kind", [PutVersions, RenameVersions])
@pytest.mark.parametrize("store", [DictStore, Nearby])
def test_two_appends_under_every_schedule_with_three_switches(
    kind: type[StoredVersions], store: type[DictStore]
) -> None:
    scenario = Scenario([appends(1), appends(1)], kind, store, at_every_step=True)
    for run in explore(scenario, switches=3):
        scenario.check(run)
        assert [attempt.status for attempt in scenario.world.attempts.values()] == ["done"] * 4
    print(dict(scenario.outcomes))
    assert scenario.outcomes["schedules"] >= 40
    assert scenario.outcomes["rebased"] >= 40


@pytest.mark.parametrize("naming", Naming)
def test_two_deletes_in_one_fragment_under_every_schedule_with_two_switches(naming: Naming) -> None:
    """Different rows: both succeed, and the vector that counts holds both."""
    scenario = Scenario([deletes(0, 1), deletes(2)], naming=naming)
    for run in explore(scenario, switches=2):
        scenario.check(run)
        assert "failed" not in scenario.world.outcomes
        assert len(scenario.world.states[4].values) == 1
    assert scenario.outcomes["schedules"] >= 60


def test_two_deletes_of_the_same_row_under_every_schedule_with_two_switches() -> None:
    """Exactly one succeeds, and the other is told that somebody else took the row."""
    scenario = Scenario([deletes(0, 1), deletes(1, 2)])
    for run in explore(scenario, switches=2):
        scenario.check(run)
        told = {attempt.status: attempt for attempt in list(scenario.world.attempts.values())[1:3]}
        assert set(told) == {"done", "failed"}
        assert isinstance(told["failed"].error, RetryableConflict)
        assert "took out the same row 1" in str(told["failed"].error)
    assert scenario.outcomes["schedules"] >= 60


def test_three_writers_under_every_schedule_with_one_switch() -> None:
    scenario = Scenario([appends(1), deletes(0), appends(1)])
    for run in explore(scenario, switches=1):
        scenario.check(run)
        assert scenario.world.version == 6
        assert "failed" not in scenario.world.outcomes
    assert scenario.outcomes["schedules"] >= 60


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_three_writers_under_every_schedule_with_two_switches(effort: Callable[[int, int], int]) -> None:
    """All of them in the long form; in the short one, as many as there is time for."""
    scenario = Scenario([appends(1), deletes(0), appends(1)])
    most = effort(400, 1_000_000)
    for run in explore(scenario, switches=2):
        scenario.check(run)
        assert "failed" not in scenario.world.outcomes
        if scenario.outcomes["schedules"] >= most:
            break
    print(dict(scenario.outcomes))
    assert scenario.outcomes["schedules"] >= 400


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("faulty", [False, True])
def test_random_schedules_of_three_writers(faulty: bool, effort: Callable[[int, int], int]) -> None:
    schedules = effort(120, 20_000)
    total: Counter[str] = Counter()
    for seed in range(schedules):
        scenario = Scenario(
            [appends(3), deletes(0), appends(2)] if seed % 2 else [deletes(0, 1), deletes(1, 2), appends(3)],
            kind=(PutVersions, RenameVersions)[seed // 2 % 2],
            store=(Nearby, DictStore)[seed // 4 % 2],
            naming=(Naming.V2, Naming.V1)[seed // 8 % 2],
            faults=FAULTS if faulty else None,
            seed=seed,
        )
        try:
            scenario.check(sample(scenario, seed))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        total += scenario.outcomes
    print(f"{schedules} schedules: {dict(total)}")
    assert total["done"] >= 4 * schedules
    assert total["rebased"] >= 2 * schedules
    if faulty:
        assert total["faults"] >= 3 * schedules
    else:
        assert total["conflict.retryable"] == schedules // 2, "one of two deletes of the same row, each time"


class CheckThenPut(PutVersions):
    """Planted fault: looks whether the version is free, and then writes it."""

    def claim(self, version: int, data: Data) -> None:
        if self.store.exists(self.path(version)):
            raise AlreadyExists("looked and found it")
        self.store.put(self.path(version), data)


class Announcing(PutVersions):
    """Planted fault: says that a version is there before it is, and believes what is said without looking."""

    def newest(self, known: int = 0) -> int:
        return max(known, hint.read(self.store)) or super().newest(known)

    def presumed(self, known: int) -> int:
        return self.newest(known)

    def claim(self, version: int, data: Data) -> None:
        self.announce(version)
        super().claim(version, data)


class Counting(PutVersions):
    """Planted fault: takes the next free number from a counter that is read and written back."""

    def claim(self, version: int, data: Data) -> None:
        taken = int(self.store.get("counter") if self.store.exists("counter") else version - 1)
        self.store.put("counter", str(taken + 1).encode())
        self.store.put_if_absent(self.path(taken + 1), data)


def unchecked(pending: Pending, newest: int) -> Committed | None:
    pending.checked = newest
    return None


def unsettled(committer: Committer, *_: object) -> bool:
    """Whatever goes wrong is taken for a loss."""
    return False


@pytest.mark.parametrize(
    ("kind", "noticed"),
    [
        (CheckThenPut, "overwritten|acknowledged and is lost"),
        (Announcing, "gaps|faster each time|missing although a later one exists|has no version"),
        (Counting, "gaps|calls itself version"),
    ],
)
def test_a_wrong_way_to_claim_is_caught(kind: type[StoredVersions], noticed: str) -> None:
    assert caught(Scenario([appends(1), appends(1)], kind), noticed)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "noticed"),
    [
        (Pending, "check_against", unchecked, "rows .* were gone already|deleted by now|expected"),
        (RowMerge, "_check_other_rows", lambda *_: None, "rows .* were gone already"),
    ],
)
def test_a_missing_check_is_caught(
    owner: type, name: str, wrong: object, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    assert caught(Scenario([deletes(0, 1), deletes(1, 2)]), noticed)


def test_a_loss_that_was_none_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is lost, the writer goes round again: the same rows come twice, or a success is called a failure."""
    monkeypatch.setattr(Committer, "_claim_again", unsettled)
    monkeypatch.setattr(Pending, "check_against", unchecked)
    noticed = "is both version|told that it failed|there twice"
    assert any(
        re.search(noticed, problem)
        for seed in range(60)
        if (
            problem := problem_of(
                scenario := Scenario([appends(3)] * 2, faults=FAULTS, seed=seed), sample(scenario, seed)
            )
        )
    )


def caught(scenario: Scenario, noticed: str) -> bool:
    """Whether a schedule with two switches shows the fault, and for the right reason."""
    problems = filter(None, (problem_of(scenario, run) for run in explore(scenario, switches=2)))
    return any(re.search(noticed, problem) for problem in problems)


def problem_of(scenario: Scenario, run: Run[None]) -> str:
    try:
        scenario.check(run)
        for attempt in scenario.world.attempts.values():
            if attempt.error is not None and not isinstance(attempt.error, RetryableConflict):
                raise attempt.error
    except Exception as error:
        return str(error)
    return ""
