"""A commit over three tables, interrupted at every one of its storage calls: before or after, never between."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche import CommitUnknown, Corrupt, Unavailable
from seiche.core.runtime import Runtime
from seiche.lake.transaction import Transaction
from seiche.lake.versions import LakeVersions
from seiche.store.base import Store
from seiche.testing import Aftermath, Fault, Loss, SeenStates, SimulatedStore, VolatileStore, crash_points
from tests.simulation.lake_model import SCHEMA, TABLES, append, contents, filled, opened, prepared, published

BEFORE: dict[str, list[str]] = {name: [] for name in TABLES}
AFTER = {name: ["mine"] for name in TABLES}


def three_tables(store: SimulatedStore) -> Transaction:
    lake = opened(store)
    with lake.transaction(key="the one") as tx:
        for name in TABLES:
            tx.table(name).apply(append("mine"))
    return tx


def transaction_id() -> str:
    lake = opened(prepared())
    return lake.transaction(key="the one").id


def survived(crash: Aftermath) -> str:
    """Whether the tables are found before or after the transaction; all are, and the next writer succeeds."""
    lake = opened(crash.store, seed=2)
    found = contents(lake)
    assert found in (BEFORE, AFTER), str(crash)
    decided = lake.status(transaction_id())
    assert (decided.outcome == "committed") == (found == AFTER), str(crash)
    plain = published(crash.store, lake)
    assert all(lake.state().table(tuple(name.split("."))).table_version - plain[name] in (0, 1) for name in TABLES)
    with lake.transaction() as tx:
        for name in TABLES:
            tx.table(name).apply(append("next"))
    expected = {name: [*found[name], "next"] for name in TABLES}
    assert contents(lake) == expected, str(crash)
    assert contents(opened(crash.store, seed=3)) == expected
    assert published(crash.store, lake) == {
        name: lake.state().table(tuple(name.split("."))).table_version for name in TABLES
    }
    return "after" if found == AFTER else "before"


def test_a_crash_at_any_call_leaves_all_tables_before_or_all_after_and_the_next_writer_succeeds() -> None:
    states = SeenStates()
    crashes = list(crash_points(prepared, three_tables))
    seen = Counter(survived(crash) for crash in crashes if states.is_new(crash.store))
    assert len(crashes) >= 30
    assert seen["before"] >= 4
    assert seen["after"] >= 5


def volatile(kind: type[VolatileStore] = VolatileStore) -> VolatileStore:
    runtime = Runtime.seeded(0)
    return filled(kind(runtime=runtime), runtime)


def after_power_failures(fresh: Callable[[], VolatileStore], loss: Loss) -> Counter[str]:
    """The power fails at each call; how often the tables were found before and after, and files that were hit."""
    seen: Counter[str] = Counter()
    states = SeenStates()
    for crash in crash_points(fresh, three_tables):
        assert isinstance(crash.store, VolatileStore)
        hit = crash.store.fail(loss)
        if states.is_new(crash.store):
            seen[survived(crash)] += 1
            seen["files"] += hit
    return seen


@pytest.mark.parametrize("loss", ["gone", "empty", "torn"])
def test_a_power_failure_at_any_call_takes_only_what_nobody_was_told_of(loss: Loss) -> None:
    seen = after_power_failures(volatile, loss)
    assert seen["before"] >= 2
    assert seen["after"] >= 4
    assert seen["files"] >= 6


def test_files_that_are_not_flushed_before_the_root_are_missed_after_a_power_failure() -> None:
    class Forgetful(VolatileStore):
        def flush(self, paths: Iterable[str]) -> int:
            return len(list(paths))

    with pytest.raises(Corrupt):
        after_power_failures(lambda: volatile(Forgetful), "torn")


def test_a_lost_reply_at_any_call_is_exactly_one_commit_and_the_status_tells_the_truth() -> None:
    faults: tuple[Fault, ...] = ("after", "lost", "late", "before", "conflict")
    runs = 0
    for crash in crash_points(prepared, three_tables, faults=faults):
        runs += 1
        lake = opened(crash.store, seed=2)
        found = contents(lake)
        if crash.error is None:
            assert isinstance(crash.result, Transaction)
            assert found == AFTER, str(crash)
            assert lake.status(crash.result.id).version == crash.result.version
        else:
            assert isinstance(crash.error, CommitUnknown | Unavailable), str(crash)
            assert found in (BEFORE, AFTER), str(crash)
            status = lake.status(transaction_id())
            assert (status.outcome == "committed") == (found == AFTER), str(crash)
        # Whoever does not know simply runs it again under the same key: it is applied once.
        with lake.transaction(key="the one") as tx:
            for name in TABLES:
                tx.table(name).apply(append("mine"))
        assert contents(lake) == AFTER, str(crash)
    assert runs >= 60


@pytest.mark.parametrize("verb", ["create_table", "register_table"])
def test_a_read_that_fails_behind_the_commit_does_not_make_it_look_undone(verb: str, tmp_path: Path) -> None:
    elsewhere = seiche.Table.create(str(tmp_path / "other.lance"), SCHEMA).uri

    def make(store: SimulatedStore) -> object:
        lake = opened(store)
        if verb == "create_table":
            return lake.create_table("bank.new", SCHEMA).name
        return lake.register_table("bank.new", elsewhere).name

    faults: tuple[Fault, ...] = ("before", "after", "lost")
    told: Counter[bool] = Counter()
    for crash in crash_points(prepared, make, faults=faults):
        is_there = ("bank", "new") in opened(crash.store, seed=2).tables("bank")
        told[is_there] += 1
        assert is_there == (crash.error is None), str(crash)
    assert min(told.values()) >= 4


def three_tables_of_rows(store: SimulatedStore, seed: int = 1) -> Transaction:
    """Whose data files the commit itself writes, beside the manifests that name them."""
    with opened(store, seed).transaction(key="the one") as tx:
        for name in TABLES:
            tx.append(name, pa.table({"id": [1, 2]}, schema=SCHEMA))
        assert not any("/data/" in call.path for call in store.calls)
    return tx


def rows_found(store: Store) -> dict[str, int]:
    """How many rows each table has. Every file that any version names is there, whole."""
    lake = opened(store, seed=2)
    found = lake.fsck()
    assert not [one for one in found.problems if one.severity == "error"]
    rows = {}
    for name in TABLES:
        row = lake.state().table(tuple(name.split(".")))
        rows[name] = sum(
            one.physical_rows for one in LakeVersions(store, row).read(row.table_version).manifest.fragments
        )
    return rows


@pytest.mark.parametrize("loss", [None, "gone", "torn"])
def test_rows_are_there_whole_for_all_tables_or_for_none(loss: Loss | None) -> None:
    states = SeenStates()
    seen: Counter[int] = Counter()
    for crash in crash_points(volatile, three_tables_of_rows):
        assert isinstance(crash.store, VolatileStore)
        if loss is not None:
            crash.store.fail(loss)
        if states.is_new(crash.store):
            rows = rows_found(crash.store)
            assert rows in (dict.fromkeys(TABLES, 0), dict.fromkeys(TABLES, 2)), str(crash)
            three_tables_of_rows(SimulatedStore(crash.store), seed=3)
            assert rows_found(crash.store) == dict.fromkeys(TABLES, 2), str(crash)
            seen[rows[TABLES[0]]] += 1
    assert seen[0] >= 2
    assert seen[2] >= 3


def test_a_lost_reply_while_data_files_are_written_does_no_harm() -> None:
    faults: tuple[Fault, ...] = ("after", "lost", "late", "before", "conflict")
    runs = 0
    for crash in crash_points(prepared, three_tables_of_rows, faults=faults):
        runs += "/data/" in crash.call.path
        if crash.error is None:
            assert rows_found(crash.store) == dict.fromkeys(TABLES, 2), str(crash)
        else:
            assert isinstance(crash.error, CommitUnknown | Unavailable), str(crash)
            assert rows_found(crash.store)[TABLES[0]] in (0, 2), str(crash)
    assert runs >= 9
