"""Readers of old versions: held while they read, told plainly when the version is gone."""

from itertools import count
from pathlib import Path

import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound, PermissionDenied
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.lake.care.leases import leases
from seiche.lake.lake import open_lake
from seiche.store import open_store
from seiche.store.base import Data
from seiche.testing import CountingStore, DictStore, Fault, SimulatedStore
from tests.simulation.care_model import committed, past
from tests.simulation.lake_model import TABLES
from tests.unit.lake.conftest import ids, rows

HOUR = 3600.0
# Two processes that draw the same ids would take each other's transactions for their own.
SEEDS = count(3)


@pytest.fixture
def store() -> DictStore:
    """A lake of eight versions."""
    return past(versions=4)


def runtime_of(store: DictStore) -> Runtime:
    """A process whose clock is right."""
    runtime = Runtime.seeded(next(SEEDS))
    assert isinstance(runtime.clock, SimulatedClock)
    runtime.clock.advance((store._clock.now() - runtime.clock.now()).total_seconds())
    return runtime


def pass_time(store: DictStore, runtime: Runtime, seconds: float) -> None:
    for clock in (store._clock, runtime.clock):
        assert isinstance(clock, SimulatedClock)
        clock.advance(seconds)


def given_up(store: DictStore) -> set[int]:
    """What an expiry that wants everything gives up now."""
    lake = open_lake(store, runtime=runtime_of(store))
    return set(lake.expire(older_than=0, keep=1).versions)


@pytest.mark.parametrize("fault", ["before", "after", "lost"])
def test_a_lost_answer_does_not_refuse_a_lease(store: DictStore, fault: Fault) -> None:
    """Whoever reads has no outcome to ask for."""
    with open_lake(SimulatedStore(store), version=5, lease="2h", runtime=runtime_of(store)) as lake:
        assert isinstance(lake.store, SimulatedStore)
        (written,) = (number for number, call in enumerate(lake.store.calls, 1) if call.verb == "put")
    assert leases(store) == []
    failing = SimulatedStore(store, plan={written: fault})
    with open_lake(failing, version=5, lease="2h", runtime=runtime_of(store)):
        assert [one.version for one in leases(store)] == [5]
    assert failing.injected == [(written, fault)]
    assert leases(store) == []


def test_a_lease_keeps_the_version_until_it_is_closed(store: DictStore) -> None:
    with open_lake(store, version=5, lease="2h", runtime=runtime_of(store)) as lake:
        (held,) = leases(store)
        assert held.version == 5
        assert (held.until - store._clock.now()).total_seconds() == 2 * HOUR
        assert 5 not in given_up(store)
        assert 4 in {version for version in range(6) if expired(store, version)}
        assert lake.tables("bank")
    assert leases(store) == []
    assert 5 in given_up(store)


def expired(store: DictStore, version: int) -> bool:
    from seiche.lake.tree.latest import read_root

    return read_root(store, version).expired_at_millis is not None


def test_a_lease_runs_out_if_nobody_uses_it(store: DictStore) -> None:
    runtime = runtime_of(store)
    lake = open_lake(store, version=5, lease=HOUR, runtime=runtime)
    pass_time(store, runtime, 0.9 * HOUR)
    assert 5 not in given_up(store)
    pass_time(store, runtime, 0.2 * HOUR)
    assert 5 in given_up(store)
    open_lake(store, runtime=runtime_of(store)).gc(dry_run=False, grace=0, window=0)
    with pytest.raises(NotFound, match="expired while it was being read"), lake.reading():
        lake.store.get("nothing")


def test_a_lease_that_ran_out_is_not_renewed_but_taken_anew(store: DictStore) -> None:
    """Who slept through its end must look at the root again: the version may have been given up meanwhile."""
    runtime = runtime_of(store)
    lake = open_lake(store, version=5, lease=HOUR, runtime=runtime)
    (before,) = leases(store)
    pass_time(store, runtime, 1.1 * HOUR)
    assert lake.tables("bank")
    (_, after) = sorted(leases(store), key=lambda one: one.until)
    assert after.path != before.path, "the old one may be cleared away at any moment"
    assert 5 not in given_up(store)
    pass_time(store, runtime, 1.1 * HOUR)
    assert 5 in given_up(store)
    with pytest.raises(NotFound, match="expired while it was being read"), lake.reading():
        lake.store.get("nothing")
    assert all(one.until <= runtime.clock.now() for one in leases(store)), "nothing is held that was given up"


def test_a_lease_is_renewed_while_it_is_used(store: DictStore) -> None:
    runtime = runtime_of(store)
    lake = open_lake(store, version=5, lease=HOUR, runtime=runtime)
    for _ in range(5):
        pass_time(store, runtime, 0.6 * HOUR)
        assert lake.tables("bank")
    assert 5 not in given_up(store)
    assert len(leases(store)) == 1


def test_who_only_has_a_look_writes_nothing_and_who_stays_holds_it(store: DictStore) -> None:
    runtime = runtime_of(store)
    counting = CountingStore(store)
    lake = open_lake(counting, version=5, runtime=runtime)
    for _ in range(3):
        assert lake.tables("bank")
        assert lake.table(TABLES[0]) is not None
    assert counting.writes == 0
    pass_time(store, runtime, HOUR)
    assert lake.tables("bank")
    assert [held.version for held in leases(store)] == [5]
    assert 5 not in given_up(store)


def test_wrong_clocks_of_readers_do_not_matter(store: DictStore) -> None:
    """How long a lease lasts is counted by the storage."""
    for skew in (-24 * HOUR, 24 * HOUR):
        runtime = runtime_of(store)
        assert isinstance(runtime.clock, SimulatedClock)
        runtime.clock.advance(skew)
        open_lake(store, version=5, lease=HOUR, runtime=runtime)
        assert 5 not in given_up(store)


def test_an_expiry_whose_clock_is_a_day_ahead_robs_nobody(store: DictStore) -> None:
    reader = open_lake(store, version=5, lease=HOUR, runtime=runtime_of(store))
    runtime = runtime_of(store)
    assert isinstance(runtime.clock, SimulatedClock)
    runtime.clock.advance(24 * HOUR)
    done = open_lake(store, runtime=runtime).expire(older_than=0, keep=1)
    assert any("a reader holds it" in why for why in done.why(5)), "by its own clock the lease had run out"
    assert reader.tables("bank")
    assert not expired(store, 5)


def test_a_live_handle_needs_no_lease(store: DictStore) -> None:
    with pytest.raises(InvalidInput, match="never expires"):
        open_lake(store, lease="1h")


def test_a_reader_without_the_right_to_write_reads_all_the_same(store: DictStore) -> None:
    class ReadOnly(CountingStore):
        def put(self, path: str, data: Data, *, durable: bool = True) -> None:
            raise PermissionDenied(f"{path}: read-only")

    runtime = runtime_of(store)
    lake = open_lake(ReadOnly(store), version=5, runtime=runtime)
    pass_time(store, runtime, HOUR)
    assert lake.tables("bank")
    with pytest.raises(PermissionDenied):
        open_lake(ReadOnly(store), version=5, lease="1h", runtime=runtime)


def test_a_lease_of_less_than_a_second_is_held_for_one(store: DictStore) -> None:
    with open_lake(store, version=5, lease=0.5, runtime=runtime_of(store)):
        assert [(one.until - store._clock.now()).total_seconds() for one in leases(store)] == [1]


def test_a_lease_that_outlasts_the_calendar_is_one(store: DictStore) -> None:
    store.put(f"_leases/{5:020}-{'9' * 12}-{'0' * 8}-0000-0000-0000-{'0' * 12}", b"")
    assert [one.version for one in leases(store)] == [5]
    assert 5 not in given_up(store)


def test_a_lease_for_ever_is_one(store: DictStore) -> None:
    with open_lake(store, version=5, lease=10**12, runtime=runtime_of(store)):
        assert [one.version for one in leases(store)] == [5]
        assert 5 not in given_up(store)


def test_files_that_are_no_leases_are_none(store: DictStore) -> None:
    for name in ("x", "00000000000000000005-3600-nonsense", f"5-{'9' * 30}-{'0' * 36}", "5--1-" + "0" * 36):
        store.put(f"_leases/{name}", b"")
    assert leases(store) == []
    assert 5 in given_up(store)
    forever = open_lake(store, version=store_version(store), lease=10**9, runtime=runtime_of(store))
    assert leases(store)[0].version == forever.version


def store_version(store: DictStore) -> int:
    return open_lake(store, runtime=runtime_of(store)).version


def test_leases_that_ran_out_are_cleared_away(store: DictStore) -> None:
    runtime = runtime_of(store)
    open_lake(store, version=5, lease=HOUR, runtime=runtime)
    lake = open_lake(store, runtime=runtime)
    lake.gc(dry_run=False)
    assert len(leases(store)) == 1
    pass_time(store, runtime, 48 * HOUR)
    lake.gc(dry_run=False)
    assert leases(store) == []


def test_an_expired_version_is_told_from_damage(store: DictStore) -> None:
    lake = open_lake(store, version=5, runtime=runtime_of(store))
    with pytest.raises(ZeroDivisionError), lake.reading():
        raise ZeroDivisionError
    given_up(store)
    with pytest.raises(NotFound, match="expired while"), lake.reading():
        raise ZeroDivisionError


def test_rows_of_a_version_that_is_cleared_away_under_the_reader(tmp_path: Path) -> None:
    lake: Lake = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    lake.create_namespace("shop")
    lake.create_table("shop.a", rows().schema)
    for number in range(3):
        lake.table("shop.a").overwrite(rows(number))
    old = seiche.open(str(tmp_path / "lake"), version=3)
    held = seiche.open(str(tmp_path / "lake"), version=4, lease="1h")
    table = old.table("shop.a")
    assert table.to_arrow()["id"].to_pylist() == [0]
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    with pytest.raises(NotFound, match="version 3 of the lake expired"):
        table.to_arrow()
    assert ids(held, "shop.a") == [1]
    assert ids(lake, "shop.a") == [2]


def test_committing_goes_on_while_an_old_version_is_held(store: DictStore) -> None:
    runtime = runtime_of(store)
    lake = open_lake(store, version=5, lease=HOUR, runtime=runtime)
    live = open_lake(store, runtime=runtime)
    for number in range(3):
        committed(live, f"more{number}")
        live.expire(older_than=0, keep=1)
        live.gc(dry_run=False, grace=0, window=0)
    assert lake.table(TABLES[0]).version == 2
