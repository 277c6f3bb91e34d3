"""How much is read at once: enough not to wait for each file of a storage far away, and no more than memory allows."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

__all__ = ["portions"]

_AT_ONCE: Final = 32
_BYTES_AT_ONCE: Final = 64 << 20

T = TypeVar("T")


def portions(items: Iterable[tuple[T, int]]) -> Iterator[list[T]]:
    """The items in their order, some at a time; each comes with the bytes that it takes. A large one may be alone."""
    some: list[T] = []
    total = 0
    for item, size in items:
        if some and (len(some) == _AT_ONCE or total + size > _BYTES_AT_ONCE):
            yield some
            some, total = [], 0
        some.append(item)
        total += size
    if some:
        yield some
