"""Which fragments an index speaks for after a change: too many of them, and it answers wrongly without any error."""

from uuid import UUID

from google.protobuf.any_pb2 import Any
from pyroaring import BitMap

from seiche.table.format.index_details import FRAGMENT_REUSE, ReuseContent, ReuseIndexFiles
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations.coverage import covered, extended, followed, moves_by_id, trimmed
from seiche.table.operations.rewrite import RewriteGroup
from seiche.testing import DictStore
from tests.messages import SCHEMA, fragment, index


def moves(*groups: tuple[list[int], list[int]]) -> ReuseContent:
    content = ReuseContent()
    version = content.versions.add(dataset_version=1)
    for old, new in groups:
        group = version.groups.add()
        for number in old:
            group.old_fragments.add(id=number)
        for number in new:
            group.new_fragments.add(id=number)
    return content


def fragments(indices: tuple[IndexMetadata, ...]) -> list[list[int]]:
    return [list(covered(one) or ()) for one in indices]


def test_values_that_changed_where_a_reuse_index_of_the_table_leads_are_not_covered_by_the_old_name() -> None:
    reuse = ReuseIndexFiles(DictStore()).write(moves(([0], [10])), uuid=UUID(int=9), dataset_version=1, created_at=1)
    assert reuse.name == FRAGMENT_REUSE
    made = trimmed((index(1, "x", [0], [0, 1]), reuse), SCHEMA, [10], [0])
    assert fragments(made[:1]) == [[1]]
    assert made[1] == reuse


def test_fragments_that_were_rewritten_together_are_followed_only_if_all_are_covered() -> None:
    assert followed(BitMap([0, 1, 5]), moves(([0, 1], [10]))) == BitMap([5, 10])
    assert followed(BitMap([0, 5]), moves(([0, 1], [10]))) == BitMap([0, 5])


def test_moved_rows_stay_covered_only_if_all_that_the_index_holds_of_them_was_covered_and_is_unchanged() -> None:
    carrying = index(1, "carries another column", [0], [0, 1])
    carrying.covering_fields.append(1)
    silent = index(2, "names no field", [], [0, 1])
    part = index(3, "covers a part", [0], [0, 5])
    whole = index(4, "covers all", [0], [0, 1])
    places = index(5, "knows places", [0], [0, 1], kind="ZoneMap")
    made = extended((carrying, silent, part, whole, places), [0, 1], [20, 21], [20], [0])
    assert fragments(made) == [[0, 1], [0, 1], [0, 5], [0, 1, 20], [0, 1]]


def test_a_new_fragment_under_an_id_that_was_covered_is_not_covered() -> None:
    assert fragments(extended((index(1, "x", [0], [0, 20]),), [0], [20], [], [0])) == [[0]]


def test_a_rewritten_fragment_stays_covered_by_row_id_if_it_had_deleted_rows() -> None:
    """Nobody carried those along, and the index still knows them: they would be counted among the best and be lost."""
    group = RewriteGroup(old_fragments=[fragment(0, deleted=3), fragment(1)], new_fragments=[fragment(20)])
    assert moves_by_id([group]) == [(BitMap([0, 1]), BitMap([0, 20]))]


def test_entries_of_the_table_itself_are_no_indices_and_stay() -> None:
    own = IndexMetadata(name=FRAGMENT_REUSE, index_details=Any(type_url="/lance.table.BitmapIndexDetails"))
    assert extended((own,), [0], [20], [20], [0]) == (own,)
