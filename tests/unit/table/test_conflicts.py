"""The matrix as a table, the errors it leads to, and the conditions that the cells name."""

import pytest

from seiche.errors import IncompatibleConflict, NotFound, RetryableConflict
from seiche.table import conflicts
from seiche.table.conditions import CONDITIONS
from seiche.table.conflicts import MATRIX, Rule
from seiche.table.encounter import Encounter, listed
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.operations import (
    OPERATIONS,
    Append,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    Merge,
    Opaque,
    Operation,
    Overwrite,
    Project,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from seiche.table.rebase import _STEPS
from seiche.table.transaction import Transaction
from tests.unit.table.tables import begin, committed, field, fragment, index, manifest, never


def test_the_matrix_has_a_cell_for_every_pair() -> None:
    assert set(MATRIX) == {(row, column) for row in OPERATIONS for column in OPERATIONS}


def test_what_is_always_compatible_is_what_the_matrix_calls_ok() -> None:
    for (ours, theirs), cell in MATRIX.items():
        assert conflicts.always_compatible(ours, theirs) == (cell == ())
    assert conflicts.always_compatible(Append, Append)
    assert not conflicts.always_compatible(Append, Overwrite)
    assert not conflicts.always_compatible(Append, Opaque)


def test_every_word_of_the_matrix_has_a_meaning() -> None:
    rules = {rule for cell in MATRIX.values() for rule in cell}
    assert {rule.outcome for rule in rules} == {"retry", "incompatible", "rebase", "exists"}
    assert {rule.condition for rule in rules if rule.outcome == "rebase"} == set(_STEPS)
    assert {rule.condition for rule in rules if rule.outcome != "rebase"} == set(CONDITIONS)


def test_rebasing_comes_last_in_a_cell() -> None:
    """A rule that may refuse stands before those that adapt: nothing is adapted for a conflict."""
    for cell in MATRIX.values():
        outcomes = [rule.outcome == "rebase" for rule in cell]
        assert outcomes == sorted(outcomes)


def test_the_matrix_is_written_in_the_order_of_the_specification() -> None:
    assert [row for row, column in MATRIX if column is Append] == list(OPERATIONS)
    assert [column for row, column in MATRIX if row is Append] == list(OPERATIONS)


@pytest.mark.parametrize("other", [Append, Delete, CreateIndex, Rewrite, UpdateConfig, UpdateBases, Update])
def test_an_append_passes_others_without_looking_at_anything(other: type[Append]) -> None:
    """The hot path: no manifest is loaded and nothing is made."""
    ours = begin(Append((fragment(0),)))
    assert ours.against(committed(2, other())) is ours


def test_a_retryable_conflict_tells_the_whole_story() -> None:
    group = RewriteGroup(old_fragments=[fragment(3), fragment(4)])
    with pytest.raises(RetryableConflict) as failure:
        begin(Update((4,), (fragment(3),))).against(committed(9, Rewrite((group,))))
    assert str(failure.value) == (
        "shop.stock: Update read version 1, but version 9 (Rewrite, txn txn-9) rewrote fragments 3, 4.\n"
        "  Nothing was written. Run the operation again on version 9 or a later one."
    )
    assert failure.value.retryable
    assert failure.value.details == {
        "table": "shop.stock",
        "operation": "Update",
        "read_version": 1,
        "version": 9,
        "winner_operation": "Rewrite",
        "winner_transaction": "txn-9",
        "fragments": (3, 4),
        "keys": (),
    }


def test_an_incompatible_conflict_warns_of_a_retry() -> None:
    with pytest.raises(IncompatibleConflict) as failure:
        begin(Delete((fragment(1),))).against(committed(4, Restore(1)))
    assert str(failure.value) == (
        "shop.stock: Delete read version 1, but version 4 (Restore, txn txn-4) restored version 1.\n"
        "  Nothing was written. Look at version 4 first: a retry may change other rows than were meant."
    )
    assert not failure.value.retryable


@pytest.mark.parametrize("ours", [operation() for operation in OPERATIONS], ids=lambda one: str(one.name))
@pytest.mark.parametrize(("number", "name"), [(115, "DataOverlay"), (202, "blob_overwrite"), (999, "operation 999")])
def test_whatever_is_committed_over_an_unknown_operation_is_retryable(ours: Operation, number: int, name: str) -> None:
    with pytest.raises(RetryableConflict, match=name) as failure:
        begin(ours).against(committed(2, Opaque(number, b"")))
    assert failure.value.details["winner_operation"] == name


def test_keys_in_dispute_are_named() -> None:
    ours = UpdateConfig(UpdateMap({"a": "1", "b": None}), field_metadata_updates={3: UpdateMap({"unit": "kg"})})
    theirs = UpdateConfig(UpdateMap({"b": "2", "c": "3"}), field_metadata_updates={3: UpdateMap({"unit": "g"})})
    with pytest.raises(IncompatibleConflict) as failure:
        begin(ours).against(committed(2, theirs))
    assert failure.value.details["keys"] == ("config.b", "field 3.unit")


def test_many_fragments_are_not_all_spelled_out() -> None:
    assert listed("fragment", [7]) == "fragment 7"
    assert listed("fragment", range(13)) == "fragments 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"


def test_the_first_condition_that_holds_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = (Rule("incompatible", "fragments"), Rule("retry", ""))
    monkeypatch.setitem(conflicts.MATRIX, (Delete, Rewrite), cell)
    touching = Rewrite((RewriteGroup(old_fragments=[fragment(3)]),))
    with pytest.raises(IncompatibleConflict):
        begin(Delete((fragment(3),))).against(committed(2, touching))
    with pytest.raises(RetryableConflict):
        begin(Delete((fragment(4),))).against(committed(2, touching))


def test_a_read_version_that_is_gone_is_retryable() -> None:
    def gone() -> Manifest:
        raise NotFound("cleaned up")

    ours = begin(Delete((fragment(0),)))
    rebase = type(ours).begin(ours.transaction, gone, table="shop.stock")
    with pytest.raises(RetryableConflict, match="no longer kept"):
        rebase.against(committed(2, Delete((fragment(0),))))


# Rows that no longer fit the schema.


def appended(*fields: int) -> Append:
    return Append((fragment(0, fields=fields),))


BEFORE = (field(0, "id"), field(1, "v"), field(2, "s", "struct"), field(3, "x", parent=2))


@pytest.mark.parametrize(
    ("after", "conflict"),
    [
        pytest.param((field(0, "id"), field(1, "v")), None, id="a dropped column is harmless"),
        pytest.param((*BEFORE, field(9, "new")), None, id="a new column may be null"),
        pytest.param((*BEFORE, field(9, "new", nullable=False)), "made field 9 required", id="a new one is required"),
        pytest.param((*BEFORE, field(8, "t", "struct"), field(9, "y", nullable=False, parent=8)), None,
                     id="required inside of a new struct that may be null"),
        pytest.param((*BEFORE, field(9, "y", nullable=False, parent=2)), "made field 9 required",
                     id="required inside of a struct that was there"),
        pytest.param((field(0, "id"), field(1, "v", nullable=False)), "made field 1 required", id="became required"),
        pytest.param((field(0, "id"), field(1, "w")), r"field 1, which was v \(int64\), w", id="another name"),
        pytest.param((field(0, "id"), field(1, "v", "string")), r"was v \(int64\), v \(string\)", id="another type"),
        pytest.param((field(0, "id"), field(9, "v", "int32")), "field 9 in the place of field 1, v",
                     id="the column has another id"),
        pytest.param((*BEFORE[:2], field(2, "r", "struct"), field(3, "x", parent=2)), r"was s\.x \(int64\), r\.x",
                     id="another parent"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("other", [Merge, Project])
def test_appended_rows_must_fit_the_schema(
    after: tuple[pb.Field, ...], conflict: str | None, other: type[Merge], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = begin(appended(0, 1, 3), manifest(1, fields=BEFORE))
    theirs = committed(2, other(schema=after), manifest(2, fields=after))
    if conflict is None:
        assert ours.against(theirs) is ours
    else:
        with pytest.raises(RetryableConflict, match=conflict):
            ours.against(theirs)


def test_every_appended_fragment_must_fit_the_schema() -> None:
    after = (field(0, "id"), field(1, "w"))
    ours = begin(Append((fragment(0, fields=[0]), fragment(0, fields=[0, 1]))), manifest(1))
    with pytest.raises(RetryableConflict, match="made field 1, which was v"):
        ours.against(committed(2, Project(schema=after), manifest(2, fields=after)))


def test_values_put_in_the_place_of_others_must_not_be_null_where_they_became_required() -> None:
    after = (field(0, "id"), field(1, "v", nullable=False))
    theirs = committed(2, Project(schema=after), manifest(2, fields=after))
    for field_id, refused in ((1, True), (0, False)):
        file = pb.DataFile(path="x", fields=[field_id])
        ours = begin(DataReplacement((DataReplacementGroup(fragment_id=0, new_file=file),)), manifest(1))
        if refused:
            with pytest.raises(RetryableConflict, match="made field 1 required"):
                ours.against(theirs)
        else:
            assert ours.against(theirs) is ours


def test_an_append_of_nothing_fits_every_schema() -> None:
    after = (*BEFORE, field(9, "new", nullable=False))
    ours = begin(Append(), manifest(1, fields=BEFORE))
    assert ours.against(committed(2, Project(schema=after), manifest(2, fields=after))) is ours


# Indices and rewrites.


def rewrite(*old: int, new: int = 20) -> Rewrite:
    return Rewrite((RewriteGroup(old_fragments=map(fragment, old), new_fragments=[fragment(new)]),))


def test_an_index_that_does_not_say_what_it_covers_covers_everything() -> None:
    silent = pb.IndexMetadata(name="x", fields=[1])
    for ours, theirs in ((CreateIndex((silent,)), rewrite(7)), (rewrite(7), CreateIndex((silent,)))):
        with pytest.raises(RetryableConflict, match="index x"):
            begin(ours, manifest(1)).against(committed(2, theirs, manifest(2)))


def test_a_group_of_which_a_reuse_index_does_not_know_is_not_led_on() -> None:
    """An older fragment-reuse index in the table says nothing about this rewrite."""
    older = index("__lance_frag_reuse", (), covers=[19])
    with pytest.raises(RetryableConflict):
        begin(CreateIndex((index("x", [1], [7]),)), manifest(1)).against(
            committed(2, rewrite(7, new=20), manifest(2, indices=[older]))
        )
    carried = index("__lance_frag_reuse", (), covers=[19, 20])
    begin(CreateIndex((index("x", [1], [7]),)), manifest(1)).against(
        committed(2, rewrite(7, new=20), manifest(2, indices=[carried]))
    )


@pytest.mark.parametrize(
    ("built", "old", "new", "known"),
    [
        (index("x", [1], [7]), [7, 8], [20], [20]),
        (pb.IndexMetadata(name="x", fields=[1]), [7], [20], [20]),
        (index("x", [1], [7]), [7], [20, 21], [20]),
        (index("x", [1], [7]), [7], [], [20]),
    ],
    ids=["a part of the group", "coverage that is not said", "a new fragment it does not know", "no new fragment"],
)
def test_what_a_reuse_index_does_not_lead_on_whole_conflicts_on_either_side(
    built: pb.IndexMetadata, old: list[int], new: list[int], known: list[int]
) -> None:
    group = RewriteGroup(old_fragments=map(fragment, old), new_fragments=map(fragment, new))
    carried = index("__lance_frag_reuse", (), covers=known)
    with pytest.raises(RetryableConflict, match="which index x covers"):
        begin(CreateIndex((built,)), manifest(1)).against(
            committed(2, Rewrite((group,)), manifest(2, indices=[carried]))
        )
    with pytest.raises(RetryableConflict, match="built index x"):
        begin(Rewrite((group,), frag_reuse_index=carried), manifest(1)).against(committed(2, CreateIndex((built,))))


@pytest.mark.parametrize("kind", ["NGramIndexDetails", "ZoneMapIndexDetails", "BloomFilterIndexDetails"])
def test_an_index_that_cannot_be_led_on_conflicts_also_with_a_reuse_index(kind: str) -> None:
    entry = index("x", [1], [7])
    entry.index_details.type_url = f"/lance.table.{kind}"
    carried = index("__lance_frag_reuse", (), covers=[20])
    with pytest.raises(RetryableConflict):
        begin(CreateIndex((entry,)), manifest(1)).against(committed(2, rewrite(7), manifest(2, indices=[carried])))


def test_a_rewritten_index_that_others_removed_is_retryable() -> None:
    old = index("x", [1], [7], number=5)
    renewed = RewrittenIndex(old_id=old.uuid, new_id=pb.UUID(uuid=b"6" * 16))
    ours = Rewrite(rewrite(7).groups, (renewed,))
    with pytest.raises(RetryableConflict, match="removed or replaced index x"):
        begin(ours, manifest(1)).against(committed(2, CreateIndex((), (old,)), manifest(2)))
    begin(ours, manifest(1)).against(committed(2, CreateIndex((), (index("y", [1], [7], number=8),)), manifest(2)))


def test_replacing_inside_of_an_indexed_struct_conflicts_with_the_index() -> None:
    """The index names the struct, the file the field in it."""
    new_file = pb.DataFile(path="x", fields=[3])
    replacing = DataReplacement((DataReplacementGroup(fragment_id=0, new_file=new_file),))
    building = CreateIndex((index("x", [2], [0]),))
    for ours, theirs in ((building, replacing), (replacing, building)):
        with pytest.raises(RetryableConflict, match="index x"):
            begin(ours, manifest(1, fields=BEFORE)).against(committed(2, theirs))


def test_an_index_covers_a_field_also_if_it_only_carries_it_along() -> None:
    covering = index("x", [0], [0])
    covering.covering_fields.append(1)
    with pytest.raises(RetryableConflict, match="dropped field 1"):
        begin(CreateIndex((covering,))).against(committed(2, Project(schema=(field(0, "id"),))))
    replacing = DataReplacement((DataReplacementGroup(fragment_id=0, new_file=pb.DataFile(path="x", fields=[1])),))
    for ours, theirs in ((CreateIndex((covering,)), replacing), (replacing, CreateIndex((covering,)))):
        with pytest.raises(RetryableConflict, match="index x"):
            begin(ours, manifest(1)).against(committed(2, theirs))


# Base paths and configuration.


def base(number: int, name: str | None, path: str) -> pb.BasePath:
    return pb.BasePath(id=number, name=name, path=path)


@pytest.mark.parametrize(
    ("ours", "given", "conflict"),
    [
        (base(1, "a", "/a"), base(2, "b", "/b"), None),
        (base(1, "a", "/a"), base(1, "b", "/b"), "id 1"),
        (base(1, "a", "/a"), base(2, "a", "/b"), "name a"),
        (base(1, "a", "/a"), base(2, "b", "/a"), "path /a"),
        (base(1, None, "/a"), base(2, None, "/b"), None),
        (base(0, "a", "/a"), base(0, "b", "/b"), None),
    ],
)
def test_base_paths_conflict_by_id_name_or_path(ours: pb.BasePath, given: pb.BasePath, conflict: str | None) -> None:
    header = pb.Manifest(version=2, base_paths=[given])
    after = Manifest(header, manifest(2).fragments)
    meeting = Encounter(Transaction(1, "ours", UpdateBases((ours,))), committed(2, UpdateBases((given,)), after), never)
    dispute = CONDITIONS["bases"](meeting)
    assert (dispute is None) == (conflict is None)
    assert dispute is None or dispute.keys == (conflict,)


def test_an_id_that_was_left_open_counts_as_the_one_it_was_given() -> None:
    after = Manifest(pb.Manifest(version=2, base_paths=[base(3, "b", "/b")]), manifest(2).fragments)
    theirs = committed(2, UpdateBases((base(0, "b", "/b"),)), after)
    with pytest.raises(IncompatibleConflict, match="id 3"):
        begin(UpdateBases((base(3, "a", "/a"),))).against(theirs)


def test_an_overwrite_conflicts_by_the_keys_it_sets_and_no_others() -> None:
    ours = begin(Overwrite(config_upsert_values={"a": "1"}))
    assert ours.against(committed(2, UpdateConfig(table_metadata_updates=UpdateMap({"a": "1"})))) is ours
    with pytest.raises(RetryableConflict, match=r"config\.a"):
        ours.against(committed(2, UpdateConfig(UpdateMap({"a": None}))))
    with pytest.raises(RetryableConflict, match=r"config\.\*"):
        ours.against(committed(2, UpdateConfig(UpdateMap({}, replace=True))))


@pytest.mark.parametrize("other", [UpdateMap({"a": "1"}), UpdateMap({}, replace=True)], ids=["one key", "all of them"])
def test_settings_that_are_replaced_as_a_whole_conflict_with_every_change_of_them(other: UpdateMap) -> None:
    whole = UpdateConfig(UpdateMap({}, replace=True))
    for ours, theirs in ((whole, UpdateConfig(other)), (UpdateConfig(other), whole)):
        with pytest.raises(IncompatibleConflict, match=r"config\.\*"):
            begin(ours).against(committed(2, theirs))
        elsewhere = begin(UpdateConfig(table_metadata_updates=ours.config_updates))
        assert elsewhere.against(committed(2, theirs)) is elsewhere


@pytest.mark.parametrize("change", [UpdateMap({"a": "1"}), UpdateMap({}, replace=True)], ids=["one key", "all of them"])
def test_metadata_of_the_schema_conflicts_with_a_schema_that_is_replaced(change: UpdateMap) -> None:
    for update in (UpdateConfig(schema_metadata_updates=change), UpdateConfig(field_metadata_updates={1: change})):
        for ours, theirs in ((Merge(), update), (update, Merge())):
            with pytest.raises(RetryableConflict):
                begin(ours).against(committed(2, theirs))


def test_an_update_of_nothing_changes_no_metadata() -> None:
    """An empty map of changes is not a change."""
    ours = begin(Merge())
    assert ours.against(committed(2, UpdateConfig(schema_metadata_updates=UpdateMap({})))) is ours
