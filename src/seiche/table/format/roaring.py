"""Roaring bitmaps as stored bytes: 32-bit ones, and 64-bit ones, which are 32-bit ones behind one another.

The native library checks that a stored bitmap does not reach beyond its bytes, but believes what it says about itself.
A container that holds more members than it counts makes a later read write past its buffer. So the stored form is
checked here, member by member, before the library sees it.
"""

import struct

from pyroaring import BitMap, BitMap64

from seiche.errors import Corrupt

__all__ = ["decode", "decode64", "encode", "encode64"]

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

# How a bitmap begins: the first if some containers are run-length encoded, the second if none is.
_WITH_RUNS = 12347
_WITHOUT_RUNS = 12346
_MOST_CONTAINERS = 1 << 16
_LARGEST_ARRAY = 4096
_BITSET_BYTES = 8192


def encode(members: BitMap) -> bytes:
    """The portable 32-bit form."""
    return bytes(members.serialize())


def decode(data: bytes, *, what: str = "a Roaring bitmap") -> BitMap:
    """Read the portable 32-bit form; whatever is not exactly one well-formed bitmap is `Corrupt`."""
    end = _check(data, 0, what)
    if end != len(data):
        raise _broken(what, f"ends at byte {end}, but {len(data)} are stored", end)
    return BitMap.deserialize(data)


def encode64(members: BitMap64) -> bytes:
    """The portable 64-bit form: for each value of the upper 32 bits, that value and the bitmap of the lower ones."""
    return bytes(members.serialize())


def decode64(data: bytes, *, what: str = "a 64-bit Roaring bitmap") -> BitMap64:
    """Read the portable 64-bit form; whatever is not exactly one well-formed bitmap is `Corrupt`."""
    count = _read(_U64, data, 0, what)
    at, last = 8, -1
    for _ in range(count):  # ends at the first missing byte, however large the count claims to be
        upper = _read(_U32, data, at, what)
        if upper <= last:
            raise _broken(what, f"upper half {upper} comes after {last}", at)
        last = upper
        at = _check(data, at + 4, what)
    if at != len(data):
        raise _broken(what, f"ends at byte {at}, but {len(data)} are stored", at)
    return BitMap64.deserialize(data)


def _check(data: bytes, start: int, what: str) -> int:
    """Check the 32-bit bitmap that begins at `start`, and return where it ends."""
    cookie = _read(_U32, data, start, what)
    at = start + 4
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[at : at + (count + 7) // 8]
        at += (count + 7) // 8
    elif cookie == _WITHOUT_RUNS:
        count = _read(_U32, data, at, what)
        at += 4
    else:
        raise _broken(what, f"begins with {cookie}", start)
    if count > _MOST_CONTAINERS or at + 4 * count > len(data):
        raise _broken(what, f"claims {count} containers, more than its bytes can hold", start)
    headers = list(struct.iter_unpack("<HH", data[at : at + 4 * count]))
    at += 4 * count
    offsets: list[int] = []
    # The offsets are left out where a search for the container is quick anyway.
    if not runs or count >= 4:
        if at + 4 * count > len(data):
            raise _broken(what, "is cut short in its offsets", at)
        offsets = [offset for (offset,) in struct.iter_unpack("<I", data[at : at + 4 * count])]
        at += 4 * count
    last = -1
    for number, (key, members) in enumerate(headers):
        if key <= last:
            raise _broken(what, f"container {key} comes after {last}", at)
        if offsets and offsets[number] != at - start:
            raise _broken(what, f"container {key} is said to be at byte {offsets[number]}, it is at {at - start}", at)
        last = key
        is_run = bool(runs) and bool(runs[number >> 3] >> (number & 7) & 1)
        at = _check_container(data, at, members + 1, is_run, what)
    return at


def _check_container(data: bytes, at: int, members: int, is_run: bool, what: str) -> int:
    if is_run:
        return _check_runs(data, at, members, what)
    if members > _LARGEST_ARRAY:
        counted = int.from_bytes(_slice(data, at, _BITSET_BYTES, what), "little").bit_count()
        if counted != members:
            raise _broken(what, f"a container counts {members} members and holds {counted}", at)
        return at + _BITSET_BYTES
    import numpy as np

    values = np.frombuffer(_slice(data, at, 2 * members, what), "<u2")
    if not bool((values[:-1] < values[1:]).all()):
        raise _broken(what, "a container is not in ascending order", at)
    return at + 2 * members


def _check_runs(data: bytes, at: int, members: int, what: str) -> int:
    import numpy as np

    count = _read(_U16, data, at, what)
    pairs = np.frombuffer(_slice(data, at + 2, 4 * count, what), "<u2").astype(np.uint32)
    starts, ends = pairs[0::2], pairs[0::2] + pairs[1::2]
    # Runs that touch would be one run: the library relies on a gap between them.
    if not bool((ends[:-1] + 1 < starts[1:]).all()) or (count and int(ends[-1]) >= 1 << 16):
        raise _broken(what, "its runs overlap or are not in ascending order", at)
    held = int((ends - starts).sum()) + count
    if held != members:
        raise _broken(what, f"a container counts {members} members and holds {held}", at)
    return at + 2 + 4 * count


def _read(number: struct.Struct, data: bytes, at: int, what: str) -> int:
    if at + number.size > len(data):
        raise _broken(what, f"is cut short: {len(data)} bytes", at)
    return int(number.unpack_from(data, at)[0])


def _slice(data: bytes, at: int, size: int, what: str) -> bytes:
    if at + size > len(data):
        raise _broken(what, f"is cut short: {len(data)} bytes", at)
    return data[at : at + size]


def _broken(what: str, problem: str, offset: int) -> Corrupt:
    return Corrupt(
        f"{what} cannot be decoded: it {problem} (at byte {offset})",
        remedy="The bytes are damaged or were cut short. Restore them from a copy, or open an older version.",
        path=what,
        offset=offset,
    )
