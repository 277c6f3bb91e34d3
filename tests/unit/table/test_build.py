"""Building a version: who made it and when is in it, and what must not reach storage is stopped."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

import seiche
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput
from seiche.table import invariants
from seiche.table.build import build, empty, settled
from seiche.table.format import flags
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.index_details import MEM_WAL
from seiche.table.format.manifest import Manifest
from seiche.table.operations import (
    Append,
    Clone,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    Opaque,
    Operation,
    Overwrite,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from seiche.table.operations.context import Build
from seiche.table.transaction import Transaction
from tests.messages import SCHEMA, data_file, field, fragment, index, reread, table


def transaction(operation: Operation, **members: str) -> Transaction:
    return Transaction(1, "abc", operation, **members)  # type: ignore[arg-type]


class TestBuild:
    def test_a_version_says_who_made_it_when_and_from_what(self) -> None:
        now = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
        runtime = Runtime(SimulatedClock(now), Runtime.seeded(1).random)
        made = build(table(fragment(0)), transaction(Append((fragment(),)), tag="nightly"), runtime=runtime)
        assert made.version == 2
        assert made.timestamp == now
        assert made.header.tag == "nightly"
        assert made.header.transaction_file == "1-abc.txn"
        assert made.header.writer_version.library == "seiche"
        assert made.header.writer_version.version == seiche.__version__
        untagged = build(made, transaction(Append((fragment(),))), runtime=runtime)
        assert untagged.header.tag == ""
        assert untagged.version == 3

    def test_the_base_is_left_alone(self) -> None:
        base = table(fragment(0), config={"a": "1"}, indices=[index(1, "a", [0], [0])])
        before = (base.copy_header(), base.fragments.pieces, base.index_section)
        build(base, transaction(Append((fragment(),))))
        build(base, transaction(Restore(1)))
        assert (base.header, base.fragments.pieces, base.index_section) == before

    @pytest.mark.parametrize("stable", [False, True])
    def test_neither_base_nor_transaction_is_changed(self, stable: bool) -> None:
        """Whatever an operation is built from is used again: for the next attempt, or by somebody who holds it."""
        base = table(fragment(0), fragment(1), stable=stable, indices=[index(1, "a", [0], [0, 1])])
        base = reread(build(base, transaction(ReserveFragments(1))))
        before = (base.copy_header(), base.fragments.pieces, base.index_section)
        group = RewriteGroup(old_fragments=[fragment(1)], new_fragments=[fragment(2, data_file("n", [0, 1]))])
        anew = fragment(0, data_file("0.lance", [0, 1]), data_file("n", [0]))
        for operation in (
            Append((fragment(),)),
            Update(updated_fragments=(anew,), new_fragments=(fragment(),)),
            Rewrite((group,)),
            Rewrite((group,), flat=True),
            Merge((anew, fragment(1)), SCHEMA),
            DataReplacement((DataReplacementGroup(fragment_id=0, new_file=data_file("n", [0])),)),
            UpdateConfig(UpdateMap({"k": "v"}), field_metadata_updates={0: UpdateMap({"k": "v"})}),
            UpdateBases((pb.BasePath(path="/b"),)),
            Clone(True, None, 2, "/source"),
            Overwrite((fragment(),), SCHEMA),
        ):
            stored = transaction(operation).encode()
            build(base, transaction(operation))
            assert transaction(operation).encode() == stored, operation.name
            assert (base.header, base.fragments.pieces, base.index_section) == before, operation.name
            assert reread(base) == base, operation.name

    def test_flags_follow_the_content_and_keep_what_it_does_not_show(self) -> None:
        base = table(fragment(0), config={"a": "1"}, stable=True)
        header = base.copy_header()
        header.reader_feature_flags |= flags.MANAGED_BLOBS
        header.writer_feature_flags |= flags.MANAGED_BLOBS | flags.NO_TRANSACTION_FILE
        base = Manifest(header, base.fragments)
        made = build(base, transaction(Delete((fragment(0, deleted=1),)))).header
        assert made.reader_feature_flags == flags.STABLE_ROW_IDS | flags.MANAGED_BLOBS | flags.DELETION_FILES
        assert made.writer_feature_flags == made.reader_feature_flags | flags.TABLE_CONFIG

    def test_a_table_that_needs_more_than_we_know_is_not_written(self) -> None:
        base = table(fragment(0))
        header = base.copy_header()
        header.writer_feature_flags = 1 << 40
        with pytest.raises(InvalidInput, match="unknown feature flags"):
            build(Manifest(header, base.fragments), transaction(Append((fragment(),))))

    def test_a_table_of_a_lake_is_written_only_for_the_lake(self) -> None:
        base = table(fragment(0))
        header = base.copy_header()
        header.writer_feature_flags = flags.SEICHE_FENCE
        fenced = Manifest(header, base.fragments)
        with pytest.raises(InvalidInput, match="managed by a lake"):
            build(fenced, transaction(Append((fragment(),))))
        made = build(fenced, transaction(Append((fragment(),))), managed=True)
        # What is staged is handed out to plain readers and writers of the lake: the fence goes on when it is published.
        assert made.header.writer_feature_flags == 0

    @pytest.mark.parametrize(
        "wrong",
        [
            Transaction(1, "u", Opaque(115, b"")),
            Transaction(1, "u", Opaque(200, b"")),
            Transaction(1, "u", Append(unknown=b"\x92\x3f\x03abc")),
            Transaction(1, "u", Append(), unknown=b"\x98\x06\x01"),
        ],
        ids=["newer operation", "blob operation", "newer field of the operation", "newer field of the transaction"],
    )
    def test_what_is_not_understood_is_not_committed(self, wrong: Transaction) -> None:
        with pytest.raises(InvalidInput, match="not understood") as caught:
            build(table(fragment(0)), wrong)
        assert caught.value.operation == wrong.operation.name

    def test_what_breaks_a_rule_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(self: Append, manifest: Manifest, build: Build) -> Manifest:
            return Manifest(manifest.copy_header(), manifest.fragments.extended([fragment(1, data_file("x", [-1]))]))

        monkeypatch.setattr(Append, "apply", wrong)
        with pytest.raises(Corrupt, match="would be broken"):
            build(table(fragment(0)), transaction(Append((fragment(),))))

    def test_a_clone_keeps_the_number_of_its_source(self) -> None:
        assert build(table(fragment(0)), transaction(Clone(True, None, 1, "/source"))).version == 1

    def test_a_rewrite_in_the_flat_form_is_stored_with_the_ids_that_its_fragments_get(self) -> None:
        """Others see in it where the rows went, and so which indices still know them."""
        base = table(fragment(0), fragment(4))
        group = RewriteGroup(old_fragments=[fragment(0)], new_fragments=[fragment(0)])
        flat = transaction(Rewrite((group,), flat=True))
        stored = settled(base, flat).operation
        assert isinstance(stored, Rewrite)
        assert [one.id for one in stored.groups[0].new_fragments] == [5]
        assert build(base, flat).fragments.ids() == [4, 5]
        grouped = transaction(Append((fragment(),)))
        assert settled(base, grouped) is grouped

    def test_the_schema_at_the_read_version_may_be_looked_up_when_needed(self) -> None:
        asked = []

        def schema() -> tuple[pb.Field, ...]:
            asked.append(True)
            return (*SCHEMA, field(2, "dropped"))

        given = fragment(0, data_file("x", [0, 1, 2]))
        assert len(build(table(fragment(0)), transaction(Append((given,))), read_schema=schema).fragments) == 2
        assert asked
        asked.clear()
        build(table(fragment(0)), transaction(Delete((fragment(0, deleted=1),))), read_schema=schema)
        assert not asked

    def test_a_new_table_starts_from_nothing(self) -> None:
        start = empty(stable_row_ids=True, data_format="2.1", config={"c": "1"}, table_metadata={"t": "2"})
        assert start.version == 0
        given = fragment(0, data_file("x", [0], file_minor_version=1), rows=3)
        made = reread(build(start, transaction(Overwrite((given,), SCHEMA))))
        assert made.version == 1
        assert made.has_stable_row_ids
        assert made.header.next_row_id == 3
        assert made.header.data_format.file_format == "lance"
        assert made.header.data_format.version == "2.1"
        assert dict(made.header.config) == {"c": "1"}
        assert dict(made.header.table_metadata) == {"t": "2"}


def made_of(
    *fragments: pb.DataFragment, change: Callable[[pb.Manifest], object] = lambda header: None, **members: object
) -> Manifest:
    """Version 2 with these fragments, as an operation with a bug might make it."""
    header = table(fragment(0), fragment(3), stable=bool(members.get("stable"))).copy_header()
    header.version = 2
    change(header)
    return Manifest(header, Fragments(fragments), members.get("indices", ()))  # type: ignore[arg-type]


class TestInvariants:
    BASE = table(fragment(0), fragment(3))

    def refuse(self, made: Manifest, why: str, base: Manifest = BASE) -> None:
        with pytest.raises(Corrupt, match=why):
            invariants.check(base, made)

    def test_a_sound_version_passes(self) -> None:
        invariants.check(self.BASE, made_of(fragment(0), fragment(3)))
        invariants.check(self.BASE, made_of())

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_versions_are_contiguous(self, version: int) -> None:
        def change(header: pb.Manifest) -> None:
            header.version = version

        self.refuse(made_of(fragment(0), change=change), "does not follow")

    def test_the_first_version_of_a_clone_has_the_same_number(self) -> None:
        invariants.check(self.BASE, self.BASE, first=True)
        with pytest.raises(Corrupt, match="does not follow"):
            invariants.check(self.BASE, made_of(), first=True)

    def test_counters_never_fall(self) -> None:
        def lower_fragments(header: pb.Manifest) -> None:
            header.max_fragment_id = 2

        def lower_rows(header: pb.Manifest) -> None:
            header.next_row_id = 19

        self.refuse(made_of(fragment(0), change=lower_fragments), "fragment ids would fall")
        stable = table(fragment(0), fragment(3), stable=True)
        self.refuse(made_of(change=lower_rows, stable=True), "row ids would fall", stable)

    def test_the_counter_of_ids_is_recorded(self) -> None:
        self.refuse(made_of(fragment(0), fragment(9)), "recorded is 3")
        self.refuse(
            made_of(fragment(0), fragment(3), change=lambda header: header.ClearField("max_fragment_id")), "up to 3"
        )

    def test_stable_row_ids_are_everywhere_or_nowhere(self) -> None:
        stable = table(fragment(0), fragment(3), stable=True)
        self.refuse(made_of(fragment(0), stable=True), "fragment 0 lacks row ids", stable)
        self.refuse(made_of(*stable.fragments), "fragment 0 has row ids")

        def off(header: pb.Manifest) -> None:
            header.reader_feature_flags = 0

        self.refuse(made_of(change=off, stable=True), "turned off", stable)

    def test_files_have_the_version_of_the_table(self) -> None:
        older = fragment(0, data_file("x", [0], file_minor_version=1))
        self.refuse(made_of(older), "another format version")

        def mix(header: pb.Manifest) -> None:
            header.reader_feature_flags = header.writer_feature_flags = flags.MIXED_DATA_VERSIONS

        invariants.check(self.BASE, made_of(older, change=mix))

    def test_files_and_indices_lie_in_known_bases(self) -> None:
        self.refuse(made_of(fragment(0, data_file("x", [0], base_id=4))), "unknown base, 4")
        placed = index(1, "a", [0], [0])
        placed.base_id = 4
        self.refuse(made_of(fragment(0), indices=(placed,)), "unknown base, 4")

    def test_no_field_is_minus_one(self) -> None:
        self.refuse(made_of(fragment(0, data_file("x", [-1]))), "field id -1")

    def test_flags_are_known(self) -> None:
        def newer(header: pb.Manifest) -> None:
            header.writer_feature_flags = 1 << 40

        with pytest.raises(InvalidInput, match="unknown feature flags"):
            invariants.check(self.BASE, made_of(change=newer))

    def test_indices_are_on_fields_that_exist(self) -> None:
        self.refuse(made_of(fragment(0), indices=(index(1, "a", [7], [0]),)), "field that does not exist")

        def drop(header: pb.Manifest) -> None:
            del header.fields[1]

        base = table(fragment(0), fragment(3), indices=[index(1, "b", [1], [0])])
        made = made_of(fragment(0), change=drop)
        self.refuse(Manifest(made.copy_header(), made.fragments, base.index_section), "field that does not exist", base)

    def test_indices_are_different(self) -> None:
        self.refuse(made_of(indices=(index(1, "a", [0], [0]), index(1, "b", [0], [0]))), "two of the index 'b'")
        self.refuse(made_of(indices=(index(1, MEM_WAL, [], []), index(2, MEM_WAL, [], []))), "two of the index")
        invariants.check(self.BASE, made_of(indices=(index(1, "a", [0], [0]), index(2, "a", [0], [3]))))

    @pytest.mark.parametrize("joined", [False, True])
    def test_what_was_appended_is_looked_at_and_nothing_else(self, joined: bool) -> None:
        """Also when the pieces were joined, and also when the last piece of the old ones is damaged."""
        base = table(fragment(0), fragment(3))
        good, bad = fragment(4), fragment(4, data_file("x", [-1]))
        for new, sound in ((good, True), (bad, False)):
            fragments = base.fragments.extended([new])
            if joined:
                fragments.pieces = (b"".join(fragments.pieces),)
            header = base.copy_header()
            header.version, header.max_fragment_id = 2, 4
            made = Manifest(header, fragments)
            if sound:
                invariants.check(base, made)
            else:
                self.refuse(made, "field id -1", base)
            assert fragments._decoded is None

    def test_fragments_out_of_order_are_stopped(self) -> None:
        base = table(fragment(0), fragment(3))
        fragments = base.fragments.extended([fragment(4)])
        fragments.pieces = (base.fragments.pieces[0], Fragments([fragment(2)]).pieces[0])
        header = base.copy_header()
        header.version, header.max_fragment_id = 2, 4
        self.refuse(Manifest(header, fragments), "fragment 2 comes after 3", base)
        swapped = Fragments([fragment(0), fragment(3)])
        swapped._decoded = (fragment(3), fragment(0))
        header = base.copy_header()
        header.version = 2
        self.refuse(Manifest(header, swapped), "fragment 0 comes after 3", base)
