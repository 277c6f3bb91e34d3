"""A commit over Lance and Iceberg tables, interrupted, unanswered and cleaned up around at each storage call."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from seiche import CommitUnknown, InvalidInput, Lake, RetryableConflict, Unavailable
from seiche.lake.iceberg.reach import IcebergReach
from seiche.lake.iceberg.work import Step
from seiche.lake.transaction import Transaction
from seiche.store.base import Store
from seiche.testing import DictStore, Fault, SimulatedStore, crash_points
from seiche.testing.wrapping import Call
from tests.simulation.care_model import copied
from tests.simulation.lake_model import TABLES, append, opened, prepared
from tests.simulation.lake_model import contents as lance_contents

SCHEMA = pa.schema([("id", pa.int64())])
ICE = "bank.ice"
LANCE = TABLES[0]
Contents = tuple[list[str], list[int]]
NOTHING: Contents = ([], [1])
MINE: Contents = (["mine"], [1, 2])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@cache
def built() -> tuple[DictStore, Step]:
    """A lake, and an append that PyIceberg has prepared for it: its files are there, nothing names them."""
    store = prepared()
    lake = opened(store, seed=5)
    lake.create_table(ICE, SCHEMA, format="iceberg").append(rows(1))
    tx = lake.transaction()
    tx.append(ICE, rows(2))
    (step,) = tx.edits[lake.table(ICE).row.id].iceberg.steps  # type: ignore[attr-defined]
    return store, step


def fresh() -> DictStore:
    return copied(built()[0])


@cache
def built_and_moved() -> DictStore:
    """The same, with the transaction saved, and others faster: it has to be put on top of their append."""
    store = fresh()
    lake = opened(store, seed=6)
    tx = lake.transaction(key="the one")
    statements(tx)
    tx.save()
    lake.table(ICE).append(rows(7))
    return store


def moved() -> DictStore:
    return copied(built_and_moved())


def statements(tx: Transaction) -> None:
    step = built()[1]
    tx.table(LANCE).apply(append("mine"))
    tx.commit_iceberg(ICE, step.requirements, step.updates)


def both(store: Store) -> Transaction:
    with opened(store).transaction(key="the one") as tx:
        statements(tx)
    return tx


def resumed(store: Store) -> Transaction:
    lake = opened(store)
    tx = lake.resume(lake.transaction(key="the one").id)
    tx.commit()
    return tx


def contents(lake: Lake) -> Contents:
    return lance_contents(lake)[LANCE], sorted(lake.table(ICE).to_arrow()["id"].to_pylist())


def wrong(store: Store) -> list[str]:
    """What is wrong with the lake. The Lance tables here have fragments and no data files, which is no matter."""
    found = opened(store, seed=9).fsck()
    return [str(one) for one in found.problems if one.severity == "error" and ".lance/data/" not in one.path]


def check_sound(store: Store) -> None:
    assert wrong(store) == []


@pytest.mark.soak
@pytest.mark.parametrize(
    ("start", "scenario", "before", "after"),
    [(fresh, both, NOTHING, MINE), (moved, resumed, ([], [1, 7]), (["mine"], [1, 2, 7]))],
    ids=["alone", "moved"],
)
def test_a_crash_at_any_call_leaves_both_tables_before_or_both_after(
    start: Callable[[], DictStore],
    scenario: Callable[[Store], Transaction],
    before: Contents,
    after: Contents,
    effort: Callable[[int, int], int],
) -> None:
    seen = {"before": 0, "after": 0}
    identity = opened(start()).transaction(key="the one").id
    for crash in crash_points(start, scenario):
        lake = opened(crash.store, seed=2)
        found = contents(lake)
        assert found in (before, after), str(crash)
        seen["after" if found == after else "before"] += 1
        assert (lake.status(identity).outcome == "committed") == (found == after), str(crash)
        lake.table(ICE).append(rows(9))
        assert contents(lake) == (found[0], [*found[1], 9]), str(crash)
        if crash.number % effort(4, 1) == 0:
            check_sound(crash.store)
    assert seen["before"] >= 10
    assert seen["after"] >= 5


@pytest.mark.soak
@pytest.mark.parametrize(
    ("start", "scenario", "before", "after"),
    [(fresh, both, NOTHING, MINE), (moved, resumed, ([], [1, 7]), (["mine"], [1, 2, 7]))],
    ids=["alone", "moved"],
)
def test_a_lost_reply_at_any_call_is_exactly_one_commit(
    start: Callable[[], DictStore],
    scenario: Callable[[Store], Transaction],
    before: Contents,
    after: Contents,
    effort: Callable[[int, int], int],
) -> None:
    faults: tuple[Fault, ...] = ("after", "lost", "late", "before", "conflict")
    runs = 0
    for crash in crash_points(start, scenario, faults=faults):
        runs += 1
        lake = opened(crash.store, seed=2)
        if crash.error is not None:
            assert isinstance(crash.error, CommitUnknown | Unavailable), f"{crash}: {crash.error!r}"
            assert contents(lake) in (before, after), str(crash)
        else:
            assert contents(lake) == after, str(crash)
        # Whoever does not know runs it again under the same key: it is applied once.
        with lake.transaction(key="the one") as tx:
            try:
                statements(tx)
            except RetryableConflict:
                assert lake.status(tx.id).outcome == "committed" or scenario is resumed, str(crash)
                tx.rollback()
        if scenario is resumed and lake.status(tx.id).outcome != "committed":
            lake.resume(tx.id).commit()
        assert contents(lake) == after, str(crash)
        if crash.number % effort(4, 1) == 0:
            check_sound(crash.store)
    assert runs >= 40


def cleaned_at(
    start: Callable[[], DictStore], scenario: Callable[[Store], Transaction], step: int = 1
) -> list[tuple[str, DictStore]]:
    """The scenario, with a clean-up by somebody else just before each of its calls in turn; what became of it."""
    rehearsal = SimulatedStore(start())
    scenario(rehearsal)
    found = []
    for number in range(1, len(rehearsal.calls) + 1, step):
        inner = start()
        calls = 0

        def on_call(_: Call, *, at: int = number, store: DictStore = inner) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                opened(store, seed=50 + at).gc(dry_run=False, grace=0, window=0)

        try:
            scenario(SimulatedStore(inner, on_call=on_call))
            outcome = "committed"
        except (RetryableConflict, InvalidInput):
            # Behind the fence; or the files were gone already when it began.
            outcome = "refused"
        found.append((outcome, inner))
    return found


@pytest.mark.soak
def test_a_clean_up_at_any_call_takes_nothing_that_is_needed(effort: Callable[[int, int], int]) -> None:
    outcomes = {"committed": 0, "refused": 0}
    for start, scenario, before, after in (
        (fresh, both, NOTHING, MINE),
        (moved, resumed, ([], [1, 7]), (["mine"], [1, 2, 7])),
    ):
        for outcome, store in cleaned_at(start, scenario, effort(2, 1)):
            outcomes[outcome] += 1
            check_sound(store)
            lake = opened(store, seed=3)
            assert contents(lake) == (after if outcome == "committed" else before)
            for _ in range(2):
                lake.gc(dry_run=False, grace=0, window=0)
            assert not lake.gc(dry_run=True).unneeded, "garbage is left"
            check_sound(store)
            assert contents(lake) == (after if outcome == "committed" else before)
    assert outcomes["committed"] >= 5
    assert outcomes["refused"] >= 5


@pytest.mark.parametrize("fault", ["_files", "_manifests", "add_lists"])
def test_a_fault_planted_in_the_reachability_is_caught(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def nothing(*_: Any) -> list[Any]:
        """Takes down nothing."""
        return []

    monkeypatch.setattr(IcebergReach, fault, nothing)
    broken = 0
    for _, store in cleaned_at(fresh, both, 3):
        broken += any(".missing" in one for one in wrong(store))
    assert broken
