"""The system indices: two changes of one are merged, nothing of either side is lost."""

from uuid import UUID

import pytest
from pyroaring import BitMap, BitMap64

from seiche.errors import Corrupt, InvalidInput
from seiche.store.local import LocalStore
from seiche.table.format import index_details, roaring
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.index_details_pb2 import FragmentReuseIndexDetails, MemWalIndexDetails
from seiche.table.format.transaction_pb2 import MergedGeneration

A, B, C = (bytes([number] * 16) for number in (1, 2, 3))


def rewrite(version: int, old: int, new: int, rows: int = 3) -> FragmentReuseIndexDetails.Version:
    addresses = roaring.encode64(BitMap64(range(old << 32, (old << 32) + rows)))
    digest = FragmentReuseIndexDetails.FragmentDigest
    group = FragmentReuseIndexDetails.Group(
        changed_row_addrs=addresses,
        old_fragments=[digest(id=old, physical_rows=rows)],
        new_fragments=[digest(id=new, physical_rows=rows)],
    )
    return FragmentReuseIndexDetails.Version(dataset_version=version, groups=[group])


def content(*versions: FragmentReuseIndexDetails.Version) -> index_details.ReuseContent:
    return index_details.ReuseContent(versions=versions)


def details(*generations: tuple[bytes, int], **settings: int) -> MemWalIndexDetails:
    return MemWalIndexDetails(compacted_sstables=merged(*generations), num_shards=settings.get("num_shards", 0))


def merged(*generations: tuple[bytes, int]) -> list[MergedGeneration]:
    return [MergedGeneration(shard=pb.UUID(uuid=shard), generation=number) for shard, number in generations]


def test_reuse_content_is_the_union_in_order_of_versions() -> None:
    one, two, three = rewrite(5, 0, 4), rewrite(7, 1, 5), rewrite(9, 2, 6)
    both = index_details.merge_reuse(content(one, three), content(one, two))
    assert both == content(one, two, three)
    assert both == index_details.merge_reuse(content(one, two), content(one, three))


def test_rewrites_on_one_version_become_groups_of_one_entry() -> None:
    both = index_details.merge_reuse(content(rewrite(5, 0, 4)), content(rewrite(5, 1, 5)))
    assert [version.dataset_version for version in both.versions] == [5]
    assert [group.new_fragments[0].id for group in both.versions[0].groups] == [4, 5]


def test_tagged_maps_are_not_merged_silently() -> None:
    tagged = index_details.ReuseContent(transitions=[FragmentReuseIndexDetails.Transition()])
    for pair in ((tagged, content()), (content(), tagged)):
        with pytest.raises(InvalidInput):
            index_details.merge_reuse(*pair)


def test_the_newest_generation_of_each_shard_wins() -> None:
    marked = index_details.mark_merged(details((A, 3), (B, 5)), merged((A, 4), (B, 2), (C, 1)))
    assert list(marked.compacted_sstables) == merged((A, 4), (B, 5), (C, 1))


def test_merging_keeps_our_settings_and_both_generations() -> None:
    ours, theirs = details((A, 3), num_shards=4), details((A, 1), (B, 9), num_shards=2)
    ours.index_catchup.add(index_name="x").caught_up_generations.extend(merged((A, 1)))
    theirs.index_catchup.add(index_name="x").caught_up_generations.extend(merged((A, 2), (B, 2)))
    theirs.index_catchup.add(index_name="y").caught_up_generations.extend(merged((B, 7)))
    both = index_details.merge_mem_wal(ours, theirs)
    assert both.num_shards == 4
    assert list(both.compacted_sstables) == merged((A, 3), (B, 9))
    assert {entry.index_name: list(entry.caught_up_generations) for entry in both.index_catchup} == {
        "x": merged((A, 2), (B, 2)),
        "y": merged((B, 7)),
    }
    assert list(ours.compacted_sstables) == merged((A, 3)), "the values given are left as they were"


def test_entries_hold_what_was_put_in(tmp_path: object) -> None:
    files = index_details.ReuseIndexFiles(LocalStore(str(tmp_path)))
    stored = content(rewrite(5, 0, 4), rewrite(7, 1, 5))
    entry = files.write(stored, uuid=UUID(bytes=A), dataset_version=7, created_at=1)
    assert (entry.name, entry.index_details.type_url) == (
        "__lance_frag_reuse",
        "/lance.table.FragmentReuseIndexDetails",
    )
    assert roaring.decode(entry.fragment_bitmap) == BitMap([4, 5])
    assert files.read(entry) == stored
    assert index_details.find([entry], index_details.FRAGMENT_REUSE) is entry
    assert index_details.find([entry], index_details.MEM_WAL) is None


def large() -> index_details.ReuseContent:
    scattered = FragmentReuseIndexDetails.Group(changed_row_addrs=roaring.encode64(BitMap64(range(0, 2_000_000, 2))))
    return content(FragmentReuseIndexDetails.Version(dataset_version=3, groups=[scattered]))


def test_large_content_goes_to_a_file_of_its_own(tmp_path: object) -> None:
    store = LocalStore(str(tmp_path))
    files = index_details.ReuseIndexFiles(store)
    entry = files.write(large(), uuid=UUID(bytes=A), dataset_version=3, created_at=1)
    assert entry.ByteSize() < 500
    assert files.read(entry) == large()
    elsewhere = LocalStore(str(tmp_path) + "/other")
    entry.base_id = 2
    assert index_details.ReuseIndexFiles(elsewhere, bases={2: store}).read(entry) == large()


def test_a_damaged_file_is_corrupt(tmp_path: object) -> None:
    store = LocalStore(str(tmp_path))
    files = index_details.ReuseIndexFiles(store)
    entry = files.write(large(), uuid=UUID(bytes=A), dataset_version=3, created_at=1)
    path = f"_indices/{UUID(bytes=A)}/details.binpb"
    whole = store.get(path)
    for damaged in (whole[:-1], b"", b"\xff" * len(whole)):
        store.put(path, damaged)
        with pytest.raises(Corrupt):
            files.read(entry)


def reuse_entry(value: bytes, url: str = index_details.FRAGMENT_REUSE_URL) -> pb.IndexMetadata:
    entry = pb.IndexMetadata(uuid=pb.UUID(uuid=A), name=index_details.FRAGMENT_REUSE)
    entry.index_details.type_url, entry.index_details.value = url, value
    return entry


def test_details_that_cannot_be_right_are_corrupt(tmp_path: object) -> None:
    files = index_details.ReuseIndexFiles(LocalStore(str(tmp_path)))
    outside = FragmentReuseIndexDetails(external=pb.ExternalFile(path="../../../etc/passwd", size=1))
    far = FragmentReuseIndexDetails(external=pb.ExternalFile(path="x", offset=1 << 63, size=1))
    good = FragmentReuseIndexDetails(external=pb.ExternalFile(path="x", size=1)).SerializeToString()
    shortened = reuse_entry(good)
    shortened.uuid.uuid = b"123"
    for entry in (
        reuse_entry(b""),
        reuse_entry(b"\xff"),
        reuse_entry(b"", url="/lance.table.BTreeIndexDetails"),
        reuse_entry(outside.SerializeToString()),
        reuse_entry(far.SerializeToString()),
        shortened,
    ):
        with pytest.raises(Corrupt):
            files.read(entry)
    with pytest.raises(Corrupt):
        index_details.mem_wal_details(reuse_entry(b""))


def test_mem_wal_entries() -> None:
    entry = index_details.mem_wal_index(details((A, 3)), uuid=UUID(bytes=B), dataset_version=4, created_at=5)
    assert (entry.name, entry.index_details.type_url) == ("__lance_mem_wal", "/lance.table.MemWalIndexDetails")
    assert entry.HasField("index_version")
    assert index_details.mem_wal_details(entry) == details((A, 3))
