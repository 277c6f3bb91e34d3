"""Reordering: the same rows, sorted."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seiche import InvalidInput
from seiche.table.data.rewrite import reorder
from seiche.table.table import Table
from tests.row_table import SCHEMA, some_rows
from tests.verb_table import by_id, ids, meddle_before_commit, native, operations, verb_table, writes_only

MARKS = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def stable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def table(tmp_path: Path, stable: bool) -> Table:
    table = verb_table(tmp_path / "t", stable_row_ids=stable)
    table.update({"small": "small + 1"}, where="id = 7")
    return table


def marks(table: Table) -> dict[int, dict[str, Any]]:
    rows = native(table).to_table(columns=["id", *MARKS]).to_pylist()
    return {row.pop("id"): row for row in rows}


def test_all_rows_are_sorted_and_stay_what_they_are(table: Table, stable: bool) -> None:
    before, rows, who = table.version, by_id(table.to_arrow()), marks(table) if stable else {}
    with writes_only(table, "_versions/", "_transactions/", "data/"):
        done = table.reorder([("id", "descending")])
    assert operations(table, before) == ["ReserveFragments", "Rewrite"]
    assert (done.rows, done.notes["fragments_added"]) == (len(rows), 1)
    assert ids(table) == sorted((row["id"] for row in rows), reverse=True)
    assert by_id(table.to_arrow()) == rows
    assert not table.manifest.fragments.has_deletions
    if stable:
        assert marks(table) == who
    native(table)


def test_what_is_in_order_is_nothing_to_do(table: Table) -> None:
    table.reorder("id")
    version = table.version
    with writes_only(table):
        assert not table.reorder("id").changed
        assert not table.reorder("id", across=False).changed
    assert table.version == version


def test_each_fragment_for_itself(tmp_path: Path, stable: bool) -> None:
    table = verb_table(tmp_path / "t", stable_row_ids=stable)
    who = marks(table) if stable else {}
    done = table.reorder(("id", "descending"), across=False)
    assert (done.notes["fragments_removed"], done.notes["fragments_added"]) == (3, 3)
    assert ids(table) == [start + one for start in (0, 10, 20) for one in range(9, -1, -1) if (start + one) % 4 != 1]
    if stable:
        assert marks(table) == who


@pytest.mark.parametrize("column", [field.name for field in SCHEMA if not pa.types.is_nested(field.type)])
def test_by_columns_of_every_kind(tmp_path: Path, column: str) -> None:
    """Nulls come last; rows that are equal stay in the order that they had."""
    table = verb_table(tmp_path / "t")
    columns = list({"id", column})
    rows = table.to_arrow(columns=columns).to_pylist()
    for direction in ("ascending", "descending"):
        table.reorder([(column, direction)])
        some, none = [row for row in rows if row[column] is not None], [row for row in rows if row[column] is None]
        some.sort(key=lambda row: row[column], reverse=direction == "descending")
        rows = [*some, *none]
        assert table.to_arrow(columns=columns).to_pylist() == rows


@pytest.mark.parametrize("stable", [False, True])
def test_columns_with_dictionaries_of_numbers_are_sorted_and_carried_along(tmp_path: Path, stable: bool) -> None:
    coded = pa.dictionary(pa.int16(), pa.int64())
    kinds = {"coded": coded, "inside": pa.struct([("coded", coded)]), "several": pa.list_(coded)}
    table = Table.create(tmp_path / "t", pa.schema({"id": pa.int64(), **kinds}), stable_row_ids=stable)
    rows = [
        {"id": one, "coded": value, "inside": {"coded": value}, "several": [value, None]}
        for one, value in enumerate([30, None, 10, 20, 10])
    ]
    table.append(rows)
    table.reorder("coded")
    assert table.to_arrow().to_pylist() == [rows[one] for one in (2, 4, 3, 0, 1)]
    assert table.to_arrow().schema.types[1:] == list(kinds.values())
    table.append(pa.table({"id": [5], "coded": [40]}))  # not coded yet
    assert table.to_arrow(filter="id = 5")["coded"].to_pylist() == [40]


def test_by_several_columns(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    table.reorder([("kind", "descending"), "id"], target_rows_per_fragment=9)
    found = table.to_arrow(columns=["kind", "id"]).to_pylist()
    present = [(row["kind"], row["id"]) for row in found if row["kind"] is not None]
    assert present == sorted(sorted(present, key=lambda pair: pair[1]), key=lambda pair: pair[0], reverse=True)
    assert [one.physical_rows for one in table.manifest.fragments] == [9, 9, 4]


def test_more_rows_than_fit_into_memory_are_sorted_in_parts(
    tmp_path: Path, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reorder, "_MEMORY", 1)
    monkeypatch.setattr(reorder, "BATCH_ROWS", 16)
    table = verb_table(tmp_path / "t", fragments=4, rows=50, stable_row_ids=stable)
    rows, who = by_id(table.to_arrow()), marks(table) if stable else {}
    table.reorder([("name", "descending"), ("id", "descending")])
    assert by_id(table.to_arrow()) == rows
    names = [row["name"] for row in table.to_arrow().to_pylist() if row["name"] is not None]
    assert names == sorted(names, reverse=True)
    if stable:
        assert marks(table) == who


def test_what_others_do_meanwhile_is_neither_lost_nor_undone(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")

    def meddle(other: Table) -> None:
        other.delete("id = 2")
        other.append(some_rows(2, 100))

    meddle_before_commit(table, meddle)
    table.reorder(("id", "descending"))
    assert ids(table) == [101, 100, *(one for one in range(29, -1, -1) if one % 4 != 1 and one != 2)]
    native(table)


def test_tasks(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    plan = table.reordering("name", across=False)
    tasks = plan.plan()
    assert len(tasks) == 3
    assert "reorder" in repr(tasks[0])
    results = [plan.execute(task) for task in tasks]
    done = plan.commit(results)
    assert done.notes["fragments_added"] == 3
    again = [plan.execute(task) for task in plan.plan()]
    assert not any(result.changed for result in again)
    assert not plan.commit(again).changed


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ("nope", "nope"),
        ([], "no column"),
        (["id", "id"], "twice"),
        ([("id", "sideways")], "sideways"),
        (["tags"], "tags"),
        (["place"], "place"),
        ([5], "5"),
    ],
)
def test_bad_input_is_named_and_nothing_written(tmp_path: Path, by: Any, named: str) -> None:
    table = verb_table(tmp_path / "t")
    with writes_only(table), pytest.raises(InvalidInput, match=named):
        table.reorder(by)
