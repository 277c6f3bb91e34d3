"""Encoded messages inside others: what was encoded once is not encoded again."""

__all__ = ["part"]


def part(message: bytes) -> bytes:
    """An encoded message as the first field of another one, which may have it many times.

    Several of these one behind the other are an `ExecuteTransactionsRequest` or `ExecuteTransactionsResponse`.
    """
    size, length = len(message), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"".join((b"\n", length, message))
