"""A set of very many paths in little memory."""

from hashlib import blake2b

import numpy as np

__all__ = ["PathSet"]

_FRESH = 1 << 17


class PathSet:
    """Remembers paths by a hash of 64 bits: 8 bytes for each, whatever its length.

    It may take a path for a member that is none (for a million paths the chance is one in 10^13), and never the other
    way round. It holds what must not be removed, so it errs on the safe side.
    """

    def __init__(self) -> None:
        self._fresh: set[int] = set()
        self._settled = np.empty(0, np.uint64)

    def add(self, path: str) -> None:
        """Make a path a member."""
        self._fresh.add(_hash(path))
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
        number = _hash(path)
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


def _hash(path: str) -> int:
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little")
