"""Clones from both sides: pylance opens, checks and continues ours, and makes the same of the same source."""

import shutil
from pathlib import Path
from typing import Any

import lance
import lance.blob
import pyarrow as pa
import pytest

from seiche.store import open_store
from seiche.table.table import Table
from tests import servers
from tests.row_table import in_order, rows_of, some_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Every kind of column, deletions, an index, settings; four versions and then everything anew."""
    where = tmp_path / "source"
    lance.write_dataset(some_rows(30), str(where), max_rows_per_file=12)
    native(where).delete("id IN (3, 14)")
    native(where).create_scalar_index("small", "BTREE")
    native(where).update_config({"k": "v"})
    lance.write_dataset(rows_of(1), str(where), mode="overwrite")
    return where


def native(path: Path | str, version: int | None = None) -> Any:
    dataset: Any = lance.dataset(str(path), version=version)
    dataset.validate()
    return dataset


def files(path: Path, *folders: str) -> set[str]:
    found = (file for folder in folders for file in (path / folder).rglob("*"))
    return {str(file.relative_to(path)) for file in found if file.is_file()}


@pytest.mark.parametrize("shallow", [False, True], ids=["deep", "shallow"])
class TestBoth:
    def test_the_same_rows_and_pylance_goes_on(self, path: Path, tmp_path: Path, shallow: bool) -> None:
        table = Table.open(str(path))
        copy = table.clone(str(tmp_path / "copy"), shallow=shallow, version=4)
        dataset = native(tmp_path / "copy")
        assert dataset.version == copy.version == 4
        assert in_order(dataset.to_table()) == in_order(native(path, 4).to_table())
        assert "small" in str(dataset.scanner(filter="small = 7").explain_plan())
        assert [row["id"] for row in dataset.to_table(filter="small = 7").to_pylist()] == [7]
        assert dataset.config() == {"k": "v"}
        lance.write_dataset(some_rows(3, 50), str(tmp_path / "copy"), mode="append")
        native(tmp_path / "copy").delete("id = 20")
        copy.update({"name": "'ours'"}, where="id = 21", mode="rows")
        native(tmp_path / "copy").optimize.compact_files()
        copy.delete("id = 22")
        assert native(tmp_path / "copy").count_rows() == 29
        assert copy.to_arrow().num_rows == 29
        assert native(path).count_rows() == 1
        assert native(path, 4).count_rows() == 28

    def test_the_manifest_is_as_pylance_writes_it(self, path: Path, tmp_path: Path, shallow: bool) -> None:
        clone = native(path).shallow_clone if shallow else native(path).deep_clone
        clone(str(tmp_path / "theirs"), 4)
        Table.open(str(path)).clone(str(tmp_path / "ours"), shallow=shallow, version=4)
        theirs, ours = (Table.open(str(tmp_path / name)) for name in ("theirs", "ours"))
        assert ours.manifest.fragments == theirs.manifest.fragments
        assert ours.manifest.indices == theirs.manifest.indices
        headers = [table.manifest.copy_header() for table in (ours, theirs)]
        for header in headers:
            for name in ("transaction_file", "timestamp", "writer_version", "transaction_section", "index_section"):
                header.ClearField(name)
        assert headers[0] == headers[1]
        assert ours.transactions()[0][1].operation == theirs.transactions()[0][1].operation
        folders = ("data", "_deletions", "_indices")
        assert files(tmp_path / "ours", *folders) == files(tmp_path / "theirs", *folders)

    def test_we_clone_what_pylance_cloned(self, path: Path, tmp_path: Path, shallow: bool) -> None:
        first = native(path).shallow_clone(str(tmp_path / "first"), 4)
        lance.write_dataset(some_rows(2, 70), str(tmp_path / "first"), mode="append")
        first = native(tmp_path / "first")
        first.delete("id = 5")
        copy = Table.open(str(tmp_path / "first")).clone(str(tmp_path / "second"), shallow=shallow)
        assert in_order(native(tmp_path / "second").to_table()) == in_order(native(tmp_path / "first").to_table())
        copy.delete("id = 6")
        assert native(tmp_path / "second").count_rows() == 28

    def test_stable_row_ids(self, tmp_path: Path, shallow: bool) -> None:
        source = tmp_path / "source"
        lance.write_dataset(some_rows(20), str(source), max_rows_per_file=8, enable_stable_row_ids=True)
        native(source).update({"name": "'x'"}, where="id = 4")
        copy = Table.open(str(source)).clone(str(tmp_path / "copy"), shallow=shallow)
        columns = ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        old, new = (native(one).to_table(columns=columns).sort_by("id") for one in (source, tmp_path / "copy"))
        assert old.equals(new)
        copy.update({"name": "'y'"}, where="id = 5", mode="rows")
        assert [row["_commit_version"] for row in copy.changes(2).to_arrow().to_pylist()] == [3]
        native(tmp_path / "copy")

    def test_of_a_branch(self, path: Path, tmp_path: Path, shallow: bool) -> None:
        branch = Table.open(str(path)).branch("dev/x", 4)
        branch.append(some_rows(2, 90))
        branch.clone(str(tmp_path / "copy"), shallow=shallow)
        native(path).checkout_version(("dev/x", None))
        assert in_order(native(tmp_path / "copy").to_table()) == in_order(branch.to_arrow())
        by_name = Table.open(str(path)).clone(str(tmp_path / "again"), shallow=shallow, branch="dev/x")
        assert native(tmp_path / "again").count_rows() == by_name.to_arrow().num_rows == 30


def test_a_deep_clone_outlives_its_source(path: Path, tmp_path: Path) -> None:
    Table.open(str(path)).clone(str(tmp_path / "copy"), version=4)
    shutil.rmtree(path)
    assert native(tmp_path / "copy").to_table().num_rows == 28
    assert not any((tmp_path / "copy/_refs").rglob("*"))


def test_large_values_beside_the_data_files_come_along(tmp_path: Path) -> None:
    for size in (100, 100_000, 3_000_000):
        blobs = lance.blob.blob_array([b"x" * size, None, b"y" * size])
        lance.write_dataset(pa.table({"i": range(3), "b": blobs}), str(tmp_path / "source"), mode="append")
    Table.open(str(tmp_path / "source")).clone(str(tmp_path / "copy"))
    assert files(tmp_path / "copy", "data") == files(tmp_path / "source", "data")
    assert any(name.endswith(".blob") for name in files(tmp_path / "copy", "data"))
    shutil.rmtree(tmp_path / "source")
    found = native(tmp_path / "copy").take_blobs("b", indices=[0, 2, 3, 5, 6, 8])
    assert [len(one.readall()) for one in found] == [100, 100, 100_000, 100_000, 3_000_000, 3_000_000]


def test_values_that_stand_elsewhere_are_found_from_a_clone_of_a_clone(tmp_path: Path) -> None:
    """Blobs given by an address are kept as the id of a base, and a part of the address."""
    (tmp_path / "media").mkdir()
    (tmp_path / "media/film").write_bytes(b"long")
    blobs = lance.blob_array([f"file://{tmp_path}/media/film", b"short"])
    base = lance.DatasetBasePath(str(tmp_path / "media"), name="media", is_dataset_root=False)
    lance.write_dataset(pa.table({"i": range(2), "b": blobs}), str(tmp_path / "source"), initial_bases=[base])
    shallow = Table.open(str(tmp_path / "source")).clone(str(tmp_path / "shallow"), shallow=True)
    deep = shallow.clone(str(tmp_path / "deep"))
    deep.append([{"i": 2, "b": f"file://{tmp_path}/media/film"}])
    for one, expected in ((shallow, [b"long", b"short"]), (deep, [b"long", b"short", b"long"])):
        found = native(one.uri).take_blobs("b", indices=range(len(expected)))
        assert [blob.readall() for blob in found] == expected
    assert [base.path for base in deep.manifest.header.base_paths] == [str(tmp_path / "media")]


def test_between_buckets_and_disks(path: Path, tmp_path: Path, seaweedfs: servers.S3Server) -> None:
    """From disk to a bucket in pieces, within the bucket by the server, and back."""
    table = Table.open(str(path))
    first, second = seaweedfs.uri(), seaweedfs.uri()
    there = table.clone(first, version=4, **seaweedfs.options)
    assert there.version == 4
    again = there.clone(second)
    assert again.uri == second
    again.append(some_rows(2, 80))
    expected = in_order(native(path, 4).to_table())
    for where in (first, second):
        dataset: Any = lance.dataset(where, version=4, storage_options=dict(there.store.native_options))
        dataset.validate()
        assert in_order(dataset.to_table()) == expected
    back = again.clone(open_store(tmp_path / "back", durability="os"))
    assert native(tmp_path / "back").count_rows() == 30
    assert back.version == 5
    shallow = again.clone(seaweedfs.uri(), shallow=True)
    shallow.delete("id = 80")
    assert shallow.to_arrow().num_rows == 29
    assert [base.path for base in shallow.manifest.header.base_paths] == [second]
