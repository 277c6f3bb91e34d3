"""The versions of one table of a lake, and what each did to its rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound, Table
from seiche.lake.publish import Publisher
from tests.unit.lake.conftest import SCHEMA, ids, rows


def seen(changes: Any) -> list[tuple[int, str, int]]:
    found = changes.to_arrow().to_pylist()
    return sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in found)


@pytest.fixture
def changed(lake: Lake) -> Lake:
    """A table of which version 2 has rows 1 and 2, 3 has 2, and 4 has 2 and 3."""
    table = lake.table("shop.a")
    table.append(rows(1, 2))
    table.delete("id = 1")
    table.append(rows(3))
    return lake


def test_the_versions_of_a_table_are_its_own(changed: Lake) -> None:
    found = changed.table("shop.a").versions()
    assert [(one.version, one.operation) for one in found] == [
        (1, "Overwrite"),
        (2, "Append"),
        (3, "Delete"),
        (4, "Append"),
    ]
    assert found == Table.open(changed.table("shop.a").uri).versions()


def test_changes_are_those_of_the_table_without_its_lake(changed: Lake) -> None:
    table = changed.table("shop.a")
    assert seen(table.changes(1)) == [(2, "insert", 1), (2, "insert", 2), (3, "delete", 1), (4, "insert", 3)]
    assert seen(table.changes(0, 2)) == [(2, "insert", 1), (2, "insert", 2)]
    assert table.changes(2, 2).to_arrow().num_rows == 0
    assert table.changes(3, columns=["n"]).schema.names[0] == "n"


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_rows_that_a_statement_among_others_changed_in_place_are_the_only_ones_that_changed(
    lake: Lake, stable: bool
) -> None:
    table = lake.create_table("shop.places", SCHEMA, stable_row_ids=stable)
    table.append(rows(1, 2, 3, 4))
    with lake.transaction() as tx:
        tx.update("shop.places", {"n": "n + 1"}, where="id = 1", mode="columns")
        tx.append("shop.places", rows(5))
        tx.update("shop.places", {"n": "n + 1"}, where="id = 3", mode="columns")
    assert seen(table.changes(2)) == [(3, "insert", 5), (3, "update", 1), (3, "update", 3)]
    if stable:
        dataset: Any = table.to_lance()
        found = dataset.to_table(columns=["id", "_row_last_updated_at_version"]).to_pydict()
        last = dict(zip(found["id"], found["_row_last_updated_at_version"], strict=True))
        assert last == {1: 3, 2: 2, 3: 3, 4: 2, 5: 3}


def test_rows_that_were_updated_and_compacted_say_the_version_that_was_made_after_others_came_first(
    lake: Lake,
) -> None:
    """Whoever has seen the version of the others asks for what was updated after it."""
    table = lake.create_table("shop.moved", SCHEMA, stable_row_ids=True)
    table.append(rows(1, 2))
    table.append(rows(3))
    with lake.transaction() as tx:
        tx.update("shop.moved", {"n": "n + 1"}, where="id = 1", mode="columns")
        tx.table("shop.moved").compact()
        table.append(rows(4))
    dataset: Any = table.to_lance()
    found = dataset.to_table(columns=["id", "_row_created_at_version", "_row_last_updated_at_version"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, 2, 5), (2, 2, 2), (3, 3, 3), (4, 4, 4)]
    assert [one.operation for one in table.versions()[3:]] == ["Append", "Update", "ReserveFragments", "Rewrite"]


def test_where_a_whole_column_was_replaced_all_rows_changed_whatever_else_a_transaction_did(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(1, 2, 3))
    with lake.transaction() as tx:
        tx.update("shop.a", {"n": "n + 1"}, where="id = 1", mode="columns")
        tx.table("shop.a").replace_column("n", [7, 8, 9])
    assert seen(table.changes(2)) == [(3, "update", 1), (3, "update", 2), (3, "update", 3)]


def test_a_lake_at_a_version_knows_nothing_later(changed: Lake) -> None:
    then = seiche.open(changed.store, version=changed.version - 1).table("shop.a")
    assert [one.version for one in then.versions()] == [1, 2, 3]
    assert seen(then.changes(2)) == [(3, "delete", 1)]
    with pytest.raises(NotFound, match="has no version 4"):
        then.changes(2, 4)


def test_what_is_committed_and_not_published_yet_is_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.words", pa.schema([("word", pa.dictionary(pa.int32(), pa.string()))]))
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", lambda *_args, **_options: None)
        table.append([{"word": "oar"}])
    assert not lake.store.exists(f"{table.row.location}/_versions/18446744073709551613.manifest")
    assert [one.version for one in table.versions()] == [1, 2]
    assert table.changes(1).to_arrow()["word"].to_pylist() == ["oar"]


@pytest.mark.parametrize("wrong", [-1, "nightly", 1.5, None, True])
def test_what_is_no_version_is_refused(changed: Lake, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a version number"):
        changed.table("shop.a").changes(wrong)


def test_a_version_that_was_cleaned_up_is_named(changed: Lake) -> None:
    changed.store.delete(f"{changed.table('shop.a').row.location}/_versions/18446744073709551613.manifest")
    assert [one.version for one in changed.table("shop.a").versions()] == [1, 3, 4]
    with pytest.raises(NotFound, match=r"has no version 2, so the changes after 0 are not known"):
        changed.table("shop.a").changes(0)


def test_a_table_that_lies_elsewhere_has_its_history_there(lake: Lake, tmp_path: Path) -> None:
    Table.create(str(tmp_path / "theirs"), SCHEMA).append(rows(1))
    lake.register_table("shop.theirs", str(tmp_path / "theirs"), type="federated")
    lake.table("shop.theirs").append(rows(2))
    assert [one.operation for one in lake.table("shop.theirs").versions()] == ["Overwrite", "Append", "Append"]
    assert seen(lake.table("shop.theirs").changes(2)) == [(3, "insert", 2)]


def test_an_iceberg_table_says_where_to_look(lake: Lake) -> None:
    table = lake.create_table("shop.trips", SCHEMA, format="iceberg")
    for ask in (table.versions, lambda: table.changes(0)):
        with pytest.raises(InvalidInput, match="no history of versions") as caught:
            ask()
        assert "lake.log()" in caught.value.remedy


def test_a_table_that_was_away_for_long_goes_back_to_what_it_was_before(lake: Lake) -> None:
    """Of the versions of the lake that are kept, most do not have it."""
    lake.table("shop.a").append(rows(1))
    lake.table("shop.a").append(rows(2))
    before = lake.version
    lake.drop_table("shop.a")
    for number in range(9):
        lake.table("shop.b").append(rows(number))
    lake.rollback(before, tables=["shop.a"])
    lake.table("shop.a").restore(2)
    assert ids(lake, "shop.a") == [1]
