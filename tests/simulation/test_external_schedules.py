"""Many writers and readers through one manifest store, interleaved request by request, with failures and deaths.

After every single request the directory alone must be a complete table that is at most one commit behind.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import AlreadyExists, CommitUnknown, NotFound, SeicheError, Unavailable
from seiche.store.base import Data
from seiche.table.versions.external import ExternalVersions, ManifestRecord, ManifestStore, MemoryManifestStore
from seiche.table.versions.naming import Naming, parse
from seiche.testing import Call, DictStore, Faults, SimulatedStore, Stopped
from seiche.testing.scheduling import Process, Run, explore, interleave
from tests.simulated_manifest_store import SimulatedManifestStore

FAULTS = Faults(before=0.03, lost=0.03, after=0.03, late=0.03, conflict=0.02)
DEATH = 0.01
# Little, so that some give up and have to say so.
PATIENCE = Patience(attempts=2)


@dataclass
class World:
    """One run: what was promised to whom, and what is there."""

    seed: int = 0
    attempts: int = 9
    versions: type[ExternalVersions] = ExternalVersions
    view: type[SimulatedManifestStore] = SimulatedManifestStore
    records: ManifestStore = field(default_factory=MemoryManifestStore)
    store: DictStore = field(default_factory=DictStore)
    made: dict[int, bytes] = field(default_factory=dict)
    refused: list[bytes] = field(default_factory=list)
    unknown: list[bytes] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    _processes: int = 0

    def run(self) -> None:
        """A random schedule with random faults."""
        random = Random(self.seed)
        stores = [SimulatedStore(self.store, seed=random.getrandbits(32), faults=FAULTS) for _ in range(4)]

        def choose(last: int, ready: Sequence[int]) -> int:
            self.check_directory()
            chosen = random.choice(ready)
            if random.random() < DEATH:
                stores[chosen].stop()
            return chosen

        works = [self._write, self._write, self._write, self._read]
        run = interleave([self.process(store, work) for store, work in zip(stores, works, strict=True)], choose)
        self.end(stores, run)

    def process(self, store: SimulatedStore, work: Callable[[ExternalVersions, str], None]) -> Process[None]:
        """One process that works on the table through `store`."""
        self._processes += 1
        name = f"p{self._processes}"

        def start(on_call: Callable[[Call], None]) -> None:
            store.on_call = on_call
            runtime = Runtime.seeded(len(name) + int(name[1:]))
            records = self.view(self.records, store)
            work(self.versions(store, records, naming=Naming.V2, runtime=runtime, patience=PATIENCE), name)

        return start

    def end(self, stores: Iterable[SimulatedStore], run: Run[None]) -> None:
        """What holds when everybody has ended and every request has arrived."""
        for error in run.errors:
            if error is not None and not isinstance(error, Stopped):
                raise error
        for store in stores:
            store.deliver()
            self.outcomes["died"] += store.stopped
            self.outcomes["faults"] += len(store.injected)
        self.outcomes["steps"] += len(run.schedule)
        self.check_directory()
        self.check_promises()

    def _write(self, versions: ExternalVersions, name: str) -> None:
        for attempt in range(self.attempts):
            data = f"{name}.{attempt}".encode().ljust(16)
            try:
                newest = versions.newest()
            except NotFound:
                newest = 0
            except Unavailable:
                continue
            self._claim(versions, newest + 1, data)

    def _claim(self, versions: ExternalVersions, version: int, data: bytes) -> None:
        try:
            versions.claim(version, data)
        except (AlreadyExists, Unavailable) as error:
            self.refused.append(data)
            self.outcomes[error.kind] += 1
        except CommitUnknown:
            self.unknown.append(data)
            self.outcomes["unknown"] += 1
        except Stopped:
            self.unknown.append(data)
            raise
        else:
            assert self.made.setdefault(version, data) == data, f"version {version} was made twice"
            self.outcomes["made"] += 1

    def _read(self, versions: ExternalVersions, name: str) -> None:
        for _ in range(self.attempts):
            acknowledged = max(self.made, default=0)
            try:
                newest = versions.newest()
                versions.store.get(versions.path(newest))
            except NotFound:
                assert not acknowledged
            except Unavailable:
                pass
            else:
                assert newest >= acknowledged, "a reader was given an older version than one that was acknowledged"
                self.outcomes["read"] += 1

    def finals(self) -> list[int]:
        named = (parse(info.path.rpartition("/")[2]) for info in self.store.list("_versions"))
        return sorted(version for _, version in filter(None, named))

    def check_directory(self) -> None:
        finals = self.finals()
        assert finals == list(range(1, len(finals) + 1)), "the directory has a gap"
        latest = self.records.get_latest(self.store.uri)
        claimed = latest.version if latest is not None else 0
        assert claimed - 1 <= len(finals) <= claimed, "a plain reader is more than one commit behind, or ahead"
        assert max(self.made, default=0) <= len(finals), "a writer was told of a version that plain readers cannot see"

    def check_promises(self) -> None:
        others = ExternalVersions(self.store, self.records, naming=Naming.V2)
        try:
            newest = others.newest()
        except NotFound:
            newest = 0
        contents = {version: self.store.get(others.path(version)) for version in range(1, newest + 1)}
        for version, data in self.made.items():
            assert contents[version] == data, f"version {version} is not what its writer made"
        assert len(set(contents.values())) == newest, "one manifest became two versions"
        assert not set(contents.values()) & set(self.refused), "a refused manifest became a version"
        assert set(contents.values()) <= set(self.made.values()) | set(self.unknown)
        others.claim(newest + 1, b"the next writer ")
        assert ExternalVersions(self.store, self.records).newest() == newest + 1


@pytest.mark.soak
def test_every_schedule_keeps_every_promise(effort: Callable[[int, int], int]) -> None:
    total: Counter[str] = Counter()
    schedules = effort(150, 5000)
    for seed in range(schedules):
        world = World(seed)
        try:
            world.run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        total += world.outcomes
    print(f"{schedules} schedules: {dict(total)}")
    for outcome, least in {
        "made": 3,
        "already_exists": 2,
        "unavailable": 0.1,
        "unknown": 0.02,
        "died": 0.5,
        "read": 1,
    }.items():
        assert total[outcome] >= least * schedules, total
    assert total["faults"] >= 3 * schedules


@pytest.mark.slow
def test_every_interruption_of_two_writers_and_a_reader() -> None:
    """All schedules with at most two switches: each writer, and the reader's repair, interrupted at every request."""
    total: Counter[str] = Counter()
    schedules = 0
    worlds: list[tuple[World, list[SimulatedStore]]] = []

    def processes() -> list[Process[None]]:
        world = World(attempts=1)
        stores = [SimulatedStore(world.store) for _ in range(3)]
        worlds.append((world, stores))
        works = [world._write, world._write, world._read]
        return [world.process(store, work) for store, work in zip(stores, works, strict=True)]

    for run in explore(processes):
        world, stores = worlds.pop()
        world.end(stores, run)
        total += world.outcomes
        schedules += 1
    print(f"{schedules} schedules: {dict(total)}")
    assert schedules > 3000
    assert total["made"] + total["already_exists"] == 2 * schedules  # every writer was told yes or no
    assert total["already_exists"] > 1000
    assert total["read"] > 1000


class CheckThenPut(SimulatedManifestStore):
    """Planted fault: looks first and writes then, and others come in between."""

    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        assert isinstance(self._inner, MemoryManifestStore)
        tables = self._inner._tables
        if self.get(base_uri, record.version) is not None:
            raise AlreadyExists("looked and found it")
        self._process._perform(
            Call("put_if_absent", f"record/{record.version}"),
            lambda: tables.setdefault(base_uri, {}).update({record.version: record}),
        )


class Hasty(ExternalVersions):
    """Planted fault: tells the writer before the copy, and leaves that to nobody."""

    def _materialise(self, record: ManifestRecord, data: Data | None = None) -> str:
        self._knows_naming = True
        return self.naming.path(record.version)


class Careless(ExternalVersions):
    """Planted fault: claims the next version without looking whether the one before can be seen by all."""

    def newest(self, known: int = 0) -> int:
        record = self.manifest_store.get_latest(self.base_uri)
        if record is None:
            raise NotFound("no records")
        return record.version

    def _settle(self, version: int) -> None:
        pass


class Trusting(ExternalVersions):
    """Planted fault: takes silence for consent."""

    def _decide(self, record: ManifestRecord, data: Data) -> ManifestRecord | None:
        try:
            return super()._decide(record, data)
        except CommitUnknown:
            return record


class Forgetful(ExternalVersions):
    """Planted fault: takes silence for a refusal."""

    def _decide(self, record: ManifestRecord, data: Data) -> ManifestRecord | None:
        try:
            return super()._decide(record, data)
        except CommitUnknown:
            return None


@pytest.mark.parametrize(
    ("fault", "noticed"),
    [
        (Hasty, "a writer was told of a version that plain readers cannot see"),
        (Careless, "a plain reader is more than one commit behind"),
        (Trusting, "made twice|is another manifest"),
        (Forgetful, "which is missing"),
        (CheckThenPut, "made twice|is another manifest"),
    ],
)
def test_a_planted_fault_is_noticed(fault: type[ExternalVersions] | type[SimulatedManifestStore], noticed: str) -> None:
    def run() -> None:
        for seed in range(150):
            world = World(seed, versions=fault) if issubclass(fault, ExternalVersions) else World(seed, view=fault)
            world.run()

    with pytest.raises((AssertionError, SeicheError), match=noticed):
        run()
