"""Iceberg tables of a lake: commits into transactions, what others do meanwhile, what the lake says about them."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyiceberg.exceptions import CommitFailedException, NotInstalledError, ValidationException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StructType

import seiche
from seiche import AlreadyExists, CommitUnknown, InvalidInput, Lake, NotFound, RetryableConflict
from seiche.lake.commit.intent import Intent
from seiche.lake.iceberg.creating import creation_step, new_metadata
from seiche.lake.iceberg.places import address, path_of
from seiche.lake.iceberg.table import at_state
from seiche.lake.transaction import Transaction
from seiche.store.base import Store
from seiche.testing.wrapping import Call, WrappingStore
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.iceberg_deletes import delete_by_position

T = TypeVar("T")


@pytest.fixture
def ice(lake: Lake) -> Lake:
    """A lake with two Iceberg tables beside the Lance tables."""
    with lake.transaction() as tx:
        tx.create_table("shop.i", SCHEMA, format="iceberg")
        tx.create_table("shop.j", SCHEMA, format="iceberg")
    return lake


def intent_of(tx: Transaction) -> Intent:
    intent = tx.intent()
    assert intent is not None
    return intent


def plain(lake: Lake, table: str) -> list[int]:
    """The ids that PyIceberg finds by itself, knowing nothing of the lake."""
    found = StaticTable.from_metadata(lake.table(table).metadata_location).scan().to_arrow()  # type: ignore[attr-defined]
    return sorted(found["id"].to_pylist())


def numbers(lake: Lake, table: str) -> list[int]:
    """The sequence numbers of all data files, in order of their rows."""
    from pyiceberg.manifest import read_manifest_list

    from seiche.lake.iceberg.file_io import LakeFileIO

    metadata = lake.table(table).metadata  # type: ignore[attr-defined]
    io = LakeFileIO(lake.store)
    found = read_manifest_list(io.new_input(metadata.current_snapshot().manifest_list))
    return sorted(entry.sequence_number or 0 for one in found for entry in one.fetch_manifest_entry(io))


def test_a_table_says_of_which_format_it_is(ice: Lake) -> None:
    assert [ice.table(name).format for name in ("shop.a", "shop.i")] == ["lance", "iceberg"]
    with ice.transaction() as tx:
        assert [tx.table(name).format for name in ("shop.a", "shop.i")] == ["lance", "iceberg"]


def test_rows_are_read_by_the_lake_and_by_pyiceberg_alone(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1, 2))
    with ice.transaction() as tx:
        tx.append("shop.i", rows(3))
        tx.delete("shop.i", "id = 1")
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [2, 3]
    assert ice.table("shop.i").to_arrow(columns=["id"], filter="id > 2").to_pylist() == [{"id": 3}]
    assert ice.table("shop.i").schema.names == ["id", "n"]


@pytest.mark.parametrize(
    "given",
    [
        {"id": [1, 2], "n": [0, 0]},
        ({"id": number, "n": 0} for number in (1, 2)),
        [rows(1), rows(2)],
        pa.dataset.dataset(rows(1, 2)),
        pa.dataset.dataset(rows(1, 2)).scanner(),
        pd.DataFrame({"id": [0, 1, 2], "n": 0})[lambda frame: frame["id"] > 0],
        pd.DataFrame({"id": [1, 2], "n": 0}).set_index("id"),
        pl.DataFrame({"id": [1, 2], "n": [0, 0]}).lazy(),
    ],
    ids=["columns", "one by one", "tables", "dataset", "scanner", "some rows of pandas", "index of pandas", "lazy"],
)
def test_rows_are_given_in_all_forms_that_a_lance_table_takes(ice: Lake, given: Any) -> None:
    ice.table("shop.i").append(given)
    assert ice.table("shop.i").to_arrow().sort_by("id") == rows(1, 2)


@pytest.mark.parametrize("given", ["rows.csv", [["id", 1]], {"id": 1}, pd.Series([1], name="id"), pl.Series("id", [1])])
def test_what_is_no_rows_is_refused_in_the_words_of_a_lance_table(ice: Lake, given: Any) -> None:
    said = []
    for table in ("shop.a", "shop.i"):
        with pytest.raises(InvalidInput) as caught:
            ice.table(table).append(given)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_read_of_no_columns_has_as_many_rows_as_there_are(ice: Lake) -> None:
    table = ice.table("shop.i")
    table.append(rows(1, 2, 3))
    for condition, wanted in ((None, 3), ("id > 1", 2), ("id = 7", 0)):
        found = table.to_arrow(columns=[], filter=condition)
        assert (found.num_columns, found.num_rows) == (0, wanted)
    assert ice.create_table("shop.none", pa.schema([]), format="iceberg").to_arrow(columns=[]).num_rows == 0


@pytest.mark.parametrize("condition", [None, "u IS NULL"])
def test_columns_come_in_the_order_in_which_they_were_asked_for(lake: Lake, condition: str | None) -> None:
    inside = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    columns = pa.schema([("a", pa.int64()), ("s", inside), ("b.c", pa.int64()), ("u", pa.uuid())])
    table = lake.create_table("shop.i", columns, format="iceberg")
    table.append([{"a": 1, "s": {"x": 2, "y": 3}, "b.c": 4}])
    for asked, wanted in (
        (["b.c", "a"], {"b.c": 4, "a": 1}),
        (["s.y", "a"], {"s": {"y": 3}, "a": 1}),
        (["u", "s.x", "a", "s.y"], {"u": None, "s": {"x": 2, "y": 3}, "a": 1}),
    ):
        found = table.to_arrow(columns=asked, filter=condition)
        assert (found.column_names, found.to_pylist()) == (list(wanted), [wanted])


def test_columns_may_be_given_in_whatever_they_come_and_are_texts(ice: Lake) -> None:
    table = ice.table("shop.i")
    table.append(rows(1))
    assert table.to_arrow(columns=iter(["id"])).to_pylist() == [{"id": 1}]  # type: ignore[arg-type]
    for wrong in (5, [5], "id"):
        with pytest.raises(InvalidInput, match="columns cannot be"):
            table.to_arrow(columns=wrong)  # type: ignore[arg-type]


def test_updates_are_applied_once_however_often_pyiceberg_asks(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from seiche.lake.iceberg.updates import previewed

    applied = []

    def counted(base: Any, updates: Any) -> Any:
        applied.append((id(base), len(updates)))
        return previewed(base, updates)

    monkeypatch.setattr("seiche.lake.engines.iceberg_table.previewed", counted)
    ice.table("shop.i").append(rows(1))
    ice.table("shop.i").delete("id = 1")
    assert applied
    assert len(applied) == len(set(applied))
    assert all(updates for _, updates in applied), "where there are none it is the table's own"


def test_snapshots_of_a_table_are_not_copied_by_those_who_add_one(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table.snapshots import Snapshot

    table = ice.table("shop.i")
    for number in range(3):
        table.append(rows(number))
    copied: list[Snapshot] = []

    def counted(self: Snapshot, memo: object) -> Snapshot:
        copied.append(self)
        return self

    monkeypatch.setattr(Snapshot, "__deepcopy__", counted)
    table.append(rows(3))
    table.delete("id = 1")
    table.to_iceberg().append(rows(4))
    assert not copied, "PyIceberg copies all of them, each time that it looks at the metadata"
    assert ids(ice, "shop.i") == [0, 2, 3, 4]


def test_nothing_is_visible_before_the_commit_and_the_transaction_sees_it(ice: Lake) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(1))
    tx.append("shop.i", rows(2))
    tx.append("shop.a", rows(3))
    assert sorted(tx.table("shop.i").to_arrow()["id"].to_pylist()) == [1, 2]
    assert ids(ice, "shop.i") == ids(ice, "shop.a") == []
    version = tx.commit()
    assert ids(ice, "shop.i") == [1, 2]
    assert ids(ice, "shop.a") == [3]
    assert ids(seiche.open(ice.store, version=version - 1), "shop.i") == []


def test_a_rolled_back_transaction_leaves_nothing(ice: Lake) -> None:
    before = ice.version
    tx = ice.transaction()
    tx.append("shop.i", rows(1))
    tx.create_table("shop.k", SCHEMA, format="iceberg").append(rows(5))
    tx.rollback()
    assert ice.version == before
    assert ids(ice, "shop.i") == []
    with pytest.raises(NotFound):
        ice.table("shop.k")


def test_several_statements_are_one_metadata_file_and_the_log_has_what_was_committed(ice: Lake) -> None:
    first = ice.table("shop.i").metadata_location  # type: ignore[attr-defined]
    with ice.transaction() as tx:
        for number in range(3):
            tx.append("shop.i", rows(number))
    table: Any = ice.table("shop.i")
    assert [one.metadata_file for one in table.metadata.metadata_log] == [first]
    assert len(table.metadata.snapshots) == 3
    folder = Path(ice.store.native_uri(table.row.location)) / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) == 2
    assert table.row.iceberg.previous_location == path_of(ice.store, first)


def test_versions_count_content_and_changes(ice: Lake) -> None:
    def counters() -> tuple[int, int, int]:
        row = ice.table("shop.i").row
        return row.table_version, row.logical_version, row.pointer_version

    assert counters() == (1, 1, 1)
    ice.table("shop.i").append(rows(1))
    assert counters() == (2, 2, 2)
    ice.run(lambda tx: tx.set_properties("shop.i", {"owner": "me"}))
    assert counters() == (3, 2, 3)
    ice.rename_table("shop.i", "shop.k")
    row = ice.table("shop.k").row
    assert (row.table_version, row.logical_version, row.pointer_version) == (3, 2, 4)
    ice.table("shop.k").to_iceberg().update_schema().add_column("x", LongType()).commit()
    assert ice.table("shop.k").row.logical_version == 3


def test_appends_of_two_transactions_both_commit_and_data_is_written_once(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    one, other = ice.transaction(), ice.transaction()
    one.append("shop.i", rows(2))
    other.append("shop.i", rows(3))
    other.append("shop.i", rows(4))
    folder = Path(ice.store.native_uri(ice.table("shop.i").row.location)) / "data"
    written = sorted(folder.rglob("*.parquet"))
    one.commit()
    other.commit()
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1, 2, 3, 4]
    assert sorted(folder.rglob("*.parquet")) == written
    snapshots = ice.table("shop.i").metadata.snapshots  # type: ignore[attr-defined]
    assert [one.sequence_number for one in snapshots] == [1, 2, 3, 4]
    assert [one.parent_snapshot_id for one in snapshots[1:]] == [one.snapshot_id for one in snapshots[:-1]]
    assert [one.summary["total-records"] for one in snapshots] == ["1", "2", "3", "4"]
    assert numbers(ice, "shop.i") == [1, 2, 3, 4]


def test_a_moved_append_has_its_sequence_number_for_whoever_looked_at_it_before(ice: Lake) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(1))
    assert tx.table("shop.i").to_arrow().num_rows == 1  # PyIceberg remembers the manifest with the number 1
    ice.table("shop.i").append(rows(2))
    tx.commit()
    ice.table("shop.i").append(rows(3))  # and would list it with that again
    assert numbers(ice, "shop.i") == [1, 2, 3]


def test_a_first_append_meets_a_first_append(ice: Lake) -> None:
    one, other = ice.transaction(), ice.transaction()
    one.append("shop.i", rows(1))
    other.append("shop.i", rows(2))
    one.commit()
    other.commit()
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1, 2]


def test_appends_to_a_table_of_version_1_both_commit(ice: Lake) -> None:
    ice.create_table("shop.k", SCHEMA, format="iceberg", properties={"format-version": "1"})
    ice.table("shop.k").append(rows(0))
    one, other, late = ice.transaction(), ice.transaction(), ice.transaction()
    for number, tx in enumerate((one, other, late), 1):
        tx.append("shop.k", rows(number))
    one.commit()
    other.commit()
    assert ids(ice, "shop.k") == plain(ice, "shop.k") == [0, 1, 2]
    assert ice.table("shop.k").metadata.current_snapshot().summary["total-records"] == "3"  # type: ignore[attr-defined]
    ice.table("shop.k").to_iceberg().transaction().upgrade_table_version(2).commit_transaction()
    with pytest.raises(RetryableConflict, match="format version 1"):
        late.commit()


def test_an_append_follows_a_delete_and_a_change_of_the_schema(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1, 2))
    tx = ice.transaction()
    tx.append("shop.i", rows(3))
    ice.table("shop.i").delete("id = 1")
    ice.table("shop.i").to_iceberg().update_schema().add_column("x", LongType()).commit()
    tx.commit()
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [2, 3]


@pytest.mark.parametrize("is_new", [True, False])
def test_an_append_follows_no_column_that_its_rows_have_to_have_now(ice: Lake, is_new: bool) -> None:
    """Rule 9: nobody could read a row without it, or it would be null where there is no null."""
    table = ice.table("shop.i")
    if not is_new:
        with table.to_iceberg().update_schema() as change:
            change.add_column("must", LongType())
    tx = ice.transaction()
    tx.append("shop.i", rows(7))
    table.delete("true")
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as change:
        if is_new:
            change.add_column("must", LongType(), required=True)
        else:
            change.update_column("must", required=True)
    with pytest.raises(RetryableConflict, match="'must' cannot be null any more"):
        tx.commit()
    assert table.to_arrow().num_rows == 0
    with pytest.raises(InvalidInput, match="'must' is missing"):
        table.append(rows(7))


@pytest.mark.parametrize("moved", [True, False])
def test_an_old_handle_of_pyiceberg_adds_no_rows_without_a_column_that_they_have_to_have_now(
    ice: Lake, moved: bool
) -> None:
    table = ice.table("shop.i")
    old = table.to_iceberg()
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as change:
        change.update_column("n", required=True)
    if moved:
        table.append(rows(8))
    version = ice.version
    with pytest.raises(InvalidInput, match="'n' cannot be null any more"):
        old.append(pa.table({"id": [7], "n": [None]}, schema=SCHEMA))
    assert ice.version == version
    table.append(rows(9))
    assert ids(ice, "shop.i") == ([8, 9] if moved else [9])


@pytest.mark.parametrize("lacks", [True, False])
def test_rows_of_an_engine_that_says_the_current_columns_are_known_by_their_manifests(ice: Lake, lacks: bool) -> None:
    """As Java's do: after a conflict it sends the files that it has, with the schema that the table has by then."""
    table = ice.table("shop.i")
    made: list[Any] = []
    handle = table.to_iceberg() if lacks else None
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as change:
        change.update_column("n", required=True)
    schema = table.metadata.current_schema_id  # type: ignore[attr-defined]
    work = (handle or table.to_iceberg()).transaction()
    work.append(pa.table({"id": [7], "n": [None] if lacks else [7]}, schema=SCHEMA if lacks else table.schema))
    for one in work._updates:
        if isinstance(one, AddSnapshotUpdate):
            made.append(AddSnapshotUpdate(snapshot=one.snapshot.model_copy(update={"schema_id": schema})))
        else:
            made.append(one)
    if lacks:
        with pytest.raises(InvalidInput, match="'n' cannot be null any more"):
            ice.run(lambda tx: tx.commit_iceberg("shop.i", [], made))
    else:
        ice.run(lambda tx: tx.commit_iceberg("shop.i", [], made))
    assert ids(ice, "shop.i") == ([] if lacks else [7])


def test_an_append_of_pyiceberg_is_not_tried_again_without_a_column_that_its_rows_have_to_have_now(
    ice: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ice.table("shop.i")
    handle = table.to_iceberg()

    def lost(**_: Any) -> None:
        monkeypatch.undo()
        with table.to_iceberg().update_schema(allow_incompatible_changes=True) as change:
            change.update_column("n", required=True)
        raise CommitFailedException("somebody was faster")

    monkeypatch.setattr(handle, "_do_commit", lost)
    with pytest.raises(ValidationException, match="'n' cannot be null any more"):
        handle.append(pa.table({"id": [7], "n": [None]}, schema=SCHEMA))
    assert table.to_arrow().num_rows == 0


def test_rows_and_the_change_that_makes_a_column_required_or_not_are_one_commit(ice: Lake) -> None:
    table = ice.table("shop.i")
    with table.to_iceberg().transaction() as both:
        both.append(rows(1))
        both.update_schema(allow_incompatible_changes=True).update_column("id", required=True).commit()
    with table.to_iceberg().transaction() as both:
        both.update_schema().update_column("id", required=False).commit()
        both.append(rows(2))
    assert ids(ice, "shop.i") == [1, 2]


def test_an_append_follows_new_columns_that_have_to_have_something_inside(ice: Lake) -> None:
    table = ice.table("shop.i")
    tx = ice.transaction()
    tx.append("shop.i", rows(7))
    with table.to_iceberg().update_schema() as change:
        change.add_column("s", StructType(NestedField(90, "p", LongType(), required=True)))
    tx.commit()
    assert 7 in ids(ice, "shop.i")
    assert table.to_arrow(filter="id = 7")["s"].to_pylist() == [None]


@pytest.mark.parametrize("verb", ["delete", "overwrite", "merge"])
def test_everything_but_an_append_is_retryable_if_the_branch_has_moved(ice: Lake, verb: str) -> None:
    ice.table("shop.i").append(rows(1, 2))
    before = ice.table("shop.i").metadata.current_snapshot_id  # type: ignore[attr-defined]
    tx = ice.transaction()
    if verb == "delete":
        tx.delete("shop.i", "id = 1")
    elif verb == "overwrite":
        tx.overwrite("shop.i", rows(7))
    else:
        tx.merge("shop.i", rows(5), "id").when_not_matched_insert_all().execute()
    ice.table("shop.i").append(rows(3))
    winner = ice.log()[0].transactions[0].id
    with pytest.raises(RetryableConflict, match=r"shop\.i") as caught:
        tx.commit()
    assert caught.value.read_snapshot == before
    assert caught.value.snapshot == ice.table("shop.i").metadata.current_snapshot_id  # type: ignore[attr-defined]
    assert caught.value.winner == winner
    assert ids(ice, "shop.i") == [1, 2, 3]


def test_a_delete_behind_an_append_of_the_same_transaction_does_not_lose_what_others_brought(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    tx = ice.transaction()
    tx.append("shop.i", rows(2))
    tx.delete("shop.i", "id = 1")
    ice.table("shop.i").append(rows(3))
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert ids(ice, "shop.i") == [1, 3]


def test_what_does_not_concern_each_other_goes_together(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    tx = ice.transaction()
    tx.delete("shop.i", "id = 1")
    ice.run(lambda other: other.set_properties("shop.i", {"owner": "me"}))
    ice.table("shop.j").append(rows(5))
    tx.commit()
    assert ids(ice, "shop.i") == []
    assert ice.table("shop.i").metadata.properties["owner"] == "me"  # type: ignore[attr-defined]


def test_requirements_are_checked_again_on_what_others_made(ice: Lake) -> None:
    tx = ice.transaction()
    tx.table("shop.i").to_iceberg().update_schema().add_column("x", LongType()).commit()
    ice.table("shop.i").to_iceberg().update_schema().add_column("y", LongType()).commit()
    with pytest.raises(RetryableConflict, match="current schema"):
        tx.commit()
    assert ice.table("shop.i").schema.names == ["id", "n", "y"]


def test_a_requirement_that_does_not_hold_leaves_the_transaction_as_it_was(ice: Lake) -> None:
    tx = ice.transaction()
    wrong = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": 17})
    with pytest.raises(RetryableConflict, match="17"):
        tx.commit_iceberg("shop.i", [wrong], [SetPropertiesUpdate(updates={"a": "b"})])
    assert tx.intent() is None
    tx.commit_iceberg("shop.i", [], [SetPropertiesUpdate(updates={"a": "b"})])
    tx.commit()
    assert ice.table("shop.i").metadata.properties == {"a": "b"}  # type: ignore[attr-defined]


def test_a_serializable_reader_of_an_iceberg_table_meets_its_writer(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    reader, blind = ice.transaction("serializable"), ice.transaction("serializable")
    reader.append("shop.a", rows(reader.table("shop.i").to_arrow().num_rows))
    blind.append("shop.i", rows(9))
    ice.table("shop.i").append(rows(2))
    blind.commit()
    with pytest.raises(RetryableConflict):
        reader.commit()
    assert ids(ice, "shop.i") == [1, 2, 9]


@pytest.mark.parametrize("where", ["true", "id = 1"])
def test_an_overwrite_that_found_nothing_to_replace_is_not_taken_for_an_append(ice: Lake, where: str) -> None:
    """Two load a day for the first time: for PyIceberg both are appends, and the rows would be there twice."""
    one, other = ice.transaction(), ice.transaction()
    for tx in (one, other):
        tx.overwrite("shop.i", rows(1), where=where)
    one.commit()
    with pytest.raises(RetryableConflict):
        other.commit()
    ice.table("shop.i").overwrite(rows(1), where=where)  # type: ignore[call-arg]
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1]


def test_an_append_that_joined_manifests_is_not_moved(ice: Lake) -> None:
    """What it brings has rows of others in it, which would be there twice."""
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    ice.run(lambda tx: tx.set_properties("shop.i", merging))
    for number in range(3):
        ice.table("shop.i").append(rows(number))
    tx = ice.transaction()
    tx.append("shop.i", rows(8))
    ice.table("shop.i").append(rows(9))
    with pytest.raises(RetryableConflict, match="rewritten manifests"):
        tx.commit()
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [0, 1, 2, 9]


def test_a_group_of_appends_is_one_version(ice: Lake) -> None:
    parts = [ice.transaction() for _ in range(3)]
    for number, tx in enumerate(parts):
        tx.append("shop.i", rows(number))
    answers = ice._committer.commit_group([intent_of(tx) for tx in parts])
    assert len({one.version for one in answers}) == 1
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [0, 1, 2]
    assert ice.table("shop.i").row.table_version == 4


def test_a_table_is_made_with_its_first_rows_by_assert_create(ice: Lake) -> None:
    staged = new_metadata(("shop", "k"), SCHEMA, ice.store, ice.states.runtime)
    step = creation_step(staged)
    with ice.transaction() as tx:
        made = tx.commit_iceberg("shop.k", step.requirements, step.updates)
        assert made.metadata.table_uuid == staged.table_uuid
        tx.append("shop.k", rows(4))
    assert plain(ice, "shop.k") == [4]
    assert ice.table("shop.k").metadata.location == staged.location  # type: ignore[attr-defined]
    with pytest.raises(AlreadyExists):
        ice.run(lambda tx: tx.commit_iceberg("shop.k", step.requirements, step.updates))
    with pytest.raises(AlreadyExists):
        ice.run(lambda tx: tx.commit_iceberg("shop.other", step.requirements, step.updates))


def test_a_place_outside_of_the_lake_is_refused(ice: Lake, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be the place"):
        ice.create_table("shop.k", SCHEMA, format="iceberg", location=f"file://{tmp_path}/elsewhere")
    with pytest.raises(InvalidInput, match=r"write\.data\.path"):
        ice.create_table("shop.k", SCHEMA, format="iceberg", properties={"write.data.path": f"file://{tmp_path}/x"})


@pytest.mark.parametrize(
    ("update", "why"),
    [
        (SetLocationUpdate(location="file:///elsewhere"), "its place is the lake's"),
        (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [5]}), "there is no snapshot 5, or not any more\n"),
        (
            SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "tag", "snapshot-id": 5}),
            "cannot become a tag",
        ),
    ],
)
def test_updates_that_would_break_a_table_are_refused(ice: Lake, update: Any, why: str) -> None:
    tx = ice.transaction()
    with pytest.raises(InvalidInput, match=why):
        tx.commit_iceberg("shop.i", [], [update])
    assert tx.intent() is None


def test_the_current_snapshot_cannot_be_removed(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    current = ice.table("shop.i").metadata.current_snapshot_id  # type: ignore[attr-defined]
    update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [current]})
    with pytest.raises(InvalidInput, match="cannot be removed"):
        ice.run(lambda tx: tx.commit_iceberg("shop.i", [], [update]))


def test_a_branch_that_others_moved_meanwhile_is_not_removed(ice: Lake) -> None:
    """Who replaces a table takes away what he has seen, and puts nothing behind what he has not."""
    ice.table("shop.i").append(rows(1))
    tx = ice.transaction()
    tx.commit_iceberg("shop.i", [], [RemoveSnapshotRefUpdate.model_validate({"ref-name": "main"})])
    tx.append("shop.i", rows(2))
    assert tx.table("shop.i").to_arrow()["id"].to_pylist() == [2]
    ice.table("shop.i").append(rows(3))
    with pytest.raises(RetryableConflict, match="main has moved meanwhile"):
        tx.commit()
    assert ids(ice, "shop.i") == [1, 3]


def test_the_log_of_snapshots_never_goes_back_whatever_the_clocks_of_writers_say(ice: Lake) -> None:
    """Java opens no table whose log does."""
    for late in (0, 600_000, 0, -86_400_000, 0):
        tx = ice.transaction()
        tx.append("shop.i", rows(1))
        metadata = tx.iceberg("shop.i").metadata
        tx.rollback()
        made = metadata.snapshots[-1]
        snapshot = made.model_copy(update={"timestamp_ms": made.timestamp_ms + late})
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id}
        updates = [AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(ref)]
        ice.run(lambda tx, updates=updates: tx.commit_iceberg("shop.i", [], updates))  # type: ignore[misc]
    ice.table("shop.i").append(rows(2))
    after = ice.table("shop.i").metadata  # type: ignore[attr-defined]
    times = [one.timestamp_ms for one in after.snapshot_log]
    assert times == sorted(times)
    assert times[-1] <= after.last_updated_ms
    assert [one.snapshot_id for one in after.snapshot_log] == [one.snapshot_id for one in after.snapshots]
    assert len({one.timestamp_ms for one in after.snapshots}) == 6, "their own times are what their writers said"


def test_the_id_that_a_schema_is_sent_with_means_that_schema(ice: Lake) -> None:
    """Also if another has that id by now, or the table has had the schema under another one."""
    before = ice.table("shop.i").metadata.schema().fields  # type: ignore[attr-defined]

    def sent(number: int, *names: str) -> list[Any]:
        last = len(before)
        more = [NestedField(last + n, name, LongType(), required=False) for n, name in enumerate(names, 1)]
        current = SetCurrentSchemaUpdate.model_validate({"schema-id": number})
        return [AddSchemaUpdate(schema=Schema(*before, *more, schema_id=number)), current]

    for number, names in ((1, ("a",)), (1, ("a", "b")), (7, ("a",))):
        with ice.transaction() as tx:
            tx.commit_iceberg("shop.i", [], sent(number, *names))
        found = ice.table("shop.i").metadata.schema()  # type: ignore[attr-defined]
        assert found.column_names[len(before) :] == list(names)


def test_harmless_updates_that_pyiceberg_trips_over_are_taken(ice: Lake) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), schema_id=0)
    with ice.transaction() as tx:
        tx.commit_iceberg("shop.i", [], [RemovePropertiesUpdate(removals=["absent"])])
        tx.commit_iceberg("shop.i", [], [AddSchemaUpdate(schema=schema)])
    found = [one.schema_id for one in ice.table("shop.i").metadata.schemas]  # type: ignore[attr-defined]
    assert found == [0, 1]


def test_where_a_branch_must_stand_is_required_also_of_what_adds_no_rows(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    at = ice.table("shop.i").metadata.current_snapshot_id  # type: ignore[attr-defined]
    tx = ice.transaction()
    required = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": at})
    tx.commit_iceberg("shop.i", [required], [SetPropertiesUpdate(updates={"counted": "1 row"})])
    tx.append("shop.j", rows(1))
    ice.table("shop.i").append(rows(2))
    with pytest.raises(RetryableConflict, match="main"):
        tx.commit()
    assert ids(ice, "shop.j") == []
    with ice.transaction() as tx:
        tx.append("shop.i", rows(3))
        at = tx.table("shop.i").metadata.current_snapshot_id  # type: ignore[attr-defined]
        required = AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": at})
        tx.commit_iceberg("shop.i", [required], [SetPropertiesUpdate(updates={"counted": "3 rows"})])
        ice.table("shop.i").append(rows(4))
    assert ids(ice, "shop.i") == [1, 2, 3, 4]


def test_a_snapshot_that_names_missing_files_is_refused(ice: Lake) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(1))
    (step,) = tx.edits[ice.table("shop.i").row.id].iceberg.steps  # type: ignore[attr-defined]
    snapshot = step.updates[0].snapshot
    tx.rollback()
    ice.store.delete(path_of(ice.store, snapshot.manifest_list) or "")
    with pytest.raises(InvalidInput, match="cannot be read"):
        ice.run(lambda other: other.commit_iceberg("shop.i", step.requirements, step.updates))


def test_a_saved_transaction_goes_on_elsewhere(ice: Lake) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(1))
    tx.create_table("shop.k", SCHEMA, format="iceberg").append(rows(2))
    saved = tx.save()
    ice.table("shop.i").append(rows(3))
    elsewhere = seiche.open(ice.uri)
    resumed = elsewhere.resume(saved)
    assert resumed.table("shop.i").to_arrow()["id"].to_pylist() == [1]
    resumed.append("shop.k", rows(4))
    resumed.commit()
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1, 3]
    assert ids(ice, "shop.k") == [2, 4]


def test_rolling_back_keeps_sequence_numbers_and_history(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    version = ice.version
    ice.table("shop.i").append(rows(2))
    ice.table("shop.i").to_iceberg().update_schema().add_column("x", LongType()).commit()
    ice.table("shop.i").delete("id = 1")
    last: Any = ice.table("shop.i").metadata  # type: ignore[attr-defined]
    ice.rollback(to=version)
    table: Any = ice.table("shop.i")
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1]
    assert table.schema.names == ["id", "n"]
    assert table.metadata.last_sequence_number == last.last_sequence_number
    assert table.metadata.last_column_id == last.last_column_id
    assert {one.snapshot_id for one in last.snapshots} == {one.snapshot_id for one in table.metadata.snapshots}
    table.append(rows(5))
    assert plain(ice, "shop.i") == [1, 5]
    assert table.metadata.current_snapshot().sequence_number == last.last_sequence_number + 1
    assert ice.fsck().ok


def test_rolling_back_to_before_the_first_rows_leaves_no_snapshot_to_be_shown(ice: Lake) -> None:
    """DuckDB shows the newest snapshot of a table whose main branch has none: the rows that were taken back."""
    version = ice.version
    ice.table("shop.i").append(rows(1))
    last: Any = ice.table("shop.i").metadata  # type: ignore[attr-defined]
    blind = ice.transaction()
    blind.append("shop.i", rows(2))
    ice.rollback(to=version)
    metadata: Any = ice.table("shop.i").metadata  # type: ignore[attr-defined]
    assert (metadata.snapshots, metadata.snapshot_log, metadata.refs) == ([], [], {})
    assert metadata.last_sequence_number == last.last_sequence_number
    blind.commit()
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [2]
    ice.rollback(to=version + 1)
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1]
    assert ice.fsck().ok


def test_a_writer_that_began_before_a_rollback_meets_it(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    version = ice.version
    ice.table("shop.i").append(rows(2))
    tx, blind = ice.transaction(), ice.transaction()
    tx.delete("shop.i", "id = 2")
    blind.append("shop.i", rows(3))
    ice.rollback(to=version)
    with pytest.raises(RetryableConflict):
        tx.commit()
    blind.commit()
    assert ids(ice, "shop.i") == [1, 3]


def test_a_dropped_table_comes_back_by_a_rollback(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    version = ice.version
    ice.drop_table("shop.i")
    ice.rollback(to=version)
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1]


def test_the_difference_tells_snapshots_rows_files_and_columns(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1, 2))
    first = ice.version
    ice.table("shop.i").append(rows(3))
    ice.table("shop.i").delete("id = 1")
    ice.table("shop.i").to_iceberg().update_schema().add_column("x", LongType()).commit()
    (found,) = ice.diff(first, ice.version).tables
    assert [one.operation for one in found.operations] == ["append", "overwrite"]
    assert (found.rows_before, found.rows_after) == (2, 2)
    assert found.rows_added - found.rows_removed == 0
    assert len(found.files_added) == 2
    assert len(found.files_removed) == 1
    assert [str(one) for one in found.columns] == ["added column x (long)"]
    assert "shop.i" in repr(ice.diff(first, ice.version))
    (back,) = ice.diff(ice.version, first).tables
    assert [str(one) for one in back.columns] == ["dropped column x (long)"]
    assert [one.name for one in ice.log()[0].transactions[0].objects or ()] == ["shop.i"]


def test_the_difference_counts_rows_also_where_snapshots_do_not_say_how_many_there_are(ice: Lake) -> None:
    """Nobody has to: such a snapshot seemed to leave no rows at all, and so did all after it."""
    ice.table("shop.i").append(rows(1, 2, 3))
    delete_by_position(ice, "shop.i", 2)
    (found,) = ice.diff(ice.version - 1, ice.version).tables
    assert (found.rows_before, found.rows_after, found.rows_removed) == (3, 3, 0), "it is in its file, and hidden"
    ice.table("shop.i").append(rows(4))
    (found,) = ice.diff(ice.version - 1, ice.version).tables
    assert (found.rows_before, found.rows_after, found.rows_added) == (3, 4, 1)


def test_updates_by_expressions(ice: Lake) -> None:
    table = ice.table("shop.i")
    table.append(rows(1, 2, 3))
    before = {row["id"]: row["n"] for row in table.to_arrow().to_pylist()}
    done = table.update({"n": "n * 10 + id"}, where="id >= 2")
    assert done.rows == 2
    with ice.transaction() as tx:
        tx.update("shop.i", {"n": "-1"}, where="id = 3")
        tx.update("shop.a", {"n": "-1"})
        assert {row["id"]: row["n"] for row in tx.table("shop.i").to_arrow().to_pylist()}[3] == -1
    wanted = {1: before[1], 2: before[2] * 10 + 2, 3: -1}
    assert {row["id"]: row["n"] for row in table.to_arrow().to_pylist()} == wanted
    assert plain(ice, "shop.i") == [1, 2, 3]
    version = ice.version
    assert not table.update({"n": "0"}, where="id = 99").changed
    for bad in ({"no": "1"}, {"n": "1 +"}, {"n": "nowhere + 1"}, {"n": "'text'"}, {}):
        with pytest.raises(InvalidInput):
            table.update(bad)
    assert ice.version == version


@pytest.mark.parametrize("engine", [{}, {"format": "iceberg"}], ids=["lance", "iceberg"])
def test_an_update_makes_no_infinity_of_a_number_that_is_too_large(lake: Lake, engine: dict[str, Any]) -> None:
    columns = pa.schema([("id", pa.int64()), ("short", pa.float32()), ("long", pa.float64())])
    table = lake.create_table("shop.f", columns, **engine)
    table.append([{"id": 1, "short": 1.5, "long": 1e300}, {"id": 2, "short": 2.5, "long": float("inf")}])
    for expression in ("1e300", "long", "-long * 2"):
        with pytest.raises(InvalidInput, match="a number is too large for float"):
            table.update({"short": expression})
    assert table.update({"short": "long"}, "id = 2").rows == 1
    assert table.update({"short": "'inf'"}, "id = 1").rows == 1
    assert table.to_arrow()["short"].to_pylist() == [float("inf")] * 2


def test_a_decimal_becomes_the_float_nearest_to_it(ice: Lake) -> None:
    table = ice.create_table("shop.f", pa.schema([("x", pa.float64())]), format="iceberg")
    table.append(pa.table({"x": pa.array([Decimal("0.82"), Decimal("2.30")])}))
    assert table.to_arrow()["x"].to_pylist() == [0.82, 2.3]


def test_an_update_of_what_others_changed_is_a_conflict(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    one, other = ice.transaction(), ice.transaction()
    for tx in (one, other):
        tx.update("shop.i", {"n": "n + 1"})
    one.commit()
    with pytest.raises(RetryableConflict):
        other.commit()


def test_a_verb_is_tried_as_often_as_allowed_and_says_what_it_made(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ice.table("shop.i")
    made = [table.append(rows(1)), table.merge(rows(2), "id").when_not_matched_insert_all().execute(timeout=9.0)]
    assert [(one.version, one.notes["lake_version"]) for one in made] == [(2, ice.version - 1), (3, ice.version)]
    asked: list[tuple[int, float | None]] = []
    run = Lake.run_versioned

    def noted(lake: Lake, fn: Any, *, attempts: int = 10, timeout: float | None = None) -> Any:
        asked.append((attempts, timeout))
        return run(lake, fn, attempts=attempts, timeout=timeout)

    monkeypatch.setattr(Lake, "run_versioned", noted)
    table.append(rows(3), attempts=2)
    table.delete("id = 3", attempts=4, timeout=5.0)
    table.merge(rows(2), "id").when_matched_update_all().execute(timeout=6.0)
    assert asked == [(2, 120.0), (4, 5.0), (100, 6.0)]


def test_what_cannot_be_done_to_an_iceberg_table_says_so(ice: Lake) -> None:
    table = ice.table("shop.i")
    for refused in (
        table.to_lance,
        lambda: table.create_index("id", "BTREE"),
        table.compact,
        lambda: table.merge(rows(1), "id").when_matched_delete(),
        lambda: ice.table("shop.a").to_iceberg(),
        lambda: table.delete("this is no condition"),
        lambda: table.delete(None),  # type: ignore[arg-type]
        lambda: table.delete("unknown = 1"),
        lambda: table.delete("id IN ('a')"),
        lambda: table.update({"id": "1"}, "unknown = 1"),
        lambda: table.overwrite(rows(1), where=1),  # type: ignore[call-arg]
        lambda: table.to_arrow(filter="unknown = 1"),
        lambda: table.to_arrow(filter="id = 'a'"),
        lambda: table.to_arrow(columns=["unknown"]),
        lambda: table.to_arrow(columns="n"),
        lambda: table.merge(rows(1), "unknown").when_matched_update_all().execute(),
        lambda: table.merge([{"id": None}], "id").when_not_matched_insert_all().execute(),
        lambda: table.append([{"unknown": 1}]),
        lambda: table.append(None),
        lambda: ice.run(lambda tx: tx.commit_iceberg("shop.a", [], [])),
        lambda: ice.create_table("shop.k", pa.schema([("for", pa.duration("us"))]), format="iceberg"),
    ):
        with pytest.raises(InvalidInput):
            refused()


def test_a_copied_lake_is_read_and_written_where_it_is_now(ice: Lake, tmp_path: Path) -> None:
    import shutil

    ice.table("shop.i").append(rows(1))
    shutil.copytree(ice.store.native_uri(), tmp_path / "copy")
    shutil.rmtree(ice.store.native_uri())
    copy = seiche.open(str(tmp_path / "copy"))
    copy.table("shop.i").append(rows(2))
    copy.table("shop.i").delete("id = 1")
    assert ids(copy, "shop.i") == [2]
    assert copy.fsck().ok


def test_addresses_of_files_in_the_lake_are_recognised(ice: Lake) -> None:
    store: Store = ice.store
    path = ice.table("shop.i").row.location + "/data/x.parquet"
    root = store.native_uri()
    for where in (address(store, path), f"{root}/{path}", f"file:{root}/{path}", f"s3://some/where/{path}"):
        assert path_of(store, where) == path
    assert path_of(store, "s3://bucket/warehouse/t/data/x.parquet") is None
    assert path_of(store, f"file://{root}/../secret") is None


def test_a_table_is_found_at_any_version(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    version = ice.version
    ice.table("shop.i").append(rows(2))
    pinned = seiche.open(ice.store, version=version)
    assert len(at_state(pinned.state(), ("shop", "i")).metadata.snapshots) == 1
    assert pinned.table("shop.i").to_iceberg().scan().to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(InvalidInput):
        pinned.table("shop.i").to_iceberg().append(rows(5))
    assert AssertCreate().type == "assert-create"


@pytest.mark.parametrize("ending", [".parquet", ".avro"])
def test_a_file_that_is_gone_is_an_error_of_ours(ice: Lake, ending: str) -> None:
    table = ice.table("shop.i")
    table.append(rows(1, 2))
    for info in list(ice.store.list("tables")):
        if info.path.endswith(ending):
            ice.store.delete(info.path)
    for act in (table.to_arrow, lambda: table.delete("id = 1")):
        with pytest.raises(NotFound, match="cleaned up meanwhile") as gone:
            act()
        assert gone.value.details["table"] == "shop.i"


def test_what_pyiceberg_lacks_a_library_for_is_an_error_of_the_lake(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise NotInstalledError("pyiceberg_core needs to be installed")

    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "parts"))
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    lake.create_table("shop.parts", schema, format="iceberg", partition_spec=spec)
    monkeypatch.setattr(BucketTransform, "transform", lacking)
    with pytest.raises(InvalidInput, match="pyiceberg_core needs to be installed"):
        lake.table("shop.parts").append([{"id": 1}])


def test_who_lost_against_others_is_told_which_snapshot_he_had_and_which_is_current(lake: Lake) -> None:
    """Both were told to be the current one."""
    table = lake.create_table("shop.i", SCHEMA, format="iceberg")
    table.append(rows(1))
    mine = table.to_iceberg()
    table.append(rows(2))
    had, current = (one.metadata.current_snapshot_id for one in (mine, table.to_iceberg()))
    with pytest.raises(ValidationException, match=f"built on snapshot {had}, and {current} is current"):
        mine.overwrite(rows(3))


@pytest.mark.parametrize("name", ["shop.i", "shop.a"])
def test_an_append_without_rows_leaves_the_table_and_the_lake_as_they_are(ice: Lake, name: str) -> None:
    version = ice.version
    assert not ice.table(name).append([]).changed
    with ice.transaction() as tx:
        assert not tx.append(name, SCHEMA.empty_table()).changed
    assert ice.version == version
    with pytest.raises(InvalidInput, match="no column"):
        ice.table(name).append(pa.table({"other": pa.array([], pa.int64())}))


def test_a_handle_of_an_iceberg_table_whose_name_a_lance_table_has_by_now_says_so(ice: Lake) -> None:
    table = ice.table("shop.i")
    ice.drop_table("shop.i")
    ice.create_table("shop.i", SCHEMA)
    for ask in (lambda: table.append(rows(1)), lambda: table.delete("id = 1"), table.to_lance, table.versions):
        with pytest.raises(InvalidInput, match="by now a managed table of format lance"):
            ask()
    assert ids(ice, "shop.i") == []


class Unanswered(WrappingStore):
    """Loses the answer to one upload, by its number among those of an Iceberg table."""

    def __init__(self, inner: Store, number: int) -> None:
        super().__init__(inner)
        self.number = number
        self.uploads: list[str] = []

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        done = act()
        if call.verb == "put" and ".iceberg/" in call.path:
            self.uploads.append(call.path)
            if len(self.uploads) == self.number:
                raise CommitUnknown("the answer was lost")
        return done


@pytest.mark.parametrize("number", [1, 2, 3], ids=["rows", "manifest", "list of manifests"])
def test_files_whose_upload_was_not_answered_are_uploaded_again(ice: Lake, number: int) -> None:
    """`CommitUnknown` would send people to ask for the outcome of a commit that has not begun."""
    store = Unanswered(ice.store, number)
    seiche.open(store).table("shop.i").append(rows(1))
    assert len(store.uploads) == 4
    assert store.uploads[number - 1] == store.uploads[number]
    assert ids(ice, "shop.i") == plain(ice, "shop.i") == [1]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.append(rows(1)),
        lambda table: table.overwrite(rows(1)),
        lambda table: table.delete("id = 1"),
        lambda table: table.update({"id": "id + 1"}),
        lambda table: table.merge(rows(1), on="id").when_matched_update_all().when_not_matched_insert_all().execute(),
    ],
)
def test_rows_of_format_version_3_are_refused_before_any_are_written(ice: Lake, change: Any) -> None:
    """PyIceberg writes none, and said so when all data files were written, in words about manifests."""
    ice.create_table("shop.v3", SCHEMA, format="iceberg", properties={"format-version": "3"})
    table: Any = ice.table("shop.v3")
    for given in (table, ice.transaction().table("shop.v3")):
        with pytest.raises(InvalidInput, match=r"shop\.v3 has format version 3") as refused:
            change(given)
        assert "--iceberg-port" in refused.value.remedy
    home = path_of(ice.store, table.metadata.location) or ""
    assert [one.path for one in ice.store.list(home) if one.path.endswith(".parquet")] == []
    assert table.to_arrow().num_rows == 0
