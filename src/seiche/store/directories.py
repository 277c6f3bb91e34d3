"""The directories of a store on this machine: made when the first file goes into them, and flushed with their names."""

import os
from contextlib import suppress
from typing import Final

from seiche.errors import Unavailable
from seiche.store.files import fsync_directory

__all__ = ["Directories"]

# Of how many directories it is remembered that they last: a lake spreads its nodes over a million.
_MOST_SETTLED: Final = 10_000


class Directories:
    """The directories at and below `root`, by their full paths. All methods raise `OSError`, and `Unavailable` for a
    link that leads nowhere.
    """

    def __init__(self, root: str, *, flush: bool) -> None:
        """With `flush`, directories that have to be made above the root last as soon as they are made."""
        self._root = root
        self._inside = root.rstrip("/") + "/"
        self._flush = flush
        # Those that are known to last, so that only the names in them need to be flushed.
        self._settled: set[str] = set()

    def make(self, directory: str) -> None:
        """There is this directory when this returns, whoever made it; `FileNotFoundError` if one above vanishes."""
        self._settled.discard(directory)  # it was not there just now: whoever makes it may not come to flushing it
        with suppress(FileExistsError):
            try:
                os.mkdir(directory)
            except FileNotFoundError:
                self.make(os.path.dirname(directory))
                os.mkdir(directory)
            if self._flush and not directory.startswith(self._inside):
                try:
                    fsync_directory(os.path.dirname(directory))
                except OSError:
                    with suppress(OSError):
                        os.rmdir(directory)  # nobody would flush the name of one that is there already
                    raise
            return
        if os.path.islink(directory) and not os.path.exists(directory):
            raise Unavailable(
                f"{directory} is a link to a directory that is not there",
                remedy="Make or mount the directory that it leads to, or remove the link.",
                path=directory,
            )

    def settle(self, directory: str) -> None:
        """Flush the names in `directory`, and once those of the directories above it.

        They are flushed even if somebody else made them, who may not have come to it yet.
        """
        fsync_directory(directory)
        if len(self._settled) > _MOST_SETTLED:
            self._settled.clear()
        while directory not in self._settled and len(directory) >= len(self._root):
            above = os.path.dirname(directory)
            with suppress(PermissionError):  # what lies above the root may not be ours to open
                fsync_directory(above)
            self._settled.add(directory)  # not before it is so: other threads rely on it
            directory = above

    def prune(self, top: str) -> int:
        """Remove `top` and those below it that have no files in them, never the root; returns how many."""
        removed = 0
        for directory, _, _ in os.walk(top, topdown=False):
            if len(directory) > len(self._inside):
                with suppress(OSError):  # there are files in it
                    os.rmdir(directory)
                    removed += 1
                    self._settled.discard(directory)
        return removed
