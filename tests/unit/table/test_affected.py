"""Affected rows survive being stored with a pending transaction, and damage to them is noticed."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from seiche.errors import Corrupt
from seiche.table import affected
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Delete
from seiche.table.transaction import Transaction
from seiche.testing import DictStore

ROWS = st.dictionaries(st.integers(0, 2**32 - 1), st.sets(st.integers(0, 2**32 - 1), max_size=20).map(BitMap))


@given(ROWS)
def test_rows_are_read_back_as_they_were_packed(rows: dict[int, BitMap]) -> None:
    packed = affected.pack(rows, uuid="u")
    assert affected.unpack(packed.properties, packed.files) == rows
    in_file = affected.pack(rows, uuid="u", largest_property=-1)
    assert list(in_file.files) == ["_transactions/u.rows"]
    assert affected.unpack(in_file.properties, in_file.files) == rows


def test_few_rows_go_into_a_property_and_many_into_a_file() -> None:
    few = affected.pack({3: BitMap([1, 2])}, uuid="u")
    assert not few.files
    many = affected.pack({3: BitMap(range(0, 100_000, 7))}, uuid="u")
    assert list(many.files) == ["_transactions/u.rows"]
    assert sum(map(len, many.properties.values())) < 100


def test_equal_rows_are_packed_alike() -> None:
    one = {1: BitMap([1]), 2: BitMap([2])}
    other = {2: BitMap([2]), 1: BitMap([1])}
    assert affected.encode(one) == affected.encode(other)


def test_no_rows_are_known_without_a_property_or_without_its_file() -> None:
    assert affected.unpack({}) is None
    assert affected.unpack({affected.FILE_PROPERTY: "_transactions/u.rows"}) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:5],
        lambda data: data + data,
        lambda data: data + b"\0",
        lambda data: data[:12] + b"\xff" * (len(data) - 12),
    ],
)
def test_damaged_rows_are_corrupt(damage: "type[bytes]") -> None:
    data = damage(affected.encode({7: BitMap([1, 5])}))
    with pytest.raises(Corrupt):
        affected.decode(data)
    with pytest.raises(Corrupt):
        affected.unpack({affected.ROWS_PROPERTY: base64.b64encode(data).decode()})


def test_a_property_that_is_no_base64_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="affected_rows"):
        affected.unpack({affected.ROWS_PROPERTY: "?"})


def test_what_is_committed_does_not_carry_the_rows() -> None:
    properties = {**affected.pack({3: BitMap([1])}, uuid="u").properties, "mine": "kept"}
    assert affected.without_rows(Transaction(1, "u", Delete(), properties=properties)).properties == {"mine": "kept"}
    plain = Transaction(1, "u", Delete(), properties={"mine": "kept"})
    assert affected.without_rows(plain) is plain


def test_the_difference_of_two_deletion_vectors_is_what_was_deleted() -> None:
    files = DeletionFiles(DictStore())
    before, after = DataFragment(id=3, physical_rows=9), DataFragment(id=3, physical_rows=9)
    after.deletion_file.CopyFrom(files.write(3, 1, BitMap([2, 4])))
    assert affected.newly_deleted(before, after, files) == BitMap([2, 4])
    later = DataFragment(id=3, physical_rows=9)
    later.deletion_file.CopyFrom(files.write(3, 2, BitMap([2, 4, 7])))
    assert affected.newly_deleted(after, later, files) == BitMap([7])
    assert affected.newly_deleted(later, later, files) == BitMap()
