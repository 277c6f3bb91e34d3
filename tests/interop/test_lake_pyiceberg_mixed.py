"""PyIceberg and pylance inside one transaction of a lake: all of it or nothing, whoever else writes."""

import threading
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

import seiche
from seiche import Lake, RetryableConflict
from seiche.lake.transaction import Transaction

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def rows(*ids: int, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=SCHEMA)


def ids(lake: Lake, table: str) -> list[int]:
    return sorted(lake.table(table).to_arrow()["id"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(str(tmp_path / "lake"), durability="os")
    made.create_namespace("shop")
    with made.transaction() as tx:
        for name in ("merged", "indexed"):
            tx.create_table(f"shop.{name}", SCHEMA).append(rows(*range(5)))
        for name in ("i", "j"):
            tx.create_table(f"shop.{name}", SCHEMA, format="iceberg").append(rows(1))
    return made


def work(tx: Transaction, mark: int) -> None:
    """A merge and an index by pylance, two appends by PyIceberg."""
    merging = tx.table("shop.merged").to_lance().merge_insert("id")
    merging.when_matched_update_all().when_not_matched_insert_all().execute(rows(1, mark, n=7))
    tx.table("shop.indexed").to_lance().create_scalar_index("id", "BTREE")
    catalog = tx.iceberg_catalog()
    catalog.load_table("shop.i").append(rows(mark))
    catalog.load_table("shop.j").append(rows(mark, mark + 1))


def everything(lake: Lake) -> list[list[int]]:
    return [ids(lake, f"shop.{name}") for name in ("merged", "indexed", "i", "j")]


def test_rolled_back_and_then_committed(lake: Lake) -> None:
    before, version = everything(lake), lake.version
    tx = lake.transaction()
    work(tx, 50)
    assert ids_in(tx, "shop.i") == [1, 50]
    assert ids_in(tx, "shop.merged") == [0, 1, 2, 3, 4, 50]
    assert everything(lake) == before
    tx.rollback()
    assert everything(lake) == before
    assert lake.version == version
    with lake.transaction() as tx:
        work(tx, 60)
        assert everything(lake) == before
    assert lake.version == version + 1
    assert everything(lake) == [[0, 1, 2, 3, 4, 60], [0, 1, 2, 3, 4], [1, 60], [1, 60, 61]]
    assert [one.name for one in lake.table("shop.indexed").to_lance().describe_indices()] == ["id_idx"]
    assert everything(seiche.open(lake.store, version=version)) == before
    plain = lance.dataset(lake.table("shop.merged").uri)
    assert plain.count_rows() == 6
    assert lake.fsck().ok


def test_others_are_faster_with_appends(lake: Lake) -> None:
    tx = lake.transaction()
    work(tx, 70)
    lake.table("shop.i").append(rows(2))
    lake.table("shop.j").to_iceberg().append(rows(3))
    lake.table("shop.indexed").append(rows(9))
    tx.commit()
    assert everything(lake) == [[0, 1, 2, 3, 4, 70], [0, 1, 2, 3, 4, 9], [1, 2, 70], [1, 3, 70, 71]]


def test_others_are_faster_with_a_merge_of_the_same_rows(lake: Lake) -> None:
    tx = lake.transaction()
    work(tx, 80)
    lake.table("shop.merged").update({"n": "1"}, where="id = 1")
    before = everything(lake)
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert everything(lake) == before
    lake.run(lambda again: work(again, 80))
    assert everything(lake)[2:] == [[1, 80], [1, 80, 81]]


def test_many_writers_at_once(lake: Lake) -> None:
    start = threading.Barrier(4)
    errors: list[BaseException] = []

    def mixed(number: int) -> None:
        def both(tx: Transaction) -> None:
            tx.append("shop.i", rows(100 + number))
            tx.append("shop.merged", rows(100 + number))
            tx.append("shop.j", rows(100 + number))

        try:
            own = seiche.open(lake.uri, durability="os")
            start.wait()
            for _ in range(3):
                own.run(both, attempts=50)
        except BaseException as error:
            errors.append(error)

    def engine(number: int) -> None:
        try:
            own = seiche.open(lake.uri, durability="os").table("shop.i").to_iceberg()
            start.wait()
            for _ in range(3):
                own.append(rows(200 + number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=mixed, args=(n,)) for n in (0, 1)]
    threads += [threading.Thread(target=engine, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    expected = [number for number in (100, 101) for _ in range(3)]
    assert ids(lake, "shop.i") == [1, *expected, *(n for n in (200, 201) for _ in range(3))]
    assert ids(lake, "shop.j") == [1, *expected]
    assert ids(lake, "shop.merged") == [0, 1, 2, 3, 4, *expected]
    numbers = [one.sequence_number for one in lake.table("shop.i").to_iceberg().metadata.snapshots]
    assert numbers == list(range(1, 14))
    assert lake.fsck().ok


def test_two_handles_in_one_transaction_see_each_other(lake: Lake) -> None:
    with lake.transaction() as tx:
        one, other = tx.table("shop.i").to_iceberg(), tx.table("shop.i").to_iceberg()
        one.append(rows(5))
        other.append(rows(6))
        other.delete("id = 1")
        one.refresh()
        assert sorted(one.scan().to_arrow()["id"].to_pylist()) == [5, 6]
    assert ids(lake, "shop.i") == [5, 6]


def test_a_handle_of_a_transaction_that_has_ended_commits_nothing(lake: Lake) -> None:
    tx = lake.transaction()
    table = tx.table("shop.i").to_iceberg()
    tx.rollback()
    with pytest.raises((seiche.InvalidInput, CommitFailedException)):
        table.append(rows(5))
    assert ids(lake, "shop.i") == [1]


def ids_in(tx: Transaction, table: str) -> list[int]:
    return sorted(tx.table(table).to_arrow()["id"].to_pylist())
