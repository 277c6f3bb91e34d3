"""Files of which it is known that they last: what was flushed once need not be flushed again.

Somebody who commits the same files again, after a conflict or a lost answer, would otherwise wait for the disk each
time: half of what a small commit takes.
"""

import os
from datetime import timedelta
from typing import Final

from seiche.core.runtime import Runtime

__all__ = ["FlushedFiles"]

# Of how many files it is remembered.
_MOST: Final = 10_000

# A change within one tick of the system's clock does not show in a file's times. The longest tick there is takes 10 ms:
# a file that was left alone for longer when it was flushed shows every change since.
_TICK_NS: Final = timedelta(milliseconds=20) // timedelta(microseconds=1) * 1000

# What is another one as soon as anybody writes to the file, puts another in its place, or gives it another name.
State = tuple[int, int, int, int, int]


class FlushedFiles:
    """The files that one store has flushed, as they were then; by their full paths."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._known: dict[str, State] = {}

    def last(self, path: str) -> bool:
        """Whether the bytes of this file, and its name, are known to be on the disk."""
        known = self._known.get(path)
        if known is None:
            return False
        try:
            return known == _state(os.stat(path))
        except OSError:
            return False

    def seen(self, path: str) -> State | None:
        """What to `note` of a file that is about to be flushed; `None` if a change of it might go unnoticed."""
        try:
            state = _state(os.stat(path))
        except OSError:
            return None
        now = int(self._clock.now().timestamp() * 1e9)
        return state if max(state[3:]) < now - _TICK_NS else None

    def note(self, path: str, state: State) -> None:
        """The file was flushed, and so was its name, after it had been in this state."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[path] = state


def _state(status: os.stat_result) -> State:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
