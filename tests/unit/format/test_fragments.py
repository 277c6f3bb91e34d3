"""The list of fragments: immutable, in order, shared bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seiche.errors import Corrupt
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile, FragmentList, Manifest
from seiche.table.format.splitting import StoredFragments, split


def fragment(number: int, *, path: str = "x", deleted: int = 0) -> DataFragment:
    made = DataFragment(id=number, files=[DataFile(path=path)], physical_rows=10)
    if deleted:
        made.deletion_file.CopyFrom(DeletionFile(id=1, num_deleted_rows=deleted))
    return made


def as_read(fragments: Fragments) -> Fragments:
    header, stored = split(b"".join(fragments.pieces))
    assert header == Manifest()
    return Fragments.from_stored(stored, has_deletions=fragments.has_deletions)


def check(fragments: Fragments, model: dict[int, DataFragment]) -> None:
    expected = [model[number] for number in sorted(model)]
    assert list(FragmentList.FromString(b"".join(fragments.pieces)).fragments) == expected
    assert list(fragments) == expected
    assert fragments.ids() == sorted(model)
    assert len(fragments) == len(model)
    assert fragments.last_id == max(model, default=-1)
    assert fragments.has_deletions == any(each.HasField("deletion_file") for each in expected)


@given(st.data())
def test_any_sequence_of_changes_agrees_with_a_dictionary(data: st.DataObject) -> None:
    model: dict[int, DataFragment] = {}
    fragments = Fragments()
    for step in range(data.draw(st.integers(0, 8))):
        before = list(fragments)
        if data.draw(st.booleans()):
            start = max(model, default=-1) + 1
            new = [
                fragment(start + n, deleted=data.draw(st.integers(0, 1))) for n in range(data.draw(st.integers(0, 3)))
            ]
            changed = fragments.extended(new)
            model |= {each.id: each for each in new}
        else:
            numbers = data.draw(st.sets(st.integers(0, 12), max_size=4))
            changes = {
                number: data.draw(st.none() | st.just(fragment(number, path=f"step {step}", deleted=step % 2)))
                for number in numbers
            }
            changed = fragments.replaced(changes)
            model = {number: changes.get(number) or old for number, old in model.items() if changes.get(number, old)}
        assert list(fragments) == before
        fragments = as_read(changed) if data.draw(st.booleans()) else changed
        check(fragments, model)


def test_ids_must_grow() -> None:
    fragments = Fragments([fragment(3), fragment(1)])
    assert fragments.ids() == [1, 3]
    with pytest.raises(Corrupt):
        fragments.extended([fragment(3)])
    with pytest.raises(Corrupt):
        Fragments([fragment(1), fragment(1)])
    with pytest.raises(Corrupt):
        fragments.replaced({1: fragment(2)})


def test_new_ones_are_put_in_order_and_none_comes_twice() -> None:
    fragments = Fragments([fragment(1)])
    check(fragments.extended([fragment(5), fragment(2)]), {number: fragment(number) for number in (1, 2, 5)})
    with pytest.raises(Corrupt, match="two fragments have the id 5"):
        fragments.extended([fragment(5), fragment(2), fragment(5)])


def test_nothing_new_is_the_same_value() -> None:
    fragments = Fragments([fragment(1)])
    assert fragments.extended([]) is fragments
    assert fragments.replaced({}) is fragments


def test_old_bytes_are_shared() -> None:
    fragments = as_read(Fragments(map(fragment, range(100))))
    assert fragments.extended([fragment(100)]).pieces[0] is fragments.pieces[0]


def test_many_small_steps_do_not_make_many_pieces() -> None:
    fragments = Fragments()
    for number in range(500):
        fragments = fragments.extended([fragment(number)])
    assert len(fragments.pieces) <= 64
    assert fragments.ids() == list(range(500))


def test_look_up() -> None:
    fragments = as_read(Fragments([fragment(1), fragment(4)]))
    assert fragments.get(4) == fragment(4)
    assert fragments.get(2) is None
    assert fragments == Fragments([fragment(4), fragment(1)])
    assert fragments != Fragments([fragment(1)])


def test_each_is_seen_once_by_its_bytes() -> None:
    known: set[bytes] = set()
    first = Fragments([fragment(1), fragment(2)])
    assert sorted(one.id for one in first.unseen(known)) == [1, 2]
    changed = as_read(first).replaced({2: fragment(2, deleted=3)}).extended([fragment(3)])
    assert sorted(one.id for one in changed.unseen(known)) == [2, 3]
    assert list(changed.unseen(known)) == []


def test_those_that_differ_are_met_in_pairs() -> None:
    before = Fragments([fragment(1), fragment(2), fragment(3)])
    after = as_read(before).replaced({3: fragment(3, deleted=1), 1: None}).extended([fragment(4)])
    expected = [(fragment(1), None), (fragment(3), fragment(3, deleted=1)), (None, fragment(4))]
    assert list(before.differing(after)) == expected
    assert list(after.differing(before)) == [(now, was) for was, now in expected]
    assert list(before.differing(as_read(before))) == []
    assert list(Fragments().differing(before)) == [(None, fragment(number)) for number in (1, 2, 3)]


def test_one_that_cannot_be_decoded_is_corrupt_whoever_asks() -> None:
    good = fragment(2).SerializeToString()
    stored = StoredFragments(b"\x12\x02\xff\xff" + b"\x12" + bytes([len(good)]) + good, 2, good)
    broken = Fragments.from_stored(stored, has_deletions=False, source="_versions/7.manifest")
    for ask in (broken.decoded, lambda: list(broken.unseen(set())), lambda: list(broken.differing(Fragments()))):
        with pytest.raises(Corrupt, match=r"7\.manifest: a fragment cannot be decoded"):
            ask()
