"""Delete and update: which rows are found, what becomes of their fragments, and in which of two ways they change."""

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from seiche.core.runtime import SYSTEM
from seiche.errors import InvalidInput, NotFound
from seiche.table.build import build
from seiche.table.change import Change
from seiche.table.data.append import Appending
from seiche.table.data.columns.files import patched
from seiche.table.data.cost import Estimate
from seiche.table.data.delete import Deleting
from seiche.table.data.removal import by_fragment
from seiche.table.data.update import Updating
from seiche.table.data.write import Limits
from seiche.table.operations import REWRITE_COLUMNS, REWRITE_ROWS, Delete, Update
from seiche.table.snapshot import Snapshot
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from tests.row_table import SCHEMA, RowTable, pylance_table, row, rows_of, some_rows

MODES = ["rows", "columns"]
AT = datetime.datetime(2024, 5, 5, 1, 2, 3, 123456, datetime.UTC)


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> RowTable:
    """40 rows in 4 fragments."""
    pylance_table(tmp_path / "t", some_rows(40), enable_stable_row_ids=request.param)
    return RowTable(tmp_path / "t")


@pytest.fixture
def plain(tmp_path: Path) -> RowTable:
    pylance_table(tmp_path / "t", some_rows(40))
    return RowTable(tmp_path / "t")


def last_change(table: RowTable) -> Change:
    change = table.prepared[-1]
    assert change is not None
    return change


def test_delete_removes_the_rows_and_remembers_which_and_why(table: RowTable) -> None:
    made = table.delete("id % 7 = 3")
    gone = [3, 10, 17, 24, 31, 38]
    assert (made.rows, made.files) == (6, 4)
    assert [one["id"] for one in table.rows()] == [number for number in range(40) if number not in gone]
    operation = table.transaction().operation
    assert isinstance(operation, Delete)
    assert operation.predicate == "id % 7 = 3"
    assert operation.deleted_fragment_ids == ()
    assert last_change(table).affected_rows == {0: BitMap([3]), 1: BitMap([0, 7]), 2: BitMap([4]), 3: BitMap([1, 8])}
    assert made.bytes == sum(info.size for info in table.store.list("_deletions"))


def test_a_second_delete_adds_to_the_first_and_a_fragment_without_rows_goes(table: RowTable) -> None:
    table.delete("id = 12 or id = 25")
    made = table.delete("id >= 10 and id < 22")
    assert made.rows == 11
    operation = table.transaction().operation
    assert isinstance(operation, Delete)
    assert operation.deleted_fragment_ids == (1,)
    assert [fragment.id for fragment in operation.updated_fragments] == [2]
    assert last_change(table).affected_rows == {1: BitMap(range(10)) - BitMap([2]), 2: BitMap([0, 1])}
    assert table.table.manifest.fragments.ids() == [0, 2, 3]
    assert [one["id"] for one in table.rows()] == [*range(10), *(n for n in range(22, 40) if n != 25)]


@pytest.mark.parametrize("everything", ["true", " TRUE ", "id >= 0"])
def test_delete_can_remove_all_rows(table: RowTable, everything: str) -> None:
    table.delete("id in (3, 4)")
    before = table.files()
    made = table.delete(everything)
    assert (made.rows, made.files) == (38, 0)
    assert last_change(table).affected_rows is not None
    assert sum(map(len, (last_change(table).affected_rows or {}).values())) == 38
    assert table.rows() == []
    assert table.files() == before
    assert not table.delete("true").changed
    assert not table.update({"small": "1"}).changed
    table.append(rows_of(5))
    assert table.rows() == [row(5)]


@pytest.mark.parametrize("condition", ["id > 100", "false", "name = 'nobody'", "small is null and small is not null"])
def test_where_no_row_matches_there_is_nothing_to_do(table: RowTable, condition: str) -> None:
    before = table.files()
    for made in (
        table.delete(condition),
        table.update({"small": "1"}, where=condition, mode="rows"),
        table.update({"small": "1"}, where=condition, mode="columns"),
        table.update({"small": "1"}, where=condition),
    ):
        assert (made.changed, made.version, made.rows) == (False, 1, 0)
    assert table.files() == before


BAD_CONDITIONS = {
    "id >": "id >",
    "nosuch = 1": "nosuch",
    "id": "boolean",
    "id + 1": "boolean",
    "id = 'abc'": "abc",
    "nosuch(id) = 1": "nosuch",
    "": "condition",
    "   ": "condition",
    "(select 1) = 1": "not supported",
}


@pytest.mark.parametrize("condition", BAD_CONDITIONS)
def test_a_condition_that_cannot_be_is_refused_before_anything_is_written(plain: RowTable, condition: str) -> None:
    before = plain.files()
    verbs: list[Callable[[], object]] = [
        lambda: plain.delete(condition),
        lambda: plain.update({"small": "1"}, where=condition),
        lambda: plain.update({"small": "1"}, where=condition, mode="columns"),
    ]
    for verb in verbs:
        with pytest.raises(InvalidInput, match=BAD_CONDITIONS[condition].replace("(", r"\(")) as refused:
            verb()
        assert ".rs:" not in str(refused.value)
    assert plain.files() == before
    assert plain.table.version == 1


@pytest.mark.parametrize("condition", [None, 5, b"id = 1"])
def test_a_condition_is_text(plain: RowTable, condition: Any) -> None:
    with pytest.raises(InvalidInput, match="condition in SQL"):
        plain.delete(condition)


BAD_SETS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "no column"),
    "unknown column": ({"nosuch": "1"}, "'nosuch'"),
    "field inside a column": ({"place.x": "1"}, "'place.x'"),
    "row id": ({"_rowid": "1"}, "'_rowid'"),
    "not SQL": ({"small": 1}, "'small'"),
    "empty": ({"small": " "}, "'small'"),
    "does not parse": ({"small": "small +"}, "'small'"),
    "unknown name": ({"small": "nosuch + 1"}, "nosuch"),
    "text for a number": ({"small": "name || 'x'", "vector": "name"}, "'vector'"),
    "number for a struct": ({"place": "1"}, "'place'"),
    "fraction for whole numbers": ({"small": "1.5"}, "'small'"),
    "aggregate": ({"small": "count(*)"}, "'small'"),
    "null for what must not be": ({"id": "null"}, "'id'"),
    "too large": ({"small": "id + 5000000000"}, "'small'"),
    "text that is no number": ({"small": "'abc'"}, "'small'"),
}


@pytest.mark.parametrize("mode", [None, *MODES])
@pytest.mark.parametrize("case", BAD_SETS)
def test_what_cannot_be_set_is_refused_before_anything_is_written(plain: RowTable, case: str, mode: Any) -> None:
    assignments, message = BAD_SETS[case]
    before = plain.files()
    with pytest.raises(InvalidInput, match=message):
        plain.update(assignments, mode=mode)
    assert plain.files() == before
    assert plain.table.version == 1


def test_an_unknown_mode_is_refused(plain: RowTable) -> None:
    with pytest.raises(InvalidInput, match="'cells'"):
        plain.update({"small": "1"}, mode="cells")  # type: ignore[arg-type]


def test_an_expression_that_fails_on_a_value_is_refused(plain: RowTable) -> None:
    with pytest.raises(InvalidInput, match=r"[Dd]ivide by zero"):
        plain.update({"small": "10 / (id - 35)"})
    assert plain.table.version == 1
    plain.update({"small": "10 / (id - 35)"}, where="id != 35", mode="columns")
    assert plain.rows()[35]["small"] == row(35)["small"]


def test_a_missing_data_file_is_not_the_callers_fault(plain: RowTable) -> None:
    name = plain.table.manifest.fragments[2].files[0].path
    (plain.path / "data" / name).unlink()
    with pytest.raises(NotFound, match=name):
        plain.delete("small = 4")


@pytest.mark.parametrize("mode", MODES)
def test_update_sets_columns_in_the_rows_that_match(table: RowTable, mode: Any) -> None:
    made = table.update({"small": "small * 2 + 1", "name": "'new'"}, where="id % 3 = 0 and id < 25", mode=mode)
    assert (made.rows, made.notes["mode"]) == (9, mode)
    changed = {number for number in range(25) if number % 3 == 0}
    expected = [
        {**one, "small": None if one["small"] is None else one["small"] * 2 + 1, "name": "new"}
        if one["id"] in changed
        else one
        for one in map(row, range(40))
    ]
    assert table.rows() == expected
    operation = table.transaction().operation
    assert isinstance(operation, Update)
    if mode == "rows":
        assert operation.update_mode == REWRITE_ROWS
        assert [fragment.id for fragment in operation.updated_fragments] == [0, 1, 2]
        assert (last_change(table).affected_rows or {})[1] == BitMap([2, 5, 8])
        assert made.files == 4
    else:
        assert operation.update_mode == REWRITE_COLUMNS
        assert operation.fields_modified == (3, 1) or set(operation.fields_modified) == {1, 3}
        assert not operation.new_fragments
        assert made.files == 3
        assert not list(table.store.list("_deletions"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("column", "expression", "expected"),
    [
        ("name", "cast(id as string)", "8"),
        ("long", "concat(name, '!')", "name 8!"),
        ("kind", "'other'", "other"),
        ("kind", "concat(kind, '!')", f"{row(8)['kind']}!"),
        ("small", "ratio * 4.9", 4),
        ("small", "null", None),
        ("small", "'12'", 12),
        ("ratio", "id", 8.0),
        ("name", "cast(id as double)", "8.0"),
        ("name", "timestamp '2024-05-05 01:02:03'", "2024-05-05T01:02:03"),
        ("price", "price * cast(1.0075 as decimal(10, 4))", decimal.Decimal("2.02")),
        ("price", "7", decimal.Decimal("7.00")),
        ("at", "timestamp '2024-05-05 01:02:03.123456789'", AT),
        ("day", "'2024-02-29'", datetime.date(2024, 2, 29)),
        ("flag", "id > 3", True),
        ("raw", "X'0aff'", b"\n\xff"),
        ("place", "named_struct('x', id + 1, 'label', name)", {"x": 9, "label": "name 8"}),
        ("tags", "make_array(name, 'b')", ["name 8", "b"]),
        ("vector", "vector", [8.0, 0.5, -1.0, 2.0]),
        ("deep", "deep", row(8)["deep"]),
    ],
)  # fmt: skip
def test_values_are_computed_natively_and_cast_to_the_column(
    plain: RowTable, mode: Any, column: str, expression: str, expected: object
) -> None:
    plain.update({column: expression}, where="id = 8", mode=mode)
    assert plain.rows() == [{**one, column: expected} if one["id"] == 8 else one for one in map(row, range(40))]


@pytest.mark.parametrize("mode", MODES)
def test_expressions_speak_of_the_old_values(plain: RowTable, mode: Any) -> None:
    plain.update({"small": "id + 100", "ratio": "small", "id": "id + 1000"}, where="id = 8", mode=mode)
    assert plain.rows()[-1] == {**row(8), "small": 108, "ratio": 8.0, "id": 1008}


@pytest.mark.parametrize("mode", MODES)
def test_update_without_a_condition_changes_all_rows(table: RowTable, mode: Any) -> None:
    table.delete("id in (0, 5, 9, 19, 20)")
    left = [number for number in range(40) if number not in (0, 5, 9, 19, 20)]
    for where in (None, "true"):
        made = table.update({"small": "id + 1"}, where=where, mode=mode)
        assert made.rows == 35
    assert table.rows() == [{**row(number), "small": number + 1} for number in left]


def test_columns_can_be_written_anew_again_and_again(table: RowTable) -> None:
    for turn in range(3):
        table.update({"small": f"{turn}", "place": "place"}, where=f"id >= {turn * 12}", mode="columns")
        table.delete(f"id = {turn}")
    values = [0 if number < 12 else 1 if number < 24 else 2 for number in range(3, 40)]
    assert [one["small"] for one in table.rows()] == values
    assert [one["place"] for one in table.rows()] == [row(number)["place"] for number in range(3, 40)]
    files = table.table.manifest.fragments[3].files
    assert len(files) == 2, "files from which nothing is read any more are left out"
    table.lance().optimize.compact_files()
    assert [one["small"] for one in table.rows()] == values


@pytest.mark.parametrize("mode", MODES)
def test_rows_keep_their_ids_and_know_when_they_changed(tmp_path: Path, mode: Any) -> None:
    pylance_table(tmp_path / "t", some_rows(20), enable_stable_row_ids=True)
    table = RowTable(tmp_path / "t")
    table.append(some_rows(5, 20))
    table.delete("id = 7")
    table.update({"small": "1"}, where="id % 6 = 1", mode=mode)
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = table.lance().scanner(columns=columns, with_row_id=True).to_table().to_pylist()
    assert {one["id"]: one["_rowid"] for one in rows} == {number: number for number in range(25) if number != 7}
    for one in rows:
        assert one["_row_created_at_version"] == (2 if one["id"] >= 20 else 1)
        changed = one["id"] % 6 == 1
        assert one["_row_last_updated_at_version"] == (4 if changed else one["_row_created_at_version"])


@pytest.mark.parametrize("mode", MODES)
def test_an_index_is_used_to_find_rows_and_stays_right(table: RowTable, mode: Any) -> None:
    table.lance().create_scalar_index("small", "BTREE")
    table.update({"small": "small + 100"}, where="small between 10 and 12", mode=mode)
    table.update({"small": "small + 100"}, where="small = 110", mode=mode)
    assert [one["small"] for one in table.rows(filter="small > 100")] == [210, 111, 112]
    assert table.delete("small = 10").changed is False
    assert table.delete("small in (111, 210)").rows == 2
    assert "ScalarIndexQuery" in table.lance().scanner(filter="small = 30").explain_plan()
    assert [one["id"] for one in table.rows(filter="small = 112")] == [12]


def test_an_index_that_knows_rows_in_another_order_does_not_mix_them_up(tmp_path: Path) -> None:
    numbers = pa.table({"id": range(3000), "down": range(3000, 0, -1), "value": [0] * 3000})
    table = Table.create(str(tmp_path / "t"), numbers.schema, durability="os")
    table.append(numbers)
    table.create_index("down", "BTREE")
    assert table.update({"value": "id"}, "down between 5 and 2000 or down = 2500", mode="columns").rows == 1997
    for one in table.to_arrow().to_pylist():
        assert one["value"] == (one["id"] if 5 <= one["down"] <= 2000 or one["down"] == 2500 else 0)


WIDE = pa.schema([("id", pa.int64()), ("small", pa.int32()), ("wide", pa.list_(pa.float32(), 256))])


def wide_rows(count: int) -> pa.Table:
    vectors = pa.array(np.random.default_rng(1).random(count * 256, dtype=np.float32))
    ids = np.arange(count)
    return pa.table([ids, ids.astype(np.int32), pa.FixedSizeListArray.from_arrays(vectors, 256)], schema=WIDE)


@pytest.mark.parametrize(
    ("assignments", "where", "mode"),
    [
        ({"small": "small + 1"}, None, "columns"),
        ({"small": "small + 1"}, "id % 2 = 0", "columns"),
        ({"small": "small + 1"}, "id < 10", "rows"),
        ({"small": "small + 1"}, "id = 5000", "rows"),
        ({"wide": "wide"}, None, "rows"),
        ({"wide": "wide", "small": "1"}, "id % 2 = 0", "rows"),
    ],
    ids=str,
)
def test_the_mode_that_writes_less_is_chosen(
    tmp_path: Path, assignments: dict[str, str], where: str | None, mode: str
) -> None:
    pylance_table(tmp_path / "t", wide_rows(6000), rows_per_file=2000)
    table = RowTable(tmp_path / "t")
    made = table.update(assignments, where=where)
    assert made.notes["mode"] == mode
    if mode == "columns":
        assert 2 * made.bytes < table.update(assignments, where=where, mode="rows").bytes


def test_the_mode_is_chosen_from_what_each_would_write() -> None:
    assert Estimate(share=1, rows_bytes=10e6, columns_bytes=4e6, fragments=3).mode == "columns"
    assert Estimate(share=1, rows_bytes=10e6, columns_bytes=6e6, fragments=3).mode == "rows"
    assert Estimate(share=1, rows_bytes=1e5, columns_bytes=1e3, fragments=3).mode == "rows"


@given(st.data())
def test_new_values_are_laid_over_old_ones(data: Any) -> None:
    """Against the obvious way: a list of all rows. Deleted rows may hold anything."""
    rows = data.draw(st.integers(1, 60))
    live = sorted(data.draw(st.sets(st.integers(0, rows - 1), min_size=1)))
    changed = sorted(data.draw(st.sets(st.sampled_from(live))))
    old = {offset: offset for offset in live}
    new = {offset: 1000 + offset for offset in changed}

    def parts(values: dict[int, int]) -> Any:
        left = list(values.items())
        while left:
            size = data.draw(st.integers(1, 12))
            taken, left = left[:size], left[size:]
            offsets = np.array([offset for offset, _ in taken], np.uint32)
            yield offsets, [pa.array([value for _, value in taken])]

    made = [value for (column,) in patched(rows, parts(old), parts(new)) for value in column.to_pylist()]
    assert len(made) == rows
    assert {offset: made[offset] for offset in live} == old | new


@given(st.lists(st.tuples(st.sampled_from([0, 1, 7, 2**32 - 1]), st.integers(0, 2**32 - 1)), max_size=50, unique=True))
def test_addresses_become_offsets_in_fragments(places: list[tuple[int, int]]) -> None:
    addresses = np.array([fragment << 32 | offset for fragment, offset in places], np.uint64)
    expected: dict[int, BitMap] = {}
    for fragment, offset in places:
        expected.setdefault(fragment, BitMap()).add(offset)
    assert by_fragment(addresses) == expected


def staged(table: RowTable, *statements: Any) -> tuple[Snapshot, list[Change]]:
    """The version that the statements would make one after the other, none of them published."""
    base = table.table.manifest
    snapshot, changes = table.snapshot(), []
    for prepare in statements:
        change = prepare(snapshot)
        assert change is not None
        changes.append(change)
        manifest = build(snapshot.manifest, Transaction(snapshot.version, "t", change.operation))
        snapshot = Snapshot(table.store, manifest, SYSTEM, staged=True, published=base)
    return snapshot, changes


@pytest.mark.parametrize("mode", MODES)
def test_statements_see_what_earlier_ones_of_a_transaction_did(table: RowTable, mode: Any) -> None:
    """Nothing is published meanwhile, and an index of the published version does not answer for changed values."""
    table.lance().create_scalar_index("small", "BTREE")
    limits = Limits.of()
    snapshot, changes = staged(
        table,
        Updating({"small": "small + 1000"}, "id < 20", mode, limits),
        Deleting("small = 1010"),
        Updating({"small": "small + 1000", "kind": "'x'"}, "small = 1012", mode, limits),
        Deleting("small = 12 or small = 2012"),
    )
    assert [change.rows for change in changes] == [20, 1, 1, 1]
    found = snapshot.dataset.to_table(columns=["id", "small"]).to_pylist()
    assert sorted(one["id"] for one in found) == [number for number in range(40) if number not in (10, 12)]
    assert [one["small"] for one in found if one["id"] == 11] == [1011]
    assert table.table.version == 2
    assert Deleting("small = 10")(snapshot) is None


def test_a_table_that_is_nowhere_published_can_be_changed(tmp_path: Path) -> None:
    """As in a transaction that creates it: not even the file of its first version is there."""
    pylance_table(tmp_path / "t", some_rows(0))
    table = RowTable(tmp_path / "t")
    snapshot, _ = staged(table, Appending(some_rows(12), Limits.of(5)))
    header = snapshot.manifest.copy_header()
    header.version = 999
    alone = Snapshot(table.store, type(snapshot.manifest)(header, snapshot.manifest.fragments), SYSTEM, staged=True)
    for mode in MODES:
        change = Updating({"small": "7"}, "id > 3", mode, Limits.of())(alone)  # type: ignore[arg-type]
        assert change is not None
        assert change.rows == 8
    change = Deleting("kind = 'kind 2'")(alone)
    assert change is not None
    assert change.rows == sum(row(number)["kind"] == "kind 2" for number in range(12))


def test_blobs_survive_an_update_of_their_rows(tmp_path: Path) -> None:
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("id", pa.int64()), blob])
    content = [b"a" * 100, None, b"", b"d" * 5]
    for version in ("2.1", "2.2"):
        data = pa.table({"id": [0, 1, 2, 3], "blob": content}, schema=schema)
        pylance_table(tmp_path / version, data, data_storage_version=version)
        table = RowTable(tmp_path / version)
        table.update({"id": "id + 10"}, where="id < 2", mode="rows")
        found = table.lance().scanner(blob_handling="all_binary").to_table().to_pylist()
        assert {one["id"]: one["blob"] for one in found} == {10: content[0], 11: None, 2: content[2], 3: content[3]}
        table.lance().validate()


def test_names_that_are_words_of_sql_or_have_spaces_can_be_set(tmp_path: Path) -> None:
    pylance_table(tmp_path / "t", pa.table({"id": [1, 2], "select": [1, 2], "Two Words": [3, 4], "Upper": [5, 6]}))
    table = RowTable(tmp_path / "t")
    table.update({"select": "`Two Words` + 1", "Two Words": "Upper"}, where="`select` = 2", mode="rows")
    table.update({"Upper": "`select`"}, where="`Two Words` = 3", mode="columns")
    assert table.rows() == [
        {"id": 1, "select": 1, "Two Words": 3, "Upper": 1},
        {"id": 2, "select": 5, "Two Words": 6, "Upper": 6},
    ]


def test_others_who_change_other_rows_are_no_conflict(table: RowTable) -> None:
    other = Table.open(table.store)
    table.meanwhile = [
        lambda: other.delete("id = 11"),
        lambda: other.update({"small": "0"}, where="id = 12", mode="rows"),
    ]
    assert table.delete("id = 13").attempts == 1
    assert table.update({"small": "0"}, where="id = 14", mode="rows").attempts == 1
    assert [one["id"] for one in table.rows()] == [n for n in range(40) if n not in (11, 13)]
    assert [one["id"] for one in table.rows(filter="small = 0")] == [0, 12, 14]


def test_others_who_change_the_same_rows_make_it_look_again(table: RowTable) -> None:
    other = Table.open(table.store)
    table.meanwhile = [lambda: other.update({"small": "small + 1"}, where="id = 12", mode="rows")]
    made = table.update({"small": "small + 1"}, where="id = 12", mode="rows")
    assert made.attempts == 2
    assert table.rows()[12]["small"] == 14
    table.meanwhile = [lambda: other.delete("id = 12")]
    made = table.update({"small": "small + 1"}, where="id = 12", mode="rows")
    assert (made.changed, made.attempts) == (False, 2)


def test_columns_are_written_anew_after_others_changed_their_fragments(table: RowTable) -> None:
    other = Table.open(table.store)
    table.meanwhile = [lambda: other.delete("id = 11"), lambda: other.update({"name": "'o'"}, "id = 5", mode="columns")]
    made = table.update({"small": "small + 1"}, where="id < 20", mode="columns")
    assert made.attempts == 3
    smalls = [
        row(n)["small"] if n >= 20 or row(n)["small"] is None else row(n)["small"] + 1 for n in range(40) if n != 11
    ]
    assert [one["small"] for one in table.rows()] == smalls
    assert table.rows()[5]["name"] == "o"


def test_pylance_goes_on_where_we_stopped(table: RowTable) -> None:
    table.delete("id < 3")
    table.update({"small": "7"}, where="id = 30", mode="columns")
    table.update({"small": "8"}, where="id = 31", mode="rows")
    dataset = lance.dataset(str(table.path))
    dataset.update({"small": "9"}, where="id = 30")
    dataset.delete("id = 4")
    dataset.insert(rows_of(99))
    dataset.optimize.compact_files()
    table.update({"small": "small + 1"}, where="id in (30, 31)", mode="columns")
    smalls = {one["id"]: one["small"] for one in table.rows()}
    assert (smalls[30], smalls[31]) == (10, 9)
    assert sorted(smalls) == [3, *range(5, 40), 99]
    assert table.lance().schema.equals(SCHEMA)
