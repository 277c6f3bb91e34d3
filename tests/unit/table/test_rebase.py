"""Deletion vectors, indices and metadata of two writers put together, without a real table."""

from dataclasses import replace
from uuid import UUID

import pytest
from pyroaring import BitMap

from seiche.errors import AlreadyExists, InvalidInput, NotFound, RetryableConflict
from seiche.table import affected
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format import roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.index_details import (
    FRAGMENT_REUSE,
    MEM_WAL,
    ReuseContent,
    ReuseIndexFiles,
    find,
    mem_wal_details,
    mem_wal_index,
)
from seiche.table.format.index_details_pb2 import FragmentReuseIndexDetails, MemWalIndexDetails
from seiche.table.format.manifest import Manifest
from seiche.table.operations import (
    REWRITE_COLUMNS,
    Append,
    Clone,
    CreateIndex,
    Delete,
    Merge,
    MergedGeneration,
    Project,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateConfig,
    UpdateMap,
)
from seiche.table.operations.coverage import covered, trimmed
from seiche.table.rebase import TransactionRebase
from seiche.table.transaction import Transaction
from seiche.testing import CountingStore, DictStore
from tests.unit.table.tables import begin, committed, field, fragment, index, manifest, masked


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture
def files(store: DictStore) -> DeletionFiles:
    return DeletionFiles(store)


BASE = fragment(0)


def delete_of(rows: list[int], files: DeletionFiles, of: pb.DataFragment = BASE) -> Delete:
    return Delete((masked(of, rows, files),))


def merged_rows(transaction: Transaction, files: DeletionFiles) -> BitMap:
    operation = transaction.operation
    assert isinstance(operation, Delete | Update)
    (one,) = operation.updated_fragments
    return files.read(one)


def test_deletion_vectors_of_both_are_merged_and_written_as_a_bitmap_named_after_the_latest_version(
    files: DeletionFiles, store: DictStore
) -> None:
    theirs = delete_of([1, 2], files)
    latest = manifest(7, theirs.updated_fragments)
    ours = begin(delete_of([5], files), manifest(1, [BASE]), affected_rows={0: BitMap([5])})
    ready = ours.against(committed(7, theirs)).finish(latest, files)
    assert merged_rows(ready, files) == BitMap([1, 2, 5])
    assert ready.read_version == 7
    assert isinstance(ready.operation, Delete)
    file = ready.operation.updated_fragments[0].deletion_file
    assert (file.file_type, file.read_version, file.num_deleted_rows) == (pb.DeletionFile.BITMAP, 7, 3)
    assert store.exists(f"_deletions/0-7-{file.id}.bin")


def test_rows_that_were_deleted_before_both_are_no_conflict(files: DeletionFiles) -> None:
    before = masked(BASE, [9], files)
    ours = begin(delete_of([5, 9], files, before), manifest(1, [before]))
    theirs = delete_of([1, 9], files, before)
    ready = ours.against(committed(2, theirs)).finish(manifest(2, theirs.updated_fragments), files)
    assert merged_rows(ready, files) == BitMap([1, 5, 9])


def test_the_fragment_is_the_latest_one_and_not_the_one_that_was_read(files: DeletionFiles) -> None:
    """What else others did to the fragment stays."""
    theirs = delete_of([1], files)
    current = pb.DataFragment()
    current.CopyFrom(theirs.updated_fragments[0])
    current.metadata["kept"] = "yes"
    ready = (
        begin(delete_of([5], files), manifest(1, [BASE]))
        .against(committed(2, theirs))
        .finish(manifest(2, [current]), files)
    )
    assert isinstance(ready.operation, Delete)
    assert dict(ready.operation.updated_fragments[0].metadata) == {"kept": "yes"}


def test_a_fragment_that_others_did_not_touch_is_left_as_it_was_handed_over(files: DeletionFiles) -> None:
    ours = begin(delete_of([5], files))
    ready = ours.against(committed(2, delete_of([1], files, fragment(3)))).finish(
        manifest(2, [BASE, fragment(3)]), files
    )
    assert ready == replace(ours.transaction, read_version=2)


def test_the_same_rows_name_the_commit_that_took_them(files: DeletionFiles) -> None:
    first, second = delete_of([1], files), delete_of([1, 5], files)
    third = delete_of([1, 5, 6], files)
    rebase = begin(delete_of([5], files), manifest(1, [BASE]))
    for version, other in enumerate([first, second, third], 2):
        rebase = rebase.against(committed(version, other))
    with pytest.raises(RetryableConflict, match="took out the same row 5 of fragment 0") as failure:
        rebase.finish(manifest(4, third.updated_fragments), files)
    assert failure.value.details["version"] == 3
    assert failure.value.details["fragments"] == (0,)


def test_an_update_moves_an_emptied_fragment_to_those_that_are_removed(files: DeletionFiles) -> None:
    ours = Update((8,), (masked(BASE, range(5), files), masked(fragment(1), [0], files)), (fragment(0),))
    theirs = delete_of(list(range(5, 10)), files)
    latest = manifest(2, [*theirs.updated_fragments, fragment(1), fragment(8)])
    ready = (
        begin(ours, manifest(1, [BASE, fragment(1), fragment(8)])).against(committed(2, theirs)).finish(latest, files)
    )
    assert isinstance(ready.operation, Update)
    assert ready.operation.removed_fragment_ids == (8, 0)
    assert [one.id for one in ready.operation.updated_fragments] == [1]


def test_a_fragment_that_does_not_say_how_many_rows_it_has_is_never_taken_for_empty(files: DeletionFiles) -> None:
    unknown = fragment(0, rows=0)
    theirs = delete_of([1], files, unknown)
    ours = begin(delete_of([0], files, unknown), manifest(1, [unknown]))
    ready = ours.against(committed(2, theirs)).finish(manifest(2, theirs.updated_fragments), files)
    assert merged_rows(ready, files) == BitMap([0, 1])


@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_deleted_rows_and_new_data_files_of_one_fragment_are_not_put_together(
    files: DeletionFiles, writer: str
) -> None:
    """What one side wrote would be lost with the files of the other, or moved away as it was before."""
    written = Update(updated_fragments=(fragment(0, path="anew.lance"),), fields_modified=(1,))
    moved = Update(updated_fragments=(masked(BASE, [5], files),), new_fragments=(fragment(0, rows=1),))
    for other in (delete_of([5], files), moved):
        ours, theirs = (written, other) if writer == "ours" else (other, written)
        with pytest.raises(RetryableConflict, match="fragment 0, of which one side wrote new data files"):
            begin(ours, manifest(1, [BASE])).against(committed(2, theirs))


def test_a_fragment_that_one_side_removes_and_the_other_changes_is_retryable(files: DeletionFiles) -> None:
    for gone in (Delete(deleted_fragment_ids=(0,)), Update(removed_fragment_ids=(0,), new_fragments=(fragment(0),))):
        with pytest.raises(RetryableConflict, match="changed rows of fragment 0, which we remove"):
            begin(gone, manifest(1, [BASE])).against(committed(2, delete_of([5], files)))
        with pytest.raises(RetryableConflict, match="removed fragment 0"):
            begin(delete_of([5], files), manifest(1, [BASE])).against(committed(2, gone))


def test_each_fragment_gets_its_own_rows_also_if_deletion_files_have_the_same_number(
    files: DeletionFiles, store: DictStore
) -> None:
    """Numbers are drawn for each file, and only its name holds the fragment: one may come twice."""
    before = [BASE, fragment(1)]
    theirs = [masked(one, [7 + one.id], files) for one in before]
    path = "_deletions/{}-1-{}.arrow"
    same = theirs[0].deletion_file
    store.put(path.format(1, same.id), store.get(path.format(1, theirs[1].deletion_file.id)))
    theirs[1].deletion_file.CopyFrom(same)
    ours = Delete(tuple(masked(one, [one.id], files) for one in before))
    rebase = begin(ours, manifest(1, before)).against(committed(2, Delete(tuple(theirs))))
    ready = rebase.finish(manifest(2, theirs), files)
    assert isinstance(ready.operation, Delete)
    assert [files.read(one) for one in ready.operation.updated_fragments] == [BitMap([0, 7]), BitMap([1, 8])]


def test_a_lost_race_does_not_write_the_merged_vector_again_unless_it_changed(store: DictStore) -> None:
    counting = CountingStore(store)
    files = DeletionFiles(counting)
    theirs, more = delete_of([1], files), delete_of([1, 2], files)
    rebase = begin(delete_of([5], files), manifest(1, [BASE])).against(committed(2, theirs))
    first = rebase.finish(manifest(2, theirs.updated_fragments), files)
    written = counting.counts["put_if_absent"]
    rebase = rebase.against(committed(3, Append((fragment(0),))))
    again = rebase.finish(manifest(3, theirs.updated_fragments), files)
    assert counting.counts["put_if_absent"] == written
    assert again == replace(first, read_version=3)
    rebase = rebase.against(committed(4, more))
    third = rebase.finish(manifest(4, more.updated_fragments), files)
    assert counting.counts["put_if_absent"] == written + 1
    assert merged_rows(third, files) == BitMap([1, 2, 5])


def test_given_rows_save_reading_our_own_deletion_file(store: DictStore) -> None:
    counting = CountingStore(store)
    files = DeletionFiles(counting)
    theirs, mine = delete_of([1], files), delete_of([5], files)
    latest = manifest(2, theirs.updated_fragments)
    begin(mine, manifest(1, [BASE]), affected_rows={0: BitMap([5])}).against(committed(2, theirs)).finish(latest, files)
    assert counting.counts["get"] == 1


def test_rows_stored_with_the_transaction_are_taken_and_not_committed(files: DeletionFiles) -> None:
    packed = affected.pack({0: BitMap([5])}, uuid="ours")
    transaction = Transaction(1, "ours", delete_of([5], files), properties={**packed.properties, "mine": "kept"})
    rebase = TransactionRebase.begin(transaction, lambda: manifest(1, [BASE]))
    assert rebase.affected_rows == {0: BitMap([5])}
    theirs = delete_of([1], files)
    ready = rebase.against(committed(2, theirs)).finish(manifest(2, theirs.updated_fragments), files)
    assert ready.properties == {"mine": "kept"}
    assert merged_rows(ready, files) == BitMap([1, 5])


def test_rows_that_cannot_be_found_out_are_retryable(files: DeletionFiles, store: DictStore) -> None:
    ours, theirs = delete_of([5], files), delete_of([1], files)
    file = ours.updated_fragments[0].deletion_file
    store.delete(f"_deletions/0-{file.read_version}-{file.id}.arrow")
    rebase = begin(ours, manifest(1, [BASE])).against(committed(2, theirs))
    with pytest.raises(RetryableConflict, match="cannot be found out"):
        rebase.finish(manifest(2, theirs.updated_fragments), files)


def test_given_rows_that_do_not_match_the_deletion_file_are_refused(files: DeletionFiles) -> None:
    theirs = delete_of([1], files)
    rebase = begin(delete_of([5], files), manifest(1, [BASE]), affected_rows={0: BitMap([5, 6])})
    with pytest.raises(InvalidInput, match="2 rows of fragment 0"):
        rebase.against(committed(2, theirs)).finish(manifest(2, theirs.updated_fragments), files)


@pytest.mark.parametrize("uncounted", ["ours", "the one before"])
def test_given_rows_are_taken_where_a_deletion_file_does_not_count_its_rows(
    files: DeletionFiles, uncounted: str
) -> None:
    """Older writers left the number out, and then there is nothing to compare."""
    before, theirs, ours = (delete_of(rows, files).updated_fragments[0] for rows in ([2], [1, 2], [2, 5]))
    (ours if uncounted == "ours" else before).deletion_file.num_deleted_rows = 0
    rebase = begin(Delete((ours,)), manifest(1, [before]), affected_rows={0: BitMap([5])})
    ready = rebase.against(committed(2, Delete((theirs,)))).finish(manifest(2, [theirs]), files)
    assert merged_rows(ready, files) == BitMap([1, 2, 5])


def test_rows_of_fragments_that_the_operation_does_not_change_are_refused(files: DeletionFiles) -> None:
    with pytest.raises(InvalidInput, match="fragment 3"):
        begin(delete_of([5], files), affected_rows={3: BitMap([1])})


def test_a_fragment_that_the_read_version_does_not_have_is_refused(files: DeletionFiles) -> None:
    with pytest.raises(InvalidInput, match="which version 1 does not have"):
        begin(delete_of([5], files), manifest(1)).against(committed(2, delete_of([1], files)))


def test_a_fragment_that_is_gone_without_a_conflict_is_retryable(files: DeletionFiles) -> None:
    """A Merge may leave a fragment out of its list; then nothing of it is left to delete."""
    ours = begin(delete_of([5], files)).against(committed(2, Merge((fragment(1),))))
    with pytest.raises(RetryableConflict, match="which version 2 no longer has"):
        ours.finish(manifest(2, [fragment(1)]), files)


def test_nothing_is_changed_when_nobody_else_committed(files: DeletionFiles) -> None:
    ours = begin(delete_of([5], files))
    assert ours.finish(manifest(1, [BASE]), files) is ours.transaction


@pytest.mark.parametrize("operation", [Append((fragment(0),)), Rewrite(), Merge(), Project(), UpdateConfig()])
def test_other_operations_keep_their_read_version(operation: Append, files: DeletionFiles) -> None:
    ours = begin(operation)
    assert ours.finish(manifest(9), files) is ours.transaction


def test_a_clone_over_a_table_is_refused(files: DeletionFiles) -> None:
    with pytest.raises(AlreadyExists, match="at version 4"):
        begin(Clone()).finish(manifest(4), files)
    with pytest.raises(AlreadyExists, match="clone to an address that is free"):
        begin(Clone()).against(committed(2, Append()))


def test_parts_of_the_rebase_are_those_of_the_specification(files: DeletionFiles) -> None:
    theirs = delete_of([1], files)
    rebase = begin(Delete((masked(BASE, [5], files),), (3,)), manifest(1, [BASE, fragment(3)]))
    assert rebase.modified == {0, 3}
    assert not rebase.fragments
    after = rebase.against(committed(2, theirs))
    assert after.fragments[0].fragment == BASE
    assert [one.other.version for one in after.fragments[0].changed_by] == [2]
    assert not rebase.fragments, "a rebase is a value"


# Indices.


def test_dropping_an_index_drops_also_what_a_rewrite_made_of_it() -> None:
    old, new = index("x", [1], [7], number=5), index("x", [1], [20], number=6)
    group = RewriteGroup(old_fragments=[fragment(7)], new_fragments=[fragment(20)])
    renewed = Rewrite((group,), (RewrittenIndex(old_id=old.uuid, new_id=new.uuid),))
    after = manifest(2, indices=[new])
    rebase = begin(CreateIndex((), (old,)), manifest(1, indices=[old])).against(committed(2, renewed, after))
    assert isinstance(rebase.transaction.operation, CreateIndex)
    assert {one.uuid.uuid for one in rebase.transaction.operation.removed_indices} == {old.uuid.uuid, new.uuid.uuid}


def test_an_index_by_row_id_follows_its_rows_and_one_by_place_does_not() -> None:
    group = RewriteGroup(old_fragments=[fragment(0), fragment(1)], new_fragments=[fragment(20)])
    for kind, expected in (("BitmapIndexDetails", [2, 20]), ("ZoneMapIndexDetails", [2])):
        entry = index("x", [1], [0, 1, 2])
        entry.index_details.type_url = f"/lance.table.{kind}"
        rebase = begin(CreateIndex((entry,)), manifest(1, stable=True)).against(
            committed(2, Rewrite((group,)), manifest(2, stable=True))
        )
        assert isinstance(rebase.transaction.operation, CreateIndex)
        assert covered(rebase.transaction.operation.new_indices[0]) == BitMap(expected)


def test_coverage_is_trimmed_by_each_update_in_turn() -> None:
    rebase = begin(CreateIndex((index("x", [1], [0, 1, 2]),)), manifest(1))
    for version, number in ((2, 0), (3, 2)):
        rebase = rebase.against(committed(version, Update(updated_fragments=(fragment(number),), fields_modified=(1,))))
    assert isinstance(rebase.transaction.operation, CreateIndex)
    assert covered(rebase.transaction.operation.new_indices[0]) == BitMap([1])


def anew(number: int) -> pb.DataFragment:
    """The fragment with a file more, for the field 1."""
    made = fragment(number)
    made.files.append(fragment(number, fields=[1], path=f"{number}-anew.lance").files[0])
    return made


def test_coverage_is_trimmed_also_by_an_update_that_forgets_to_say_which_fields() -> None:
    """A fragment that we did not read may have been written anew in any of them."""
    theirs = Update(updated_fragments=(anew(0), anew(7)), update_mode=REWRITE_COLUMNS)
    ours = CreateIndex((index("x", [1], [0, 1, 7]), index("id", [0], [0, 1, 7], number=2)))
    for there, left in (([0, 1, 7], [[1], [0, 1, 7]]), ([0, 1], [[1], [1]])):
        read = manifest(1, [fragment(one) for one in there])
        made = begin(ours, read).against(committed(2, theirs, manifest(2))).transaction.operation
        assert isinstance(made, CreateIndex)
        assert [list(covered(one) or ()) for one in made.new_indices] == left


def test_a_column_that_we_made_required_conflicts_with_an_update_that_forgets_to_say_that_it_wrote_it() -> None:
    read = manifest(1, [fragment(0)])
    for required, conflicts in ((1, True), (0, False)):
        ours = Project(schema=tuple(field(one, name, nullable=one != required) for one, name in ((0, "id"), (1, "v"))))
        theirs = committed(2, Update(updated_fragments=(anew(0),), update_mode=REWRITE_COLUMNS))
        if conflicts:
            with pytest.raises(RetryableConflict, match="wrote values of field 1"):
                begin(ours, read).against(theirs)
        else:
            begin(ours, read).against(theirs)


def test_an_index_on_a_struct_is_trimmed_when_a_field_in_it_changes() -> None:
    fields = (field(0, "id"), field(1, "s", "struct"), field(2, "x", parent=1))
    for indexed, changed in ((1, 2), (2, 1)):
        rebase = begin(CreateIndex((index("x", [indexed], [0, 1]),)), manifest(1, fields=fields)).against(
            committed(2, Update(updated_fragments=(fragment(0),), fields_modified=(changed,)), manifest(2))
        )
        assert isinstance(rebase.transaction.operation, CreateIndex)
        assert covered(rebase.transaction.operation.new_indices[0]) == BitMap([1])


def test_an_index_that_carries_a_column_along_is_trimmed_when_others_change_that_column() -> None:
    carrying = index("x", [0], [0, 1])
    carrying.covering_fields.append(1)
    rebase = begin(CreateIndex((carrying,)), manifest(1)).against(
        committed(2, Update(updated_fragments=(fragment(0),), fields_modified=(1,)), manifest(2))
    )
    assert isinstance(rebase.transaction.operation, CreateIndex)
    assert covered(rebase.transaction.operation.new_indices[0]) == BitMap([1])


def test_an_index_and_a_log_built_in_one_are_both_adapted_to_the_same_update() -> None:
    built = index("x", [1], [0, 1])
    log = mem_wal_index(MemWalIndexDetails(), uuid=UUID(int=2), dataset_version=1, created_at=1)
    merged = MergedGeneration(shard=pb.UUID(uuid=b"s" * 16), generation=4)
    theirs = Update(updated_fragments=(fragment(0),), fields_modified=(1,), merged_generations=(merged,))
    rebase = begin(CreateIndex((built, log)), manifest(1)).against(committed(2, theirs, manifest(2)))
    assert isinstance(rebase.transaction.operation, CreateIndex)
    ours = rebase.transaction.operation.new_indices
    assert covered(ours[0]) == BitMap([1])
    assert [one.generation for one in mem_wal_details(ours[1]).compacted_sstables] == [4]


def test_a_log_that_we_drop_is_dropped_also_if_others_marked_something_in_it(files: DeletionFiles) -> None:
    read, marked = (index(MEM_WAL, (), [], number=number) for number in (1, 2))
    rebase = begin(CreateIndex((), (read,)), manifest(1, indices=[read])).against(committed(2, Append((fragment(0),))))
    ready = rebase.finish(manifest(2, indices=[marked]), files)
    assert isinstance(ready.operation, CreateIndex)
    assert [one.uuid.uuid for one in ready.operation.removed_indices] == [read.uuid.uuid, marked.uuid.uuid]


def test_an_index_of_the_same_name_that_others_built_goes_when_we_build_or_drop_it(files: DeletionFiles) -> None:
    old, theirs, ours = (index("x", [1], [0], number=number) for number in (1, 2, 3))
    for new, removed in (((ours,), (old,)), ((), (old,)), ((ours,), ())):
        rebase = begin(CreateIndex(new, removed), manifest(1, indices=removed))
        rebase = rebase.against(committed(2, CreateIndex((theirs,), removed)))
        ready = rebase.finish(manifest(2, indices=[theirs]), files)
        assert isinstance(ready.operation, CreateIndex)
        assert ready.operation.removed_indices == (*removed, theirs)


def reuse(versions: dict[int, tuple[int, int]], store: DictStore, number: int) -> pb.IndexMetadata:
    """A fragment-reuse index: version to the fragment that was rewritten and the one that came of it."""
    content = ReuseContent()
    for version, (old, new) in versions.items():
        group = content.versions.add(dataset_version=version).groups.add()
        group.old_fragments.add(id=old)
        group.new_fragments.add(id=new)
    files = ReuseIndexFiles(store)
    entry = files.write(content, uuid=DeletionFiles(store).runtime.uuid(), dataset_version=1, created_at=1)
    entry.uuid.uuid = number.to_bytes(16, "big")
    return entry


def versions_of(entry: pb.IndexMetadata | None, store: DictStore) -> list[int]:
    assert entry is not None
    return [one.dataset_version for one in ReuseIndexFiles(store).read(entry).versions]


def test_reuse_indices_accumulate_over_several_commits(files: DeletionFiles, store: DictStore) -> None:
    """Ours added 9; the first of the others cleaned 3 away, the second added 7: 5, 7 and 9 are left."""
    before = reuse({3: (0, 10), 5: (1, 11)}, store, 1)
    cleaned = reuse({5: (1, 11)}, store, 2)
    added = reuse({5: (1, 11), 7: (2, 12)}, store, 3)
    ours = reuse({3: (0, 10), 5: (1, 11), 9: (4, 14)}, store, 4)
    group = RewriteGroup(old_fragments=[fragment(4)], new_fragments=[fragment(14)])
    rebase = begin(Rewrite((group,), frag_reuse_index=ours), manifest(1, indices=[before]))
    rebase = rebase.against(committed(2, CreateIndex((cleaned,), (before,))))
    rebase = rebase.against(committed(3, CreateIndex((added,), (cleaned,))))
    assert [one.meeting.other.version for one in rebase.reuse] == [2, 3]
    ready = rebase.finish(manifest(3, indices=[added]), files)
    assert isinstance(ready.operation, Rewrite)
    assert versions_of(ready.operation.frag_reuse_index, store) == [5, 7, 9]
    assert ready.read_version == 1


def test_a_reuse_index_that_we_clean_keeps_what_others_added(files: DeletionFiles, store: DictStore) -> None:
    before = reuse({3: (0, 10)}, store, 1)
    theirs = reuse({3: (0, 10), 7: (2, 12)}, store, 2)
    group = RewriteGroup(old_fragments=[fragment(2)], new_fragments=[fragment(12)])
    after = manifest(2, indices=[theirs])
    cleaned = reuse({}, store, 3)
    rebase = begin(CreateIndex((cleaned,), (before,)), manifest(1, indices=[before]))
    ready = rebase.against(committed(2, Rewrite((group,)), after)).finish(after, files)
    assert isinstance(ready.operation, CreateIndex)
    assert versions_of(find(ready.operation.new_indices, FRAGMENT_REUSE), store) == [7]
    removed = {one.uuid.uuid for one in ready.operation.removed_indices}
    assert removed == {before.uuid.uuid, theirs.uuid.uuid}, "one entry must be left, ours"


def test_indices_beside_a_reuse_index_stay_what_they_are_when_it_is_merged(
    files: DeletionFiles, store: DictStore
) -> None:
    before, theirs, ours = reuse({}, store, 1), reuse({7: (2, 12)}, store, 2), reuse({9: (3, 13)}, store, 3)
    beside = index("x", [1], [0], number=9)
    rebase = begin(CreateIndex((beside, ours), (before,)), manifest(1, indices=[before]))
    rebase = rebase.against(committed(2, CreateIndex((theirs,), (before,))))
    ready = rebase.finish(manifest(2, indices=[theirs]), files)
    assert isinstance(ready.operation, CreateIndex)
    assert ready.operation.new_indices[0] == beside
    assert versions_of(ready.operation.new_indices[1], store) == [7, 9]


def test_a_reuse_index_that_nobody_else_wrote_is_left_as_it_was_handed_over(
    files: DeletionFiles, store: DictStore
) -> None:
    ours = reuse({9: (4, 14)}, store, 4)
    group = RewriteGroup(old_fragments=[fragment(4)], new_fragments=[fragment(14)])
    for operation in (Rewrite((group,), frag_reuse_index=ours), CreateIndex((ours,))):
        rebase = begin(operation, manifest(1)).against(committed(2, Append((fragment(0),))))
        assert rebase.finish(manifest(2), files).operation == operation


def test_dropping_the_reuse_index_that_others_wrote_is_retryable(store: DictStore) -> None:
    """To drop it would leave indices that point to places which only it leads on from."""
    before, theirs = reuse({3: (0, 10)}, store, 1), reuse({3: (0, 10), 7: (2, 12)}, store, 2)
    group = RewriteGroup(old_fragments=[fragment(2)], new_fragments=[fragment(12)])
    rebase = begin(CreateIndex((), (before,)), manifest(1, indices=[before]))
    with pytest.raises(RetryableConflict, match="which we drop"):
        rebase.against(committed(2, Rewrite((group,)), manifest(2, indices=[theirs])))


@pytest.mark.parametrize(
    "theirs",
    [
        Update(updated_fragments=(fragment(10),), fields_modified=(1,)),
        Merge((fragment(10, path="anew.lance"),), (field(0, "id"), field(1, "v"))),
    ],
    ids=["Update", "Merge"],
)
def test_values_that_changed_where_rows_were_led_to_are_not_covered_by_the_old_name(
    theirs: Update | Merge, store: DictStore
) -> None:
    """Ours names the fragment where it read the rows. They were moved on, and changed there."""
    entry = index("x", [1], [0])
    led = reuse({2: (0, 10)}, store, 2)
    group = RewriteGroup(old_fragments=[fragment(0)], new_fragments=[fragment(10)])
    rebase = begin(CreateIndex((entry,)), manifest(1, [fragment(0)]))
    rebase = rebase.against(committed(2, Rewrite((group,)), manifest(2, [fragment(10)], indices=[led])))
    assert isinstance(rebase.transaction.operation, CreateIndex)
    assert covered(rebase.transaction.operation.new_indices[0]) == BitMap([0])
    rebase = rebase.against(committed(3, theirs, manifest(3, [fragment(10)], indices=[led])))
    assert isinstance(rebase.transaction.operation, CreateIndex)
    assert not covered(rebase.transaction.operation.new_indices[0])


def test_a_version_that_is_no_longer_kept_cannot_be_compared_with() -> None:
    def gone() -> Manifest:
        raise NotFound("version 1 was cleaned up")

    ours = Transaction(1, "ours", CreateIndex((index("x", [1], [0]),)))
    rebase = TransactionRebase.begin(ours, gone, table="shop.stock")
    with pytest.raises(RetryableConflict, match="no longer kept"):
        rebase.against(committed(2, Update(updated_fragments=(fragment(0),), fields_modified=(1,))))


def test_coverage_by_an_old_name_is_given_up_if_it_cannot_be_seen_where_that_leads(store: DictStore) -> None:
    content = ReuseContent()
    group = content.versions.add(dataset_version=2).groups.add()
    group.changed_row_addrs = bytes(300_000)
    group.old_fragments.add(id=0)
    group.new_fragments.add(id=10)
    uuid = DeletionFiles(store).runtime.uuid()
    elsewhere = ReuseIndexFiles(store).write(content, uuid=uuid, dataset_version=1, created_at=1)
    (made,) = trimmed((index("x", [1], [0]),), (field(0, "id"), field(1, "v")), [10], [1], elsewhere)
    assert not covered(made)


def test_an_index_that_carries_values_of_other_columns_is_trimmed_when_those_change() -> None:
    entry = index("x", [0], [0, 1])
    entry.covering_fields.append(1)
    schema = (field(0, "id"), field(1, "v"), field(2, "w"))
    (made,) = trimmed((entry,), schema, [0], [1])
    assert covered(made) == BitMap([1])
    assert trimmed((entry,), schema, [0], [2]) == (entry,)


def test_a_large_reuse_index_goes_into_a_file_of_its_own(files: DeletionFiles, store: DictStore) -> None:
    before = reuse({}, store, 1)
    theirs = reuse({2: (2, 12)}, store, 2)
    content = ReuseContent()
    group = content.versions.add(dataset_version=9).groups.add()
    group.changed_row_addrs = bytes(300_000)
    group.new_fragments.add(id=14)
    ours = ReuseIndexFiles(store).write(content, uuid=files.runtime.uuid(), dataset_version=1, created_at=1)
    rebase = begin(CreateIndex((ours,), (before,)), manifest(1, indices=[before]))
    rebase = rebase.against(committed(2, CreateIndex((theirs,), (before,))))
    ready = rebase.finish(manifest(2, indices=[theirs]), files)
    assert isinstance(ready.operation, CreateIndex)
    made = find(ready.operation.new_indices, FRAGMENT_REUSE)
    assert made is not None
    assert made.uuid != ours.uuid, "the file of the first attempt is another one"
    assert versions_of(made, store) == [2, 9]


def test_reuse_indices_that_cannot_be_merged_are_retryable(files: DeletionFiles, store: DictStore) -> None:
    before = reuse({}, store, 1)
    tagged = pb.IndexMetadata()
    tagged.CopyFrom(reuse({}, store, 2))
    content = ReuseContent(transitions=[FragmentReuseIndexDetails.Transition()])
    tagged.index_details.value = FragmentReuseIndexDetails(inline=content).SerializeToString()
    rebase = begin(CreateIndex((reuse({5: (1, 11)}, store, 3),), (before,)), manifest(1, indices=[before]))
    rebase = rebase.against(committed(2, CreateIndex((tagged,), (before,))))
    with pytest.raises(RetryableConflict, match="cannot be merged"):
        rebase.finish(manifest(2, indices=[tagged]), files)


# Metadata.


def with_metadata(one: pb.Field, **values: str) -> pb.Field:
    made = pb.Field()
    made.CopyFrom(one)
    for key, value in values.items():
        made.metadata[key] = value.encode()
    return made


def test_a_projection_takes_over_metadata_that_others_set_on_fields() -> None:
    fields = (field(0, "id"), field(1, "v"))
    after = manifest(2, fields=(fields[0], with_metadata(fields[1], unit="kg")))
    ours = Project(schema=(fields[0], field(1, "weight", nullable=False)))
    theirs = UpdateConfig(field_metadata_updates={1: UpdateMap({"unit": "kg"})})
    made = begin(ours, manifest(1, fields=fields)).against(committed(2, theirs, after)).transaction.operation
    assert isinstance(made, Project)
    assert made.schema == (fields[0], with_metadata(field(1, "weight", nullable=False), unit="kg"))


def test_metadata_of_a_field_that_both_changed_is_retryable() -> None:
    fields = (field(0, "id"), field(1, "v"))
    ours = Project(schema=(fields[0], with_metadata(fields[1], unit="g")))
    after = manifest(2, fields=(fields[0], with_metadata(fields[1], unit="kg")))
    theirs = UpdateConfig(field_metadata_updates={1: UpdateMap({"unit": "kg"})})
    with pytest.raises(RetryableConflict, match="metadata of field 1"):
        begin(ours, manifest(1, fields=fields)).against(committed(2, theirs, after))


def test_empty_bitmaps_are_coverage_too() -> None:
    """An index that covers nothing is in nobody's way; one that says nothing is in everybody's."""
    nothing = index("x", [1], [])
    assert roaring.decode(nothing.fragment_bitmap) == BitMap()
    group = RewriteGroup(old_fragments=[fragment(7)], new_fragments=[fragment(20)])
    begin(CreateIndex((nothing,)), manifest(1)).against(committed(2, Rewrite((group,)), manifest(2)))
