"""A transaction that was saved and is gone on with is the same transaction, whatever it did."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import seiche
from seiche import Corrupt, Lake, RetryableConflict
from seiche.lake import saved
from seiche.lake.transaction import Transaction
from seiche.store import open_store
from seiche.testing import SimulatedStore
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("shop", {"note": "n"})
    made.create_namespace("empty")
    for name, stable in (("shop.a", False), ("shop.stable", True)):
        table = made.create_table(name, SCHEMA, stable_row_ids=stable, properties={"p": "1", "q": "2"})
        table.append(rows(*range(10)))
        table.append(rows(*range(10, 20)))
    made.table("shop.a").create_index("id")
    made.create_table("shop.ice", SCHEMA, format="iceberg").append(rows(1, 2, 3))
    made.create_view("shop.view", "select 1")
    return made


def merge(tx: Transaction, table: str) -> None:
    tx.table(table).merge(rows(3, 99, n=5), "id").when_matched_update_all().when_not_matched_insert_all().execute()


def read(tx: Transaction) -> None:
    tx.table("shop.stable").to_arrow()
    tx.append("shop.a", rows(50))


def renamed(tx: Transaction) -> None:
    tx.rename_table("shop.a", "shop.z")
    tx.delete("shop.z", "id = 3")
    tx.create_table("shop.a", SCHEMA, stable_row_ids=True, properties={"a": "b"}).append(rows(1))
    tx.set_properties("shop.a", {"a": None, "c": "d"})


def defined(tx: Transaction) -> None:
    tx.create_namespace("new", {"a": "b"})
    tx.create_table("new.empty", SCHEMA)
    tx.alter_namespace("shop", {"note": None, "z": "1"})
    tx.set_properties("shop.stable", {"p": None, "r": "3"})
    tx.drop_namespace("empty")
    tx.drop_view("shop.view")
    tx.create_table("shop.view", SCHEMA)


def in_iceberg(tx: Transaction) -> None:
    tx.append("shop.ice", rows(4))
    tx.delete("shop.ice", "id = 1")
    tx.set_properties("shop.ice", {"a": "b"})
    tx.create_table("shop.other", SCHEMA, format="iceberg").append(rows(2))


def remapped_later(tx: Transaction) -> None:
    tx.table("shop.a").compact(index="reuse")


WORK: dict[str, Callable[[Transaction], object]] = {
    "append": lambda tx: tx.append("shop.a", rows(50)),
    "delete": lambda tx: tx.delete("shop.a", "id = 3"),
    "delete nothing": lambda tx: tx.delete("shop.stable", "id = 300"),
    "update": lambda tx: tx.update("shop.stable", {"n": "n + 1"}, "id = 3"),
    "merge": lambda tx: merge(tx, "shop.a"),
    "merge by stable ids": lambda tx: merge(tx, "shop.stable"),
    "overwrite": lambda tx: tx.overwrite("shop.a", rows(7)),
    "compact": lambda tx: tx.table("shop.a").compact(),
    "compact, and remap later": remapped_later,
    "index": lambda tx: tx.table("shop.stable").create_index("n"),
    "columns": lambda tx: (tx.table("shop.a").add_columns({"m": "id + 1"}), tx.delete("shop.a", "m = 4")),
    "restore": lambda tx: tx.table("shop.a").restore(2),
    "drop": lambda tx: tx.drop_table("shop.a"),
    "swap": lambda tx: tx.rename_tables([("shop.a", "shop.stable"), ("shop.stable", "shop.a")]),
    "read": read,
    "rename": renamed,
    "define": defined,
    "iceberg": in_iceberg,
}


def told(tx: Transaction) -> tuple[object, ...]:
    """All that can be said of a transaction, in an order of its own."""
    message = saved.encode(tx, tx.expires_at_millis)
    head = (message.id, message.base_version, message.isolation, message.expires_at_millis, dict(message.properties))
    lists = (message.reads, message.ranges, message.edits, message.rows)
    return *head, *(sorted(one.SerializeToString(deterministic=True) for one in some) for some in lists)


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("work", WORK)
def test_nothing_of_a_transaction_is_lost_when_it_is_saved(lake: Lake, work: str, isolation: str) -> None:
    tx = lake.transaction(isolation, properties={"by": "me"}, stream="s", epoch=3, owner="o")  # type: ignore[arg-type]
    WORK[work](tx)
    elsewhere = seiche.open(lake.store).resume(tx.save())
    assert told(elsewhere) == told(tx)
    assert (elsewhere.stream, elsewhere.names) == (tx.stream, tx.names)
    for table_id, edit in tx.edits.items():
        again = elsewhere.edits[table_id]
        assert (again.properties, again.read) == (edit.properties, edit.read)
        if edit.work is not None and again.work is not None:
            assert again.work.base.has_stable_row_ids == edit.work.base.has_stable_row_ids
    elsewhere.commit()
    assert lake.fsck(deep=True).problems == ()


def test_a_saved_deletion_leaves_room_for_others_that_delete_other_rows_of_the_same_file(lake: Lake) -> None:
    tx = lake.transaction()
    tx.delete("shop.a", "id = 3")
    tx.save()
    lake.table("shop.a").delete("id = 4")
    lake.resume(tx.id).commit()
    assert ids(lake, "shop.a") == [0, 1, 2, *range(5, 20)]


@pytest.mark.parametrize("place", ["of the lake", "elsewhere"])
def test_a_table_that_a_saved_transaction_registered_is_gone_on_with(lake: Lake, tmp_path: Path, place: str) -> None:
    """Its first step does not make it: it has metadata to begin with."""
    if place == "of the lake":
        with lake.transaction() as tx:
            where = tx.unregister_iceberg("shop.ice").metadata_location
    else:
        found = json.loads(lake.store.get(lake.table("shop.ice").row.iceberg.location))  # type: ignore[union-attr]
        where = str(tmp_path / "v1.metadata.json")
        Path(where).write_text(json.dumps({**found, "location": f"file://{tmp_path}"}))
    tx = lake.transaction()
    tx.register_iceberg("shop.new", where)
    tx.append("shop.new", rows(4))
    tx.delete("shop.new", "id = 1")
    elsewhere = seiche.open(lake.store).resume(tx.save())
    assert told(elsewhere) == told(tx)
    elsewhere.append("shop.new", rows(5))
    elsewhere.commit()
    assert ids(lake, "shop.new") == [2, 3, 4, 5]
    assert lake.fsck(deep=True).problems == ()


def test_a_saved_transaction_still_knows_what_it_listed(lake: Lake) -> None:
    tx = lake.transaction("serializable")
    assert len(tx.tables("shop")) == 4
    tx.append("shop.a", rows(50))
    tx.save()
    lake.create_table("shop.new", SCHEMA)
    with pytest.raises(RetryableConflict, match="read by this transaction"):
        lake.resume(tx.id).commit()


def test_an_index_still_leads_to_the_rows_that_a_saved_compaction_moved(lake: Lake) -> None:
    tx = lake.transaction()
    remapped_later(tx)
    lake.resume(tx.save()).commit()
    dataset = lake.table("shop.a").to_lance()
    assert [dataset.count_rows(f"id = {number}") for number in (0, 9, 10, 19, 20)] == [1, 1, 1, 1, 0]


@pytest.mark.parametrize("lifetime", [1e15, 1e308])
def test_a_transaction_may_wait_for_ever(lake: Lake, lifetime: float) -> None:
    tx = lake.transaction(lifetime=lifetime)
    tx.append("shop.a", rows(50))
    lake.resume(tx.save()).commit()
    assert 50 in ids(lake, "shop.a")


def test_of_a_saved_transaction_that_was_cut_nothing_is_gone_on_with(lake: Lake) -> None:
    """Cut between two fields, what is left is a message: one of the tables would be committed, or nothing at all."""
    tx = lake.transaction()
    tx.append("shop.a", rows(50))
    tx.append("shop.stable", rows(50))
    tx.save()
    path, found = saved.saved_path(tx.id), lake.version
    whole = lake.store.get(path)
    for length in range(len(whole)):
        lake.store.put(path, whole[:length])
        with pytest.raises(Corrupt, match=path):
            lake.resume(tx.id)
    for at in range(2, len(whole)):
        lake.store.put(path, whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(Corrupt, match=path):
            lake.resume(tx.id)
    assert lake.version == found
    lake.store.put(path, b"")
    assert lake.fsck().kinds() == {"saved.damaged"}
    lake.store.put(path, whole)
    assert lake.fsck().ok
    lake.resume(tx.id).commit()
    assert 50 in ids(lake, "shop.a")
    assert 50 in ids(lake, "shop.stable")


def test_what_was_saved_without_a_digest_is_gone_on_with(lake: Lake) -> None:
    tx = lake.transaction()
    tx.append("shop.a", rows(50))
    tx.save()
    message = saved.read(lake.store, tx.id)
    message.ClearField("digest")
    lake.store.put(saved.saved_path(tx.id), message.SerializeToString())
    lake.resume(tx.id).commit()
    assert 50 in ids(lake, "shop.a")


def test_what_is_saved_without_an_answer_is_saved_again(lake: Lake) -> None:
    def save(store: SimulatedStore) -> str:
        tx = seiche.open(store).transaction()
        tx.append("shop.a", rows(7))
        return tx.save()

    rehearsal = SimulatedStore(lake.store)
    save(rehearsal)
    (number,) = [at for at, call in enumerate(rehearsal.calls, 1) if (call.verb, call.path[:6]) == ("put", "_saved")]
    # `CommitUnknown` would send people to ask for the outcome of a commit that has not begun.
    lake.resume(save(SimulatedStore(lake.store, plan={number: "after"}))).commit()
    assert 7 in ids(lake, "shop.a")
