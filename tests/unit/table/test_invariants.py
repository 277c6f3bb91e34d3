"""What is looked at before a version is claimed: that it is sound is never denied, that it is not is noticed."""

from collections.abc import Iterable

import pytest

from seiche.errors import Corrupt
from seiche.table.build import build
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.invariants import check
from seiche.table.operations import Append, Restore, Rewrite, RewriteGroup, UpdateConfig, UpdateMap
from seiche.table.transaction import Transaction
from tests.unit.table.tables import fragment, manifest


def equally_long(number: int, rows: int = 10) -> DataFragment:
    """Fragments that all take the same number of bytes."""
    return fragment(number, rows, path=f"{number:08}.lance")


def table(ids: Iterable[int], last: int) -> Manifest:
    made = manifest(5, [equally_long(number) for number in ids])
    made.header.max_fragment_id = last
    return made


def test_rewritten_fragments_may_come_to_stand_among_the_others() -> None:
    """Ids were reserved, others appended, and then one fragment became two in the midst of the others."""
    group = RewriteGroup(old_fragments=[equally_long(1)], new_fragments=[equally_long(2, 5), equally_long(3, 5)])
    made = build(table([0, 1, 6], 6), Transaction(4, "ours", Rewrite((group,))))
    assert made.fragments.ids() == [0, 2, 3, 6]


@pytest.mark.parametrize("appends", [1, 15, 16, 17, 40])
def test_appended_fragments_are_checked_whether_or_not_their_bytes_were_joined(appends: int) -> None:
    made = table([0, 1], 1)
    for number in range(appends):
        before, made = made, build(made, Transaction(made.version, f"t{number}", Append((equally_long(0),))))
        check(before, made)
        broken = made.copy_header()
        broken.data_format.version = "2.1"
        with pytest.raises(Corrupt, match="another format version"):
            check(before, Manifest(broken, made.fragments))
    assert made.fragments.ids() == list(range(appends + 2))


def test_counters_never_fall() -> None:
    before = table([0, 1], 7)
    before.header.next_row_id = 50
    for counter, lower in (("max_fragment_id", 6), ("next_row_id", 49)):
        header = before.copy_header()
        header.version += 1
        check(before, Manifest(header, before.fragments))
        setattr(header, counter, lower)
        with pytest.raises(Corrupt, match="would fall"):
            check(before, Manifest(header, before.fragments))


def test_a_counter_that_another_writer_left_out_is_made_up_for() -> None:
    before = manifest(5, [equally_long(number) for number in (0, 6)])
    assert not before.header.HasField("max_fragment_id")
    setting = UpdateConfig(config_updates=UpdateMap({"key": "value"}))
    assert build(before, Transaction(5, "ours", setting)).header.max_fragment_id == 6


def test_an_earlier_version_comes_back_without_the_numbers_that_were_given_out_since() -> None:
    old, now = table([0], 3), table([4], 9)
    old.header.version, old.header.next_row_id, now.header.next_row_id = 2, 10, 50
    made = build(now, Transaction(5, "ours", Restore(2)), load=lambda _: old)
    assert (made.header.max_fragment_id, made.header.next_row_id, made.fragments.ids()) == (9, 50, [0])
