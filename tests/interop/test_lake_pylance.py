"""pylance on tables of a lake: every way in which it commits, through the lake and inside a transaction."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import lance_namespace as ln
import pyarrow as pa
import pytest
from lance.optimize import Compaction

import seiche
from seiche import InvalidInput, Lake, NotFound, RetryableConflict
from seiche.lake.engines.lance_dataset import REFUSED, STATEMENTS
from seiche.lake.engines.views import FAR
from seiche.lake.handles import LakeTable, TransactionTable
from seiche.lake.transaction import Transaction
from seiche.lake.versions import LakeVersions
from seiche.store import open_store
from seiche.table.format.index_details import FRAGMENT_REUSE
from seiche.table.table import Table
from seiche.table.versions import hint
from seiche.table.versions.naming import parse

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def rows(*ids: int, n: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "n": [n] * len(ids), "s": [f"word {one}" for one in ids]}, schema=SCHEMA)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "a lake"), durability="os"))
    made.create_namespace("shop")
    made.create_table("shop.a", SCHEMA).append(rows(*range(20)))
    made.table("shop.a").append(rows(*range(20, 40)))
    return made


def folder(lake: Lake, table: str = "shop.a") -> Path:
    return Path(lake.table(table)._lake.store.native_uri(lake.table(table).row.location))


def published(lake: Lake, table: str = "shop.a") -> list[int]:
    """The versions that a plain reader finds."""
    found = (parse(path.name) for path in (folder(lake, table) / "_versions").iterdir())
    return sorted(one[1] for one in found if one is not None)


def check(lake: Lake, table: str = "shop.a") -> None:
    """The table is sound for plain readers: no gap, nothing ahead, valid, and closed to their writes."""
    version = lake.table(table).version
    assert published(lake, table) == list(range(1, version + 1))
    plain = lance.dataset(str(folder(lake, table)))
    assert plain.version == version
    plain.validate()  # type: ignore[no-untyped-call]
    assert in_order(plain.to_table()) == in_order(lake.table(table).to_arrow())
    manifest = LakeVersions(lake.store, lake.table(table).row).read(version).manifest
    assert all(0 < index.dataset_version <= version for index in manifest.indices), "no number from inside is left"
    if plain.has_stable_row_ids:
        numbers = plain.to_table(columns=["_row_created_at_version", "_row_last_updated_at_version"])
        assert all(0 < number <= version for column in numbers.columns for number in column.to_pylist())
    for index in plain.describe_indices():
        if index.name == FRAGMENT_REUSE:
            continue
        (column,) = index.field_names
        # Every fifth of the values, and others at the next version: in the end each has been asked for.
        for row in plain.to_table(columns=[column])[column].to_pylist()[version % 5 : 50 : 5]:
            condition = f"{column} = '{row}'" if isinstance(row, str) else f"{column} = {row}"
            by_index = plain.to_table(filter=condition, with_row_id=True)
            by_scan = plain.scanner(filter=condition, use_scalar_index=False, with_row_id=True).to_table()
            assert in_order(by_index) == in_order(by_scan), f"the index on {column} answers {condition} otherwise"
    with pytest.raises(OSError, match="cannot be written"):
        plain.delete("true")


def in_order(data: pa.Table) -> list[dict[str, Any]]:
    return sorted(data.to_pylist(), key=lambda row: str(sorted(row.items(), key=lambda item: item[0])))


@dataclass(frozen=True)
class Step:
    """Something that a user does with a dataset."""

    name: str
    run: Callable[[Any], object]


def merged(dataset: Any) -> object:
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return builder.execute(rows(7, 8, 2000, n=70))


def noted(columns: dict[str, Any], note: str) -> pa.Table:
    """A table with metadata of its schema, as all have that come from pandas."""
    return pa.table(columns).replace_schema_metadata({note: "ä"})


STEPS = [
    Step("insert", lambda ds: ds.insert(rows(1000, 1001))),
    Step("delete", lambda ds: ds.delete("id in (3, 15, 1001)")),
    Step("update", lambda ds: ds.update({"n": "n + 1"}, where="id = 1000 or id < 5")),
    Step("merge", merged),
    Step("index", lambda ds: ds.create_scalar_index("id", "BTREE")),
    Step("another index", lambda ds: ds.create_scalar_index("s", "BITMAP")),
    Step("insert behind the index", lambda ds: ds.insert(rows(3000))),
    Step("optimize indices", lambda ds: ds.optimize.optimize_indices()),
    Step("update of indexed rows", lambda ds: ds.update({"s": "'other'"}, where="id % 7 = 0")),
    Step("drop index", lambda ds: ds.drop_index("s_idx")),
    Step("add column", lambda ds: ds.add_columns({"double": "id * 2"})),
    Step("add empty column", lambda ds: ds.add_columns(pa.field("empty", pa.int64()))),
    Step("rename column", lambda ds: ds.alter_columns({"path": "double", "name": "twice"})),
    Step("cast column", lambda ds: ds.alter_columns({"path": "twice", "data_type": pa.int32()})),
    Step("drop column", lambda ds: ds.drop_columns(["empty"])),
    Step("join columns", lambda ds: ds.merge(pa.table({"id": [1, 2], "z": [10, 20]}), "id")),
    Step("join with metadata", lambda ds: ds.merge(noted({"id": [1, 2], "y": [1, 2]}, "join"), "id")),
    Step("insert with metadata", lambda ds: ds.insert(noted({"id": [4000]}, "insert"))),
    Step(
        "partial merge", lambda ds: ds.merge_insert("id").when_matched_update_all().execute(rows(1, 2, n=9).drop("s"))
    ),
    Step(
        "merge that deletes",
        lambda ds: ds.merge_insert("id").when_not_matched_by_source_delete("id > 2500").execute(rows(1).drop("s")),
    ),
    Step("full text", lambda ds: ds.create_scalar_index("s", "INVERTED")),
    Step("truncate", lambda ds: ds.truncate_table()),
    Step("overwrite with metadata", lambda ds: ds.insert(noted({"q": [1]}, "overwrite"), mode="overwrite")),
    Step("overwrite", lambda ds: ds.insert(pa.table({"q": [1, 2]}), mode="overwrite")),
    Step("config", lambda ds: ds.update_config({"a": "b", "c": "d"})),
    Step("delete config", lambda ds: ds.delete_config_keys(["a"])),
    Step("metadata", lambda ds: ds.update_metadata({"owner": "me"})),
    Step("schema metadata", lambda ds: ds.update_schema_metadata({"k": "ä"})),
    Step("field metadata", lambda ds: ds.update_field_metadata({"q": {"unit": "m"}})),
]


def indices(dataset: Any) -> list[str]:
    return sorted(index.name for index in dataset.describe_indices())


def described(dataset: Any) -> dict[str, object]:
    """What can be told of a dataset without asking for numbers of versions."""
    return {
        "rows": in_order(dataset.to_table()),
        "schema": dataset.schema.to_string(),
        "metadata": dataset.schema.metadata,
        "config": dataset.config(),
        "indices": indices(dataset),
        "filtered": in_order(dataset.to_table(filter="id = 7")) if "id" in dataset.schema.names else None,
    }


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_every_statement_commits_through_the_lake_as_it_would_to_a_plain_table(
    lake: Lake, tmp_path: Path, stable: bool
) -> None:
    data = rows(*range(40))
    lake.create_table("shop.t", SCHEMA, stable_row_ids=stable).append(data)
    twin = lance.write_dataset(data, tmp_path / "twin", enable_stable_row_ids=stable)
    dataset = lake.table("shop.t").to_lance()
    assert isinstance(dataset, lance.LanceDataset)
    for step in STEPS:
        before, version = lake.version, lake.table("shop.t").version
        theirs, ours = step.run(twin), step.run(dataset)
        if isinstance(theirs, dict):
            assert ours == theirs, step.name
        assert lake.version == before + 1, f"{step.name} is one version of the lake"
        assert lake.table("shop.t").version == dataset.version == version + 1, step.name
        assert described(dataset) == described(twin), step.name
        check(lake, "shop.t")


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_every_statement_runs_inside_a_transaction_and_is_seen_by_the_next(
    lake: Lake, tmp_path: Path, stable: bool
) -> None:
    data = rows(*range(40))
    lake.create_table("shop.t", SCHEMA, stable_row_ids=stable).append(data)
    twin = lance.write_dataset(data, tmp_path / "twin", enable_stable_row_ids=stable)
    outside = described(lake.table("shop.t").to_lance())
    tx = lake.transaction()
    inside = tx.table("shop.t").to_lance()
    for step in STEPS:
        theirs, ours = step.run(twin), step.run(inside)
        if isinstance(theirs, dict):
            assert ours == theirs, step.name
        assert described(inside) == described(tx.table("shop.t").to_lance()) == described(twin), step.name
        assert in_order(tx.table("shop.t").to_arrow()) == in_order(twin.to_table()), step.name
        inside.validate()  # type: ignore[no-untyped-call]
    assert described(lake.table("shop.t").to_lance()) == outside
    assert described(lance.dataset(str(folder(lake, "shop.t")))) == outside
    tx.commit()
    assert described(lake.table("shop.t").to_lance()) == described(twin)
    check(lake, "shop.t")


def five_statements(dataset: Any) -> None:
    """A merge, an append, a delete, an update and an index build."""
    merged(dataset)
    dataset.insert(rows(500, 501, n=1))
    dataset.delete("id in (2, 25, 501)")
    dataset.update({"n": "n + 1"}, where="id in (4, 500)")
    dataset.create_scalar_index("id", "BTREE")


def expected(*more: int) -> dict[int, int]:
    found = dict.fromkeys(range(40), 0) | {7: 70, 8: 70, 2000: 70, 500: 2, 4: 1} | dict.fromkeys(more, 0)
    return {key: value for key, value in found.items() if key not in (2, 25)}


def content(data: pa.Table) -> dict[int, int]:
    found = dict(zip(data["id"].to_pylist(), data["n"].to_pylist(), strict=True))
    assert len(found) == data.num_rows, "no row is there twice"
    return found


def test_a_transaction_of_pylance_is_rolled_back_and_then_committed(lake: Lake) -> None:
    before, version, listed = lake.version, lake.table("shop.a").version, published(lake)
    tx = lake.transaction()
    inside = tx.table("shop.a").to_lance()
    five_statements(inside)
    assert content(inside.to_table()) == expected()
    assert "ScalarIndexQuery" in inside.scanner(filter="id = 500").explain_plan()
    assert content(inside.to_table(filter="id = 500")) == {500: 2}
    assert content(lake.table("shop.a").to_arrow()) == dict.fromkeys(range(40), 0)
    assert content(lance.dataset(str(folder(lake))).to_table()) == dict.fromkeys(range(40), 0)
    tx.rollback()
    assert (lake.version, lake.table("shop.a").version, published(lake)) == (before, version, listed)
    assert content(lake.table("shop.a").to_arrow()) == dict.fromkeys(range(40), 0)
    check(lake)

    with lake.transaction() as again:
        five_statements(again.table("shop.a").to_lance())
    assert lake.version == before + 1
    assert lake.table("shop.a").version == version + 2, "one version for the content, one for the index"
    assert content(lake.table("shop.a").to_arrow()) == expected()
    check(lake)


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_statements_of_pylance_are_rebased_over_what_others_commit(lake: Lake, stable: bool) -> None:
    lake.create_table("shop.t", SCHEMA, stable_row_ids=stable).append(rows(*range(40)))
    table = lake.table("shop.t")
    tx = lake.transaction()
    inside = tx.table("shop.t").to_lance()
    inside.create_scalar_index("id", "BTREE")
    merged(inside)
    table.append(rows(100, 101))
    table.to_lance().delete("id in (30, 101)")
    inside.insert(rows(500, 501, n=1))
    table.create_index("n", "BTREE")
    inside.delete("id in (2, 25, 501)")
    inside.update({"n": "n + 1"}, where="id in (4, 500)")
    table.append(rows(102))
    assert content(inside.to_table()) == expected(), "a transaction sees its own version, whatever is published"
    tx.commit()
    wanted = expected(100, 102)
    del wanted[30]
    assert content(table.to_arrow()) == wanted
    assert indices(table.to_lance()) == ["id_idx", "n_idx"]
    check(lake, "shop.t")
    for number in (500, 100, 102, 7):
        assert content(table.to_lance().to_table(filter=f"id = {number}")) == {number: wanted[number]}


@pytest.mark.parametrize("native", [True, False], ids=["pylance", "verbs"])
def test_an_index_over_own_rows_whose_fragments_get_other_numbers_answers_rightly(lake: Lake, native: bool) -> None:
    """Others take the numbers that the transaction gave to its fragments, or it removed some of them again."""
    tx = lake.transaction()
    table: Any = tx.table("shop.a")
    inside: Any = table.to_lance()

    def add(*ids: int) -> None:
        inside.insert(rows(*ids)) if native else table.append(rows(*ids))

    def remove(condition: str) -> None:
        (inside if native else table).delete(condition)

    add(100, 101)
    add(200, 201)
    inside.create_scalar_index("id", "BTREE") if native else table.create_index("id", "BTREE")
    remove("id in (200, 201)")
    add(300, 301)
    lake.table("shop.a").append(rows(400))
    tx.commit()
    check(lake)
    for number in (100, 101, 300, 301, 400, 7):
        assert content(lake.table("shop.a").to_lance().to_table(filter=f"id = {number}")) == {number: 0}
    assert lake.table("shop.a").to_lance().to_table(filter="id = 200").num_rows == 0

    with lake.transaction() as again:
        mine = again.table("shop.a").to_lance()
        mine.insert(rows(500))
        mine.drop_index("id_idx")
        mine.create_scalar_index("id", "BTREE")
        mine.delete("id = 500")
        lake.table("shop.a").append(rows(600))
    assert content(lake.table("shop.a").to_lance().to_table(filter="id = 600")) == {600: 0}
    check(lake)


@pytest.mark.parametrize("native", [True, False], ids=["pylance", "verbs"])
def test_with_stable_row_ids_such_an_index_is_a_conflict(lake: Lake, native: bool) -> None:
    """pylance fails on places in an index that its table does not have, before it leaves out what is not covered."""
    lake.create_table("shop.t", SCHEMA, stable_row_ids=True).append(rows(*range(40)))
    tx = lake.transaction()
    table: Any = tx.table("shop.t")
    inside: Any = table.to_lance()
    if native:
        inside.insert(rows(500, 501, 502))
        inside.create_scalar_index("id", "BTREE")
    else:
        table.append(rows(500, 501, 502))
        table.create_index("id", "BTREE")
    lake.table("shop.t").append(rows(100))
    with pytest.raises(RetryableConflict, match="index 'id_idx'"):
        tx.commit()
    check(lake, "shop.t")


def test_two_tables_change_together_through_pylance_and_the_lakes_own_verbs(lake: Lake) -> None:
    lake.create_table("shop.b", SCHEMA)
    with lake.transaction() as tx:
        tx.append("shop.b", rows(1, 2))
        inside = tx.table("shop.b").to_lance()
        inside.update({"n": "5"}, where="id = 1")
        tx.append("shop.b", rows(3))
        assert content(inside.to_table()) == {1: 5, 2: 0}, "a handle stays where it is"
        inside.delete("id = 2")
        assert content(inside.to_table()) == {1: 5, 3: 0}, "a statement begins with the newest state"
        tx.table("shop.a").to_lance().delete("id >= 2")
        tx.update("shop.b", {"n": "n + 1"}, where="id = 3")
    assert content(lake.table("shop.b").to_arrow()) == {1: 5, 3: 1}
    assert content(lake.table("shop.a").to_arrow()) == {0: 0, 1: 0}
    assert tx.version == lake.version
    check(lake)
    check(lake, "shop.b")


def test_rows_that_others_changed_as_well_are_a_conflict_and_nothing_is_committed(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table("shop.a").to_lance().update({"n": "n + 1"}, where="id = 3")
    lake.table("shop.a").to_lance().update({"n": "n + 10"}, where="id = 3")
    with pytest.raises(RetryableConflict):
        tx.commit()
    assert content(lake.table("shop.a").to_arrow(filter="id = 3")) == {3: 10}
    check(lake)


def test_a_serializable_transaction_that_read_through_pylance_conflicts_with_changes_of_what_it_read(
    lake: Lake,
) -> None:
    lake.create_table("shop.b", SCHEMA)
    tx = lake.transaction("serializable")
    seen = tx.table("shop.a").to_lance().count_rows()
    tx.append("shop.b", rows(seen))
    lake.table("shop.a").append(rows(77))
    with pytest.raises(RetryableConflict, match=r"shop\.a"):
        tx.commit()
    by_hand = lake.transaction("serializable")
    lance.dataset(namespace_client=by_hand.namespace(), table_id=["shop", "a"]).count_rows()
    by_hand.append("shop.b", rows(1))
    lake.table("shop.a").append(rows(78))
    with pytest.raises(RetryableConflict, match=r"shop\.a"):
        by_hand.commit()


def test_a_statement_that_fails_leaves_the_transaction_as_it_was(lake: Lake) -> None:
    with lake.transaction() as tx:
        inside = tx.table("shop.a").to_lance()
        inside.delete("id = 1")
        with pytest.raises((OSError, ValueError), match="nonsense"):
            inside.delete("nonsense = 1")

        def fails_late(dataset: Any) -> None:
            lance.LanceDataset.delete(dataset, "id = 2")
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            inside._execute("delete", fails_late)
        assert inside.count_rows() == 38, "the handle itself may have gone on"
        inside.delete("id = 3")
        assert inside.count_rows() == 38
    assert set(range(40)) - content(lake.table("shop.a").to_arrow()).keys() == {1, 3}
    check(lake)


def test_a_handle_follows_when_others_commit_and_its_statements_work_on_the_newest_version(lake: Lake) -> None:
    dataset = lake.table("shop.a").to_lance()
    other = lake.table("shop.a").to_lance()
    other.update({"n": "n + 1"}, where="id < 10")
    lake.table("shop.a").append(rows(99))
    assert dataset.count_rows() == 40
    assert dataset.update({"n": "n + 1"}, where="id < 10 or id = 99") == {"num_rows_updated": 11}
    assert content(dataset.to_table(filter="id in (0, 99)")) == {0: 2, 99: 1}
    lake.rename_table("shop.a", "shop.z")
    dataset.delete("id < 39")
    assert content(lake.table("shop.z").to_arrow()) == {39: 0, 99: 1}
    check(lake, "shop.z")


def test_an_append_of_a_reader_that_cannot_be_read_twice_is_rebased(lake: Lake) -> None:
    """Others commit while the rows are being written."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(100).to_batches()
        lake.table("shop.a").append(rows(200))
        yield from rows(101).to_batches()

    lake.table("shop.a").to_lance().insert(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert content(lake.table("shop.a").to_arrow()).keys() == {*range(40), 100, 101, 200}
    check(lake)


def test_a_statement_is_run_again_after_a_conflict_if_its_rows_can_be_read_again(lake: Lake) -> None:
    inside: list[int] = []
    dataset: Any = lake.table("shop.a").to_lance()
    table = lake.table("shop.a")

    def raced(view: Any) -> Any:
        inside.append(1)
        result = lance.LanceDataset.update(view, {"n": "n + 1"}, where="id = 1")
        if len(inside) == 1:
            table.update({"n": "n + 10"}, where="id = 1")
        return result

    assert dataset._execute("update", raced) == {"num_rows_updated": 1}
    assert len(inside) == 2
    assert content(table.to_arrow(filter="id = 1")) == {1: 11}
    inside.clear()
    with pytest.raises(RetryableConflict):
        dataset._execute("update", raced, repeatable=False)
    assert content(table.to_arrow(filter="id = 1")) == {1: 21}


def test_rows_that_can_be_read_only_once_are_not_merged_again_from_nothing(lake: Lake) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        lake.table("shop.a").update({"n": "n + 10"}, where="id = 7")
        yield from rows(7, 3000).to_batches()

    merge: Any = lake.table("shop.a").to_lance().merge_insert("id").when_matched_update_all()
    with pytest.raises(RetryableConflict):
        merge.when_not_matched_insert_all().execute(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert content(lake.table("shop.a").to_arrow(filter="id in (7, 3000)")) == {7: 10}
    with pytest.raises((ValueError, OSError), match="nonsense"):
        lake.table("shop.a").to_lance().merge_insert("nonsense")
    with pytest.raises(AttributeError, match="when_nonsense"):
        merge.when_nonsense()


def test_compaction_through_a_handle_is_the_lakes_own(lake: Lake) -> None:
    dataset: Any = lake.table("shop.a").to_lance()
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id < 5")
    before = lake.version
    done = dataset.optimize.compact_files(target_rows_per_fragment=1000, num_threads=1)
    assert (done.fragments_removed, done.fragments_added) == (2, 1)
    assert (done.files_removed, done.files_added) == (2, 1)
    assert lake.version == before + 1
    assert len(dataset.get_fragments()) == 1
    assert content(dataset.to_table()) == dict.fromkeys(range(5, 40), 0)
    check(lake)
    with pytest.raises(InvalidInput, match="max_source_rows"):
        dataset.optimize.compact_files(max_source_rows=7)


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_pylance_writes_on_behind_a_compaction_that_left_the_indices_for_later(lake: Lake, inside: bool) -> None:
    """pylance names the fragments where the rows of an index are now, our own build those that it was built over."""
    lake.table("shop.a").create_index("id", "BTREE")
    if inside:
        with lake.transaction() as tx:
            _write_behind_a_compaction(tx.table("shop.a"))
    else:
        _write_behind_a_compaction(lake.table("shop.a"))
    check(lake)
    wanted = sorted({*range(2, 40), 50, 51})
    assert sorted(lake.table("shop.a").to_arrow()["id"].to_pylist()) == wanted
    for number in range(52):
        found = lake.table("shop.a").to_arrow(filter=f"id = {number}")["id"].to_pylist()
        assert found == ([number] if number in wanted else [])


def _write_behind_a_compaction(table: LakeTable | TransactionTable) -> None:
    table.compact(index="reuse")
    table.to_lance().insert(rows(50))
    table.to_lance().delete("id = 1")
    table.to_lance().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(3, 51))
    table.compact(index="reuse")
    table.to_lance().delete("id = 0")


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_pylance_writes_on_where_the_size_of_a_data_file_is_not_noted(lake: Lake, inside: bool) -> None:
    """As behind a compaction that copies bytes. pylance finds it out and notes it where it changes a fragment."""

    def write(table: LakeTable | TransactionTable) -> None:
        table.compact(compaction_mode="force_binary_copy")
        table.to_lance().delete("id < 5")
        table.to_lance().update({"n": "n + 1"}, where="id = 7")
        table.to_lance().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(8, 50))

    if inside:
        with lake.transaction() as tx:
            write(tx.table("shop.a"))
    else:
        write(lake.table("shop.a"))
    check(lake)
    assert sorted(lake.table("shop.a").to_arrow()["id"].to_pylist()) == [*range(5, 40), 50]


def test_pylance_writes_on_behind_indices_that_were_brought_up_to_date_in_the_transaction(lake: Lake) -> None:
    lake.table("shop.a").create_index("id", "BITMAP")
    with lake.transaction() as tx:
        tx.table("shop.a").compact(index="drop")
        tx.table("shop.a").optimize_indices()
        tx.table("shop.a").to_lance().insert(rows(40))
    check(lake)
    assert lake.table("shop.a").to_arrow(filter="id >= 39")["id"].to_pylist() == [39, 40]


@pytest.mark.parametrize("kind", ["BITMAP", None])
def test_an_index_whose_segments_pylance_has_dropped_is_made_anew_or_removed_as_a_whole(
    lake: Lake, kind: str | None
) -> None:
    """Of several segments pylance drops those that have no rows left, without a word: they must not stay behind."""
    lake.table("shop.a").create_index("id", "BTREE", name="ids")
    lake.table("shop.a").append(rows(1000))
    outside: Any = lake.table("shop.a").to_lance()
    outside.optimize.optimize_indices(num_indices_to_merge=0)
    with lake.transaction() as tx:
        inside: Any = tx.table("shop.a").to_lance()
        inside.delete("id = 1000")
        if kind is None:
            inside.drop_index("ids")
        else:
            inside.create_scalar_index("id", kind, name="ids", replace=True)
    check(lake)
    found: Any = lake.table("shop.a").to_lance()
    made = [(one.name, one.index_type, len(one.segments)) for one in found.describe_indices()]
    assert made == ([] if kind is None else [("ids", "Bitmap", 1)])


def test_restoring_is_a_commit_of_the_lake_and_of_a_transaction(lake: Lake) -> None:
    dataset = lake.table("shop.a").to_lance()
    dataset.delete("true")
    old: Any = dataset.checkout_version(2)
    assert old.count_rows() == 20
    old.restore()
    assert content(lake.table("shop.a").to_arrow()) == dict.fromkeys(range(20), 0)
    with lake.transaction() as tx:
        inside: Any = tx.table("shop.a").to_lance()
        inside.checkout_version(3).restore()
        assert tx.table("shop.a").to_lance().count_rows() == 40
        assert lake.table("shop.a").to_lance().count_rows() == 20
    assert content(lake.table("shop.a").to_arrow()) == dict.fromkeys(range(40), 0)
    check(lake)


def test_what_cannot_work_is_refused_with_the_name_of_what_does(lake: Lake) -> None:
    tx = lake.transaction()
    live: Any = lake.table("shop.a").to_lance()
    inside: Any = tx.table("shop.a").to_lance()
    listed = sorted(path.name for path in (folder(lake) / "_versions").iterdir())
    for dataset in (live, inside):
        with pytest.raises(InvalidInput) as caught:
            dataset.cleanup_old_versions()
        assert "lake.gc" in caught.value.remedy
        for method in REFUSED:
            with pytest.raises(InvalidInput, match=method):
                getattr(dataset, method)("x")
        with pytest.raises(InvalidInput) as caught:
            dataset.tags.create("x", 1)
        assert "lake.tag" in caught.value.remedy
        with pytest.raises(InvalidInput, match="enable_auto_cleanup"):
            dataset.optimize.enable_auto_cleanup({"interval": 1, "older_than_seconds": 0})
        with pytest.raises(InvalidInput, match="cleaned up by pylance"):
            dataset.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
        assert dataset.tags.list() == {}
    with pytest.raises(InvalidInput) as caught:
        inside.optimize.compact_files()
    assert "compact()" in caught.value.remedy
    with pytest.raises(OSError, match="unknown"):
        Compaction.execute(inside, {"target_rows_per_fragment": 1000})
    assert not tx.edit(tx.table("shop.a").id).changed, "a refused statement is none"
    assert inside.count_rows() == 40
    inside.delete("id = 1")
    tx.commit()
    assert [name for name in listed if not (folder(lake) / "_versions" / name).exists()] == []
    check(lake)


def test_every_method_of_a_dataset_is_known_to_read_or_to_commit_or_to_be_refused() -> None:
    """A new release of pylance may bring methods that commit: somebody has to say which they are."""
    ours = {"branches", "merge_insert", "optimize", "restore", "tags"}
    static = {"commit", "commit_batch", "drop", "from_pydantic_model"}
    writes_files_only = {
        "create_index_uncommitted",
        "merge_existing_index_segments",
        "merge_index_metadata",
        "new_file_session",
    }
    reads = """all_files base_paths centroids checkout_latest checkout_version config count_rows data_storage_version
        delta describe_indices explain_cleanup_old_versions filter fragment_ids get_fragment get_fragments get_ivf_model
        get_transactions get_version has_index has_stable_row_ids head index_statistics initial_storage_options
        io_stats_incremental io_stats_snapshot join join_asof lance_schema latest_storage_options latest_version
        list_indices max_field_id mem_wal_index_details metadata partition_expression prewarm_index read_blob_ranges
        read_blobs read_transaction remap_row_addrs sample scanner schema schema_metadata session slice sort_by sql
        stats storage_options_accessor take take_blobs to_batches to_pandas to_table tracked_files uri validate version
        version_refs versions"""
    known = {*STATEMENTS, *REFUSED, *ours, *static, *writes_files_only, *reads.split()}
    assert {name for name in dir(lance.LanceDataset) if not name.startswith("_")} == known


def test_a_pickled_handle_reads_and_never_commits(lake: Lake) -> None:
    dataset = lake.table("shop.a").to_lance()
    dataset.delete("id < 10")
    copy = pickle.loads(pickle.dumps(dataset))
    assert content(copy.to_table()) == dict.fromkeys(range(10, 40), 0)
    fragment = pickle.loads(pickle.dumps(dataset.get_fragments()[0]))
    assert fragment.count_rows() == 10
    with pytest.raises(OSError, match="cannot be written"):
        copy.delete("true")
    tx = lake.transaction()
    with pytest.raises(InvalidInput, match="stays in its process"):
        pickle.dumps(tx.table("shop.a").to_lance())
    check(lake)


def test_a_dataset_of_a_lake_at_an_old_version_is_read_only(lake: Lake) -> None:
    old = seiche.open(lake.store, lake.version)
    lake.table("shop.a").delete("true")
    dataset: Any = old.table("shop.a").to_lance()
    assert dataset.count_rows() == 40
    with pytest.raises(InvalidInput, match="read-only"):
        dataset.delete("true")
    with pytest.raises(InvalidInput, match="read-only"):
        dataset.restore()


def test_a_table_whose_version_was_cleaned_up_cannot_be_opened_and_the_error_says_so(lake: Lake) -> None:
    tx = lake.transaction()
    tx.table("shop.a").to_lance().insert(rows(50))
    lake.table("shop.a").overwrite(rows(1))
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    with pytest.raises(NotFound, match="could not be opened"):
        tx.table("shop.a").to_lance()


def test_a_handle_of_a_transaction_that_has_ended_commits_nothing(lake: Lake) -> None:
    tx = lake.transaction()
    inside = tx.table("shop.a").to_lance()
    plain = lance.dataset(namespace_client=tx.namespace(), table_id=["shop", "a"])
    inside.delete("id = 1")
    tx.rollback()
    with pytest.raises(InvalidInput, match="has ended"):
        inside.delete("id = 2")
    with pytest.raises(OSError):
        plain.delete("id = 2")
    assert content(lake.table("shop.a").to_arrow()) == dict.fromkeys(range(40), 0)
    check(lake)


def test_the_numbers_of_a_transaction_lead_nobody_astray(lake: Lake) -> None:
    """pylance leaves a hint with the number that it counts inside; nobody may believe it."""
    version = lake.table("shop.a").version
    tx = lake.transaction()
    plain = lance.dataset(namespace_client=tx.namespace(), table_id=["shop", "a"])
    plain.delete("id = 1")
    assert plain.version > FAR
    store = lake.store
    inside = open_store(str(folder(lake)), durability="os")
    assert hint.read(inside) > FAR, "that is what this test is about"
    assert lance.dataset(str(folder(lake))).version == version
    assert Table.open(inside).version == version
    assert lance.dataset(str(folder(lake)), version=version).count_rows() == 40
    other = seiche.open(store)
    other.table("shop.a").delete("id = 2")
    assert lance.dataset(str(folder(lake))).version == version + 1
    assert hint.read(inside) == version + 1
    handle = tx.table("shop.a").to_lance()
    handle.delete("id = 3")
    assert hint.read(inside) <= version + 1, "handles of ours put it right themselves"
    tx.rollback()
    check(lake)


def test_transactions_that_share_a_session_of_pylance_do_not_see_each_other(lake: Lake) -> None:
    """pylance remembers the indices of a version by its number, for as long as the session lasts."""
    session = lance.dataset(str(folder(lake))).session()

    def opened(tx: Transaction) -> Any:
        return lance.dataset(namespace_client=tx.namespace(), table_id=["shop", "a"], session=session)

    first = lake.transaction()
    opened(first).create_scalar_index("id", "BTREE")
    opened(first).insert(rows(500))
    assert indices(opened(first)) == ["id_idx"]
    first.rollback()
    second = lake.transaction()
    opened(second).delete("id < 5")
    opened(second).insert(rows(600))
    assert indices(opened(second)) == []
    assert opened(second).to_table(filter="id = 500").num_rows == 0
    assert opened(second).to_table(filter="id = 600").num_rows == 1
    second.commit()
    assert indices(lake.table("shop.a").to_lance()) == []
    check(lake)


def test_a_table_made_by_pylance_inside_a_transaction_appears_with_it(lake: Lake) -> None:
    tx = lake.transaction()
    made = lance.write_dataset(rows(1, 2), namespace_client=tx.namespace(), table_id=["shop", "new"], mode="create")
    made.insert(rows(3))
    tx.table("shop.new").to_lance().create_scalar_index("id", "BTREE")
    assert tx.tables("shop") == [("shop", "a"), ("shop", "new")]
    assert lake.tables("shop") == [("shop", "a")]
    tx.commit()
    assert content(lake.table("shop.new").to_arrow()) == {1: 0, 2: 0, 3: 0}
    assert indices(lake.table("shop.new").to_lance()) == ["id_idx"]
    check(lake, "shop.new")


def test_what_pylance_wrote_is_flushed_before_the_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: set[str] = set()
    store: Any = lake.store

    def flush(self: object, paths: Iterable[str]) -> int:
        flushed.update(paths)
        return len(flushed)

    monkeypatch.setattr(type(store), "flush", flush)
    dataset = lake.table("shop.a").to_lance()
    dataset.insert(rows(100))
    dataset.delete("id = 3")
    dataset.create_scalar_index("id", "BTREE")
    row = lake.table("shop.a").row
    by_folder = {path.removeprefix(row.location).split("/")[1] for path in flushed}
    assert by_folder == {"data", "_deletions", "_indices", "_staged"}
    for path in flushed:
        assert Path(store.native_uri(path)).exists()


def test_large_values_of_blob_columns_count_as_written(lake: Lake) -> None:
    schema = pa.schema([("id", pa.int64()), lance.blob_field("b")])
    data = pa.table({"id": [1, 2], "b": lance.blob_array([b"x" * 100_000, b"y" * 5_000_000])}, schema=schema)
    table = lake.create_table("shop.scans", schema)
    done = [table.append(data), table.merge(data, "id").when_matched_update_all().execute(), table.overwrite(data)]
    written = [one for one in Path(lake.store.native_uri(table.row.location), "data").rglob("*") if one.is_file()]
    assert len([one for one in written if one.suffix == ".blob"]) >= 3
    assert sum(one.files for one in done) == len(written)
    assert sum(one.bytes for one in done) == sum(one.stat().st_size for one in written)


@pytest.mark.parametrize("way", ["append", "insert", "transaction", "namespace", "compact"])
def test_large_values_of_blob_columns_are_flushed_before_the_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """They lie in files of their own, which no manifest names."""
    schema = pa.schema([("id", pa.int64()), lance.blob_field("b")])
    data = pa.table({"id": [1], "b": lance.blob_array([b"x" * 100_000])}, schema=schema)
    table = lake.create_table("shop.scans", schema)
    table.append(data)
    table.append(data)
    flushed: set[str] = set()

    def flush(self: object, paths: Iterable[str]) -> int:
        flushed.update(paths)
        return len(flushed)

    monkeypatch.setattr(type(lake.store), "flush", flush)
    place = Path(lake.store.native_uri(table.row.location))
    before = set(place.glob("data/*/*.blob"))
    match way:
        case "append":
            table.append(data)
        case "insert":
            table.to_lance().insert(data)
        case "transaction":
            with lake.transaction() as tx:
                lance.dataset(namespace_client=tx.namespace(), table_id=["shop", "scans"]).insert(data)
        case "namespace":
            lance.dataset(namespace_client=lake.namespace(), table_id=["shop", "scans"]).insert(data)
        case "compact":
            table.compact()
    (made,) = set(place.glob("data/*/*.blob")) - before
    assert f"{table.row.location}/{made.relative_to(place)}" in flushed


@pytest.mark.parametrize("way", ["to_lance", "transaction", "namespace", "desk"])
@pytest.mark.parametrize("kind", ["BITMAP", "NGRAM"])
def test_an_index_follows_rows_that_pylance_moves_with_their_ids(lake: Lake, way: str, kind: Any) -> None:
    """Where rows are known by ids, indices on columns that an update leaves alone go on speaking for them."""
    table = ["shop", "kept"]
    lance.write_dataset(
        rows(*range(20)), namespace_client=lake.namespace(), table_id=table, mode="create", enable_stable_row_ids=True
    )
    found = lake.table("shop.kept")
    found.to_lance().create_scalar_index("s", kind)

    def update(values: dict[str, str], where: str) -> None:
        if way == "transaction":
            with lake.transaction() as tx:
                tx.table("shop.kept").to_lance().update(values, where=where)
                found.append(rows(1000 + found.version))  # it is rebased
        elif way == "to_lance":
            found.to_lance().update(values, where=where)
        else:
            names = lake.namespace(branches=way == "desk")
            lance.dataset(namespace_client=names, table_id=table).update(values, where=where)

    update({"n": "1"}, "id = 5")
    update({"s": "'other'"}, "id = 6")
    update({"n": "2"}, "id IN (5, 6)")
    dataset = found.to_lance()
    assert {row["id"]: row["n"] for row in dataset.to_table(filter="id < 20").to_pylist()} == {
        number: 2 if number in (5, 6) else 0 for number in range(20)
    }
    for word, expected in (("word 5", [5]), ("word 6", []), ("other", [6]), ("word 7", [7])):
        where = f"s = '{word}'" if kind == "BITMAP" else f"contains(s, '{word}') AND s = '{word}'"
        assert dataset.to_table(filter=where)["id"].to_pylist() == expected
    assert lake.fsck().problems == ()


def test_pylance_commits_behind_compactions_that_moved_the_same_rows_twice(lake: Lake) -> None:
    """It leads the entry on that says where rows were moved to as it does with indices; the lake does not."""
    table = lake.table("shop.a")
    table.to_lance().create_scalar_index("id", "BTREE")
    for gone in (3, 4):
        table.delete(f"id = {gone}")
        table.compact(index="reuse", materialize_deletions_threshold=0.0)
    table.to_lance().insert(rows(100))
    lance.dataset(namespace_client=lake.namespace(), table_id=["shop", "a"]).update({"n": "5"}, where="id = 7")
    lance.dataset(namespace_client=lake.namespace(branches=True), table_id=["shop", "a"]).delete("id = 5")
    kept = {number: 0 for number in [*range(40), 100] if number not in (3, 4, 5)}
    assert content(table.to_arrow()) == {**kept, 7: 5}
    assert [table.to_lance().to_table(filter=f"id = {one}").num_rows for one in (4, 6, 7, 100)] == [0, 1, 1, 1]


@pytest.mark.parametrize("branches", [False, True])
def test_a_table_that_others_made_after_it_was_declared_is_open_to_all(lake: Lake, branches: bool) -> None:
    """Whoever declared it may have died."""
    namespace, table = lake.namespace(branches=branches), ["shop", "new"]
    namespace.declare_table(ln.DeclareTableRequest(id=table))
    lake.create_table("shop.new", SCHEMA).append(rows(1))
    assert not namespace.describe_table(ln.DescribeTableRequest(id=table)).is_only_declared
    lance.dataset(namespace_client=namespace, table_id=table).insert(rows(2))
    assert content(lake.table("shop.new").to_arrow()) == {1: 0, 2: 0}


@pytest.mark.parametrize("branches", [False, True])
def test_of_two_who_declared_a_table_the_first_to_commit_makes_it(lake: Lake, branches: bool) -> None:
    namespace, table = lake.namespace(branches=branches), ["shop", "new"]
    create = namespace.create_table_version
    errors: list[Exception] = []

    def late(request: Any) -> ln.CreateTableVersionResponse:
        namespace.create_table_version = create  # type: ignore[method-assign]
        try:
            lance.write_dataset(rows(2), namespace_client=namespace, table_id=table, mode="create")
        except OSError as error:
            errors.append(error)
        return create(request)

    def early(request: Any) -> ln.CreateTableVersionResponse:
        namespace.create_table_version = create  # type: ignore[method-assign]
        namespace.declare_table(ln.DeclareTableRequest(id=table))
        return create(request)

    namespace.create_table_version = early  # type: ignore[method-assign]
    lance.write_dataset(rows(1), namespace_client=namespace, table_id=table, mode="create")
    assert content(lake.table("shop.new").to_arrow()) == {1: 0}
    lake.drop_table("shop.new")
    namespace.create_table_version = late  # type: ignore[method-assign]
    with pytest.raises(OSError, match="exists"):
        lance.write_dataset(rows(1), namespace_client=namespace, table_id=table, mode="create")
    assert errors == []
    assert content(lake.table("shop.new").to_arrow()) == {2: 0}


def test_a_dropped_table_that_was_made_anew_is_another_table(lake: Lake) -> None:
    dataset = lake.table("shop.a").to_lance()
    plain = lance.dataset(namespace_client=lake.namespace(), table_id=["shop", "a"])
    lake.drop_table("shop.a")
    lake.create_table("shop.a", SCHEMA).append(rows(1))
    lake.table("shop.a").append(rows(2))
    assert lake.table("shop.a").version == 3 == plain.version
    with pytest.raises(NotFound, match="dropped"):
        dataset.delete("true")
    with pytest.raises(OSError):
        plain.delete("true")
    assert content(lake.table("shop.a").to_arrow()) == {1: 0, 2: 0}


def test_other_kinds_of_indices_can_be_built_inside_a_transaction(lake: Lake) -> None:
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), 8)), ("tags", pa.list_(pa.string()))])
    data = pa.table(
        {
            "id": list(range(300)),
            "vector": [[float(one % 17 + place) for place in range(8)] for one in range(300)],
            "tags": [[f"t{one % 5}"] for one in range(300)],
        },
        schema=schema,
    )
    lake.create_table("shop.v", schema).append(data)
    near = {"column": "vector", "q": [3.0] * 8, "k": 5, "nprobes": 4}
    with lake.transaction() as tx:
        inside: Any = tx.table("shop.v").to_lance()
        inside.create_index("vector", "IVF_FLAT", num_partitions=2)
        inside.create_scalar_index("tags", "LABEL_LIST")
        inside.insert(data.slice(0, 10))
        inside.optimize.optimize_indices()
        found = inside.to_table(nearest=near)["_distance"].to_pylist()
        lake.table("shop.v").append(data.slice(0, 3))
    dataset: Any = lake.table("shop.v").to_lance()
    assert indices(dataset) == ["tags_idx", "vector_idx"]
    assert dataset.to_table(nearest=near)["_distance"].to_pylist() == pytest.approx(found)
    condition = "array_has_any(tags, ['t3'])"
    scanned = dataset.scanner(filter=condition, use_scalar_index=False).to_table()
    assert in_order(dataset.to_table(filter=condition)) == in_order(scanned)
    assert published(lake, "shop.v") == list(range(1, lake.table("shop.v").version + 1))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_entries_of_a_table_that_cover_nothing_follow_rows_that_get_other_numbers(lake: Lake, stable: bool) -> None:
    """State of a table, as of its write-ahead log, stands among the indices and has no coverage to be trimmed."""
    keys = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    table = lake.create_table("shop.keyed", pa.schema([keys, *list(SCHEMA)[1:]]), stable_row_ids=stable)
    with lake.transaction() as tx:
        tx.append("shop.keyed", rows(1))
        inside = lance.dataset(namespace_client=tx.namespace(), table_id=["shop", "keyed"])
        inside.initialize_mem_wal(unsharded=True)
        table.append(rows(2))
    assert content(table.to_arrow()) == {1: 0, 2: 0}
    manifest = LakeVersions(lake.store, table.row).read(table.version).manifest
    assert [(one.name, one.fragment_bitmap) for one in manifest.indices] == [("__lance_mem_wal", b"")]
