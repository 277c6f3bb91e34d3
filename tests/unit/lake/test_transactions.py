"""What a transaction of the lake promises, one promise a test."""

import errno
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    IncompatibleConflict,
    InvalidInput,
    Lake,
    NotFound,
    RetryableConflict,
    Unavailable,
)
from seiche.core.runtime import Runtime
from seiche.lake import streams
from seiche.lake.commit import committer as commit
from seiche.lake.transaction import Transaction
from seiche.lake.tree.names import root_name
from seiche.store import open_store
from seiche.store.base import Data
from seiche.store.local import LocalStore
from seiche.store.memory import MemoryStore
from seiche.testing import SimulatedStore
from tests.unit.lake.conftest import SCHEMA, ids, rows


def test_all_tables_change_at_once_or_not_at_all(lake: Lake) -> None:
    before = lake.version
    with lake.transaction() as tx:
        tx.table("shop.a").append(rows(1, 2))
        tx.table("shop.b").append(rows(3))
        assert ids(lake, "shop.a") == ids(lake, "shop.b") == []
    assert tx.version == lake.version == before + 1
    assert ids(lake, "shop.a") == [1, 2]
    assert ids(lake, "shop.b") == [3]


def test_an_error_in_the_block_rolls_everything_back(lake: Lake) -> None:
    before = lake.version
    tx = lake.transaction()

    def fail() -> None:
        with tx:
            tx.table("shop.a").append(rows(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert tx.status == "rolled back"
    assert lake.version == before
    assert ids(lake, "shop.a") == []


def test_a_transaction_sees_its_own_writes_and_one_version_of_everybody_elses(lake: Lake) -> None:
    tx = lake.transaction()
    lake.table("shop.a").append(rows(1))
    lake.create_table("shop.new", SCHEMA)
    tx.table("shop.a").append(rows(2))
    assert tx.table("shop.a").to_arrow()["id"].to_pylist() == [2]
    with pytest.raises(NotFound):
        tx.table("shop.new")
    assert tx.tables("shop") == [("shop", "a"), ("shop", "b")]
    tx.commit()
    assert ids(lake, "shop.a") == [1, 2]


def test_a_failed_statement_leaves_the_transaction_usable(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("shop.a").append(rows(1))
        with pytest.raises(InvalidInput):
            tx.table("shop.a").append(pa.table({"nonsense": [1]}))
        with pytest.raises(InvalidInput):
            tx.table("shop.a").delete("no such column = 3")
        tx.table("shop.a").append(rows(2))
    assert ids(lake, "shop.a") == [1, 2]


def test_many_statements_on_one_table_are_one_version_of_it(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2, 3))
    before = lake.table("shop.a").version
    with lake.transaction() as tx:
        tx.table("shop.a").append(rows(4, 5))
        tx.table("shop.a").delete("id = 5 or id = 1")
        tx.table("shop.a").update({"n": "n + 7"}, where="id = 2")
        tx.table("shop.a").append(rows(6))
    found = lake.table("shop.a").to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [2, 3, 4, 6], "n": [7, 0, 0, 0]}
    assert lake.table("shop.a").version == before + 1


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_statements_are_rebased_as_a_chain(lake: Lake, stable_row_ids: bool) -> None:
    """Rule 8: others commit first, so own fragments, deletions of own rows and row ids get other numbers."""
    lake.create_table("shop.c", SCHEMA, stable_row_ids=stable_row_ids)
    lake.table("shop.c").append(rows(1, 2, 3))
    tx = lake.transaction()
    tx.table("shop.c").append(rows(10, 11, 12))
    tx.table("shop.c").delete("id = 11 or id = 1")
    tx.table("shop.c").update({"n": "n + 1"}, where="id = 12 or id = 2")
    lake.table("shop.c").append(rows(20, 21))
    lake.table("shop.c").delete("id = 3 or id = 21")
    tx.commit()
    found = lake.table("shop.c").to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [2, 10, 12, 20], "n": [1, 0, 1, 0]}
    plain = lance.dataset(lake.table("shop.c").uri)
    plain.validate()  # type: ignore[no-untyped-call]
    numbers = plain.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(numbers)) == 4
    lake.table("shop.c").append(rows(30))
    again = lance.dataset(lake.table("shop.c").uri).to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(again)) == 5


def test_deletions_of_own_rows_are_renamed_again_if_the_storage_gives_no_answer(lake: Lake) -> None:
    def commit(store: SimulatedStore, *numbers: int) -> SimulatedStore:
        tx = seiche.open(store).transaction()
        tx.append("shop.a", rows(*numbers, -1))
        tx.delete("shop.a", "id = -1")
        lake.table("shop.a").append(rows(0))
        tx.commit()
        return store

    calls = commit(SimulatedStore(lake.store), 1, 2).calls
    (number,) = [at for at, call in enumerate(calls, 1) if call.verb == "copy_if_absent"]
    # `CommitUnknown` would send people to ask for the outcome of a commit whose root was never put.
    assert commit(SimulatedStore(lake.store, plan={number: "after"}), 3, 4).injected
    assert ids(lake, "shop.a") == [0, 0, 1, 2, 3, 4]


def test_two_appends_to_one_table_both_commit(lake: Lake) -> None:
    one, other = lake.transaction("serializable"), lake.transaction("serializable")
    one.table("shop.a").append(rows(1))
    other.table("shop.a").append(rows(2))
    one.commit()
    other.commit()
    assert ids(lake, "shop.a") == [1, 2]


def test_deletes_of_different_rows_of_one_fragment_both_commit(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2, 3))
    one, other = lake.transaction(), lake.transaction()
    one.table("shop.a").delete("id = 1")
    other.table("shop.a").delete("id = 2")
    one.commit()
    other.commit()
    assert ids(lake, "shop.a") == [3]


def test_lost_update_is_impossible(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, n=5))
    one, other = lake.transaction(), lake.transaction()
    for tx in (one, other):
        tx.table("shop.a").update({"n": "n + 1"}, where="id = 1")
    one.commit()
    with pytest.raises(RetryableConflict) as caught:
        other.commit()
    assert "shop.a" in str(caught.value)
    assert other.status == "failed"
    assert lake.table("shop.a").to_arrow()["n"].to_pylist() == [6]


def test_run_repeats_what_can_be_repeated(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, n=5))
    calls = 0

    def increment(tx: seiche.lake.transaction.Transaction) -> None:
        nonlocal calls
        calls += 1
        tx.table("shop.a").update({"n": "n + 1"}, where="id = 1")
        if calls == 1:
            lake.table("shop.a").update({"n": "n * 10"}, where="id = 1")

    lake.run(increment)
    assert calls == 2
    assert lake.table("shop.a").to_arrow()["n"].to_pylist() == [51]


def test_run_says_how_often_it_was_outrun(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, n=5))

    def slow(tx: seiche.lake.transaction.Transaction) -> None:
        tx.table("shop.a").update({"n": "n + 1"}, where="id = 1")
        lake.table("shop.a").update({"n": "n * 10"}, where="id = 1")

    with pytest.raises(RetryableConflict, match="tried 3 times") as raised:
        lake.run(slow, attempts=3)
    assert "attempts=" in raised.value.remedy
    assert lake.table("shop.a").to_arrow()["n"].to_pylist() == [5000]


def write_skew(lake: Lake, isolation: str) -> None:
    """Each reads both tables and empties one, as long as the other has rows."""
    lake.table("shop.a").append(rows(1))
    lake.table("shop.b").append(rows(1))
    one, other = lake.transaction(isolation), lake.transaction(isolation)  # type: ignore[arg-type]
    assert one.table("shop.b").to_arrow().num_rows == other.table("shop.a").to_arrow().num_rows == 1
    one.table("shop.a").delete("true")
    other.table("shop.b").delete("true")
    one.commit()
    other.commit()


def test_write_skew_is_possible_under_snapshot_and_not_under_serializable(lake: Lake) -> None:
    write_skew(lake, "snapshot")
    assert ids(lake, "shop.a") == ids(lake, "shop.b") == []
    with pytest.raises(RetryableConflict, match="read by this transaction"):
        write_skew(lake, "serializable")
    assert ids(lake, "shop.b") == [1]


def _delete_nothing(tx: Transaction, table: str) -> bool:
    return tx.delete(table, "id = 1").changed


def _update_nothing(tx: Transaction, table: str) -> bool:
    return tx.update(table, {"n": "1"}, where="id = 1").changed


def _merge_nothing(tx: Transaction, table: str) -> bool:
    return tx.merge(table, rows(1), on="id").when_matched_update_all().execute().changed


@pytest.mark.parametrize("format", ["lance", "iceberg"])
@pytest.mark.parametrize("look", [_delete_nothing, _update_nothing, _merge_nothing])
def test_that_no_row_matched_is_something_that_was_read(
    lake: Lake, look: Callable[[Transaction, str], bool], format: str
) -> None:
    """Each leaves a mark in one table because it found none in the other: after one of them, none is missing."""
    for table in ("shop.left", "shop.right"):
        lake.create_table(table, SCHEMA, format=format)
    one, other = lake.transaction("serializable"), lake.transaction("serializable")
    assert not look(one, "shop.left")
    assert not look(other, "shop.right")
    one.append("shop.right", rows(1))
    other.append("shop.left", rows(1))
    one.commit()
    with pytest.raises(RetryableConflict, match="read by this transaction"):
        other.commit()


def test_compaction_does_not_fail_a_serializable_reader(lake: Lake) -> None:
    for number in range(4):
        lake.table("shop.a").append(rows(number))
    tx = lake.transaction("serializable")
    assert tx.table("shop.a").to_arrow().num_rows == 4
    tx.table("shop.b").append(rows(1))
    row = lake.table("shop.a").row
    lake.table("shop.a").compact()
    assert lake.table("shop.a").row.table_version > row.table_version
    assert lake.table("shop.a").row.logical_version == row.logical_version
    tx.commit()


def test_a_phantom_table_fails_a_serializable_lister(lake: Lake) -> None:
    tx = lake.transaction("serializable")
    assert len(tx.tables("shop")) == 2
    tx.table("shop.a").append(rows(1))
    lake.create_table("shop.c", SCHEMA)
    with pytest.raises(RetryableConflict):
        tx.commit()


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_overwriting_what_was_read_conflicts_with_any_change_of_it(lake: Lake, isolation: str) -> None:
    lake.table("shop.a").append(rows(1))
    tx = lake.transaction(isolation)  # type: ignore[arg-type]
    seen = tx.table("shop.a").to_arrow()
    tx.table("shop.a").overwrite(pa.concat_tables([seen, rows(2)]))
    lake.table("shop.a").append(rows(3))
    with pytest.raises(RetryableConflict):
        tx.commit()
    blind = lake.transaction(isolation)  # type: ignore[arg-type]
    blind.table("shop.a").overwrite(rows(9))
    lake.table("shop.a").append(rows(4))
    blind.commit()
    assert ids(lake, "shop.a") == [9]


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_a_table_cannot_land_in_a_dropped_namespace(lake: Lake, isolation: str) -> None:
    lake.create_namespace("doomed")
    tx = lake.transaction(isolation)  # type: ignore[arg-type]
    tx.create_table("doomed.t", SCHEMA)
    lake.drop_namespace("doomed")
    with pytest.raises(RetryableConflict, match="doomed"):
        tx.commit()
    lake.create_namespace("doomed")
    dropping = lake.transaction(isolation)  # type: ignore[arg-type]
    dropping.drop_namespace("doomed")
    lake.create_table("doomed.t", SCHEMA)
    with pytest.raises(RetryableConflict):
        dropping.commit()


def test_ddl_and_data_together(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.create_namespace("deep")
        tx.create_namespace("deep.er")
        made = tx.create_table("deep.er.t", SCHEMA)
        made.append(rows(1, 2))
        tx.rename_table("deep.er.t", "deep.er.u")
        tx.table("deep.er.u").delete("id = 1")
        tx.drop_table("shop.b")
        tx.rename_table("shop.a", "shop.b")
        assert tx.tables("shop") == [("shop", "b")]
    assert ids(lake, "deep.er.u") == [2]
    assert lake.tables("shop") == [("shop", "b")]
    assert lake.namespaces() == [("deep",), ("shop",)]
    assert lance.dataset(lake.table("deep.er.u").uri).version == 1


def test_a_view_is_made_and_dropped_without_a_transaction_of_ones_own(lake: Lake) -> None:
    lake.create_view("shop.v", "SELECT 1", properties={"owner": "me"})
    assert ("shop", "v") in lake.tables("shop")
    lake.drop_view("shop.v")
    assert ("shop", "v") not in lake.tables("shop")


def test_a_name_can_go_from_a_view_to_a_table_and_back_in_one_transaction(lake: Lake) -> None:
    lake.run(lambda tx: tx.create_view("shop.v", "SELECT 1"))
    with lake.transaction() as tx:
        tx.drop_view("shop.v")
        tx.create_table("shop.v", SCHEMA).append(rows(1))
        tx.drop_table("shop.a")
        tx.create_view("shop.a", "SELECT 2")
        assert tx.tables("shop") == [("shop", "a"), ("shop", "b"), ("shop", "v")]
        with pytest.raises(AlreadyExists, match=re.escape("shop.a")):
            tx.create_table("shop.a", SCHEMA)
        with pytest.raises(AlreadyExists, match=re.escape("shop.a")):
            tx.rename_table("shop.b", "shop.a")
    assert ids(lake, "shop.v") == [1]
    with pytest.raises(NotFound, match="is a view"):
        lake.table("shop.a")


def test_a_concurrent_rename_survives(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table("shop.a").append(rows(1))
    lake.rename_table("shop.a", "shop.z")
    tx.commit()
    assert ids(lake, "shop.z") == [1]
    with pytest.raises(NotFound):
        lake.table("shop.a")


def test_properties_that_others_set_meanwhile_survive(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table("shop.a").append(rows(1))
    tx.set_properties("shop.a", {"mine": "1"})
    with lake.transaction() as other:
        other.set_properties("shop.a", {"owner": "me"})
    tx.commit()
    assert lake.table("shop.a").row.properties == {"mine": "1", "owner": "me"}


def _skewed(tx: Transaction, read: str, write: str) -> None:
    assert tx.table(read).to_arrow().num_rows == 0
    tx.append(write, rows(1))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda tx: _skewed(tx, "shop.a", "shop.b"), lambda tx: _skewed(tx, "shop.b", "shop.a")),
        (lambda tx: tx.drop_namespace("empty"), lambda tx: tx.create_table("empty.t", SCHEMA)),
        (lambda tx: tx.create_table("empty.t", SCHEMA), lambda tx: tx.drop_namespace("empty")),
        (lambda tx: tx.create_table("shop.c", SCHEMA), lambda tx: (tx.tables("shop"), tx.append("shop.a", rows(1)))),
    ],
    ids=["write skew", "into a dropped namespace", "dropping what is not empty any more", "a table more than was seen"],
)
def test_what_a_member_of_a_group_has_read_is_checked_against_those_before_it(
    lake: Lake, first: Callable[[Transaction], object], second: Callable[[Transaction], object]
) -> None:
    """They began at the newest version, and nobody else has committed: only the group itself is in the way."""
    lake.create_namespace("empty")
    members = []
    for do in (first, second):
        tx = lake.transaction("serializable")
        do(tx)
        members.append(tx.intent())
    answers = lake.decide_group([member for member in members if member is not None])
    assert answers[0].error is None
    assert isinstance(answers[1].error, RetryableConflict)
    assert lake.fsck().ok


@pytest.mark.parametrize("indexed_first", [False, True])
def test_an_index_does_not_speak_for_values_that_another_transaction_changed_in_place(
    lake: Lake, indexed_first: bool
) -> None:
    """Both do more than that: several statements are one change, and an index follows another change."""
    lake.table("shop.a").append(rows(1, 2, 3, n=5))
    indexing, changing = lake.transaction(), lake.transaction()
    indexing.append("shop.a", rows(4, n=5))
    indexing.table("shop.a").create_index("n")
    changing.table("shop.a").update({"n": "6"}, where="id = 2", mode="columns")
    changing.append("shop.a", rows(7, n=5))
    for tx in (indexing, changing) if indexed_first else (changing, indexing):
        tx.commit()
    found = lake.table("shop.a").to_arrow(filter="n = 5")["id"].to_pylist()
    assert sorted(found) == [1, 3, 4, 7]
    assert lake.table("shop.a").to_arrow(filter="n = 6")["id"].to_pylist() == [2]


def test_a_table_that_was_dropped_before_it_was_published_comes_back_without_a_gap(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last version and its end were decided by one root, and whoever put that died right behind it."""
    lake.table("shop.a").append(rows(1))
    before = lake.version
    changing, dropping = lake.transaction(), lake.transaction()
    changing.table("shop.a").update_config({"set": "yes"})
    dropping.drop_table("shop.a")
    members = [one for one in (changing.intent(), dropping.intent()) if one is not None]
    with monkeypatch.context() as patch:
        patch.setattr(commit.Committer, "_follow_up", lambda self, group: None)
        assert [answer.error for answer in lake.decide_group(members)] == [None, None]
    again = seiche.open(lake.store)
    again.rollback(before)
    assert ids(again, "shop.a") == [1]
    again.table("shop.a").append(rows(2))
    assert [one["version"] for one in lance.dataset(again.table("shop.a").uri).versions()] == [1, 2, 3, 4, 5]
    assert again.fsck().ok


def test_a_dropped_and_made_again_table_is_another_table(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table("shop.a").append(rows(1))
    before = lake.table("shop.a").row
    lake.drop_table("shop.a")
    lake.create_table("shop.a", SCHEMA)
    after = lake.table("shop.a").row
    assert before.id != after.id
    assert before.location != after.location
    with pytest.raises(RetryableConflict, match="dropped"):
        tx.commit()
    assert ids(lake, "shop.a") == []


def test_one_name_is_given_once(lake: Lake) -> None:
    one, other = lake.transaction(), lake.transaction()
    one.create_table("shop.c", SCHEMA)
    other.create_table("shop.c", SCHEMA)
    one.commit()
    with pytest.raises(RetryableConflict, match="taken"):
        other.commit()
    with pytest.raises(AlreadyExists):
        lake.create_table("shop.c", SCHEMA)


def test_a_drop_does_not_swallow_what_was_written_meanwhile(lake: Lake) -> None:
    tx = lake.transaction()
    tx.drop_table("shop.a")
    lake.table("shop.a").append(rows(1))
    with pytest.raises(RetryableConflict, match="changed meanwhile"):
        tx.commit()
    assert ids(lake, "shop.a") == [1]


def test_a_long_transaction_sees_one_version_to_its_end(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2, 3))
    tx = lake.transaction()
    first = tx.table("shop.a").to_arrow()
    for number in range(16):
        lake.table("shop.a").append(rows(100 + number))
        lake.rename_table("shop.a", "shop.x")
        lake.create_table("shop.a", SCHEMA)
        lake.drop_table("shop.a")
        lake.rename_table("shop.x", "shop.a")
    lake.drop_table("shop.b")
    assert lake.version >= tx.base + 50
    assert tx.table("shop.a").to_arrow() == first
    assert tx.tables("shop") == [("shop", "a"), ("shop", "b")]


def test_a_repetition_under_a_key_sees_what_the_first_one_saw(lake: Lake) -> None:
    """So it makes and drops tables as the first one did, and has the same result."""
    lake.create_table("shop.old", SCHEMA)

    def work(tx: Transaction) -> list[str]:
        tx.create_table("shop.new", SCHEMA)
        tx.append("shop.new", rows(1))
        tx.drop_table("shop.old")
        return sorted(name[-1] for name in tx.tables("shop"))

    first = lake.run(work, key="once")
    lake.drop_table("shop.new")
    version = lake.version
    assert lake.run(work, key="once") == first
    assert lake.version == version, "and it was not done again"
    with lake.transaction(key="once") as tx:
        work(tx)
    assert tx.replayed


def test_the_same_key_applies_once(lake: Lake) -> None:
    versions = []
    for _ in range(3):
        with lake.transaction(key="load-2024-05-01") as tx:
            tx.table("shop.a").append(rows(1))
        versions.append(tx.version)
    assert len(set(versions)) == 1
    assert tx.replayed
    assert ids(lake, "shop.a") == [1]


def test_a_stream_commits_each_epoch_once_and_refuses_zombies(lake: Lake) -> None:
    def epoch(number: int, owner: str) -> int | None:
        with lake.transaction(stream="orders", epoch=number, owner=owner) as tx:
            tx.table("shop.a").append(rows(number))
        return tx.version

    first = epoch(0, "run-1")
    assert epoch(0, "run-1") == first
    epoch(1, "run-1")
    with pytest.raises(InvalidInput, match="epoch 1"):
        epoch(1, "run-2")
    epoch(2, "run-2")
    with pytest.raises(IncompatibleConflict, match="leftover"):
        epoch(3, "run-1")
    epoch(3, "run-2")
    with pytest.raises(IncompatibleConflict, match="leftover"):
        epoch(4, "run-1")
    assert ids(lake, "shop.a") == [0, 1, 2, 3]


def test_of_many_runs_of_a_stream_the_latest_are_remembered(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_RETIRED", 2)
    for number in range(5):
        with lake.transaction(stream="orders", epoch=number, owner=f"run-{number}") as tx:
            tx.table("shop.a").append(rows(number))
    for late in (2, 3):
        tx = lake.transaction(stream="orders", epoch=5, owner=f"run-{late}")
        tx.table("shop.a").append(rows(5))
        with pytest.raises(IncompatibleConflict, match="leftover"):
            tx.commit()
    assert ids(lake, "shop.a") == [0, 1, 2, 3, 4]


def test_a_status_is_told_and_can_be_forced(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table("shop.a").append(rows(1))
    assert lake.status(tx.id).outcome == "undecided"
    assert lake.settle(tx.id).outcome == "aborted"
    with pytest.raises(RetryableConflict, match="aborted"):
        tx.commit()
    assert ids(lake, "shop.a") == []
    done = lake.transaction()
    done.table("shop.a").append(rows(2))
    version = done.commit()
    assert lake.settle(done.id) == lake.status(done.id)
    assert (lake.status(done.id).outcome, lake.status(done.id).version) == ("committed", version)


def test_work_under_a_key_that_was_settled_is_not_run_again_and_again(lake: Lake) -> None:
    """Nobody was faster, and no attempt can do what was decided against."""
    lake.settle(lake.transaction(key="monday").id)
    tried = []

    def work(tx: Transaction) -> None:
        tried.append(tx.id)
        tx.append("shop.a", rows(1))

    with pytest.raises(RetryableConflict, match="was aborted in version") as caught:
        lake.run(work, key="monday")
    assert len(tried) == 1
    assert "another `key=`" in caught.value.remedy
    lake.run(work, key="tuesday")
    assert ids(lake, "shop.a") == [1]


def test_a_status_is_the_same_however_the_id_is_written(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.append("shop.a", rows(1))
    told = lake.status(tx.id)
    for written in (tx.id.upper(), tx.id.replace("-", ""), f"{{{tx.id}}}"):
        assert lake.status(written) == told
        assert lake.settle(written) == told
    assert lake.version == tx.version


def test_an_ended_transaction_says_so(lake: Lake) -> None:
    tx = lake.transaction()
    tx.commit()
    assert tx.version == lake.version
    for use in (tx.commit, tx.rollback, lambda: tx.table("shop.a"), lambda: tx.create_namespace("x")):
        with pytest.raises(InvalidInput, match="has ended"):
            use()


MISTAKES: dict[str, tuple[Callable[[Lake], object], str]] = {
    "no name": (lambda lake: lake.table(None), "None is not the name"),  # type: ignore[arg-type]
    "a number for a name": (lambda lake: lake.create_table(5, SCHEMA), "5 is not the name"),  # type: ignore[arg-type]
    "numbers in a name": (lambda lake: lake.table(("shop", 5)), "is not the name"),  # type: ignore[arg-type]
    "no schema": (lambda lake: lake.create_table("shop.new", None), "a table cannot be made of None"),
    "an empty key": (lambda lake: lake.transaction(key=""), "empty"),
    "no id of a transaction": (lambda lake: lake.settle("mine"), "'mine' is not the id"),
    "a tag for a time": (lambda lake: seiche.open(lake.uri, as_of="yesterday"), "is not a time"),  # type: ignore[arg-type]
    "an unknown column": (lambda lake: lake.table("shop.a").to_arrow(columns=["zz"]), r"No field named zz\.$"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named_and_change_nothing(lake: Lake, case: str) -> None:
    act, said = MISTAKES[case]
    version = lake.version
    with pytest.raises(InvalidInput) as caught:
        act(lake)
    assert re.search(said, caught.value.message)
    assert caught.value.remedy
    assert lake.version == version


def test_a_transaction_without_changes_makes_no_version(lake: Lake) -> None:
    before = lake.version
    with lake.transaction() as tx:
        tx.table("shop.a").to_arrow()
        assert not tx.table("shop.a").delete("id = 12345").changed
    assert (tx.version, lake.version) == (before, before)


def test_time_travel_by_version_and_by_time(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    version = lake.version
    lake.table("shop.a").append(rows(2))
    old = seiche.open(lake.store, version=version)
    assert ids(old, "shop.a") == [1]
    assert ids(lake, "shop.a") == [1, 2]
    with pytest.raises(InvalidInput, match="read-only"), old.transaction() as tx:
        tx.table("shop.a").append(rows(3))
    waiting = lake.transaction()
    waiting.append("shop.a", rows(4))
    waiting.save()
    files = sorted(info.path for info in lake.store.list())
    for change in (
        old.resume(waiting.id).commit,
        lambda: old.settle(waiting.id),
        lambda: old.expire(older_than=0, keep=1),
        lambda: old.gc(dry_run=False, grace=0, window=0),
    ):
        with pytest.raises(InvalidInput, match="read-only"):
            change()
    assert sorted(info.path for info in lake.store.list()) == files
    assert lake.status(waiting.id).outcome == "undecided"
    future = seiche.open(lake.store, as_of=datetime.now(UTC) + timedelta(days=1))
    assert future.version == lake.version
    with pytest.raises(NotFound):
        seiche.open(lake.store, as_of=datetime(2001, 1, 1, tzinfo=UTC))
    with pytest.raises(NotFound):
        seiche.open(lake.store, version=lake.version + 1)


@pytest.mark.parametrize("crowded", [False, True])
def test_data_files_last_before_the_root_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crowded: bool
) -> None:
    """Each is flushed once: while one waits for a turn, or together with what is staged."""
    store = open_store(str(tmp_path / "lake"), durability="os")
    lake = seiche.create(store)
    lake.create_namespace("shop")
    for name in "abc":
        lake.create_table(f"shop.{name}", SCHEMA)
    events: list[tuple[str, str]] = []
    put, put_own, flush = LocalStore.put_if_absent, LocalStore.put_own, LocalStore.flush

    def noted_put(self: LocalStore, path: str, data: Data, *, durable: bool = True) -> None:
        put(self, path, data, durable=durable)
        events.append(("put", path))

    def noted_put_own(self: LocalStore, path: str, data: Data) -> None:
        put_own(self, path, data)
        events.append(("put", path))

    def noted_flush(self: LocalStore, paths: Iterable[str]) -> int:
        given = list(paths)
        events.extend(("flush", path) for path in given)
        return flush(self, given)

    @contextmanager
    def crowded_turn(_: LocalStore, meanwhile: Callable[[], object]) -> Iterator[bool]:
        meanwhile()
        meanwhile()
        yield True

    monkeypatch.setattr(LocalStore, "put_if_absent", noted_put)
    monkeypatch.setattr(LocalStore, "put_own", noted_put_own)
    monkeypatch.setattr(LocalStore, "flush", noted_flush)
    if crowded:
        monkeypatch.setattr(LocalStore, "turn", crowded_turn)
    with lake.transaction() as tx:
        for name in "abc":
            tx.append(f"shop.{name}", rows(1))
    root = events.index(("put", root_name(lake.version)))
    written = [path for what, path in events if what == "put" and "/data/" in path]
    assert len(written) == 3
    for path in written:
        assert events.count(("flush", path)) == 1
        assert events.index(("put", path)) < events.index(("flush", path)) < root


def test_data_files_are_written_when_somebody_needs_them_and_at_the_latest_by_the_commit(lake: Lake) -> None:
    def written() -> int:
        return sum("/data/" in info.path for info in lake.store.list())

    tx = lake.transaction()
    for name in ("shop.a", "shop.b"):
        tx.append(name, rows(1))
    assert written() == 0
    assert tx.table("shop.a").to_arrow().num_rows == 1
    assert written() == 2
    tx.append("shop.b", rows(2))
    tx.append("shop.a", rows(2))
    assert [path for path in tx.unflushed if not lake.store.exists(path)] == []
    tx.commit()
    assert written() == 4
    assert ids(lake, "shop.a") == ids(lake, "shop.b") == [1, 2]
    tx = lake.transaction()
    tx.append("shop.a", rows(3))
    tx.rollback()
    assert written() == 4
    tx = lake.transaction()
    tx.append("shop.a", rows(3))
    assert tx.table("shop.b").schema == SCHEMA
    assert written() == 4
    assert tx.table("shop.a").schema == SCHEMA, "whoever looks at it may go to its files"
    assert written() == 5


def test_a_commit_whose_data_files_cannot_be_written_has_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put_own = LocalStore.put_own

    def failing(self: LocalStore, path: str, data: Data) -> None:
        if "/data/" in path:
            raise Unavailable("the disk is full")
        put_own(self, path, data)

    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.append("shop.b", rows(1))
    before = lake.version
    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "put_own", failing)
        with pytest.raises(Unavailable, match="full"):
            tx.commit()
    assert tx.status == "failed"
    with pytest.raises(InvalidInput, match="has ended"):
        tx.commit()
    assert lake.version == before
    assert ids(lake, "shop.a") == ids(lake, "shop.b") == []


@pytest.mark.parametrize("dies_at", range(1, 9))
def test_a_writer_that_dies_amid_a_file_harms_nobody(lake: Lake, monkeypatch: pytest.MonkeyPatch, dies_at: int) -> None:
    """Two data files, two manifests, the root, two published manifests, a hint: each may be there in part."""
    written = 0

    class Killed(BaseException):
        """Nothing that comes after the call has happened."""

    def dying(write: Callable[..., int]) -> Callable[..., int]:
        def half(fd: int, data: bytes | list[bytes], *place: int) -> int:
            nonlocal written
            written += 1
            if written < dies_at:
                return write(fd, data, *place)
            os.unlink = nothing  # type: ignore[assignment]
            part = data if isinstance(data, bytes) else b"".join(data)
            os_write(fd, part[: len(part) // 2])
            raise Killed

        return half

    def nothing(*_: object) -> None:
        raise Killed

    os_write = os.write
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.append("shop.b", rows(1))
    before = lake.version
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", os.unlink)  # so that it is put back
        for name in ("write", "writev", "pwrite"):
            patch.setattr(os, name, dying(getattr(os, name)))
        with pytest.raises(Killed):
            tx.commit()
    again = seiche.open(lake.uri)
    committed = again.version > before
    assert committed == (dies_at > 5)
    assert ids(again, "shop.a") == ids(again, "shop.b") == [1] * committed
    for name in ("shop.a", "shop.b"):
        again.table(name).append(rows(2))
        assert ids(again, name) == [1] * committed + [2]
    assert again.fsck().problems == ()
    dataset = lance.dataset(again.store.native_uri(again.table("shop.a").row.location))
    dataset.validate()  # type: ignore[no-untyped-call]
    assert dataset.count_rows() == 1 + committed


@pytest.mark.parametrize("how", ["too old", "read-only"])
def test_a_commit_that_is_refused_ends_the_transaction(lake: Lake, how: str) -> None:
    tx = lake.transaction() if how == "too old" else seiche.open(lake.uri, version=lake.version).transaction()
    tx.append("shop.a", rows(1))
    if how == "too old":
        tx.expires_at_millis = 1
    with pytest.raises((RetryableConflict, InvalidInput), match=r"older|read-only"):
        tx.commit()
    assert tx.status == "failed"
    assert ids(lake, "shop.a") == []


@pytest.mark.parametrize("part", ["/data/", "/_staged/"])
def test_a_commit_whose_files_the_disk_did_not_take_fails_once_and_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    lake = seiche.create(str(tmp_path / "lake"), durability="fsync")
    lake.create_namespace("shop")
    lake.create_table("shop.a", SCHEMA)
    before = lake.version
    flushed, failed = os.fsync, list[str]()

    def fails_once(fd: int) -> None:
        # The pages are clean afterwards: to flush the same file again succeeds, and the bytes are lost all the same.
        if part in (path := os.readlink(f"/proc/self/fd/{fd}")) and not failed:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flushed(fd)

    monkeypatch.setattr(os, "fsync", fails_once)
    with pytest.raises(Corrupt, match="did not take"):
        lake.table("shop.a").append(rows(1))
    assert failed
    assert lake.version == before
    lake.table("shop.a").append(rows(2))
    assert ids(lake, "shop.a") == [2]


def test_tables_swap_their_names_or_keep_them(lake: Lake) -> None:
    lake.create_table("shop.c", SCHEMA)
    before = {name: lake.table(name).row.id for name in ("shop.a", "shop.b", "shop.c")}
    with lake.transaction() as tx:
        with pytest.raises(AlreadyExists, match=re.escape("shop.c")):
            tx.rename_tables([("shop.a", "shop.b"), ("shop.b", "shop.c")])
        assert tx.table("shop.a").id == before["shop.a"], "a statement that fails changes nothing"
        with pytest.raises(AlreadyExists):
            tx.rename_table("shop.a", "shop.a")
        with pytest.raises(InvalidInput, match="several names"):
            tx.rename_tables([("shop.a", "shop.d"), ("shop.a", "shop.e")])
        tx.rename_tables([("shop.a", "shop.b"), ("shop.b", "shop.a")])
        tx.append("shop.a", rows(1))
    assert [lake.table(name).row.id for name in ("shop.b", "shop.a", "shop.c")] == list(before.values())
    assert ids(lake, "shop.a") == [1]


def test_no_statement_of_one_of_several_threads_is_lost(lake: Lake) -> None:
    lake.table("shop.a").append(rows(*range(40)))
    tx = lake.transaction()
    together = threading.Barrier(4)

    def work(number: int) -> None:
        for turn in range(4):
            together.wait()
            tx.delete("shop.a", f"id = {4 * number + turn}")
            tx.append("shop.b", rows(4 * number + turn))
            assert tx.table("shop.b").to_arrow().num_rows

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    tx.commit()
    assert ids(lake, "shop.a") == list(range(16, 40))
    assert ids(lake, "shop.b") == list(range(16))


def test_no_statement_of_a_thread_on_an_iceberg_table_is_lost(lake: Lake) -> None:
    lake.create_table("shop.ice", SCHEMA, format="iceberg")
    tx = lake.transaction()
    together = threading.Barrier(3)

    def work(number: int) -> None:
        for turn in range(2):
            together.wait()
            tx.append("shop.ice", rows(2 * number + turn))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, range(3)))
    tx.commit()
    assert ids(lake, "shop.ice") == list(range(6))


def test_a_statement_that_ends_after_its_transaction_is_told_so(lake: Lake) -> None:
    tx = lake.transaction()
    tx.append("shop.b", rows(1))

    def data() -> Iterator[pa.RecordBatch]:
        yield from rows(1).to_batches()
        tx.commit()
        yield from rows(2).to_batches()

    with pytest.raises(InvalidInput, match="has ended: committed"):
        tx.append("shop.a", pa.RecordBatchReader.from_batches(SCHEMA, data()))
    assert ids(lake, "shop.a") == []
    assert ids(lake, "shop.b") == [1]


def test_threads_of_a_transaction_write_each_of_its_files_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put_own = LocalStore.put_own
    written: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def slow_at_first(self: LocalStore, path: str, data: Data) -> None:
        first = not begun.is_set()
        begun.set()
        if first:
            assert go.wait(30)
        put_own(self, path, data)
        written.append(path)

    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.append("shop.b", rows(1))
    monkeypatch.setattr(LocalStore, "put_own", slow_at_first)
    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(tx.late.write)
        assert begun.wait(30)
        other = threads.submit(tx.late.write)
        wait([other], timeout=0.2)  # it would be done by now if it did not wait for the slow one
        go.set()
        other.result(30)
        assert len(written) == 2, "whoever asks for it finds everything written"
        slow.result(30)
    assert len(set(written)) == len(written) == 2
    tx.commit()
    assert ids(lake, "shop.a") == ids(lake, "shop.b") == [1]


def test_more_than_a_little_is_written_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seiche.lake.late_files._MOST_HELD", 1000)
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    assert tx.unflushed == []
    tx.append("shop.b", rows(1))
    assert len(tx.unflushed) == 2
    tx.commit()
    assert ids(lake, "shop.a") == ids(lake, "shop.b") == [1]


def test_a_commit_that_is_interrupted_does_not_claim_to_have_failed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    monkeypatch.setattr(commit, "write_hint", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        tx.commit()
    assert tx.status == "unknown"
    assert [tx.id in note for note in caught.value.__notes__] == [True]
    assert lake.status(tx.id).outcome == "committed"


def test_a_commit_that_nobody_can_tell_about_says_what_to_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise CommitUnknown("no answer came")

    lake = seiche.create("memory://untold", runtime=Runtime.seeded(1))
    tx = lake.transaction()
    tx.create_namespace("shop")
    monkeypatch.setattr(MemoryStore, "put_last", lost)
    with pytest.raises(CommitUnknown) as caught:
        tx.commit()
    assert lake.status(caught.value.transaction_id).outcome == "undecided"
    assert f"lake.status('{tx.id}')" in caught.value.remedy
    with pytest.raises(CommitUnknown) as unsettled:
        lake.settle(tx.id)
    assert unsettled.value.transaction_id == tx.id


def test_a_saved_transaction_is_continued_elsewhere(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1, 2))
    tx = lake.transaction("serializable")
    tx.table("shop.a").delete("id = 1")
    tx.create_table("shop.c", SCHEMA).append(rows(7))
    tx.rename_table("shop.b", "shop.d")
    saved = tx.save()
    tx.rollback()
    other = seiche.open(lake.store).resume(saved)
    assert other.table("shop.a").to_arrow()["id"].to_pylist() == [2]
    other.table("shop.c").append(rows(8))
    other.commit()
    assert (ids(lake, "shop.a"), ids(lake, "shop.c")) == ([2], [7, 8])
    assert lake.tables("shop") == [("shop", "a"), ("shop", "c"), ("shop", "d")]
    with pytest.raises(NotFound, match="no transaction"):
        lake.resume("00000000-0000-4000-8000-000000000000")


def test_a_group_writes_the_nodes_that_all_its_members_need() -> None:
    """Each member alone is more than the root has room for: every one of them sends some of the tree further down."""
    lake = seiche.create("memory://crowded", settings={"order": 4, "root_buffer_max_size_bytes": 300})
    members = []
    for number in range(12):
        tx = lake.transaction()
        tx.create_namespace(f"n{number}", {"about": "x" * 200})
        members.append(tx.intent())
    answers = lake.decide_group([one for one in members if one is not None])
    assert [one.error for one in answers] == [None] * 12
    again = seiche.open(lake.store)
    assert len(again.namespaces()) == 12
    assert again.fsck().ok


def test_a_saved_transaction_still_needs_the_namespace_that_it_makes_a_table_in(lake: Lake) -> None:
    lake.create_namespace("empty")
    tx = lake.transaction()
    tx.create_table("empty.t", SCHEMA)
    saved = tx.save()
    lake.drop_namespace("empty")
    with pytest.raises(RetryableConflict, match="empty"):
        lake.resume(saved).commit()


def test_a_saved_transaction_still_drops_a_namespace_only_if_it_is_empty(lake: Lake) -> None:
    lake.create_namespace("empty")
    tx = lake.transaction()
    tx.drop_namespace("empty")
    saved = tx.save()
    lake.create_table("empty.t", SCHEMA)
    with pytest.raises(RetryableConflict, match="empty"):
        lake.resume(saved).commit()


def test_a_saved_serializable_transaction_still_knows_what_it_read(lake: Lake) -> None:
    tx = lake.transaction("serializable")
    tx.table("shop.a").to_arrow()
    tx.table("shop.b").append(rows(1))
    tx.save()
    lake.table("shop.a").append(rows(1))
    with pytest.raises(RetryableConflict, match="read by this transaction"):
        seiche.open(lake.store).resume(tx.id).commit()


def test_plain_lance_reads_and_is_refused_as_a_writer(lake: Lake) -> None:
    """Rule 6."""
    path = lake.table("shop.a").uri
    early = lance.dataset(path)
    lake.table("shop.a").append(rows(1))
    plain = lance.dataset(path)
    assert plain.to_table()["id"].to_pylist() == [1]
    for handle in (early, plain):
        with pytest.raises(OSError, match="cannot be written"):
            lance.write_dataset(rows(2), handle, mode="append")
    with pytest.raises(OSError, match="cannot be written"):
        plain.delete("id = 1")
    assert ids(lake, "shop.a") == [1]


def test_a_compaction_in_a_transaction_does_not_bring_back_what_others_deleted(lake: Lake) -> None:
    """What follows the change of content is checked against others' commits as well as that change itself."""
    for number in range(4):
        lake.table("shop.a").append(rows(number))
    tx = lake.transaction()
    tx.table("shop.a").append(rows(10))
    tx.table("shop.a").compact()
    lake.table("shop.a").delete("id = 2")
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert ids(lake, "shop.a") == [0, 1, 3]


def test_compaction_and_content_in_one_transaction(lake: Lake) -> None:
    for number in range(4):
        lake.table("shop.a").append(rows(number))
    with lake.transaction() as tx:
        tx.table("shop.a").compact()
        tx.table("shop.a").delete("id = 2")
        tx.table("shop.a").append(rows(10))
        assert sorted(tx.table("shop.a").to_arrow()["id"].to_pylist()) == [0, 1, 3, 10]
    assert ids(lake, "shop.a") == [0, 1, 3, 10]
    with lake.transaction() as tx:
        tx.table("shop.a").append(rows(11))
        tx.table("shop.a").compact()
    assert ids(lake, "shop.a") == [0, 1, 3, 10, 11]
    lance.dataset(lake.table("shop.a").uri).validate()  # type: ignore[no-untyped-call]


def test_an_index_built_in_a_transaction_answers_rightly_when_others_commit_first(lake: Lake) -> None:
    """Rule 8: own fragments get other numbers, and an index must not be asked about the old ones."""
    lake.table("shop.a").append(rows(*range(100)))
    tx = lake.transaction()
    tx.table("shop.a").append(rows(*range(100, 200)))
    tx.table("shop.a").create_index("id", "BTREE")
    lake.table("shop.a").append(rows(*range(1000, 1100)))
    tx.commit()
    plain = lance.dataset(lake.table("shop.a").uri)
    for wanted in (5, 150, 1050):
        assert plain.to_table(filter=f"id = {wanted}")["id"].to_pylist() == [wanted]
    assert sorted(ids(lake, "shop.a")) == [*range(200), *range(1000, 1100)]


def test_an_index_built_before_values_change_in_the_same_transaction_does_not_answer_with_old_ones(lake: Lake) -> None:
    lake.table("shop.a").append(rows(*range(100)))
    with lake.transaction() as tx:
        tx.table("shop.a").create_index("n", "BTREE")
        tx.table("shop.a").update({"n": "id + 1000"}, mode="columns")
    plain = lance.dataset(lake.table("shop.a").uri)
    assert plain.to_table(filter="n = 1007")["id"].to_pylist() == [7]
    assert plain.to_table(filter="n = 0")["id"].to_pylist() == []
    with lake.transaction() as tx:
        tx.table("shop.a").create_index("id", "BTREE")
        tx.table("shop.a").overwrite(rows(1, 2))
    assert lance.dataset(lake.table("shop.a").uri).to_table(filter="id = 50").num_rows == 0
    assert ids(lake, "shop.a") == [1, 2]


def test_all_tables_are_listed_whatever_namespace_they_are_in(lake: Lake) -> None:
    lake.create_namespace("shop.eu")
    lake.create_namespace("empty")
    with lake.transaction() as tx:
        tx.create_table("shop.eu.c", SCHEMA)
        tx.drop_table("shop.b")
        assert tx.tables() == [("shop", "a"), ("shop", "eu", "c")]
        assert lake.tables() == [("shop", "a"), ("shop", "b")]
    assert lake.tables() == [("shop", "a"), ("shop", "eu", "c")]


def test_a_table_made_and_dropped_again_does_not_hide_a_conflict(lake: Lake) -> None:
    slow = lake.transaction()
    slow.create_table("shop.short", SCHEMA)
    slow.set_properties("shop.short", {"kept": "for a moment"})
    slow.drop_table("shop.short")
    slow.create_table("shop.wanted", SCHEMA)
    lake.create_table("shop.wanted", SCHEMA)
    with pytest.raises(RetryableConflict, match="the name was taken meanwhile"):
        slow.commit()


def test_a_transaction_has_one_block(lake: Lake) -> None:
    with lake.transaction() as tx:
        with pytest.raises(InvalidInput, match="has a block already"), tx:
            pass
        assert tx.status == "running"
    with pytest.raises(InvalidInput, match="has ended: committed"), tx:
        pass
