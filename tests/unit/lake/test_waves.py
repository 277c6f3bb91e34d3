"""How many requests of a commit, and of a read, have to wait for each other: what they take on a store far away."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

import seiche
from seiche import Lake, RetryableConflict
from seiche.lake.commit.committer import Answer, Committer
from seiche.lake.commit.intent import Intent
from seiche.store import open_store
from seiche.testing import CountingStore
from seiche.testing.wrapping import Call
from tests.unit.lake.conftest import SCHEMA, ids, rows

T = TypeVar("T")


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(open_store(str(tmp_path / "far"), durability="os"), far=True)


@pytest.fixture
def lake(store: CountingStore) -> Lake:
    lake = seiche.create(store)
    lake.create_namespace("shop")
    with lake.transaction() as tx:
        for number in range(10):
            tx.create_table(f"shop.t{number}", SCHEMA)
    append(lake, 10)
    store.reset()
    return lake


def append(lake: Lake, tables: int) -> None:
    with lake.transaction() as tx:
        for number in range(tables):
            tx.append(f"shop.t{number}", rows(number))


@pytest.mark.parametrize("tables", [1, 10])
def test_a_commit_is_four_waves_however_many_tables(lake: Lake, store: CountingStore, tables: int) -> None:
    # Whether anybody was faster; all files, and when the last root was written; the root; what plain readers read.
    append(lake, tables)
    assert store.waves == 4
    assert store.requests == 4 + 3 * tables


def test_after_the_commit_of_another_it_is_three_more(lake: Lake, store: CountingStore) -> None:
    append(seiche.open(store), 1)
    store.reset()
    # His root, his manifest, and one more look before the commit.
    append(lake, 1)
    assert store.waves == 7


def test_who_changes_the_same_tables_again_reads_what_another_made_of_them_at_once(
    lake: Lake, store: CountingStore
) -> None:
    append(seiche.open(store), 10)
    store.reset()
    append(lake, 10)
    # As of one table, and all the others.
    assert store.waves == 8


def test_what_is_at_hand_is_no_reason_to_look_at_all_tables_that_were_changed_together(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    monkeypatch.setattr("seiche.lake.handles.read_ahead", lambda *given: looked.append(given))
    append(lake, 10)
    append(lake, 10)
    assert not looked, "of a hundred tables it would be ten thousand looks"


@pytest.mark.parametrize("appends", [1, 10])
def test_appends_to_one_table_are_written_side_by_side(lake: Lake, store: CountingStore, appends: int) -> None:
    with lake.transaction() as tx:
        for number in range(appends):
            tx.append("shop.t0", rows(number))
    assert store.waves == 4
    assert store.requests == 6 + appends
    assert ids(lake, "shop.t0") == sorted([0, *range(appends)])


def test_who_looks_at_one_of_them_reads_that_one(lake: Lake, store: CountingStore) -> None:
    append(seiche.open(store), 10)
    store.reset()
    assert lake.table("shop.t0").to_arrow().num_rows == 2
    assert store.counts["get"] == 2, "the root, and the manifest"


@pytest.mark.parametrize("tables", [1, 10])
def test_a_commit_that_others_came_before_reads_what_they_made_at_once(
    lake: Lake, store: CountingStore, tables: int
) -> None:
    tx = lake.transaction()
    for number in range(tables):
        tx.append(f"shop.t{number}", rows(number))
    append(seiche.open(store), 10)
    store.reset()
    tx.commit()
    assert store.waves == 9
    assert store.counts["get"] == 2 + 2 * tables, "none that is not needed"


def test_a_manifest_that_is_missing_is_told_by_whoever_needs_it(lake: Lake, store: CountingStore) -> None:
    append(seiche.open(store), 10)
    row = seiche.open(store).table("shop.t7").row
    assert row.manifest is not None
    store.delete(f"{row.location}/{row.manifest.path}")
    append(lake, 7)
    with pytest.raises(seiche.Corrupt, match=row.manifest.path):
        append(lake, 8)


def test_opening_is_three(lake: Lake, store: CountingStore) -> None:
    # The hint, the root, and the definition of the lake.
    seiche.open(store)
    assert (store.waves, store.requests) == (3, 4)


def test_reading_what_others_wrote_asks_for_each_manifest_once(lake: Lake, store: CountingStore) -> None:
    table = seiche.open(store).table("shop.t0")
    store.reset()
    assert table.to_arrow().num_rows == 1
    assert (store.waves, store.counts["get"], store.writes) == (2, 1, 0)


def test_reading_with_an_index_looks_whether_the_version_is_published_but_does_not_publish_it(
    lake: Lake, store: CountingStore
) -> None:
    lake.table("shop.t0").create_index("id", "BTREE")
    table = seiche.open(store).table("shop.t0")
    store.reset()
    assert table.to_arrow(filter="id = 0").num_rows == 1
    assert (store.waves, store.counts["get"], store.writes) == (3, 2, 0)


def test_fsck_reads_the_versions_of_a_table_side_by_side(lake: Lake, store: CountingStore) -> None:
    def waves() -> int:
        store.reset()
        assert lake.fsck().ok
        return store.waves

    few = waves()
    for _ in range(10):
        append(lake, 1)
    assert waves() == few
    assert store.counts["get"] > 20


def test_a_difference_of_several_tables_takes_as_long_as_one(lake: Lake, store: CountingStore) -> None:
    before = lake.version
    for _ in range(4):
        append(lake, 3)
    store.reset()
    assert len(lake.diff(before, lake.version).tables) == 3
    # The two roots, both ends of each table, and what happened between.
    assert store.waves <= 5


def test_changes_read_the_versions_of_a_table_side_by_side_and_each_once(lake: Lake, store: CountingStore) -> None:
    def asked(versions: int) -> tuple[int, int]:
        for _ in range(versions):
            append(lake, 1)
        table = seiche.open(store).table("shop.t0")
        newest = table.version
        store.reset()
        found = table.changes(newest - versions)
        took = store.waves, store.requests
        assert len(found.to_arrow()) == versions
        return took

    (few, some), (many, more) = asked(2), asked(8)
    assert few == many
    assert more - some == 6


def test_pyiceberg_is_told_the_size_of_what_it_just_wrote(tmp_path: Path) -> None:
    asked: list[Call] = []

    class Noting(CountingStore):
        def _call(self, call: Call, act: Callable[[], T]) -> T:
            asked.append(call)
            return super()._call(call, act)

    lake = seiche.create(Noting(open_store(str(tmp_path / "lake"), durability="os"), far=True))
    lake.create_namespace("shop")
    lake.iceberg_catalog().create_table("shop.trips", SCHEMA).append(rows(1, 2))
    heads = [call.path for call in asked if call.verb == "head"]
    assert heads
    assert not [path for path in heads if path.endswith((".parquet", ".avro"))]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_what_a_commit_that_lost_was_to_write_is_there_for_the_next_attempt(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, one_by_one: bool
) -> None:
    commit = Committer.commit

    def lost(self: Committer, intent: Intent) -> Answer:
        monkeypatch.setattr(Committer, "commit", commit)
        assert intent.unwritten
        raise RetryableConflict("others were faster")

    monkeypatch.setattr(Committer, "commit", lost)
    # Rows that come one by one cannot be read again: the second attempt names the files of the first.
    data = rows(5)
    lake.table("shop.t0").append(iter(data.to_batches()) if one_by_one else data)
    assert lake.fsck(deep=True).ok
    assert ids(lake, "shop.t0") == [0, 5]


@pytest.mark.parametrize("fragments", [2, 8])
def test_deletions_of_many_fragments_are_compared_side_by_side(
    lake: Lake, store: CountingStore, fragments: int
) -> None:
    with lake.transaction() as tx:
        for _ in range(fragments):
            tx.append("shop.t1", rows(1, 2, 3, 4))
    lake.table("shop.t1").delete("id = 1")
    store.reset()
    with lake.transaction() as tx:
        tx.delete("shop.t1", "id = 2")
        tx.delete("shop.t1", "id = 3")
    # Twice what is deleted now and what is to be; both together, before and after; and the commit, as always.
    assert store.waves == 10
    assert ids(lake, "shop.t1") == [4] * fragments
