"""Operations that bring, change or remove rows: what they make of a manifest, and when they refuse."""

from collections.abc import Callable

import pytest
from pyroaring import BitMap

from seiche.errors import InvalidInput, RetryableConflict
from seiche.table.build import empty
from seiche.table.format import flags, roaring
from seiche.table.format.fragments import Fragments
from seiche.table.format.index_details import MEM_WAL, find, mem_wal_details
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import UUID, BasePath, DataFragment, Field
from seiche.table.format.row_ids import RowIds
from seiche.table.operations import (
    REWRITE_COLUMNS,
    Append,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    MergedGeneration,
    Operation,
    Overwrite,
    Update,
    UpdateMemWalState,
)
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

SHARD = UUID(uuid=bytes(range(16)))


def moved(ids: list[int], rows: int | None = None, *, number: int = 0) -> DataFragment:
    """A new fragment of rows that were in the table before, and perhaps more."""
    made = fragment(number, data_file("moved.lance", [0, 1]), rows=len(ids) if rows is None else rows)
    made.inline_row_ids = RowIds(ids).encode()
    return made


def bitmap(*members: int) -> bytes:
    return roaring.encode(BitMap(members))


class TestAppend:
    def test_ids_go_on_after_the_largest_ever_given_out(self) -> None:
        base = commit(Delete(deleted_fragment_ids=(5,)), table(fragment(0), fragment(5)))
        made = commit(Append((fragment(77), fragment(77))), base)
        assert made.fragments.ids() == [0, 6, 7]
        assert made.header.max_fragment_id == 7

    def test_the_first_id_is_0(self) -> None:
        assert commit(Append((fragment(9),)), table()).fragments.ids() == [0]

    def test_old_fragments_are_not_even_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        base = table(fragment(0), fragment(1), indices=[index(1, "i", [0], [0])])

        def decoded(self: Fragments) -> tuple[DataFragment, ...]:
            if self.pieces[:1] == base.fragments.pieces:
                raise AssertionError("an append decoded what was there")
            return original(self)

        original = Fragments.decoded
        monkeypatch.setattr(Fragments, "decoded", decoded)
        from seiche.table.build import build
        from seiche.table.transaction import Transaction

        made = build(base, Transaction(1, "u", Append((fragment(),))))
        assert made.fragments.pieces[0] is base.fragments.pieces[0]
        assert made.index_section is base.index_section

    def test_the_transaction_is_left_alone(self) -> None:
        operation = Append((fragment(9),))
        commit(operation, table(fragment(0)))
        assert operation == Append((fragment(9),))

    def test_stable_row_ids_go_on_and_versions_are_those_of_the_commit(self) -> None:
        base = table(fragment(0, rows=4), stable=True)
        given = moved([0, 1], 2)  # ids that somebody else put there mean nothing for new rows
        made = commit(Append((fragment(rows=3), given)), base)
        assert [row_ids(one) for one in made.fragments] == [[0, 1, 2, 3], [4, 5, 6], [7, 8]]
        assert [created(one)[0] for one in made.fragments] == [1, 2, 2]
        assert [updated(one)[-1] for one in made.fragments] == [1, 2, 2]
        assert made.header.next_row_id == 9

    def test_without_stable_row_ids_no_fragment_has_any(self) -> None:
        made = commit(Append((moved([3]),)), table(fragment(0)))
        assert made.fragments[1].WhichOneof("row_ids") is None

    def test_with_stable_row_ids_the_number_of_rows_must_be_known(self) -> None:
        with pytest.raises(InvalidInput, match="how many rows"):
            commit(Append((fragment(rows=0),)), table(stable=True))

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (fragment(deleted=1), "deletion file"),
            (fragment(rows=(1 << 32) + 1), "more than one can have"),
            (fragment(rows=0), "how many rows"),
            (DataFragment(physical_rows=1), "no data file"),
            (fragment(0, data_file("", [0])), "no path"),
            (fragment(0, data_file("x", [])), "no fields"),
            (fragment(0, data_file("x", [-1])), "negative"),
            (fragment(0, data_file("x", [0, 2])), r"\[2\]"),
            (fragment(0, data_file("x", [0], file_minor_version=1)), "format version 2.1"),
            (fragment(0, data_file("x", [0], base_id=0)), "base 0"),
            (DataFragment(files=[data_file("x", [0])], overlays=[b"x"]), "overlays"),
        ],
        ids=lambda given: given if isinstance(given, str) else "",
    )
    def test_what_no_reader_could_read_is_refused(self, wrong: DataFragment, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            commit(Append((wrong,)), table(fragment(0)))

    def test_a_table_with_mixed_versions_takes_files_of_any(self) -> None:
        base = table(fragment(0))
        header = base.copy_header()
        header.reader_feature_flags = header.writer_feature_flags = flags.MIXED_DATA_VERSIONS
        mixed = Manifest(header, base.fragments)
        assert len(commit(Append((fragment(0, data_file("x", [0], file_minor_version=1)),)), mixed).fragments) == 2
        with pytest.raises(InvalidInput, match="which there is not"):
            commit(Append((fragment(0, data_file("x", [0], file_minor_version=4)),)), mixed)

    def test_a_table_in_the_first_format_takes_no_files_of_a_later_one(self) -> None:
        first = fragment(0, data_file("x", [0], file_major_version=0, file_minor_version=2))
        base = commit(Overwrite((first,), SCHEMA), empty(data_format="0.1"))
        assert len(commit(Append((first,)), base).fragments) == 2
        with pytest.raises(InvalidInput, match=r"format version 2\.2, the table has 0\.1"):
            commit(Append((fragment(),)), base)

    def test_more_rows_than_ids_are_refused(self) -> None:
        base = table(fragment(0), stable=True)
        header = base.copy_header()
        header.next_row_id = (1 << 64) - 12
        full = commit(Append((fragment(),)), Manifest(header, base.fragments))
        assert full.header.next_row_id == (1 << 64) - 2
        for operation in (Append((fragment(),)), Update(new_fragments=(fragment(),))):
            with pytest.raises(InvalidInput, match="no 10 row ids left"):
                commit(operation, full)

    def test_more_fragments_than_ids_are_refused(self) -> None:
        base = table(fragment((1 << 32) - 2))
        full = commit(Append((fragment(),)), base)
        assert full.max_fragment_id == (1 << 32) - 1
        with pytest.raises(InvalidInput, match="beyond"):
            commit(Append((fragment(),)), full)


class TestFit:
    """Data that was written for one schema and is committed under another."""

    THEN = (field(0, "a"), field(1, "b"))

    def append(self, *now: Field, present: tuple[int, ...] = (0, 1), then: tuple[Field, ...] = THEN) -> Manifest:
        given = fragment(0, data_file("x", present))
        return commit(Append((given,)), table(schema=now), read_schema=then)

    def test_a_dropped_column_is_harmless(self) -> None:
        assert len(self.append(field(0, "a")).fragments) == 1

    def test_a_column_that_was_added_reads_as_null(self) -> None:
        assert len(self.append(*self.THEN, field(2, "c")).fragments) == 1

    @pytest.mark.parametrize(
        "now",
        [
            field(1, "c"),
            field(1, "b", "string"),
            field(1, "b", nullable=False),
        ],
        ids=["another name", "another type", "not null any more"],
    )
    def test_a_field_that_stands_for_something_else_is_retryable(self, now: Field) -> None:
        with pytest.raises(RetryableConflict, match="field 1") as caught:
            self.append(field(0, "a"), now)
        assert caught.value.fields == [1]

    def test_a_field_that_moved_elsewhere_is_retryable(self) -> None:
        with pytest.raises(RetryableConflict, match="field 1"):
            self.append(field(0, "a", "struct"), field(1, "b", parent=0), then=(field(0, "a", "struct"), field(1, "b")))

    def test_a_renamed_struct_is_retryable_for_what_is_inside(self) -> None:
        then = (field(0, "s", "struct"), field(1, "x", parent=0))
        with pytest.raises(RetryableConflict, match="'s' of type struct"):
            self.append(field(0, "t", "struct"), field(1, "x", parent=0), present=(1,), then=then)

    def test_lacking_a_column_that_became_mandatory_is_retryable(self) -> None:
        with pytest.raises(RetryableConflict, match="'c'"):
            self.append(*self.THEN, field(2, "c", nullable=False))

    def test_lacking_a_column_that_was_mandatory_is_wrong(self) -> None:
        schema = (field(0, "a"), field(1, "b", nullable=False))
        with pytest.raises(InvalidInput, match="'b'"):
            self.append(*schema, present=(0,), then=schema)
        with pytest.raises(InvalidInput, match="'b'"):
            self.append(*schema, field(2, "c"), present=(0,), then=schema)

    def test_a_struct_is_there_if_anything_inside_is(self) -> None:
        schema = (
            field(0, "s", "struct", nullable=False),
            field(1, "x", parent=0),
            field(2, "l", "list", parent=0, nullable=False),
            field(3, "item", parent=2),
        )
        assert len(self.append(*schema, present=(1, 3), then=schema).fragments) == 1
        with pytest.raises(InvalidInput, match="'l'"):
            self.append(*schema, present=(1,), then=schema)

    def test_what_is_inside_of_a_struct_is_there_if_the_struct_is_one_column(self) -> None:
        schema = (field(0, "s", "struct", nullable=False), field(1, "x", parent=0, nullable=False))
        assert len(self.append(*schema, present=(0,), then=schema).fragments) == 1
        other = (schema[0], field(1, "x", "string", parent=0, nullable=False))
        with pytest.raises(RetryableConflict, match="field 1"):
            self.append(*other, present=(0,), then=schema)

    def test_what_is_inside_of_an_absent_struct_is_not_missing(self) -> None:
        schema = (field(0, "s", "struct"), field(1, "x", parent=0, nullable=False), field(2, "a"))
        assert len(self.append(*schema, present=(2,), then=schema).fragments) == 1

    def test_fields_that_the_schema_it_was_written_for_had_not_are_wrong(self) -> None:
        with pytest.raises(InvalidInput, match=r"\[2\]"):
            self.append(*self.THEN, field(2, "c"), present=(0, 1, 2))

    def test_an_update_is_held_to_the_same(self) -> None:
        base = table(schema=(field(0, "a"), field(1, "c")))
        with pytest.raises(RetryableConflict, match="field 1"):
            commit(Update(new_fragments=(fragment(),)), base, read_schema=self.THEN)


class TestDelete:
    def test_masks_come_and_fragments_go(self) -> None:
        base = table(fragment(0), fragment(1), fragment(2), indices=[index(1, "i", [0], [0, 1, 2])])
        made = commit(Delete((fragment(1, deleted=3),), (0,)), base)
        assert made.fragments.ids() == [1, 2]
        assert made.fragments[0].deletion_file.num_deleted_rows == 3
        assert made.header.reader_feature_flags == made.header.writer_feature_flags == flags.DELETION_FILES
        assert coverage(made) == {"i": [0, 1, 2]}
        assert made.max_fragment_id == 2

    def test_the_flag_goes_with_the_last_mask(self) -> None:
        base = commit(Delete((fragment(1, deleted=3),)), table(fragment(0), fragment(1)))
        assert commit(Delete(deleted_fragment_ids=(1,)), base).header.reader_feature_flags == 0

    def test_only_the_mask_is_taken_from_the_updated_fragment(self) -> None:
        """The rest of it is as old as the transaction: a column dropped meanwhile must not come back with its file."""
        base = table(fragment(0, data_file("x", [0])), stable=True)
        stale = fragment(0, data_file("x", [0]), data_file("dropped", [5]), deleted=2)
        (made,) = commit(Delete((stale,)), base).fragments
        assert [file.path for file in made.files] == ["x"]
        assert row_ids(made) == [*range(10)]

    def test_the_largest_id_is_remembered_even_if_it_was_not_recorded(self) -> None:
        base = table(fragment(0), fragment(5))
        header = base.copy_header()
        header.ClearField("max_fragment_id")
        unrecorded = Manifest(header, base.fragments)
        assert commit(Delete(deleted_fragment_ids=(5,)), unrecorded).header.max_fragment_id == 5

    def test_the_id_0_is_not_given_out_again_either(self) -> None:
        """What an index or a deletion file knows of the old fragment would be taken to be about the new one."""
        base = table(fragment(0))
        header = base.copy_header()
        header.ClearField("max_fragment_id")
        empty = commit(Delete(deleted_fragment_ids=(0,)), Manifest(header, base.fragments))
        assert commit(Append((fragment(),)), empty).fragments.ids() == [1]

    @pytest.mark.parametrize("make", [lambda one: Delete((one,)), lambda one: Update(updated_fragments=(one,))])
    @pytest.mark.parametrize(
        ("stale", "why"),
        [
            (fragment(1, deleted=2), "3 rows of fragment 1"),
            (fragment(1), "3 rows of fragment 1"),
            (fragment(1, deleted=4, rows=11), "has 10 rows"),
        ],
    )
    def test_deleted_rows_never_come_back(
        self, make: Callable[[DataFragment], Operation], stale: DataFragment, why: str
    ) -> None:
        with pytest.raises(RetryableConflict, match=why) as caught:
            commit(make(stale), table(fragment(0), fragment(1, deleted=3)))
        assert caught.value.fragments == [1]

    @pytest.mark.parametrize(
        "make",
        [
            lambda one: Delete((one,)),
            lambda one: Update(updated_fragments=(one,)),
            lambda one: Merge((one,), SCHEMA),
        ],
        ids=["Delete", "Update", "Merge"],
    )
    @pytest.mark.parametrize(
        ("wrong", "why"),
        [
            (("file_type", 2), r"kind 2, .*\n.*ARROW \(0\), BITMAP \(1\)"),
            (("base_id", 7), "base 7, which the table does not have"),
            (("num_deleted_rows", 11), "11 rows of fragment 0"),
        ],
        ids=["kind", "base", "too many"],
    )
    def test_a_mask_that_no_reader_could_read_is_refused(
        self, make: Callable[[DataFragment], Operation], wrong: tuple[str, int], why: str
    ) -> None:
        given = fragment(0, deleted=3)
        setattr(given.deletion_file, *wrong)
        with pytest.raises(InvalidInput, match=why):
            commit(make(given), table(fragment(0)))

    def test_a_mask_in_a_base_of_the_table_is_found(self) -> None:
        base = commit(Overwrite((fragment(),), SCHEMA, initial_bases=(BasePath(id=4, path="/b"),)), empty())
        given = fragment(0, deleted=3)
        given.deletion_file.base_id = 4
        assert commit(Delete((given,)), base).fragments[0].deletion_file.base_id == 4

    def test_a_mask_of_unknown_size_is_believed(self) -> None:
        base = table(fragment(1, deleted=3))
        assert commit(Delete((fragment(1, deleted=0),)), base).fragments[0].deletion_file.num_deleted_rows == 0

    def test_a_mask_of_unknown_size_is_replaced_only_by_a_mask(self) -> None:
        base = table(fragment(1, deleted=0))
        assert commit(Delete((fragment(1, deleted=2),)), base).fragments[0].deletion_file.num_deleted_rows == 2
        with pytest.raises(RetryableConflict, match="does not know"):
            commit(Delete((fragment(1),)), base)

    @pytest.mark.parametrize(
        "make",
        [
            lambda number: Delete((fragment(number, deleted=1),)),
            lambda number: Delete(deleted_fragment_ids=(number,)),
            lambda number: Update(updated_fragments=(fragment(number, deleted=1),)),
            lambda number: Update(removed_fragment_ids=(number,)),
            lambda number: DataReplacement((DataReplacementGroup(fragment_id=number, new_file=data_file("n", [0])),)),
        ],
    )
    def test_a_fragment_that_is_gone_is_retryable_and_one_that_never_was_is_wrong(
        self, make: Callable[[int], Operation]
    ) -> None:
        base = commit(Delete(deleted_fragment_ids=(1,)), table(fragment(0), fragment(1), fragment(2)))
        with pytest.raises(RetryableConflict, match="fragment 1 does not exist any more"):
            commit(make(1), base)
        with pytest.raises(InvalidInput, match="no fragment 3"):
            commit(make(3), base)

    @pytest.mark.parametrize(
        "operation",
        [
            Delete((fragment(0, deleted=1), fragment(0, deleted=2))),
            Delete((fragment(0, deleted=1),), (0,)),
            Update((0,), (fragment(0, deleted=1),)),
        ],
    )
    def test_a_fragment_named_twice_is_refused(self, operation: Operation) -> None:
        with pytest.raises(InvalidInput, match="twice"):
            commit(operation, table(fragment(0)))


class TestOverwrite:
    def test_a_table_is_created_by_one(self) -> None:
        made = commit(Overwrite((fragment(), fragment()), SCHEMA, {"k": b"v"}, {"c": "1"}), empty())
        assert made.version == 1
        assert made.fragments.ids() == [0, 1]
        assert dict(made.header.schema_metadata) == {"k": b"v"}
        assert made.header.writer_feature_flags == flags.TABLE_CONFIG
        assert made.header.data_format.version == "2.2"

    def test_counters_go_on_and_indices_go(self) -> None:
        base = table(fragment(0), fragment(3, rows=5), stable=True, indices=[index(1, "i", [0], [0])])
        made = commit(Overwrite((fragment(rows=2),), SCHEMA), base)
        assert made.fragments.ids() == [4]
        assert row_ids(made.fragments[0]) == [15, 16]
        assert created(made.fragments[0]) == [2, 2]
        assert made.header.next_row_id == 17
        assert made.indices == ()
        assert commit(Overwrite((), SCHEMA), made).header.max_fragment_id == 4

    def test_configuration_and_metadata_of_the_table_stay(self) -> None:
        base = table(fragment(0), config={"kept": "1", "changed": "1"})
        header = base.copy_header()
        header.table_metadata["owner"] = "me"
        header.schema_metadata["old"] = b"1"
        base = Manifest(header, base.fragments)
        made = commit(Overwrite((), (field(0, "new"),), {"new": b"2"}, {"changed": "2"}), base)
        assert dict(made.header.config) == {"kept": "1", "changed": "2"}
        assert dict(made.header.table_metadata) == {"owner": "me"}
        assert dict(made.header.schema_metadata) == {"new": b"2"}
        assert [one.name for one in made.header.fields] == ["new"]

    def test_bases_come_with_it_and_its_files_may_lie_in_them(self) -> None:
        given = fragment(0, data_file("x", [0], base_id=4))
        made = commit(Overwrite((given,), SCHEMA, initial_bases=(BasePath(id=4, path="/b"),)), empty())
        assert [(base.id, base.path) for base in made.header.base_paths] == [(4, "/b")]
        assert made.header.reader_feature_flags == flags.BASE_PATHS

    def test_the_new_data_decides_the_format_version(self) -> None:
        older = fragment(0, data_file("x", [0], file_minor_version=1))
        assert commit(Overwrite((older,), SCHEMA), table(fragment(0))).header.data_format.version == "2.1"
        first = fragment(0, data_file("x", [0], file_major_version=0, file_minor_version=3))
        assert commit(Overwrite((first,), SCHEMA), table(fragment(0))).header.data_format.version == "2.0"
        with pytest.raises(InvalidInput, match="format version"):
            commit(Overwrite((older, fragment()), SCHEMA), table(fragment(0)))

    @pytest.mark.parametrize(("major", "minor"), [(2, 4), (1, 0), (3, 0), (0, 4), (9999, 9999)])
    def test_a_format_version_that_there_is_not_is_refused(self, major: int, minor: int) -> None:
        made_up = fragment(0, data_file("x", [0], file_major_version=major, file_minor_version=minor))
        for base in (table(fragment(0)), empty(data_format="0.1"), empty()):
            with pytest.raises(InvalidInput, match=rf"format version {major}\.{minor}, which there is not"):
                commit(Overwrite((made_up,), SCHEMA), base)

    @pytest.mark.parametrize(
        "schema",
        [
            (field(0, "a"), field(0, "b")),
            (field(-1, "a"),),
            (field(0, "a"), field(1, "a")),
            (field(0, "x", parent=1), field(1, "s", "struct")),
            (field(0, ""), field(1, "b")),
        ],
        ids=["same id", "negative id", "same name", "child first", "no name"],
    )
    def test_a_schema_that_makes_no_sense_is_refused(self, schema: tuple[Field, ...]) -> None:
        with pytest.raises(InvalidInput):
            commit(Overwrite((), schema), empty())

    def test_data_must_fit_the_new_schema(self) -> None:
        with pytest.raises(InvalidInput, match=r"\[1\]"):
            commit(Overwrite((fragment(),), (field(0, "a"),)), table(fragment(0)))


class TestUpdateRows:
    def base(self, *, kind: str = "Bitmap") -> Manifest:
        """Row ids 0 to 9 in fragment 0, 10 to 19 in fragment 1, and 5, which was in 0 before, in fragment 2."""
        indices = [index(1, "a", [0], [0, 1], kind), index(2, "b", [1], [0, 1], kind), index(3, "part", [0], [1], kind)]
        first = table(fragment(0), fragment(1), stable=True, indices=indices)
        return commit(Update(updated_fragments=(fragment(0, deleted=1),), new_fragments=(moved([5]),)), first)

    def test_moved_rows_keep_id_and_creation_and_new_ones_get_theirs(self) -> None:
        base = self.base()
        assert [row_ids(one) for one in base.fragments][2:] == [[5]]
        operation = Update(
            updated_fragments=(fragment(0, deleted=2),), removed_fragment_ids=(2,), new_fragments=(moved([7, 5], 4),)
        )
        made = commit(operation, base)
        assert made.fragments.ids() == [0, 1, 3]
        new = made.fragments[2]
        assert row_ids(new) == [7, 5, 20, 21]
        assert created(new) == [1, 1, 3, 3]
        assert updated(new) == [3, 3, 3, 3]
        assert made.header.next_row_id == 22
        assert row_ids(made.fragments[0]) == [*range(10)]

    def test_creation_is_found_also_in_fragments_that_the_update_does_not_name(self) -> None:
        made = commit(Update(new_fragments=(moved([12]),)), self.base())
        assert created(made.fragments[3]) == [1]

    @pytest.mark.parametrize(
        ("new", "why"),
        [
            ((moved([20]),), "no row of the table"),
            ((moved([3, 3]),), "same row id"),
            ((moved([3]), moved([3])), "same row id"),
            ((moved([3, 4], 1),), "2 row ids for 1 rows"),
        ],
    )
    def test_ids_that_cannot_be_right_are_refused(self, new: tuple[DataFragment, ...], why: str) -> None:
        with pytest.raises(InvalidInput, match=why):
            commit(Update(new_fragments=new), table(fragment(0), fragment(1), stable=True))

    def test_ids_that_no_row_has_are_refused(self) -> None:
        base = commit(Delete(deleted_fragment_ids=(0,)), table(fragment(0), fragment(1), stable=True))
        with pytest.raises(InvalidInput, match="no row of the table"):
            commit(Update(new_fragments=(moved([3]),)), base)

    def extended(self, base: Manifest, new: DataFragment, *, decoded: bool = False) -> dict[str, list[int]]:
        operation = Update(
            updated_fragments=(fragment(0, deleted=2),),
            new_fragments=(new,),
            fields_for_preserving_frag_bitmap=(0,),
            decoded=decoded,
        )
        return coverage(commit(operation, base))

    def test_indices_on_unchanged_fields_go_on_covering_moved_rows(self) -> None:
        assert self.extended(self.base(), moved([7])) == {"a": [0, 1, 3], "b": [0, 1], "part": [1]}

    def test_but_not_if_new_rows_came_along(self) -> None:
        assert self.extended(self.base(), moved([7], 2)) == {"a": [0, 1], "b": [0, 1], "part": [1]}

    def test_but_not_indices_that_know_rows_by_their_place(self) -> None:
        for kind in ("ZoneMap", "BloomFilter", "SomethingNew"):
            assert self.extended(self.base(kind=kind), moved([7])) == {"a": [0, 1], "b": [0, 1], "part": [1]}

    def test_but_not_if_the_update_was_read_from_a_message(self) -> None:
        assert self.extended(self.base(), moved([7]), decoded=True) == {"a": [0, 1], "b": [0, 1], "part": [1]}
        read = Update.from_proto(Update(new_fragments=(moved([7]),), fields_for_preserving_frag_bitmap=(0,)).to_proto())
        assert read.decoded

    def test_but_not_if_it_is_not_said_where_the_rows_came_from(self) -> None:
        operation = Update(new_fragments=(moved([7]),), fields_for_preserving_frag_bitmap=(0,))
        assert coverage(commit(operation, self.base())) == {"a": [0, 1], "b": [0, 1], "part": [1]}

    def test_but_not_without_stable_row_ids(self) -> None:
        base = table(fragment(0), fragment(1), indices=[index(1, "a", [0], [0, 1])])
        assert self.extended(base, fragment()) == {"a": [0, 1]}

    def test_a_new_fragment_is_struck_from_coverage_that_foresaw_it(self) -> None:
        base = table(fragment(0), indices=[index(1, "a", [0], [0, 1, 2])])
        assert coverage(commit(Update(new_fragments=(fragment(),)), base)) == {"a": [0, 2]}


class TestRowsThatMakeNoSense:
    """What the operation brings is not damage to the table, and says so."""

    def test_row_ids_of_moved_rows(self) -> None:
        base = commit(Append((fragment(),)), table(stable=True))
        new = moved([1])
        new.inline_row_ids = b"\xff"
        with pytest.raises(InvalidInput, match="row id"):
            commit(Update(new_fragments=(new,)), base)

    def test_offsets_of_updated_rows(self) -> None:
        base = commit(Append((fragment(),)), table(stable=True))
        with pytest.raises(InvalidInput, match="the updated rows of fragment 0"):
            commit(Update(updated_fragments=(base.fragments[0],), updated_offsets={0: b"\xff"}), base)


class TestNewFragments:
    @pytest.mark.parametrize(
        "files",
        [[("a", [0, 1]), ("b", [1])], [("a", [0, 1, 0])], [("a", [0, 1]), ("a", [0, 1])]],
        ids=["in two files", "in one file", "the same file"],
    )
    def test_a_field_in_two_places_is_refused(self, files: list[tuple[str, list[int]]]) -> None:
        new = fragment(0, *(data_file(path, fields) for path, fields in files))
        merge = Merge((fragment(0), fragment(1), new), SCHEMA, added=1)
        for operation in (Append((new,)), Overwrite((new,), SCHEMA), Update(new_fragments=(new,)), merge):
            with pytest.raises(InvalidInput, match="in two places"):
                commit(operation, table(fragment(0), fragment(1)))

    def test_a_field_that_another_file_took_over_is_in_one_place(self) -> None:
        new = fragment(0, data_file("a", [0, -2, -2]), data_file("b", [1]))
        assert len(commit(Append((new,)), table(fragment(0))).fragments) == 2


class TestUpdateColumns:
    def update(self, base: Manifest, *, path: str = "new", **members: object) -> Manifest:
        given = fragment(1, data_file("1.lance", [0, 1]), data_file(path, [1]))
        return commit(Update(updated_fragments=(given,), update_mode=REWRITE_COLUMNS, **members), base)  # type: ignore[arg-type]

    def base(self, *, stable: bool = False) -> Manifest:
        indices = [index(1, "a", [0], [0, 1]), index(2, "b", [1], [0, 1]), index(3, "both", [0, 1], [0, 1])]
        return table(fragment(0), fragment(1), stable=stable, indices=indices)

    def test_the_old_column_becomes_a_tombstone(self) -> None:
        made = self.update(self.base(), fields_modified=(1,)).fragments[1]
        assert [(file.path, list(file.fields)) for file in made.files] == [("1.lance", [0, -2]), ("new", [1])]
        assert list(made.files[0].column_indices) == [0, 1]

    def test_coverage_is_trimmed_for_modified_fields_only(self) -> None:
        assert coverage(self.update(self.base(), fields_modified=(1,))) == {"a": [0, 1], "b": [0], "both": [0]}

    def test_coverage_is_trimmed_also_if_the_update_forgets_to_say(self) -> None:
        assert coverage(self.update(self.base())) == {"a": [0, 1], "b": [0], "both": [0]}

    def test_coverage_is_trimmed_for_a_column_that_had_no_file_before(self) -> None:
        indices = [index(1, "a", [0], [0, 1]), index(2, "b", [1], [0, 1])]
        base = table(fragment(0), fragment(1, data_file("1.lance", [0])), indices=indices)
        given = fragment(1, data_file("1.lance", [0]), data_file("new", [1]))
        for operation in (Update(updated_fragments=(given,)), Merge((fragment(0), given), tuple(base.header.fields))):
            assert coverage(commit(operation, base)) == {"a": [0, 1], "b": [0]}

    def test_a_fragment_without_its_old_files_is_refused_and_not_read_as_nulls(self) -> None:
        base = table(fragment(1, data_file("a", [0]), data_file("b", [1])))
        given = fragment(1, data_file("new", [1]))
        for operation in (Update(updated_fragments=(given,)), Merge((given,), tuple(base.header.fields))):
            with pytest.raises(InvalidInput, match="fragment 1 would lose the values of 'a'"):
                commit(operation, base)
        # A column that nobody has any more is no loss.
        assert commit(Merge((given,), tuple(base.header.fields)[1:]), base).fragments[0].files[0].path == "new"

    def test_what_the_update_says_counts_even_if_no_file_changed(self) -> None:
        operation = Update(updated_fragments=(fragment(1),), fields_modified=(0,))
        assert coverage(commit(operation, self.base())) == {"a": [0], "b": [0, 1], "both": [0]}

    def test_coverage_is_trimmed_for_whatever_is_inside_or_outside_of_a_modified_field(self) -> None:
        schema = (field(0, "s", "struct"), field(1, "x", parent=0), field(2, "y", parent=0), field(3, "t", "struct"))
        indices = [index(1, "outer", [0], [1]), index(2, "inner", [1], [1]), index(3, "beside", [2], [1])]
        base = table(fragment(1, data_file("x", [1, 2])), schema=schema, indices=indices)
        given = fragment(1, data_file("x", [1, 2]))
        made = commit(Update(updated_fragments=(given,), fields_modified=(1,)), base)
        assert coverage(made) == {"outer": [], "inner": [], "beside": [1]}
        made = commit(Update(updated_fragments=(given,), fields_modified=(0,)), base)
        assert coverage(made) == {"outer": [], "inner": [], "beside": []}

    def test_an_index_that_carries_a_modified_field_is_trimmed_too(self) -> None:
        carrying = index(1, "a", [0], [0, 1])
        carrying.covering_fields.append(1)
        base = table(fragment(0), fragment(1), indices=[carrying])
        assert coverage(self.update(base, fields_modified=(1,))) == {"a": [0]}

    def test_the_rows_named_are_updated_in_this_version(self) -> None:
        base = commit(Append((fragment(),)), self.base(stable=True))
        made = self.update(base, fields_modified=(1,), updated_offsets={1: bitmap(2, 4, 5)}).fragments[1]
        assert updated(made) == [1, 1, 3, 1, 3, 3, 1, 1, 1, 1]
        assert created(made) == [1] * 10
        assert row_ids(made) == [*range(10, 20)]

    def test_without_names_all_rows_are(self) -> None:
        assert updated(self.update(self.base(stable=True)).fragments[1]) == [2] * 10

    def test_offsets_beyond_the_fragment_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="row 10"):
            self.update(self.base(stable=True), updated_offsets={1: bitmap(10)})

    def test_a_file_with_a_column_that_was_dropped_meanwhile_is_left_out(self) -> None:
        base = table(fragment(1, data_file("1.lance", [0, 1])), schema=(field(0, "a"),))
        given = fragment(1, data_file("1.lance", [0, 1]), data_file("new", [1]))
        made = commit(Update(updated_fragments=(given,)), base, read_schema=SCHEMA)
        assert [(file.path, list(file.fields)) for file in made.fragments[0].files] == [("1.lance", [0, -2])]

    def test_a_column_that_is_another_by_now_is_retryable(self) -> None:
        base = table(fragment(1, data_file("1.lance", [0, 1])), schema=(field(0, "a"), field(1, "b", "string")))
        given = fragment(1, data_file("1.lance", [0, 1]), data_file("new", [1]))
        with pytest.raises(RetryableConflict, match="field 1"):
            commit(Update(updated_fragments=(given,)), base, read_schema=SCHEMA)

    def test_fields_that_do_not_exist_are_refused(self) -> None:
        given = fragment(1, data_file("1.lance", [0, 1]), data_file("new", [7]))
        with pytest.raises(InvalidInput, match=r"\[7\]"):
            commit(Update(updated_fragments=(given,)), self.base())


class TestGenerations:
    def merged(self, manifest: Manifest) -> list[tuple[bytes, int]]:
        entry = find(manifest.indices, MEM_WAL)
        assert entry is not None
        return [(one.shard.uuid, one.generation) for one in mem_wal_details(entry).compacted_sstables]

    @pytest.mark.parametrize(
        "make",
        [
            lambda *generations: UpdateMemWalState(generations),
            lambda *generations: Update(new_fragments=(fragment(),), merged_generations=generations),
        ],
    )
    def test_they_are_marked_and_the_entry_gets_a_new_id(self, make: Callable[..., Operation]) -> None:
        other = UUID(uuid=bytes(16))
        one = MergedGeneration(shard=SHARD, generation=4)
        first = commit(make(one), table(fragment(0), indices=[index(1, "a", [0], [0])]))
        second = commit(
            make(MergedGeneration(shard=SHARD, generation=6), MergedGeneration(shard=other, generation=1)), first
        )
        assert self.merged(first) == [(SHARD.uuid, 4)]
        assert self.merged(second) == [(SHARD.uuid, 6), (other.uuid, 1)]
        before, after = find(first.indices, MEM_WAL), find(second.indices, MEM_WAL)
        assert before is not None
        assert after is not None
        assert before.uuid != after.uuid
        assert after.dataset_version == 3
        assert [one.name for one in second.indices] == ["a", MEM_WAL]

    def test_rows_of_a_generation_are_not_merged_twice(self) -> None:
        one = MergedGeneration(shard=SHARD, generation=4)
        base = commit(UpdateMemWalState((one,)), table(fragment(0)))
        with pytest.raises(InvalidInput, match="merged already"):
            commit(Update(new_fragments=(fragment(),), merged_generations=(one,)), base)

    def test_a_generation_never_falls(self) -> None:
        base = commit(UpdateMemWalState((MergedGeneration(shard=SHARD, generation=4),)), table(fragment(0)))
        made = commit(UpdateMemWalState((MergedGeneration(shard=SHARD, generation=2),)), base)
        assert self.merged(made) == [(SHARD.uuid, 4)]

    def test_a_shard_twice_or_without_id_is_refused(self) -> None:
        for wrong in ((MergedGeneration(shard=SHARD),) * 2, (MergedGeneration(generation=1),)):
            with pytest.raises(InvalidInput, match="shard"):
                commit(UpdateMemWalState(wrong), table(fragment(0)))


class TestDataReplacement:
    def replace(self, base: Manifest, *files: tuple[int, str, list[int]]) -> Manifest:
        groups = [DataReplacementGroup(fragment_id=one, new_file=data_file(path, ids)) for one, path, ids in files]
        return commit(DataReplacement(tuple(groups)), base, read_schema=SCHEMA)

    def files(self, made: DataFragment) -> list[tuple[str, list[int]]]:
        return [(file.path, list(file.fields)) for file in made.files]

    def test_the_new_file_takes_its_fields_over(self) -> None:
        base = table(fragment(0), fragment(1), indices=[index(1, "a", [0], [0, 1]), index(2, "b", [1], [0, 1])])
        made = self.replace(base, (1, "new", [1]))
        assert self.files(made.fragments[1]) == [("1.lance", [0, -2]), ("new", [1])]
        assert self.files(made.fragments[0]) == [("0.lance", [0, 1])]
        assert coverage(made) == {"a": [0, 1], "b": [0]}

    def test_a_file_of_which_nothing_is_left_goes(self) -> None:
        base = table(fragment(0, data_file("x", [0]), data_file("y", [1])))
        assert self.files(self.replace(base, (0, "new", [1])).fragments[0]) == [("x", [0]), ("new", [1])]

    def test_a_column_without_values_gets_them(self) -> None:
        base = table(fragment(0, data_file("x", [0])))
        assert self.files(self.replace(base, (0, "new", [1])).fragments[0]) == [("x", [0]), ("new", [1])]

    def test_one_fragment_may_get_several(self) -> None:
        made = self.replace(table(fragment(0)), (0, "n", [1]), (0, "m", [0]))
        assert self.files(made.fragments[0]) == [("n", [1]), ("m", [0])]

    def test_all_rows_count_as_updated(self) -> None:
        base = table(fragment(0), fragment(1), stable=True)
        made = self.replace(base, (1, "new", [1]))
        assert [updated(one)[0] for one in made.fragments] == [1, 2]
        assert [created(one)[0] for one in made.fragments] == [1, 1]

    def test_a_column_that_changed_its_meaning_is_retryable_and_an_unknown_one_wrong(self) -> None:
        base = table(fragment(0, data_file("x", [0, 1])), schema=(field(0, "a"), field(1, "c")))
        with pytest.raises(RetryableConflict, match="field 1"):
            self.replace(base, (0, "new", [1]))
        with pytest.raises(RetryableConflict, match="any more"):
            self.replace(table(fragment(0, data_file("x", [0])), schema=(field(0, "a"),)), (0, "new", [1]))
        with pytest.raises(InvalidInput, match=r"\[9\]"):
            self.replace(base, (0, "new", [9]))

    def test_files_of_the_first_version_cannot_be_replaced_in_part(self) -> None:
        old = DataReplacementGroup(fragment_id=0, new_file=data_file("n", [1], file_major_version=0))
        with pytest.raises(InvalidInput, match="first format version"):
            commit(DataReplacement((old,)), table(fragment(0)))
