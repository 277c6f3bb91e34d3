"""Opening a lake at a version or at a time: at, between, before and after commits, whatever the clocks did."""

from datetime import UTC, datetime, timedelta

import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.lake.lake import open_lake
from seiche.store.base import Store
from seiche.testing import CountingStore, DictStore
from tests.simulation.lake_model import SCHEMA, TABLES, append, contents

A = TABLES[0]
START = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class World:
    """A lake whose storage and writers have clocks that can be set."""

    def __init__(self) -> None:
        self.storage = Runtime.seeded(1)
        self.writer = Runtime.seeded(2)
        self.store: Store = DictStore(runtime=self.storage)
        self.lake = seiche.create(self.store, runtime=self.writer)
        self.lake.create_namespace("bank")
        with self.lake.transaction() as tx:
            for name in TABLES:
                tx.create_table(name, SCHEMA)

    def advance(self, seconds: float, *, storage: bool = True, writer: bool = True) -> None:
        """Move clocks, also back."""
        for runtime, wanted in ((self.storage, storage), (self.writer, writer)):
            if wanted:
                assert isinstance(runtime.clock, SimulatedClock)
                runtime.clock.advance(seconds)

    def commit(self, mark: str) -> int:
        """One more mark in a table; returns the version that has it."""
        with self.lake.transaction() as tx:
            tx.table(A).apply(append(mark))
        return tx.version or 0

    @property
    def now(self) -> datetime:
        """By the storage."""
        return self.storage.clock.now()

    def marks(self, **when: object) -> list[str]:
        """What the table holds at a version or time."""
        opened = self.at(**when)
        return contents(self.lake, opened.version)[A]

    def at(self, **when: object) -> Lake:
        return open_lake(self.store, runtime=self.writer, **when)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    """Three commits, at 10, 20 and 30 seconds."""
    made = World()
    for mark in ("one", "two", "three"):
        made.advance(10)
        made.commit(mark)
    return made


def seconds(number: float) -> datetime:
    return START + timedelta(seconds=number)


def test_by_version(world: World) -> None:
    last = world.lake.version
    assert [world.marks(version=last - back) for back in (0, 1, 2, 3)] == [
        ["one", "two", "three"],
        ["one", "two"],
        ["one"],
        [],
    ]
    assert world.at(version=0).version == 0
    for wrong in (last + 1, last + 1000):
        with pytest.raises(NotFound, match=f"version {wrong} of the lake does not exist"):
            world.at(version=wrong)
    with pytest.raises(InvalidInput):
        world.at(version=-1)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (9.999999, []),
        (10, ["one"]),
        (10.000001, ["one"]),
        (15, ["one"]),
        (19.999999, ["one"]),
        (20, ["one", "two"]),
        (25, ["one", "two"]),
        (30, ["one", "two", "three"]),
        (31, ["one", "two", "three"]),
        (10_000, ["one", "two", "three"]),
    ],
)
def test_by_time_at_between_and_after_commits(world: World, second: float, expected: list[str]) -> None:
    assert world.marks(as_of=seconds(second)) == expected


def test_before_the_lake_existed_there_is_nothing_to_open(world: World) -> None:
    with pytest.raises(NotFound, match="did not exist yet"):
        world.at(as_of=START - SECOND)
    assert world.at(as_of=START).version == 2, "everything that was made at the very first moment"


def test_a_time_in_the_future_is_the_latest_version_of_now(world: World) -> None:
    far = world.at(as_of=seconds(1_000_000))
    assert far.version == world.lake.version
    world.advance(10)
    world.commit("four")
    assert far.version == world.lake.version - 1, "what was opened stays what it is"
    assert world.marks(as_of=seconds(1_000_000)) == ["one", "two", "three", "four"]


def test_of_equal_times_the_last_one_counts(world: World) -> None:
    versions = [world.commit(mark) for mark in ("four", "five", "six")]
    assert world.at(as_of=world.now).version == versions[-1]
    assert world.at(as_of=world.now - timedelta(microseconds=1)).version == versions[0] - 2
    world.advance(1)
    world.commit("seven")
    assert world.at(as_of=world.now - SECOND).version == versions[-1]


def test_commits_within_a_millisecond_are_told_apart(world: World) -> None:
    made = []
    for mark in ("four", "five", "six"):
        world.advance(0.000_1)
        made.append((world.commit(mark), world.now))
    world.advance(1)
    world.commit("seven")
    assert [world.at(as_of=moment).version for _, moment in made] == [version for version, _ in made]


def test_a_time_zone_is_a_way_to_write_a_time(world: World) -> None:
    from datetime import timezone

    elsewhere = seconds(20).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert world.marks(as_of=elsewhere) == ["one", "two"]
    with pytest.raises(InvalidInput, match="no time zone"):
        world.at(as_of=datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused
    with pytest.raises(InvalidInput, match="either which version or what time"):
        world.at(version=1, as_of=START)


def test_a_storage_clock_that_goes_back_never_takes_a_version_back(world: World) -> None:
    """The fourth commit has an earlier time than the third: it counts from the third on, since then it was there."""
    world.advance(-15, writer=False)
    world.commit("four")
    newest = world.lake.log()[0]
    assert (newest.time, newest.storage_time) == (seconds(30), seconds(15)), "the log goes by the same"
    world.advance(1)
    world.commit("five")
    assert world.marks(as_of=seconds(20)) == ["one", "two"]
    assert world.marks(as_of=seconds(29.999)) == ["one", "two"]
    assert world.marks(as_of=seconds(30)) == ["one", "two", "three", "four", "five"]
    world.advance(100)
    world.commit("six")
    assert world.marks(as_of=seconds(30)) == ["one", "two", "three", "four", "five"]
    assert world.marks(as_of=world.now) == ["one", "two", "three", "four", "five", "six"]


def test_a_writer_with_a_wrong_clock_changes_nothing_about_the_past(world: World) -> None:
    """Times are the storage's. A writer's clock that is behind cannot hide a version, one ahead cannot delay it."""
    world.advance(10)
    world.advance(-5_000, storage=False)
    world.commit("four")
    world.advance(50_000, storage=False)
    world.advance(10)
    world.commit("five")
    world.advance(-45_000, storage=False)
    world.advance(10)
    world.commit("six")
    assert world.marks(as_of=seconds(35)) == ["one", "two", "three"]
    assert world.marks(as_of=seconds(55)) == ["one", "two", "three", "four", "five"]
    assert world.marks(as_of=seconds(60)) == ["one", "two", "three", "four", "five", "six"]


def test_one_wrong_storage_time_cannot_poison_the_future(world: World) -> None:
    """A root written under a storage clock a century ahead: the next writers' clocks set it right."""
    century = 100 * 365 * 86_400
    world.advance(century, writer=False)
    world.advance(10, storage=False)
    world.commit("four")
    assert world.lake.log()[0].time == seconds(40), "the log goes by the same"
    world.advance(-century + 20, writer=False)
    world.advance(10, storage=False)
    world.commit("five")
    world.advance(10)
    world.commit("six")
    assert world.marks(as_of=world.now) == ["one", "two", "three", "four", "five", "six"]
    assert world.marks(as_of=world.now - SECOND) == ["one", "two", "three", "four", "five"]
    assert world.marks(as_of=seconds(30)) == ["one", "two", "three"]


def test_a_copied_lake_has_the_same_past(world: World) -> None:
    """All its files have one new time; what the roots say about their predecessors' times goes with them."""
    world.advance(100)
    copy = DictStore(runtime=world.storage)
    for info in world.store.list():
        copy.put(info.path, world.store.get(info.path))
    last = world.lake.version
    for second, version in ((15, last - 2), (20, last - 1), (29, last - 1)):
        assert open_lake(copy, as_of=seconds(second), runtime=world.writer).version == version
    assert open_lake(copy, as_of=seconds(30), runtime=world.writer).version == last - 1, (
        "the newest is as old as its copy"
    )
    assert open_lake(copy, as_of=world.now, runtime=world.writer).version == last


def test_a_time_is_found_with_few_requests(world: World) -> None:
    for number in range(200):
        world.advance(10)
        world.commit(str(number))
    store = CountingStore(world.store)
    found = open_lake(store, as_of=seconds(1000), runtime=world.writer)
    assert len(contents(world.lake, found.version)[A]) == 100
    assert store.requests <= 16


def test_what_was_opened_at_a_version_is_read_only(world: World) -> None:
    old = world.at(as_of=seconds(20))
    tx = old.transaction()
    tx.table(A).apply(append("no"))
    with pytest.raises(InvalidInput, match="read-only"):
        tx.commit()
    with pytest.raises(InvalidInput, match="read-only"):
        old.create_namespace("no")
    assert world.marks() == ["one", "two", "three"]
    assert old.version == world.lake.version - 1
