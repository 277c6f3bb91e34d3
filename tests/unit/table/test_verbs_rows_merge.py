"""Merge: keys that meet, clauses that apply, and two merges that must not both insert one key."""

import datetime
import decimal
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from seiche.errors import Corrupt, InvalidInput, RetryableConflict
from seiche.table.change import Change
from seiche.table.data.merge import matched, target
from seiche.table.data.merge.joined import mentioned
from seiche.table.data.merge.key_hashes import inserted_keys, key_bytes, siphash
from seiche.table.data.merge.matching import KeyIndex, key_values
from seiche.table.format import roaring
from seiche.table.keys import shared_keys
from seiche.table.operations import Update
from seiche.table.table import Table
from tests.row_table import SCHEMA, RowTable, pylance_table, row, rows_of, some_rows


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> RowTable:
    """40 rows in 4 fragments."""
    pylance_table(tmp_path / "t", some_rows(40), enable_stable_row_ids=request.param)
    return RowTable(tmp_path / "t")


@pytest.fixture
def plain(tmp_path: Path) -> RowTable:
    pylance_table(tmp_path / "t", some_rows(40))
    return RowTable(tmp_path / "t")


def upsert(table: Any, data: Any, on: Any = "id", **options: Any) -> Any:
    return table.merge(data, on=on).when_matched_update_all().when_not_matched_insert_all().execute(**options)


def changed(*numbers: int, **values: Any) -> pa.Table:
    """Rows of these numbers with other values in some columns."""
    return pa.Table.from_pylist([{**row(number), **values} for number in numbers], schema=SCHEMA)


def operation(table: RowTable) -> Update:
    made = table.transaction().operation
    assert isinstance(made, Update)
    return made


def last_change(table: RowTable) -> Change:
    change = table.prepared[-1]
    assert change is not None
    return change


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()], ids=str)
def test_the_lowest_and_the_highest_key(tmp_path: Path, kind: pa.DataType) -> None:
    bits, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    ends = [-(1 << (bits - 1)), (1 << (bits - 1)) - 1] if signed else [0, (1 << bits) - 1]
    schema = pa.schema([("id", kind), ("n", pa.int64())])
    table = Table.create(tmp_path / "t", schema)
    table.append(pa.table({"id": pa.array([*ends, 7], kind), "n": [0, 0, 0]}, schema=schema))
    for number, key in enumerate(ends, 1):
        made = upsert(table, pa.table({"id": pa.array([key], kind), "n": [number]}, schema=schema))
        assert made.notes["updated"] == 1
    assert sorted(table.to_arrow().to_pylist(), key=lambda one: one["n"]) == [
        {"id": 7, "n": 0},
        {"id": ends[0], "n": 1},
        {"id": ends[1], "n": 2},
    ]


def test_an_upsert_updates_what_is_there_and_adds_what_is_not(table: RowTable) -> None:
    made = upsert(table, changed(3, 12, 100, 13, 101, small=-1))
    assert dict(made.notes) == {"inserted": 2, "updated": 3, "deleted": 0}
    assert (made.rows, made.version) == (5, 2)
    assert table.rows() == [
        {**row(number), "small": -1} if number in (3, 12, 13, 100, 101) else row(number)
        for number in (*range(40), 100, 101)
    ]
    assert last_change(table).affected_rows == {0: BitMap([3]), 1: BitMap([2, 3])}
    assert len(operation(table).new_fragments) == 1


OLD = {"name": "'old'"}


def test_every_clause_alone(table: RowTable) -> None:
    data = changed(5, 6, 100, name="new")
    cases: list[tuple[Any, set[int], dict[str, int]]] = [
        (table.merge(data, "id").when_not_matched_insert_all(), {*range(40), 100}, {"inserted": 1}),
        (table.merge(data, "id").when_matched_update_all(), {*range(40), 100}, {"updated": 3}),
        (table.merge(data, "id").when_matched_delete(), {*range(40)} - {5, 6}, {"deleted": 3}),
        (table.merge(data, "id").when_not_matched_by_source_update(OLD), {*range(40)} - {5, 6}, {"updated": 38}),
        (table.merge(rows_of(7, 8), "id").when_not_matched_by_source_delete(), {7, 8}, {"deleted": 36}),
    ]  # fmt: skip
    for builder, left, notes in cases:
        made = builder.execute()
        assert dict(made.notes) == {"inserted": 0, "updated": 0, "deleted": 0, **notes}
        assert {one["id"] for one in table.rows()} == left
    assert {one["name"] for one in table.rows()} == {"old"}


def test_the_first_clause_whose_condition_is_true_applies(table: RowTable) -> None:
    made = (
        table.merge(changed(1, 2, 3, 4, 50, small=7), on="id")
        .when_matched_delete("target.id = 2")
        .when_matched_update({"name": "concat(source.long, '/', target.long)"}, "target.id <= 2")
        .when_matched_update_all("source.id = 3")
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"small": "id", "flag": "null"}, "id % 10 = 0")
        .when_not_matched_by_source_delete("id < 12")
        .execute()
    )
    assert dict(made.notes) == {"inserted": 1, "updated": 6, "deleted": 1 + 6}
    kept = [n for n in range(12, 40) if n % 10]
    assert table.rows() == [
        {**row(0), "small": 0, "flag": None},
        {**row(1), "name": "/"},  # of two nulls
        {**row(3), "small": 7},
        row(4),
        {**row(10), "small": 10, "flag": None},
        *sorted(
            [row(n) for n in kept] + [{**row(n), "small": n, "flag": None} for n in (20, 30)], key=lambda one: one["id"]
        ),
        {**row(50), "small": 7},
    ]


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    pylance_table(tmp_path / "t", some_rows(20), enable_stable_row_ids=True)
    table = RowTable(tmp_path / "t")
    table.delete("id = 4")
    made = (
        table.merge(changed(15, 100, 2, 4, 101, small=0), on="id")
        .when_matched_update({"small": "source.small"})
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"small": "1"}, "id in (19, 1)")
        .execute()
    )
    assert dict(made.notes) == {"inserted": 3, "updated": 4, "deleted": 0}
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = table.lance().scanner(columns=columns, with_row_id=True).to_table().to_pylist()
    ids = {one["id"]: one["_rowid"] for one in rows}
    assert {number: ids[number] for number in range(20) if number != 4} == {n: n for n in range(20) if n != 4}
    assert sorted(ids[number] for number in (4, 100, 101)) == [20, 21, 22]
    for one in rows:
        new = one["id"] in (4, 100, 101)
        assert one["_row_created_at_version"] == (3 if new else 1)
        assert one["_row_last_updated_at_version"] == (3 if new or one["id"] in (15, 2, 19, 1) else 1)
    table.rows()


def test_data_may_have_some_of_the_columns(table: RowTable) -> None:
    data = pa.table({"name": ["x", "y", "z"], "id": [1, 39, 77]})
    upsert(table, data)
    assert table.rows() == [
        *({**row(n), "name": {1: "x", 39: "y"}[n]} if n in (1, 39) else row(n) for n in range(40)),
        {**dict.fromkeys(SCHEMA.names), "id": 77, "name": "z"},
    ]


def test_data_may_have_columns_of_its_own_if_nothing_takes_all_of_them(plain: RowTable) -> None:
    data = pa.table({"id": [1, 2, 3], "op": ["d", "u", "n"], "by": [5, 6, 7]})
    (
        plain.merge(data, on="id")
        .when_matched_delete("source.op = 'd'")
        .when_matched_update({"small": "target.small + source.by"}, "source.op = 'u'")
        .execute()
    )
    assert plain.rows() == [row(0), {**row(2), "small": 8}, *map(row, range(3, 40))]
    with pytest.raises(InvalidInput, match="'op'"):
        plain.merge(data, on="id").when_matched_update_all().execute()
    with pytest.raises(InvalidInput, match="'op'"):
        plain.merge(data, on="id").when_not_matched_insert_all().execute()


@pytest.mark.parametrize(
    "data",
    [
        lambda: [row(3), row(70)],
        lambda: rows_of(3, 70).to_reader(),
        lambda: iter(rows_of(3, 70).to_batches(max_chunksize=1)),
        lambda: rows_of(3, 70).select(["id", "name"]).to_pandas(),
    ],
    ids=["dictionaries", "reader", "iterator", "pandas"],
)
def test_data_comes_in_every_form(plain: RowTable, data: Any) -> None:
    plain.meanwhile = [lambda: lance.write_dataset(rows_of(200), str(plain.path), mode="append")]
    made = upsert(plain, data())
    assert dict(made.notes) == {"inserted": 1, "updated": 1, "deleted": 0}
    assert made.attempts == 2  # also a stream that was read is there for the second attempt
    assert [one["id"] for one in plain.rows()] == [*range(40), 70, 200]


def test_without_anything_to_do_no_version_is_made(plain: RowTable) -> None:
    before = plain.files()
    for builder in (
        plain.merge(rows_of(), "id").when_matched_update_all().when_not_matched_insert_all(),
        plain.merge(rows_of(100), "id").when_matched_update_all(),
        plain.merge(rows_of(1), "id").when_not_matched_insert_all(),
        plain.merge(rows_of(1), "id").when_matched_update_all("source.id > target.id"),
        plain.merge(some_rows(40), "id").when_not_matched_by_source_delete(),
        plain.merge(rows_of(1), "id").when_not_matched_by_source_delete("id > 100"),
    ):
        made = builder.execute()
        assert (made.changed, made.version) == (False, 1)
    assert plain.files() == before
    assert plain.merge(rows_of(), "id").when_not_matched_by_source_delete().execute().rows == 40


BAD: dict[str, tuple[Any, str]] = {
    "no clause": (lambda t: t.merge(rows_of(1), "id"), "does not say"),
    "no key": (lambda t: t.merge(rows_of(1), []).when_matched_delete(), "key"),
    "key twice": (lambda t: t.merge(rows_of(1), ["id", "id"]).when_matched_delete(), "key"),
    "key the table lacks": (lambda t: t.merge(pa.table({"k": [1]}), "k").when_matched_delete(), "the table .*'k'"),
    "key the data lacks": (lambda t: t.merge(pa.table({"id": [1]}), "name").when_matched_delete(), "the data .*'name'"),
    "key of many values": (lambda t: t.merge(rows_of(1), "tags").when_matched_delete(), "'tags'"),
    "key twice in the data": (lambda t: t.merge(rows_of(8, 9, 8), "id").when_matched_delete(), "id=8"),
    "two columns twice": (
        lambda t: t.merge(rows_of(8, 9, 8), ["name", "id"]).when_matched_delete(),
        "name='name 8', id=8",
    ),
    "unknown column": (lambda t: t.merge(pa.table({"id": [1], "z": [1]}), "id").when_matched_update_all(), "'z'"),
    "wrong type": (lambda t: t.merge(pa.table({"id": ["a"]}), "id").when_matched_update_all(), "'id'"),
    "null key": (lambda t: t.merge(pa.table({"id": pa.array([None], pa.int64())}), "id").when_matched_delete(), "'id'"),
    "sets a key": (lambda t: t.merge(rows_of(1), "id").when_matched_update({"id": "7"}), "'id'"),
    "sets a key elsewhere": (
        lambda t: t.merge(rows_of(1), "id").when_not_matched_by_source_update({"id": "7"}),
        "'id'",
    ),
    "sets the unknown": (lambda t: t.merge(rows_of(1), "id").when_matched_update({"z": "7"}), "'z'"),
    "sets nothing": (lambda t: t.merge(rows_of(1), "id").when_matched_update({}), "no column"),
    "expression": (lambda t: t.merge(rows_of(1), "id").when_matched_update({"small": "source.z"}), "z"),
    "expression without a side": (lambda t: t.merge(rows_of(1), "id").when_matched_update({"small": "small"}), "small"),
    "type of expression": (lambda t: t.merge(rows_of(1), "id").when_matched_update({"raw": "source.place"}), "'raw'"),
    "condition": (lambda t: t.merge(rows_of(1), "id").when_matched_update_all("source.id >"), "source.id >"),
    "condition that is none": (lambda t: t.merge(rows_of(1), "id").when_matched_delete("source.id"), "boolean"),
    "condition elsewhere": (lambda t: t.merge(rows_of(1), "id").when_not_matched_by_source_delete("z = 1"), "z"),
    "clause never reached": (
        lambda t: t.merge(rows_of(1), "id").when_matched_delete().when_matched_update_all(),
        "never reached",
    ),
    "inserted twice": (
        lambda t: t.merge(rows_of(1), "id").when_not_matched_insert_all().when_not_matched_insert_all(),
        "twice",
    ),
    "missing column": (
        lambda t: t.merge(pa.table({"name": ["n"]}), "name").when_not_matched_insert_all(),
        "'id'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("matching", [True, False], ids=["rows match", "no rows match"])
def test_what_cannot_be_is_refused_before_anything_is_written(plain: RowTable, case: str, matching: bool) -> None:
    build, message = BAD[case]
    if not matching:
        plain.delete("true")
    version, before = plain.table.version, plain.files()
    with pytest.raises(InvalidInput, match=message):
        build(plain).execute()
    assert plain.files() == before
    assert plain.table.version == version


def test_a_null_in_the_key_matches_nothing(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
    rows: list[dict[str, Any]] = [
        {"id": 1, "part": None, "v": 0},
        {"id": None, "part": "a", "v": 0},
        {"id": 1, "part": "a", "v": 0},
    ]
    pylance_table(tmp_path / "t", pa.Table.from_pylist(rows, schema=schema))
    table = RowTable(tmp_path / "t")
    data = pa.Table.from_pylist([{**one, "v": 1} for one in rows] + [{**rows[0], "v": 2}], schema=schema)
    made = upsert(table, data, on=["id", "part"])
    assert dict(made.notes) == {"inserted": 3, "updated": 1, "deleted": 0}
    assert sorted((one["v"] for one in table.rows()), key=int) == [0, 0, 1, 1, 1, 2]


def test_all_rows_of_the_table_with_the_key_are_updated(tmp_path: Path) -> None:
    pylance_table(tmp_path / "t", pa.table({"id": [1, 2, 1, 3], "v": [0, 0, 0, 0]}))
    table = RowTable(tmp_path / "t")
    assert dict(upsert(table, pa.table({"id": [1, 9], "v": [5, 6]})).notes) == {
        "inserted": 1,
        "updated": 2,
        "deleted": 0,
    }
    assert [(one["id"], one["v"]) for one in table.rows()] == [(1, 5), (1, 5), (2, 0), (3, 0), (9, 6)]


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-5, 0, 7]),
    "uint64": (pa.uint64(), [0, 2**63 + 1, 2**64 - 1]),
    "float": (pa.float32(), [0.0, 1.5, float("inf")]),
    "string": (pa.string(), ["", "a", "it's `odd` \\ \u00e9"]),
    "large string": (pa.large_string(), ["", "a", "b"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", "z"]),
    "binary": (pa.binary(), [b"", b"\x00", b"\xff"]),
    "fixed binary": (pa.binary(2), [b"ab", b"\x00\x00", b"\xff\xff"]),
    "bool": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(20, 3), [decimal.Decimal("0.000"), decimal.Decimal("-1.5"), decimal.Decimal("99.999")]),
    "date": (pa.date32(), [datetime.date(1969, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [datetime.datetime(2024, 1, n, tzinfo=datetime.UTC) for n in (1, 2)]),
    "time": (pa.time64("us"), [datetime.time(0, 0, n) for n in (0, 1, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("composite", [False, True])
def test_keys_of_many_types(tmp_path: Path, kind: str, composite: bool) -> None:
    key_type, values = KEYS[kind]
    schema = pa.schema([("k", key_type), ("n", pa.int64()), ("id", pa.int64())])
    rows = [{"k": value, "n": 1, "id": number} for number, value in enumerate(values)]
    pylance_table(tmp_path / "t", pa.Table.from_pylist(rows[:-1], schema=schema))
    table = RowTable(tmp_path / "t")
    on = ["n", "k"] if composite else "k"
    made = upsert(table, pa.Table.from_pylist([{**one, "id": one["id"] + 10} for one in rows], schema=schema), on=on)
    assert dict(made.notes) == {"inserted": 1, "updated": len(values) - 1, "deleted": 0}
    assert [one["id"] for one in table.rows()] == [number + 10 for number in range(len(values))]
    assert len(operation(table).inserted_rows.exact.key_hashes) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_that_python_has_none_of_are_keys(tmp_path: Path, unit: str) -> None:
    times = pa.array([0, 1 << 62, -(1 << 62)]).view(pa.timestamp(unit))
    table = Table.create(str(tmp_path / "t"), pa.schema([("at", times.type), ("n", pa.int64())]))
    table.append(pa.table({"at": times[:2], "n": [0, 1]}))
    done = upsert(table, pa.table({"at": times[1:], "n": [2, 3]}), on="at")
    assert (done.notes["updated"], done.notes["inserted"]) == (1, 1)
    found = table.to_arrow().sort_by("n")
    assert found["at"].combine_chunks() == times
    assert found["n"].to_pylist() == [0, 2, 3]


@pytest.mark.parametrize("indexed", [False, True])
def test_many_keys_and_few_and_indexed_ones_find_the_same(tmp_path: Path, indexed: bool) -> None:
    count = 3000
    data = pa.table({"id": range(count), "name": [f"n {number}" for number in range(count)], "v": [0] * count})
    dataset = pylance_table(tmp_path / "t", data, rows_per_file=700)
    if indexed:
        dataset.create_scalar_index("name", "BTREE")
    table = RowTable(tmp_path / "t")
    table.delete("id % 10 = 3")
    for size in (1, 90, 1000):
        ids = list(range(0, size * 4, 4))
        made = upsert(table, pa.table({"id": ids, "name": [f"n {n}" for n in ids], "v": [size] * size}), on="name")
        gone = [n for n in ids if n % 10 == 3 or n >= count] if size == 1000 else [n for n in ids if n % 10 == 3]
        assert dict(made.notes)["updated"] + dict(made.notes)["inserted"] == size
        assert dict(made.notes)["inserted"] == len(gone)
        table.lance().optimize.optimize_indices()
        assert table.lance().count_rows(f"v = {size}") == size
    assert len({one["name"] for one in table.rows()}) == len(table.rows())


@pytest.mark.parametrize("second", ["id", "long"])
def test_two_merges_of_the_same_new_key_do_not_both_insert_it(plain: RowTable, second: str) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: upsert(other, changed(100, small=1), on=second)]
    made = upsert(plain, changed(100, 101, small=2))
    assert made.attempts == 2
    assert dict(made.notes) == {"inserted": 1, "updated": 1, "deleted": 0}
    assert [(one["id"], one["small"]) for one in plain.rows() if one["id"] >= 100] == [(100, 2), (101, 2)]


def test_merges_of_other_new_keys_do_not_wait_for_each_other(plain: RowTable) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: upsert(other, changed(100, 7, small=1))]
    made = upsert(plain, changed(101, 8, small=2))
    assert made.attempts == 1
    assert [one["id"] for one in plain.rows()] == [*range(40), 100, 101]


def test_a_merge_that_inserts_looks_again_after_rows_were_added(plain: RowTable) -> None:
    """Nobody says which keys an append has."""
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: other.append(rows_of(100))]
    made = upsert(plain, changed(100, small=2))
    assert (made.attempts, made.notes["updated"]) == (2, 1)
    plain.meanwhile = [lambda: other.append(rows_of(300))]
    made = plain.merge(changed(100, small=3), "id").when_matched_update_all().execute()
    assert made.attempts == 1, "one that only updates has nothing to fear"


def test_a_merge_of_too_many_keys_to_list_is_careful(plain: RowTable) -> None:
    other = Table.open(plain.store)
    many = pa.table({"id": range(1000, 21_000)})
    plain.meanwhile = [lambda: upsert(other, pa.table({"id": [50]}))]
    made = upsert(plain, many)
    assert made.attempts == 2
    assert operation(plain).inserted_rows.WhichOneof("data") == "bloom"  # type: ignore[union-attr]
    plain.meanwhile = [lambda: upsert(other, pa.table({"id": range(30_000, 50_000)}))]
    assert upsert(plain, pa.table({"id": [60]})).attempts == 2
    assert plain.lance().count_rows() == 40 + 20_000 + 20_000 + 2


def test_two_merges_of_the_same_old_key_come_one_after_the_other(table: RowTable) -> None:
    other = Table.open(table.store)
    by = pa.table({"id": [5], "by": pa.array([10], pa.int32())})

    def add(one: Any) -> Any:
        return one.merge(by, "id").when_matched_update({"small": "target.small + source.by"}).execute()

    table.update({"small": "0"}, "id = 5")
    table.meanwhile = [lambda: add(other), lambda: add(other)]
    assert add(table).attempts == 3
    assert table.rows()[5]["small"] == 30


def test_a_merge_gets_through_beside_others_who_append_more_often_than_ten_times(plain: RowTable) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [partial(other.append, rows_of(number)) for number in range(100, 112)]
    assert upsert(plain, changed(105, 500, small=2)).attempts == 13
    assert [one["id"] for one in plain.rows()] == [*range(40), *range(100, 112), 500]


def test_attempts_are_limited(plain: RowTable) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: upsert(other, changed(5, small=1))] * 3
    with pytest.raises(RetryableConflict):
        upsert(plain, changed(5, small=2), attempts=3)
    assert plain.rows()[5]["small"] == 1
    assert len(plain.prepared) == 3


def test_rows_are_written_once_whatever_they_turn_out_to_match(plain: RowTable) -> None:
    """An upsert writes the rows of the data, whether they are new or not: another attempt needs no other files."""
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: upsert(other, changed(100, 3, small=1)), lambda: other.delete("id = 3")]
    upsert(plain, changed(3, 100, 4, small=2))
    paths = {
        fragment.files[0].path
        for change in plain.prepared
        if change is not None and isinstance(change.operation, Update)
        for fragment in change.operation.new_fragments
    }
    assert len(plain.prepared) == 3
    assert len(paths) == 1
    assert [one["small"] for one in plain.rows() if one["id"] in (3, 4, 100)] == [2, 2, 2]


def insert_new(table: Any, data: Any, on: Any = "id") -> Any:
    return table.merge(data, on=on).when_not_matched_insert_all().execute()


def test_what_others_have_inserted_meanwhile_is_not_among_the_rows_written_before(plain: RowTable) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: insert_new(other, changed(100, small=1))]
    made = insert_new(plain, changed(100, 101, small=2))
    assert (made.attempts, made.rows) == (2, 1)
    assert [(one["id"], one["small"]) for one in plain.rows() if one["id"] >= 100] == [(100, 1), (101, 2)]


def test_rows_written_for_a_column_of_another_type_are_written_again(plain: RowTable) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: other.alter_columns({"path": "small", "data_type": pa.int64()})]
    made = insert_new(plain, changed(100, 101, small=2))
    assert made.attempts == 2
    assert [(one["id"], one["small"]) for one in plain.rows() if one["id"] >= 100] == [(100, 2), (101, 2)]


def test_rows_written_once_keep_their_ids_in_another_attempt(tmp_path: Path) -> None:
    pylance_table(tmp_path / "t", some_rows(20), enable_stable_row_ids=True)
    table, other = RowTable(tmp_path / "t"), Table.open(str(tmp_path / "t"))
    table.meanwhile = [lambda: upsert(other, changed(5, small=1))]
    assert upsert(table, changed(5, small=2)).attempts == 2
    assert len({change.operation.new_fragments[0].files[0].path for change in table.prepared}) == 1  # type: ignore[union-attr]
    columns = ["id", "small", "_row_created_at_version"]
    (found,) = table.lance().scanner(columns=columns, filter="id = 5", with_row_id=True).to_table().to_pylist()
    assert (found["small"], found["_rowid"], found["_row_created_at_version"]) == (2, 5, 1)


def test_the_order_in_which_a_key_is_named_does_not_matter_to_others(plain: RowTable) -> None:
    other = Table.open(plain.store)
    plain.meanwhile = [lambda: upsert(other, changed(100, small=1), on=["long", "id"])]
    assert upsert(plain, changed(100, small=2), on=["id", "long"]).attempts == 2
    assert [one["small"] for one in plain.rows() if one["id"] == 100] == [2]


def merge_small(table: RowTable) -> None:
    table.merge(changed(5, 6, small=900), "id").when_matched_update_all().execute()


def update_small(table: RowTable) -> None:
    table.update({"small": "900"}, "id in (5, 6)", mode="rows")


@pytest.mark.parametrize("change", [merge_small, update_small])
def test_an_index_on_what_was_not_changed_goes_on_knowing_the_rows(
    tmp_path: Path, change: Callable[[RowTable], None]
) -> None:
    pylance_table(tmp_path / "t", some_rows(20), enable_stable_row_ids=True)
    table, whole = RowTable(tmp_path / "t"), Table.open(str(tmp_path / "t"))
    for column in ("id", "small"):
        whole.create_index(column, "BITMAP")
    change(table)
    new = max(one.id for one in table.table.manifest.fragments)
    covered = {index.name: new in roaring.decode(index.fragment_bitmap) for index in table.table.manifest.indices}
    assert covered == {"id_idx": True, "small_idx": False}
    assert table.lance().to_table(filter="small = 900").num_rows == 2
    assert sorted(table.lance().to_table(filter="id in (5, 7)").column("small").to_pylist()) == [7, 900]


def test_rows_that_cannot_be_found_again_are_not_passed_over(plain: RowTable, monkeypatch: pytest.MonkeyPatch) -> None:
    read = target.read_rows
    monkeypatch.setattr(matched, "read_rows", lambda *given: list(read(*given))[1:])
    with pytest.raises(Corrupt, match="2 rows were looked up by address in version 1, 0 found") as caught:
        plain.merge(pa.table({"id": [3, 4]}), "id").when_matched_update({"small": "target.small + 1"}).execute()
    assert "copy" in caught.value.remedy
    assert plain.table.version == 1


def test_limits_decide_how_many_files_there_are(table: RowTable) -> None:
    made = (
        table.merge(some_rows(10, 35), "id", max_rows_per_file=3)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert [fragment.physical_rows for fragment in operation(table).new_fragments] == [3, 3, 3, 1]
    assert made.rows == 10
    assert table.rows() == [row(number) for number in range(45)]


def test_values_that_do_not_fit_are_refused(plain: RowTable) -> None:
    data = pa.table({"id": [1, 2]})
    for expression in ("target.id + 5000000000", "10 / (target.id - 2)"):
        with pytest.raises(InvalidInput):
            plain.merge(data, "id").when_matched_update({"small": expression}).execute()
    assert plain.table.version == 1


def found(index: KeyIndex, columns: list[pa.Array]) -> list[tuple[int, int]]:
    at, rows = index.find(columns)
    return list(zip(at.tolist(), rows.tolist(), strict=True))


@given(st.data())
def test_keys_are_found_as_a_dictionary_finds_them(data: Any) -> None:
    width = data.draw(st.integers(1, 3))
    kinds = [data.draw(st.sampled_from(["int", "text", "float"])) for _ in range(width)]
    values = {
        "int": st.sampled_from([None, 0, 1, -1, 2**62, -(2**63)]),
        "text": st.sampled_from([None, "", "a", "b"]),
        "float": st.sampled_from([None, 0.0, -0.0, 1.5]),
    }
    types = {"int": pa.int64(), "text": pa.string(), "float": pa.float64()}
    key = st.tuples(*(values[kind] for kind in kinds))
    ours = data.draw(st.lists(key, unique_by=lambda one: one if None not in one else object(), max_size=20))
    theirs = data.draw(st.lists(key, max_size=30))

    def columns(keys: list[tuple[Any, ...]]) -> list[pa.Array]:
        return [key_values(pa.array([one[at] for one in keys], types[kind]), "k") for at, kind in enumerate(kinds)]

    index = KeyIndex(columns(ours), [f"k{at}" for at in range(width)])
    where = {one: number for number, one in enumerate(ours) if None not in one}
    expected = [(at, where[one]) for at, one in enumerate(theirs) if None not in one and one in where]
    assert found(index, columns(theirs)) == expected


def test_many_integers_are_found() -> None:
    chance = np.random.default_rng(5)
    keys = chance.choice(1 << 62, 50_000, replace=False) - (1 << 61)
    index = KeyIndex([pa.array(keys)], ["id"])
    probe = np.concatenate([keys[::7], chance.integers(-(1 << 61), 1 << 61, 50_000)])
    where = {key: number for number, key in enumerate(keys.tolist())}
    assert found(index, [pa.array(probe)]) == [
        (at, where[one]) for at, one in enumerate(probe.tolist()) if one in where
    ]
    unsigned = KeyIndex([pa.array([2**64 - 1, 5], pa.uint64())], ["id"])
    assert found(unsigned, [pa.array([5, 7, None, 2**64 - 1], pa.uint64())]) == [(0, 1), (3, 0)]


def test_the_hash_is_that_of_the_reference(tmp_path: Path) -> None:
    """Python's own hash of bytes is the same function, if it is told to use a key of zeros."""
    if sys.hash_info.algorithm != "siphash13":
        pytest.skip(f"this Python hashes with {sys.hash_info.algorithm}")
    keys = [b"", b"a", b"seven 7", b"eight  8", bytes(range(256)), "\u00fcmlaut".encode(), (5).to_bytes(8, "little")]
    messages = [len(key).to_bytes(8, "little") + key for key in keys]
    script = f"print([hash(one) for one in {messages!r}])"
    made = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, check=True
    )
    expected = [number % 2**64 for number in map(int, made.stdout.decode().strip("[]\n").split(","))]
    assert siphash(keys).tolist() == expected


def test_equal_keys_have_equal_bytes_and_others_do_not() -> None:
    assert key_bytes([pa.array([1, 2], pa.int32())]) == key_bytes([pa.array([1, 2], pa.int64())])
    assert key_bytes([pa.array(["a", None, "b"])]) == [b"a", b"b"]
    assert key_bytes([pa.array(["a"]), pa.array([None], pa.int64())]) == []
    assert key_bytes([pa.array(["a"]), pa.array([1])]) == [b"a\x00" + (1).to_bytes(8, "little") + b"\x00"]
    zeros = key_values(pa.array([0.0, -0.0]), "k")
    assert len(set(key_bytes([zeros]))) == 1


def test_filters_of_two_merges_tell_whether_a_key_is_in_both() -> None:
    def keys(*numbers: int) -> Any:
        return inserted_keys([0], [pa.array(numbers, pa.int64())])

    assert shared_keys(keys(1, 2), keys(3, 4)) is None
    assert shared_keys(keys(1, 2), keys(2, 3)) is not None
    assert shared_keys(keys(), keys(2, 3)) is None
    many = keys(*range(20_000))
    assert shared_keys(many, keys(10**9)) is not None
    assert shared_keys(many, keys()) is None


def test_columns_that_are_spoken_of_are_found() -> None:
    names = ["id", "x", "X y", "long_x"]
    assert mentioned("source", ["source.x > target.id"], names) == ["x"]
    assert mentioned("target", ["source.x > target.id"], names) == ["id"]
    assert mentioned("target", ["target . `X y` = 1", "TARGET.long_x = 2"], names) == ["x", "X y", "long_x"]
    assert mentioned("source", ["source['x'] = id"], names) == ["id", "x"]
