"""A set of very many paths in little memory."""

from hashlib import blake2b
from unicodedata import normalize

import numpy as np

__all__ = ["KeptPaths", "PathSet", "spelling"]

_FRESH = 1 << 17


class PathSet:
    """Remembers paths by a hash of 64 bits: 8 bytes for each, whatever its length.

    It may take a path for a member that is none (for a million paths the chance is one in 10^13), and never the other
    way round.
    """

    def __init__(self) -> None:
        self._fresh: set[int] = set()
        self._settled = np.empty(0, np.uint64)

    def add(self, path: str) -> None:
        """Make a path a member."""
        self._fresh.add(self._hash(path))
        if len(self._fresh) >= _FRESH:
            self._settle()

    def update(self, other: "PathSet") -> None:
        """Make all members of another one members of this."""
        self._fresh |= other._fresh
        if len(other._settled):
            self._settled = np.union1d(self._settled, other._settled)
        if len(self._fresh) >= _FRESH:
            self._settle()

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        number = self._hash(path)
        if number in self._fresh:
            return True
        wanted = np.uint64(number)
        at = int(np.searchsorted(self._settled, wanted))
        return at < len(self._settled) and bool(self._settled[at] == wanted)

    def __len__(self) -> int:
        self._settle()
        return len(self._settled)

    def _settle(self) -> None:
        fresh = np.fromiter(self._fresh, np.uint64, len(self._fresh))
        self._settled = np.union1d(self._settled, fresh)
        self._fresh = set()

    def _hash(self, path: str) -> int:
        return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little")


class KeptPaths(PathSet):
    """Paths of files that must not be removed, however they are spelt.

    Storage that does not tell capital letters from small ones, as that of Macs and of Windows, lists what lies in
    `shop/` as `Shop/...` if somebody made a folder of that name before. Where it does tell them, a file more may stay.
    """

    def _hash(self, path: str) -> int:
        return super()._hash(spelling(path))


def spelling(path: str) -> str:
    """The same text for all names that storage may take for one."""
    return path.casefold() if path.isascii() else normalize("NFC", path).casefold()
