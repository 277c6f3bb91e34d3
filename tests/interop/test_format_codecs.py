"""What our codecs write, pylance reads: deletion vectors, row ids, system indices, flags, whole manifests."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from seiche.core.runtime import Runtime
from seiche.store.local import LocalStore
from seiche.table.format import file, flags, index_details
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.file import ManifestFile
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.row_ids import RowIds, RowVersions
from seiche.table.format.transaction_pb2 import MergedGeneration

UUID_OF_OURS = UUID(int=77)


def newest(folder: Path) -> Path:
    return min((folder / "_versions").glob("*.manifest"))


def read(folder: Path) -> ManifestFile:
    return file.decode(newest(folder).read_bytes(), path=newest(folder).name)


def rewrite(folder: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Write the newest manifest again, changed, under its name."""
    stored = read(folder)
    assert stored.transaction is not None
    data = b"".join(file.encode(change(stored.manifest), stored.transaction.SerializeToString()))
    newest(folder).write_bytes(data)


def with_fragment(manifest: Manifest, changed: pb.DataFragment) -> Manifest:
    fragments = manifest.fragments.replaced({changed.id: changed})
    header = manifest.copy_header()
    flags.recompute(header, has_deletions=fragments.has_deletions)
    return Manifest(header, fragments, manifest.index_section)


def copy_of(fragment: pb.DataFragment) -> pb.DataFragment:
    copy = pb.DataFragment()
    copy.CopyFrom(fragment)
    return copy


def numbers(folder: Path, count: int = 100, **options: bool) -> lance.LanceDataset:
    return lance.write_dataset(pa.table({"a": range(count)}), str(folder), **options)  # type: ignore[arg-type]


def column(folder: Path, name: str = "a") -> list[int]:
    validate(folder)
    return lance.dataset(str(folder)).to_table(with_row_id=True)[name].to_pylist()  # type: ignore[no-any-return]


def validate(folder: Path) -> None:
    lance.dataset(str(folder)).validate()  # type: ignore[no-untyped-call]


def test_a_manifest_of_ours_is_continued_by_pylance(tmp_path: Path) -> None:
    numbers(tmp_path).create_scalar_index("a", "BTREE")
    rewrite(tmp_path, lambda manifest: manifest)
    assert column(tmp_path) == list(range(100))
    dataset = lance.write_dataset(pa.table({"a": [100]}), str(tmp_path), mode="append")
    dataset.delete("a = 5")
    assert dataset.to_table(filter="a > 98")["a"].to_pylist() == [99, 100]
    assert len(dataset.describe_indices()) == 1
    assert file.decode(newest(tmp_path).read_bytes(), path="").manifest.version == 4


@pytest.mark.parametrize("bitmap", [False, True])
@pytest.mark.parametrize("deleted", [[3], [0, 99], range(0, 100, 3)], ids=["one", "ends", "many"])
def test_deletion_vectors(tmp_path: Path, bitmap: bool, deleted: list[int]) -> None:
    numbers(tmp_path)
    files = DeletionFiles(LocalStore(str(tmp_path)), Runtime.seeded(1))

    def delete(manifest: Manifest) -> Manifest:
        changed = copy_of(manifest.fragments[0])
        changed.deletion_file.CopyFrom(files.write(0, 1, BitMap(deleted), bitmap=bitmap))
        return with_fragment(manifest, changed)

    rewrite(tmp_path, delete)
    assert column(tmp_path) == [number for number in range(100) if number not in deleted]
    lance.dataset(str(tmp_path)).delete("a = 50")
    ours = files.read(read(tmp_path).manifest.fragments[0])
    assert set(ours) == {*deleted, 50}


IDS = {
    "a range": list(range(5000, 5100)),
    "two ranges": [*range(10, 60), *range(1000, 1050)],
    "few holes": [number for number in range(102) if number not in (7, 50)],
    "a bitmap": [number for number in range(200) if number % 2],
    "far apart": list(range(0, 10**9, 10**7)),
    "very far apart": [number << 40 for number in range(100)],
    "any order": [number * 37 % 101 for number in range(100)],
}


@pytest.mark.parametrize("name", IDS)
def test_row_ids(tmp_path: Path, name: str) -> None:
    numbers(tmp_path, enable_stable_row_ids=True)

    def assign(manifest: Manifest) -> Manifest:
        changed = copy_of(manifest.fragments[0])
        changed.inline_row_ids = RowIds(IDS[name]).encode()
        made = with_fragment(manifest, changed)
        made.header.next_row_id = max(IDS[name]) + 1
        return made

    rewrite(tmp_path, assign)
    assert column(tmp_path, "_rowid") == IDS[name]
    dataset = lance.dataset(str(tmp_path))
    dataset.update({"a": "a + 1000"}, where="a = 42")
    dataset.optimize.compact_files()
    after = dict(zip(column(tmp_path, "_rowid"), column(tmp_path), strict=True))
    assert after == {row: 1042 if value == 42 else value for value, row in enumerate(IDS[name])}
    stored = read(tmp_path).manifest.fragments
    ids = [RowIds.decode(each.inline_row_ids, rows=each.physical_rows).to_array() for each in stored]
    assert sorted(np.concatenate(ids).tolist()) == sorted(IDS[name])


def test_row_versions(tmp_path: Path) -> None:
    numbers(tmp_path, enable_stable_row_ids=True)
    lance.write_dataset(pa.table({"a": [100]}), str(tmp_path), mode="append")
    created = RowVersions([(1, 30), (2, 50), (1, 20)])

    def date(manifest: Manifest) -> Manifest:
        changed = copy_of(manifest.fragments[0])
        changed.inline_created = created.encode()
        return with_fragment(manifest, changed)

    rewrite(tmp_path, date)
    columns = ["a", "_row_created_at_version", "_row_last_updated_at_version"]
    seen = lance.dataset(str(tmp_path)).to_table(columns=columns)
    assert seen["_row_created_at_version"].to_pylist() == [*created.to_array().tolist(), 2]


def compacted(folder: Path) -> None:
    for start in (0, 10, 20):
        mode = "append" if start else "create"
        lance.write_dataset(pa.table({"a": range(start, start + 10)}), str(folder), mode=mode)
    dataset = lance.dataset(str(folder))
    dataset.create_scalar_index("a", "BTREE")
    dataset.delete("a = 3 OR a = 15")
    dataset.optimize.compact_files(defer_index_remap=True)


@pytest.mark.parametrize("external", [False, True])
def test_a_fragment_reuse_index_of_ours_is_used(
    tmp_path: Path, external: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted(tmp_path)
    if external:
        monkeypatch.setattr(index_details, "_LARGEST_INLINE", 0)
    files = index_details.ReuseIndexFiles(LocalStore(str(tmp_path)))

    def again(manifest: Manifest) -> Manifest:
        old = index_details.find(manifest.indices, index_details.FRAGMENT_REUSE)
        assert old is not None
        content = files.read(old)
        both = index_details.merge_reuse(content, content)
        ours = files.write(both, uuid=UUID_OF_OURS, dataset_version=old.dataset_version, created_at=old.created_at)
        assert ours.fragment_bitmap == old.fragment_bitmap
        others = [index for index in manifest.indices if index.name != index_details.FRAGMENT_REUSE]
        return Manifest(manifest.copy_header(), manifest.fragments, [*others, ours])

    rewrite(tmp_path, again)
    dataset = lance.dataset(str(tmp_path))
    for wanted in (2, 14, 29):
        assert dataset.to_table(filter=f"a = {wanted}")["a"].to_pylist() == [wanted]
    assert "ScalarIndexQuery" in dataset.scanner(filter="a = 14").explain_plan(True)
    assert dataset.to_table(filter="a = 3 OR a = 15").num_rows == 0
    # The index catches up from our entry, and pylance compacts on top of it.
    lance.write_dataset(pa.table({"a": [100]}), str(tmp_path), mode="append").optimize.optimize_indices()
    lance.dataset(str(tmp_path)).optimize.compact_files(defer_index_remap=True)
    assert lance.dataset(str(tmp_path)).to_table(filter="a = 14 OR a = 100").num_rows == 2


def test_a_mem_wal_index_of_ours_is_read(tmp_path: Path) -> None:
    key = {"lance-schema:unenforced-primary-key": "true"}
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False, metadata=key)])
    dataset = lance.write_dataset(pa.table({"k": range(10)}, schema=schema), str(tmp_path))
    dataset.initialize_mem_wal(bucket_column="k", num_buckets=4)
    before = lance.dataset(str(tmp_path)).mem_wal_index_details()
    shard = pb.UUID(uuid=UUID(int=1).bytes)

    def mark(manifest: Manifest) -> Manifest:
        old = index_details.find(manifest.indices, index_details.MEM_WAL)
        assert old is not None
        details = index_details.mem_wal_details(old)
        marked = index_details.mark_merged(details, [MergedGeneration(shard=shard, generation=5)])
        ours = index_details.mem_wal_index(marked, uuid=UUID_OF_OURS, dataset_version=2, created_at=1)
        return Manifest(manifest.copy_header(), manifest.fragments, [ours])

    rewrite(tmp_path, mark)
    dataset = lance.dataset(str(tmp_path))
    assert dataset.mem_wal_index_details() == before
    merge = dataset.merge_insert("k").when_not_matched_insert_all()
    merge.mark_sstables_as_compacted([lance.mem_wal.CompactedSsTable(str(UUID(int=2)), 7)])
    merge.execute(pa.table({"k": [50]}, schema=schema))
    after = index_details.find(read(tmp_path).manifest.indices, index_details.MEM_WAL)
    assert after is not None
    generations = index_details.mem_wal_details(after).compacted_sstables
    assert {each.shard.uuid: each.generation for each in generations} == {
        UUID(int=1).bytes: 5,
        UUID(int=2).bytes: 7,
    }


def test_the_fence_keeps_pylance_from_writing_and_not_from_reading(tmp_path: Path) -> None:
    numbers(tmp_path)

    def fence(manifest: Manifest) -> Manifest:
        header = manifest.copy_header()
        header.writer_feature_flags |= flags.SEICHE_FENCE
        return Manifest(header, manifest.fragments)

    rewrite(tmp_path, fence)
    assert column(tmp_path) == list(range(100))
    with pytest.raises((OSError, ValueError), match="cannot be written by this version"):
        lance.write_dataset(pa.table({"a": [1]}), str(tmp_path), mode="append")
    with pytest.raises((OSError, ValueError), match="cannot be written by this version"):
        lance.dataset(str(tmp_path)).delete("a = 1")


def test_fragments_out_of_order_are_repaired(tmp_path: Path) -> None:
    for start in (0, 1, 2):
        lance.write_dataset(pa.table({"a": [start]}), str(tmp_path), mode="append" if start else "create")
    stored = read(tmp_path)
    assert stored.transaction is not None
    shuffled = pb.FragmentList(fragments=[stored.manifest.fragments[index] for index in (2, 0, 1)])
    header = stored.manifest.header.SerializeToString() + shuffled.SerializeToString()
    ours = b"".join(file.encode(stored.manifest, stored.transaction.SerializeToString()))
    body = ours[: -16 - len(header) - 4] + len(header).to_bytes(4, "little") + header + ours[-16:]
    newest(tmp_path).write_bytes(body)
    with pytest.raises(OSError, match="not sorted"):
        validate(tmp_path)
    repaired = read(tmp_path).manifest
    assert Fragments(repaired.fragments).ids() == [0, 1, 2]
    rewrite(tmp_path, lambda manifest: Manifest(manifest.copy_header(), Fragments(manifest.fragments)))
    assert column(tmp_path) == [0, 1, 2]
