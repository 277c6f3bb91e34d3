"""The frames of HTTP/2, as far as one call of gRPC over a connection of its own needs them (RFC 9113 and 7541).

Headers that we send are written out in full. Of those that we get only what is written out can be read, which is how
gRPC's own servers write theirs to somebody who asks for a table of no size. A proxy in between may press them together.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = [
    "ACK", "DATA", "END_HEADERS", "END_STREAM", "GOAWAY", "HEADERS", "PADDED", "PING", "PREFACE", "PRIORITY",
    "RST_STREAM", "SETTINGS", "WINDOW_UPDATE", "Unreadable", "encoded_headers", "frame", "headers_in", "number",
    "settings", "settings_in", "unpadded",
]  # fmt: skip

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Kinds of frames.
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
# Flags.
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITY = 0x4, 0x8, 0x20

_HEAD: Final = struct.Struct(">BHBBI")
_SETTING: Final = struct.Struct(">HI")
_NUMBER: Final = struct.Struct(">I")
_LITERAL_NEVER_INDEXED: Final = 0x10
# Names of headers that everybody knows by number; ours are not among them, and those that are do not matter to us.
_KNOWN_NAMES: Final = 61


class Unreadable(ValueError):
    """Headers that were pressed together, or something that is not HTTP/2 at all."""


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    size = len(body)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + body


def number(value: int) -> bytes:
    return _NUMBER.pack(value)


def settings(pairs: Iterable[tuple[int, int]]) -> bytes:
    return b"".join(_SETTING.pack(*pair) for pair in pairs)


def settings_in(body: bytes) -> dict[int, int]:
    return dict(_SETTING.iter_unpack(body))


def unpadded(flags: int, body: bytes) -> bytes:
    """What a frame of data or headers holds besides its padding and priority."""
    start = end = 0
    if flags & PADDED:
        start, end = 1, body[0]
    if flags & PRIORITY:
        start += 5
    return body[start : len(body) - end]


def encoded_headers(headers: Iterable[tuple[str, str | bytes]]) -> bytes:
    parts = bytearray()
    for name, value in headers:
        parts.append(_LITERAL_NEVER_INDEXED)
        for text in (name.encode(), value.encode() if isinstance(value, str) else value):
            parts += _length(len(text))
            parts += text
    return bytes(parts)


def headers_in(block: bytes) -> Iterator[tuple[str, bytes]]:
    """The headers that were written out; `Unreadable` if some were not."""
    position = 0
    try:
        while position < len(block):
            first = block[position]
            if first & 0x80:  # known by name and value
                index, position = _prefixed(block, position, 0x7F)
                if not 0 < index <= _KNOWN_NAMES:
                    raise Unreadable("a header is remembered from another one")
            elif first & 0xE0 == 0x20:  # the size of the table
                _, position = _prefixed(block, position, 0x1F)
            else:
                index, position = _prefixed(block, position, 0x3F if first & 0x40 else 0x0F)
                if index > _KNOWN_NAMES:
                    raise Unreadable("a name is remembered from another one")
                name = b""
                if not index:
                    name, position = _text(block, position)
                value, position = _text(block, position)
                if name:
                    yield name.decode("ascii"), value
    except (IndexError, UnicodeDecodeError) as error:
        raise Unreadable("headers end too early") from error


def _text(block: bytes, position: int) -> tuple[bytes, int]:
    if block[position] & 0x80:
        raise Unreadable("a header is pressed together")
    size, position = _prefixed(block, position, 0x7F)
    if position + size > len(block):
        raise Unreadable("a header is cut off")
    return block[position : position + size], position + size


def _prefixed(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte, and where it ends."""
    value = block[position] & mask
    position += 1
    if value < mask:
        return value, position
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, position


def _length(size: int) -> bytes:
    if size < 0x7F:
        return bytes((size,))
    size -= 0x7F
    parts = bytearray((0x7F,))
    while size > 0x7F:
        parts.append(size & 0x7F | 0x80)
        size >>= 7
    parts.append(size)
    return bytes(parts)
