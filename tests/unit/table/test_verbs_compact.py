"""Compaction: the same rows in fewer fragments, whatever others do meanwhile."""

import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche import InvalidInput, RetryableConflict
from seiche.table.data.rewrite import rewriting
from seiche.table.data.rewrite.tasks import RewriteResult, RewriteTask
from seiche.table.table import Table
from seiche.table.verbs.rewrite_plan import RewritePlan
from tests.processes import CONTEXT
from tests.row_table import some_rows
from tests.verb_table import by_id, files, ids, meddle_before_commit, native, operations, verb_table, writes_only

MARKS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[True, False], ids=["dictionaries", "plain"])
def dictionaries(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def table(tmp_path: Path, stable: bool, dictionaries: bool) -> Table:
    return verb_table(tmp_path / "t", fragments=5, stable_row_ids=stable, dictionaries=dictionaries)


def everything(table: Table, stable: bool) -> list[dict[str, Any]]:
    """All rows as they come, with who they are if they have ids."""
    dataset = native(table)
    columns = [*table.schema.names, *MARKS] if stable else table.schema.names
    return list(dataset.to_table(columns=columns).to_pylist())


def test_rows_their_order_their_ids_and_versions_stay(table: Table, stable: bool) -> None:
    table.update({"small": "small + 1"}, where="id = 7")
    before, rows = table.version, everything(table, stable)
    with writes_only(table, "_versions/", "_transactions/", "data/"):
        done = table.compact()
    assert operations(table, before) == ["ReserveFragments", "Rewrite"]
    assert (done.version, done.rows, done.files) == (before + 2, len(rows), 1)
    assert (done.notes["fragments_removed"], done.notes["fragments_added"]) == (6, 1)
    assert everything(table, stable) == rows
    assert not table.manifest.fragments.has_deletions
    assert table.manifest.fragments.ids() == [6]
    assert not files(Path(table.store.native_uri()) / "_shadow")


def test_a_table_that_is_as_it_should_be_gets_no_version(table: Table) -> None:
    table.compact()
    version = table.version
    with writes_only(table):
        done = table.compact()
    assert not done.changed
    assert table.version == version
    assert table.compaction().plan() == []


def test_an_empty_table_is_nothing_to_do(tmp_path: Path) -> None:
    assert not verb_table(tmp_path / "t", fragments=0, delete=None).compact().changed


def test_fragments_without_rows_go_for_good(tmp_path: Path) -> None:
    """Somebody may leave a fragment of which every row is deleted: no new one takes its place."""
    table = verb_table(tmp_path / "t", fragments=2, delete=None)
    dataset = native(table)
    emptied = dataset.get_fragment(0).delete("id < 9")
    from seiche.table.data.fragments import fragment_from_lance
    from seiche.table.operations import Delete

    left = fragment_from_lance(emptied.metadata if hasattr(emptied, "metadata") else emptied)
    table.commit(Delete((left,), (), "id < 9"))
    table.compact()
    assert ids(table) == list(range(9, 20))


def test_the_size_of_fragments_is_chosen(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", fragments=8, delete=None)
    done = table.compact(target_rows_per_fragment=20)
    assert done.notes["fragments_added"] == 4
    assert [one.physical_rows for one in table.manifest.fragments] == [20] * 4
    assert ids(table) == list(range(80))


def test_deletions_are_left_behind_from_a_threshold_on(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", fragments=2, rows=40, delete="id < 3")
    options: dict[str, Any] = {"target_rows_per_fragment": 40}
    assert not table.compact(**options).changed
    assert not table.compact(**options, materialize_deletions=False, materialize_deletions_threshold=0).changed
    done = table.compact(**options, materialize_deletions_threshold=0.05)
    assert (done.rows, done.notes["fragments_removed"]) == (37, 1)
    assert ids(table) == [*range(40, 80), *range(3, 40)]


def test_binary_copies(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", delete=None, dictionaries=False)
    rows = table.to_arrow()
    table.compact(compaction_mode="try_binary_copy")
    assert table.to_arrow() == rows
    native(table)
    table.append(rows.slice(0, 3))
    table.compact(compaction_mode="force_binary_copy", target_rows_per_fragment=100)
    assert ids(table) == [*range(30), 0, 1, 2]
    native(table)


def test_what_native_code_does_not_compact_is_no_trouble_with_storage(tmp_path: Path) -> None:
    """Neither tries again nor looks for damage who is told so."""
    table = verb_table(tmp_path / "t", delete="id = 3", dictionaries=False)
    version = table.version
    with pytest.raises(InvalidInput, match="binary copy is not supported") as refused:
        table.compact(compaction_mode="force_binary_copy", target_rows_per_fragment=100)
    assert "reencode" in refused.value.remedy
    assert table.version == version
    # Files of this version keep no structs that are null, which rows without the column have.
    rows = pa.table({"id": [1], "inside": [{"a": 1}]})
    lance.write_dataset(rows, str(tmp_path / "old"), data_storage_version="2.0")
    old = Table.open(tmp_path / "old")
    old.append([{"id": 2}])
    with pytest.raises(InvalidInput, match="`inside`") as refused:
        old.compact()
    assert "format version" in refused.value.remedy
    assert old.to_arrow()["inside"].to_pylist() == [{"a": 1}, None]


def test_a_column_that_came_later_is_part_of_it(table: Table, stable: bool) -> None:
    table.add_columns({"late": "id * 3"})
    table.append([{"id": 90, "late": 270}])
    table.drop_columns("name")
    rows = everything(table, stable)
    table.compact()
    assert everything(table, stable) == rows
    (fragment,) = table.manifest.fragments
    assert len(fragment.files) == 1


def test_progress_is_told(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", fragments=6)
    told: list[tuple[int, int]] = []
    table.compact(target_rows_per_fragment=15, progress=lambda done, total: told.append((done, total)), parallel=2)
    assert told == [(1, 3), (2, 3), (3, 3)]


def execute_elsewhere(path: str, task: RewriteTask) -> RewriteResult:
    return Table.open(path).compaction(target_rows_per_fragment=15).execute(task)


def test_tasks_are_executed_by_other_processes(tmp_path: Path, stable: bool) -> None:
    table = verb_table(tmp_path / "t", fragments=6, stable_row_ids=stable, dictionaries=not stable)
    before, rows = table.version, everything(table, stable)
    plan = table.compaction(target_rows_per_fragment=15)
    tasks = plan.plan()
    assert [task.rows for task in tasks] == [15, 15, 15]
    assert "fragments 0, 1 of version" in repr(tasks[0])
    with ProcessPoolExecutor(2, mp_context=CONTEXT) as pool:
        results = list(pool.map(execute_elsewhere, [str(tmp_path / "t")] * 3, tasks))
    assert table.version == before
    done = plan.commit(pickle.loads(pickle.dumps(results)))
    assert operations(table, before) == ["ReserveFragments", "Rewrite"]
    assert done.rows == len(rows)
    assert sorted(everything(table, stable), key=lambda row: row["id"]) == rows
    with pytest.raises(RetryableConflict, match="changed by others"):
        plan.commit(results, attempts=2)


def test_a_task_that_was_executed_twice_is_committed_once(tmp_path: Path, stable: bool) -> None:
    table = verb_table(tmp_path / "t", fragments=6, stable_row_ids=stable)
    rows = everything(table, stable)
    plan = table.compaction(target_rows_per_fragment=15)
    results = [plan.execute(task) for task in plan.plan()]
    done = plan.commit([*results, plan.execute(plan.plan()[0]), results[1]])
    assert (done.rows, done.notes["fragments_removed"], done.notes.get("left_out")) == (len(rows), 6, None)
    assert sorted(everything(table, stable), key=lambda row: row["id"]) == rows


def test_results_whose_fragments_were_changed_are_left_out(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", fragments=6)
    plan = table.compaction(target_rows_per_fragment=15)
    results = [plan.execute(task) for task in plan.plan()]
    table.delete("id = 22")
    table.append(some_rows(1, 100))
    done = plan.commit(results)
    assert done.notes["left_out"] == 1
    assert sorted(ids(table)) == [*(one for one in range(60) if one % 4 != 1 and one != 22), 100]
    assert table.manifest.fragments.ids() == [2, 3, 6, 7, 8]
    native(table)


CHANGES: list[tuple[str, Callable[[Table], object]]] = [
    ("delete", lambda other: other.delete("id = 2")),
    ("delete all of a fragment", lambda other: other.delete("id < 10")),
    ("delete everything", lambda other: other.delete("true")),
    ("update rows", lambda other: other.update({"small": "-5"}, where="id in (2, 23)", mode="rows")),
    ("update columns", lambda other: other.update({"small": "-5"}, where="id = 2", mode="columns")),
    ("append", lambda other: other.append(some_rows(3, 100))),
    ("merge", lambda other: other.merge(some_rows(3, 0), on="id").when_matched_update_all().execute()),
    ("compact", lambda other: other.compact()),
    ("reorder", lambda other: other.reorder([("id", "descending")])),
    ("add a column", lambda other: other.add_columns({"n": "id + 1"})),
    ("drop a column", lambda other: other.drop_columns("name")),
    ("rename a column", lambda other: other.rename_columns({"name": "title"})),
    ("cast a column", lambda other: other.alter_columns({"path": "small", "data_type": __import__("pyarrow").int64()})),
    ("replace a column", lambda other: other.replace_column("small", [4] * 7, fragments=[0])),
    ("index", lambda other: other.create_index("small")),
    ("settings", lambda other: other.update_config({"a": "b"})),
    ("reserve", lambda other: other.reserve_fragments(5)),
]


@pytest.mark.parametrize("step", ["before the reservation", "before the rewrite"])
@pytest.mark.parametrize("change", [one for _, one in CHANGES], ids=[name for name, _ in CHANGES])
def test_what_others_do_meanwhile_is_neither_lost_nor_undone(
    tmp_path: Path, stable: bool, change: Callable[[Table], object], step: str
) -> None:
    table = verb_table(tmp_path / "t", fragments=3, stable_row_ids=stable)
    table.create_index("id")
    alone = verb_table(tmp_path / "alone", fragments=3, stable_row_ids=stable)
    alone.create_index("id")
    meddle_before_commit(table, *([change] if step == "before the reservation" else [lambda _: None, change]))
    table.compact()
    change(alone)
    assert by_id(table.to_arrow()) == by_id(alone.to_arrow())
    assert table.schema == alone.schema
    assert len(table.manifest.fragments) <= 2
    native(table)
    for number in (2, 23, 101):
        assert ids(table, filter=f"id = {number}") == ids(alone, filter=f"id = {number}")


def test_a_rewrite_that_loses_is_not_written_twice(tmp_path: Path) -> None:
    """Groups that nobody touched are committed as they are; only the others are done again."""
    table = verb_table(tmp_path / "t", fragments=6, delete="id % 5 = 0")
    told: list[tuple[int, int]] = []
    meddle_before_commit(table, lambda other: other.delete("id = 2"))
    done = table.compact(target_rows_per_fragment=16, progress=lambda *one: told.append(one))
    assert told == [(1, 3), (2, 3), (3, 3), (1, 1)]
    assert (done.notes["fragments_removed"], done.notes["fragments_added"]) == (6, 3)
    assert done.attempts == 2, "one in each round"
    assert sorted(ids(table)) == [one for one in range(60) if one % 5 and one != 2]


def test_a_rewrite_that_loses_again_and_again_leaves_indices_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To write them anew takes the time in which others are faster."""
    table = verb_table(tmp_path / "t", fragments=3, delete=None)
    table.create_index("id", "BTREE")
    monkeypatch.setattr(rewriting, "_PATIENT_TRIES", 1)
    meddle_before_commit(table, lambda other: other.delete("id % 10 = 3"))
    assert table.compact(index="remap").notes["indices"] == {"id_idx": "unindexed"}
    assert ids(table) == [one for one in range(30) if one % 10 != 3]


OPTIONS = {
    "target_rows_per_fragment": 7,
    "max_bytes_per_file": 8,
    "materialize_deletions": False,
    "materialize_deletions_threshold": 0.9,
    "batch_size": 10,
    "compaction_mode": "try_binary_copy",
    "index": "drop",
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_wish_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ran: list[Any] = []
    monkeypatch.setattr(RewritePlan, "run", lambda self, **_: ran.append(self))
    table = verb_table(tmp_path / "t", fragments=1, delete=None)
    wish: dict[str, Any] = {name: OPTIONS[name]}
    table.compact(**wish)
    ran.append(table.compaction(**wish))
    if name in inspect.signature(Table.reorder).parameters:
        table.reorder("id", **wish)
        ran.append(table.reordering("id", **wish))
    for plan in ran:
        assert {"index": plan._index, **asdict(plan._options)}[name] == OPTIONS[name]


def test_what_becomes_good_after_ids_were_reserved_waits_for_the_next_round(tmp_path: Path, stable: bool) -> None:
    """An index that covers a part of a group hinders it; when that index goes, no id is there for the group."""
    table = verb_table(tmp_path / "t", fragments=4, delete=None, stable_row_ids=stable)
    plan = table.compaction(target_rows_per_fragment=20)
    results = [plan.execute(task) for task in plan.plan()]
    assert [result.portion.ids for result in results] == [(0, 1), (2, 3)]
    build = table.index_build("id")
    build.commit([build.execute(task) for task in build.plan(4) if task.portion.ids == (2,)])
    meddle_before_commit(table, lambda other: other.drop_index("id_idx"))
    done = plan.commit(results)
    assert done.notes["left_out"] == 1
    assert table.manifest.fragments.ids() == [2, 3, 4]
    assert plan.commit(results[1:]).notes["fragments_removed"] == 2
    assert ids(table) == list(range(40))


@pytest.mark.parametrize("verb", ["compaction", "reordering"])
def test_a_column_that_came_back_after_the_work_was_done_is_not_lost(tmp_path: Path, stable: bool, verb: str) -> None:
    """The files of the fragments are the same with it and without; only the new ones lack it."""
    schema = pa.schema([("id", pa.int64()), ("back", pa.int64())])
    table = Table.create(str(tmp_path / "t"), schema, stable_row_ids=stable)
    for start in (0, 10):
        table.append([{"id": number, "back": number * 2} for number in range(start, start + 10)])
    complete = table.version
    table.drop_columns("back")
    plan = table.compaction() if verb == "compaction" else table.reordering([("id", "descending")])
    results = [plan.execute(task) for task in plan.plan()]
    table.restore(complete)
    with pytest.raises(RetryableConflict, match="Plan and execute the rewrite again"):
        plan.commit(results)
    assert sorted(table.to_arrow()["back"].to_pylist()) == list(range(0, 40, 2))


def test_a_column_under_the_id_of_another_one_is_not_written_into_it(tmp_path: Path, stable: bool) -> None:
    """No file had values for either, but the new fragments have: nulls, of the type of the one that was there."""
    table = Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), stable_row_ids=stable)
    for start in (0, 10):
        table.append([{"id": number} for number in range(start, start + 10)])
    table.add_columns(pa.field("number", pa.int64()))
    first = table.version
    table.drop_columns("number")
    table.add_columns(pa.field("word", pa.string()))
    plan = table.compaction()
    results = [plan.execute(task) for task in plan.plan()]
    table.restore(first)
    with pytest.raises(RetryableConflict, match="Plan and execute the rewrite again"):
        plan.commit(results)
    assert table.compact().changed
    assert table.to_arrow()["number"].null_count == 20


def test_an_overwrite_meanwhile_is_not_compacted_away(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    meddle_before_commit(table, lambda other: other.overwrite(some_rows(2, 500)))
    with pytest.raises(Exception, match="replaced all rows") as caught:
        table.compact()
    assert caught.type.__name__ == "IncompatibleConflict"
    assert ids(table) == [500, 501]


def test_bad_options_are_named_and_nothing_written(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    for options, named in (
        ({"target_rows_per_fragment": 0}, "target_rows"),
        ({"index": "forget"}, "forget"),
        ({"compaction_mode": "fast"}, "fast"),
        ({"materialize_deletions_threshold": -1}, "-1"),
    ):
        with writes_only(table), pytest.raises(InvalidInput, match=named):
            table.compact(**options)
