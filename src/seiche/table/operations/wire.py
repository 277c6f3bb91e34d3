"""Encoded protobuf fields, for those that no message type of ours describes."""

from seiche.table.format.varint import read_varint

__all__ = ["without_field"]

_VARINT, _FIXED64, _LENGTH_DELIMITED, _START_GROUP, _END_GROUP, _FIXED32 = range(6)


def without_field(encoded: bytes, number: int) -> bytes:
    """A well-formed message without any field of this number; all others byte for byte as they were."""
    kept = []
    start = 0
    while start < len(encoded):
        tag, _ = read_varint(encoded, start)
        end = _skip(encoded, start)
        if tag >> 3 != number:
            kept.append(encoded[start:end])
        start = end
    return b"".join(kept)


def _skip(encoded: bytes, at: int) -> int:
    """Where the field that begins at `at` ends."""
    depth = 0
    while True:
        tag, at = read_varint(encoded, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            _, at = read_varint(encoded, at)
        elif wire_type == _LENGTH_DELIMITED:
            length, at = read_varint(encoded, at)
            at += length
        elif wire_type in {_FIXED64, _FIXED32}:
            at += 8 if wire_type == _FIXED64 else 4
        else:
            depth += 1 if wire_type == _START_GROUP else -1
        if not depth:
            return at
