"""`lake.log()`: what it says, what it costs, and what is left to say of expired versions."""

from datetime import UTC, datetime, timedelta

import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound
from seiche.core.runtime import Runtime
from seiche.lake.history.log import LogEntry
from seiche.lake.lake import open_lake
from seiche.lake.objects.keys import retention_key
from seiche.lake.objects.rows import RetentionRow
from seiche.testing import CountingStore, DictStore
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.past import bury, put_row


def said(entry: LogEntry) -> list[str]:
    return [str(one) for one in entry.objects]


def test_versions_come_newest_first_with_who_did_what(lake: Lake) -> None:
    with lake.transaction("serializable", properties={"job": "nightly"}) as tx:
        tx.table("shop.a").append(rows(1))
        tx.table("shop.b").append(rows(1))
    log = lake.log()
    assert [entry.version for entry in log] == [4, 3, 2, 1, 0]
    (transaction,) = log[0].transactions
    assert (transaction.id, transaction.isolation, transaction.base) == (tx.id, "serializable", 3)
    assert (transaction.outcome, transaction.properties) == ("committed", {"job": "nightly"})
    assert [said(entry) for entry in log] == [
        ["changed table shop.a", "changed table shop.b"],
        ["added table shop.b"],
        ["added table shop.a"],
        ["added namespace shop"],
        [],
    ]
    assert log[4].summary == "created the lake"


def test_each_kind_of_change_has_its_name(lake: Lake) -> None:
    start = lake.version
    lake.rename_table("shop.a", "shop.z")
    lake.run(lambda tx: tx.set_properties("shop.z", {"owner": "me"}))
    lake.run(lambda tx: tx.alter_namespace("shop", {"owner": "me"}))
    lake.run(lambda tx: tx.create_view("shop.v", "SELECT 1"))
    lake.run(lambda tx: tx.drop_view("shop.v"))
    lake.drop_table("shop.z")
    lake.tag("nightly")
    lake.untag("nightly")
    with lake.transaction(stream="orders", epoch=0) as tx:
        tx.table("shop.b").append(rows(1))
    put_row(lake, retention_key("all"), RetentionRow(maximum_age_millis=1))
    assert [said(entry) for entry in reversed(lake.log(since=start))] == [
        ["renamed table shop.a to shop.z"],
        ["changed table shop.z"],
        ["changed namespace shop"],
        ["added view shop.v"],
        ["dropped view shop.v"],
        ["dropped table shop.z"],
        ["added tag nightly"],
        ["dropped tag nightly"],
        ["changed table shop.b", "added stream orders"],
        ["added retention all"],
    ]
    (changed,) = lake.log(since=start)[8].objects
    assert changed.properties == {"owner": (None, "me")}
    assert changed.as_dict()["properties"] == {"owner": [None, "me"]}


def test_an_expiry_is_told_in_words(lake: Lake) -> None:
    for number in range(3):
        lake.table("shop.a").append(rows(number))
    lake.expire(older_than=0, keep=1)
    assert lake.log(1)[0].summary == "gave up old versions"
    lake.table("shop.a").append(rows(4))
    lake.expire(older_than=0, keep=1)
    assert lake.log(1)[0].summary == "gave up old versions"


def test_an_entry_is_found_by_its_time() -> None:
    runtime = Runtime.seeded(0)
    lake = seiche.create(DictStore(runtime=runtime), runtime=runtime)
    for number in range(5):
        runtime.clock.sleep(1)
        lake.create_namespace(f"n{number}")
    log = list(lake.log())
    assert [entry.time - log[-1].time for entry in log] == [timedelta(seconds=seconds) for seconds in range(5, -1, -1)]
    for entry in log:
        for later in (timedelta(0), timedelta(microseconds=999_999)):
            found = open_lake(lake.store, as_of=entry.time + later, runtime=runtime)
            assert found.version == entry.version
        assert entry.storage_time == entry.time
        assert abs(entry.created_at - entry.time) < timedelta(milliseconds=10)
    with pytest.raises(NotFound):
        open_lake(lake.store, as_of=log[-1].time - timedelta(microseconds=1), runtime=runtime)
    assert [one.version for one in lake.log(since=log[2].time)] == [5, 4]


def test_since_a_time_whose_version_has_expired_lists_what_came_after_it() -> None:
    """It listed everything, as if there had been no lake at that time."""
    runtime = Runtime.seeded(0)
    lake = seiche.create(DictStore(runtime=runtime), runtime=runtime)
    for number in range(5):
        runtime.clock.sleep(1)
        lake.create_namespace(f"n{number}")
    time = lake.log()[2].time
    runtime.clock.sleep(3600)
    lake.expire(older_than="1m", keep=1)
    with pytest.raises(NotFound, match="version 3 of the lake has expired"):
        open_lake(lake.store, as_of=time, runtime=runtime)
    assert [one.version for one in lake.log(since=time)] == [6, 5, 4]
    with pytest.raises(NotFound, match="version 3 of the lake has expired"):
        lake.tag("then", time)


def test_limit_and_since(lake: Lake) -> None:
    lake.tag("early", 1)
    lake.table("shop.a").append(rows(1))
    newest = lake.version
    assert [one.version for one in lake.log(2)] == [newest, newest - 1]
    assert [one.version for one in lake.log(limit=1, since=1)] == [newest]
    assert [one.version for one in lake.log(since="early")] == list(range(newest, 1, -1))
    assert len(lake.log(since=datetime(2001, 1, 1, tzinfo=UTC))) == newest + 1
    assert list(lake.log(0)) == list(lake.log(since=newest)) == []
    with pytest.raises(InvalidInput, match="-1 versions"):
        lake.log(-1)
    with pytest.raises(InvalidInput, match="-1 is not a version"):
        lake.log(since=-1)
    with pytest.raises(NotFound, match="no tag 'late'"):
        lake.log(since="late")


def test_it_is_a_sequence(lake: Lake) -> None:
    lake.tag("second", 2)
    log = lake.log()
    assert log[-1].version == 0
    assert [one.version for one in log[1:3]] == [3, 2]
    assert log[2].tags == ("second",)
    assert log[1].tags == ()
    with pytest.raises(IndexError):
        log[5]
    assert repr(log[3]).startswith("<version 1, 20")
    assert repr(log).splitlines()[0] == "<log of 5 versions>"
    assert "[second]" in repr(log)
    for number in range(10):
        lake.create_namespace(f"n{number}")
    assert repr(lake.log()).splitlines()[-1] == "  and 5 more"


def test_a_log_does_not_grow_and_a_pinned_lake_has_its_own(lake: Lake) -> None:
    log = lake.log()
    lake.table("shop.a").append(rows(1))
    assert len(log) == 4
    old = open_lake(lake.store, version=2)
    assert [one.version for one in old.log()] == [2, 1, 0]
    assert old.log()[0].time == lake.log()[2].time


def test_roots_are_read_as_the_log_is_gone_through() -> None:
    runtime = Runtime.seeded(0)
    inner = DictStore(runtime=runtime)
    lake = seiche.create(inner, runtime=runtime)
    for number in range(60):
        lake.create_namespace(f"n{number}")
    store = CountingStore(inner)
    log = open_lake(store, runtime=runtime).log()
    store.reset()
    assert len(log) == 61
    assert sum(store.counts.values()) == 0
    next(iter(log))
    assert store.counts["get"] <= 18
    assert said(log[40]) == ["added namespace n19"]
    assert len(list(log)) == 61


def test_an_expired_version_says_who_and_when_but_not_what(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    lake.rename_table("shop.b", "shop.c")
    before = list(lake.log())
    bury(lake, 3, 4)
    after = list(lake.log())
    for version in (3, 4):
        old, new = before[-1 - version], after[-1 - version]
        assert new.expired_at is not None
        assert new.summary.startswith("expired at 20")
        assert [one.id for one in new.transactions] == [one.id for one in old.transactions]
        assert [one.objects for one in new.transactions] == [None]
        assert (new.time, new.created_at) == (old.time, old.created_at)
    # What a version after a tombstone did is known from itself alone: a rename is a drop and a change.
    assert said(after[0]) == ["dropped table shop.b", "changed table shop.c"]
    assert said(after[4]) == said(before[4]) == ["added namespace shop"]
    assert after[0].as_dict()["expired_at"] is None


def test_aborted_and_grouped_transactions(lake: Lake) -> None:
    lake.settle("00000000-0000-4000-8000-000000000000")
    assert lake.log(1)[0].summary == "aborted 1 transaction"
    members = []
    for name in ("shop.a", "shop.b"):
        tx = lake.transaction()
        tx.table(name).append(rows(1))
        members.append(tx.intent())
    lake._committer.commit_group([one for one in members if one is not None])
    entry = lake.log(1)[0]
    assert [[str(one) for one in each.objects or ()] for each in entry.transactions] == [
        ["changed table shop.a"],
        ["changed table shop.b"],
    ]
    assert ids(lake, "shop.a") == [1]


def test_change_sets_in_a_file_of_their_own_are_read_from_there() -> None:
    runtime = Runtime.seeded(0)
    lake = seiche.create(DictStore(runtime=runtime), runtime=runtime)
    with lake.transaction() as tx:
        for number in range(400):
            tx.create_namespace(f"{number:0100}")
    assert lake.state().root.transactions_file is not None
    entry = lake.log(1)[0]
    assert len(entry.objects) == 400
    assert entry.summary.endswith("and 395 more")


def test_json_has_everything(lake: Lake) -> None:
    lake.create_table("shop.c", SCHEMA)
    shown = lake.log(1)[0].as_dict()
    assert shown["version"] == 4
    assert shown["transactions"][0]["objects"] == [  # type: ignore[index]
        {"action": "added", "kind": "table", "name": "shop.c"}
    ]
