"""Roots, their transactions, and the lake's definition."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.format_pb2 import LakehouseDef, Transaction, Transactions
from seiche.lake.tree import definition, node_file, transactions
from seiche.lake.tree.definition import LakeDefinition
from seiche.lake.tree.node import Node
from seiche.lake.tree.root import Root, micros, millis
from seiche.lake.tree.timeline import version_at
from seiche.lake.tree.transactions import TransactionRecord
from seiche.testing import CountingStore, DictStore
from tests.unit.lake.roots import a_root, chain

NOW = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)

RECORDS = (
    TransactionRecord("t1", 6, "serializable", "committed", (b"a", b"b"), {"user": "ann"}),
    TransactionRecord("t2", 5, "snapshot", "aborted"),
)


def full() -> Root:
    return a_root(
        7,
        node=Node(0, (b"k",), (b"v",), (), {b"m": (b"x", "t1")}),
        prev_storage_micros=123,
        prev_eff_micros=456,
        min_base=3,
        transactions=RECORDS,
        rollback_from=6,
        rollback_to=2,
    )


@pytest.mark.parametrize(
    "root", [a_root(0), a_root(1), full(), full().tombstone(NOW)], ids=["0", "1", "full", "expired"]
)
def test_a_root_reads_back_as_it_was_written(root: Root) -> None:
    assert Root.decode(root.encode(16), root.version) == root


def test_a_root_under_another_name_is_refused() -> None:
    with pytest.raises(Corrupt, match="says that it is version 7"):
        Root.decode(full().encode(16), 8)


@pytest.mark.parametrize(
    "missing", ["version", "root_id", "lakehouse_def", "min_base", "transactions", "previous_root"]
)
def test_a_root_without_one_of_its_rows_is_refused(missing: str) -> None:
    node, rows = node_file.decode(full().encode(16), "x")
    del rows[missing]
    with pytest.raises(Corrupt, match="not a sound root of version 7"):
        Root.decode(node_file.encode(node, rows, 16), 7)


def test_unknown_system_rows_are_ignored_but_a_newer_format_is_not_read() -> None:
    node, rows = node_file.decode(full().encode(16), "x")
    assert Root.decode(node_file.encode(node, {**rows, "colour": b"blue"}, 16), 7) == full()
    with pytest.raises(Corrupt, match="in format 2") as caught:
        Root.decode(node_file.encode(node, {**rows, "format_version": b"2"}, 16), 7)
    assert "newer release" in caught.value.remedy


def test_times_never_go_back_and_a_wrong_storage_time_cannot_poison_them() -> None:
    first = a_root(0, created_at_millis=millis(NOW))
    second = first.successor(first.node, root_id="b", now=NOW, storage_time=NOW)
    assert second.created_at_millis == millis(NOW) + 1
    assert second.prev_storage_micros == second.prev_eff_micros == micros(NOW)
    far = NOW + timedelta(days=20_000)
    third = second.successor(second.node, root_id="c", now=NOW + timedelta(seconds=5), storage_time=far)
    assert third.prev_storage_micros == micros(far)
    assert third.prev_eff_micros == micros(NOW + timedelta(seconds=5))
    early = NOW - timedelta(days=1)
    fourth = third.successor(third.node, root_id="d", now=early, storage_time=early)
    assert fourth.prev_eff_micros == third.prev_eff_micros
    assert fourth.created_at_millis == third.created_at_millis + 1


def test_a_tombstone_keeps_ids_outcomes_and_times_but_no_content() -> None:
    gone = Root.decode(full().tombstone(NOW).encode(16), 7)
    assert [(one.id, one.outcome) for one in gone.transactions] == [("t1", "committed"), ("t2", "aborted")]
    assert (gone.prev_eff_micros, gone.min_base, gone.root_id) == (456, 3, "root-7")
    assert gone.node == Node()
    assert gone.transactions[0].keys is None
    with pytest.raises(NotFound, match="version 7 of the lake has expired"):
        gone.live()
    assert full().live() == full()


def test_large_change_sets_stand_in_a_side_file_and_ids_still_in_the_root() -> None:
    store, runtime = DictStore(), Runtime.seeded(1)
    large = tuple(TransactionRecord(f"t{n}", 6, keys=tuple(b"key%06d" % i for i in range(3000))) for n in range(3))
    kept, side_file, files = transactions.stow(large, runtime)
    store.put_many(files)
    root = Root.decode(a_root(7, transactions=kept, transactions_file=side_file).encode(16), 7)
    assert len(root.encode(16)) < 4096
    assert root.ids == {"t0", "t1", "t2"}
    assert root.transactions_file is not None
    assert transactions.load(store, root.transactions_file) == large
    assert transactions.stow(RECORDS, runtime) == (RECORDS, None, {})


def test_a_damaged_or_missing_side_file_is_noticed() -> None:
    store, runtime = DictStore(), Runtime.seeded(1)
    _, side_file, files = transactions.stow(RECORDS, runtime, inline=0)
    assert side_file is not None
    with pytest.raises(Corrupt, match="is missing"):
        transactions.load(store, side_file)
    ((path, data),) = files.items()
    store.put(path, data[:-1] + b"?")
    with pytest.raises(Corrupt, match="has the checksum"):
        transactions.load(store, side_file)
    with pytest.raises(Corrupt, match="cannot be read"):
        transactions.unpack(b"\xff\xff", "x")


@pytest.mark.parametrize("number", [-1, 2])
@pytest.mark.parametrize("name", ["isolation", "outcome"])
def test_an_isolation_or_outcome_that_nobody_knows_is_damage_and_never_taken_for_another(
    name: str, number: int
) -> None:
    message = Transactions(transactions=[Transaction(id="t", base_version=1)])
    setattr(message.transactions[0], name, number)
    with pytest.raises(Corrupt, match="the transactions in x cannot be read"):
        transactions.unpack(message.SerializeToString(), "x")


def test_the_definition_fills_in_every_default() -> None:
    bare = LakeDefinition.decode(LakehouseDef(id="x").SerializeToString(), "d")
    assert bare == LakeDefinition(id="x")
    assert (bare.order, bare.node_file_max_size_bytes, bare.namespace_name_max_size_bytes) == (128, 1 << 20, 100)
    assert (bare.maximum_version_age_millis, bare.minimum_versions_to_keep) == (7 * 86_400_000, 3)
    assert bare.table_formats == ("lance", "iceberg")


def test_the_definition_survives_a_rewrite_with_all_it_does_not_know() -> None:
    newer = LakehouseDef(id="x", order=16, properties={"a": "b"}).SerializeToString() + bytes([0xF8, 0x3F, 7])
    read = LakeDefinition.decode(newer, "d")
    assert read.order == 16
    again = replace(read, properties={"c": "d"}).encode()
    assert again.endswith(bytes([0xF8, 0x3F, 7]))
    assert LakeDefinition.decode(again, "d") == replace(read, properties={"c": "d"})


def test_a_definition_that_cannot_be_used_is_refused() -> None:
    store, runtime = DictStore(), Runtime.seeded(1)
    where, files = definition.stow(LakeDefinition(id="x"), runtime)
    store.put_many(files)
    assert definition.load(store, where) == LakeDefinition(id="x")
    with pytest.raises(Corrupt, match="checksum"):
        definition.load(store, where[:-8] + "00000000")
    for broken in (LakehouseDef(major_version=9), LakehouseDef(order=1), LakehouseDef(root_name_width=64)):
        with pytest.raises(Corrupt, match="not a lakehouse definition that can be used"):
            LakeDefinition.decode(broken.SerializeToString(), "d")
    with pytest.raises(InvalidInput, match="64 digits"):
        LakeDefinition(id="x", root_name_width=64)


def test_the_version_at_a_time_is_exact_at_between_before_and_after_commits() -> None:
    runtime = Runtime.seeded(1)
    store = CountingStore(DictStore(runtime=runtime))
    roots = chain(store, 40, runtime)
    times = [store.head(root.name).modified for root in roots]
    latest = roots[-1]
    runtime.clock.sleep(1)
    for version, time in enumerate(times):
        assert version_at(store, latest, time, runtime=runtime) == version
        assert version_at(store, latest, time + timedelta(milliseconds=500), runtime=runtime) == version
        if version:
            assert version_at(store, latest, time - timedelta(microseconds=1), runtime=runtime) == version - 1
    assert version_at(store, latest, times[-1] + timedelta(days=999), runtime=runtime) == 40
    with pytest.raises(NotFound, match="did not exist yet"):
        version_at(store, latest, times[0] - timedelta(microseconds=1), runtime=runtime)
    store.reset()
    version_at(store, latest, times[17], runtime=runtime)
    assert store.requests <= 7


def test_copying_a_lake_does_not_change_its_timeline() -> None:
    runtime = Runtime.seeded(1)
    store = DictStore(runtime=runtime)
    roots = chain(store, 10, runtime)
    times = [store.head(root.name).modified for root in roots]
    runtime.clock.sleep(10_000)
    copied = DictStore(runtime=runtime)
    for info in store.list():
        copied.put(info.path, store.get(info.path))
    for version, time in enumerate(times[:-1]):
        assert version_at(copied, roots[-1], time, runtime=runtime) == version
