"""Histories that pylance made, built again by us version by version: the manifests are the same.

Each version is built from the one before it and from its stored transaction, and compared with what pylance made of
both: schema, fragments down to their row ids and versions, indices and what they cover, counters, settings, flags.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import lance.file
import lance.fragment
import pyarrow as pa
import pytest
from pyroaring import BitMap

from seiche.table.build import build
from seiche.table.format.index_details import FRAGMENT_REUSE, find
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.operations import OPERATIONS, Clone, Rewrite
from seiche.table.operations.coverage import covered, with_coverage
from seiche.table.transaction import Transaction
from tests.plain_table import PlainTable, native

History = Callable[[str, bool], None]


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop), "b": range(start, stop), "c": [str(one) for one in range(start, stop)]})


def rows_come_and_go(uri: str, stable: bool) -> None:
    lance.write_dataset(numbers(0, 20), uri, enable_stable_row_ids=stable, max_rows_per_file=5)
    dataset = native(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("b", "BTREE")
    lance.write_dataset(numbers(20, 25), uri, mode="append")
    dataset = native(uri)
    dataset.delete("a in (1, 2, 7)")
    dataset.delete("a >= 10 and a < 15")
    dataset.update({"b": "b + 1000"}, where="a % 6 = 0")
    dataset.update({"b": "b + 1000"}, where="a >= 15 and a < 20")
    new = numbers(3, 30)
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(new)
    dataset.merge_insert("a").when_matched_update_all().execute(pa.table({"a": [4, 5], "b": [0, 0]}))
    native(uri).optimize.compact_files()
    native(uri).optimize.optimize_indices()
    native(uri).delete("true")
    lance.write_dataset(numbers(0, 3), uri, mode="append")


def columns_come_and_go(uri: str, stable: bool) -> None:
    lance.write_dataset(numbers(0, 20), uri, enable_stable_row_ids=stable, max_rows_per_file=7)
    dataset = native(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("b", "BTREE")
    dataset.delete("a = 3")
    dataset.add_columns({"d": "a * 2", "e": "b"})
    dataset.add_columns(pa.field("empty", pa.int32()))
    dataset.alter_columns({"path": "c", "name": "text"}, {"path": "d", "data_type": pa.int32()})
    dataset.drop_columns(["e"])
    dataset.drop_columns(["b"])
    dataset.add_columns({"b": "a"})
    lance.write_dataset(native(uri).to_table().slice(0, 4), uri, mode="append")
    native(uri).drop_columns(["d", "empty"])
    native(uri).optimize.compact_files()


def versions_and_settings(uri: str, stable: bool) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("s", pa.struct([("x", pa.int64())]))])
    data = pa.table({"a": [1, 2, 3], "s": [{"x": 1}] * 3}, schema=schema)
    bases = [lance.DatasetBasePath(f"{uri}-base", name="one")]
    lance.write_dataset(data, uri, enable_stable_row_ids=stable, initial_bases=bases)
    dataset = native(uri)
    dataset.update_config({"x": "1", "y": "2"})
    dataset.delete_config_keys(["x"])
    dataset.update_metadata({"owner": "me"})
    dataset.update_schema_metadata({"k": "ä"})
    dataset.update_field_metadata({"a": {"k": "v"}, "s.x": {"unit": "m"}})
    dataset.update_field_metadata({"a": {"lance-schema:unenforced-primary-key": "true"}})
    dataset.update_field_metadata({"s.x": {"other": "1"}}, replace=True)
    dataset.update_config({"z": "3"}, replace=True)
    dataset.add_bases([lance.DatasetBasePath(f"{uri}-other", name="two")])
    dataset.create_scalar_index("a", "BTREE")
    dataset.drop_index("a_idx")
    dataset.add_columns({"more": "a"})
    dataset.drop_columns(["more"])
    lance.write_dataset(data, uri, mode="append")
    lance.write_dataset(numbers(0, 4), uri, mode="overwrite")
    native(uri, 6).restore()
    lance.write_dataset(data, uri, mode="append")
    native(uri).delete_config_keys(["y"])


def columns_replaced(uri: str, stable: bool) -> None:
    lance.write_dataset(numbers(0, 10), uri, enable_stable_row_ids=stable, max_rows_per_file=5)
    dataset = native(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.create_scalar_index("b", "BTREE")
    dataset.add_columns(pa.field("empty", pa.int64()))
    replace_column(uri, 0, "a", 0)
    replace_column(uri, 1, "empty", 3)
    dataset = native(uri)
    fragment = dataset.get_fragment(1)
    ids = dataset.to_table(columns=[], with_row_id=True, filter="a in (6, 8)")["_rowid"]
    new = pa.table({"_rowid": ids, "b": [60, 80]})
    updated, fields, offsets = fragment.update_columns(new, left_on="_rowid", with_offsets=True)
    operation = lance.LanceOperation.Update(
        updated_fragments=[updated],
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets={1: offsets},
    )
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def replace_column(uri: str, fragment_id: int, column: str, field: int) -> None:
    dataset = native(uri)
    path = Path(uri) / "data" / f"{column}-{fragment_id}.lance"
    rows = dataset.get_fragment(fragment_id).physical_rows
    with lance.file.LanceFileWriter(str(path), pa.schema([(column, pa.int64())]), version="2.2") as writer:
        writer.write_batch(pa.record_batch({column: pa.array([7] * rows, pa.int64())}))
    file = lance.fragment.DataFile(path.name, [field], [0], 2, 2, path.stat().st_size)
    group = lance.LanceOperation.DataReplacementGroup(fragment_id, file)
    lance.LanceDataset.commit(uri, lance.LanceOperation.DataReplacement([group]), read_version=dataset.version)


def reuse_index(uri: str, stable: bool) -> None:
    lance.write_dataset(numbers(0, 20), uri, max_rows_per_file=5)
    dataset = native(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.optimize.compact_files(defer_index_remap=True, target_rows_per_fragment=10)


def all_kinds_of_indices(uri: str, stable: bool) -> None:
    data = numbers(0, 300)
    data = data.append_column("list", pa.array([[one % 5] for one in range(300)]))
    data = data.append_column("vector", pa.array([[float(one)] * 8 for one in range(300)], pa.list_(pa.float32(), 8)))
    for name in "defg":
        data = data.append_column(name, data["a" if name in "de" else "c"])
    lance.write_dataset(data, uri, enable_stable_row_ids=stable, max_rows_per_file=50)
    kinds = {"a": "BTREE", "b": "BITMAP", "list": "LABEL_LIST", "c": "INVERTED", "d": "ZONEMAP", "e": "BLOOMFILTER"}
    for column, kind in {**kinds, "f": "NGRAM"}.items():
        native(uri).create_scalar_index(column, kind)
    native(uri).create_index("vector", "IVF_FLAT", num_partitions=2)
    native(uri).delete("a in (3, 250)")
    native(uri).optimize.compact_files(target_rows_per_fragment=100)
    native(uri).delete("a = 77")


def all_kinds_of_columns(uri: str, stable: bool) -> None:
    """Files list other fields for structs, packed structs, lists, maps and blobs; the oldest version lists parents."""
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.list_(pa.string()), nullable=False)])
    columns = {
        "struct": pa.field("struct", inner, nullable=False),
        "packed": pa.field("packed", pa.struct([pa.field("p", pa.int32(), nullable=False)]), nullable=False),
        "list": pa.field("list", pa.list_(pa.field("item", inner, nullable=False)), nullable=False),
    }
    columns["packed"] = columns["packed"].with_metadata({"lance-encoding:packed": "true"})
    row = {"struct": {"x": 1, "y": ["a"]}, "packed": {"p": 1}, "list": [{"x": 1, "y": []}]}
    for version in ("2.0", "2.1", "2.2"):
        data = pa.Table.from_pylist([row, row], pa.schema(list(columns.values())))
        mode = "overwrite" if Path(uri).exists() and version != "2.0" else "create"
        lance.write_dataset(data, uri, mode=mode, data_storage_version=version, enable_stable_row_ids=stable)
        lance.write_dataset(data, uri, mode="append")
        native(uri).delete("packed.p = 7")
        native(uri).optimize.compact_files()
    blobs = pa.table({"blob": lance.blob_array([b"a", b"b"])}, schema=pa.schema([lance.blob_field("blob")]))
    map_type = pa.map_(pa.string(), pa.int32())
    blobs = blobs.append_column("map", pa.array([[("a", 1)], []], map_type))
    lance.write_dataset(blobs, uri, mode="overwrite")
    lance.write_dataset(blobs, uri, mode="append")


HISTORIES: dict[str, tuple[History, bool, int]] = {
    **{
        f"{one.__name__}-{name}": (one, name == "stable", floor)
        for one, floor in (
            (rows_come_and_go, 14),
            (columns_come_and_go, 12),
            (versions_and_settings, 16),
            (columns_replaced, 6),
            (all_kinds_of_indices, 12),
            (all_kinds_of_columns, 12),
        )
        for name in ("plain", "stable")
    },
    "reuse_index-plain": (reuse_index, False, 3),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_we_build_what_pylance_built(tmp_path: Path, name: str) -> None:
    history, stable, floor = HISTORIES[name]
    table = PlainTable(tmp_path / "table")
    history(table.uri, stable)
    compared = 0
    for version in range(2, table.newest() + 1):
        read = table.read(version)
        assert read.transaction is not None
        transaction = Transaction.from_proto(read.transaction)
        if isinstance(transaction.operation, Rewrite):
            transaction = with_reuse_entry(transaction, read.manifest)
        base = table.load(version - 1)
        made = build(base, transaction, load=table.load)
        if stable and isinstance(transaction.operation, Rewrite):
            made = without_left_behind(made, transaction.operation)
        assert described(made) == described(read.manifest), f"version {version}, {transaction.operation.name}"
        compared += 1
    assert compared >= floor
    print(f"{name}: {compared} versions")


def test_the_histories_have_every_operation_that_pylance_can_make(tmp_path: Path) -> None:
    seen = set()
    for name, (history, stable, _) in HISTORIES.items():
        table = PlainTable(tmp_path / name)
        history(table.uri, stable)
        for version in range(1, table.newest() + 1):
            message = table.read(version).transaction
            assert message is not None
            seen.add(Transaction.from_proto(message).operation.name)
    # pylance makes no UpdateMemWalState, and Clone only on another root (its own test).
    assert {operation.name for operation in OPERATIONS} - seen == {"UpdateMemWalState", "Clone"}


@pytest.mark.parametrize("shallow", [True, False])
def test_a_clone_is_what_pylance_clones(tmp_path: Path, shallow: bool) -> None:
    table = PlainTable(tmp_path / "source")
    lance.write_dataset(numbers(0, 10), table.uri, max_rows_per_file=5)
    dataset = native(table.uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a = 3")
    source = table
    for step in ("one", "two"):  # the second is a clone of a clone, and has files in three places
        clone = PlainTable(tmp_path / step)
        origin = native(source.uri)
        (origin.shallow_clone if shallow else origin.deep_clone)(clone.uri, origin.version)
        read = clone.read(clone.newest())
        assert read.transaction is not None
        transaction = Transaction.from_proto(read.transaction)
        assert isinstance(transaction.operation, Clone)
        made = build(source.manifest, transaction)
        assert described(made) == described(read.manifest)
        lance.write_dataset(numbers(20, 22), clone.uri, mode="append")
        source = clone


def with_reuse_entry(transaction: Transaction, made: Manifest) -> Transaction:
    assert isinstance(transaction.operation, Rewrite)
    operation = replace(transaction.operation, frag_reuse_index=find(made.indices, FRAGMENT_REUSE))
    return replace(transaction, operation=operation)


def without_left_behind(made: Manifest, rewrite: Rewrite) -> Manifest:
    """Without the fragments that we go on covering for the sake of their deleted rows; see `moves_by_id`."""
    left = BitMap(one.id for group in rewrite.groups for one in group.old_fragments if one.HasField("deletion_file"))
    indices = [with_coverage(one, (covered(one) or BitMap()) - left) for one in made.indices]
    return Manifest(made.copy_header(), made.fragments, indices)


def described(manifest: Manifest) -> dict[str, object]:
    """Everything that must be equal, in a form whose differences are readable. Who made it and when is left out."""
    header = manifest.copy_header()
    for name in ("timestamp", "writer_version", "index_section", "transaction_section", "old_transaction_section"):
        header.ClearField(name)
    bases = sorted(header.base_paths, key=lambda base: base.id)
    del header.base_paths[:]
    return {
        "header": str(header),
        "bases": [str(base) for base in bases],
        "fragments": {fragment.id: described_fragment(fragment) for fragment in manifest.fragments},
        "indices": {index.uuid.uuid.hex(): str(index) for index in manifest.indices},
    }


def described_fragment(fragment: DataFragment) -> dict[str, object]:
    """A sequence can be stored in several ways, so its content is compared."""
    rest = DataFragment()
    rest.CopyFrom(fragment)
    for name in ("row_ids", "created", "last_updated"):
        rest.ClearField(name)
    ids, rows = fragment.inline_row_ids, fragment.physical_rows
    return {
        "rest": str(rest),
        "row_ids": RowIds.decode(ids, rows=rows).to_array().tolist() if ids else None,
        "created": RowVersions.decode(fragment.inline_created, rows=rows).runs if fragment.inline_created else None,
        "updated": RowVersions.decode(fragment.inline_last_updated, rows=rows).runs if ids else None,
    }
