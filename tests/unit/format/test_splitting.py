"""A manifest is split into header and fragments, whatever its size and the order of its fields."""

import pytest
from google.protobuf.message import DecodeError

from seiche.table.format.manifest_pb2 import DataFile, DataFragment, FragmentList, Manifest
from seiche.table.format.splitting import split

HEADER = Manifest(version=3, max_fragment_id=9, config={"a": "b"}, transaction_section=0)
FIELDS = Manifest(fields=[{"name": f"field {number}", "id": number} for number in range(20)])


def fragments(count: int) -> FragmentList:
    return FragmentList(fragments=[DataFragment(id=n, files=[DataFile(path=f"{n:050}")]) for n in range(count)])


def whole() -> Manifest:
    both = Manifest()
    both.CopyFrom(FIELDS)
    both.MergeFrom(HEADER)
    return both


LAYOUTS = {
    "fragments last": lambda middle: whole().SerializeToString() + middle,
    "fragments first": lambda middle: middle + whole().SerializeToString(),
    "fragments between": lambda middle: FIELDS.SerializeToString() + middle + HEADER.SerializeToString(),
    "fragments alone": lambda middle: middle,
}


@pytest.mark.parametrize("count", [1, 3, 2000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_split(layout: str, count: int) -> None:
    stored_fragments = fragments(count)
    message = LAYOUTS[layout](stored_fragments.SerializeToString())
    header, stored = split(message)
    assert header == (Manifest() if layout == "fragments alone" else whole())
    assert FragmentList.FromString(bytes(stored.encoded)) == stored_fragments
    assert stored.total == count
    assert DataFragment.FromString(stored.last).id == count - 1


def test_a_large_manifest_is_not_copied() -> None:
    message = memoryview(LAYOUTS["fragments between"](fragments(2000).SerializeToString()))
    stored = split(message)[1]  # type: ignore[arg-type]
    assert isinstance(stored.encoded, memoryview)
    assert stored.encoded.obj is message.obj


@pytest.mark.parametrize("count", [2, 2000])
def test_fragments_in_several_places_are_put_together(count: int) -> None:
    half = fragments(count).SerializeToString()
    more = FragmentList(fragments=[DataFragment(id=count + n) for n in range(3)]).SerializeToString()
    for message in (
        half + HEADER.SerializeToString() + more,
        half + HEADER.SerializeToString() + more + FIELDS.SerializeToString(),
    ):
        header, stored = split(message)
        assert header.version == 3
        assert [each.id for each in FragmentList.FromString(bytes(stored.encoded)).fragments] == list(range(count + 3))
        assert stored.total == count + 3


def test_unknown_fields_stay_in_the_header() -> None:
    for middle in (b"", fragments(2000).SerializeToString()):
        header, stored = split(b"\xf8\x07\x05" + middle + b"\xfa\x07\x01x")
        assert header.SerializeToString() == b"\xf8\x07\x05\xfa\x07\x01x"
        assert bytes(stored.encoded) == middle


def test_no_fragments() -> None:
    large = Manifest(config={"a": "b" * 100_000})
    header, stored = split(large.SerializeToString())
    assert header == large
    assert stored == (b"", 0, b"")


@pytest.mark.parametrize("damage", [b"\xff" * 12, b"\x0a\x05ab", b"\x0b", b"\x12\x05ab", b"\x80"])
def test_damage_is_told_by_protobuf(damage: bytes) -> None:
    for middle in (b"", fragments(2000).SerializeToString()):
        with pytest.raises(DecodeError):
            split(middle + damage)
