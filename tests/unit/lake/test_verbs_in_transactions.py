"""The verbs about columns, fragments, indices and settings inside transactions of a lake."""

from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound, RetryableConflict
from seiche.table.data.index.remap import Led, lead_on
from tests.unit.lake.conftest import SCHEMA, ids, rows


def fill(lake: Lake, *, stable_row_ids: bool = False) -> None:
    lake.create_table("shop.t", SCHEMA, stable_row_ids=stable_row_ids)
    for number in range(4):
        lake.table("shop.t").append(rows(*range(number * 10, number * 10 + 10)))


def plain(lake: Lake, table: str = "shop.t") -> lance.LanceDataset:
    """What a plain reader finds, after it has found nothing wrong."""
    dataset = lance.dataset(lake.table(table).uri)
    dataset.validate()  # type: ignore[no-untyped-call]
    return dataset


@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_every_verb_after_the_other_in_one_transaction(lake: Lake, stable_row_ids: bool) -> None:
    fill(lake, stable_row_ids=stable_row_ids)
    before = lake.table("shop.t").row
    with lake.transaction() as tx:
        table = tx.table("shop.t")
        table.append(rows(50, 51))
        table.add_columns({"twice": "id * 2"})
        table.add_columns(lambda batch: {"thrice": [one * 3 for one in batch["id"].to_pylist()]}, read_columns=["id"])
        table.delete("id % 5 = 1")
        table.replace_column("n", list(range(len(table.to_arrow()))))
        table.rename_columns({"twice": "double"})
        table.alter_columns({"path": "n", "data_type": pa.int32()})
        table.drop_columns("thrice")
        table.create_index("double")
        assert table.to_arrow(filter="double = 100")["id"].to_pylist() == [50]
        table.update_config({"a": "b"})
        assert table.compact().notes["indices"] == {"double_idx": "remapped"}
        table.optimize_indices()
        table.reorder(("id", "descending"))
        seen = table.to_arrow()
        assert ids(lake, "shop.t") == list(range(40))
    after = lake.table("shop.t")
    assert after.to_arrow() == seen
    assert after.schema.names == ["id", "n", "double"]
    assert (after.row.logical_version, after.row.table_version > before.table_version) == (
        before.logical_version + 1,
        True,
    )
    wanted = [one for one in (*range(40), 50, 51) if one % 5 != 1]
    found = plain(lake).to_table()
    assert sorted(found["id"].to_pylist()) == wanted
    assert dict(zip(found["id"].to_pylist(), found["double"].to_pylist(), strict=True)) == {
        one: 2 * one for one in wanted
    }
    for number in wanted:
        assert after.to_arrow(filter=f"double = {2 * number}")["id"].to_pylist() == [number]


def test_a_reservation_and_a_rewrite_are_versions_of_one_root(lake: Lake) -> None:
    fill(lake)
    version, row = lake.version, lake.table("shop.t").row
    lake.table("shop.t").compact()
    assert lake.version == version + 1
    after = lake.table("shop.t").row
    assert (after.table_version, after.logical_version) == (row.table_version + 2, row.logical_version)
    dataset = plain(lake)
    operations = [type(one.operation).__name__ for one in dataset.get_transactions(2) if one is not None]
    assert operations == ["Rewrite", "BaseOperation"]  # pylance has no name for reservations
    assert not lake.table("shop.t").compact().changed
    assert lake.version == version + 1


def test_a_verb_reports_the_version_that_it_made_whoever_came_first(lake: Lake) -> None:
    fill(lake)
    table = lake.table("shop.t")

    def streamed() -> Iterator[pa.RecordBatch]:
        yield from rows(70).to_batches()
        lake.table("shop.t").append(rows(71))

    assert table.append(streamed()).version == table.version == 7
    done = table.compact()  # reserves ids first, which is a version of its own
    assert done.changed
    assert done.version == table.version == 9
    assert table.compact().version == 9
    with lake.transaction() as tx:
        tx.append("shop.t", rows(72))
        lake.table("shop.t").append(rows(73))
    assert tx.table_versions == {table.row.id: 11}


def test_ids_that_others_took_first_are_replaced_by_free_ones(lake: Lake) -> None:
    fill(lake)
    tx = lake.transaction()
    tx.table("shop.t").compact()
    lake.table("shop.t").append(rows(50))
    lake.table("shop.t").append(rows(51))
    tx.commit()
    assert ids(lake, "shop.t") == [*range(40), 50, 51]
    numbers = [fragment.fragment_id for fragment in plain(lake).get_fragments()]
    assert numbers == [4, 5, 6]
    lake.table("shop.t").append(rows(52))
    assert [fragment.fragment_id for fragment in plain(lake).get_fragments()] == [4, 5, 6, 7]


def test_ids_that_stand_in_index_files_cannot_be_replaced(lake: Lake) -> None:
    """The files know rows by the ids that the transaction counted on: under others they would speak of other rows."""
    fill(lake)
    lake.table("shop.t").create_index("id")
    tx = lake.transaction()
    tx.table("shop.t").compact()
    lake.table("shop.t").append(rows(50))
    with pytest.raises(RetryableConflict, match="fragment ids"):
        tx.commit()
    done = lake.table("shop.t").compact()
    assert done.notes["indices"] == {"id_idx": "remapped"}
    for number in (*range(40), 50):
        assert lake.table("shop.t").to_arrow(filter=f"id = {number}")["id"].to_pylist() == [number]
    plain(lake)


def test_an_index_over_own_compacted_rows_does_not_speak_of_others(lake: Lake) -> None:
    fill(lake)
    tx = lake.transaction()
    tx.table("shop.t").compact()
    tx.table("shop.t").create_index("id")
    lake.table("shop.t").append(rows(50, 51))
    tx.commit()
    for number in (*range(40), 50, 51):
        assert lake.table("shop.t").to_arrow(filter=f"id = {number}")["id"].to_pylist() == [number]
    lake.table("shop.t").optimize_indices(merge=0)
    for number in (*range(40), 50, 51):
        assert lake.table("shop.t").to_arrow(filter=f"id = {number}")["id"].to_pylist() == [number]
    plain(lake)


def test_what_others_delete_meanwhile_stays_deleted(lake: Lake) -> None:
    fill(lake)
    tx = lake.transaction()
    tx.table("shop.t").compact()
    lake.table("shop.t").delete("id = 7")
    with pytest.raises(RetryableConflict):
        tx.commit()
    lake.table("shop.t").compact()
    assert ids(lake, "shop.t") == [one for one in range(40) if one != 7]


def test_the_lake_does_a_compaction_again_that_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(lake)
    lake.table("shop.t").create_index("id")
    calls: list[object] = []

    def slowly(*arguments: Any, **options: Any) -> Led:
        calls.append(options)
        if len(calls) < 6:
            lake.table("shop.t").append(rows(100 + len(calls)))
        return lead_on(*arguments, **options)

    monkeypatch.setattr("seiche.table.data.rewrite.rewriting.lead_on", slowly)
    done = lake.table("shop.t").compact()
    # After three times, indices are left for later instead of being late once more.
    assert (len(calls), done.notes["indices"]) == (4, {"id_idx": "unindexed"})
    assert ids(lake, "shop.t") == [*range(40), *range(101, 105)]
    monkeypatch.undo()
    lake.table("shop.t").optimize_indices()
    for number in (*range(40), 101, 104):
        assert lake.table("shop.t").to_arrow(filter=f"id = {number}")["id"].to_pylist() == [number]
    plain(lake)


def test_restore_in_a_transaction(lake: Lake) -> None:
    fill(lake)
    with lake.transaction() as tx:
        tx.table("shop.t").restore(3)
        assert tx.table("shop.t").to_arrow().num_rows == 20
    assert ids(lake, "shop.t") == list(range(20))
    tx = lake.transaction()
    with pytest.raises(InvalidInput, match="999"):
        tx.table("shop.t").restore(999)
    with pytest.raises(NotFound, match="nowhere"):
        tx.table("shop.t").restore("nowhere")
    tx.table("shop.t").append(rows(1))
    with pytest.raises(InvalidInput, match="only change"):
        tx.table("shop.t").restore(2)
    tx.commit()
    assert lake.table("shop.t").to_arrow().num_rows == 21


def test_settings_in_a_transaction_are_seen_at_once_and_come_with_it(lake: Lake) -> None:
    fill(lake)
    row = lake.table("shop.t").row
    with lake.transaction() as tx:
        table = tx.table("shop.t")
        table.update_config({"a": "1"})
        table.update_metadata({"m": "2"})
        table.update_schema_metadata({"s": "3"})
        table.update_field_metadata("id", {"f": "4"})
        table.add_bases({"path": "/elsewhere", "name": "e"})
        table.mark_generations({"12345678-1234-5678-1234-567812345678": 1})
        assert list(table.reserve_fragments(2).notes["ids"]) == [4, 5]  # type: ignore[call-overload]
        assert not table.update_config({"a": "1"}).changed
    dataset = plain(lake)
    assert dataset.config() == {"a": "1"}
    assert dataset.schema.metadata == {b"s": b"3"}
    assert dataset.schema.field("id").metadata == {b"f": b"4"}
    assert lake.table("shop.t").row.logical_version == row.logical_version


def test_settings_are_what_later_statements_of_the_transaction_left_of_them(lake: Lake) -> None:
    """They are committed behind the change of content, and must not undo what came after them."""
    for name in ("overwritten", "dropped", "reused", "restored"):
        lake.create_table(f"shop.{name}", SCHEMA)
        lake.table(f"shop.{name}").append(rows(1))
    with lake.transaction() as tx:
        table = tx.table("shop.overwritten")
        table.update_config({"a": "1"})
        table.update_schema_metadata({"s": "3"})
        table.update_field_metadata("n", {"f": "4"})
        table.overwrite(pa.table({"x": [1.5], "y": [2.5]}))
        table = tx.table("shop.dropped")
        table.update_field_metadata("n", {"f": "4"})
        table.update_field_metadata("id", {"g": "5"})
        table.drop_columns(["n"])
        table = tx.table("shop.reused")
        table.update_field_metadata("n", {"f": "4"})
        table.drop_columns(["n"])
        table.add_columns({"other": "id + 1"})
        table = tx.table("shop.restored")
        table.update_config({"a": "1"})
        table.restore(1)
        seen = {name: tx.table(f"shop.{name}").schema for name in ("overwritten", "dropped", "reused")}
    for name, schema in seen.items():
        assert plain(lake, f"shop.{name}").schema.equals(schema, check_metadata=True)
    assert seen["overwritten"].metadata is None
    assert [one.metadata for one in (*seen["overwritten"], *seen["reused"])] == [None] * 4
    assert seen["dropped"].field("id").metadata == {b"g": b"5"}
    assert plain(lake, "shop.overwritten").config() == {"a": "1"}
    assert plain(lake, "shop.restored").config() == {}


def test_a_table_made_in_the_same_transaction(lake: Lake) -> None:
    with lake.transaction() as tx:
        made = tx.create_table("shop.new", SCHEMA)
        for number in range(3):
            made.append(rows(number))
        made.add_columns({"twice": "id * 2"})
        made.create_index("id")
        made.compact()
        made.optimize_indices()
        assert made.to_arrow(filter="id = 2")["twice"].to_pylist() == [4]
    assert plain(lake, "shop.new").to_table(filter="id = 1").to_pydict() == {"id": [1], "n": [0], "twice": [2]}


def test_indices_of_a_version_made_here_are_where_its_file_has_them(lake: Lake) -> None:
    """The next transaction reads with them, or without where the last one went: not at a place that an older version
    had them at.
    """
    table = lake.create_table("shop.marked", SCHEMA)
    table.append(rows(1, 2, 3))
    table.create_index("id", "btree", name="by_id")
    with lake.transaction() as tx:
        assert tx.table("shop.marked").to_arrow(filter="id = 2").num_rows == 1
        assert "ScalarIndexQuery" in tx.table("shop.marked")._snapshot().dataset.scanner(filter="id = 2").explain_plan()
    # Who read that version from its file knows a place, which must not be passed on to a version without indices.
    other = seiche.open(lake.uri)
    other.table("shop.marked").drop_index("by_id")
    with other.transaction() as tx:
        assert tx.table("shop.marked").to_arrow(filter="id = 2").num_rows == 1
