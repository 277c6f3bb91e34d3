"""A commit over three tables, interrupted at every one of its storage calls: before or after, never between."""

from seiche import CommitUnknown, Unavailable
from seiche.lake.transaction import Transaction
from seiche.testing import Fault, SimulatedStore, crash_points
from tests.simulation.lake_model import TABLES, append, contents, opened, prepared, published

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


def test_a_crash_at_any_call_leaves_all_tables_before_or_all_after_and_the_next_writer_succeeds() -> None:
    seen = {"before": 0, "after": 0}
    for crash in crash_points(prepared, three_tables):
        lake = opened(crash.store, seed=2)
        found = contents(lake)
        assert found in (BEFORE, AFTER), str(crash)
        seen["after" if found == AFTER else "before"] += 1
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
    assert seen["before"] >= 10
    assert seen["after"] >= 5


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
