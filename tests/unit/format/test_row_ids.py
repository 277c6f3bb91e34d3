"""Row id and version sequences: compact, exact in every encoding, and never larger in memory than what was checked."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import segments
from seiche.table.format.row_ids import RowIds, RowVersions, encode_range, encode_run
from seiche.table.format.rowids_pb2 import EncodedU64Array, RowDatasetVersionSequence, RowIdSequence, U64Segment

U64 = st.integers(0, 2**64 - 1)


@st.composite
def id_lists(draw: st.DrawFn) -> list[int]:
    """Ids as tables have them: runs, with gaps, now and then out of order or far apart."""
    ids: list[int] = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.sampled_from([0, 5, 1000, 2**16, 2**32, 2**63, 2**64 - 300]) | st.integers(0, 2**63))
        run = range(start, min(start + draw(st.integers(0, 200)), 2**64 - 1))
        keep = draw(st.sampled_from(["all", "half", "few holes", "sparse"]))
        step = {"all": None, "half": 2, "few holes": 17, "sparse": 40}[keep]
        ids += [number for number in run if keep in ("all", "few holes") or number % (step or 1) == 0]
        if keep == "few holes":
            ids = [number for number in ids if number % 17]
    return draw(st.permutations(ids)) if draw(st.booleans()) and len(ids) < 50 else list(dict.fromkeys(ids))


@given(id_lists())
def test_what_is_encoded_decodes_to_the_same_ids(ids: list[int]) -> None:
    stored = RowIds(ids).encode()
    decoded = RowIds.decode(stored, rows=len(ids))
    assert decoded.to_array().tolist() == ids
    assert decoded == RowIds(np.array(ids, dtype=np.uint64))
    assert decoded.encode() == stored


@given(id_lists(), st.data())
def test_take_and_mask_agree_with_lists(ids: list[int], data: st.DataObject) -> None:
    row_ids = RowIds(ids)
    positions = data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=20)) if ids else []
    assert row_ids.take(positions).to_array().tolist() == [ids[position] for position in positions]
    deleted = BitMap(positions)
    left = [number for position, number in enumerate(ids) if position not in deleted]
    assert row_ids.mask(deleted).to_array().tolist() == left
    assert row_ids.mask(deleted).length == len(left)


@given(st.lists(id_lists(), max_size=4))
def test_concat_is_one_behind_the_other(lists: list[list[int]]) -> None:
    joined = RowIds().concat(*map(RowIds, lists))
    assert joined.to_array().tolist() == [number for ids in lists for number in ids]


def test_adjoining_ranges_become_one() -> None:
    assert RowIds.range(5, 10).concat(RowIds.range(15, 1)).encode() == encode_range(5, 11)


def narrow(base: int, offsets: list[int], kind: str) -> EncodedU64Array.Narrow:
    return EncodedU64Array.Narrow(base=base, offsets=np.array(offsets, dtype=kind).tobytes())


SEGMENTS = {
    "range": (U64Segment(range=U64Segment.Range(start=3, end=6)), [3, 4, 5]),
    "holes": (
        U64Segment(
            range_with_holes=U64Segment.RangeWithHoles(
                start=10, end=16, holes=EncodedU64Array(u16_array=narrow(10, [1, 3], "<u2"))
            )
        ),
        [10, 12, 14, 15],
    ),
    # Least significant bit first: 0b0000_0101 and 0b0000_0010 stand for the first, third and tenth number.
    "bitmap": (
        U64Segment(range_with_bitmap=U64Segment.RangeWithBitmap(start=100, end=110, bitmap=b"\x05\x02")),
        [100, 102, 109],
    ),
    "sorted, 16 bits": (
        U64Segment(sorted_array=EncodedU64Array(u16_array=narrow(7, [0, 65535], "<u2"))),
        [7, 65542],
    ),
    "sorted, 32 bits": (
        U64Segment(sorted_array=EncodedU64Array(u32_array=narrow(7, [0, 2**32 - 1], "<u4"))),
        [7, 2**32 + 6],
    ),
    "array, 64 bits": (
        U64Segment(
            array=EncodedU64Array(
                u64_array=EncodedU64Array.Wide(values=np.array([2**64 - 1, 0, 5], dtype="<u8").tobytes())
            )
        ),
        [2**64 - 1, 0, 5],
    ),
}


@pytest.mark.parametrize("name", SEGMENTS)
def test_every_encoding_decodes(name: str) -> None:
    segment, expected = SEGMENTS[name]
    assert segments.length(segment) == len(expected)
    assert segments.expand(segment).tolist() == expected
    sequence = RowIdSequence(segments=[segment]).SerializeToString()
    assert RowIds.decode(sequence, rows=len(expected)).to_array().tolist() == expected


@pytest.mark.parametrize(
    ("ids", "encoding"),
    [
        (range(1000), ["range"]),
        ([*range(1000), *range(5000, 6000)], ["range", "range"]),
        ([number for number in range(5000) if number % 100], ["range_with_holes"]),
        ([number for number in range(5000) if number % 3], ["range_with_bitmap"]),
        (range(0, 10**6, 1000), ["sorted_array"]),
        ([9, 3, 7, 1], ["array"]),
    ],
)
def test_the_smallest_encoding_is_chosen(ids: list[int], encoding: list[str]) -> None:
    stored = RowIdSequence.FromString(RowIds(ids).encode())
    assert [segment.WhichOneof("segment") for segment in stored.segments] == encoding


BROKEN = {
    "backwards range": U64Segment(range=U64Segment.Range(start=6, end=3)),
    "no encoding": U64Segment(),
    "hole outside": U64Segment(
        range_with_holes=U64Segment.RangeWithHoles(
            start=10, end=16, holes=EncodedU64Array(u16_array=narrow(16, [0], "<u2"))
        )
    ),
    "holes in disorder": U64Segment(
        range_with_holes=U64Segment.RangeWithHoles(
            start=10, end=16, holes=EncodedU64Array(u16_array=narrow(10, [3, 1], "<u2"))
        )
    ),
    "bitmap too short": U64Segment(range_with_bitmap=U64Segment.RangeWithBitmap(start=0, end=17, bitmap=b"\1\1")),
    "bitmap for 2^63": U64Segment(range_with_bitmap=U64Segment.RangeWithBitmap(start=0, end=2**63, bitmap=b"\1")),
    "padding bits": U64Segment(range_with_bitmap=U64Segment.RangeWithBitmap(start=0, end=3, bitmap=b"\x0f")),
    "half a number": U64Segment(array=EncodedU64Array(u32_array=EncodedU64Array.Narrow(offsets=b"\1\2\3"))),
    "beyond 64 bits": U64Segment(array=EncodedU64Array(u16_array=narrow(2**64 - 1, [1], "<u2"))),
    "sorted in disorder": U64Segment(sorted_array=EncodedU64Array(u16_array=narrow(0, [2, 1], "<u2"))),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_segment_that_contradicts_itself_is_corrupt(name: str) -> None:
    sequence = RowIdSequence(segments=[BROKEN[name]]).SerializeToString()
    with pytest.raises(Corrupt):
        RowIds.decode(sequence)
    versions = RowDatasetVersionSequence(runs=[RowDatasetVersionSequence.Run(span=BROKEN[name], version=1)])
    with pytest.raises(Corrupt):
        RowVersions.decode(versions.SerializeToString())


def test_a_claim_of_many_rows_costs_no_memory() -> None:
    huge = U64Segment(range=U64Segment.Range(start=0, end=2**63))
    holed = U64Segment(range_with_holes=U64Segment.RangeWithHoles(start=0, end=2**40))
    tracemalloc.start()
    try:
        for segment in (huge, holed):
            ids = RowIdSequence(segments=[segment]).SerializeToString()
            versions = RowDatasetVersionSequence(runs=[RowDatasetVersionSequence.Run(span=segment, version=1)])
            for rows in (None, 10):
                with pytest.raises(Corrupt):
                    RowIds.decode(ids, rows=rows)
                with pytest.raises(Corrupt):
                    RowVersions.decode(versions.SerializeToString(), rows=rows)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_rows_of_the_fragment_are_the_measure() -> None:
    with pytest.raises(Corrupt, match="10 rows, the fragment has 11"):
        RowIds.decode(encode_range(0, 10), rows=11)
    with pytest.raises(Corrupt, match="10 rows, the fragment has 9"):
        RowVersions.decode(encode_run(3, 10), rows=9)


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\x0a\x7f"])
def test_damaged_messages_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        RowIds.decode(data)
    with pytest.raises(Corrupt):
        RowVersions.decode(data)


def test_positions_outside_are_refused() -> None:
    for positions in ([3], [-1]):
        with pytest.raises(InvalidInput):
            RowIds.range(0, 3).take(positions)
        with pytest.raises(InvalidInput):
            RowVersions.run(1, 3).take(positions)
    with pytest.raises(Corrupt):
        RowIds.range(0, 3).mask(BitMap([3]))
    with pytest.raises(Corrupt):
        RowVersions.run(1, 3).mask(BitMap([3]))


def test_ids_beyond_64_bits_are_refused() -> None:
    with pytest.raises(Corrupt):
        encode_range(2**64 - 1, 1)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), max_size=8), st.data())
def test_version_runs_agree_with_lists(runs: list[tuple[int, int]], data: st.DataObject) -> None:
    each = [version for version, count in runs for _ in range(count)]
    versions = RowVersions(runs)
    assert versions == RowVersions.of(each)
    assert versions.to_array().tolist() == each
    assert RowVersions.decode(versions.encode(), rows=len(each)) == versions
    positions = data.draw(st.lists(st.integers(0, len(each) - 1), max_size=20)) if each else []
    assert versions.take(positions).to_array().tolist() == [each[position] for position in positions]
    deleted = BitMap(positions)
    left = [version for position, version in enumerate(each) if position not in deleted]
    assert versions.mask(deleted).to_array().tolist() == left
    assert versions.concat(versions).to_array().tolist() == each + each


def test_version_spans_are_positions_one_behind_the_other() -> None:
    stored = RowDatasetVersionSequence.FromString(RowVersions([(7, 3), (9, 2)]).encode())
    assert [(run.span.range.start, run.span.range.end, run.version) for run in stored.runs] == [(0, 3, 7), (3, 5, 9)]
