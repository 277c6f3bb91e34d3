"""Rows as users of notebooks give them: one by one, with blobs, or wrongly, and then with an error that says how."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.json import read_json

import seiche
from seiche.errors import InvalidInput
from seiche.table.change import Result
from seiche.table.data import source
from seiche.table.data.conform import conform
from seiche.table.data.native_errors import trouble

OLD_BLOB = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})


@pytest.fixture
def pairs(tmp_path: Path) -> seiche.Table:
    return seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("name", pa.string())]))


@pytest.fixture(params=["old mark", "blob_field"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> seiche.Table:
    field = OLD_BLOB if request.param == "old mark" else lance.blob_field("b")
    return seiche.Table.create(str(tmp_path / "t"), pa.schema([pa.field("id", pa.int64()), field]), durability="os")


def contents(table: seiche.Table) -> dict[int, bytes | None]:
    found = table.to_lance().scanner(blob_handling="all_binary").to_table().to_pylist()
    return {row["id"]: row["b"] for row in found}


def test_blobs_are_given_as_bytes_in_whatever_form(blobs: seiche.Table) -> None:
    large = b"z" * 100_000
    blobs.append(pa.table({"id": [1], "b": pa.array([large], pa.large_binary())}))
    blobs.append([{"id": 2, "b": b"two"}, {"id": 3, "b": None}])
    blobs.append(pa.table({"id": [4], "b": lance.blob_array([b"four"])}))
    blobs.append(pd.DataFrame({"id": [5, 6], "b": [b"five", None]}))
    blobs.append(pl.DataFrame({"id": [7], "b": [b""]}))
    blobs.append([{"id": 8, "b": {"data": b"eight", "uri": None}}])
    expected = {1: large, 2: b"two", 3: None, 4: b"four", 5: b"five", 6: None, 7: b"", 8: b"eight"}
    assert contents(blobs) == expected

    merge = blobs.merge([{"id": 2, "b": b"new"}, {"id": 9, "b": b"nine"}], on="id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    blobs.compact()
    assert contents(blobs) == expected | {2: b"new", 9: b"nine"}
    plain: Any = lance.dataset(blobs.uri.removeprefix("file://"))
    plain.validate()


def test_files_of_large_values_are_counted_whoever_writes_them(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")])
    table = seiche.Table.create(str(tmp_path / "t"), schema, durability="os")
    for number in range(2):
        table.append([{"id": number, "b": bytes([number]) * 100_000}])
    verbs: tuple[Callable[[], Result], ...] = (table.compact, lambda: table.reorder([("id", "descending")]))
    for verb in verbs:
        before = {one.path: one.size for one in table.store.list("data")}
        done = verb()
        new = [one.size for one in table.store.list("data") if one.path not in before]
        assert (done.files, done.bytes) == (len(new), sum(new))
        assert done.bytes > 200_000


def test_blobs_stay_what_they_are_whatever_becomes_of_their_rows(blobs: seiche.Table) -> None:
    large = b"z" * 100_000
    blobs.append([{"id": 1, "b": large}, {"id": 2, "b": b"two"}, {"id": 3, "b": None}, {"id": 4, "b": b""}])
    blobs.update({"id": "id + 10"}, where="id < 3", mode="rows")
    blobs.update({"id": "id + 10"}, where="id < 4", mode="columns")
    blobs.add_columns({"n": "0"})
    blobs.merge(pa.table({"id": [4, 11], "n": [1, 1]}), on="id").when_matched_update_all().execute()
    expected = {11: large, 12: b"two", 13: None, 4: b""}
    assert contents(blobs) == expected
    blobs.reorder(("id", "descending"))
    assert list(contents(blobs).items()) == sorted(expected.items(), reverse=True)
    blobs.update({"b": "NULL"}, where="id = 12", mode="rows")
    assert contents(blobs) == expected | {12: None}
    plain: Any = lance.dataset(blobs.uri.removeprefix("file://"))
    plain.validate()


def test_columns_are_computed_from_what_is_in_blobs(blobs: seiche.Table) -> None:
    """An error of Arrow's came out: the column had been planned for where they lie."""
    blobs.append([{"id": 1, "b": b"one"}, {"id": 2, "b": None}])
    blobs.add_columns({"copy": "b", "some": "b IS NOT NULL"})
    made = blobs.to_arrow(columns=["copy", "some"]).to_pylist()
    assert made == [{"copy": b"one", "some": True}, {"copy": None, "some": False}]


def test_an_update_beside_large_blobs_does_not_write_them_again(blobs: seiche.Table, tmp_path: Path) -> None:
    values = {one: bytes([one]) * 300_000 for one in range(8)}
    blobs.append([{"id": one, "b": value} for one, value in values.items()])
    large = set(tmp_path.rglob("*.blob"))
    assert blobs.update({"id": "id + 10"}, where="id < 6").notes["mode"] == "columns"
    assert set(tmp_path.rglob("*.blob")) == large
    assert contents(blobs) == {one + 10 if one < 6 else one: value for one, value in values.items()}
    assert blobs.update({"b": "NULL"}, where="id < 11").notes["mode"] == "rows", "all large values, or those of three"
    assert contents(blobs) == {one + 10 if one < 6 else one: values[one] if 0 < one < 6 else None for one in values}


def test_what_is_no_blob_is_refused_as_the_callers_mistake(blobs: seiche.Table) -> None:
    with pytest.raises(InvalidInput, match="'b'"):
        blobs.append([{"id": 1, "b": 5}])
    with pytest.raises(InvalidInput, match="outside registered external bases"):
        blobs.append([{"id": 1, "b": "file:///elsewhere"}])
    assert blobs.version == 1


def test_a_blob_may_be_given_by_its_address_below_a_base(blobs: seiche.Table, tmp_path: Path) -> None:
    (tmp_path / "media").mkdir()
    (tmp_path / "media/film").write_bytes(b"a long film")
    blobs.add_bases({"path": str(tmp_path / "media"), "name": "media"})
    film = f"file://{tmp_path}/media/film"
    blobs.append([{"id": 1, "b": film}, {"id": 2, "b": b"two"}, {"id": 3, "b": lance.Blob.from_uri(film)}])
    assert contents(blobs) == {1: b"a long film", 2: b"two", 3: b"a long film"}
    blobs.update({"id": "id + 10"}, where="id = 1", mode="rows")
    blobs.compact(target_rows_per_fragment=100)
    assert contents(blobs) == {11: b"a long film", 2: b"two", 3: b"a long film"}


def test_a_part_of_a_file_needs_the_longer_form_of_the_type(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([pa.field("id", pa.int64()), OLD_BLOB]))
    with pytest.raises(InvalidInput, match="a part of a file"):
        table.append([{"id": 1, "b": lance.Blob.from_uri("file:///elsewhere", 1, 2)}])


def test_rows_come_one_by_one_and_are_held_by_the_batch(pairs: seiche.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_ROWS", 2)

    def rows() -> Iterator[dict[str, Any]]:
        yield {"id": 1}
        yield {"id": 2, "name": "two"}
        yield {"name": "three"}

    assert pairs.append(rows()).rows == 3
    assert pairs.to_arrow().to_pylist() == [
        {"id": 1, "name": None},
        {"id": 2, "name": "two"},
        {"id": None, "name": "three"},
    ]
    late = ({"id": number} if number < 2 else {"id": number, "name": "late"} for number in range(3))
    with pytest.raises(InvalidInput, match="a later row has a column 'name'"):
        pairs.append(late)
    with pytest.raises(InvalidInput, match="rows cannot be taken from a list of int"):
        pairs.append(iter([{"id": 1}, 5]))
    assert pairs.version == 2


def test_no_rows_are_nothing_to_do_and_rows_of_nothing_a_mistake(pairs: seiche.Table) -> None:
    pairs.append([{"id": 1, "name": "one"}])
    nothing: Any
    rows: Any
    for nothing in ([], iter([])):
        assert not pairs.append(nothing).changed
        assert not pairs.merge(nothing, on="id").when_matched_update_all().execute().changed
    for rows in ([{}], iter([{}, {}])):
        with pytest.raises(InvalidInput, match="no columns"):
            pairs.append(rows)
    for rows in (pa.table({"id": [1]}).select([]), pa.record_batch({"id": [1]}).select([])):
        with pytest.raises(InvalidInput, match="no columns"):
            pairs.append(rows)
        with pytest.raises(InvalidInput, match="no columns"):
            pairs.merge(rows, on="id").when_not_matched_by_source_delete().execute()
    assert pairs.version == 2
    assert pairs.merge([], on="id").when_not_matched_by_source_delete().execute().rows == 1


def test_columns_that_no_row_of_a_generator_has_are_left_alone_by_a_merge(pairs: seiche.Table) -> None:
    pairs.append([{"id": 1, "name": "one"}])
    pairs.merge(({"id": number} for number in (1, 1 << 40)), on="id").when_matched_update_all().execute()
    assert pairs.to_arrow().to_pylist() == [{"id": 1, "name": "one"}]


def test_texts_that_are_no_utf_8_are_refused_since_nobody_could_read_the_rows(pairs: seiche.Table) -> None:
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([b"fine", "Bär".encode("latin-1")]).buffers())
    rows = pa.table({"id": [1, 2], "name": bad})
    pairs.append([{"id": 0, "name": "Bär"}])
    coded = pa.table({"id": [1, 2], "name": bad.dictionary_encode()})
    inside = pa.table({"id": [1], "names": pa.ListArray.from_arrays([0, 2], bad)})
    acts: tuple[Callable[[], object], ...] = (
        lambda: pairs.append(rows),
        lambda: pairs.append(rows.set_column(1, "name", bad.cast(pa.large_string()))),
        lambda: pairs.append(coded),
        lambda: pairs.overwrite(rows),
        lambda: pairs.overwrite(coded),
        lambda: pairs.overwrite(inside),
        lambda: pairs.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute(),
        lambda: pairs.replace_column("name", rows.slice(1).select(["name"])),
    )
    for act in acts:
        with pytest.raises(InvalidInput, match=r"column 'names?' has values that nobody could read") as refused:
            act()
        assert "UTF-8" in refused.value.remedy
    pairs.append(rows.slice(0, 1))  # only what is given counts, not what lies beside it in memory
    assert sorted(pairs.to_arrow()["name"].to_pylist()) == ["Bär", "fine"]


def test_texts_that_are_no_json_are_refused_as_the_callers_mistake(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("j", pa.json_())]))
    table.append([{"id": 1, "j": '{"a": 1}'}])
    bad = [{"id": 1, "j": '{"a": '}]
    attempts: list[Callable[[], Any]] = [
        lambda: table.append(bad),
        lambda: table.append(row for row in bad * 10_000),
        lambda: table.merge(bad, on="id").when_matched_update_all().execute(),
        lambda: table.update({"j": "'{'"}),
        lambda: table.update({"j": "'{'"}, mode="columns"),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="JSON"):
            attempt()
    assert table.to_arrow()["j"].to_pylist() == ['{"a":1}']


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "nan", "[-Infinity]", '{"a": NaN}', "1e400", "[1e-400]", "", "[1,]"),
        *("123456789012345678901234567890", "-9223372036854775809", '"\\ud800"'),
    ],
)
def test_json_that_would_be_stored_as_something_else_is_refused(tmp_path: Path, text: str) -> None:
    """By native code, in silence."""
    nested = pa.struct([pa.field("j", pa.json_())])
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("j", pa.json_()), ("s", nested)]))
    table.append([{"id": 1, "j": "1"}])
    attempts: list[Callable[[], Any]] = [
        lambda: table.append([{"id": 2, "j": text}]),
        lambda: table.append([{"id": 2, "s": {"j": text}}]),
        lambda: table.merge([{"id": 1, "j": text, "s": None}], on="id").when_matched_update_all().execute(),
        lambda: table.update({"j": f"'{text}'"}),
        lambda: table.update({"j": f"'{text}'"}, mode="columns"),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match=r"column '[js]' has .* cannot be kept as JSON"):
            attempt()
    assert table.to_arrow()["j"].to_pylist() == ["1"]


@pytest.mark.parametrize("text", ["NaN", "1e400", "", "[1,]", "123456789012345678901234567890", '"\\ud800"'])
def test_texts_become_json_only_as_they_are(tmp_path: Path, text: str) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("j", pa.string())]))
    table.append([{"id": 1, "j": text}, {"id": 2, "j": '{"a":1}'}, {"id": 3, "j": None}])
    with pytest.raises(InvalidInput, match=r"column 'j' has .* cannot be kept as JSON"):
        table.alter_columns({"path": "j", "data_type": pa.json_()})
    assert table.to_arrow()["j"].to_pylist() == [text, '{"a":1}', None]
    table.delete("id = 1")
    table.alter_columns({"path": "j", "data_type": pa.json_()})
    assert (table.schema.field("j").type, table.to_arrow()["j"].to_pylist()) == (pa.json_(), ['{"a":1}', None])


def test_json_that_only_looks_strange_is_kept(tmp_path: Path) -> None:
    texts = [
        *('"NaN, inf"', "18446744073709551615", "-9223372036854775808", '"12345678901234567890123"', "[0e999,0.0]"),
        *('"\\ud83d\\ude00"', '{"information":null,"n":",]"}', "1e300", "null", None),
    ]
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("j", pa.json_())]))
    table.append([{"j": text} for text in texts])
    stored = [None if one is None else json.loads(one) for one in table.to_arrow()["j"].to_pylist()]
    assert stored == [None if one is None else json.loads(one) for one in texts]


@pytest.mark.parametrize("line", [b'{"\xfc": 1}', b'{"new": {"\xfc": 1}}', b'{"new": [{"\xfc": 1}]}'])
def test_names_that_are_no_utf_8_are_refused(pairs: seiche.Table, line: bytes, tmp_path: Path) -> None:
    rows = read_json(BytesIO(line))
    lake = seiche.create(str(tmp_path / "lake"))
    lake.create_namespace("n")
    iceberg = lake.create_table("n.t", pa.schema([("id", pa.int64())]), format="iceberg")
    for attempt in (
        lambda: seiche.Table.create(str(tmp_path / "new"), rows.schema),
        lambda: lake.create_table("n.new", rows.schema),
        lambda: lake.create_table("n.new", rows),
        lambda: pairs.append(rows),
        lambda: pairs.append(rows.to_reader()),
        lambda: pairs.overwrite(rows),
        lambda: pairs.overwrite([], schema=rows.schema),
        lambda: pairs.merge(rows, on="id").when_not_matched_insert_all().execute(),
        lambda: pairs.add_columns(rows.schema),
        lambda: iceberg.append(rows),
    ):
        with pytest.raises(InvalidInput, match="is not UTF-8"):
            attempt()
    assert pairs.version == 1


def test_a_batch_with_more_than_the_offsets_of_a_column_can_count_comes_in_parts() -> None:
    starts = pa.array([0, 1 << 30, 1 << 30, 2 << 30, (2 << 30) + 3])
    memory = np.zeros((2 << 30) + 3, np.uint8)  # hardly any of it is ever touched
    memory[2 << 30 :] = list(b"end")
    present = pa.array([True, False, True, True]).buffers()[1]
    inside = [present, starts.buffers()[1], pa.py_buffer(memory)]
    rows = pa.record_batch({"v": pa.Array.from_buffers(pa.large_binary(), 4, inside), "n": [1, 2, 3, 4]})
    wanted = pa.schema([("n", pa.int64()), ("v", pa.binary())])
    made = list(conform(rows.schema, wanted).batches(iter([rows])))
    assert [batch["n"].to_pylist() for batch in made] == [[1, 2], [3, 4]]
    assert [batch.schema for batch in made] == [wanted, wanted]
    lengths = [pc.binary_length(batch["v"]).to_pylist() for batch in made]
    assert lengths == [[1 << 30, None], [1 << 30, 3]]
    assert made[1]["v"][1].as_py() == b"end"


@pytest.mark.parametrize("inside", [None, "list", "struct"])
def test_views_of_more_than_the_offsets_of_a_column_can_count_are_not_made_other_values(inside: str | None) -> None:
    letters = 1 << 20
    views = np.array([[letters, 0, 0, 0]] * 4097, np.int32)  # of the same text, 4 GB in all
    memory = [None, pa.py_buffer(views), pa.py_buffer(b"\0" * letters)]
    values: pa.Array = pa.Array.from_buffers(pa.binary_view(), len(views), memory)
    kind: pa.DataType = pa.binary()
    if inside == "list":
        values, kind = pa.LargeListArray.from_arrays(range(len(views) + 1), values), pa.list_(kind)
    elif inside == "struct":
        values, kind = pa.StructArray.from_arrays([values], ["x"]), pa.struct([("x", kind)])
    rows = pa.record_batch({"v": values})
    fitting = conform(rows.schema, pa.schema([("v", kind)]))
    with pytest.raises(InvalidInput, match="more than 2147483647 bytes in one piece"):
        fitting.batch(rows)
    assert fitting.batch(rows.slice(4000, 10))["v"].nbytes > 10 * letters


def test_a_single_row_is_told_from_columns(pairs: seiche.Table) -> None:
    with pytest.raises(InvalidInput, match="column 'id' has one value instead of a list") as caught:
        pairs.append({"id": 1, "name": "x"})
    assert "[{...}]" in caught.value.remedy
    with pytest.raises(InvalidInput, match="column 'name' has one value"):
        pairs.append({"id": [1], "name": "x"})


INSIDE: dict[str, tuple[pa.DataType, Any, Any]] = {
    "a struct": (pa.struct([("x", pa.int64())]), {"x": 1}, {"x": 1, "X": 2}),
    "a struct in one": (pa.struct([("s", pa.struct([("x", pa.int64())]))]), {"s": {}}, {"s": {"y": 2}}),
    "a list": (pa.list_(pa.struct([("x", pa.int64())])), [{"x": 1}, None], [None, {"y": 2}]),
    "a map": (pa.map_(pa.string(), pa.struct([("x", pa.int64())])), {"k": {"x": 1}}, {"k": {"y": 2}}),
    "pairs": (pa.map_(pa.string(), pa.struct([("x", pa.int64())])), [("k", None)], [("k", {"y": 2})]),
}


@pytest.mark.parametrize("inside", INSIDE)
def test_values_inside_of_columns_that_the_table_has_no_field_for_are_refused(tmp_path: Path, inside: str) -> None:
    """As columns are: Arrow leaves them out in silence."""
    kind, good, bad = INSIDE[inside]
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("v", kind)]), durability="os")
    table.append([{"id": 1, "v": good}, {"id": 2, "v": None}])
    merge = table.merge([{"id": 1, "v": bad}], on="id").when_matched_update_all()
    given: list[Callable[[], object]] = [
        lambda: table.append([{"id": 3, "v": good}, {"id": 4, "v": bad}]),
        lambda: table.append({"id": [3], "v": (one for one in [bad])}),
        lambda: table.append(pd.DataFrame({"id": [3], "v": [bad]})),
        lambda: table.overwrite([{"id": 3, "v": bad}], schema=table.schema),
        merge.execute,
    ]
    for give in given:
        with pytest.raises(InvalidInput, match="which struct<x: int64> does not have"):
            give()
    assert table.version == 2


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.list_(pa.string()), ["red"], "red"),
        (pa.list_(pa.list_(pa.string())), [["red"]], ["red"]),
        (pa.struct([("x", pa.int64())]), [("x", 1)], [("y", 2)]),
        (pa.struct([("x", pa.int64())]), (1,), ""),
        (pa.map_(pa.string(), pa.int64()), {"k": 1}, {"k": 1.5}),
        (pa.map_(pa.int64(), pa.string()), [(1, "k")], [(1.5, "k")]),
        (pa.map_(pa.string(), pa.list_(pa.int8())), {"k": [1]}, {"k": [1.5]}),
        (
            pa.struct([("m", pa.map_(pa.string(), pa.date32()))]),
            {"m": {}},
            {"m": {"k": datetime(2026, 1, 1, 5, tzinfo=UTC)}},
        ),
        (pa.map_(pa.string(), pa.int64()), {"k": None}, ""),
        (pa.timestamp("us"), pd.Timestamp(1000), pd.Timestamp(1001)),
        (pa.date32(), date(2026, 1, 1), 1.5),
        (pa.list_(pa.time64("us")), [time(5)], [time(5), Decimal("1.5")]),
        (pa.list_(pa.duration("ms")), [pd.Timedelta(1, "ms")], [pd.Timedelta(1, "ns")]),
    ],
    ids=str,
)
def test_what_arrow_makes_something_else_of_is_refused(tmp_path: Path, kind: pa.DataType, good: Any, bad: Any) -> None:
    """It makes letters of a text, whole numbers of those inside of maps, and microseconds of what pandas has."""
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("v", kind)]), durability="os")
    table.append([{"id": 1, "v": good}, {"id": 2, "v": None}])
    table.append(pd.DataFrame({"id": [3, 4], "v": [good, float("nan")]}))
    stored = table.to_arrow().to_pylist()
    assert stored == [{"id": one, "v": stored[0]["v"] if one % 2 else None} for one in range(1, 5)]
    for given in ([{"id": 5, "v": bad}], {"id": [5], "v": [bad]}, pd.DataFrame({"id": [5], "v": [bad]})):
        with pytest.raises(InvalidInput, match="the values of column 'v' are not all of"):
            table.append(given)


def test_a_column_of_texts_is_none_of_lists(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("v", pa.list_(pa.string()))]), durability="os")
    for given in (pd.array(["red"], "string"), np.array(["red"]), pd.Series(["red"], dtype="category")):
        with pytest.raises(InvalidInput, match="column 'v'"):
            table.append({"v": given})


def test_fields_that_only_later_rows_of_a_generator_have_are_refused(pairs: seiche.Table) -> None:
    rows = ({"id": one, "s": {"a": 1} if one < 9000 else {"a": 1, "b": 2}} for one in range(9001))
    with pytest.raises(InvalidInput, match="a value has 'b'"):
        pairs.overwrite(rows)


def test_columns_of_one_name_in_a_frame_are_refused(pairs: seiche.Table) -> None:
    name, version = pairs.schema.names[0], pairs.version
    for columns in ([name, name], [1, "1"]):
        with pytest.raises(InvalidInput, match=f"column '{columns[0]}' is given twice"):
            pairs.append(pd.DataFrame([[1, 2]], columns=columns))
    assert pairs.version == version


def test_columns_to_read_are_any_sequence_but_no_text(pairs: seiche.Table) -> None:
    assert pairs.to_arrow(columns=("name",)).column_names == ["name"]
    with pytest.raises(InvalidInput, match="columns cannot be the text 'id'"):
        pairs.to_arrow(columns="id")
    with pytest.raises(InvalidInput, match="refused"):
        pairs.to_arrow(columns=[5])  # type: ignore[list-item]


def test_a_merge_says_in_a_notebook_what_it_would_do(pairs: seiche.Table) -> None:
    merge = pairs.merge([], on="id")
    assert repr(merge) == "<merge on id: no clause yet; execute() does it>"
    assert "when matched delete" in repr(merge.when_matched_delete())


READS: dict[str, Any] = {
    "scan": lambda table: table.to_arrow(),
    "filter": lambda table: table.to_arrow(filter="id = 1"),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"id": "3"}),
    "merge": lambda table: table.merge([{"id": 1}], on="id").when_matched_delete().execute(),
    "compact": lambda table: table.compact(),
    "index": lambda table: table.create_index("id", "BTREE"),
    "changes": lambda table: list(table.changes(1, 2)),
}


def test_a_lost_file_is_named_and_no_reason_to_try_again_or_to_check_the_filter(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), durability="os")
    for number in range(2):
        table.append([{"id": number}])
    for file in (tmp_path / "t" / "data").iterdir():
        file.unlink()
    for name, read in READS.items():
        with pytest.raises(seiche.NotFound, match=r"data/\w+\.lance") as caught:
            read(table)
        assert "removed by hand" in caught.value.remedy, name
    assert table.version == 3


def test_a_damaged_or_lost_manifest_is_told_from_other_trouble(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), durability="os")
    (manifest,) = (tmp_path / "t" / "_versions").glob("*.manifest")
    manifest.write_bytes(b"x")
    with pytest.raises(seiche.Corrupt, match=r"version 1 of .* could not be opened"):
        table.to_lance()
    manifest.unlink()
    with pytest.raises(seiche.NotFound, match=r"version 1 of .* could not be opened"):
        table.to_lance()


def test_what_storage_says_decides_what_to_do() -> None:
    assert type(trouble("x", OSError("LanceError(IO): Permission denied (os error 13)"))) is seiche.PermissionDenied
    assert type(trouble("x", OSError("LanceError(IO): timed out"))) is seiche.Unavailable


A, B = pa.struct([("x", pa.int64()), ("y", pa.int64())]), pa.struct([("x", pa.int64()), ("Y", pa.int64())])


@pytest.mark.parametrize("deep", [False, True], ids=["structs", "lists of structs"])
def test_values_are_not_put_where_there_is_no_field_for_a_part_of_them(tmp_path: Path, deep: bool) -> None:
    """Arrow's casts go by the names of fields, and leave out in silence what has none there."""
    one, other = (pa.list_(A), pa.list_(B)) if deep else (A, B)
    a: Any = [{"x": 1, "y": 2}] if deep else {"x": 1, "y": 2}
    b: Any = [{"x": 3, "Y": 4}] if deep else {"x": 3, "Y": 4}
    rows = pa.table({"id": [1], "a": pa.array([a], one), "b": pa.array([b], other)})
    table = seiche.Table.create(str(tmp_path / "t"), rows.schema, durability="os")
    table.append(rows)
    wanted = pa.schema([("new", other)])
    tried: list[Callable[[], object]] = [
        lambda: table.alter_columns({"path": "a", "data_type": other}),
        lambda: table.update({"a": "b"}, mode="rows"),
        lambda: table.update({"a": "b"}, mode="columns"),
        lambda: table.merge([{"id": 1}], on="id").when_matched_update({"a": "target.b"}).execute(),
        lambda: table.merge([{"id": 2}], on="id").when_not_matched_by_source_update({"a": "b"}).execute(),
        lambda: table.add_columns(lambda batch: {"new": batch["a"]}, read_columns=["a"], schema=wanted),
    ]
    for attempt in tried:
        with pytest.raises(InvalidInput, match=r"has no 'y'|is of type|does not fit"):
            attempt()
    assert table.version == 2
    wide = pa.struct([*A, ("z", pa.int64())])
    table.alter_columns({"path": "a", "data_type": pa.list_(wide) if deep else wide})
    more = {"x": 1, "y": 2, "z": None}
    assert table.to_arrow()["a"].to_pylist() == [[more] if deep else more]


def test_an_index_of_pandas_that_has_a_name_is_a_column(pairs: seiche.Table) -> None:
    """Otherwise what stands in it would be lost in silence: a sum for each name, without the names."""
    frame = pd.DataFrame({"name": ["a", "a", "b"], "id": [1, 2, 4]})
    pairs.append(frame.groupby("name").sum())
    assert pairs.to_arrow().to_pylist() == [{"id": 3, "name": "a"}, {"id": 4, "name": "b"}]
    pairs.overwrite(frame.set_index(["name", "id"]))
    assert pairs.to_arrow().select(["name", "id"]).to_pydict() == frame.to_dict("list")
    pairs.overwrite(frame.set_index("id", drop=False)[lambda rows: rows["id"] > 1])
    assert pairs.to_arrow()["id"].to_pylist() == [2, 4]
    pairs.merge(
        pd.DataFrame({"name": ["c"]}, index=pd.Index([4], name="id")), on="id"
    ).when_matched_update_all().execute()
    assert pairs.to_arrow(filter="id = 4")["name"].to_pylist() == ["c"]


def test_an_index_of_pandas_that_is_no_column_of_the_table_is_refused(pairs: seiche.Table) -> None:
    frame = pd.DataFrame({"id": [1], "name": ["a"]})
    with pytest.raises(InvalidInput, match="no column 'day'"):
        pairs.append(frame.set_index(pd.Index(["monday"], name="day")))
    with pytest.raises(InvalidInput, match="'day' is given twice"):
        pairs.append(frame.set_index(pd.MultiIndex.from_tuples([(1, 2)], names=["day", "day"])))
    pairs.append(frame.set_index(pd.Index(["monday"])))
    assert pairs.to_arrow().to_pylist() == [{"id": 1, "name": "a"}]


@pytest.mark.parametrize(
    "one", [pl.Series("id", [1]), pd.Series([1], name="id"), pa.chunked_array([[1]])], ids=["Polars", "pandas", "Arrow"]
)
def test_a_column_alone_is_no_rows(pairs: seiche.Table, one: Any) -> None:
    with pytest.raises(InvalidInput, match="rows cannot be taken from"):
        pairs.append(one)


def test_vectors_come_as_an_array_of_two_dimensions(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 3))])
    table = seiche.Table.create(str(tmp_path / "t"), schema)
    table.append({"id": np.arange(2), "v": np.arange(6, dtype=np.float32).reshape(2, 3)})
    assert table.to_arrow().to_pydict() == {"id": [0, 1], "v": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]}
    for wrong in (np.ones((1, 4)), np.ones((1, 3, 1)), np.full((1, 3), 1e300)):
        with pytest.raises(InvalidInput, match="'v'"):
            table.append({"id": [2], "v": wrong})
    assert table.count_rows() == 2


class OneArray:
    """What has Arrow's interface for arrays only, as batches of some libraries have."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._data.__arrow_c_array__(requested_schema)


def test_rows_come_by_the_interface_of_arrow_for_arrays(pairs: seiche.Table) -> None:
    pairs.append(OneArray(pa.record_batch({"id": [1], "name": ["a"]})))
    assert pairs.to_arrow().to_pylist() == [{"id": 1, "name": "a"}]
    with pytest.raises(InvalidInput, match="rows cannot be taken from a OneArray"):
        pairs.append(OneArray(pa.array([1])))


def test_a_column_in_double_quotes_is_not_taken_for_a_text(pairs: seiche.Table) -> None:
    """As a text it would differ from every value: all rows would be deleted."""
    pairs.append([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    condition = "\"Name\" != 'a'"
    for ask in (
        lambda: pairs.delete(condition),
        lambda: pairs.to_arrow(filter=condition),
        lambda: pairs.count_rows(condition),
        lambda: pairs.update({"id": "0"}, where=condition),
        lambda: pairs.update({"name": '"name"'}),
        lambda: pairs.add_columns({"other": 'upper("name")'}),
    ):
        with pytest.raises(InvalidInput, match="is a text, and there is a column of that name"):
            ask()
    assert pairs.to_arrow()["name"].to_pylist() == ["a", "b"]


def test_what_is_a_text_or_a_column_without_a_doubt_stays_so(pairs: seiche.Table) -> None:
    pairs.append([{"id": 1, "name": "a"}, {"id": 2, "name": '"name"'}])
    for condition, wanted in {'name = "a"': [1], "name = '\"name\"'": [2], "`name` = 'a' -- \"name\"": [1]}.items():
        assert pairs.to_arrow(filter=condition)["id"].to_pylist() == wanted, condition


def test_who_compares_a_day_with_a_text_is_told_how_days_are_written(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("day", pa.date32())]))
    table.append([{"day": date(2030, 12, 31)}, {"day": None}])
    for ask in (lambda: table.to_arrow(filter="day = '2030-12-31'"), lambda: table.delete("day > '2030-01-01'")):
        with pytest.raises(InvalidInput) as refused:
            ask()
        assert "date '2030-12-31'" in refused.value.remedy
    assert table.count_rows("day = date '2030-12-31'") == 1


class Pair(NamedTuple):
    """A row as a named tuple."""

    id: int
    name: str | None = None


@dataclass
class Animal:
    """A row as an object."""

    id: int
    name: str | None = None


@pytest.mark.parametrize("kind", [Pair, Animal])
def test_rows_are_named_tuples_or_objects_of_dataclasses(
    pairs: seiche.Table, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "_ROWS", 2)
    pairs.append([kind(1, "a"), kind(2)])
    pairs.append(kind(one, "more") for one in (3, 4, 5))
    pairs.merge([kind(5, "five")], on="id").when_matched_update_all().execute()
    found = pairs.to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3, 4, 5], "name": ["a", None, "more", "more", "five"]}
    for wrong in (kind(6), [kind], [kind(6), (7, "seven")], [(6, "six")]):
        with pytest.raises(InvalidInput, match="rows cannot be taken from"):
            pairs.append(wrong)
    assert pairs.count_rows() == 5


def test_a_dataclass_inside_of_another_is_a_struct(tmp_path: Path) -> None:
    @dataclass
    class Owner:
        name: str
        pet: Animal

    kind = pa.struct([("id", pa.int64()), ("name", pa.string())])
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("name", pa.string()), ("pet", kind)]))
    table.append([Owner("ann", Animal(1, "otter"))])
    assert table.to_arrow().to_pylist() == [{"name": "ann", "pet": {"id": 1, "name": "otter"}}]


def test_rows_that_were_all_read_before_are_refused_and_not_taken_for_none(pairs: seiche.Table) -> None:
    generator = ({"id": one} for one in range(3))
    reader = pa.table({"id": [7, 8]}).to_reader()
    nothing = ({"id": one} for one in range(0))
    for rows, count in ((generator, 3), (reader, 2), (nothing, 0)):
        assert pairs.append(rows).rows == count
        with pytest.raises(InvalidInput, match="read to its end already"):
            pairs.append(rows)
    begun = ({"id": one} for one in range(3))
    next(begun)
    assert pairs.append(begun).rows == 2


def test_a_transaction_that_is_run_again_does_not_lose_the_rows_of_a_generator(tmp_path: Path) -> None:
    lake = seiche.create(seiche.store.open_store(tmp_path / "lake", durability="os"))
    lake.create_namespace("shop")
    table = lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    table.append([{"id": 0, "n": 0}])
    given = ({"id": one} for one in (1, 2))

    def work(tx: Any, rows: Callable[[], Iterator[Any]], began: list[int]) -> None:
        tx.update("shop.t", {"n": "n + 1"}, where="id = 0")
        tx.append("shop.t", rows())
        if not began:
            began.append(1)
            table.update({"n": "n + 1"}, where="id = 0")

    once: list[int] = []
    with pytest.raises(InvalidInput, match="read to its end already"):
        lake.run(lambda tx: work(tx, lambda: given, once))
    again: list[int] = []
    lake.run(lambda tx: work(tx, lambda: ({"id": one} for one in (1, 2)), again))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2]
