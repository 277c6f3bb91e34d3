"""Old names become new ones while writers are at work: what they commit meanwhile is not lost, or they are refused."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from seiche.errors import Corrupt, RetryableConflict
from seiche.table.versions.migration import migrate_to_v2
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions, RenameVersions, StoredVersions
from seiche.testing import Call, DictStore, SimulatedStore, Stopped
from seiche.testing.scheduling import Process, Run, explore
from tests.simulation.table_model import Attempt, Nearby, World, Writer, append


class Scenario:
    """Writers that hold a table with V1 names open, and somebody who migrates it."""

    def __init__(self, kind: type[StoredVersions], store: type[DictStore], writers: int = 1, dies_at: int = 0) -> None:
        self.kind = kind
        self.store = store
        self.count = writers
        self.dies_at = dies_at
        self.outcomes: Counter[str] = Counter()

    def __call__(self) -> Sequence[Process[None]]:
        self.world = World(kind=self.kind, naming=Naming.V1, store=self.store())
        self.world.commit(self.world.opened(self.world.store, seed=9), append(self.world, self.world.manifest()))
        self.world.check()
        self.failed = False
        self.writers = [self.world.writer(number) for number in range(self.count)]
        mine = [append(self.world, writer.seen) for writer in self.writers]
        return [self._migrate, *(self._append(*pair) for pair in zip(self.writers, mine, strict=True))]

    def _migrate(self, on_call: Callable[[Call], None]) -> None:
        store = SimulatedStore(self.world.store, on_call=on_call)
        if self.dies_at:
            store = SimulatedStore(self.world.store, on_call=on_call, plan={self.dies_at: "stop_after"})
        try:
            migrate_to_v2(store)
            self.outcomes["migrated"] += 1
        except RetryableConflict:
            self.failed = True
            self.outcomes["a writer was faster"] += 1
        except Stopped:
            self.outcomes["died"] += 1

    def _append(self, writer: Writer, attempt: Attempt) -> Process[None]:
        def process(on_call: Callable[[Call], None]) -> None:
            writer.store.on_call = on_call
            try:
                self.world.commit(writer.table, attempt)
            except Corrupt:
                # The directory has both kinds of names, or a marker: it was looked at in the midst of the migration.
                attempt.status = "failed"
                self.outcomes["refused"] += 1
            writer.store.on_call = None

        return process

    def check(self, run: Run[None]) -> None:
        for error in run.errors:
            if error is not None:
                raise error
        if self.dies_at or self.failed:
            migrate_to_v2(self.world.store)
        # If nobody died, there is nothing to be repaired.
        assert PutVersions(self.world.store).naming is Naming.V2
        # What was read under an old name is read under the new one.
        for version in PutVersions(self.world.store).all():
            old, new = Naming.V1.path(version), Naming.V2.path(version)
            if old in self.world._seen:
                self.world._seen.setdefault(new, self.world._seen.pop(old))
        self.world.check()
        self.outcomes += Counter(attempt.status for attempt in list(self.world.attempts.values())[1:])
        following = append(self.world, self.world.manifest())
        self.world.commit(self.world.opened(self.world.store, seed=8), following)
        self.world.check()
        assert following.version == self.world.version


@pytest.mark.parametrize("kind", [PutVersions, RenameVersions])
@pytest.mark.parametrize("store", [Nearby, DictStore])
def test_a_writer_amid_a_migration_is_kept_or_refused(kind: type[StoredVersions], store: type[DictStore]) -> None:
    scenario = Scenario(kind, store)
    for run in explore(scenario, switches=2):
        scenario.check(run)
    print(dict(scenario.outcomes))
    assert scenario.outcomes["done"] >= 10
    assert scenario.outcomes["migrated"] >= 10
    assert scenario.outcomes["failed"] >= 5


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_writers_amid_a_migration(effort: Callable[[int, int], int]) -> None:
    scenario = Scenario(PutVersions, Nearby, writers=2)
    for number, run in enumerate(explore(scenario, switches=2)):
        scenario.check(run)
        if number >= effort(300, 100_000):
            break
    print(dict(scenario.outcomes))
    assert scenario.outcomes["done"] >= 300
    assert scenario.outcomes["migrated"] >= 100


def test_a_writer_amid_a_migration_that_dies_at_any_call() -> None:
    total: Counter[str] = Counter()
    for call in range(1, 20):
        scenario = Scenario(PutVersions, Nearby, dies_at=call)
        for run in explore(scenario, switches=2):
            scenario.check(run)
        total += scenario.outcomes
        if not scenario.outcomes["died"]:
            break
    else:
        raise AssertionError("the migration makes more calls than were tried")
    print(dict(total))
    assert total["died"] >= 50
