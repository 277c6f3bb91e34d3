"""Compact sets and sequences of 64-bit numbers, as segments of five encodings.

A segment states its length without being expanded: a range of 2^63 numbers is a few bytes, and must cost no more than
that until somebody has compared its length with something trustworthy.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from seiche.errors import Corrupt
from seiche.table.format.rowids_pb2 import EncodedU64Array, U64Segment

__all__ = ["Numbers", "compact", "expand", "length", "span"]

Numbers: TypeAlias = NDArray[np.uint64]

_LIMIT = 1 << 64
# About what a stored range takes: two numbers of up to ten bytes with their tags, and the frames around them.
_RANGE_BYTES = 26


def span(start: int, stop: int) -> U64Segment:
    """The numbers from `start` up to, not including, `stop`."""
    return U64Segment(range=U64Segment.Range(start=start, end=stop))


def length(segment: U64Segment) -> int:
    """How many numbers the segment stands for; `Corrupt` if it contradicts itself. Allocates no more than is stored."""
    match segment.WhichOneof("segment"):
        case "range":
            return _extent(segment.range)
        case "range_with_holes":
            return _length_with_holes(segment.range_with_holes)
        case "range_with_bitmap":
            return _length_with_bitmap(segment.range_with_bitmap)
        case "sorted_array":
            numbers = _decode_array(segment.sorted_array)
            if not _ascending(numbers):
                raise _broken("a sorted array is not in ascending order")
            return len(numbers)
        case "array":
            return len(_decode_array(segment.array))
        case _:
            raise _broken("a segment has no encoding that is known")


def expand(segment: U64Segment) -> Numbers:
    """The numbers one by one. Takes 8 bytes for each: compare `length` with what can be right first."""
    match segment.WhichOneof("segment"):
        case "range":
            return _arange(segment.range.start, segment.range.end)
        case "range_with_holes":
            holes = segment.range_with_holes
            members = np.ones(_extent(holes), dtype=np.bool_)
            members[_decode_array(holes.holes) - np.uint64(holes.start)] = False
            return _arange(holes.start, holes.end)[members]
        case "range_with_bitmap":
            bitmap = segment.range_with_bitmap
            bits = np.unpackbits(np.frombuffer(bitmap.bitmap, np.uint8), count=_extent(bitmap), bitorder="little")
            return _arange(bitmap.start, bitmap.end)[bits.astype(np.bool_)]
        case "sorted_array":
            return _decode_array(segment.sorted_array)
        case "array":
            return _decode_array(segment.array)
        case _:
            raise _broken("a segment has no encoding that is known")


def compact(numbers: Numbers) -> list[U64Segment]:
    """Segments that stand for exactly these numbers in this order, in the encoding that takes the fewest bytes."""
    if not len(numbers):
        return []
    breaks = np.flatnonzero(numbers[1:] != numbers[:-1] + np.uint64(1)) + 1
    # A run that ends with the largest number of all cannot be a range: its end would not fit.
    runs_fit = int(numbers.max()) + 1 < _LIMIT
    if runs_fit and not len(breaks):
        return [span(int(numbers[0]), int(numbers[-1]) + 1)]
    best = _compact_ascending(numbers) if _ascending(numbers) else U64Segment(array=_encode_array(numbers))
    if runs_fit and (len(breaks) + 1) * _RANGE_BYTES < best.ByteSize():
        starts = np.concatenate(([0], breaks))
        stops = np.concatenate((breaks, [len(numbers)]))
        firsts, lasts = numbers[starts].tolist(), numbers[stops - 1].tolist()
        return [span(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]
    return [best]


def _compact_ascending(numbers: Numbers) -> U64Segment:
    start, stop = int(numbers[0]), int(numbers[-1]) + 1
    extent = stop - start
    array = U64Segment(sorted_array=_encode_array(numbers))
    size = array.ByteSize()
    if stop >= _LIMIT:
        return array
    missing = extent - len(numbers)
    hole_bytes = missing * (2 if extent <= 1 << 16 else 4 if extent <= 1 << 32 else 8)
    if extent // 8 >= size and hole_bytes >= size:
        return array
    # Smaller than the array in either form, so expanding the range is bounded by it too.
    members = np.zeros(extent, dtype=np.bool_)
    members[(numbers - np.uint64(start)).astype(np.int64)] = True
    if hole_bytes <= extent // 8:
        holes = _encode_array(np.flatnonzero(~members).astype(np.uint64) + np.uint64(start))
        return U64Segment(range_with_holes=U64Segment.RangeWithHoles(start=start, end=stop, holes=holes))
    bitmap = np.packbits(members, bitorder="little").tobytes()
    return U64Segment(range_with_bitmap=U64Segment.RangeWithBitmap(start=start, end=stop, bitmap=bitmap))


def _encode_array(numbers: Numbers) -> EncodedU64Array:
    base = numbers.min()
    offsets = numbers - base
    largest = int(offsets.max())
    if largest < 1 << 16:
        narrow = EncodedU64Array.Narrow(base=int(base), offsets=offsets.astype("<u2").tobytes())
        return EncodedU64Array(u16_array=narrow)
    if largest < 1 << 32:
        narrow = EncodedU64Array.Narrow(base=int(base), offsets=offsets.astype("<u4").tobytes())
        return EncodedU64Array(u32_array=narrow)
    return EncodedU64Array(u64_array=EncodedU64Array.Wide(values=numbers.astype("<u8").tobytes()))


def _decode_array(array: EncodedU64Array) -> Numbers:
    match array.WhichOneof("array"):
        case "u16_array":
            return _offsets(array.u16_array, "<u2")
        case "u32_array":
            return _offsets(array.u32_array, "<u4")
        case "u64_array":
            return _stored(array.u64_array.values, "<u8").astype(np.uint64)
        case _:
            return np.empty(0, dtype=np.uint64)


def _offsets(array: EncodedU64Array.Narrow, kind: str) -> Numbers:
    offsets = _stored(array.offsets, kind).astype(np.uint64)
    if len(offsets) and array.base + int(offsets.max()) >= _LIMIT:
        raise _broken(f"an array reaches beyond 64 bits from its base {array.base}")
    return offsets + np.uint64(array.base)


def _stored(data: bytes, kind: str) -> NDArray[np.uint64]:
    width = int(kind[-1])
    if len(data) % width:
        raise _broken(f"an array of {len(data)} bytes has numbers of {width} bytes")
    return np.frombuffer(data, kind)


def _extent(bounds: U64Segment.Range | U64Segment.RangeWithHoles | U64Segment.RangeWithBitmap) -> int:
    if bounds.end < bounds.start:
        raise _broken(f"a range goes from {bounds.start} down to {bounds.end}")
    return bounds.end - bounds.start


def _length_with_holes(segment: U64Segment.RangeWithHoles) -> int:
    extent, holes = _extent(segment), _decode_array(segment.holes)
    if len(holes) and not (_ascending(holes) and segment.start <= int(holes[0]) and int(holes[-1]) < segment.end):
        raise _broken(f"the holes of a range are not in ascending order between {segment.start} and {segment.end}")
    return extent - len(holes)


def _length_with_bitmap(segment: U64Segment.RangeWithBitmap) -> int:
    extent, bitmap = _extent(segment), segment.bitmap
    if len(bitmap) != (extent + 7) // 8:
        raise _broken(f"a bitmap of {len(bitmap)} bytes stands for {extent} numbers")
    bits = int.from_bytes(bitmap, "little")
    if bits >> extent:
        raise _broken(f"a bitmap has bits set after its {extent} numbers")
    return bits.bit_count()


def _ascending(numbers: Numbers) -> bool:
    return bool((numbers[:-1] < numbers[1:]).all())


def _arange(start: int, stop: int) -> Numbers:
    return np.arange(stop - start, dtype=np.uint64) + np.uint64(start)


def _broken(problem: str) -> Corrupt:
    return Corrupt(
        f"a row id or version sequence cannot be right: {problem}",
        remedy="The manifest is damaged. Restore it from a copy, or open an older version.",
    )
