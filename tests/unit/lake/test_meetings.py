"""Two transactions that meet: what the later one must notice, and what both must keep."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import Corrupt, Lake, NotFound, RetryableConflict, Unavailable
from seiche.core.runtime import SYSTEM, Runtime
from seiche.lake import transacting
from seiche.lake.care.fence import Fence
from seiche.lake.commit import committer as commit
from seiche.lake.commit.intent import Intent, Member
from seiche.lake.commit.made import Made
from seiche.lake.lake import open_lake
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.publish import Publisher
from seiche.lake.transaction import Transaction
from seiche.lake.tree.swap import stage
from seiche.store.base import Data, Store
from seiche.store.gate import Gate
from seiche.store.kept_turns import KeptTurns
from seiche.store.local import LocalStore
from seiche.store.prefix import below
from seiche.table.change import Change
from seiche.table.format.manifest_pb2 import UUID
from seiche.table.operations import MergedGeneration, Update
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.past import give_up

Statement = Callable[[Transaction], object]


def merge(tx: Transaction, table: str, data: pa.Table, on: str) -> None:
    tx.merge(table, data, on=on).when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda tx: tx.create_namespace("new"), lambda tx: tx.create_namespace("new")),
        (lambda tx: tx.alter_namespace("shop", {"a": "1"}), lambda tx: tx.alter_namespace("shop", {"b": "2"})),
        (lambda tx: tx.create_view("shop.v", "SELECT 1"), lambda tx: tx.create_view("shop.v", "SELECT 2")),
        (lambda tx: tx.rename_table("shop.a", "shop.x"), lambda tx: tx.rename_table("shop.a", "shop.y")),
        (lambda tx: tx.rename_table("shop.a", "shop.x"), lambda tx: tx.drop_table("shop.a")),
    ],
    ids=["namespace", "properties", "view", "renames", "rename and drop"],
)
def test_of_two_definitions_of_the_same_thing_the_second_has_to_look_again(
    lake: Lake, first: Statement, second: Statement
) -> None:
    one, other = lake.transaction(), lake.transaction()
    first(one)
    second(other)
    one.commit()
    before = lake.tables(), lake.namespaces()
    with pytest.raises(RetryableConflict):
        other.commit()
    assert (lake.tables(), lake.namespaces()) == before
    assert lake.fsck().ok


def created(tx: Transaction) -> None:
    tx.create_table("shop.x", SCHEMA)


TAKERS: dict[str, Statement] = {
    "a table": created,
    "a view": lambda tx: tx.create_view("shop.x", "SELECT 1"),
    "a renamed table": lambda tx: tx.rename_table("shop.a", "shop.x"),
    "another renamed table": lambda tx: tx.rename_table("shop.b", "shop.x"),
}


@pytest.mark.parametrize(("first", "second"), [pair for pair in product(TAKERS, TAKERS) if len({*pair}) > 1])
def test_a_name_that_somebody_else_has_taken_is_not_taken_from_him(lake: Lake, first: str, second: str) -> None:
    one, other = lake.transaction(), lake.transaction()
    TAKERS[first](one)
    TAKERS[second](other)
    one.commit()
    before = lake.tables(), lake.state().relation(("shop", "x"))
    with pytest.raises(RetryableConflict, match=r"taken meanwhile|changed by another"):
        other.commit()
    assert (lake.tables(), lake.state().relation(("shop", "x"))) == before
    assert lake.fsck().ok


def intent_of(tx: Transaction) -> Intent:
    found = tx.intent()
    assert found is not None
    return found


def test_a_fence_holds_whoever_is_committed_with_it(lake: Lake) -> None:
    slow = lake.transaction()
    slow.append("shop.a", rows(1))
    lake.table("shop.b").append(rows(2))
    quick = lake.transaction()
    quick.append("shop.b", rows(3))
    fence = Fence(str(SYSTEM.uuid()), lake.version, min_base=lake.version, write=lambda _: {})
    assert [answer.error for answer in lake.decide_group([fence, intent_of(quick)])] == [None, None]
    assert lake.state().root.min_base == quick.base
    with pytest.raises(RetryableConflict, match="given up"):
        slow.commit()


def test_what_an_attempt_has_written_the_next_one_does_not_write_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def noted(store: Store, files: Mapping[str, Data], **options: Any) -> None:
        written.extend(files)
        stage(store, files, **options)

    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    open_lake(lake.store).table("shop.b").append(rows(2))
    monkeypatch.setattr(commit, "stage", noted)
    tx.commit()
    assert len(written) == 1, "the manifest"


def test_who_has_lost_three_times_has_others_wait(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    turns = lake._committer.turns

    @contextmanager
    def noted() -> Iterator[None]:
        held.append(tried)
        with KeptTurns.held(turns):
            yield

    tried = 0

    def work(tx: Transaction) -> None:
        nonlocal tried
        tried += 1
        tx.append("shop.a", rows(tried))
        if tried < 5:
            raise RetryableConflict("somebody else was first")

    monkeypatch.setattr(turns, "held", noted)
    lake.run(work)
    assert held == [3, 4], "the fourth attempt, and the fifth"
    assert lake.table("shop.a").to_arrow()["id"].to_pylist() == [5]


def test_two_slow_runs_on_the_same_rows_both_get_through(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had lost began when the other was halfway through, and lost to that one again, each time. From the third
    attempt on the other waits; what a run does inside of itself waits for nobody.
    """
    monkeypatch.setattr(transacting, "_SLOW", 0.0)
    other, entered = open_lake(lake.store), Event()
    other.run(lambda tx: tx.append("shop.b", rows(9)))  # so that it is known to be slow
    tries: list[str] = []

    def ahead() -> None:
        def work(tx: Transaction) -> None:
            entered.set()
            tx.append("shop.a", rows(100))

        other.run(work)

    rival = Thread(target=ahead)

    def work(tx: Transaction) -> None:
        tries.append("begun")
        tx.append("shop.a", rows(len(tries)))
        if len(tries) < 3:
            raise RetryableConflict("somebody else was first")
        rival.start()
        assert not entered.wait(0.3), "who begins now waits until this one is through"
        lake.table("shop.b").append(rows(10))

    lake.run(work)
    rival.join(30)
    assert entered.is_set()
    assert lake.table("shop.a").to_arrow()["id"].to_pylist() == [3, 100]
    assert lake.table("shop.b").to_arrow()["id"].to_pylist() == [9, 10]


def test_a_slow_run_that_loses_waits_no_longer_than_it_may(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transacting, "_SLOW", 0.0)
    other = open_lake(lake.store)
    other.run(lambda tx: tx.append("shop.b", rows(9)))
    held, done = Event(), Event()

    def hold() -> None:
        with Gate(lake.store, SYSTEM).held():
            held.set()
            done.wait(30)

    holder = Thread(target=hold)
    holder.start()
    assert held.wait(30)
    try:
        other.run(lambda tx: tx.append("shop.a", rows(1)), timeout=0.1)
    finally:
        done.set()
        holder.join(30)
    assert lake.table("shop.a").to_arrow()["id"].to_pylist() == [1]


def test_a_member_of_a_group_answers_for_what_it_read_to_those_before_it(lake: Lake) -> None:
    one, other = (lake.transaction("serializable") for _ in range(2))
    one.table("shop.a").to_arrow()
    one.append("shop.b", rows(1))
    other.table("shop.b").to_arrow()
    other.append("shop.a", rows(1))
    first, second = lake.decide_group([intent_of(one), intent_of(other)])
    assert first.error is None
    assert isinstance(second.error, RetryableConflict)
    assert (ids(lake, "shop.a"), ids(lake, "shop.b")) == ([], [1])


def test_joined_transactions_are_taken_apart_if_one_of_them_was_decided_before(lake: Lake) -> None:
    done = lake.transaction()
    done.append("shop.a", rows(1))
    done.commit()
    both = lake.transaction()
    both.append("shop.b", rows(2))
    asked = intent_of(both)
    members = (Member(done.id, asked.base), Member(both.id, asked.base))
    joined = Intent(str(SYSTEM.uuid()), asked.base, edits=asked.edits, members=members)
    (answer,) = lake.decide_group([joined])
    assert isinstance(answer.error, RetryableConflict)
    assert answer.error.transaction_id == done.id
    assert ids(lake, "shop.b") == []


def test_a_group_that_outgrows_the_root_leaves_every_node_that_its_tree_needs() -> None:
    lake = seiche.create("memory://outgrown", settings={"order": 4, "root_buffer_max_size_bytes": 1000})
    lake.create_namespace("shop")
    made = []
    for group in range(4):
        members = []
        for number in range(6):
            tx = lake.transaction()
            name = f"shop.t{group}{number}"
            tx.create_table(name, SCHEMA)
            members.append(intent_of(tx))
            made.append(tuple(name.split(".")))
        assert [answer.error for answer in lake.decide_group(members)] == [None] * 6
    fresh = seiche.open("memory://outgrown")
    assert fresh.tables("shop") == sorted(made)
    found = fresh.fsck()
    assert found.ok
    assert found.nodes > 1


def test_a_compaction_of_own_rows_does_not_touch_rows_that_others_have_under_those_numbers(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    tx = lake.transaction()
    for number in (10, 11):
        tx.append("shop.a", rows(number))
    tx.table("shop.a").compact()
    lake.table("shop.a").append(rows(2))
    lake.table("shop.a").append(rows(3))
    with pytest.raises(RetryableConflict, match="compacted rows that it had added itself"):
        tx.commit()
    assert ids(lake, "shop.a") == [1, 2, 3]


def test_changes_of_compacted_rows_hold_only_while_the_content_is_what_it_was(lake: Lake) -> None:
    for number in (1, 2):
        lake.table("shop.a").append(rows(number))
    tx = lake.transaction()
    tx.table("shop.a").compact()
    tx.delete("shop.a", "id = 1")
    lake.table("shop.a").append(rows(3))
    with pytest.raises(RetryableConflict, match="depends on it"):
        tx.commit()
    assert ids(lake, "shop.a") == [1, 2, 3]


def test_keys_that_two_merges_of_a_transaction_inserted_are_all_looked_for(lake: Lake) -> None:
    """Under different columns there is no common filter for them: then nobody else may have changed the table."""
    lake.table("shop.a").append(rows(1, n=1))
    tx = lake.transaction()
    merge(tx, "shop.a", rows(10, n=10), on="id")
    merge(tx, "shop.a", rows(20, n=20), on="n")
    other = lake.transaction()
    merge(other, "shop.a", rows(21, n=20), on="id")
    other.commit()
    with pytest.raises(RetryableConflict):
        tx.commit()
    again = lake.transaction()
    merge(again, "shop.a", rows(30), on="id")
    merge(again, "shop.a", rows(31), on="id")
    other = lake.transaction()
    merge(other, "shop.a", rows(31), on="id")
    other.commit()
    with pytest.raises(RetryableConflict):
        again.commit()
    assert ids(lake, "shop.a") == [1, 21, 31]


def test_an_index_built_meanwhile_does_not_speak_for_values_that_several_statements_changed(lake: Lake) -> None:
    lake.table("shop.a").append(rows(*range(10)))
    building = lake.transaction()
    building.table("shop.a").create_index("n")
    with lake.transaction() as tx:
        tx.append("shop.a", rows(100, n=5))
        tx.table("shop.a").update({"n": "id + 50"}, where="id < 10", mode="columns")
    building.commit()
    found = lake.table("shop.a").to_arrow(filter="n = 53")
    assert found["id"].to_pylist() == [3]
    assert lake.table("shop.a").to_arrow(filter="n = 0").num_rows == 0


def test_generations_that_statements_merged_are_merged_by_what_they_add_up_to(lake: Lake) -> None:
    def merged(shard: bytes, number: int) -> Change:
        return Change(Update(merged_generations=(MergedGeneration(shard=UUID(uuid=shard * 16), generation=number),)))

    lake.table("shop.a").append(rows(1, 2))
    with lake.transaction() as tx:
        tx.delete("shop.a", "id = 1")
        for change in (merged(b"a", 2), merged(b"b", 7), merged(b"a", 3)):
            tx.table("shop.a").apply(change)
    for shard, number in ((b"a", 3), (b"b", 7)):
        with pytest.raises(seiche.InvalidInput, match=f"{number}"):
            lake.transaction().table("shop.a").apply(merged(shard, number))
        lake.transaction().table("shop.a").apply(merged(shard, number + 1))


def test_a_version_that_has_expired_is_not_restored_though_its_files_still_stand(lake: Lake) -> None:
    for number in range(3):
        lake.table("shop.a").append(rows(number))
    lake.expire(older_than=0, keep=1)
    with pytest.raises(NotFound, match="expired"):
        lake.table("shop.a").restore(2)
    assert ids(lake, "shop.a") == [0, 1, 2]


def test_a_version_that_expires_between_two_attempts_is_not_restored(lake: Lake) -> None:
    """The table is as it was; what must not be needed again is said elsewhere."""
    for number in range(3):
        lake.table("shop.a").append(rows(number))
    tx = lake.transaction()
    tx.table("shop.a").restore(2)
    give_up(open_lake(lake.store), *range(tx.base))  # its fence is in nobody's way, and their roots still stand
    with pytest.raises(NotFound, match="expired"):
        tx.commit()
    assert ids(lake, "shop.a") == [0, 1, 2]


def test_what_a_group_that_lost_was_planned_on_does_not_count_as_looked_at(lake: Lake) -> None:
    """The version that its first member would have made is another's now."""
    lake.table("shop.a").append(rows(1, 2))
    first, second = lake.transaction(), lake.transaction()
    first.append("shop.a", rows(3))
    second.delete("shop.a", "id = 1")
    open_lake(lake.store).table("shop.a").update({"n": "5"}, where="id = 1")
    added, deleted = lake.decide_group([intent_of(first), intent_of(second)])
    assert added.error is None
    assert isinstance(deleted.error, RetryableConflict)
    assert ids(lake, "shop.a") == [1, 2, 3]


def test_what_is_remembered_of_a_group_is_remembered_under_its_own_name(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    row = lake.table("shop.a").row
    assert row.manifest is not None
    before = replace(row.manifest, path="made by another member", sha256=bytes(32))
    data = below(lake.store, row.location).get(row.manifest.path)
    cache = ManifestCache()
    Made(replace(row, earlier=(before,)), staged=(data,)).remember(cache)
    assert cache.manifest(before) is None
    assert cache.manifest(row.manifest) is not None


def test_who_lost_against_a_version_that_is_not_published_yet_finds_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.table("shop.a").append(rows(1, 2))
    tx = lake.transaction()
    tx.delete("shop.a", "id = 1")
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", lambda *_, **__: None)
        open_lake(lake.store).table("shop.a").append(rows(3))
    tx.commit()
    assert ids(lake, "shop.a") == [2, 3]


def test_what_is_published_is_what_the_lake_decided_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publisher, "publish", lambda *_, **__: None)
    lake.table("shop.a").append(rows(1))
    monkeypatch.undo()
    row = lake.table("shop.a").row
    assert row.manifest is not None
    store = below(lake.store, row.location)
    other = below(lake.store, lake.table("shop.b").row.location)
    theirs = lake.table("shop.b").row.manifest
    assert theirs is not None
    store.put(row.manifest.path, other.get(theirs.path))
    with pytest.raises(Corrupt, match="is not the manifest that the lake decided on"):
        Publisher(lake.store, SYSTEM).publish(row)


def test_files_that_cannot_be_flushed_are_known_before_a_federated_table_is_changed(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = seiche.Table.create(str(tmp_path_factory.mktemp("other") / "t"), SCHEMA)
    lake.register_table("shop.fed", other.uri, type="federated")
    tx = lake.transaction()
    tx.append("shop.a", rows(1))
    tx.append("shop.fed", rows(1))

    def refused(*_: object) -> int:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(LocalStore, "flush", refused)
    with pytest.raises(Unavailable, match="full"):
        tx.commit()
    assert seiche.Table.open(other.uri).version == 1


def test_work_that_takes_long_is_run_again_as_often_as_any() -> None:
    runtime, calls = Runtime.seeded(1), 0
    lake = seiche.create("memory://slow-work", runtime=runtime)
    lake.create_namespace("shop")

    def slow(tx: Transaction) -> None:
        nonlocal calls
        calls += 1
        tx.alter_namespace("shop", {"ours": str(calls)})
        with lake.transaction() as theirs:
            theirs.alter_namespace("shop", {"theirs": str(calls)})
        runtime.clock.sleep(600)

    with pytest.raises(RetryableConflict, match="tried 10 times") as raised:
        lake.run(slow)
    assert (calls, "`attempts=`" in raised.value.remedy) == (10, True)
    with pytest.raises(RetryableConflict, match="tried once") as raised:
        lake.run(slow, timeout=60)
    assert (calls, "`timeout=`" in raised.value.remedy) == (11, True)
