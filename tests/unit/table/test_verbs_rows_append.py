"""Append and overwrite: whatever the rows come as, checked before a file is written, and written once."""

import datetime
import decimal
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seiche.errors import InvalidInput, RetryableConflict, Unavailable
from seiche.store.local import LocalStore
from seiche.table.data.append import Appending
from seiche.table.data.fitting import fits
from seiche.table.data.write import Limits
from seiche.table.operations import Append, Overwrite
from seiche.table.table import Table
from tests.row_table import SCHEMA, RowTable, in_order, pylance_table, row, rows_of, some_rows

FLAT = ["id", "name", "small", "ratio", "flag"]


@pytest.fixture
def table(tmp_path: Path) -> RowTable:
    pylance_table(tmp_path / "t", some_rows(20))
    return RowTable(tmp_path / "t")


@pytest.fixture
def flat(tmp_path: Path) -> RowTable:
    pylance_table(tmp_path / "flat", some_rows(5).select(FLAT))
    return RowTable(tmp_path / "flat")


def flat_rows(*numbers: int) -> pa.Table:
    return rows_of(*numbers).select(FLAT)


class _Capsule:
    """Something of another library that speaks the Arrow stream interface and nothing else."""

    def __init__(self, data: pa.Table) -> None:
        self._data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda data: data,
    "one batch": lambda data: data.combine_chunks().to_batches()[0],
    "list of batches": lambda data: data.to_batches(max_chunksize=2),
    "list of tables": lambda data: [data.slice(0, 1), data.slice(1)],
    "reader": lambda data: data.to_reader(max_chunksize=2),
    "generator": lambda data: (batch for batch in data.to_batches(max_chunksize=2)),
    "generator of tables": lambda data: (data.slice(at, 2) for at in range(0, len(data), 2)),
    "dictionaries": lambda data: data.to_pylist(),
    "generator of dictionaries": lambda data: (one for one in data.to_pylist()),
    "columns": lambda data: data.to_pydict(),
    "pandas": lambda data: data.to_pandas(),
    "polars": pl.from_arrow,
    "polars, lazy": lambda data: pl.from_arrow(data).lazy(),  # type: ignore[union-attr]
    "dataset": pa.dataset.dataset,
    "scanner": lambda data: pa.dataset.dataset(data).scanner(),
    "stream": _Capsule,
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_arrive_whatever_they_come_as(flat: RowTable, form: str) -> None:
    made = flat.append(FORMS[form](flat_rows(100, 101, 102, 103, 104)))
    assert (made.changed, made.version, made.rows) == (True, 2, 5)
    assert flat.rows()[5:] == flat_rows(100, 101, 102, 103, 104).to_pylist()
    assert isinstance(flat.transaction().operation, Append)


@pytest.mark.parametrize("form", ["table", "generator", "dictionaries"])
def test_every_type_of_column_arrives(table: RowTable, form: str) -> None:
    table.append(FORMS[form](some_rows(15, 50)))
    assert table.rows() == [row(number) for number in (*range(20), *range(50, 65))]


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        some_rows(0),
        some_rows(0).to_reader(),
        iter(()),
        [some_rows(0), some_rows(0)],
        pd.DataFrame({"id": pd.Series([], dtype="int64")}),
        {"id": []},
    ],
    ids=["list", "table", "reader", "iterator", "tables", "pandas", "columns"],
)
def test_without_a_row_there_is_nothing_to_do(table: RowTable, nothing: Any) -> None:
    before = table.files()
    made = table.append(nothing)
    assert (made.changed, made.version) == (False, 1)
    assert repr(made) == "<append: nothing to do, still version 1>"
    assert table.files() == before


def test_a_result_says_what_was_written_in_words(table: RowTable) -> None:
    made = table.append(some_rows(1))
    assert repr(made).startswith(f"<append: version 2, 1 row, 1 file, {made.bytes} bytes written")


BAD: dict[str, tuple[Any, str]] = {
    "unknown column": (pa.table({"id": [1], "nosuch": [1]}), "nosuch"),
    "missing column": (pa.table({"name": ["a"]}), "id"),
    "wrong type": (pa.table({"id": ["1"]}), "id"),
    "type that would lose": (pa.table({"id": [1], "small": [1]}), "small"),
    "column twice": (pa.table([[1], [2]], names=["id", "id"]), "id"),
    "null": (pa.table({"id": pa.array([1, None])}), "id"),
    "null in a dictionary": ([{"id": None}], "id"),
    "value in a dictionary": ([{"id": 1, "small": 1 << 40}], "small"),
    "text in a dictionary": ([{"id": 1, "ratio": "high"}], "ratio"),
    "value in pandas": (pd.DataFrame({"id": [1.5]}), "id"),
    "second of nested fields": (pa.table({"id": [1], "place": [{"x": 1, "z": 2}]}), "place"),
    "other length of vector": (pa.table({"id": [1], "vector": pa.array([[1.0]], pa.list_(pa.float32(), 1))}), "vector"),
    "another time": (pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us"))}), "at"),
}


@pytest.mark.parametrize("case", BAD)
def test_rows_that_do_not_fit_are_refused_by_name_before_a_file_is_written(table: RowTable, case: str) -> None:
    data, column = BAD[case]
    before = table.files()
    with pytest.raises(InvalidInput, match=rf"'{column}") as refused:
        table.append(data)
    assert refused.value.column.partition(".")[0] == column
    assert table.files() == before
    assert table.table.version == 1


@pytest.mark.parametrize("rows", [5, "text", b"bytes", [1, 2], [[1, 2]], iter(["a"]), {"id": [1, 2], "name": ["a"]}])
def test_what_is_not_rows_is_refused(table: RowTable, rows: Any) -> None:
    with pytest.raises(InvalidInput):
        table.append(rows)
    assert table.table.version == 1


def test_a_batch_of_another_schema_is_refused_and_nothing_becomes_visible(table: RowTable) -> None:
    batches = iter([*rows_of(30).select(["id"]).to_batches(), *rows_of(31).select(["id", "name"]).to_batches()])
    with pytest.raises(InvalidInput, match="batch 2"):
        table.append(batches)
    assert table.table.version == 1


def test_an_error_of_the_caller_comes_out_as_it_is(table: RowTable) -> None:
    class Mine(Exception):
        pass

    def failing(after: int) -> Iterator[pa.RecordBatch]:
        for number in range(after):
            yield from rows_of(30 + number).to_batches()
        raise Mine("halfway")

    for after in (0, 1, 5):
        with pytest.raises(Mine, match="halfway"):
            table.append(failing(after))
    assert table.table.version == 1


def test_trouble_of_the_storage_is_not_the_callers_fault(table: RowTable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("seiche.table.data.write.write_fragments", fail)
    monkeypatch.setattr("seiche.table.data.write.write_single", fail)
    for data in (rows_of(30), rows_of(30).select(["id"])):
        with pytest.raises(Unavailable, match="no space left"):
            table.append(data)


@pytest.mark.parametrize(
    ("given_type", "values"),
    [
        (pa.large_string(), ["a", None]),
        (pa.string_view(), ["a", None]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", None]),
        (pa.dictionary(pa.int32(), pa.large_string()), ["a", None]),
        (pa.null(), [None, None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("column", ["name", "long", "kind"])
def test_text_is_taken_in_every_encoding(
    table: RowTable, column: str, given_type: pa.DataType, values: list[str | None]
) -> None:
    table.append(pa.table({"id": [90, 91], column: pa.array(values, given_type)}))
    assert [one[column] for one in table.rows() if one["id"] >= 90] == values


def test_types_are_widened_where_nothing_is_lost(table: RowTable) -> None:
    data = pa.table(
        {
            "id": pa.array([90], pa.uint16()),
            "small": pa.array([7], pa.int8()),
            "ratio": pa.array([1.5], pa.float32()),
            "price": pa.array([decimal.Decimal("1.5")], pa.decimal128(4, 1)),
            "at": pa.array([1], pa.timestamp("s", tz="Europe/Berlin")),
            "tags": pa.array([["a"]], pa.large_list(pa.string_view())),
            "place": pa.array([{"label": "here"}], pa.struct([("label", pa.large_string())])),
            "vector": pa.array([[1, 2, 3, 4]], pa.list_(pa.float32())),
            "raw": pa.array([b"ab"], pa.binary(2)),
        }
    )
    table.append(data)
    made = table.rows()[-1]
    assert made == {
        **dict.fromkeys(SCHEMA.names),
        "id": 90,
        "small": 7,
        "ratio": 1.5,
        "price": decimal.Decimal("1.50"),
        "at": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        "tags": ["a"],
        "place": {"x": None, "label": "here"},
        "vector": [1, 2, 3, 4],
        "raw": b"ab",
    }


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
NUMBERS = [*INTEGERS, pa.float32(), pa.float64()]


@given(st.sampled_from(INTEGERS), st.sampled_from(NUMBERS), st.data())
def test_a_number_that_fits_by_its_type_fits_by_its_value(one: pa.DataType, other: pa.DataType, data: Any) -> None:
    if not fits(one, other):
        return
    low = -(1 << (one.bit_width - 1)) if pa.types.is_signed_integer(one) else 0
    value = data.draw(st.integers(low, low + (1 << one.bit_width) - 1))
    assert int(pa.array([value], one).cast(other)[0].as_py()) == value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int64(), pa.int32()),
        (pa.int8(), pa.uint64()),
        (pa.uint64(), pa.int64()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.string(), pa.int64()),
        (pa.int64(), pa.string()),
        (pa.string(), pa.binary()),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.decimal128(10, 2), pa.decimal128(12, 1)),
        (pa.timestamp("us"), pa.timestamp("ms")),
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
        (pa.date64(), pa.date32()),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.list_(pa.int64(), 2), pa.list_(pa.int64(), 3)),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())])),
        (pa.struct([]), pa.struct([pa.field("a", pa.int64(), nullable=False)])),
        (pa.bool_(), pa.int8()),
    ],
    ids=str,
)
def test_types_that_would_lose_something_do_not_fit(one: pa.DataType, other: pa.DataType) -> None:
    assert not fits(one, other)


EXACT: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "a fraction": (pa.int64(), [1, 1.5], [2.0, None, decimal.Decimal(3)]),
    "a fraction among others": (pa.int64(), [2**60 + 1, 0.5], [2**60 + 1, 5.0, decimal.Decimal(5)]),
    "a fraction in decimals": (pa.int8(), [decimal.Decimal("0.5")], [decimal.Decimal(5)]),
    "a fraction in a list": (pa.list_(pa.int64()), [[1], [2, 2.5]], [[1, 2.0], [], None]),
    "a fraction in a struct": (pa.struct([("n", pa.int32())]), [{"n": 0.25}], [{"n": 4.0}, None]),
    "a part of a second": (
        pa.timestamp("s", "UTC"),
        [datetime.datetime(2026, 1, 1, 0, 0, 0, 7, datetime.UTC)],
        [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)],
    ),
    "a part of a millisecond": (pa.time32("ms"), [datetime.time(1, 0, 0, 7)], [datetime.time(1, 0, 0, 7000)]),
    "a number too large": (pa.float32(), [1.0, 1e300], [float("inf"), None, 0.5]),
    "a number too large beside an infinite one": (pa.float32(), [float("inf"), 1e300], [float("-inf"), float("inf")]),
    "a number too large in a list": (pa.list_(pa.float16(), 1), [[1e6]], [[2.0], None]),
    "more digits than a short float has": (pa.float16(), [1, 2049], [2048, 4096, None, 0.5]),
    "more digits in a list": (pa.list_(pa.float16()), [[0.5, 2049]], [[2048, 0.5], None]),
    "more digits in a struct": (pa.struct([("n", pa.float16())]), [{"n": 2049}], [{"n": 2048}, {"n": None}]),
    "a short while": (pa.duration("s"), [datetime.timedelta(microseconds=1)], [datetime.timedelta(days=1)]),
}


@pytest.mark.parametrize("form", ["dictionaries", "pandas objects"])
@pytest.mark.parametrize("case", EXACT)
def test_a_value_is_refused_rather_than_cut_off(tmp_path: Path, case: str, form: str) -> None:
    """Arrow makes 1 of 1.5 without a word if it is told that the column has whole numbers."""
    kind, losing, fitting = EXACT[case]
    table = Table.create(str(tmp_path / "t"), pa.schema([("v", kind)]))

    def rows(values: list[Any]) -> Any:
        if form == "dictionaries":
            return [{"v": value} for value in values]
        return pd.DataFrame({"v": pd.Series(values, dtype=object)})

    with pytest.raises(InvalidInput, match="'v'"):
        table.append(rows(losing))
    assert table.version == 1
    table.append(rows(fitting))
    assert table.to_arrow()["v"].to_pylist() == fitting


def test_a_field_inside_a_column_must_not_be_null_either(tmp_path: Path) -> None:
    inside = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("s", inside), pa.field("l", pa.list_(inside))])
    pylance_table(tmp_path / "t", pa.Table.from_pylist([{"id": 1, "s": {"x": 1}, "l": [{"x": 2}]}], schema=schema))
    table = RowTable(tmp_path / "t")
    loose = pa.struct([pa.field("x", pa.int64())])
    for column, value in {"s": {"x": None}, "l": [{"x": 1}, {"x": None}]}.items():
        # Declared as it must be and yet null, which Arrow does not look at; and declared as nullable.
        for kind in (inside, loose):
            values = pa.array([value], kind if column == "s" else pa.list_(kind))
            with pytest.raises(InvalidInput, match=rf"'{column}") as refused:
                table.append(pa.table({"id": [2], column: values}))
            assert refused.value.column.partition(".")[0] == column
    table.append(pa.table({"id": [3], "s": pa.array([None], loose), "l": pa.array([[]], pa.list_(loose))}))
    assert table.rows()[1:] == [{"id": 3, "s": None, "l": []}]


def test_a_stream_is_read_as_it_is_written(flat: RowTable) -> None:
    """Memory does not grow: a batch is let go of before many more are asked for."""
    alive = asked = most = 0

    class Counted:
        def __init__(self) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def stream() -> Iterator[pa.RecordBatch]:
        nonlocal asked
        for number in range(200):
            asked += 1
            buffer = _OwnedBuffer(number, 10_000, Counted())
            yield pa.record_batch({"id": pa.Array.from_buffers(pa.int64(), 10_000, [None, pa.py_buffer(buffer)])})

    flat.append(stream())
    assert asked == 200
    assert most < 100, "the batches were collected before they were written"
    assert flat.lance().count_rows() == 5 + 200 * 10_000


class _OwnedBuffer(bytearray):
    """Bytes that keep something alive for as long as Arrow refers to them."""

    def __init__(self, number: int, rows: int, owner: object) -> None:
        super().__init__(number.to_bytes(8, "little") * rows)
        self.owner = owner


def test_limits_decide_how_many_files_there_are(flat: RowTable) -> None:
    made = flat.append(some_rows(10, 100).select(FLAT), max_rows_per_file=4)
    assert made.files == 3
    written = flat.table.manifest.fragments.decoded()[-3:]
    assert [fragment.physical_rows for fragment in written] == [4, 4, 2]
    assert made.bytes == sum(os.path.getsize(flat.path / "data" / one.files[0].path) for one in written)
    with pytest.raises(InvalidInput, match="max_rows_per_file"):
        flat.append(flat_rows(1), max_rows_per_file=0)
    with pytest.raises(InvalidInput, match="max_bytes_per_file"):
        flat.append(flat_rows(1), max_bytes_per_file=-1)


@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_files_are_written_for_the_tables_fields_and_format(tmp_path: Path, version: str, stable: bool) -> None:
    """Also after columns were dropped, renamed and added, when field ids do not count up from 0 any more."""
    names = [name for name in SCHEMA.names if version != "2.0" or name not in ("deep", "place")]
    options: Any = {"data_storage_version": version, "enable_stable_row_ids": stable}
    dataset = pylance_table(tmp_path / "t", some_rows(7).select(names), **options)
    dataset.drop_columns(["name", "raw"])
    dataset.alter_columns({"path": "long", "name": "words"})
    if "place" in names:
        dataset.alter_columns({"path": "place.label", "name": "sign"})
    dataset.add_columns({"twice": "id * 2"})
    table = RowTable(tmp_path / "t")
    data = lance.dataset(str(tmp_path / "t")).to_table().slice(0, 3)
    table.append(data)
    theirs = lance.fragment.write_fragments(data, table.lance(), mode="append")[0].files[0]
    ours = table.table.manifest.fragments.decoded()[-1].files[0]
    assert (list(ours.fields), list(ours.column_indices)) == (theirs.fields, theirs.column_indices)
    assert (ours.file_major_version, ours.file_minor_version) == (theirs.file_major_version, theirs.file_minor_version)
    assert in_order(table.lance().to_table())[:6:2] == in_order(data)
    table.rows()


def test_a_table_of_the_first_format_can_be_appended_to(tmp_path: Path) -> None:
    pylance_table(tmp_path / "t", flat_rows(2, 3), data_storage_version="legacy")
    table = RowTable(tmp_path / "t")
    table.append(flat_rows(8))  # none of these has nulls: that format does not know them
    assert table.rows() == flat_rows(2, 3, 8).to_pylist()


def test_the_same_files_are_committed_after_a_conflict(table: RowTable) -> None:
    """Nothing that was written is written twice, and a stream is enough for any number of attempts."""
    table.meanwhile = [lambda: lance.write_dataset(rows_of(200), str(table.path), mode="append")] * 2
    stream = iter(some_rows(4, 100).to_batches(max_chunksize=1))
    before = set(table.files())
    made = table.append(stream)
    assert made.version == 3
    assert len(set(table.files()) - before) == 2  # one of ours, one of the other's
    assert [one["id"] for one in table.rows()] == [*range(20), *range(100, 104), 200]


def test_a_preparation_that_is_asked_again_offers_the_same_files(table: RowTable) -> None:
    """As after a commit that was outrun. What others did to the schema does not matter if the rows still fit."""
    prepare = Appending(some_rows(4, 100).to_reader(max_chunksize=1), Limits.of())
    first = prepare(table.snapshot())
    table.lance().add_columns({"more": "small + 1"})
    lance.write_dataset(rows_of(300), str(table.path), mode="append")
    before = table.files()
    assert prepare(table.snapshot()) == first
    assert table.files() == before
    assert first is not None
    table.table.commit(first.operation)
    assert [(one["id"], one["more"]) for one in table.rows()][19:] == [
        (19, 20),
        *((n, None) for n in range(100, 104)),
        (300, None),
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_rows_are_written_anew_only_if_the_schema_no_longer_fits(table: RowTable, streamed: bool) -> None:
    """A column that others cast has another field id: the files that were prepared would have nothing for it."""
    table.meanwhile = [lambda: table.lance().alter_columns({"path": "small", "data_type": pa.int64()})]
    data = some_rows(2, 100)
    if streamed:
        with pytest.raises(RetryableConflict, match="stream"):
            table.append(data.to_reader())
        assert len(table.rows()) == 20
    else:
        made = table.append(data)
        assert made.attempts == 2
        first, second = (change.operation.fragments for change in table.prepared if change is not None)  # type: ignore[union-attr]
        assert first[0].files[0].path != second[0].files[0].path
        assert [one["small"] for one in table.rows()] == [row(number)["small"] for number in (*range(20), 100, 101)]


def test_rows_that_no_longer_fit_are_refused_when_looked_at_again(table: RowTable) -> None:
    table.meanwhile = [lambda: table.lance().drop_columns(["small"])]
    table.append(some_rows(1, 100))  # a column that is merely gone does no harm
    table.meanwhile = [
        lambda: table.lance().alter_columns({"path": "name", "name": "was_name"}, {"path": "long", "name": "name"})
    ]
    with pytest.raises(InvalidInput, match=r"'small'|'long'"):
        table.append(some_rows(1, 101))


def test_data_files_are_on_disk_before_the_version_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power failure after the commit must not take the rows with it."""
    events: list[str] = []
    fsync = os.fsync

    def recorded(fd: int) -> None:
        events.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path / "t"))
        fsync(fd)

    pylance_table(tmp_path / "t", some_rows(5))
    table = Table.open(LocalStore(tmp_path / "t"))
    monkeypatch.setattr(os, "fsync", recorded)
    table.append(some_rows(4, 100), max_rows_per_file=2)
    table.update({"small": "1"}, where="id = 100", mode="columns")
    table.update({"small": "2"}, where="id = 100", mode="rows")
    files = {f"data/{file.path}" for one in table.manifest.fragments for file in one.files}
    old = {f"data/{file.path}" for one in table.checkout(1).manifest.fragments for file in one.files}
    assert files - old <= set(events)
    first_version = next(at for at, event in enumerate(events) if "_versions" in event)
    assert sum(event.endswith(".lance") for event in events[:first_version]) == 2
    assert "data" in events[:first_version]
    events.clear()
    table.delete("id in (0, 102)")
    written = [event for event in events if event.startswith("_deletions/")]
    assert len(written) == 2
    first_version = next(at for at, event in enumerate(events) if "_versions" in event)
    assert {*written, "_deletions"} <= set(events[:first_version])


def test_overwrite_replaces_rows_and_schema_and_keeps_the_rest(table: RowTable) -> None:
    dataset = table.lance()
    dataset.update_config({"team": "a", "kept": "yes"})
    dataset.delete("id < 3")
    dataset.create_scalar_index("id", "BTREE")
    before = table.table.manifest
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.struct([("a", pa.int8())]))])
    made = table.overwrite([{"key": "x", "n": {"a": 1}}, {"key": "y"}], schema, {"team": "b"})
    assert made.rows == 2
    assert isinstance(table.transaction().operation, Overwrite)
    after = table.table.manifest
    assert [(field.id, field.name) for field in after.header.fields] == [(0, "key"), (1, "n"), (2, "a")]
    assert dict(after.header.config) == {"team": "b", "kept": "yes"}
    assert after.max_fragment_id > before.max_fragment_id
    assert not after.indices
    assert table.lance().to_table().to_pylist() == [{"key": "x", "n": {"a": 1}}, {"key": "y", "n": None}]
    table.lance().validate()
    assert table.table.to_arrow(version=before.version).num_rows == 17


def test_overwrite_takes_the_schema_of_the_data_if_none_is_given(table: RowTable) -> None:
    table.overwrite(pa.table({"a": [1]}))
    assert table.table.schema.equals(pa.schema({"a": pa.int64()}))
    table.overwrite(pa.table({"b": pa.array([], pa.string())}))
    assert table.table.schema.names == ["b"]
    assert table.lance().count_rows() == 0
    table.overwrite([], schema=pa.schema({"c": pa.int64()}))
    assert table.table.schema.names == ["c"]
    with pytest.raises(InvalidInput, match="columns"):
        table.overwrite([])
    with pytest.raises(InvalidInput, match="'d'"):
        table.overwrite(pa.table({"d": [1]}), schema=pa.schema({"c": pa.int64()}))


def test_overwrite_is_not_written_again_after_a_conflict(table: RowTable) -> None:
    table.meanwhile = [lambda: Table.open(table.store).overwrite(pa.table({"other": [1]}))]
    made = table.overwrite(iter(pa.table({"a": [1, 2]}).to_batches()))
    assert made.attempts == 2
    first, second = (change.operation for change in table.prepared if change is not None)
    assert isinstance(first, Overwrite)
    assert first == second
    assert table.lance().to_table().to_pydict() == {"a": [1, 2]}


def test_a_pinned_table_cannot_be_written(table: RowTable) -> None:
    with pytest.raises(InvalidInput, match="read-only"):
        table.table.checkout(1).append(rows_of(1))


def test_slices_of_structs_in_structs(tmp_path: Path) -> None:
    """Native code panics at these: pylance writes none of them."""
    kind = pa.struct([("inner", pa.struct([("z", pa.float64())]))])
    some = pa.array([{"inner": {"z": 1.0}}, None, {"inner": None}, {"inner": {"z": None}}, None], kind).slice(2)
    for number, column in enumerate((some, pa.ListArray.from_arrays([0, 1, 3], some))):
        table = Table.create(str(tmp_path / str(number)), pa.schema([("x", column.type)]))
        table.append(pa.table({"x": column}))
        assert table.to_arrow()["x"].to_pylist() == column.to_pylist()
