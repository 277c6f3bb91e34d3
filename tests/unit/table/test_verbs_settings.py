"""Settings, metadata, counters, bases and going back: what each verb promises."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest

from seiche import IncompatibleConflict, InvalidInput, NotFound
from seiche.table.format.index_details import MEM_WAL, find, mem_wal_details
from seiche.table.format.manifest_pb2 import BasePath
from seiche.table.operations import UpdateConfig, UpdateMap
from seiche.table.table import Table
from tests.verb_table import METADATA_ONLY, counting, files, ids, native, operations, verb_table, writes_only

SHARD = "12345678-1234-5678-1234-567812345678"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return verb_table(tmp_path / "t", config={"a": "1", "b": "2"})


def test_config_is_set_changed_and_deleted_by_key(table: Table) -> None:
    before = table.version
    with writes_only(table, *METADATA_ONLY):
        done = table.update_config({"a": "9", "b": None, "c": "3"})
    assert (done.version, done.changed) == (before + 1, True)
    assert dict(table.manifest.header.config) == {"a": "9", "c": "3"}
    assert native(table).config() == {"a": "9", "c": "3"}
    assert operations(table, before) == ["UpdateConfig"]


def test_config_is_replaced_as_a_whole(table: Table) -> None:
    table.update_config({"z": "26", "gone": None}, replace=True)
    assert dict(table.manifest.header.config) == {"z": "26"}
    table.update_config({}, replace=True)
    assert dict(table.manifest.header.config) == {}


def test_metadata_of_table_schema_and_field(table: Table) -> None:
    before = table.version
    with writes_only(table, *METADATA_ONLY):
        table.update_metadata({"owner": "shop"})
        table.update_schema_metadata({"unit": "cents"})
        table.update_field_metadata("place.x", {"axis": "east", "other": "y"})
        table.update_field_metadata("place.x", {"axis": None})
        table.update_field_metadata("id", {"key": "1"}, replace=True)
    assert operations(table, before) == ["UpdateConfig"] * 5
    plain = native(table)
    assert plain.metadata() if callable(plain.metadata) else plain.metadata == {"owner": "shop"}
    assert plain.schema.metadata[b"unit"] == b"cents"
    assert plain.schema.field("place").type.field("x").metadata == {b"other": b"y"}
    assert plain.schema.field("id").metadata == {b"key": b"1"}


def test_metadata_that_says_how_values_are_stored_stays_as_it_is(tmp_path: Path) -> None:
    """A struct that was called packed afterwards was read as nulls, others could not be read at all."""
    fields = [("s", pa.struct([("a", pa.int32())])), ("b", pa.large_binary()), ("t", pa.string())]
    table = Table.create(tmp_path / "t", pa.schema([*fields, lance.blob_field("blob")]))
    table.update_field_metadata("b", {"lance-encoding:blob": "true"})  # nothing is stored yet
    table.update_field_metadata("b", {"lance-encoding:blob": None})
    table.append([{"s": {"a": 1}, "b": b"b", "t": "{}", "blob": b"blob"}])
    before = table.version
    for column, metadata in {
        "s": {"packed": "true"},
        "b": {"lance-encoding:blob": "true"},
        "t": {"ARROW:extension:name": "arrow.json"},
        "blob": {"mine": "1"},
    }.items():
        with pytest.raises(InvalidInput, match="says how its values are stored"):
            table.update_field_metadata(column, metadata, replace=True)
    assert table.version == before
    kept = {**table.manifest.header.fields[4].metadata, "mine": b"1"}
    table.update_field_metadata("blob", {key: value.decode() for key, value in kept.items()}, replace=True)
    table.update_field_metadata("t", {"ARROW:extension:name": "shop.code", "lance-encoding:compression": "zstd"})
    rows = native(table).scanner(blob_handling="all_binary").to_table().to_pylist()
    assert rows == [{"s": {"a": 1}, "b": b"b", "t": "{}", "blob": b"blob"}]


def test_what_is_so_already_makes_no_version(table: Table) -> None:
    table.update_metadata({"owner": "shop"})
    table.update_schema_metadata({"unit": "cents"})
    table.update_field_metadata("id", {"key": "1"})
    table.mark_generations({SHARD: 3})
    version = table.version
    for done in (
        table.update_config({"a": "1", "missing": None}),
        table.update_config({"a": "1", "b": "2"}, replace=True),
        table.update_metadata({"owner": "shop"}),
        table.update_schema_metadata({}),
        table.update_field_metadata("id", {"key": "1"}),
        table.mark_generations({SHARD: 2}),
        table.mark_generations({}),
        table.add_bases(),
        table.reserve_fragments(0),
        table.restore(version),
    ):
        assert not done.changed
        assert "nothing to do" in repr(done)
    assert table.version == version


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (lambda t: t.update_config({"": "x"}), "''"),
        (lambda t: t.update_config({1: "x"}), "1"),
        (lambda t: t.update_config({"a": 5}), "'a'"),
        (lambda t: t.update_config("a"), "'a'"),
        (lambda t: t.update_field_metadata("nope", {"a": "b"}), "nope"),
        (lambda t: t.update_field_metadata("place.nope", {"a": "b"}), "nope"),
        (lambda t: t.update_field_metadata("", {"a": "b"}), "''"),
        (lambda t: t.reserve_fragments(-1), "-1"),
        (lambda t: t.reserve_fragments(True), "True"),
        (lambda t: t.reserve_fragments("3"), "'3'"),
        (lambda t: t.mark_generations({"no uuid": 1}), "no uuid"),
        (lambda t: t.mark_generations({SHARD: -1}), "-1"),
        (lambda t: t.mark_generations({SHARD: 1, UUID(SHARD): 2}), "twice"),
        (lambda t: t.add_bases(""), "path"),
        (lambda t: t.add_bases({"name": "x"}), "x"),
        (lambda t: t.add_bases({"path": "/p", "colour": "red"}), "colour"),
        (lambda t: t.add_bases({"path": "/p", "id": "1"}), "'1'"),
        (lambda t: t.add_bases("/same", "/same"), "/same"),
        (lambda t: t.restore(0), "0"),
        (lambda t: t.restore(-3), "-3"),
        (lambda t: t.restore(99), "99"),
        (lambda t: t.restore(2.5), "2.5"),
        (lambda t: t.restore(None), "None"),
    ],
)
def test_bad_input_is_named_and_nothing_written(table: Table, bad: object, named: str) -> None:
    version = table.version
    with writes_only(table), pytest.raises(InvalidInput) as caught:
        bad(table)  # type: ignore[operator]
    assert named in str(caught.value)
    assert table.version == version


def test_two_writers_of_one_setting_are_told(table: Table) -> None:
    """The second one may have wanted to build on the value that was there: it must look first."""
    read = table.version
    Table.open(table.store).update_config({"a": "first"})
    with pytest.raises(IncompatibleConflict, match=r"config\.a"):
        table.commit(UpdateConfig(UpdateMap({"a": "second"})), read_version=read)
    table.update_config({"b": "unharmed"})
    assert dict(table.manifest.header.config) == {"a": "first", "b": "unharmed"}


def test_reserved_ids_are_given_to_nobody_else(table: Table) -> None:
    with writes_only(table, *METADATA_ONLY):
        done = table.reserve_fragments(3)
    assert list(done.notes["ids"]) == [3, 4, 5]  # type: ignore[call-overload]
    assert list(table.reserve_fragments(1).notes["ids"]) == [6]  # type: ignore[call-overload]
    table.append(table.to_arrow().slice(0, 1))
    assert table.manifest.fragments.ids() == [0, 1, 2, 7]
    assert "ReserveFragments" in operations(table, 0)


def test_generations_never_fall(table: Table) -> None:
    other = UUID(int=7)
    with writes_only(table, *METADATA_ONLY):
        table.mark_generations({SHARD: 3, other: 1})
    done = table.mark_generations({SHARD: 2, other: 5})
    assert done.changed
    entry = find(table.manifest.indices, MEM_WAL)
    assert entry is not None
    marked = {UUID(bytes=one.shard.uuid): one.generation for one in mem_wal_details(entry).compacted_sstables}
    assert marked == {UUID(SHARD): 3, other: 5}
    assert operations(table, done.version - 1) == ["UpdateMemWalState"]
    native(table)


def test_bases_come_in_every_form(table: Table, tmp_path: Path) -> None:
    import lance

    before = table.version
    path = str(tmp_path / "elsewhere")
    with writes_only(table, *METADATA_ONLY):
        table.add_bases(
            path,
            {"path": path + "2", "name": "two", "is_dataset_root": True},
            BasePath(id=40, path=path + "3"),
            lance.DatasetBasePath(path + "4", "four"),
        )
    assert operations(table, before) == ["UpdateBases"]
    bases = {base.path: (base.id, base.name, base.is_dataset_root) for base in table.manifest.header.base_paths}
    assert bases == {path: (1, "", False), path + "2": (2, "two", True), path + "3": (40, "", False)} | {
        path + "4": (41, "four", False)
    }
    native(table)
    with pytest.raises(InvalidInput, match="two"):
        table.add_bases({"path": "/x", "name": "two"})


def test_restore_brings_everything_back(table: Table) -> None:
    at = table.version
    rows, schema = table.to_arrow(), table.schema
    table.append(rows.slice(0, 2))
    table.drop_columns("name")
    table.update_config({"a": "changed"})
    before = table.version
    with writes_only(table, *METADATA_ONLY):
        done = table.restore(at)
    assert done.version == before + 1
    assert done.notes["restored"] == at
    assert operations(table, before) == ["Restore"]
    assert table.to_arrow() == rows
    assert table.schema == schema
    assert table.manifest.header.config["a"] == "1"
    native(table)
    table.append(rows.slice(0, 1))
    assert len(ids(table)) == rows.num_rows + 1


def test_restore_by_tag_and_of_what_is_gone(table: Table) -> None:
    import lance

    lance.dataset(table.store.native_uri()).tags.create("good", 2)
    assert table.restore("good").notes["restored"] == 2
    assert len(ids(table)) == 10
    with pytest.raises(NotFound, match="bad"):
        table.restore("bad")
    version = table.version
    path = Path(table.store.native_uri())
    (path / "_versions" / f"{2**64 - 1 - 1:020d}.manifest").unlink()
    with writes_only(Table.open(table.store)), pytest.raises(NotFound):
        table.restore(1)
    assert table.version == version


def test_each_costs_one_version_and_few_requests(tmp_path: Path) -> None:
    verb_table(tmp_path / "t")
    table, store = counting(tmp_path / "t")
    table.update_config({"warm": "1"})
    verbs: list[Callable[[], object]] = [
        lambda: table.update_config({"a": "b"}),
        lambda: table.update_metadata({"a": "b"}),
        lambda: table.reserve_fragments(2),
        lambda: table.rename_columns({"name": "title"}),
        lambda: table.drop_columns("title"),
        lambda: table.add_bases("/nowhere"),
        lambda: table.restore(3),
    ]
    before = {one for one in files(tmp_path / "t") if one.startswith("data/")}
    for verb in verbs:
        store.reset()
        verb()
        # The transaction, the manifest and the hint; and for a restore a tag that keeps clean-up away meanwhile.
        assert store.writes <= (5 if verb is verbs[-1] else 3), store.counts
    clone = table.clone(str(tmp_path / "clone"), shallow=True)
    assert {one for one in files(tmp_path / "t") if one.startswith("data/")} == before
    assert not [one for one in files(tmp_path / "clone") if one.startswith("data/")]
    assert clone.to_arrow() == table.to_arrow()
