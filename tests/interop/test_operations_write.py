"""Every operation, made by us: pylance opens, scans and validates the version, goes on from it, and we read that."""

import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import lance
import lance.file
import pyarrow as pa
import pytest
from pyroaring import BitMap

from seiche.table.data.fragments import fragment_from_lance
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format import roaring, schema
from seiche.table.format.index_details import MEM_WAL, find, mem_wal_details
from seiche.table.format.row_ids import RowIds
from seiche.table.operations import (
    OPERATIONS,
    REWRITE_COLUMNS,
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    MergedGeneration,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)
from seiche.table.versions.naming import Naming
from tests.plain_table import PlainTable, native

SCHEMA = pa.schema(
    [
        pa.field("a", pa.int64(), nullable=False),
        pa.field("b", pa.int64()),
        pa.field("s", pa.struct([pa.field("x", pa.int32()), pa.field("tags", pa.list_(pa.string()))])),
    ]
)


def data(start: int, stop: int) -> pa.Table:
    rows = [{"a": one, "b": 10 * one, "s": {"x": one, "tags": [str(one)]}} for one in range(start, stop)]
    return pa.Table.from_pylist(rows, SCHEMA)


def column(table: PlainTable, name: str, **scan: object) -> list[object]:
    return sorted(table.lance().to_table(columns=[name], **scan)[name].to_pylist())


def index_names(table: PlainTable) -> list[str]:
    return sorted(index.name for index in table.lance().describe_indices())


@pytest.fixture(params=["plain", "stable"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> PlainTable:
    """Rows 0 to 9 in the fragments 0 and 1, and an index on each of the columns a and b."""
    made = PlainTable(tmp_path / "table", stable_row_ids=request.param == "stable")
    made.create(data(0, 10), rows_per_file=5)
    made.commit(CreateIndex((made.index("a", "a_idx", [0, 1]), made.index("b", "b_idx", [0, 1]))))
    return made


def append(table: PlainTable) -> str:
    table.commit(Append(table.write(data(10, 13))))
    assert column(table, "a") == [*range(13)]
    assert column(table, "a", filter="b >= 90") == [9, 10, 11, 12]
    return Append.name


def delete(table: PlainTable) -> str:
    table.commit(Delete((table.deletion(0, "a = 1"),), (1,), "a = 1 or a >= 5"))
    assert column(table, "a") == [0, 2, 3, 4]
    assert column(table, "a", filter="b in (10, 20, 60)") == [2]
    return Delete.name


def overwrite(table: PlainTable) -> str:
    new = pa.table({"a": ["x", "y"]})
    fields = tuple(schema.from_arrow(new.schema))
    written = table.write(new, schema=new.schema, mode="overwrite")
    table.commit(Overwrite(written, fields, {"k": b"v"}, {"key": "value"}))
    assert column(table, "a") == ["x", "y"]
    assert table.lance().schema.metadata == {b"k": b"v"}
    assert table.lance().config() == {"key": "value"}
    assert table.manifest.fragments.ids() == [2]
    return Overwrite.name


def create_index(table: PlainTable) -> str:
    (old, other) = table.manifest.indices
    table.commit(Append(table.write(data(10, 13))))
    table.commit(CreateIndex((table.index("a", "a_idx", [0, 1, 2]),), (old,)))
    assert index_names(table) == ["a_idx", "b_idx"]
    assert "ScalarIndexQuery" in table.lance().scanner(filter="a = 11").explain_plan()
    assert column(table, "a", filter="a = 11") == [11]
    table.commit(CreateIndex(removed_indices=(other,)))
    assert index_names(table) == ["a_idx"]
    return CreateIndex.name


def rewrite(table: PlainTable) -> str:
    (group,) = table.compaction()
    table.commit(ReserveFragments(len(group.new_fragments)))
    for offset, fragment in enumerate(group.new_fragments):
        fragment.id = 2 + offset
    table.commit(Rewrite((group,)))
    assert table.manifest.fragments.ids() == [2]
    assert column(table, "a") == [*range(10)]
    assert column(table, "a", filter="b in (30, 70)") == [3, 7]
    return Rewrite.name


def rewrite_in_the_flat_form(table: PlainTable) -> str:
    (group,) = table.compaction()
    flat = RewriteGroup(old_fragments=group.old_fragments, new_fragments=group.new_fragments)
    table.commit(Rewrite((flat,), flat=True))
    stored = table.read(table.newest()).transaction
    assert stored is not None
    assert [one.id for one in stored.rewrite.groups[0].new_fragments] == [2]
    assert not stored.rewrite.old_fragments
    assert column(table, "a") == [*range(10)]
    return Rewrite.name


def merge(table: PlainTable) -> str:
    merged, new_schema = [], None
    for fragment in table.lance().get_fragments():
        made, new_schema = fragment.merge_columns(lambda batch: pa.record_batch({"c": batch["b"]}), columns=["b"])
        merged.append(fragment_from_lance(made))
    assert new_schema is not None
    fields = [*table.manifest.header.fields, *_new_fields(table, pa.field("c", pa.int64()))]
    table.commit(Merge(tuple(merged), tuple(fields), preserves_nullability=True))
    assert column(table, "c") == [10 * one for one in range(10)]
    assert column(table, "c", filter="a = 3") == [30]
    return Merge.name


def _new_fields(table: PlainTable, field: pa.Field) -> list[pb.Field]:
    first = 1 + max(one.id for one in table.manifest.header.fields)
    return schema.from_arrow(pa.schema([field]), first_id=first)


def project(table: PlainTable) -> str:
    kept = [field for field in table.manifest.header.fields if field.name != "b"]
    renamed = pb.Field()
    renamed.CopyFrom(kept[0])
    renamed.name = "key"
    table.commit(Project((renamed, *kept[1:]), preserves_nullability=True))
    assert table.lance().schema.names == ["key", "s"]
    assert column(table, "key", filter="key = 4") == [4]
    assert index_names(table) == ["a_idx"]
    return Project.name


def restore(table: PlainTable) -> str:
    table.commit(Append(table.write(data(10, 13))))
    table.commit(UpdateConfig(UpdateMap({"later": "1"})))
    table.commit(Restore(2))
    assert column(table, "a") == [*range(10)]
    assert table.lance().config() == {}
    assert index_names(table) == ["a_idx", "b_idx"]
    assert table.manifest.max_fragment_id == 2
    return Restore.name


def reserve(table: PlainTable) -> str:
    table.commit(ReserveFragments(3))
    lance.write_dataset(data(10, 11), table.uri, mode="append")
    assert table.manifest.fragments.ids() == [0, 1, 5]
    return ReserveFragments.name


def update_rows(table: PlainTable) -> str:
    """Rows 3 and 4 move into a new fragment with other values, and row 50 comes with them."""
    masked = table.deletion(0, "a in (3, 4)")
    ids = RowIds([3, 4]).encode() if table.stable_row_ids else b""
    rows = [{"a": 3, "b": -3, "s": None}, {"a": 4, "b": -4, "s": None}, {"a": 50, "b": -50, "s": None}]
    (new,) = table.write(pa.Table.from_pylist(rows, SCHEMA))
    if ids:
        new.inline_row_ids = ids
    table.commit(Update(updated_fragments=(masked,), new_fragments=(new,)))
    assert column(table, "a", filter="b < 0") == [3, 4, 50]
    assert column(table, "b", filter="a = 3") == [-3]
    if ids:
        found = table.lance().to_table(columns=["a"], with_row_id=True, filter="b < 0")
        assert dict(zip(found["a"].to_pylist(), found["_rowid"].to_pylist(), strict=True)) == {3: 3, 4: 4, 50: 10}
        versions = table.lance().to_table(columns=["a", "_row_created_at_version", "_row_last_updated_at_version"])
        assert {"a": 4, "_row_created_at_version": 1, "_row_last_updated_at_version": 3} in versions.to_pylist()
        assert {"a": 50, "_row_created_at_version": 3, "_row_last_updated_at_version": 3} in versions.to_pylist()
    return Update.name


def update_columns(table: PlainTable) -> str:
    fragment = table.lance().get_fragment(1)
    ids = table.lance().to_table(columns=[], with_row_id=True, filter="a in (6, 8)")["_rowid"]
    new = pa.table({"_rowid": ids, "b": [-6, -8]})
    updated, fields, offsets = fragment.update_columns(new, left_on="_rowid", with_offsets=True)
    table.commit(
        Update(
            updated_fragments=(fragment_from_lance(updated),),
            fields_modified=fields,
            update_mode=REWRITE_COLUMNS,
            updated_offsets={1: offsets},
        )
    )
    assert column(table, "a", filter="b < 0") == [6, 8]
    assert column(table, "a", filter="b = 60") == []
    if table.stable_row_ids:
        versions = table.lance().to_table(columns=["_row_last_updated_at_version"], filter="a >= 5")
        assert versions["_row_last_updated_at_version"].to_pylist() == [1, 3, 1, 3, 1]
    return Update.name


def update_config(table: PlainTable) -> str:
    table.commit(
        UpdateConfig(
            UpdateMap({"one": "1", "two": "2"}),
            UpdateMap({"owner": "me"}),
            UpdateMap({"s": "ä"}),
            {1: UpdateMap({"k": "v"})},
        )
    )
    dataset = table.lance()
    assert dataset.config() == {"one": "1", "two": "2"}
    assert dataset.metadata == {"owner": "me"}
    assert dataset.schema.metadata == {b"s": "ä".encode()}
    assert dataset.schema.field("b").metadata == {b"k": b"v"}
    table.commit(UpdateConfig(UpdateMap({"one": None})))
    assert table.lance().config() == {"two": "2"}
    return UpdateConfig.name


def data_replacement(table: PlainTable) -> str:
    path = table.path / "data" / "replaced.lance"
    with lance.file.LanceFileWriter(str(path), pa.schema([("b", pa.int64())]), version="2.2") as writer:
        writer.write_batch(pa.record_batch({"b": pa.array([-1] * 5, pa.int64())}))
    new = pb.DataFile(
        path=path.name,
        fields=[1],
        column_indices=[0],
        file_major_version=2,
        file_minor_version=2,
        file_size_bytes=path.stat().st_size,
    )
    table.commit(DataReplacement((DataReplacementGroup(fragment_id=0, new_file=new),)))
    assert column(table, "a", filter="b = -1") == [0, 1, 2, 3, 4]
    assert column(table, "a", filter="b in (10, 70)") == [7]
    return DataReplacement.name


def update_bases(table: PlainTable) -> str:
    elsewhere = table.path.parent / "elsewhere"
    table.commit(UpdateBases((pb.BasePath(name="else", path=str(elsewhere)),)))
    (written,) = table.write(data(10, 12), target_bases=["else"])
    assert written.files[0].base_id == 1
    table.commit(Append((written,)))
    assert column(table, "a") == [*range(12)]
    return UpdateBases.name


def update_mem_wal_state(table: PlainTable) -> str:
    shard = pb.UUID(uuid=uuid4().bytes)
    table.commit(UpdateMemWalState((MergedGeneration(shard=shard, generation=3),)))
    table.commit(UpdateMemWalState((MergedGeneration(shard=shard, generation=5),)))
    entry = find(table.manifest.indices, MEM_WAL)
    assert entry is not None
    assert mem_wal_details(entry).compacted_sstables == [MergedGeneration(shard=shard, generation=5)]
    assert column(table, "a", filter="a = 3") == [3]
    return UpdateMemWalState.name


STEPS: list[Callable[[PlainTable], str]] = [
    append, delete, overwrite, create_index, rewrite, rewrite_in_the_flat_form, merge, project, restore, reserve,
    update_rows, update_columns, update_config, data_replacement, update_bases, update_mem_wal_state,
]  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_pylance_goes_on_from_what_we_made(table: PlainTable, step: Callable[[PlainTable], str]) -> None:
    step(table)
    table.continue_with_pylance()


def test_every_operation_has_its_step(tmp_path: Path) -> None:
    seen = {Clone.name}
    for number, step in enumerate(STEPS):
        made = PlainTable(tmp_path / str(number))
        made.create(data(0, 10), rows_per_file=5)
        made.commit(CreateIndex((made.index("a", "a_idx", [0, 1]), made.index("b", "b_idx", [0, 1]))))
        seen.add(step(made))
    assert seen == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("shallow", [True, False])
def test_pylance_goes_on_from_our_clone(table: PlainTable, tmp_path: Path, shallow: bool) -> None:
    delete(table)
    clone = PlainTable(tmp_path / "clone")
    if not shallow:
        for folder in ("data", "_deletions", "_indices"):
            shutil.copytree(table.path / folder, clone.path / folder, dirs_exist_ok=True)
    clone.commit(Clone(shallow, None, 3, table.uri), base=table.manifest)
    if not shallow:
        shutil.rmtree(table.path)
    assert clone.newest() == 3
    assert column(clone, "a") == [0, 2, 3, 4]
    assert column(clone, "a", filter="b = 30") == [3]
    clone.continue_with_pylance()


@pytest.mark.parametrize("stable", [False, True])
def test_all_operations_one_after_the_other(tmp_path: Path, stable: bool) -> None:
    """A history of ours with pylance's commits in between: neither minds the other's."""
    table = PlainTable(tmp_path / "table", stable_row_ids=stable)
    table.create(data(0, 10), rows_per_file=5)
    lance.write_dataset(data(10, 20), table.uri, mode="append")
    table.commit(CreateIndex((table.index("a", "a_idx", [0, 1, 2]),)))
    native(table.uri).delete("a = 15")
    table.commit(Delete((table.deletion(0, "a = 1"),)))
    native(table.uri).update({"b": "0"}, where="a = 3")
    (group,) = table.compaction()
    table.commit(Rewrite((group,), flat=True))
    assert column(table, "a") == [one for one in range(20) if one not in {1, 15}]
    table.commit(Append(table.write(data(30, 32))))
    assert column(table, "b", filter="a in (3, 30)") == [0, 300]
    table.continue_with_pylance()


def test_pylance_keeps_the_coverage_that_we_trimmed(table: PlainTable) -> None:
    """It would compute coverage anew for files of old writers, and must not take us for one."""
    update_columns(table)
    before = {index.name: roaring.decode(index.fragment_bitmap) for index in table.manifest.indices}
    assert before == {"a_idx": BitMap([0, 1]), "b_idx": BitMap([0])}
    lance.write_dataset(data(20, 21), table.uri, mode="append")
    native(table.uri).delete("a = 20")
    after = {index.name: roaring.decode(index.fragment_bitmap) for index in table.manifest.indices}
    assert after == before


def test_rows_that_moved_unchanged_stay_indexed(tmp_path: Path) -> None:
    """An index on columns that an update left alone goes on answering for the moved rows, others do not."""
    table = PlainTable(tmp_path / "table", stable_row_ids=True)
    table.create(data(0, 10), rows_per_file=5)
    by_id = [table.index(column, f"{column}_idx", [0, 1], "BITMAP") for column in ("a", "b")]
    table.commit(CreateIndex((*by_id, table.index("a", "by_address", [0, 1]))))
    masked = table.deletion(0, "a in (3, 4)")
    (new,) = table.write(pa.Table.from_pylist([{"a": 3, "b": -3}, {"a": 4, "b": -4}], SCHEMA))
    new.inline_row_ids = RowIds([3, 4]).encode()
    table.commit(Update(updated_fragments=(masked,), new_fragments=(new,), fields_for_preserving_frag_bitmap=(0,)))
    covered = {index.name: roaring.decode(index.fragment_bitmap) for index in table.manifest.indices}
    assert covered == {"a_idx": BitMap([0, 1, 2]), "b_idx": BitMap([0, 1]), "by_address": BitMap([0, 1])}
    assert column(table, "b", filter="a = 3") == [-3]
    assert column(table, "a", filter="b = -4") == [4]
    assert column(table, "a", filter="b = 30") == []
    table.continue_with_pylance()


def test_an_update_of_pylance_is_never_taken_at_its_word_about_coverage(tmp_path: Path) -> None:
    """pylance lists in `fields_for_preserving_frag_bitmap` the fields that changed.

    To extend the coverage of indices on those would make them answer with the old values.
    """
    table = PlainTable(tmp_path / "table")
    lance.write_dataset(data(0, 10), table.uri, enable_stable_row_ids=True)
    native(table.uri).create_scalar_index("a", "BTREE")
    native(table.uri).create_scalar_index("b", "BTREE")
    before = table.newest()
    native(table.uri).update({"b": "-b"}, where="a = 3")
    message = table.read(before + 1).transaction
    assert message is not None
    assert list(message.update.fields_for_preserving_frag_bitmap) == [1]
    (table.path / Naming.V2.path(before + 1)).unlink()
    table.commit(Update.from_proto(message.update))
    assert column(table, "a", filter="b = -30") == [3]
    assert column(table, "a", filter="b = 30") == []


def test_ids_of_segments_are_uuids(table: PlainTable) -> None:
    assert all(UUID(bytes=index.uuid.uuid).version == 4 for index in table.manifest.indices)
