"""Indices: built, dropped, optimised, and led on when rows move. What they answer is what a full scan gives, always."""

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest

from seiche import AlreadyExists, InvalidInput, NotFound, RetryableConflict
from seiche.table.data.index.build import IndexTask, Segment, build_segment
from seiche.table.data.index.remap import IndexMode
from seiche.table.format.deletions import path
from seiche.table.format.index_details import FRAGMENT_REUSE, find
from seiche.table.table import Table
from seiche.testing import SimulatedStore
from tests.index_checks import (
    BY_NAME,
    KINDS,
    Kind,
    check_answers,
    indexed_rows,
    indexed_table,
    unindexed_rows,
)
from tests.processes import CONTEXT
from tests.verb_table import files, ids, meddle_before_commit, native, operations, writes_only

EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def segments(table: Table) -> int:
    return len(table.manifest.indices)


def create(table: Table, kind: Kind, **options: Any) -> None:
    table.create_index(kind.column, kind.name, name="ix", **kind.options, **options)


@EACH_KIND
def test_an_index_of_each_kind_through_the_life_of_a_table(tmp_path: Path, stable: bool, kind: Kind) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    before = table.version
    with writes_only(table, "_versions/", "_transactions/", "_indices/"):
        create(table, kind)
    assert operations(table, before) == ["CreateIndex"]
    assert unindexed_rows(table) == 0
    check_answers(table, kind.name)
    table.append(indexed_rows(1000, 1020))
    table.delete("id % 10 = 7")
    check_answers(table, kind.name)
    assert unindexed_rows(table) == 18
    table.compact(target_rows_per_fragment=240)
    check_answers(table, kind.name)
    moved_along = kind.remapped or (stable and kind.kept)
    assert unindexed_rows(table) == (18 if moved_along else native(table).count_rows())
    done = table.optimize_indices()
    assert operations(table, done.version - 1) == ["CreateIndex"]
    assert unindexed_rows(table) == 0
    check_answers(table, kind.name)
    table.reorder([("id", "descending")])
    check_answers(table, kind.name)
    table.optimize_indices()
    assert unindexed_rows(table) == 0
    check_answers(table, kind.name)
    assert not files(tmp_path / "t" / "_shadow")


@pytest.mark.parametrize("mode", get_args(IndexMode))
@pytest.mark.parametrize("name", ["BTREE", "INVERTED", "IVF_HNSW_SQ", "ZONEMAP"])
def test_what_compaction_does_to_an_index_is_chosen_and_said(tmp_path: Path, name: str, mode: IndexMode) -> None:
    kind = BY_NAME[name]
    table = indexed_table(tmp_path / "t")
    create(table, kind)
    rows = native(table).count_rows()
    for round_number in range(3):
        done = table.compact(target_rows_per_fragment=240 << round_number, index=mode)
        fates = {"remap": "remapped", "reuse": "reused", "drop": "unindexed"}
        wanted = "unindexed" if not kind.remapped else fates[mode]
        if (name, mode) == ("IVF_HNSW_SQ", "reuse"):
            wanted = "remapped"  # native code cannot read such an index through a map of moved rows
        if round_number == 0 or wanted != "unindexed":
            assert done.notes["indices"] == {"ix": wanted}
        assert unindexed_rows(table) == (rows if wanted == "unindexed" else 0)
        check_answers(table, name)
        table.delete(f"id % 7 = {round_number}")
        rows = native(table).count_rows()
        check_answers(table, name)
    assert (find(table.manifest.indices, FRAGMENT_REUSE) is not None) == (
        mode == "reuse" and name in ("BTREE", "INVERTED")
    )
    table.optimize_indices()
    assert unindexed_rows(table) == 0
    check_answers(table, name)


@pytest.mark.parametrize("retrain", [False, True])
def test_options_of_an_index_are_those_asked_for_also_if_it_is_made_anew(tmp_path: Path, retrain: bool) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=False)
    asked: dict[str, dict[str, Any]] = {
        "ZONEMAP": {"rows_per_zone": 16},
        "BLOOMFILTER": {"number_of_items": 50, "probability": 0.01},
    }
    for kind, options in asked.items():
        table.create_index("id", kind, name=kind, **options)
    table.create_index("id", "BTREE", name="BTREE", zone_size=16)
    table.update({"id": "id"}, where="id < 10", mode="columns")  # none of them speaks for these fragments any more
    assert table.optimize_indices(retrain=retrain).changed
    for kind, options in asked.items():
        made = native(table).stats.index_stats(kind)["indices"][0]
        assert {name: made[name] for name in options} == options
    assert native(table).stats.index_stats("BTREE")["indices"][0]["num_pages"] > 4


def test_indices_by_stable_row_ids_need_nothing(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=True)
    create(table, BY_NAME["BITMAP"])
    done = table.compact()
    assert done.notes["indices"] == {"ix": "kept"}
    assert done.files == 1
    assert unindexed_rows(table) == 0
    done = table.reorder("s")
    assert done.notes["indices"] == {"ix": "kept"}
    assert unindexed_rows(table) == 0
    check_answers(table, "BITMAP")


def test_several_indices_are_led_on_together(tmp_path: Path, stable: bool) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    for name in ("BTREE", "BITMAP", "INVERTED", "IVF_PQ"):
        table.create_index(BY_NAME[name].column, name, name=name, **BY_NAME[name].options)
    table.append(indexed_rows(1000, 1020))
    table.create_index("tags", "LABEL_LIST", name="LABEL_LIST")
    table.append(indexed_rows(1020, 1030))
    table.append(indexed_rows(1030, 1040))
    done = table.compact()
    # The first four are covered alike, then one with one index only, then two without any.
    assert done.notes["fragments_added"] == 2
    assert table.optimize_indices("BTREE").notes["indices"] == ["BTREE"]
    assert unindexed_rows(table, "BTREE") == 0
    assert unindexed_rows(table, "BITMAP") == 40
    for name in ("BTREE", "BITMAP", "INVERTED", "IVF_PQ", "LABEL_LIST"):
        check_answers(table, name)


def test_a_name_is_given_once_unless_replaced(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t")
    assert table.create_index("id").notes["name"] == "id_idx"
    version = table.version
    with writes_only(table), pytest.raises(AlreadyExists, match="id_idx"):
        table.create_index("id")
    with writes_only(table), pytest.raises(AlreadyExists, match="id_idx"):
        table.create_index("k", name="id_idx")
    assert table.version == version
    old = {index.uuid.uuid for index in table.manifest.indices}
    table.create_index("k", "BITMAP", name="id_idx", replace=True)
    (index,) = table.manifest.indices
    assert index.uuid.uuid not in old
    assert index.index_details.type_url.endswith("BitmapIndexDetails")


def test_dropping_an_index(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t")
    create(table, BY_NAME["BTREE"])
    table.append(indexed_rows(1000, 1010))
    table.optimize_indices(merge=0)
    before = table.version
    with writes_only(table, "_versions/", "_transactions/"):
        done = table.drop_index("ix")
    assert done.notes["segments"] == 2
    assert operations(table, before) == ["CreateIndex"]
    assert table.manifest.indices == ()
    with pytest.raises(NotFound, match="'ix'"):
        table.drop_index("ix")
    with pytest.raises(NotFound, match="'ix'"):
        table.optimize_indices("ix")
    assert not table.optimize_indices().changed


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (lambda t: t.create_index("nope"), "nope"),
        (lambda t: t.create_index("k.deep"), "deep"),
        (lambda t: t.create_index("id", "TREE"), "TREE"),
        (lambda t: t.create_index("id", 5), "5"),
        (lambda t: t.create_index("tags", "BTREE"), "tags"),
        (lambda t: t.create_index("id", "IVF_FLAT"), "id"),
        (lambda t: t.create_index("v", "IVF_PQ", num_sub_vectors=3), "3"),
        (lambda t: t.create_index("kind"), "dictionary"),
        (lambda t: t.create_index("kinds", "LABEL_LIST"), "dictionary"),
        (lambda t: t.create_index("nothing", "ZONEMAP"), "'nothing' of type null"),
        (lambda t: t.create_index("id", name=""), "''"),
        (lambda t: t.create_index("id", name=FRAGMENT_REUSE), FRAGMENT_REUSE),
        (lambda t: t.optimize_indices(merge=-1), "-1"),
        (lambda t: t.index_build("id").plan(0), "0"),
    ],
)
def test_bad_input_is_named_and_nothing_written(tmp_path: Path, bad: Any, named: str) -> None:
    table = indexed_table(tmp_path / "t", fragments=2)
    coded = pa.dictionary(pa.int8(), pa.string())
    table.add_columns(pa.schema([("kind", coded), ("kinds", pa.list_(coded)), ("nothing", pa.null())]))
    version = table.version
    with writes_only(table), pytest.raises(InvalidInput) as caught:
        bad(table)
    assert named in str(caught.value)
    assert table.version == version


def test_too_few_rows_to_learn_from_are_said_and_not_covered(tmp_path: Path) -> None:
    """Native code makes an entry without files of them, and then every search fails."""
    table = indexed_table(tmp_path / "t", fragments=1, rows=50)
    with pytest.raises(InvalidInput, match="too few"):
        create(table, BY_NAME["IVF_PQ"])
    assert table.manifest.indices == ()


@pytest.mark.parametrize("name", ["IVF_FLAT", "IVF_SQ", "IVF_HNSW_SQ"])
def test_vectors_that_are_all_null_are_no_index_and_that_is_said(tmp_path: Path, name: str) -> None:
    table = indexed_table(tmp_path / "t", fragments=0)
    table.append([{"id": 1}, {"id": 2}])
    with pytest.raises(InvalidInput, match="'ix'"):
        create(table, BY_NAME[name])
    assert table.manifest.indices == ()


@pytest.mark.parametrize(
    "meddle",
    [
        lambda other: (other.drop_columns("k"), other.add_columns({"k": "cast(id % 7 as int)"})),
        lambda other: other.rename_columns({"k": "was", "id": "k"}),
        lambda other: other.alter_columns({"path": "k", "data_type": pa.int64()}),
    ],
    ids=["made anew", "renamed", "cast"],
)
def test_an_index_is_built_anew_when_its_column_became_another(tmp_path: Path, stable: bool, meddle: Any) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    meddle_before_commit(table, meddle)
    done = table.create_index("k", "BTREE")
    assert done.attempts == 2
    dataset, condition = native(table), "k > 2 and k < 7"
    answered = dataset.to_table(columns=["k"], filter=condition)["k"].to_pylist()
    scanned = dataset.to_table(columns=["k"], filter=condition, use_scalar_index=False)["k"].to_pylist()
    assert scanned
    assert sorted(answered) == sorted(scanned)
    assert unindexed_rows(table, "k_idx") == 0


@pytest.mark.parametrize("fragments", [0, 2])
def test_segments_of_a_column_that_became_another_are_to_be_built_again(tmp_path: Path, fragments: int) -> None:
    table = indexed_table(tmp_path / "t", fragments=fragments)
    build = table.index_build("k")
    segments = [build.execute(task) for task in build.plan(2)]
    table.alter_columns({"path": "k", "data_type": pa.int64()})
    with pytest.raises(RetryableConflict, match="Build the segments again"):
        build.commit(segments)
    assert table.manifest.indices == ()


def fill_first(table: Table, how: str) -> None:
    """Give the first fragment values for `n`, of which no file has had any there."""
    if how == "update":
        table.update({"n": "id + 100"}, where="id < 10", mode="columns")
    else:
        table.replace_column("n", pa.array(range(100, 110), pa.int64()), [0])


@pytest.mark.parametrize("how", ["update", "replace_column"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_a_column_that_was_null_is_another_one_when_it_got_values(
    tmp_path: Path, stable: bool, kind: str, how: str
) -> None:
    """What was built over the nulls, by tasks or in a first attempt, does not speak for the values."""
    for at_once in (False, True):
        table = Table.create(str(tmp_path / str(at_once)), pa.schema([("id", pa.int64())]), stable_row_ids=stable)
        table.append([{"id": number} for number in range(10)])
        table.add_columns(pa.field("n", pa.int64()))
        table.append([{"id": number, "n": number} for number in range(10, 20)])
        if at_once:
            meddle_before_commit(table, lambda other: fill_first(other, how))
            table.create_index("n", kind)
        else:
            build = table.index_build("n", kind)
            made = [build.execute(task) for task in build.plan(1)]
            fill_first(table, how)
            build.commit(made)
        assert native(table).to_table(filter="n = 103")["id"].to_pylist() == [3]
        assert native(table).count_rows("n is null") == 0


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
def test_a_column_that_is_null_again_after_a_restore_is_another_one(tmp_path: Path, stable: bool, kind: str) -> None:
    table = Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), stable_row_ids=stable)
    table.append([{"id": number} for number in range(10)])
    table.add_columns(pa.field("n", pa.int64()))
    table.append([{"id": number, "n": number} for number in range(10, 20)])
    without_values = table.version
    fill_first(table, "update")
    build = table.index_build("n", kind)
    made = [build.execute(task) for task in build.plan(1)]
    table.restore(without_values)
    build.commit(made)
    assert native(table).count_rows("n = 103") == 0
    assert native(table).count_rows("n is null") == 10
    assert native(table).to_table(filter="n = 13")["id"].to_pylist() == [13]


@EACH_KIND
def test_an_index_that_knows_all_rows_is_not_written_again(tmp_path: Path, stable: bool, kind: Kind) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    create(table, kind)
    assert not table.optimize_indices().changed
    table.append(indexed_rows(1000, 1020))
    assert table.optimize_indices(merge=0).changed
    table.optimize_indices()  # may put the two segments together
    version = table.version
    assert not table.optimize_indices().changed
    assert not table.optimize_indices(merge=0).changed
    assert table.version == version
    check_answers(table, kind.name)


@pytest.mark.parametrize("options", [{}, {"merge": 0}], ids=["merged", "apart"])
@pytest.mark.parametrize("name", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])
def test_an_index_without_vectors_to_learn_from_waits_for_some(
    tmp_path: Path, stable: bool, name: str, options: dict[str, Any]
) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    create(table, BY_NAME[name])
    table.create_index("id", name="other")
    table.delete("true")
    table.append([{"id": 1}, {"id": 2}])
    # What it cannot do for the one, it does for the other.
    table.optimize_indices(**options)
    assert unindexed_rows(table, "other") == 0
    assert not table.optimize_indices(**options).changed
    assert not table.optimize_indices("ix", retrain=True).changed
    if name == "IVF_PQ":  # which learns nothing from so few
        table.append(indexed_rows(0, 3))
        table.optimize_indices(**options)
        assert not table.optimize_indices(**options).changed
    table.append(indexed_rows(100, 500))
    table.optimize_indices(**options)
    assert unindexed_rows(table) == 0
    table.delete("v is null")
    check_answers(table, name)


@EACH_KIND
def test_an_index_on_an_empty_table_waits_for_rows(tmp_path: Path, kind: Kind) -> None:
    table = indexed_table(tmp_path / "t", fragments=0)
    create(table, kind)
    create(table, kind, replace=True)
    assert segments(table) == 1
    table.append(indexed_rows(0, 300))
    check_answers(table, kind.name)
    table.optimize_indices()
    assert unindexed_rows(table) == 0
    check_answers(table, kind.name)


def build_elsewhere(path: str, task: IndexTask) -> Segment:
    return Table.open(path).index_build(task.column, task.index_type, name=task.name, **task.options).execute(task)


@pytest.mark.parametrize("name", ["BTREE", "INVERTED", "IVF_FLAT"])
def test_several_workers_make_one_index(tmp_path: Path, name: str) -> None:
    kind = BY_NAME[name]
    table = indexed_table(tmp_path / "t")
    build = table.index_build(kind.column, kind.name, name="ix", **kind.options)
    tasks = pickle.loads(pickle.dumps(build.plan(2)))
    assert sorted(one for task in tasks for one in task.portion.ids) == [0, 1, 2, 3]
    with ProcessPoolExecutor(2, mp_context=CONTEXT) as pool:
        segments = list(pool.map(build_elsewhere, [str(tmp_path / "t")] * 2, tasks))
    assert table.manifest.indices == ()
    table.append(indexed_rows(1000, 1010))
    done = build.commit(pickle.loads(pickle.dumps(segments)))
    assert done.notes["segments"] == (2 if kind.column == "v" else 1)
    assert unindexed_rows(table) == 10
    check_answers(table, name)
    with pytest.raises(InvalidInput, match="not one of"):
        table.index_build("id", name="other").commit(segments)


@pytest.mark.parametrize("name", ["BTREE", "INVERTED", "IVF_FLAT"])
def test_a_segment_that_was_built_or_is_given_twice_counts_once(tmp_path: Path, stable: bool, name: str) -> None:
    kind = BY_NAME[name]
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    build = table.index_build(kind.column, kind.name, name="ix", **kind.options)
    first, second = build.plan(2)
    segments = [build.execute(first), build.execute(second), build.execute(first)]
    done = build.commit([*segments, segments[1]])
    assert (done.rows, unindexed_rows(table)) == (len(ids(table)), 0)
    check_answers(table, name)


@EACH_KIND
def test_segments_do_not_answer_for_what_changed_since(tmp_path: Path, stable: bool, kind: Kind) -> None:
    table = indexed_table(tmp_path / "t", fragments=8, rows=60, stable_row_ids=stable)
    build = table.index_build(kind.column, kind.name, name="ix", **kind.options)
    segments = [build.execute(task) for task in build.plan(1)]
    table.update({"k": "k + 1", "s": "concat('word11 ', s)"}, where="id < 50", mode="columns")
    table.update({"k": "k + 1"}, where="id between 100 and 110", mode="rows")
    table.delete("id between 200 and 220")
    plan = table.compaction(target_rows_per_fragment=120)
    plan.commit([plan.execute(plan.plan()[-1])])
    build.commit(segments)
    check_answers(table, kind.name)


@pytest.mark.parametrize("merge", [None, 0, 1])
@EACH_KIND
def test_values_that_were_replaced_are_answered_for_before_and_after(
    tmp_path: Path, stable: bool, kind: Kind, merge: int | None
) -> None:
    """The old values stay in the index files: neither a search nor the merge of segments may bring them back."""
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    create(table, kind)
    count = sum(one < 120 for one in ids(table))
    table.replace_column(kind.column, indexed_rows(5000, 5000 + count)[kind.column], fragments=[0])
    assert unindexed_rows(table) == count
    check_answers(table, kind.name)
    table.optimize_indices(merge=merge)
    assert unindexed_rows(table) == 0
    check_answers(table, kind.name)


@pytest.mark.parametrize("options", [{}, {"merge": 0}, {"retrain": True}], ids=["merged", "apart", "anew"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def test_nulls_that_were_replaced_do_not_come_back(
    tmp_path: Path, stable: bool, kind: str, options: dict[str, Any]
) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    table.update({"k": "NULL"}, where="id % 7 = 2", mode="columns")
    table.create_index("k", kind, name="ix")
    table.update({"k": "5"}, where="k is null and id < 120", mode="columns")
    table.append(indexed_rows(1000, 1010))
    table.optimize_indices(**options)
    assert unindexed_rows(table) == 0
    dataset = native(table)
    for condition in ("k is null", "k is not null", "k = 5"):
        answered = dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()
        scanned = dataset.to_table(columns=["id"], filter=condition, use_scalar_index=False)["id"].to_pylist()
        assert sorted(answered) == sorted(scanned), condition
    assert not table.optimize_indices(**options).changed


@pytest.mark.parametrize("options", [{}, {"merge": 0}, {"retrain": True}], ids=["merged", "apart", "anew"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM", "INVERTED"])
def test_an_index_inside_of_a_struct_learns_of_rows_that_were_added_and_moved(
    tmp_path: Path, stable: bool, kind: str, options: dict[str, Any]
) -> None:
    def rows(start: int, stop: int) -> pa.Table:
        inside = [{"a": one % 20, "s": f"word{one % 17}"} for one in range(start, stop)]
        return pa.table({"id": range(start, stop), "in": inside})

    table = Table.create(str(tmp_path / "t"), rows(0, 1).schema, stable_row_ids=stable, durability="os")
    table.append(rows(0, 60))
    column, condition = ("in.s", "in.s = 'word3'") if kind in ("NGRAM", "INVERTED") else ("in.a", "in.a = 3")
    table.create_index(column, kind, name="ix")
    table.append(rows(60, 80))
    table.optimize_indices(**options)
    assert unindexed_rows(table) == 0
    table.reorder([("id", "descending")])
    table.append(rows(80, 90))
    table.optimize_indices(**options)
    assert unindexed_rows(table) == 0
    assert sorted(table.to_arrow(filter=condition)["id"].to_pylist()) == [
        one["id"] for one in rows(0, 90).to_pylist() if one["in"][column[3:]] in (3, "word3")
    ]
    assert not table.optimize_indices(**options).changed


@pytest.mark.parametrize("merge", [0, 1, 5])
@pytest.mark.parametrize("name", ["IVF_FLAT", "IVF_SQ", "IVF_HNSW_SQ"])
def test_segments_that_workers_trained_apart_are_optimised(tmp_path: Path, stable: bool, name: str, merge: int) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    kind = BY_NAME[name]
    build = table.index_build(kind.column, name, name="ix", **kind.options)
    build.commit([build.execute(task) for task in build.plan(3)])
    count = sum(one < 120 for one in ids(table))
    table.replace_column("v", indexed_rows(5000, 5000 + count)["v"], fragments=[0])
    table.optimize_indices(merge=merge)
    assert unindexed_rows(table) == 0
    check_answers(table, name)


def test_new_rows_get_a_segment_of_their_own_if_asked(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t")
    create(table, BY_NAME["BITMAP"])
    for number in range(3):
        table.append(indexed_rows(1000 + number, 1001 + number))
        table.optimize_indices(merge=0)
    assert segments(table) == 4
    table.append(indexed_rows(1010, 1011))
    table.optimize_indices(merge=2)
    assert segments(table) == 3
    (tmp_path / "t" / "_versions" / f"{2**64 - 1 - 8:020d}.manifest").unlink()
    table.append(indexed_rows(1020, 1021))
    table.optimize_indices(merge=0)
    assert segments(table) == 4
    check_answers(table, "BITMAP")
    table.replace_column("k", [3] * 109, fragments=[0])
    table.optimize_indices(merge=0)
    assert segments(table) == 1
    check_answers(table, "BITMAP")


def test_old_values_do_not_come_back_through_another_segment(tmp_path: Path, stable: bool) -> None:
    """Compaction in between gives the fragment another id, and the segments other files."""
    table = indexed_table(tmp_path / "t", fragments=6, rows=40, stable_row_ids=stable)
    table.create_index("id", name="ix")
    table.append(indexed_rows(1000, 1010))
    table.optimize_indices(merge=0)
    count = sum(one < 80 for one in ids(table))
    table.replace_column("id", list(range(7000, 7000 + count)), fragments=[0, 1])
    table.compact(target_rows_per_fragment=80)
    check_answers(table, "BTREE")
    table.append(indexed_rows(1010, 1020))
    table.optimize_indices(merge=0)
    assert unindexed_rows(table) == 0
    check_answers(table, "BTREE")


@pytest.mark.parametrize("name", ["BTREE", "BITMAP", "INVERTED"])
def test_values_that_change_after_rows_moved_by_a_map(tmp_path: Path, name: str) -> None:
    """The index names the fragments where its rows were; that they moved is known only to the map."""
    table = indexed_table(tmp_path / "t")
    create(table, BY_NAME[name])
    assert table.compact(target_rows_per_fragment=240, index="reuse").notes["indices"] == {"ix": "reused"}
    assignments = {"id": "id + 5000", "k": "k + 1", "s": "concat('word11 ', s)"}
    table.update(assignments, where="id < 90", mode="columns")
    check_answers(table, name)
    table.optimize_indices()
    check_answers(table, name)
    assert unindexed_rows(table) == 0


@pytest.mark.parametrize("name", ["BITMAP", "INVERTED", "IVF_FLAT"])
def test_rows_with_stable_ids_are_not_known_to_two_segments(tmp_path: Path, name: str) -> None:
    """Rows that moved into a fragment which the index does not cover are still in its files, under the same ids."""
    table = indexed_table(tmp_path / "t", stable_row_ids=True)
    create(table, BY_NAME[name])
    table.append(indexed_rows(1000, 1010))
    table.update({"k": "k + 1"}, where="id between 40 and 60", mode="rows")
    table.reorder([("id", "descending")])
    check_answers(table, name)
    table.append(indexed_rows(1010, 1020))
    table.optimize_indices(merge=0)
    assert unindexed_rows(table) == 0
    check_answers(table, name)


@pytest.mark.parametrize("verb", ["compact", "reorder"])
def test_rows_that_are_gone_take_no_place_among_the_nearest_and_the_best(
    tmp_path: Path, stable: bool, verb: str
) -> None:
    """Indices by row id still know the rows that a compaction leaves behind, and no deletion vector tells of them."""
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    table.create_index("s", "INVERTED", name="words")
    table.create_index("v", "IVF_FLAT", name="ix", num_partitions=1)
    table.delete("id between 5 and 9 or id between 100 and 130 or id % 3 = 1")
    if verb == "compact":
        table.compact()
    else:
        table.reorder([("id", "descending")])
    dataset = native(table)
    query = {"column": "v", "q": indexed_rows(7, 8)["v"][0].as_py(), "k": 12}
    near = [dataset.to_table(columns=["id"], nearest=query | {"use_index": used})["id"] for used in (True, False)]
    assert near[0].to_pylist() == near[1].to_pylist()
    assert dataset.to_table(columns=["id"], full_text_query="common", limit=12).num_rows == 12


def refused_once(other: Table) -> None:
    """Somebody else is always first, for so long that the verb begins again."""
    raise RetryableConflict("too many writers")


@pytest.mark.parametrize("name", ["BITMAP", "INVERTED", "NGRAM", "LABEL_LIST", "BTREE"])
def test_rows_that_move_between_two_attempts_are_not_known_twice(tmp_path: Path, stable: bool, name: str) -> None:
    """With their ids, or by a map: what the first attempt built knows them under their old place."""
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    table.create_index("id", name="other")
    changed = {"id": "id + 5000", "k": "k + 1", "s": "concat('word11 ', s)"}

    def move(other: Table) -> None:
        if stable:
            other.update(changed, where="id < 90 and id % 2 = 0", mode="rows")
        else:
            compact_first(other, index="reuse")
            assert other.manifest.fragments.ids() == [2, 3, 4]
            other.update(changed, where="id < 60", mode="columns")
        refused_once(other)

    meddle_before_commit(table, move)
    kind = BY_NAME[name]
    assert table.create_index(kind.column, name, name="ix", **kind.options).attempts == 2
    assert unindexed_rows(table) == 0
    check_answers(table, name)


@pytest.mark.parametrize("name", ["BITMAP", "INVERTED"])
def test_segments_that_know_the_same_rows_are_not_put_together(tmp_path: Path, stable: bool, name: str) -> None:
    """Of two the older one is left out, and what only it knew is scanned."""
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    kind = BY_NAME[name]
    build = table.index_build(kind.column, name, name="ix")
    old = [build.execute(task) for task in build.plan(2)]
    table.update({"k": "k + 1", "s": "concat('word11 ', s)"}, where="id < 90", mode="rows")
    new = [build.execute(task) for task in build.plan(5) if task.portion.ids[0] in (0, 4)]
    build.commit([*old, *new])
    check_answers(table, name)


@pytest.mark.parametrize("merge", [0, 1])
def test_old_values_do_not_come_back_through_a_map(tmp_path: Path, merge: int) -> None:
    """The segment is older than the fragment whose values changed, and knows its rows nevertheless."""
    table = indexed_table(tmp_path / "t")
    create(table, BY_NAME["BITMAP"])
    table.append(indexed_rows(1000, 1010))
    table.optimize_indices(merge=0)
    table.compact(target_rows_per_fragment=200, index="reuse")
    table.update({"k": "k + 1"}, where="id < 90", mode="columns")
    table.append(indexed_rows(1010, 1020))
    check_answers(table, "BITMAP")
    table.optimize_indices(merge=merge)
    assert unindexed_rows(table) == 0
    check_answers(table, "BITMAP")


def test_segments_of_which_nothing_is_left_are_refused(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t")
    build = table.index_build("id", name="ix")
    segments = [build.execute(task) for task in build.plan(2)]
    table.compact()
    with pytest.raises(RetryableConflict, match="'ix'"):
        build.commit(segments, attempts=2)
    table.drop_columns("id")
    with pytest.raises(InvalidInput, match="'id'"):
        build.commit(segments)


@pytest.mark.parametrize("name", ["BTREE", "INVERTED", "ZONEMAP", "IVF_FLAT"])
def test_segments_do_not_speak_for_rows_that_a_restore_brought_back(tmp_path: Path, stable: bool, name: str) -> None:
    """They were deleted when the segments were built. More are deleted by now, but other ones."""
    kind = BY_NAME[name]
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    before = table.version
    table.delete("id < 60")
    build = table.index_build(kind.column, name, name="ix", **kind.options)
    segments = [build.execute(task) for task in build.plan(1)]
    table.restore(before)
    table.delete("id between 55 and 118")
    build.commit(segments)
    assert unindexed_rows(table) == sum(one < 120 for one in ids(table))
    check_answers(table, name)


def test_an_index_that_met_a_restore_on_the_way_knows_the_rows_that_it_brought_back(
    tmp_path: Path, stable: bool
) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    before = table.version
    table.delete("id < 60")

    def meddle(other: Table) -> None:
        other.replace_column("k", [3] * 109, fragments=[1])
        other.restore(before)

    meddle_before_commit(table, meddle)
    assert table.create_index("k", "BITMAP", name="ix").attempts == 2
    assert unindexed_rows(table) == 0
    check_answers(table, "BITMAP")


def test_segments_whose_deletions_were_cleaned_up_are_not_trusted(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t")
    build = table.index_build("k", "BITMAP", name="ix")
    segments = [build.execute(task) for task in build.plan(1)]
    (before, *_) = table.manifest.fragments
    table.delete("id < 60")
    (tmp_path / "t" / path(before.id, before.deletion_file)).unlink()
    build.commit(segments)
    assert unindexed_rows(table) == sum(one < 120 for one in ids(table))
    check_answers(table, "BITMAP")


def compact_first(table: Table, index: IndexMode = "remap") -> None:
    plan = table.compaction(target_rows_per_fragment=200, index=index)
    plan.commit([plan.execute(plan.plan()[0])])


MEDDLING: dict[str, Callable[[Table], object]] = {
    "append": lambda other: other.append(indexed_rows(1000, 1010)),
    "delete": lambda other: other.delete("id between 40 and 90"),
    "update rows": lambda other: other.update({"k": "k + 1"}, where="id < 50", mode="rows"),
    "update columns": lambda other: other.update({"k": "k + 1"}, where="id < 50", mode="columns"),
    "replace": lambda other: other.replace_column("k", [3] * 109, fragments=[0]),
    "compact some": compact_first,
    "compact all": lambda other: other.compact(),
    "reorder": lambda other: other.reorder([("k", "descending")]),
    "same index": lambda other: other.create_index("k", "BITMAP", name="ix"),
    "other index": lambda other: other.create_index("id"),
    "rename": lambda other: other.rename_columns({"tags": "labels"}),
}


# An index of the same name cannot be made where there is one, which is told at once.
_PAIRS = [("create", one) for one in MEDDLING] + [("optimize", one) for one in MEDDLING if one != "same index"]


@pytest.mark.parametrize(("verb", "meddle"), _PAIRS)
def test_an_index_is_right_whatever_others_do_meanwhile(tmp_path: Path, stable: bool, verb: str, meddle: str) -> None:
    table = indexed_table(tmp_path / "t", stable_row_ids=stable)
    if verb == "optimize":
        create(table, BY_NAME["BITMAP"])
        table.append(indexed_rows(2000, 2010))
    meddle_before_commit(table, MEDDLING[meddle])
    if verb == "optimize":
        table.optimize_indices()
    else:
        table.create_index("k", "BITMAP", name="ix", replace=True)
    check_answers(table, "BITMAP")
    rows = native(table).to_table(columns=["id", "k"], use_scalar_index=False).to_pylist()
    for number in range(14):
        scanned = [row["id"] for row in rows if row["k"] == number]
        assert sorted(ids(table, filter=f"k = {number}")) == sorted(scanned)


@pytest.mark.parametrize("name", ["BTREE", "NGRAM", "INVERTED"])
def test_an_index_is_built_to_its_end_though_others_compact_a_part_meanwhile(tmp_path: Path, name: str) -> None:
    """What was built before and what is missing now are two segments. Native code does not put those of some kinds
    together if they were built over fragments that are gone.
    """
    table, kind = indexed_table(tmp_path / "t"), BY_NAME[name]
    meddle_before_commit(table, compact_first)
    assert table.create_index(kind.column, name, name="ix").attempts == 2
    assert unindexed_rows(table) == 0
    check_answers(table, name)
    table.append(indexed_rows(1000, 1010))
    table.optimize_indices(merge=10)
    assert (segments(table), unindexed_rows(table)) == (1, 0)
    check_answers(table, name)


def test_an_index_of_vectors_is_built_anew_where_others_compacted_all_that_it_knew(tmp_path: Path) -> None:
    table, kind = indexed_table(tmp_path / "t"), BY_NAME["IVF_FLAT"]
    meddle_before_commit(table, lambda other: other.compact())
    assert table.create_index(kind.column, "IVF_FLAT", name="ix", **kind.options).attempts == 2
    assert unindexed_rows(table) == 0
    check_answers(table, "IVF_FLAT")


@pytest.mark.parametrize("verb", ["create", "optimize"])
def test_values_that_change_where_rows_were_led_meanwhile(tmp_path: Path, verb: str) -> None:
    """What was built names the fragments that it read; the map of others leads on to those whose values changed."""
    table = indexed_table(tmp_path / "t")
    table.create_index("id")
    if verb == "optimize":
        create(table, BY_NAME["BITMAP"])
        table.append(indexed_rows(2000, 2010))

    def move_and_change(other: Table) -> None:
        moved = other.compact(target_rows_per_fragment=200, index="reuse")
        assert "'id_idx': 'reused'" in repr(moved)
        other.update({"k": "k + 1"}, where="id < 90", mode="columns")

    meddle_before_commit(table, move_and_change)
    done = table.create_index("k", "BITMAP", name="ix") if verb == "create" else table.optimize_indices()
    assert done.attempts == 1, "nothing had to be built again"
    assert 0 < unindexed_rows(table) < table.to_arrow().num_rows
    check_answers(table, "BITMAP")


def test_a_column_that_goes_meanwhile_takes_the_index_with_it(tmp_path: Path) -> None:
    table = indexed_table(tmp_path / "t")
    meddle_before_commit(table, lambda other: other.drop_columns("k"))
    with pytest.raises(InvalidInput, match="'k'"):
        table.create_index("k")


def test_what_was_built_before_a_conflict_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[int, ...]] = []
    build = build_segment

    def counted(task: IndexTask, *rest: Any) -> Segment:
        built.append(task.portion.ids)
        return build(task, *rest)

    monkeypatch.setattr("seiche.table.data.index.creating.build_segment", counted)
    table = indexed_table(tmp_path / "t")
    meddle_before_commit(table, compact_first)
    done = table.create_index("k", name="ix")
    assert done.attempts == 2
    assert built == [(0, 1, 2, 3), (4,)]
    assert unindexed_rows(table) == 0
    check_answers(table, "BITMAP")


@pytest.mark.parametrize("name", [FRAGMENT_REUSE, "nothing"])
def test_what_is_no_index_of_the_user_cannot_be_dropped(tmp_path: Path, name: str) -> None:
    table = indexed_table(tmp_path / "t")
    table.create_index("id", "BTREE")
    table.compact(index="reuse")
    assert find(table.manifest.indices, FRAGMENT_REUSE) is not None
    with pytest.raises(NotFound, match=name):
        table.drop_index(name)


def test_what_native_code_works_in_is_made_again_if_the_storage_gives_no_answer(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "table", pa.schema([("id", pa.int64())]), durability="os")
    table.append(pa.table({"id": [0]}))
    table.create_index("id")

    def optimize(store: SimulatedStore) -> SimulatedStore:
        table.append(pa.table({"id": [0]}))
        assert Table.open(store).optimize_indices().changed
        return store

    calls = enumerate(optimize(SimulatedStore(table.store)).calls, 1)
    writes = [number for number, call in calls if "_shadow" in str(call) and "if_absent" in call.verb]
    assert len(writes) == 4, "a transaction, a manifest, and both files of the index"
    for number in writes:
        # `CommitUnknown` would send people to ask for the outcome of a commit that has not begun.
        assert optimize(SimulatedStore(table.store, plan={number: "after"})).injected
    assert table.count_rows("id = 0") == 6
