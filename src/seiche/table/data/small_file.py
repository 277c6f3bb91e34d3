"""A data file of a few rows, laid out here: a page with one chunk for each column, values as they lie in memory.

Native code takes several times as long for ten rows, most of it to wake threads for work that is done before they are
awake. The bytes are those that it writes itself where there is nothing to compress. Whatever is larger, or of another
kind, is left to it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seiche.table.format.varint import varint

__all__ = ["Kinds", "described", "encode", "kinds_of"]

# Bits of each value of a column, or 0 where values differ in length.
Kinds: TypeAlias = tuple[int, ...]

# More would be worth compressing.
_MOST_ROWS: Final = 512
_MOST_BYTES: Final = 4096

_FIXED: Final = frozenset(
    kind.id
    for kind in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us")),
        *(pa.timestamp("us"), pa.duration("us"), pa.decimal128(1)),
    )
)
_VARIABLE: Final = frozenset({pa.string().id, pa.binary().id})

# Buffers of a page begin at multiples of the first, parts of a chunk at multiples of the second; values of any length
# are as long, together, as a number of offsets.
_PAGE, _PART, _OFFSET = 64, 8, 4
_SIZE, _HEAD, _NULLS_HEAD = Struct("<I"), Struct("<HI2s"), Struct("<HHI")
_OFFSETS: Final = tuple(Struct(f"<{count}I") for count in range(_MOST_ROWS + 2))
_PLACE, _FOOTER, _MAGIC = Struct("<QQ"), Struct("<QQQIIHH4s"), b"LANC"

# Messages of Lance's file format; what varies is put between.
_COLUMN: Final = b"\x0a\x29\x12\x27\x0a\x25\x0a\x1f/lance.encodings.ColumnEncoding\x12\x02\x0a\x00"
_LAYOUT: Final = b"\x0a\x1d/lance.encodings21.PageLayout"
_SIXTEEN_BITS: Final = b"\x0a\x02\x08\x10"


def kinds_of(schema: pa.Schema) -> Kinds | None:
    """How the columns are kept; `None` if one of them is better left to native code."""
    kinds = []
    for field in schema:
        kind = field.type
        if field.metadata or kind.id not in _FIXED | _VARIABLE:
            return None
        kinds.append(kind.bit_width if kind.id in _FIXED else 0)
    return tuple(kinds)


def described(data: bytes, rows: int) -> bytes:
    """What a file of native code says about its columns; empty if it says anything else beside the number of rows."""
    *_, places, parts, _, _, _, magic = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
    start, size = _PLACE.unpack_from(data, places)
    found, end = data[start : start + size], b"\x10" + varint(rows)
    return found.removesuffix(end) if parts == 1 and magic == _MAGIC and found.endswith(end) else b""


def encode(columns: Sequence[pa.Array], kinds: Kinds, schema: bytes, version: tuple[int, int]) -> bytes | None:
    """The bytes of the file; `None` if a column is too large. `schema` is what files say about their columns."""
    rows = len(columns[0])
    if rows > _MOST_ROWS:
        return None
    parts: list[bytes] = []
    metadata: list[bytes] = []
    at = 0
    for column, bits in zip(columns, kinds, strict=True):
        chunk, has_nulls = _chunk(column, rows, bits)
        if len(chunk) > _MOST_BYTES:
            return None
        metadata.append(_page(at, len(chunk), rows, bits, has_nulls))
        parts += _SIZE.pack(len(chunk) // _PART - 1 << 4).ljust(_PAGE, b"H"), _padded(chunk, _PAGE, b"H")
        at += _PAGE + len(parts[-1])
    described = schema + b"\x10" + varint(rows)
    begin = at + len(described)
    end = begin + sum(map(len, metadata))
    footer = _FOOTER.pack(begin, end, end + _PLACE.size * len(kinds), 1, len(kinds), *version, _MAGIC)
    return b"".join((*parts, described, *metadata, *_places(begin, metadata), *_places(at, [described]), footer))


def _chunk(column: pa.Array, rows: int, bits: int) -> tuple[bytes, bool]:
    """The values of a column and which of them are null, if any."""
    validity, first, *rest = column.buffers()
    offset = column.offset
    values = _bytes(first, offset, rows, bits // 8) if bits else _variable(first, rest[0], offset, rows)
    padded = _padded(values, _PART, b"\xfe")
    if validity is None or not column.null_count:
        return _HEAD.pack(0, len(values), b"\xfe\xfe") + padded, False
    levels = _bytes(pc.cast(pc.is_null(column), pa.uint16()).buffers()[1], 0, rows, 2)
    return _NULLS_HEAD.pack(rows, len(levels), len(values)) + _padded(levels, _PART, b"\xfe") + padded, True


def _bytes(buffer: pa.Buffer, offset: int, count: int, width: int) -> bytes:
    cut: bytes = buffer.slice(offset * width, count * width).to_pybytes()
    return cut


def _variable(offsets: pa.Buffer, values: pa.Buffer | None, offset: int, rows: int) -> bytes:
    """Where each value begins, counted from here, where the last one ends, and the values."""
    ends = _OFFSETS[rows + 1]
    found = ends.unpack(_bytes(offsets, offset, rows + 1, _OFFSET))
    first = found[0]
    moved = ends.size - first
    held = b"" if values is None else values.slice(first, found[-1] - first).to_pybytes()
    return ends.pack(*[one + moved for one in found]) + _padded(held, _OFFSET, b"H")


@lru_cache(maxsize=1024)
def _page(at: int, size: int, rows: int, bits: int, has_nulls: bool) -> bytes:
    """What the file says about a column whose only page begins `at`: its buffers, and how to read the second one.

    In Lance's words a `ColumnMetadata` with one `Page`, whose layout is a `MiniBlockLayout`: how levels (2) and values
    (3) are compressed, which here they are not, the layers (6), buffers (7), items (9), and that chunks may be large
    (10).
    """
    flat = _message(0x0A, b"\x08" + varint(bits or 32))
    values = flat if bits else _message(0x12, _message(0x0A, flat))
    levels = _message(0x12, _SIXTEEN_BITS) if has_nulls else b""
    layer = b"\x32\x01" + (b"\x03" if has_nulls else b"\x01")
    chunks = levels + _message(0x1A, values) + layer + b"\x38\x01\x48" + varint(rows) + b"\x50\x01"
    layout = _message(0x0A, _LAYOUT + _message(0x12, _message(0x0A, chunks)))
    page = (
        _message(0x0A, varint(at) + varint(at + _PAGE)),
        _message(0x12, varint(_SIZE.size) + varint(size)),
        b"\x18" + varint(rows),
        _message(0x22, _message(0x12, layout)),
    )
    return _COLUMN + _message(0x12, b"".join(page))


def _places(at: int, parts: Iterable[bytes]) -> Iterable[bytes]:
    """Where each part begins, and how long it is."""
    for part in parts:
        yield _PLACE.pack(at, len(part))
        at += len(part)


def _message(tag: int, content: bytes) -> bytes:
    return bytes((tag,)) + varint(len(content)) + content


def _padded(data: bytes, unit: int, with_: bytes) -> bytes:
    return data + with_ * (-len(data) % unit)
