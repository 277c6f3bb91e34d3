"""Writers on one machine that let each other in one by one, because in a crowd most of their work would be for nothing.

A courtesy, not a lock: nothing is safe because of it. Whoever dies inside lets the next one in, and when nothing moves
any more those who wait go on without, so that one that is stopped inside cannot stop the others.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from seiche.core.runtime import SYSTEM, Runtime

__all__ = ["Turns"]

# Those who wait look again after at most this many seconds. Waiting in the kernel would be fairer, but then one that is
# not running at the moment gets the turn, and all others wait for the scheduler with it: half the throughput.
_LOOK: Final = 0.004
# How long nothing may move. A commit takes some milliseconds.
_PATIENCE: Final = 0.5


class Turns:
    """Turns at one directory, for processes and threads alike.

    The directory itself is locked, with `flock(2)`, so that no file is needed for it. Whoever is inside creates files
    in it: as long as it changes, the others wait.
    """

    def __init__(self, directory: str, runtime: Runtime = SYSTEM, *, patience: float = _PATIENCE) -> None:
        self._directory = directory
        self._runtime = runtime
        self._patience = patience

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Wait for a turn and have it for the length of the block; yields whether somebody else was there first."""
        try:
            fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            yield False  # no directory yet, or not ours to open
            return
        try:
            waited = not _free(fd)
            if waited:
                self._wait(fd)
            yield waited
        finally:
            _leave(fd)

    def _wait(self, fd: int) -> None:
        clock, chance = self._runtime.clock, self._runtime.random
        seen, until = _changed(fd), clock.monotonic() + self._patience
        while True:
            clock.sleep(chance.random() * _LOOK)
            if _free(fd):
                return
            if clock.monotonic() >= until:
                before, seen = seen, _changed(fd)
                if seen == before:
                    return
                until = clock.monotonic() + self._patience


def _changed(fd: int) -> int:
    return os.fstat(fd).st_mtime_ns


def _leave(fd: int) -> None:
    with suppress(OSError):
        # Closing is not enough: a process that was forked meanwhile has the descriptor too, and would keep the turn.
        fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # this file system has no such locks: everybody is let in at once
    return True
