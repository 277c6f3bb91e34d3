"""Large files that follow one another: the memory that holds an older one is given back for the next.

Each version of a table with many fragments is a file of many megabytes that nearly repeats the one before. Left alone,
the operating system keeps them all in memory until it runs short, and takes new memory for each. In a virtual machine
new memory may have to be got from the host, page by page: measured, 35 milliseconds for 16 MB, and 4 where memory that
was in use a moment ago is used again.
"""

import os
from collections import deque
from contextlib import suppress
from typing import Final

from seiche.store.base import Data
from seiche.store.files import length_of, write_all

__all__ = ["LARGE", "LargeFiles", "is_large"]

LARGE: Final = 1 << 20

# Of each file the beginning and the end stay: writers that are behind look there for what made the version.
_HEAD: Final = 64 * 1024
_TAIL: Final = 4 * 1024
# The newest files stay whole: others are about to read them, and the disk may not have got them yet.
_KEPT: Final = 2

_CAN_ADVISE: Final = hasattr(os, "posix_fadvise")


def is_large(data: Data) -> bool:
    """Whether it is worth while."""
    return (len(data) if isinstance(data, bytes) else length_of(data)) >= LARGE


class LargeFiles:
    """The large files that one store has written last. Only advice to the system: never an error, never a loss."""

    def __init__(self) -> None:
        self._newest: deque[str] = deque()

    def fill(self, fd: int, data: Data) -> None:
        """Write the content of a large file, and let the disk begin with it: memory is free only after that."""
        write_all(fd, data)
        _let_go(fd, 0, 0)  # of what is still to be written nothing goes: the writing begins

    def written(self, path: str) -> None:
        """There is one more, at `path`: the memory of the one that is now too old goes."""
        self._newest.append(path)
        if len(self._newest) > _KEPT:
            with suppress(OSError):  # removed meanwhile
                fd = os.open(self._newest.popleft(), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    _let_go(fd, _HEAD, os.fstat(fd).st_size - _HEAD - _TAIL)
                finally:
                    os.close(fd)


def _let_go(fd: int, start: int, length: int) -> None:
    if _CAN_ADVISE:
        with suppress(OSError):
            os.posix_fadvise(fd, start, length, os.POSIX_FADV_DONTNEED)
