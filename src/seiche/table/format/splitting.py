"""Taking the fragments out of an encoded manifest without decoding them."""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from seiche.store.base import Buffer
from seiche.table.format.manifest_pb2 import EncodedFragments, Manifest
from seiche.table.format.varint import read_varint

__all__ = ["StoredFragments", "check_entries", "split"]

# Below this size, parsing a message twice is quicker than looking for its parts.
_LARGE = 64 * 1024
# A message with more fields than this must have some bytes in them.
_MANY = 1 << 17
_SMALLEST = 12
_FRAGMENT_TAG = 0x12
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5


class StoredFragments(NamedTuple):
    """The fragments as they are stored in the manifest message, how many there are, and the last of them."""

    encoded: Buffer
    total: int
    last: bytes


def split(message: bytes) -> tuple[Manifest, StoredFragments]:
    """The manifest without its fragments, and the fragments; raises what protobuf raises if it is not a manifest.

    In files by pylance and by us the fragments stand one behind the other. Of a large manifest they are then left where
    they are in `message`, which stays in memory for as long as they do; copying them in and out of messages took ten
    times as long as everything else.
    """
    if len(message) > _LARGE:
        start = _first_fragment(message)
        if start is not None:
            parts = _split_at(message, start)
            if parts is not None:
                return parts
        check_entries(message)
    header = Manifest.FromString(message)
    header.ClearField("fragments")
    found = EncodedFragments.FromString(message)
    found.DiscardUnknownFields()
    count = len(found.fragments)
    return header, StoredFragments(found.SerializeToString(), count, found.fragments[-1] if count else b"")


def check_entries(message: bytes) -> None:
    """Refuse a message of very many fields of almost nothing, by the error that protobuf has for damage.

    Two bytes in a file can become a message of a hundred in memory. Nobody writes a hundred thousand of those.
    """
    if len(message) <= _MANY:
        return
    at = count = 0
    try:
        while at < len(message):
            tag, value = read_varint(message, at)
            at = _end_of_value(message, value, tag & 7)
            count += 1
            if count % _MANY == 0 and at < _SMALLEST * count:
                raise DecodeError(f"{count} fields in the first {at} bytes")
    except (IndexError, ValueError):
        return  # protobuf will find it and say what is wrong


def _split_at(message: bytes, start: int) -> tuple[Manifest, StoredFragments] | None:
    """Split where fragments are from `start` on and then nothing but other fields; `None` if it is not so."""
    found = EncodedFragments.FromString(message[start:])
    count, last = len(found.fragments), found.fragments[-1]
    if count > _MANY and len(message) < _SMALLEST * count:
        raise DecodeError(f"{count} fragments in {len(message)} bytes")
    found.ClearField("fragments")
    after = found.SerializeToString()  # the other fields, unknown to this message and so kept as they were
    end = len(message) - len(after)
    if message[end:] != after or message[end - len(last) : end] != last:
        return None
    rest = bytes(message[:start]) + after
    check_entries(rest)
    header = Manifest.FromString(rest)
    return header, StoredFragments(message[start:end], count, last)


def _first_fragment(message: bytes) -> int | None:
    """Where the first fragment's field begins; `None` if there is none, or something is wrong before it."""
    at = 0
    try:
        for _ in range(_MANY):
            tag, value = read_varint(message, at)
            if tag == _FRAGMENT_TAG:
                return at
            at = _end_of_value(message, value, tag & 7)
    except (IndexError, ValueError):
        pass
    return None


def _end_of_value(message: bytes, at: int, wire_type: int) -> int:
    if wire_type == _VARINT:
        return read_varint(message, at)[1]
    if wire_type == _LENGTH_DELIMITED:
        length, start = read_varint(message, at)
        return start + length
    if wire_type in (_FIXED32, _FIXED64):
        return at + (4 if wire_type == _FIXED32 else 8)
    raise ValueError(f"wire type {wire_type}")
