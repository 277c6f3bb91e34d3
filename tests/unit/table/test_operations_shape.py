"""Operations that change columns, indices, settings or the place of rows: what they make, and when they refuse."""

from collections.abc import Callable

import pytest
from google.protobuf.any_pb2 import Any

from seiche.errors import InvalidInput, NotFound, RetryableConflict
from seiche.table.build import empty, settled
from seiche.table.format import flags
from seiche.table.format.index_details import FRAGMENT_REUSE, MEM_WAL
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import UUID, BasePath, DataFragment, ExternalFile, Field, IndexFile, IndexMetadata
from seiche.table.format.manifest_pb2 import Manifest as Header
from seiche.table.format.row_ids import RowIds
from seiche.table.operations import (
    Append,
    Clone,
    CreateIndex,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from seiche.table.operations.context import Build
from seiche.table.transaction import Transaction
from tests.messages import (
    SCHEMA,
    commit,
    coverage,
    created,
    data_file,
    field,
    fragment,
    index,
    row_ids,
    table,
    updated,
)

PRIMARY = "lance-schema:unenforced-primary-key"


def numbered(manifest: Manifest, version: int) -> Header:
    header = manifest.copy_header()
    header.version = version
    return header


def files(made: DataFragment) -> list[tuple[str, list[int]]]:
    return [(file.path, list(file.fields)) for file in made.files]


class TestCreateIndex:
    def test_segments_come_and_go_by_their_ids(self) -> None:
        old, other = index(1, "a", [0], [0]), index(2, "a", [0], [1])
        base = table(fragment(0), fragment(1), indices=[old, other])
        new = index(3, "a", [0], [0, 1])
        assert commit(CreateIndex((new,), (old,)), base).indices == (other, new)
        assert commit(CreateIndex((), (old, other)), base).indices == ()
        again = index(2, "a", [0], [0, 1])
        assert commit(CreateIndex((again,)), base).indices == (old, again)

    def test_of_each_of_the_tables_own_entries_there_is_one(self) -> None:
        for name in (MEM_WAL, FRAGMENT_REUSE):
            base = table(fragment(0), indices=[index(1, name, [], [])])
            assert [one.uuid.uuid[-1] for one in commit(CreateIndex((index(2, name, [], []),)), base).indices] == [2]

    def test_a_column_that_is_gone_or_another_is_retryable(self) -> None:
        new = index(1, "b", [1], [0])
        gone = table(fragment(0, data_file("x", [0])), schema=(field(0, "a"),))
        with pytest.raises(RetryableConflict, match="does not exist any more"):
            commit(CreateIndex((new,)), gone, read_schema=SCHEMA)
        other = table(fragment(0), schema=(field(0, "a"), field(1, "b", "string")))
        with pytest.raises(RetryableConflict, match="field 1"):
            commit(CreateIndex((new,)), other, read_schema=SCHEMA)

    def test_a_column_that_became_mandatory_is_still_the_same(self) -> None:
        base = table(fragment(0), schema=(field(0, "a"), field(1, "b", nullable=False)))
        assert len(commit(CreateIndex((index(1, "b", [1], [0]),)), base, read_schema=SCHEMA).indices) == 1

    def test_a_segment_that_was_replaced_by_somebody_else_is_not_left_beside_ours(self) -> None:
        base = table(fragment(0), indices=[index(5, "a", [0], [0])])
        gone = index(1, "a", [0], [0])
        with pytest.raises(RetryableConflict, match="replaced by somebody else"):
            commit(CreateIndex((index(2, "a", [0], [0]),), (gone,)), base)
        made = commit(CreateIndex((index(2, "b", [0], [0]),), (index(1, "c", [0], [0]),)), base)
        assert [one.name for one in made.indices] == ["a", "b"]

    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (index(1, "x", [7], [0]), "do not exist"),
            (index(1, "x", [], [0]), "on no field"),
            (index(1, "", [0], [0]), "no name"),
            (IndexMetadata(name="x", fields=[0]), "16 bytes"),
            (index(1, "x", [0], [0, 1]), "fragment 1"),
            (IndexMetadata(name="x", fields=[0], uuid=UUID(uuid=b"x" * 16), fragment_bitmap=b"x"), "coverage"),
        ],
    )
    def test_what_cannot_be_an_index_is_refused(self, wrong: IndexMetadata, why: str) -> None:
        with pytest.raises(InvalidInput, match=why):
            commit(CreateIndex((wrong,)), table(fragment(0)))

    def test_what_is_removed_is_told_by_its_id(self) -> None:
        """By its name alone it would stay, and pylance could not read the transaction."""
        there = index(1, "x", [0], [0])
        with pytest.raises(InvalidInput, match="'x' has an id that is not 16 bytes"):
            commit(CreateIndex((), (IndexMetadata(name="x"),)), table(fragment(0), indices=[there]))

    def test_one_that_is_given_twice_is_refused(self) -> None:
        for twice in ([index(1, "x", [0], [0]), index(1, "y", [0], [0])], [index(n, MEM_WAL, [], []) for n in (1, 2)]):
            with pytest.raises(InvalidInput, match="is given twice"):
                commit(CreateIndex(tuple(twice)), table(fragment(0)))

    def test_coverage_of_fragments_that_are_gone_is_kept(self) -> None:
        """A fragment-reuse index may say where their rows went."""
        base = commit(Delete(deleted_fragment_ids=(0,)), table(fragment(0), fragment(1)))
        assert coverage(commit(CreateIndex((index(1, "a", [0], [0, 1]),)), base)) == {"a": [0, 1]}


class TestRewrite:
    def group(self, *old: int, new: int, rows: int = 20) -> RewriteGroup:
        made = fragment(new, data_file(f"{new}.lance", [0, 1]), rows=rows)
        return RewriteGroup(old_fragments=[fragment(one) for one in old], new_fragments=[made])

    def base(self, *indices: IndexMetadata, stable: bool = False) -> Manifest:
        """Fragments 0 to 3, and the ids 4 and 5 reserved."""
        made = table(*(fragment(one) for one in range(4)), indices=indices, stable=stable)
        return commit(ReserveFragments(2), made)

    def test_new_fragments_stand_in_place_of_old_ones_in_the_order_of_ids(self) -> None:
        made = commit(Rewrite((self.group(1, 2, new=4),)), self.base())
        assert made.fragments.ids() == [0, 3, 4]
        assert made.max_fragment_id == 5
        later = commit(Append((fragment(),)), self.base())
        assert commit(Rewrite((self.group(1, 2, new=4),)), later).fragments.ids() == [0, 3, 4, 6]

    @pytest.mark.parametrize("new", [0, 3, 6, 100])
    def test_ids_that_were_never_reserved_are_refused(self, new: int) -> None:
        with pytest.raises(InvalidInput, match="never reserved"):
            commit(Rewrite((self.group(1, 2, new=new),)), self.base())

    def test_the_id_0_is_never_a_reserved_one(self) -> None:
        base = commit(Delete(deleted_fragment_ids=(0,)), self.base())
        with pytest.raises(InvalidInput, match="never reserved"):
            commit(Rewrite((self.group(1, 2, new=0),)), base)

    def test_an_id_for_two_fragments_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="twice"):
            commit(Rewrite((self.group(0, 1, new=4), self.group(2, 3, new=4))), self.base())
        with pytest.raises(InvalidInput, match="twice"):
            commit(Rewrite((self.group(0, 1, new=4), self.group(1, 2, new=5))), self.base())

    def test_the_flat_form_gets_its_ids_when_it_is_built_and_is_stored_with_them(self) -> None:
        group = RewriteGroup(old_fragments=[fragment(0), fragment(1)], new_fragments=[fragment(0), fragment(0)])
        flat = Rewrite((group,), flat=True)
        base = self.base()
        stored = settled(base, Transaction(2, "u", flat)).operation
        assert isinstance(stored, Rewrite)
        assert [one.id for one in stored.groups[0].new_fragments] == [6, 7]
        made = commit(stored, base)
        assert made.fragments.ids() == [2, 3, 6, 7]
        assert made.max_fragment_id == 7
        assert commit(flat, base) == made
        grouped = Transaction(2, "u", Rewrite((self.group(1, new=4),)))
        assert settled(base, grouped) is grouped

    def test_rows_are_neither_added_nor_lost(self) -> None:
        for rows in (19, 21):
            with pytest.raises(InvalidInput, match=f"20 rows, those in their place {rows}"):
                commit(Rewrite((self.group(1, 2, new=4, rows=rows),)), self.base())
        with pytest.raises(InvalidInput, match="how many rows"):
            commit(Rewrite((self.group(1, 2, new=4, rows=0),)), self.base())
        masked = commit(Delete((fragment(1, deleted=3),)), self.base())
        group = self.group(2, new=4, rows=17)
        group.old_fragments.append(fragment(1, deleted=3))
        assert commit(Rewrite((group,)), masked).fragments.ids() == [0, 3, 4]

    @pytest.mark.parametrize("stable", [False, True])
    def test_a_group_that_replaces_nothing_is_refused(self, stable: bool) -> None:
        base = self.base(index(1, "a", [0], [0, 1]), stable=stable)
        with pytest.raises(InvalidInput, match="replaces nothing"):
            commit(Rewrite((self.group(new=4, rows=0),)), base)

    def test_a_group_of_which_no_row_is_left_may_go(self) -> None:
        masked = commit(Delete((fragment(1, deleted=10),)), self.base())
        group = RewriteGroup(old_fragments=[fragment(1, deleted=10)])
        assert commit(Rewrite((group,)), masked).fragments.ids() == [0, 2, 3]

    def test_numbers_that_are_not_known_are_not_compared(self) -> None:
        masked = commit(Delete((fragment(1, deleted=0),)), self.base())
        group = self.group(2, new=4, rows=17)
        group.old_fragments.append(fragment(1, deleted=0))
        assert commit(Rewrite((group,)), masked).fragments.ids() == [0, 3, 4]

    @pytest.mark.parametrize(
        "change",
        [
            Delete((fragment(1, deleted=1),)),
            Delete(deleted_fragment_ids=(1,)),
            Merge(
                (fragment(0), fragment(1, data_file("1.lance", [0]), data_file("n", [1])), fragment(2), fragment(3)),
                SCHEMA,
            ),
        ],
        ids=["mask", "gone", "file"],
    )
    def test_a_fragment_that_somebody_changed_is_retryable(self, change: Operation) -> None:
        with pytest.raises(RetryableConflict, match="fragment 1"):
            commit(Rewrite((self.group(1, 2, new=4),)), commit(change, self.base()))

    def test_a_file_that_went_with_its_column_is_no_change(self) -> None:
        two = fragment(0, data_file("x", [0]), data_file("y", [1]))
        base = commit(ReserveFragments(1), commit(Project((field(0, "a"),)), table(two)))
        new = fragment(1, data_file("n", [0]))
        made = commit(Rewrite((RewriteGroup(old_fragments=[two], new_fragments=[new]),)), base)
        assert made.fragments.ids() == [1]

    def test_an_old_fragment_may_be_given_by_its_id_alone(self) -> None:
        group = self.group(new=4, rows=10)
        group.old_fragments.add(id=2)
        assert commit(Rewrite((group,)), self.base()).fragments.ids() == [0, 1, 3, 4]

    def test_rewritten_indices_are_swapped_and_follow(self) -> None:
        old, other = index(1, "a", [0], [0, 1, 2]), index(2, "b", [1], [0, 1])
        old.files.add(path="old", size_bytes=1)
        old.base_id = 0
        base = self.base(old, other)
        header = base.copy_header()
        header.base_paths.add(id=0, path="/elsewhere")
        base = Manifest(header, base.fragments, base.indices)
        swap = RewrittenIndex(
            old_id=old.uuid,
            new_id=UUID(uuid=b"n" * 16),
            new_index_details=Any(type_url="/new"),
            new_index_version=3,
            new_index_files=[IndexFile(path="new", size_bytes=2)],
        )
        made = commit(Rewrite((self.group(1, 2, new=4),), (swap,)), base)
        new, same = made.indices
        assert new.uuid.uuid == b"n" * 16
        assert (new.name, list(new.fields), new.index_details.type_url, new.index_version) == ("a", [0], "/new", 3)
        assert [(one.path, one.size_bytes) for one in new.files] == [("new", 2)]
        assert not new.HasField("base_id")  # the new files are in the table itself
        assert coverage(made) == {"a": [0, 4], "b": [0, 1]}
        assert same == other

    def test_details_stay_if_there_are_no_new_ones(self) -> None:
        old = index(1, "a", [0], [0, 1])
        old.index_version = 7
        swap = RewrittenIndex(old_id=old.uuid, new_id=UUID(uuid=b"n" * 16))
        (made,) = commit(Rewrite((self.group(0, 1, new=4),), (swap,)), self.base(old)).indices
        assert made.index_details == old.index_details
        assert made.index_version == 7

    def test_a_rewritten_index_must_cover_a_group_whole_or_not_at_all(self) -> None:
        old = index(1, "a", [0], [0, 1])
        swap = RewrittenIndex(old_id=old.uuid, new_id=UUID(uuid=b"n" * 16))
        with pytest.raises(InvalidInput, match=r"a part of the fragments \[1, 2\]"):
            commit(Rewrite((self.group(1, 2, new=4),), (swap,)), self.base(old))
        assert coverage(commit(Rewrite((self.group(2, 3, new=4),), (swap,)), self.base(old))) == {"a": [0, 1]}

    def test_one_index_replaced_twice_is_refused_and_one_that_is_gone_does_not_matter(self) -> None:
        swap = RewrittenIndex(old_id=UUID(uuid=b"o" * 16), new_id=UUID(uuid=b"n" * 16))
        assert commit(Rewrite((self.group(1, 2, new=4),), (swap,)), self.base()).indices == ()
        with pytest.raises(InvalidInput, match="twice"):
            commit(Rewrite((self.group(1, 2, new=4),), (swap, swap)), self.base())

    def test_a_column_that_the_new_fragments_do_not_have_is_not_lost(self) -> None:
        new = fragment(4, data_file("new", [0]), rows=20)
        without = Rewrite((RewriteGroup(old_fragments=[fragment(1), fragment(2)], new_fragments=[new]),))
        with pytest.raises(InvalidInput, match=r"fragments \[1, 2\] have values of 'b'"):
            commit(without, self.base())
        # One that was dropped is not in the new files, and need not be.
        assert commit(without, commit(Project(SCHEMA[:1]), self.base())).fragments.ids() == [0, 3, 4]

    def test_a_rewritten_index_has_an_id_of_its_own(self) -> None:
        old, other = index(1, "a", [0], [0, 1]), index(2, "b", [0], [0, 1])
        for old_id, new_id in ((old.uuid, UUID()), (UUID(), UUID(uuid=b"n" * 16)), (old.uuid, other.uuid)):
            rewrite = Rewrite((self.group(0, 1, new=4),), (RewrittenIndex(old_id=old_id, new_id=new_id),))
            with pytest.raises(InvalidInput, match="not 16 bytes or is taken"):
                commit(rewrite, self.base(old, other))

    def test_with_stable_row_ids_indices_by_row_id_follow_and_others_lose_the_rows(self) -> None:
        by_id = [index(1, "whole", [0], [1, 2]), index(2, "part", [0], [0, 1]), index(3, "none", [0], [0, 3])]
        zones = index(4, "zones", [0], [1, 2, 3], "ZoneMap")
        old_tree, tree = index(5, "old", [0], [1, 2], "BTree"), index(6, "tree", [0], [1, 2], "BTree")
        tree.index_version = 1
        made = commit(Rewrite((self.group(1, 2, new=4),)), self.base(*by_id, zones, old_tree, tree, stable=True))
        assert coverage(made) == {"whole": [4], "part": [0], "none": [0, 3], "zones": [3], "old": [4], "tree": []}

    def test_the_reuse_entry_takes_the_place_of_the_one_before(self) -> None:
        entry = index(9, FRAGMENT_REUSE, [], [4])
        base = self.base(index(8, FRAGMENT_REUSE, [], []), index(1, "a", [0], [1, 2]))
        made = commit(Rewrite((self.group(1, 2, new=4),), frag_reuse_index=entry), base)
        assert made.indices[-1] == entry
        assert coverage(made) == {"a": [1, 2], FRAGMENT_REUSE: [4]}

    def test_row_ids_and_versions_are_strung_together(self) -> None:
        base = self.base(stable=True)
        made = commit(Rewrite((self.group(2, 0, new=4),)), base).fragments[2]
        assert row_ids(made) == [*range(20, 30), *range(10)]
        assert created(made) == updated(made) == [1] * 20

    def test_row_ids_that_the_rewriter_gives_are_taken_and_counted(self) -> None:
        group = self.group(1, 2, new=4)
        group.new_fragments[0].inline_row_ids = b"".join(
            base.inline_row_ids for base in self.base(stable=True).fragments.decoded()[1:3]
        )
        made = commit(Rewrite((group,)), self.base(stable=True))
        assert row_ids(made.fragments[2]) == [*range(10, 30)]
        group.new_fragments[0].inline_row_ids = self.base(stable=True).fragments[1].inline_row_ids
        with pytest.raises(Exception, match="for 10 rows, the fragment has 20"):
            commit(Rewrite((group,)), self.base(stable=True))

    @pytest.mark.parametrize("ids", [[*range(10), *range(20, 30)], [*range(10, 29), 10]])
    def test_row_ids_are_those_of_the_rows_that_moved(self, ids: list[int]) -> None:
        group = self.group(1, 2, new=4)
        group.new_fragments[0].inline_row_ids = RowIds(ids).encode()
        with pytest.raises(InvalidInput, match="claim ids twice, or those of other rows"):
            commit(Rewrite((group,)), self.base(stable=True))
        group.new_fragments[0].inline_row_ids = RowIds(range(29, 9, -1)).encode()
        made = commit(Rewrite((group,)), self.base(stable=True))
        assert row_ids(made.fragments[2]) == [*range(29, 9, -1)]

    def test_which_rows_are_left_cannot_be_guessed(self) -> None:
        masked = commit(Delete((fragment(1, deleted=3),)), self.base(stable=True))
        group = RewriteGroup(
            old_fragments=[fragment(1, deleted=3)], new_fragments=[fragment(4, data_file("n", [0, 1]), rows=7)]
        )
        with pytest.raises(InvalidInput, match="lack row ids"):
            commit(Rewrite((group,)), masked)


class TestMerge:
    NEW = (*SCHEMA, field(2, "c"))

    def merged(self, number: int, *more: tuple[str, list[int]], **options: int) -> DataFragment:
        added = [data_file(path, fields) for path, fields in more]
        return fragment(number, data_file(f"{number}.lance", [0, 1]), *added, **options)

    def test_fragments_and_schema_are_replaced_wholesale(self) -> None:
        base = table(fragment(0), fragment(1), fragment(2))
        given = (self.merged(1, ("n1", [2])), self.merged(0, ("n0", [2])), self.merged(0, ("fresh", [2])))
        made = commit(Merge(given, self.NEW, {"k": b"v"}), base)
        assert made.fragments.ids() == [0, 1, 3]
        assert files(made.fragments[0]) == [("0.lance", [0, 1]), ("n0", [2])]
        assert files(made.fragments[2]) == [("0.lance", [0, 1]), ("fresh", [2])]
        assert [one.name for one in made.header.fields] == ["a", "b", "c"]
        assert dict(made.header.schema_metadata) == {"k": b"v"}

    def test_how_many_rows_a_fragment_has_is_not_forgotten(self) -> None:
        made = commit(Merge((self.merged(0, ("n0", [2]), rows=0),), self.NEW), table(fragment(0, rows=7)))
        assert made.fragments[0].physical_rows == 7

    def test_metadata_of_the_schema_stays_if_there_is_no_new(self) -> None:
        base = commit(UpdateConfig(schema_metadata_updates=UpdateMap({"k": "v"})), table(fragment(0)))
        assert dict(commit(Merge((fragment(0),), SCHEMA), base).header.schema_metadata) == {"k": b"v"}
        assert dict(commit(Merge((fragment(0),), SCHEMA, {"n": b"w"}), base).header.schema_metadata) == {"n": b"w"}

    def test_a_schema_that_makes_no_sense_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="named 'a'"):
            commit(Merge((fragment(0),), (field(0, "a"), field(1, "a"))), table(fragment(0)))

    def test_an_id_0_is_new_if_no_fragment_has_it(self) -> None:
        base = table(fragment(1))
        made = commit(Merge((self.merged(0, ("n", [2])), self.merged(1, ("m", [2]))), self.NEW), base)
        assert made.fragments.ids() == [1, 2]
        assert files(made.fragments[1])[1] == ("n", [2])

    def test_a_fragment_that_is_gone_is_retryable_and_one_that_never_was_or_is_there_twice_wrong(self) -> None:
        base = commit(Delete(deleted_fragment_ids=(1,)), table(fragment(0), fragment(1)))
        with pytest.raises(RetryableConflict, match="fragment 1"):
            commit(Merge((self.merged(1),), self.NEW), base)
        with pytest.raises(InvalidInput, match="no fragment 9"):
            commit(Merge((self.merged(9),), self.NEW), base)
        with pytest.raises(InvalidInput, match="twice"):
            commit(Merge((self.merged(2), self.merged(2)), self.NEW), table(fragment(2)))

    def test_deleted_rows_never_come_back(self) -> None:
        base = table(fragment(0, deleted=3))
        with pytest.raises(RetryableConflict, match="3 rows of fragment 0"):
            commit(Merge((self.merged(0, ("n", [2])),), self.NEW), base)
        with pytest.raises(RetryableConflict, match="has 10 rows"):
            commit(Merge((self.merged(0, rows=9),), self.NEW), table(fragment(0)))

    def test_indices_lose_fragments_whose_column_was_written_anew_and_vanish_with_their_column(self) -> None:
        indices = [index(1, "a", [0], [0, 1]), index(2, "b", [1], [0, 1]), index(3, MEM_WAL, [], [])]
        base = table(fragment(0), fragment(1), indices=indices)
        made = commit(Merge((self.merged(0), self.merged(1, ("n", [0]))), SCHEMA), base)
        assert coverage(made) == {"a": [0], "b": [0, 1], MEM_WAL: []}
        assert files(made.fragments[1]) == [("1.lance", [-2, 1]), ("n", [0])]
        made = commit(Merge((self.merged(0), self.merged(1)), (field(0, "a"),)), base)
        assert [one.name for one in made.indices] == ["a", MEM_WAL]

    def test_a_file_of_which_no_column_is_left_goes(self) -> None:
        base = table(fragment(0, data_file("x", [0]), data_file("y", [1])))
        given = fragment(0, data_file("x", [0]), data_file("y", [1]))
        assert files(commit(Merge((given,), (field(0, "a"),)), base).fragments[0]) == [("x", [0])]

    def test_rows_are_updated_where_files_changed_and_keep_their_ids(self) -> None:
        base = table(fragment(0), fragment(1), stable=True)
        made = commit(Merge((self.merged(0), self.merged(1, ("n", [2])), self.merged(0)), self.NEW), base)
        assert [updated(one)[0] for one in made.fragments] == [1, 2, 2]
        assert [created(one)[0] for one in made.fragments] == [1, 1, 2]
        assert [row_ids(one)[0] for one in made.fragments] == [0, 10, 20]

    def test_the_id_of_a_dropped_column_is_not_used_again_over_its_data(self) -> None:
        base = commit(Project((field(0, "a"),)), table(fragment(0)))
        with pytest.raises(InvalidInput, match="dropped column"):
            commit(Merge((self.merged(0),), (field(0, "a"), field(1, "new"))), base)
        made = commit(Merge((self.merged(0, ("n", [1])),), (field(0, "a"), field(1, "new"))), base)
        assert files(made.fragments[0]) == [("0.lance", [0, -2]), ("n", [1])]

    def test_a_type_changes_only_with_the_data(self) -> None:
        other = (field(0, "a"), field(1, "b", "string"))
        with pytest.raises(InvalidInput, match="field 1"):
            commit(Merge((self.merged(0),), other), table(fragment(0)))
        made = commit(Merge((self.merged(0, ("n", [1])),), other), table(fragment(0)))
        assert made.header.fields[1].logical_type == "string"

    def test_mandatory_columns_have_values_in_every_fragment(self) -> None:
        mandatory = (*SCHEMA, field(2, "c", nullable=False))
        with pytest.raises(InvalidInput, match="'c'"):
            commit(Merge((self.merged(0, ("n", [2])), self.merged(1)), mandatory), table(fragment(0), fragment(1)))
        became = (field(0, "a"), field(1, "b", nullable=False))
        holey = table(fragment(0, data_file("x", [0])))
        with pytest.raises(InvalidInput, match="'b'"):
            commit(Merge((fragment(0, data_file("x", [0])),), became), holey)


class TestColumnsThatNobodyCouldRead:
    """With most of these no reader opens the table any more, or its process dies."""

    @pytest.mark.parametrize(
        "column",
        [
            (field(2, "c", "int65"),),
            (field(2, "c", ""),),
            (field(2, "c", "list"),),
            (field(2, "c", "list"), field(3, "item", parent=2), field(4, "other", parent=2)),
            (field(2, "c", "map"), field(3, "entries", "struct", parent=2), field(4, "key", parent=3)),
            (field(2, "c", "dict:struct:int32:false"),),
            (field(2, "c", "decimal:128:99:2"),),
            (field(2, "c", "fixed_size_list:float:0"),),
            (field(2, "c", "struct"), field(3, "x", "fixed_size_list:float:99999999999", parent=2)),
            (field(2, "c\0d"),),
            (field(2, "c", "struct"), field(3, "x\0y", parent=2)),
            (field(2, "c.d"),),
            (field(2, "c`d"),),
            (field(2, "_rowid"),),
        ],
        ids=lambda column: "-".join(f"{one.name} {one.logical_type}" for one in column),
    )
    def test_they_are_refused_by_whatever_brings_them(self, column: tuple[Field, ...]) -> None:
        schema = (*SCHEMA, *column)
        for operation in (Overwrite(schema=schema), Project(schema), Merge((fragment(0),), schema)):
            with pytest.raises(InvalidInput, match=r"which is not one of Lance's|expected|nobody could read"):
                commit(operation, table(fragment(0)))

    def test_a_list_without_its_items_is_one_of_them(self) -> None:
        lists = (*SCHEMA, field(2, "c", "list"), field(3, "item", parent=2))
        base = commit(Project(lists), table(fragment(0)))
        with pytest.raises(InvalidInput, match="'c' has 0 fields inside it"):
            commit(Project(lists[:-1]), base)

    def test_one_that_was_there_is_none_of_our_business(self) -> None:
        """A newer writer may have made it, for readers that know it."""
        newer = field(2, "c", "of the future")
        base = table(fragment(0))
        header = base.copy_header()
        header.fields.append(newer)
        made = commit(Project((field(0, "renamed"), *SCHEMA[1:], newer)), Manifest(header, base.fragments))
        assert [one.name for one in made.header.fields] == ["renamed", "b", "c"]


class TestProject:
    def test_the_schema_is_replaced_and_files_stay(self) -> None:
        base = table(fragment(0), indices=[index(1, "a", [0], [0]), index(2, "b", [1], [0]), index(3, MEM_WAL, [], [])])
        made = commit(Project((field(0, "renamed"),)), base)
        assert [one.name for one in made.header.fields] == ["renamed"]
        assert files(made.fragments[0]) == [("0.lance", [0, 1])]
        assert [one.name for one in made.indices] == ["a", MEM_WAL]

    def test_a_file_of_which_no_column_is_left_goes(self) -> None:
        base = table(fragment(0, data_file("x", [0]), data_file("y", [1, -2])), fragment(1))
        made = commit(Project((field(0, "a"),)), base)
        assert [files(one) for one in made.fragments] == [[("x", [0])], [("1.lance", [0, 1])]]

    def test_a_new_column_reads_as_null_if_it_may(self) -> None:
        base = table(fragment(0))
        assert len(commit(Project((*SCHEMA, field(2, "c"))), base).header.fields) == 3
        with pytest.raises(InvalidInput, match="'c'"):
            commit(Project((*SCHEMA, field(2, "c", nullable=False))), base)
        assert len(commit(Project((*SCHEMA, field(2, "c", nullable=False))), table()).header.fields) == 3

    @pytest.mark.parametrize(
        "schema",
        [
            (field(0, "a", "string"), field(1, "b")),
            (field(0, "a", "struct"), field(1, "b", parent=0)),
        ],
        ids=["type", "place"],
    )
    def test_types_stay_with_the_data(self, schema: tuple[Field, ...]) -> None:
        with pytest.raises(InvalidInput, match="over the same data"):
            commit(Project(schema), table(fragment(0)))

    def test_the_id_of_a_dropped_column_is_not_used_again_over_its_data(self) -> None:
        base = commit(Project((field(0, "a"),)), table(fragment(0)))
        with pytest.raises(InvalidInput, match="dropped column"):
            commit(Project((field(0, "a"), field(1, "new"))), base)


class TestRestore:
    def test_everything_is_as_it_was_but_the_counters(self) -> None:
        old = table(fragment(0), stable=True, config={"old": "1"}, indices=[index(1, "a", [0], [0])])
        new = commit(Append((fragment(), fragment())), old)
        new = commit(UpdateConfig(UpdateMap({"new": "1"})), new)
        new = commit(Overwrite((), (field(0, "z"),)), new)
        made = commit(Restore(1), new, versions={1: old})
        assert made.version == 5
        assert made.fragments == old.fragments
        assert made.indices == old.indices
        assert dict(made.header.config) == {"old": "1"}
        assert [one.name for one in made.header.fields] == ["a", "b"]
        assert (made.header.max_fragment_id, made.header.next_row_id) == (2, 30)
        assert commit(Append((fragment(),)), made).fragments.ids() == [0, 3]

    def test_the_old_version_is_left_alone(self) -> None:
        old = table(fragment(0))
        before = old.copy_header()
        commit(Restore(1), commit(Append((fragment(),)), old), versions={1: old})
        assert old.header == before
        assert commit(Restore(1), old).version == 2
        assert old.header == before

    def test_counters_of_the_restored_version_may_be_the_larger(self) -> None:
        old = table(fragment(7), stable=True)
        low = table(fragment(0, rows=1), stable=True)
        header = low.copy_header()
        header.version = 2
        newest = Manifest(header, low.fragments)
        made = commit(Restore(1), newest, versions={1: old})
        assert (made.header.max_fragment_id, made.header.next_row_id) == (7, 10)
        # The build would see to it too; here without it.
        first = Manifest(numbered(old, 1), old.fragments)
        assert Restore(1).apply(newest, Build(3, load=lambda _: first)).header.max_fragment_id == 7
        third = Manifest(numbered(old, 3), old.fragments)
        assert Restore(2).apply(third, Build(4, load=lambda _: newest)).header.max_fragment_id == 7

    @pytest.mark.parametrize("version", [0, 2, 1 << 62])
    def test_a_version_that_never_was_is_refused(self, version: int) -> None:
        with pytest.raises(InvalidInput, match="no version"):
            commit(Restore(version), table(fragment(0)))

    def test_a_version_that_is_gone_is_not_found(self) -> None:
        with pytest.raises(NotFound):
            commit(Restore(1), commit(Append((fragment(),)), table(fragment(0))))

    def test_stable_row_ids_are_not_turned_off(self) -> None:
        new = commit(Append((fragment(),)), table(fragment(0), stable=True))
        with pytest.raises(InvalidInput, match="stable row ids"):
            commit(Restore(1), new, versions={1: table(fragment(0))})

    def test_a_version_with_unknown_features_is_refused(self) -> None:
        old = table(fragment(0))
        header = old.copy_header()
        header.reader_feature_flags = 1 << 40
        new = commit(Append((fragment(),)), old)
        with pytest.raises(InvalidInput, match="unknown feature flags"):
            commit(Restore(1), new, versions={1: Manifest(header, old.fragments)})


class TestReserve:
    def test_the_counter_rises_and_nothing_else_happens(self) -> None:
        base = table(fragment(3), indices=[index(1, "a", [0], [3])])
        made = commit(ReserveFragments(4), base)
        assert made.header.max_fragment_id == 7
        assert made.fragments == base.fragments
        assert made.indices == base.indices

    def test_the_id_0_is_never_reserved(self) -> None:
        base = commit(ReserveFragments(2), table())
        assert base.header.max_fragment_id == 2
        assert commit(Append((fragment(),)), base).fragments.ids() == [3]


class TestClone:
    def source(self) -> Manifest:
        placed = index(1, "a", [0], [0])
        placed.base_id = 5
        base = table(fragment(0, deleted=2), fragment(1), indices=[placed, index(2, "b", [1], [0])])
        header = base.copy_header()
        header.base_paths.add(id=5, name="five", path="/five")
        header.branch = "old"
        header.version = 9
        fragments = base.fragments.replaced({1: fragment(1, data_file("far", [0], base_id=5), data_file("near", [1]))})
        return Manifest(header, fragments, base.indices)

    def clone(self, shallow: bool, branch: str | None = None) -> Manifest:
        return commit(Clone(shallow, None, 9, "/source", branch), self.source())

    def test_a_shallow_one_refers_to_every_file_of_the_source(self) -> None:
        made = self.clone(True)
        assert made.version == 9
        assert [(base.id, base.path, base.is_dataset_root) for base in made.header.base_paths] == [
            (5, "/five", False),
            (6, "/source", True),
        ]
        assert [[file.base_id for file in one.files] for one in made.fragments] == [[6], [5, 6]]
        assert made.fragments[0].deletion_file.base_id == 6
        assert [one.base_id for one in made.indices] == [5, 6]
        assert made.header.reader_feature_flags == flags.BASE_PATHS | flags.DELETION_FILES
        assert not made.header.HasField("branch")

    def test_the_first_base_has_the_id_0(self) -> None:
        made = commit(Clone(True, None, 1, "/source"), table(fragment(0)))
        assert [base.id for base in made.header.base_paths] == [0]
        assert made.fragments[0].files[0].HasField("base_id")

    def test_a_deep_one_has_its_own_copy_of_every_file(self) -> None:
        made = self.clone(False)
        assert not made.header.base_paths
        assert not any(file.HasField("base_id") for one in made.fragments for file in one.files)
        assert not made.fragments[0].deletion_file.HasField("base_id")
        assert not any(one.HasField("base_id") for one in made.indices)

    def test_a_branch_knows_its_name(self) -> None:
        assert self.clone(True, "b").header.branch == "b"

    def test_what_a_clone_could_not_find_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="version 8"):
            commit(Clone(True, None, 8, "/source"), self.source())
        with pytest.raises(InvalidInput, match="path"):
            commit(Clone(True, None, 9, ""), self.source())
        outside = fragment(0)
        outside.external_row_ids.CopyFrom(ExternalFile(path="x"))
        base = Manifest(empty().copy_header(), table(outside).fragments)
        with pytest.raises(InvalidInput, match="external_row_ids"):
            commit(Clone(True, None, 0, "/source"), base)


class TestUpdateConfig:
    def test_maps_are_merged_or_replaced(self) -> None:
        base = table(fragment(0), config={"a": "1", "b": "2"})
        merged = commit(UpdateConfig(UpdateMap({"b": None, "c": "3", "missing": None})), base)
        assert dict(merged.header.config) == {"a": "1", "c": "3"}
        replaced = commit(UpdateConfig(UpdateMap({"c": "3", "a": None}, replace=True)), base)
        assert dict(replaced.header.config) == {"c": "3"}
        none = commit(UpdateConfig(UpdateMap({}, replace=True)), base)
        assert none.header.writer_feature_flags == 0
        assert base.header.writer_feature_flags == flags.TABLE_CONFIG

    def test_metadata_of_table_schema_and_fields(self) -> None:
        update = UpdateConfig(None, UpdateMap({"t": "1"}), UpdateMap({"s": "ä"}), {1: UpdateMap({"f": "ö", "g": "2"})})
        made = commit(update, table(fragment(0)))
        assert dict(made.header.table_metadata) == {"t": "1"}
        assert dict(made.header.schema_metadata) == {"s": "ä".encode()}
        assert dict(made.header.fields[1].metadata) == {"f": "ö".encode(), "g": b"2"}
        assert not made.header.fields[0].metadata
        assert not made.header.config
        made = commit(UpdateConfig(schema_metadata_updates=UpdateMap({"x": "1"}, replace=True)), made)
        assert dict(made.header.schema_metadata) == {"x": b"1"}
        made = commit(UpdateConfig(field_metadata_updates={1: UpdateMap({"f": None})}), made)
        assert dict(made.header.fields[1].metadata) == {"g": b"2"}

    def test_a_field_that_is_gone_is_retryable_and_one_that_never_was_wrong(self) -> None:
        update = UpdateConfig(field_metadata_updates={1: UpdateMap({"f": "1"})})
        base = table(fragment(0, data_file("x", [0])), schema=(field(0, "a"),))
        with pytest.raises(RetryableConflict, match="field 1"):
            commit(update, base, read_schema=SCHEMA)
        with pytest.raises(InvalidInput, match="no field 1"):
            commit(update, base)

    def test_keys_are_declared_by_metadata_and_the_primary_one_only_once(self) -> None:
        def declare(**entries: str) -> UpdateConfig:
            return UpdateConfig(field_metadata_updates={0: UpdateMap(dict(entries))})

        base = table(fragment(0))
        keyed = commit(declare(**{PRIMARY: "true"}), base)
        assert keyed.header.fields[0].unenforced_primary_key
        placed = commit(declare(**{f"{PRIMARY}:position": "2"}), base).header.fields[0]
        assert (placed.unenforced_primary_key, placed.unenforced_primary_key_position) == (True, 2)
        clustered = commit(declare(**{"lance-schema:unenforced-clustering-key:position": "1"}), keyed).header.fields[0]
        assert (clustered.unenforced_clustering_key, clustered.unenforced_clustering_key_position) == (True, 1)
        assert clustered.unenforced_primary_key
        assert commit(declare(other="1"), keyed).header.fields[0].unenforced_primary_key
        with pytest.raises(InvalidInput, match="primary key"):
            commit(declare(**{PRIMARY: "false"}), keyed)


class TestUpdateBases:
    def add(self, *bases: BasePath, to: Manifest | None = None) -> Manifest:
        return commit(UpdateBases(bases), to or table(fragment(0)))

    def test_those_without_id_get_the_next(self) -> None:
        made = self.add(BasePath(path="/a", name="a"), BasePath(id=7, path="/b"), BasePath(path="/c"))
        assert [(base.id, base.path) for base in made.header.base_paths] == [(1, "/a"), (7, "/b"), (8, "/c")]
        assert made.header.reader_feature_flags == made.header.writer_feature_flags == flags.BASE_PATHS

    @pytest.mark.parametrize(
        "same", [BasePath(id=1, path="/new"), BasePath(path="/new", name="a"), BasePath(path="/a"), BasePath(id=3)]
    )
    def test_an_id_name_or_path_that_is_taken_is_refused(self, same: BasePath) -> None:
        base = self.add(BasePath(id=1, path="/a", name="a"))
        with pytest.raises(InvalidInput, match="base path"):
            self.add(same, to=base)


REFUSES: list[Callable[[], Operation]] = [lambda: Append((fragment(deleted=1),)), lambda: Restore(9)]


@pytest.mark.parametrize("make", REFUSES)
def test_a_refused_operation_leaves_the_base_alone(make: Callable[[], Operation]) -> None:
    base = table(fragment(0), indices=[index(1, "a", [0], [0])])
    before = (base.copy_header(), base.fragments.pieces, base.index_section)
    with pytest.raises(InvalidInput):
        commit(make(), base)
    assert (base.header, base.fragments.pieces, base.index_section) == before
