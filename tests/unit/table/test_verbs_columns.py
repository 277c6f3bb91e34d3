"""Columns: added, altered, dropped, renamed and replaced."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import IncompatibleConflict, InvalidInput
from seiche.table.format.fields import SYSTEM_COLUMNS
from seiche.table.format.manifest_pb2 import Field
from seiche.table.preparing import schema as preparing
from seiche.table.preparing.fields import all_named
from seiche.table.table import Table
from tests.row_table import SCHEMA, some_rows
from tests.verb_table import (
    DELETED,
    METADATA_ONLY,
    by_id,
    ids,
    meddle_before_commit,
    native,
    operations,
    values,
    verb_table,
    writes_only,
)

WITH_DATA = (*METADATA_ONLY, "data/")


@pytest.fixture(params=[False, True], ids=["addresses", "stable row ids"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return verb_table(tmp_path / "t", stable_row_ids=request.param)


UNREADABLE = pa.list_(pa.struct([("x", pa.int64())]), 2)


TEXTS = pa.list_(pa.string(), 2)


@pytest.mark.parametrize(
    "kind",
    [
        *(UNREADABLE, pa.list_(UNREADABLE), pa.struct([("inside", UNREADABLE)])),
        *(TEXTS, pa.list_(TEXTS, 2), pa.struct([("inside", TEXTS)]), pa.list_(pa.large_binary(), 1)),
        pa.list_(pa.dictionary(pa.int8(), pa.string()), 2),
    ],
    ids=str,
)
def test_columns_whose_rows_pylance_could_never_write_or_read_again_are_refused(
    table: Table, tmp_path: Path, kind: pa.DataType
) -> None:
    schema = pa.schema([("id", pa.int64()), ("pairs", kind)])
    lake, version = seiche.create(tmp_path / "lake"), table.version
    lake.create_namespace("shop")
    for act in (
        lambda: Table.create(tmp_path / "new", schema),
        lambda: lake.create_table("shop.pairs", schema),
        lambda: table.overwrite(schema.empty_table()),
        lambda: table.add_columns(pa.schema([schema.field("pairs")])),
    ):
        with pytest.raises(InvalidInput, match=r"'pairs.*fixed-size list of (structs|texts)"):
            act()
    assert (table.version, lake.tables("shop")) == (version, [])


@pytest.mark.parametrize(
    "field",
    [
        pa.field("a`b", pa.int64()),
        pa.field("a\0b", pa.int64()),
        pa.field("outer", pa.struct([("a\0b", pa.int64())])),
        pa.field("list", pa.list_(pa.struct([("a\0b", pa.int64())]))),
    ],
    ids=repr,
)
def test_columns_whose_names_nobody_could_read_again_are_refused(table: Table, tmp_path: Path, field: pa.Field) -> None:
    schema = pa.schema([("id", pa.int64()), field])
    lake, version = seiche.create(tmp_path / "lake"), table.version
    lake.create_namespace("shop")
    acts: list[Callable[[], object]] = [
        lambda: Table.create(tmp_path / "new", schema),
        lambda: lake.create_table("shop.pairs", schema),
        lambda: table.overwrite(schema.empty_table()),
        lambda: table.add_columns(pa.schema([field])),
    ]
    if field.type == pa.int64():
        acts.append(lambda: table.alter_columns({"path": "id", "name": field.name}))
    for act in acts:
        with pytest.raises(InvalidInput, match=r"backticks and NULs"):
            act()
    assert (table.version, lake.tables("shop")) == (version, [])


def test_columns_of_one_name_are_refused(table: Table, tmp_path: Path) -> None:
    rows, version = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"]), table.version
    for act in (lambda: Table.create(tmp_path / "new", rows.schema), lambda: table.overwrite(rows)):
        with pytest.raises(InvalidInput, match="two columns are named 'x'"):
            act()
    assert table.version == version


def test_a_field_of_a_struct_may_have_a_backtick_in_its_name(tmp_path: Path) -> None:
    kind = pa.struct([("q`r", pa.int64())])
    table = Table.create(tmp_path / "t", pa.schema([("place", kind)]))
    table.append([{"place": {"q`r": 7}}])
    assert table.to_arrow()["place"].to_pylist() == [{"q`r": 7}]


def test_columns_from_sql(table: Table) -> None:
    before, rows = table.version, by_id(table.to_arrow())
    with writes_only(table, *WITH_DATA):
        done = table.add_columns({"twice": "id * 2", "fixed": "'x'", "inside": "place.x", "all": "deep"})
    assert operations(table, before) == ["Merge"]
    assert (done.rows, done.files) == (len(rows), 3)
    assert values(table, "twice") == {one: 2 * one for one in ids(table)}
    assert set(values(table, "fixed").values()) == {"x"}
    assert values(table, "all") == values(table, "deep")
    kept = table.to_arrow(columns=SCHEMA.names)
    assert by_id(kept) == rows
    native(table)


def test_columns_from_a_function_that_sees_each_row_once(table: Table) -> None:
    seen: list[int] = []

    def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["id", "name"]
        seen.extend(batch["id"].to_pylist())
        loud = [None if one is None else one.upper() for one in batch["name"].to_pylist()]
        return pa.record_batch({"loud": loud})

    table.add_columns(shout, read_columns=["id", "name"])
    assert seen == ids(table)
    wanted = {number: None if name is None else name.upper() for number, name in values(table, "name").items()}
    assert values(table, "loud") == wanted
    native(table)


@pytest.mark.parametrize(
    "form",
    [
        pa.table,
        lambda found: found,
        lambda found: pytest.importorskip("pandas").DataFrame(found),
        lambda found: pytest.importorskip("polars").DataFrame(found),
    ],
    ids=["table", "mapping", "pandas", "polars"],
)
def test_a_function_may_answer_in_any_form(tmp_path: Path, form: Any) -> None:
    table = verb_table(tmp_path / "t")
    table.add_columns(lambda batch: form({"half": [one / 2 for one in batch["id"].to_pylist()]}), read_columns=["id"])
    assert values(table, "half") == {one: one / 2 for one in ids(table)}


def test_a_function_on_an_empty_table_is_asked_for_its_columns(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", fragments=0, delete=None)
    table.add_columns(lambda batch: pa.table({"n": pa.array([1] * batch.num_rows, pa.int8())}))
    assert table.schema.field("n").type == pa.int8()
    assert table.manifest.fragments.ids() == []
    table.add_columns(lambda batch: {"m": []}, schema=pa.schema([("m", pa.string())]))
    assert table.schema.field("m").type == pa.string()


def test_columns_from_rows_in_order(table: Table) -> None:
    count = len(ids(table))
    rows = pa.table(
        {
            "number": list(range(count)),
            "nested": [None if one % 5 == 0 else {"a": one, "b": [str(one)] * (one % 3)} for one in range(count)],
        }
    )
    table.add_columns(rows)
    found = table.to_arrow(columns=["number", "nested"])
    assert found.to_pylist() == rows.to_pylist()
    native(table)


def test_rows_in_order_are_read_as_they_come(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", fragments=4, rows=50)
    count = len(ids(table))

    def stream() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, 7):
            yield pa.record_batch({"n": list(range(start, min(count, start + 7)))})

    table.add_columns(stream())
    assert table.to_arrow(columns=["n"])["n"].to_pylist() == list(range(count))


def test_columns_by_key_and_nulls_where_there_is_none(table: Table) -> None:
    rows = [{"id": 3, "colour": "red"}, {"id": 22, "colour": "blue"}, {"id": 777, "colour": "lost"}]
    table.add_columns(rows, on="id")
    found = {number: colour for number, colour in values(table, "colour").items() if colour is not None}
    assert found == {3: "red", 22: "blue"}
    table.add_columns(pa.table({"id": [2, 2, 3], "small": [2, 5, 3], "w": [1, 2, 3]}), on=["id", "small"])
    assert {one: w for one, w in values(table, "w").items() if w is not None} == {2: 1, 3: 3}
    native(table)


def test_columns_of_nulls_write_nothing(table: Table) -> None:
    before = table.version
    with writes_only(table, *METADATA_ONLY):
        table.add_columns(pa.schema([("a", pa.list_(pa.int8())), ("b", pa.struct([("c", pa.string())]))]))
        table.add_columns(pa.field("d", pa.float16()))
        table.add_columns([pa.field("e", pa.string()), pa.field("f", pa.string())])
    assert operations(table, before) == ["Merge"] * 3
    assert set(values(table, "a").values()) == {None}
    table.append([{"id": 900, "a": [1], "d": None}])
    assert values(table, "a")[900] == [1]
    native(table)


def test_new_columns_never_show_what_a_dropped_one_held(table: Table) -> None:
    table.add_columns({"ghost": "id"})
    table.drop_columns("ghost")
    table.add_columns(pa.field("other", pa.int64()))
    assert set(values(table, "other").values()) == {None}


def test_a_column_is_cast_by_writing_it_anew(table: Table) -> None:
    before, old = table.version, values(table, "small")
    field_id = {field.name: field.id for field in table.manifest.header.fields}["small"]
    with writes_only(table, *WITH_DATA):
        done = table.alter_columns({"path": "small", "data_type": pa.int64()})
    assert operations(table, before) == ["Merge"]
    assert done.files == 3
    assert table.schema.names == SCHEMA.names
    assert table.schema.field("small").type == pa.int64()
    assert values(table, "small") == old
    assert {field.name: field.id for field in table.manifest.header.fields}["small"] > field_id
    native(table)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()], ids=str)
def test_a_decimal_becomes_the_float_nearest_to_it(tmp_path: Path, kind: pa.DataType) -> None:
    fields = [("id", pa.int64()), ("d", pa.decimal128(10, 2)), ("x", kind), ("y", kind)]
    table = Table.create(str(tmp_path / "t"), pa.schema(fields))
    numbers = ["0.82", "2.30", "1.71"]
    table.append([{"id": place, "d": Decimal(number)} for place, number in enumerate(numbers)])
    table.update({"x": "d"})
    ids = [{"id": place} for place in range(3)]
    table.merge(ids, on="id").when_matched_update({"y": "target.d"}).execute()
    table.add_columns(lambda rows: pa.table({"z": rows["d"]}), schema=pa.schema([("z", kind)]))
    table.alter_columns({"path": "d", "data_type": kind})
    nearest = pa.array(map(float, numbers)).cast(kind).to_pylist()
    found = table.to_arrow().sort_by("id")
    assert [found[name].to_pylist() for name in "dxyz"] == [nearest] * 4
    assert table.changes(1, columns=["d"]).to_arrow()["d"].to_pylist()[:3] == nearest, "as it was inserted"


@pytest.mark.parametrize(
    ("old", "new", "value", "nearest"),
    [
        (pa.list_(pa.decimal128(3, 2)), pa.list_(pa.float64()), [Decimal("0.82"), None], [0.82, None]),
        (pa.list_(pa.decimal128(3, 2)), pa.list_(pa.float64(), 1), [Decimal("0.82")], [0.82]),
        (
            pa.struct([("a", pa.int8()), ("d", pa.list_(pa.decimal128(3, 2)))]),
            pa.struct([("d", pa.list_(pa.float64())), ("a", pa.int16())]),
            {"a": 1, "d": [Decimal("0.82")]},
            {"d": [0.82], "a": 1},
        ),
    ],
    ids=str,
)
def test_decimals_inside_of_others_become_the_floats_nearest_to_them(
    tmp_path: Path, old: pa.DataType, new: pa.DataType, value: object, nearest: object
) -> None:
    table = Table.create(str(tmp_path / "t"), pa.schema([("d", old), ("x", new)]))
    table.append([{"d": value}, {"d": None}])
    if not pa.types.is_fixed_size_list(new):
        table.update({"x": "d"})
        assert table.to_arrow()["x"].to_pylist() == [nearest, None]
    table.add_columns(lambda rows: pa.table({"z": rows["d"]}), schema=pa.schema([("z", new)]))
    table.alter_columns({"path": "d", "data_type": new})
    found = table.to_arrow()
    assert found["z"].to_pylist() == found["d"].to_pylist() == [nearest, None]


def test_several_alterations_at_once(table: Table) -> None:
    old = table.to_arrow()
    table.alter_columns(
        {"path": "long", "data_type": pa.string(), "name": "text"},
        {"path": "ratio", "data_type": pa.float32()},
        {"path": "id", "nullable": True},
        {"path": "place.label", "name": "sign"},
    )
    schema = table.schema
    assert schema.names == ["text" if name == "long" else name for name in SCHEMA.names]
    assert schema.field("text").type == pa.string()
    assert schema.field("ratio").type == pa.float32()
    assert schema.field("id").nullable
    assert [one.name for one in schema.field("place").type] == ["x", "sign"]
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == old["long"].to_pylist()
    native(table)


def test_names_and_nullability_are_the_schemas_alone(table: Table) -> None:
    before = table.version
    with writes_only(table, *METADATA_ONLY):
        table.alter_columns({"path": "name", "name": "title"}, {"path": "id", "nullable": True})
        table.alter_columns({"path": "id", "nullable": False})
        done = table.alter_columns({"path": "id", "nullable": False}, {"path": "small", "data_type": pa.int32()})
    assert not done.changed
    assert operations(table, before) == ["Project"] * 2
    assert not table.schema.field("id").nullable


def test_nulls_inside_of_a_null_are_no_nulls(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("x", pa.int32())])
    table = Table.create(str(tmp_path / "t"), pa.schema([pa.field("p", kind)]), durability="os")
    table.append(pa.table({"p": pa.array([{"x": 1}, None], kind)}))
    table.alter_columns({"path": "p.x", "nullable": False})
    assert not table.schema.field("p").type.field("x").nullable
    with pytest.raises(InvalidInput, match="'p'"):
        table.alter_columns({"path": "p", "nullable": False})


def test_drop_and_rename_write_nothing_but_the_version(table: Table) -> None:
    before, names = table.version, values(table, "name")
    with writes_only(table, *METADATA_ONLY):
        table.drop_columns(["small", "place.label"])
        table.drop_columns("tags")
        table.rename_columns({"name": "long", "long": "name", "place.x": "east"})
    assert operations(table, before) == ["Project"] * 3
    assert values(table, "long") == names
    assert table.schema.names == [one for one in _swapped(SCHEMA.names) if one not in ("small", "tags")]
    assert [one.name for one in table.schema.field("place").type] == ["east"]
    native(table)


def _swapped(names: list[str]) -> list[str]:
    return [{"name": "long", "long": "name"}.get(one, one) for one in names]


@pytest.mark.parametrize("name", sorted(SYSTEM_COLUMNS))
def test_names_that_lance_keeps_for_itself_are_no_columns(tmp_path: Path, name: str) -> None:
    schema = pa.schema([(name, pa.int64()), ("id", pa.int64())])
    with pytest.raises(OSError, match="reserved"):
        lance.write_dataset(schema.empty_table(), tmp_path / "native")
    with pytest.raises(InvalidInput, match=name):
        Table.create(tmp_path / "table", schema)
    assert not (tmp_path / "table").exists()
    nested = Table.create(tmp_path / "table", pa.schema([("in", pa.struct([(name, pa.int64())]))]))
    nested.append([{"in": {name: 1}}])
    assert nested.to_arrow(filter="true").to_pylist() == [{"in": {name: 1}}]


@pytest.mark.parametrize(("name", "said"), [("", "has no name"), ("*", "means all columns")])
def test_names_by_which_native_code_finds_no_column_are_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Table.create(tmp_path / "table", pa.schema([("id", pa.int64()), (name, pa.int64())]))
    table = Table.create(tmp_path / "table", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidInput, match="cannot be the name of a column"):
        table.rename_columns({"id": name})


def test_rows_keep_a_column_that_they_have_a_value_for(table: Table) -> None:
    """Of rows without any file nothing can be read, nor of the table that they are in."""
    table.append([{"id": 1_000}])
    before = table.version
    rest = [one for one in table.schema.names if one not in ("id", "name")]
    with pytest.raises(InvalidInput, match="never given one for 'name'"):
        table.drop_columns(["id", *rest])
    table.add_columns(pa.schema([("later", pa.string())]))
    with pytest.raises(InvalidInput, match="never given one for 'later'"):
        table.drop_columns([one for one in table.schema.names if one != "later"])
    assert table.version == before + 1
    table.update({"later": "NULL"})
    table.drop_columns([one for one in table.schema.names if one != "later"])
    assert set(table.to_arrow()["later"].to_pylist()) == {None}
    native(table)


def test_a_column_is_dropped_once(table: Table) -> None:
    assert table.drop_columns(["name", "name"]).notes["dropped"] == "name"


class _Counted(list[Field]):
    """Fields of a schema that count how often somebody went through all of them."""

    def __init__(self, columns: int) -> None:
        super().__init__(Field(id=at, name=f"c{at}", parent_id=-1, logical_type="int64") for at in range(columns))
        self.times = 0

    def __iter__(self) -> Iterator[Field]:
        self.times += 1
        return super().__iter__()


def test_however_many_columns_are_renamed_the_schema_is_gone_through_a_few_times() -> None:
    times = []
    for columns in (1, 50):
        fields = _Counted(columns)
        found = all_named(fields, [f"c{at}" for at in range(columns)])
        assert [one.name for one in preparing.renamed(fields, {one.id: f"new{one.id}" for one in found})] == [
            f"new{at}" for at in range(columns)
        ]
        times.append(fields.times)
    assert times[0] == times[1]


def test_no_field_is_dropped_out_of_a_packed_struct(tmp_path: Path) -> None:
    """The values of the dropped field were read as those of the next."""
    packed = pa.field(
        "p", pa.struct([("a", pa.int32()), ("b", pa.int32())]), metadata={"lance-encoding:packed": "true"}
    )
    table = Table.create(tmp_path / "t", pa.schema([pa.field("id", pa.int64()), packed]))
    table.append([{"id": 1, "p": {"a": 1, "b": 2}}])
    with pytest.raises(InvalidInput, match="'p' are stored packed together"):
        table.drop_columns("p.a")
    table.rename_columns({"p.a": "c"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "p": {"c": 1, "b": 2}}]
    table.drop_columns("p")
    assert table.to_arrow().to_pylist() == [{"id": 1}]


def test_what_is_inside_of_a_blob_is_neither_dropped_nor_renamed(tmp_path: Path) -> None:
    """It is a struct to the schema; a TypeError came out."""
    table = Table.create(tmp_path / "t", pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")]))
    with pytest.raises(InvalidInput, match="BlobType"):
        table.drop_columns("b.uri")
    with pytest.raises(InvalidInput, match="BlobType"):
        table.rename_columns({"b.uri": "address"})
    assert table.version == 1


def test_nothing_to_drop_or_rename_makes_no_version(table: Table) -> None:
    version = table.version
    for done in (
        table.drop_columns([]),
        table.rename_columns({}),
        table.rename_columns({"id": "id"}),
        table.alter_columns(),
        table.add_columns(pa.schema([])),
        table.add_columns({}, on=None),
    ):
        assert not done.changed
    assert table.version == version


def test_indices_follow_a_new_name_and_go_with_their_column(table: Table) -> None:
    table.create_index("small")
    table.create_index("name")
    table.rename_columns({"small": "little"})
    assert "ScalarIndexQuery" in native(table).scanner(filter="little = 3").explain_plan(True)
    assert ids(table, filter="little = 3") == [3]
    done = table.alter_columns({"path": "little", "data_type": pa.int64()})
    assert done.notes["indices_dropped"] == ["small_idx"]
    assert table.drop_columns("name").notes["indices_dropped"] == ["name_idx"]
    assert table.manifest.indices == ()
    assert ids(table, filter="little = 3") == [3]


def test_replace_a_column_everywhere(table: Table) -> None:
    before, old = table.version, by_id(table.to_arrow())
    wanted = [f"new {one}" for one in ids(table)]
    with writes_only(table, *WITH_DATA):
        done = table.replace_column("name", wanted)
    assert operations(table, before) == ["DataReplacement"]
    assert (done.rows, done.files) == (len(wanted), 3)
    assert [row["name"] for row in table.to_arrow().to_pylist()] == wanted
    assert [{**row, "name": None} for row in by_id(table.to_arrow())] == [{**row, "name": None} for row in old]
    native(table)


@pytest.mark.parametrize("column", ["place", "deep", "tags", "vector", "kind", "price", "at", "raw"])
def test_replace_columns_of_every_kind_in_some_fragments(table: Table, column: str) -> None:
    kind = SCHEMA.field(column).type
    there = [one for one in ids(table) if 10 <= one < 20]
    other = some_rows(100, 500).column(column).slice(0, len(there)).combine_chunks()
    kept = {one: value for one, value in values(table, column).items() if one not in there}
    table.replace_column(column, pa.chunked_array([other.slice(0, 3), other.slice(3)], kind), fragments=[1])
    found = values(table, column)
    assert [found[one] for one in there] == other.to_pylist()
    assert {one: found[one] for one in kept} == kept
    native(table)


def test_an_index_does_not_answer_for_replaced_values(table: Table) -> None:
    table.create_index("small")
    table.replace_column("small", [-1] * sum(1 for one in ids(table) if one >= 20), fragments=[2])
    assert ids(table, filter="small = -1") == [one for one in ids(table) if one >= 20]
    for number in ids(table):
        assert ids(table, filter=f"small = {number}") == ([number] if number < 20 and number % 4 != 1 else [])


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (lambda t: t.add_columns({"id": "1"}), "'id'"),
        (lambda t: t.add_columns({"x.y": "1"}), "x.y"),
        (lambda t: t.add_columns({"": "1"}), "''"),
        (lambda t: t.add_columns({"x": "nope + 1"}), "nope"),
        (lambda t: t.add_columns({"x": "1 +"}), "1 +"),
        (lambda t: t.add_columns({"x": " "}), "'x'"),
        (lambda t: t.add_columns(lambda batch: {"x": [1]}, read_columns=["nope"]), "nope"),
        (lambda t: t.add_columns(lambda batch: {"x": [1]}), "1 rows"),
        (lambda t: t.add_columns(lambda batch: {"name": [1] * batch.num_rows}), "name"),
        (lambda t: t.add_columns(lambda batch: 5), "int"),
        (lambda t: t.add_columns([{"x": 1}], schema=pa.schema([])), "schema"),
        (lambda t: t.add_columns([{"nope": 1, "x": 1}], on="nope"), "nope"),
        (lambda t: t.add_columns([{"x": 1}], on="id"), "'id'"),
        (lambda t: t.add_columns([{"id": 1, "x": 1}, {"id": 1, "x": 2}], on="id"), "id=1"),
        (lambda t: t.add_columns(pa.schema([pa.field("x", pa.int8(), nullable=False)])), "'x'"),
        (lambda t: t.add_columns([pa.field("x", pa.int8()), pa.field("x", pa.int8())]), "'x'"),
        (lambda t: t.add_columns(pa.field("name", pa.int8())), "'name'"),
        (lambda t: t.alter_columns({"path": "nope", "name": "x"}), "nope"),
        (lambda t: t.alter_columns({"name": "x"}), "path"),
        (lambda t: t.alter_columns({"path": "id", "colour": "red"}), "colour"),
        (lambda t: t.alter_columns({"path": "id", "name": "name"}), "'name'"),
        (lambda t: t.alter_columns({"path": "id", "data_type": "int32"}), "id"),
        (lambda t: t.alter_columns({"path": "name", "nullable": False}), "'name'"),
        (lambda t: t.alter_columns({"path": "tags", "data_type": pa.int8()}), "'tags'"),
        (lambda t: t.alter_columns({"path": "place.x", "data_type": pa.int64()}), "place.x"),
        (lambda t: t.alter_columns({"path": "id", "name": "a"}, {"path": "id", "name": "b"}), "twice"),
        (lambda t: t.drop_columns("nope"), "nope"),
        (lambda t: t.drop_columns(["id", "place.nope"]), "nope"),
        (lambda t: t.drop_columns(SCHEMA.names), "columns"),
        (lambda t: t.drop_columns(["place.x", "place.label"]), "place"),
        (lambda t: t.drop_columns("tags.item"), "tags.item"),
        (lambda t: t.rename_columns({"nope": "x"}), "nope"),
        (lambda t: t.rename_columns({"id": "name"}), "'name'"),
        (lambda t: t.rename_columns({"id": "a.b"}), "a.b"),
        (lambda t: t.rename_columns({"id": "_rowid"}), "_rowid"),
        (lambda t: t.add_columns({"_rowaddr": "id"}), "_rowaddr"),
        (lambda t: t.alter_columns({"path": "id", "name": "_rowoffset"}), "_rowoffset"),
        (lambda t: t.overwrite(pa.table({"_rowid": [1]})), "_rowid"),
        (lambda t: t.rename_columns({"tags.item": "x"}), "tags.item"),
        (lambda t: t.rename_columns(["id"]), "id"),
        (lambda t: t.replace_column("nope", [1]), "nope"),
        (lambda t: t.replace_column("name", [1, 2]), "name"),
        (lambda t: t.replace_column("name", pa.table({"x": [1], "name": ["a"]})), "x"),
        (lambda t: t.replace_column("name", ["a"], fragments=[9]), "9"),
        (lambda t: t.replace_column("id", pa.nulls(22, pa.int64())), "'id'"),
    ],
)
def test_bad_input_is_named_and_nothing_written(tmp_path: Path, bad: Any, named: str) -> None:
    table = verb_table(tmp_path / "t")
    version = table.version
    with writes_only(table), pytest.raises(InvalidInput) as caught:
        bad(table)
    assert named in str(caught.value)
    assert table.version == version


@pytest.mark.parametrize("count", [21, 23])
def test_rows_that_are_not_as_many_are_refused(tmp_path: Path, count: int) -> None:
    table = verb_table(tmp_path / "t")
    assert len(ids(table)) == 22
    version = table.version
    attempts: list[Callable[[], object]] = [
        lambda: table.add_columns(pa.table({"n": list(range(count))})),
        lambda: table.replace_column("small", list(range(count))),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="more" if count > 22 else "fewer"):
            attempt()
    assert table.version == version
    empty = verb_table(tmp_path / "empty", fragments=0, delete=None)
    with pytest.raises(InvalidInput, match="none"):
        empty.add_columns(pa.table({"n": [1]}))


def test_values_that_do_not_fit_are_refused_when_met(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    version = table.version
    with pytest.raises(InvalidInput, match="'ratio'"):
        table.alter_columns({"path": "ratio", "data_type": pa.int32()})
    with pytest.raises(InvalidInput, match="'n'"):
        table.add_columns(
            lambda batch: {"n": [None if one == 22 else one for one in batch["id"].to_pylist()]},
            schema=pa.schema([pa.field("n", pa.int64(), nullable=False)]),
        )
    assert table.version == version
    assert table.schema == SCHEMA


class Meddling:
    """Rows for `add_columns` or `replace_column` during which somebody else changes the table."""

    def __init__(self, table: Table, meddle: Any, batch: dict[str, Any]) -> None:
        self.table, self.meddle, self.batch = table, meddle, batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.meddle(Table.open(self.table.store))
        yield pa.record_batch(self.batch)


def test_expressions_are_computed_for_what_others_append_meanwhile(tmp_path: Path) -> None:
    """A Merge replaces everything: it is prepared again, and writes only what is new."""
    table = verb_table(tmp_path / "t")
    meddled: list[int] = []

    def slow(batch: pa.RecordBatch) -> dict[str, list[int]]:
        if not meddled:
            meddled.append(Table.open(table.store).append(some_rows(5, 100)).version)
        calls.append(batch["id"].to_pylist())
        return {"n": [one + 1 for one in batch["id"].to_pylist()]}

    calls: list[list[int]] = []
    done = table.add_columns(slow, read_columns=["id"])
    assert done.attempts == 2
    assert values(table, "n") == {one: one + 1 for one in [*range(30), *range(100, 105)] if one % 4 != 1 or one >= 100}
    # Each row was computed once, also those that were there before.
    assert sorted(one for call in calls for one in call) == sorted(ids(table))
    native(table)


def test_rows_in_order_do_not_slip_when_others_append(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    rows = Meddling(table, lambda other: other.append(some_rows(5, 100)), {"n": list(range(22))})
    with pytest.raises(IncompatibleConflict, match="order"):
        table.add_columns(iter(rows))
    assert "n" not in table.schema.names


def test_rows_in_order_stay_right_when_others_delete(tmp_path: Path) -> None:
    """The values are for places, and places do not move; a stream need not be read twice."""
    table = verb_table(tmp_path / "t")
    wanted = dict(zip(ids(table), range(22), strict=True))
    rows = Meddling(table, lambda other: other.delete("id in (0, 12)"), {"n": list(range(22))})
    done = table.add_columns(iter(rows))
    assert done.attempts == 2
    assert values(table, "n") == {one: number for one, number in wanted.items() if one not in (0, 12)}
    native(table)


def test_a_replaced_column_stays_right_when_others_delete_and_append(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    wanted = {one: f"n{number}" for number, one in enumerate(ids(table))}

    def meddle(other: Table) -> None:
        other.delete("id in (0, 12)")
        other.append(some_rows(2, 100))

    rows = Meddling(table, meddle, {"name": list(wanted.values())})
    table.replace_column("name", iter(rows))
    kept = {one: name for one, name in values(table, "name").items() if one < 100}
    assert kept == {one: name for one, name in wanted.items() if one not in (0, 12)}
    native(table)


def test_a_replaced_column_does_not_slip_when_rows_move(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    old = values(table, "name")
    rows = Meddling(table, lambda other: other.compact(), {"name": ["x"] * 22})
    with pytest.raises(IncompatibleConflict, match="moved or removed"):
        table.replace_column("name", iter(rows))
    assert values(table, "name") == old


@pytest.mark.parametrize("stable", [False, True])
def test_a_replaced_column_leaves_out_no_row_that_an_update_moved(tmp_path: Path, stable: bool) -> None:
    """Its fragment is still there, but the row is in another one, for which there are no values."""
    table = verb_table(tmp_path / "t", stable_row_ids=stable)
    old = values(table, "name")
    meddle_before_commit(table, lambda other: other.update({"ratio": "0.5"}, where="id = 12", mode="rows"))
    with pytest.raises(IncompatibleConflict, match="moved or removed"):
        table.replace_column("name", ["x"] * 22)
    assert values(table, "name") == old


def test_a_replaced_column_is_written_on_when_a_merge_only_removed_rows(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    gone = pa.table({"id": [0, 12]})
    meddle_before_commit(table, lambda other: other.merge(gone, on="id").when_matched_delete().execute())
    done = table.replace_column("name", ["x"] * 22)
    assert done.attempts == 2
    assert values(table, "name") == dict.fromkeys(ids(table), "x")
    assert len(ids(table)) == 20
    native(table)


@pytest.mark.parametrize(
    "given",
    [
        lambda table: table.replace_column("small", [7] * 22),
        lambda table: table.add_columns(pa.table({"n": list(range(22))})),
    ],
    ids=["replaced", "in order"],
)
def test_rows_that_a_restore_brings_back_get_no_values_that_were_not_given(tmp_path: Path, given: Any) -> None:
    """Where a row was deleted, anything stands in the files."""
    table = verb_table(tmp_path / "t", delete=None)
    with_all, old = table.version, values(table, "small")
    table.delete(DELETED)
    meddle_before_commit(table, lambda other: (touch(other), other.restore(with_all)))
    with pytest.raises(IncompatibleConflict, match="back"):
        given(table)
    assert values(table, "small") == old
    assert "n" not in table.schema.names


def test_new_columns_are_computed_for_rows_that_a_restore_brings_back(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t", delete=None)
    with_all = table.version
    table.delete(DELETED)
    meddle_before_commit(table, lambda other: (touch(other), other.restore(with_all)))
    done = table.add_columns({"n": "id + 1"})
    assert done.attempts == 2
    assert values(table, "n") == {one: one + 1 for one in range(30)}


def renamed(table: Table) -> None:
    """Another column gets the name that `small` had; and rows come, for which a change is prepared again."""
    table.append(some_rows(2, 100))
    table.rename_columns({"small": "other", "id": "small"})


def test_new_columns_are_computed_from_the_columns_that_have_the_names_now(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    meddle_before_commit(table, renamed)
    done = table.add_columns({"n": "small + 1"})
    assert done.attempts == 2
    found = table.to_arrow(columns=["small", "n"])
    assert found["n"].to_pylist() == [one + 1 for one in found["small"].to_pylist()]


def test_a_cast_takes_the_values_of_the_column_that_has_the_name_now(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    numbers = [*ids(table), 100, 101]
    table.replace_column("small", [-1] * 22)
    meddle_before_commit(table, renamed)
    done = table.alter_columns({"path": "small", "data_type": pa.float64()})
    assert done.attempts == 2
    assert table.to_arrow(columns=["small"])["small"].to_pylist() == numbers


def test_plain_rows_of_a_merge_take_the_types_that_the_columns_have_now(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    meddle_before_commit(
        table,
        lambda other: other.alter_columns(
            {"path": "id", "data_type": pa.int32()}, {"path": "small", "data_type": pa.int16()}
        ),
    )
    rows = [{"id": 0, "small": 70}, {"id": 100, "small": 80}]
    done = table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert done.attempts == 2
    found = values(table, "small")
    assert (found[0], found[100]) == (70, 80)
    native(table)


def test_no_nulls_come_into_a_column_that_others_made_required_meanwhile(tmp_path: Path) -> None:
    """Nobody could read the table any more."""
    table = verb_table(tmp_path / "t", delete=None)
    table.replace_column("name", ["x"] * 30)
    meddle_before_commit(table, lambda other: other.alter_columns({"path": "name", "nullable": False}))
    with pytest.raises(InvalidInput, match="'name'"):
        table.replace_column("name", [None] * 30)
    assert values(table, "name") == dict.fromkeys(range(30), "x")


def touch(table: Table) -> object:
    """Something that a change of columns is prepared again for."""
    return table.update({"small": "small"}, where="id = 0", mode="columns")


def test_a_replaced_column_is_not_mistaken_for_a_new_one_of_its_name(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")

    def meddle(other: Table) -> None:
        other.drop_columns("small")
        other.add_columns({"small": "cast(id as int)"})

    with pytest.raises(IncompatibleConflict):
        table.replace_column("small", iter(Meddling(table, meddle, {"small": pa.array([0] * 22, pa.int32())})))
    assert values(table, "small") == {one: one for one in ids(table)}


def test_a_cast_over_a_changed_column_is_done_again(tmp_path: Path) -> None:
    table = verb_table(tmp_path / "t")
    table.add_columns(lambda batch: {"n": batch["id"].to_pylist()}, read_columns=["id"])
    meddle_before_commit(table, lambda other: other.update({"n": "n + 1000"}, where="id < 5", mode="columns"))
    done = table.alter_columns({"path": "n", "data_type": pa.int32()})
    assert done.attempts == 2
    assert values(table, "n") == {one: one + 1000 if one < 5 else one for one in ids(table)}


def test_nulls_that_others_append_meanwhile_are_seen(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "t"), pa.schema([("a", pa.int64())]), durability="os")
    table.append([{"a": 1}])
    meddle_before_commit(table, lambda other: other.append([{"a": None}]))
    with pytest.raises(InvalidInput, match="'a' has nulls"):
        table.alter_columns({"path": "a", "nullable": False})
    assert table.schema.field("a").nullable
