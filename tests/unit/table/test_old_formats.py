"""Tables in older data formats, as pylance makes them: each has a way of its own to code values with dictionaries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche import InvalidInput
from seiche.table.data.columns.add import merged, new_fields
from seiche.table.data.native import open_staged
from seiche.table.table import Table
from tests.verb_table import files

CODED = pa.dictionary(pa.int16(), pa.string())
SCHEMA = pa.schema([("id", pa.int64()), ("kind", CODED)])
KINDS: list[str | None] = ["x", "y", None, "z", "w"] * 4
# The first format has no nulls.
FIRST_KINDS: list[str | None] = ["x", "y", "v", "z", "w"] * 4


def rows(start: int, kinds: list[str | None]) -> pa.Table:
    return pa.table({"id": range(start, start + len(kinds)), "kind": pa.array(kinds, CODED)}, schema=SCHEMA)


def given(format_version: str) -> list[str | None]:
    return FIRST_KINDS if format_version == "legacy" else KINDS


def made(path: Path, format_version: Any) -> Table:
    lance.write_dataset(rows(0, given(format_version)), path, data_storage_version=format_version, max_rows_per_file=10)
    return Table.open(path)


def kinds(table: Table) -> dict[int, str | None]:
    dataset: Any = lance.dataset(str(table.store.native_uri()))
    dataset.validate()
    read = dataset.to_table()
    return dict(zip(read["id"].to_pylist(), read["kind"].to_pylist(), strict=True))


def upserted(table: Table) -> None:
    table.merge(rows(3, ["new", "x"]), on="id").when_matched_update_all().execute()


VERBS: dict[str, tuple[Callable[[Table], object], dict[int, str | None]]] = {
    "append": (lambda t: t.append(rows(20, ["z", None, "new"])), {20: "z", 21: None, 22: "new"}),
    "update of rows": (lambda t: t.update({"kind": "'new'"}, where="id = 3", mode="rows"), {3: "new"}),
    "update of a column": (lambda t: t.update({"kind": "'new'"}, where="id = 3", mode="columns"), {3: "new"}),
    "update, either way": (
        lambda t: t.update({"kind": "'new'"}, where="kind = 'z'"),
        dict.fromkeys([3, 8, 13, 18], "new"),
    ),
    "merge": (upserted, {3: "new", 4: "x"}),
    "compact": (lambda t: t.compact(), {}),
    "reorder": (lambda t: t.reorder([("id", "descending")]), {}),
    "reorder by it": (lambda t: t.reorder("kind", across=False), {}),
    "add_columns": (lambda t: t.add_columns({"twice": "id * 2"}), {}),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("format_version", ["2.0", "2.1", "2.2"])
def test_values_that_are_coded_with_a_dictionary_stay_what_they_are(
    tmp_path: Path, format_version: str, verb: str
) -> None:
    call, changed = VERBS[verb]
    table = made(tmp_path / "t", format_version)
    call(table)
    assert kinds(table) == dict(enumerate(KINDS)) | changed


@pytest.mark.parametrize("format_version", ["2.0", "2.1", "2.2"])
def test_rows_of_many_fragments_are_put_together(tmp_path: Path, format_version: Any) -> None:
    lance.write_dataset(rows(0, KINDS), tmp_path / "t", data_storage_version=format_version, max_rows_per_file=3)
    table = Table.open(tmp_path / "t")
    table.reorder([("id", "descending")])
    assert kinds(table) == dict(enumerate(KINDS))
    table.merge(rows(3, ["new", "x"]), on="kind").when_matched_update({"id": "target.id + 100"}).execute()
    assert kinds(table) == {one if kind != "x" else one + 100: kind for one, kind in enumerate(KINDS)}


@pytest.mark.parametrize("format_version", ["legacy", "2.0", "2.1", "2.2"])
def test_some_fragments_are_read_as_all_are(tmp_path: Path, format_version: str) -> None:
    table = made(tmp_path / "t", format_version)
    assert open_staged(table.store, table.manifest).to_table()["kind"].to_pylist() == given(format_version)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.append(rows(20, ["z"])),
        lambda t: t.delete("id = 3"),
        lambda t: t.update({"id": "id + 1"}, where="id = 3"),
        lambda t: t.update_config({"a": "b"}),
        lambda t: t.commit(t.transactions()[0][1].operation),
    ],
    ids=["append", "delete", "update", "update_config", "commit"],
)
def test_dictionaries_in_the_first_format_are_read_and_not_written(
    tmp_path: Path, call: Callable[[Table], object]
) -> None:
    table = made(tmp_path / "t", "legacy")
    with pytest.raises(InvalidInput, match=r"first one \(0\.1\), and kind coded"):
        call(table)
    assert table.version == 1
    assert kinds(table) == dict(enumerate(FIRST_KINDS))
    assert table.to_arrow(filter="kind = 'z'")["id"].to_pylist() == [3, 8, 13, 18]


def test_dictionaries_in_the_first_format_are_not_cloned(tmp_path: Path) -> None:
    table = made(tmp_path / "t", "legacy")
    for shallow in (False, True):
        with pytest.raises(InvalidInput, match="kind"):
            table.clone(str(tmp_path / "clone"), shallow=shallow)
    assert not any(one.startswith("_versions") for one in files(tmp_path / "clone"))
    lance.write_dataset(lance.dataset(tmp_path / "t"), tmp_path / "new")
    assert kinds(Table.open(tmp_path / "new")) == dict(enumerate(FIRST_KINDS))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_single_rows_of_the_first_format_are_read(tmp_path: Path, stable: bool) -> None:
    """Native scans take no rows to be read there: such merges, reordering and changes were refused."""
    first = pa.table({"id": range(10), "v": range(10), "w": range(10)})
    lance.write_dataset(
        first, tmp_path / "t", data_storage_version="legacy", max_rows_per_file=4, enable_stable_row_ids=stable
    )
    table = Table.open(tmp_path / "t")
    table.merge([{"id": 1, "v": 50}, {"id": 9, "v": 51}], on="id").when_matched_update_all().execute()
    add = {"v": "source.v + target.w"}
    table.merge([{"id": 5, "v": 100}], on="id").when_matched_update(add, "target.v = 5").execute()
    table.delete("id = 2")
    table.reorder([("id", "descending")])
    expected = {one: (one, one) for one in range(10) if one != 2} | {1: (50, 1), 9: (51, 9), 5: (105, 5)}
    assert [(one["id"], (one["v"], one["w"])) for one in table.to_arrow().to_pylist()] == sorted(
        expected.items(), reverse=True
    )
    replayed: dict[int, tuple[int, int]] = {}
    for one in table.changes(0).to_arrow().to_pylist():
        if one["_change_type"] == "delete":
            assert replayed.pop(one["id"]) == (one["v"], one["w"])
        else:
            replayed[one["id"]] = (one["v"], one["w"])
    assert replayed == expected
    lance.dataset(tmp_path / "t").validate()  # type: ignore[no-untyped-call]


WRITING: dict[str, Callable[[Table], object]] = {
    "append": lambda t: t.append(pa.table({"id": [4, 5], "v": pa.array([None, 1], pa.int64())})),
    "update": lambda t: t.update({"v": "v + 1"}, where="id = 1"),
    "merge": lambda t: t.merge([{"id": 1, "v": 5}], on="id").when_matched_update_all().execute(),
    "merge that adds": lambda t: t.merge([{"id": 4, "v": 5}], on="id").when_not_matched_insert_all().execute(),
    "compact": lambda t: t.compact(),
    "reorder": lambda t: t.reorder([("id", "descending")]),
    "overwrite": lambda t: t.overwrite(pa.table({"v": pa.array([None, 1], pa.int64())})),
}


@pytest.mark.parametrize("verb", WRITING)
def test_nulls_are_not_written_in_the_first_format_which_has_none(tmp_path: Path, verb: str) -> None:
    """They came back as zeros, also in columns that nobody had named, or the table could not be read any more."""
    first = pa.table({"id": [1, 2, 3], "v": [1, 2, 3], "name": ["a", None, "c"]})
    lance.write_dataset(first, tmp_path / "t", data_storage_version="legacy", max_rows_per_file=2)
    table = Table.open(tmp_path / "t")
    # As others may have done it.
    late = new_fields(pa.schema([("late", pa.int64())]), table.manifest)
    table.commit(merged(table.manifest, {}, [*table.manifest.header.fields, *late], nullable=True))
    before = table.to_arrow().to_pylist()
    with pytest.raises(InvalidInput, match=r"column '(v|late)' has nulls.*first format"):
        WRITING[verb](table)
    assert table.to_arrow().to_pylist() == before
    table.drop_columns("late")
    table.compact()
    assert table.to_arrow().to_pylist() == first.to_pylist()


@pytest.mark.parametrize(
    ("kind", "values", "where"),
    [
        (pa.list_(pa.int64()), [[1], None], "x"),
        (pa.list_(pa.int64()), [[1, None], []], "x.item"),
        (pa.list_(pa.float32(), 1), [[1.0], [None]], "x.item"),
        (pa.struct([("a", pa.struct([("b", pa.bool_())]))]), [{"a": {"b": True}}, {"a": {"b": None}}], "x.a.b"),
        (pa.struct([("a", pa.string())]), [{"a": "y"}, None], "x"),
        (pa.list_(pa.string()), [["y", None], []], None),
        (pa.struct([("a", pa.binary())]), [{"a": None}, {"a": b"y"}], None),
    ],
)
def test_nulls_that_the_first_format_keeps_are_written(
    tmp_path: Path, kind: pa.DataType, values: list[Any], where: str | None
) -> None:
    empty = pa.schema([("id", pa.int64()), ("x", kind)]).empty_table()
    lance.write_dataset(empty, tmp_path / "t", data_storage_version="legacy")
    table = Table.open(tmp_path / "t")
    rows = pa.table({"id": [1, 2], "x": pa.array(values, kind)})
    if where is None:
        table.append(rows)
        assert table.to_arrow()["x"].to_pylist() == values
    else:
        with pytest.raises(InvalidInput, match=f"column '{where}' has nulls"):
            table.append(rows)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.append([{"id": 3, "b": 3.5, "c": "r"}]),
        lambda t: t.append([{"id": 3, "b": 3.5}]),
        lambda t: t.update({"b": "b + 1"}, where="id = 1"),
        lambda t: t.merge([{"id": 1, "b": 2.5}], on="id").when_matched_update_all().execute(),
        lambda t: (t.append([{"b": 3.5, "id": 3}]), t.compact()),
        lambda t: (t.append([{"c": "r", "b": 3.5, "id": 3}]), t.reorder("id")),
    ],
    ids=["append", "append of some", "update", "merge", "compact", "reorder"],
)
def test_rows_of_the_first_format_are_written_under_the_ids_that_columns_have(
    tmp_path: Path, call: Callable[[Table], object]
) -> None:
    """Its files say themselves which ids: numbered from 0 on they gave wrong values, or ended the reader's process."""
    first = pa.table({"id": [1, 2], "a": ["x", "y"], "b": [1.5, 2.5], "c": ["p", "q"]})
    for version in ("legacy", "2.1"):
        lance.write_dataset(first, tmp_path / version, data_storage_version=version)
        table = Table.open(tmp_path / version)
        table.drop_columns("a")
        call(table)
    old, new = (Table.open(tmp_path / version).to_arrow().sort_by("id") for version in ("legacy", "2.1"))
    assert old.to_pylist() == new.to_pylist()
    assert Table.open(tmp_path / "legacy").count_rows("b > 0 AND (c IS NULL OR c <> '')") == len(new)


def test_columns_are_not_added_or_written_by_themselves_in_the_first_format(tmp_path: Path) -> None:
    """No condition on a column could be evaluated any more that a file lacks."""
    lance.write_dataset(pa.table({"id": [1, 2], "v": [1, 2]}), tmp_path / "t", data_storage_version="legacy")
    table = Table.open(tmp_path / "t")
    with pytest.raises(InvalidInput, match="one by one"):
        table.add_columns(pa.field("late", pa.string()))
    with pytest.raises(InvalidInput, match="one by one"):
        table.update({"v": "v + 1"}, mode="columns")
    with pytest.raises(InvalidInput, match="column 'v' has nulls"):
        table.append([{"id": 3}])
    assert table.version == 1


def test_a_null_beside_equal_texts_of_the_first_format_is_a_null_to_conditions(tmp_path: Path) -> None:
    """By its statistics native code took the null for such a text: it was shown with them, and counted as one."""
    first = pa.table({"id": [1, 2, 3], "name": ["a", "a", None]})
    lance.write_dataset(first, tmp_path / "t", data_storage_version="legacy")
    table = Table.open(tmp_path / "t")
    assert table.to_arrow(filter="name = 'a'")["id"].to_pylist() == [1, 2]
    assert (table.count_rows("name IS NULL"), table.count_rows("name IS NOT NULL")) == (1, 2)
