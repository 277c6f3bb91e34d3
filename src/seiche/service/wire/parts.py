"""Encoded messages inside others: what was encoded once is not encoded again."""

from seiche.table.format.varint import varint

__all__ = ["part"]


def part(message: bytes) -> bytes:
    """An encoded message as the first field of another one, which may have it many times.

    Several of these one behind the other are an `ExecuteTransactionsRequest` or `ExecuteTransactionsResponse`.
    """
    return b"".join((b"\n", varint(len(message)), message))
