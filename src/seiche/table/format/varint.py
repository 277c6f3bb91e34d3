"""Numbers as protobuf writes them, for the few messages that are put together by hand."""

__all__ = ["varint"]


def varint(number: int) -> bytes:
    """Seven bits to a byte, the lowest first; all but the last byte have the eighth bit set."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
