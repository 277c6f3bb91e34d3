"""Numbers as protobuf writes them, for the few messages that are put together or looked through by hand."""

__all__ = ["read_varint", "varint"]


def varint(number: int) -> bytes:
    """Seven bits to a byte, the lowest first; all but the last byte have the eighth bit set."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins there, and where it ends. `IndexError` or `ValueError` if there is none."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")
