"""Two and three transactions of a lake under every schedule with few switches, and under many random ones.

Each appends a mark of its own to all tables, or moves between two of them; whatever the schedule, the lake must hold
exactly what was acknowledged, in every table, in the same order, at every version.
"""

import os
from collections.abc import Callable, Sequence

import pytest

from seiche import CommitUnknown, RetryableConflict, Unavailable
from seiche.testing import DictStore, Faults, SimulatedStore
from seiche.testing.scheduling import Process, Run, explore, sample
from seiche.testing.wrapping import Call
from tests.simulation.lake_model import TABLES, append, contents, opened, prepared, published

SCHEDULES = int(os.environ.get("SEICHE_SCHEDULES", "150"))


def copied(store: DictStore) -> DictStore:
    """A fresh store with the same files: quicker than making the lake again."""
    copy = DictStore()
    for info in store.list():
        copy.put(info.path, store.get(info.path))
    return copy


BASE = prepared()


class Scenario:
    """Writers that each append a mark to all tables in one transaction; makes them anew for each run."""

    def __init__(self, writers: int, *, faults: Faults | None = None, seed: int = 0) -> None:
        self.writers = writers
        self.faults = faults
        self.seed = seed
        self.store = DictStore()
        self.stores: list[SimulatedStore] = []

    def __call__(self) -> Sequence[Process[int]]:
        self.store = copied(BASE)
        self.stores = []
        return [self._writer(number) for number in range(self.writers)]

    def _writer(self, number: int) -> Process[int]:
        def process(on_call: Callable[[Call], None]) -> int:
            store = SimulatedStore(self.store, on_call=on_call, faults=self.faults, seed=self.seed * 10 + number)
            self.stores.append(store)
            lake = opened(store, seed=10_000 + self.seed * 100 + number)
            with lake.transaction(key=f"w{number}") as tx:
                for name in TABLES:
                    tx.table(name).apply(append(f"w{number}"))
            assert tx.version is not None
            return tx.version

        return process

    def check(self, run: Run[int]) -> None:
        """What was acknowledged is there, once; what failed is not; all tables agree, at every version."""
        for store in self.stores:
            store.deliver()
        lake = opened(self.store, seed=9_999)
        final = contents(lake)
        first = final[TABLES[0]]
        assert all(marks == first for marks in final.values()), final
        assert len(first) == len(set(first)), f"applied twice: {first}"
        for number, (version, error) in enumerate(zip(run.results, run.errors, strict=True)):
            mark = f"w{number}"
            if error is None:
                assert mark in first, f"{mark} was acknowledged at {version} and is lost"
                assert mark in contents(lake, version)[TABLES[0]]
                assert mark not in contents(lake, (version or 1) - 1)[TABLES[0]]
            else:
                assert isinstance(error, CommitUnknown | RetryableConflict | Unavailable), repr(error)
                if isinstance(error, RetryableConflict):
                    assert mark not in first
        for version in range(4, lake.version + 1):
            marks = contents(lake, version)
            assert len({tuple(one) for one in marks.values()}) == 1, f"version {version}: {marks}"
        published(self.store, lake)


def test_two_transactions_under_every_schedule_with_one_switch() -> None:
    scenario = Scenario(2)
    runs = 0
    for run in explore(scenario, switches=1):
        scenario.check(run)
        assert run.errors == (None, None)
        runs += 1
    assert runs >= 30


@pytest.mark.parametrize("writers", [2, 3])
def test_random_schedules(writers: int) -> None:
    for seed in range(SCHEDULES // 3):
        scenario = Scenario(writers, seed=seed)
        run = sample(scenario, seed)
        scenario.check(run)
        assert run.errors == (None,) * writers, f"seed {seed}: {run.errors}"


def test_random_schedules_on_a_store_that_fails() -> None:
    faults = Faults(before=0.03, after=0.05, lost=0.03, late=0.03, conflict=0.03)
    injected = 0
    for seed in range(SCHEDULES):
        scenario = Scenario(3, faults=faults, seed=seed)
        run = sample(scenario, seed)
        injected += sum(len(store.injected) for store in scenario.stores)
        scenario.check(run)
    assert injected >= SCHEDULES
