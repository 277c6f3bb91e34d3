"""Where the parts of a data file are, as it says itself: pages of values, then what describes them, then a footer.

    [pages and other buffers]
    [ColumnMetadata] ...          one for each column, which says where its pages are
    [u64 offset | u64 length] ... of each of these
    [u64 offset | u64 length] ... of each global buffer; the first is the schema
    [u64 offset of the first ColumnMetadata][u64 of the first table][u64 of the second]
    [u32 global buffers][u32 columns][u16 major][u16 minor]["LANC"]

Native code believes these numbers: for a length that is wrong it asks the system for that much memory, and when it gets
none the process ends, without an error that could be caught. Whoever reads a file that may be damaged looks at them
first. What stands inside of a page is encoded in many ways and is not looked at.
"""

from collections.abc import Iterator
from struct import Struct

from seiche.errors import Corrupt
from seiche.store.base import Store
from seiche.table.format.varint import read_varint

__all__ = ["DAMAGED", "MAGIC", "check_layout"]

MAGIC = b"LANC"
DAMAGED = "The data file is damaged. Restore it from a copy; without it only versions that do not name it can be read."

_FOOTER = Struct("<QQQIIHH4s")
_PLACE = Struct("<QQ")
# Files of the first generation are laid out in another way, and their version is below this.
_SECOND_GENERATION = (0, 3)
# More than most files have behind their pages.
_TAIL = 64 * 1024
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
# In a ColumnMetadata: pages, and where the buffers of the column itself are. In a page: where its buffers are.
_PAGES, _COLUMN_PLACES, _PAGE_PLACES = 2, (3, 4), (1, 2)


def check_layout(store: Store, path: str) -> None:
    """`Corrupt` if the parts of a data file do not lie where it says, one behind the other and within the file."""
    size = store.head(path).size
    tail = store.get_range(path, max(0, size - _TAIL), _TAIL)
    if len(tail) < _FOOTER.size or not tail.endswith(MAGIC):
        raise _broken(path, f"has {size} bytes and ends in {tail[-4:]!r} instead of {MAGIC!r}")
    first, columns, buffers, buffer_count, column_count, *version, _ = _FOOTER.unpack(tail[-_FOOTER.size :])
    if tuple(version) < _SECOND_GENERATION:
        return
    ends = (columns + _PLACE.size * column_count, buffers + _PLACE.size * buffer_count)
    if not (first <= columns and ends[0] <= buffers and ends[1] <= size - _FOOTER.size):
        raise _broken(path, f"says that its {column_count} columns are described from {first} on, of {size} bytes")
    described = tail[first - size :] if size - first <= len(tail) else store.get_range(path, first, size - first)
    for offset, length in _PLACE.iter_unpack(described[buffers - first : ends[1] - first]):
        if offset + length > size:
            raise _broken(path, f"says that {length} bytes of it begin at {offset}, of {size}")
    for offset, length in _PLACE.iter_unpack(described[columns - first : ends[0] - first]):
        if not first <= offset <= offset + length <= columns:
            raise _broken(
                path, f"describes a column in {length} bytes from {offset} on, not between {first} and {columns}"
            )
        _check_column(described[offset - first : offset + length - first], first, path)


def _check_column(metadata: bytes, end: int, path: str) -> None:
    """What a column says of its pages: they are all before `end`."""
    try:
        places = [_places(metadata, *_COLUMN_PLACES)]
        places += [_places(page, *_PAGE_PLACES) for number, page in _parts(metadata) if number == _PAGES]
    except (IndexError, ValueError) as error:
        raise _broken(path, f"has a column whose description cannot be decoded: {error}") from error
    for offsets, sizes in places:
        if len(offsets) != len(sizes):
            raise _broken(path, f"has a page of {len(offsets)} buffers with {len(sizes)} sizes")
        for offset, size in zip(offsets, sizes, strict=True):
            if offset + size > end:
                raise _broken(path, f"has a page of {size} bytes from {offset} on, where the pages end at {end}")


def _places(message: bytes, offsets: int, sizes: int) -> tuple[list[int], list[int]]:
    found: dict[int, list[int]] = {offsets: [], sizes: []}
    for number, packed in _parts(message):
        if number in found:
            at = 0
            while at < len(packed):
                value, at = read_varint(packed, at)
                found[number].append(value)
    return found[offsets], found[sizes]


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message that have a length, with their numbers."""
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            length, at = read_varint(message, at)
            if at + length > len(message):
                raise ValueError(f"a part of {length} bytes in a message of {len(message)}")
            yield tag >> 3, message[at : at + length]
            at += length
        elif kind == _VARINT:
            at = read_varint(message, at)[1]
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {kind}")


def _broken(path: str, problem: str) -> Corrupt:
    return Corrupt(f"{path} {problem}", remedy=DAMAGED, path=path)
