"""A file of an export: under which path it will stand, and where its bytes come from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from seiche.store.base import Buffer, Store

__all__ = ["Item", "copied", "made"]


@dataclass(frozen=True, slots=True)
class Item:
    """`chunks` can be asked for as often as needed and gives the same bytes each time; `size` is 0 if not known.

    `source` is where a file is that is copied as it is: a store, and the path in it.
    """

    path: str
    chunks: Callable[[], Iterator[Buffer]]
    size: int = 0
    source: tuple[Store, str] | None = None


def copied(store: Store, path: str, target: str | None = None, size: int = 0) -> Item:
    """A file that is copied as it is."""
    origin, inside = store.origin(path)
    return Item(path if target is None else target, lambda: origin.chunks(inside), size, (origin, inside))


def made(path: str, data: bytes) -> Item:
    """A file that is made for the export."""
    return Item(path, lambda: iter((data,)), len(data))
