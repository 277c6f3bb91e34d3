"""Small files that will be asked for in a known order, read some at a time."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from seiche.errors import SeicheError
from seiche.store.base import Store

__all__ = ["BYTES_AT_ONCE", "ReadAhead"]

_AT_ONCE: Final = 32
BYTES_AT_ONCE: Final = 32 << 20


class ReadAhead:
    """The files of a store, of which those in `order` are read side by side before they are asked for.

    `sizes` keeps them from taking more memory than a few large ones would: of all that are together larger than `most`
    only one is held. What cannot be read is told to whoever asks for it. A file that was asked for once is read again
    the next time.
    """

    def __init__(self, store: Store, order: Iterable[str], sizes: Mapping[str, int], most: int = BYTES_AT_ONCE) -> None:
        self._store = store
        self._next = deque(order)
        self._sizes = sizes
        self._most = most
        self._read: dict[str, bytes | SeicheError] = {}

    def get(self, path: str) -> bytes:
        """The content of a file, as `Store.get` has it."""
        if self._next and self._next[0] == path:
            some = self._some()
            self._read |= zip(some, self._store.in_parallel(self._try, some), strict=True)
        found = self._read.pop(path, None)
        if isinstance(found, SeicheError):
            raise found
        return self._store.get(path) if found is None else found

    def _some(self) -> list[str]:
        some: list[str] = []
        total = 0
        while self._next and len(some) < _AT_ONCE and total < self._most:
            some.append(self._next.popleft())
            total += self._sizes.get(some[-1], 0)
        return some

    def _try(self, path: str) -> bytes | SeicheError:
        try:
            return self._store.get(path)
        except SeicheError as error:
            return error
