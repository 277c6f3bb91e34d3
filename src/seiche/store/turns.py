"""Writers on one machine that let each other in one by one, because in a crowd most of their work would be for nothing.

A courtesy, not a lock: nothing is safe because of it. Whoever dies inside lets the next one in, and when nothing moves
any more those who wait go on without, so that one that is stopped inside cannot stop the others.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import Final

from seiche.core.runtime import SYSTEM, Runtime

__all__ = ["Turn", "Turns"]

# Those who wait look again after a random part of these times, in seconds. At first soon: the one inside may be about
# to leave. Then seldom: one that has several commits to make does them in a row, which spares everybody the reading of
# what came between, and each look takes time from those who work. The longer it takes the more often, so that old ones
# get in before new ones. Waiting in the kernel would be fairer, but then one that is not running at the moment gets the
# turn, and all others wait for the scheduler with it: half the throughput.
_FIRST_LOOK: Final = 0.0005
_RARE_LOOK: Final = 0.008
# After so many seconds of waiting the pauses begin to shrink, with the square of the time.
_OLD: Final = 0.15
# How long nothing may move. A commit takes some milliseconds.
_PATIENCE: Final = 0.5

_AT_ONCE: Final = fcntl.LOCK_EX | fcntl.LOCK_NB
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

# Which thread has the turn at which directory. It would wait for itself if a commit makes another one there, as that to
# a lake does when a table in it has versions of its own.
_had: set[tuple[int, str]] = set()
os.register_at_fork(after_in_child=_had.clear)


class Turns:
    """Turns at one directory, for processes and threads alike.

    The directory itself is locked, with `flock(2)`, so that no file is needed for it. It changes whenever the turn
    passes on, and when files are created in it: as long as it changes, the others wait.
    """

    def __init__(self, directory: str, runtime: Runtime = SYSTEM, *, patience: float = _PATIENCE) -> None:
        self.directory = directory
        self._runtime = runtime
        self._patience = patience

    def one(self, meanwhile: Callable[[], object] | None = None) -> "Turn":
        """Wait for a turn and have it for the length of the block; gives whether somebody else was there first.

        `meanwhile` is called after each look that was in vain.
        """
        return Turn(self, meanwhile)

    def wait(self, fd: int, meanwhile: Callable[[], object] | None) -> None:
        """Return when the turn is had with `fd`, or when nothing moves any more."""
        clock = self._runtime.clock
        seen, until = _changed(fd), clock.monotonic() + self._patience
        for pause in self._pauses():
            clock.sleep(pause)
            if _free(fd):
                _mark(fd)
                return
            if meanwhile is not None:
                meanwhile()
            if clock.monotonic() >= until:
                before, seen = seen, _changed(fd)
                if seen == before:
                    return
                until = clock.monotonic() + self._patience

    def _pauses(self) -> Iterator[float]:
        clock, chance = self._runtime.clock, self._runtime.random
        begin, longest = clock.monotonic(), _FIRST_LOOK
        while True:
            yield chance.random() * longest
            age = max(1.0, (clock.monotonic() - begin) / _OLD)
            longest = min(longest * 2, _RARE_LOOK / age**2)


class Turn:
    """One turn, as a context manager."""

    __slots__ = ("_fd", "_meanwhile", "_mine", "_turns")

    def __init__(self, turns: Turns, meanwhile: Callable[[], object] | None) -> None:
        self._turns = turns
        self._meanwhile = meanwhile
        self._mine = (0, "")
        self._fd: int | None = None

    def __enter__(self) -> bool:
        mine = get_ident(), self._turns.directory
        if mine in _had:
            return False
        try:
            fd = os.open(self._turns.directory, _DIRECTORY)
        except OSError:
            return False  # no directory yet, or not ours to open
        waited = not _free(fd)
        if waited:
            try:
                self._turns.wait(fd, self._meanwhile)
            except BaseException:
                os.close(fd)
                raise
        self._fd, self._mine = fd, mine
        _had.add(mine)
        return waited

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        fd = self._fd
        if fd is not None:
            _had.discard(self._mine)
            try:  # noqa: SIM105 - every commit comes by here, and the other way takes three more calls
                # Closing is not enough: a process that was forked meanwhile has the descriptor too, and would keep it.
                fcntl.flock(fd, fcntl.LOCK_UN)
            except OSError:
                pass  # closing releases it too, unless there is such a process; nothing is safe because of a turn
            try:  # noqa: SIM105 - as above
                os.close(fd)
            except OSError:
                pass  # of a network file system that is gone: what was done inside is done


def _changed(fd: int) -> int:
    try:
        return os.fstat(fd).st_mtime_ns
    except OSError:
        return 0  # the directory is gone, or its network file system is: nothing moves there


def _mark(fd: int) -> None:
    """Let those who wait see that the turn has passed on."""
    with suppress(OSError):
        os.utime(fd)


def _free(fd: int) -> bool:
    try:
        fcntl.flock(fd, _AT_ONCE)
    except BlockingIOError:
        return False
    except OSError:
        pass  # this file system has no such locks: everybody is let in at once
    return True
