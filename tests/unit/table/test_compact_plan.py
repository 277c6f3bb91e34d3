"""Which fragments are compacted together: a matter of the manifest alone."""

from typing import Any

import pytest
from pyroaring import BitMap

from seiche import InvalidInput
from seiche.table.data.index.reach import Reach
from seiche.table.data.rewrite.compact_plan import Options, groups
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest

SMALL = Options(target_rows_per_fragment=100)


def planned(rows: list[int | tuple[int, int]], options: Options = SMALL, *covered: set[int]) -> list[list[int]]:
    """The groups, by fragment id, of fragments with so many rows, of which so many are deleted."""
    made = []
    for number, one in enumerate(rows):
        total, deleted = one if isinstance(one, tuple) else (one, 0)
        fragment = pb.DataFragment(id=number, physical_rows=total, files=[pb.DataFile(path=f"{number}", fields=[0])])
        if deleted:
            fragment.deletion_file.num_deleted_rows = deleted
        made.append(fragment)
    segments = tuple(
        (pb.IndexMetadata(uuid=pb.UUID(uuid=bytes([number] * 16))), BitMap(one)) for number, one in enumerate(covered)
    )
    reach = Reach(segments, led_on=False)
    found = groups(Manifest(pb.Manifest(), Fragments(made)), reach, options)
    return [[one.id for one in group] for group in found]


def test_neighbours_that_are_small_go_together() -> None:
    assert planned([]) == []
    assert planned([10]) == []
    assert planned([10, 20]) == [[0, 1]]
    assert planned([100, 100]) == []
    assert planned([10, 20, 100, 30, 40]) == [[0, 1], [3, 4]]
    assert planned([10, 100, 20, 100, 30]) == []


def test_what_is_enough_for_a_fragment_is_a_group_of_its_own() -> None:
    assert planned([60, 60, 60, 60]) == [[0, 1], [2, 3]]
    assert planned([60, 60, 60, 30]) == [[0, 1, 2, 3]]
    assert planned([99] * 6) == [[0, 1], [2, 3], [4, 5]]


def test_fragments_with_many_deletions_are_written_anew_even_alone() -> None:
    assert planned([(500, 51)]) == [[0]]
    assert planned([(500, 50)]) == []
    assert planned([(500, 400), (500, 400)]) == [[0], [1]]
    assert planned([(500, 450), (500, 450), 20]) == [[0, 1, 2]]
    assert planned([(500, 400)], Options(100, materialize_deletions=False)) == []
    assert planned([(500, 400)], Options(100, materialize_deletions_threshold=0.9)) == []


def test_no_index_covers_a_part_of_a_group() -> None:
    assert planned([10, 10, 10, 10], SMALL, {0, 1}) == [[0, 1], [2, 3]]
    assert planned([10, 10, 10], SMALL, {0}, {1}) == []
    assert planned([10, 10, 10, 10], SMALL, {0, 1, 2, 3}, {1, 2}) == [[1, 2]]


def test_fragments_that_do_not_say_how_many_rows_they_have_are_left_alone() -> None:
    assert planned([10, 0, 10, 10]) == [[2, 3]]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"target_rows_per_fragment": 0}, "target_rows_per_fragment"),
        ({"target_rows_per_fragment": None}, "target_rows_per_fragment"),
        ({"max_bytes_per_file": -1}, "max_bytes_per_file"),
        ({"batch_size": 0}, "batch_size"),
        ({"materialize_deletions_threshold": 1.5}, "1.5"),
        ({"compaction_mode": "fast"}, "fast"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        Options(**options)
