"""`lake.diff(a, b)`: objects, and in tables operations, rows, files and columns."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import Lake, NotFound
from seiche.core.runtime import Runtime
from seiche.lake.history.diff import Diff
from seiche.lake.history.table_diff import TableDiff, _kin
from seiche.lake.lake import open_lake
from seiche.table.operations import Rewrite
from seiche.table.transaction import Transaction
from seiche.testing import CountingStore, DictStore
from tests.unit.lake.conftest import SCHEMA, rows


def said(diff: Diff) -> list[str]:
    return [str(one) for one in diff.objects]


def content(diff: Diff) -> TableDiff:
    (table,) = diff.tables
    return table


def test_objects_added_dropped_renamed_changed(lake: Lake) -> None:
    start = lake.version
    lake.create_namespace("other")
    lake.run(lambda tx: tx.alter_namespace("shop", {"owner": "me"}))
    lake.rename_table("shop.a", "other.z")
    lake.drop_table("shop.b")
    lake.create_table("shop.c", SCHEMA)
    lake.run(lambda tx: tx.create_view("shop.v", "SELECT 1"))
    diff = lake.diff(start)
    assert (diff.before, diff.after) == (start, lake.version)
    assert said(diff) == [
        "added namespace other",
        "changed namespace shop",
        "renamed table shop.a to other.z",
        "dropped table shop.b",
        "added table shop.c",
        "added view shop.v",
    ]
    assert diff.objects[1].properties == {"owner": (None, "me")}
    assert [(one.table, one.before, one.after) for one in diff.tables] == [("shop.b", 1, 0), ("shop.c", 0, 1)]
    back = lake.diff(lake.version, start)
    assert said(back) == [
        "dropped namespace other",
        "changed namespace shop",
        "renamed table other.z to shop.a",
        "added table shop.b",
        "dropped table shop.c",
        "dropped view shop.v",
    ]


def test_what_came_and_went_in_between_is_no_difference(lake: Lake) -> None:
    start = lake.version
    lake.create_namespace("other")
    lake.drop_namespace("other")
    lake.rename_table("shop.a", "shop.z")
    lake.rename_table("shop.z", "shop.a")
    diff = lake.diff(start)
    assert not diff
    assert repr(diff) == f"<from version {start} to {start + 4}: nothing differs>"


def test_another_table_of_the_same_name_is_another_table(lake: Lake) -> None:
    start = lake.version
    lake.table("shop.a").append(rows(1, 2))
    lake.drop_table("shop.a")
    lake.create_table("shop.a", SCHEMA)
    diff = lake.diff(start + 1)
    assert said(diff) == ["added table shop.a", "dropped table shop.a"]
    added, dropped = (diff.content(one) for one in diff.objects)
    assert added is not None
    assert dropped is not None
    assert (added.rows_after, dropped.rows_before) == (0, 2)
    assert "dropped table shop.a: version 2, 2 rows" in repr(diff)


Change = Callable[[Lake], object]

STEPS: dict[str, tuple[Change, list[str], tuple[int, int], tuple[int, int]]] = {
    "append": (lambda lake: lake.table("shop.a").append(rows(7, 8)), ["Append"], (2, 0), (1, 0)),
    "delete": (lambda lake: lake.table("shop.a").delete("id = 1"), ["Delete"], (0, 1), (0, 0)),
    "delete all": (lambda lake: lake.table("shop.a").delete("true"), ["Delete"], (0, 4), (0, 2)),
    "update": (lambda lake: lake.table("shop.a").update({"n": "n + 1"}, where="id < 3"), ["Update"], (2, 2), (1, 0)),
    "overwrite": (lambda lake: lake.table("shop.a").overwrite(rows(9)), ["Overwrite"], (1, 4), (1, 2)),
    "restore": (lambda lake: lake.table("shop.a").restore(2), ["Restore"], (0, 1), (0, 1)),
}


@pytest.mark.parametrize("name", STEPS)
def test_one_statement(lake: Lake, name: str) -> None:
    change, operations, (added, removed), (files_added, files_removed) = STEPS[name]
    lake.table("shop.a").append(rows(1, 2, 3))
    lake.table("shop.a").append(rows(4))
    before = lake.version
    change(lake)
    found = content(lake.diff(before))
    assert [one.operation for one in found.operations] == operations
    assert (found.rows_added, found.rows_removed) == (added, removed)
    assert (len(found.files_added), len(found.files_removed)) == (files_added, files_removed)
    assert (found.rows_before, found.rows_after) == (4, lake.table("shop.a").to_arrow().num_rows)
    assert found.rows_after == found.rows_before + added - removed
    back = content(lake.diff(lake.version, before))
    assert (back.rows_added, back.rows_removed, back.files_added) == (removed, added, found.files_removed)
    assert back.operations == found.operations


def test_a_compaction_moves_rows_and_neither_adds_nor_removes_any(lake: Lake) -> None:
    table = lake.table("shop.a")
    for number in range(4):
        table.append(rows(number, number + 10))
    before = lake.version
    table.compact()
    found = content(lake.diff(before))
    assert "Rewrite" in [one.operation for one in found.operations]
    assert (found.rows_added, found.rows_removed) == (0, 0)
    assert (len(found.files_added), len(found.files_removed)) == (1, 4)
    table.delete("id = 3")
    table.append(rows(20, 21, 22))
    found = content(lake.diff(before))
    assert (found.rows_added, found.rows_removed) == (3, 1)
    table.compact()
    mixed = content(lake.diff(before))
    assert mixed.rows_added - mixed.rows_removed == 2, "the sum is right, also where a compaction mixed them"
    assert mixed.rows_after == 10


class Looked(int):
    """The id of a fragment, which counts how often any of them is looked up."""

    times = 0

    def __hash__(self) -> int:
        Looked.times += 1
        return int(self)


def test_work_is_in_proportion_to_the_compactions_that_a_fragment_came_out_of() -> None:
    def looked(count: int) -> int:
        ids = [Looked(one) for one in range(2 * count + 1)]
        made = []
        for one in range(0, 2 * count, 2):
            old, new = (
                [SimpleNamespace(id=ids[one]), SimpleNamespace(id=ids[one + 1])],
                SimpleNamespace(id=ids[one + 2]),
            )
            groups: Any = (SimpleNamespace(old_fragments=old, new_fragments=[new]),)
            made.append(Transaction(1, "", Rewrite(groups)))
        Looked.times = 0
        assert set(map(int, _kin(made).values())) == {0}, "all of them are one family"
        return Looked.times

    assert looked(400) < 5 * looked(100)


def test_columns(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(1))
    start = lake.version
    table.overwrite(pa.table({"id": pa.array([1], pa.int64()), "name": ["x"]}))
    found = content(lake.diff(start))
    assert [str(one) for one in found.columns] == [
        "dropped column n (int64)",
        "added column name (string)",
    ]
    assert lake.diff(start).as_dict()["tables"][0]["columns"][0] == {  # type: ignore[index]
        "action": "dropped",
        "column": "n",
        "before": "int64",
        "after": "",
        "old_name": "",
    }


def test_nested_columns_have_paths_and_types_are_compared(lake: Lake) -> None:
    def schema(inner: pa.DataType, outer: str = "where") -> pa.Schema:
        return pa.schema([("id", pa.int64()), (outer, pa.struct([("x", inner)]))])

    lake.create_table("shop.c", schema(pa.int32()))
    start = lake.version
    lake.table("shop.c").overwrite(pa.table({"id": [], "where": []}, schema=schema(pa.float64())))
    (changed,) = content(lake.diff(start)).columns
    assert str(changed) == "changed column where.x (int32 to double)"
    lake.table("shop.c").overwrite(pa.table({"id": [], "place": []}, schema=schema(pa.float64(), "place")))
    renamed = content(lake.diff(lake.version - 1)).columns
    assert [str(one) for one in renamed] == [
        "renamed column where to place (struct)",
        "renamed column where.x to place.x (double)",
    ]


def test_versions_by_tag_and_by_time(lake: Lake) -> None:
    lake.tag("empty")
    lake.table("shop.a").append(rows(1))
    found = content(lake.diff("empty", datetime.now(UTC) + timedelta(days=1)))
    assert (found.rows_before, found.rows_after) == (0, 1)
    old = open_lake(lake.store, version="empty")
    assert not old.diff("empty")
    with pytest.raises(NotFound, match="no tag"):
        lake.diff("full")
    with pytest.raises(NotFound, match="does not exist"):
        lake.diff(99)


def test_the_rest_of_a_large_lake_is_not_read() -> None:
    runtime = Runtime.seeded(0)
    inner = DictStore(runtime=runtime)
    lake = seiche.create(inner, runtime=runtime, settings={"order": 12, "root_buffer_max_size_bytes": 8_000})
    with lake.transaction() as tx:
        for number in range(1500):
            tx.create_namespace(f"n{number}", {"note": "x" * 50})
    lake.create_namespace("what waits in a root moves down with the next one".replace(" ", "-"))
    start = lake.version
    for number in range(30):
        lake.run(lambda tx, number=number: tx.alter_namespace(f"n{number * 7}", {"new": "y"}))  # type: ignore[misc]
    total = sum(1 for _ in lake.state().tree.walk())
    store = CountingStore(inner)
    diff = open_lake(store, runtime=runtime).diff(start)
    assert len(diff.objects) == 30
    assert total > 100
    assert store.counts["get"] < total / 3
