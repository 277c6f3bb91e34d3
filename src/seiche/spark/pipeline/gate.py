"""Pipelines on one machine that let one go first which has lost several times.

A long run that shares tables with short ones would lose to them for ever: while it is built, one of them has always
committed. So who has lost holds a gate, at which those who begin wait. A courtesy, not a lock: nothing is safe because
of it, who dies lets go of it, and those who wait do so for some minutes only. On object stores there is none.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.store.local import LocalStore

__all__ = ["Gate"]

_LOOK: Final = 0.05
_PATIENCE: Final = 600.0
# A directory that every lake with tables has: no file is needed for it. Commits take turns at the one above it.
_DIRECTORY: Final = "tables"


class Gate:
    """The gate of one lake, for processes and threads alike."""

    def __init__(self, store: Store, runtime: Runtime, *, patience: float = _PATIENCE) -> None:
        self._path = store.native_uri(_DIRECTORY) if isinstance(store, LocalStore) else ""
        self._runtime = runtime
        self._patience = patience

    def wait(self) -> None:
        """Wait until nobody holds it, or long enough."""
        with self.held():
            pass

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for the length of the block, if it is to be had; first wait until nobody else does."""
        try:
            place = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            yield  # no such directory: no courtesy
            return
        try:
            self._take(place)
            yield
        finally:
            os.close(place)

    def _take(self, place: int) -> None:
        clock = self._runtime.clock
        deadline = clock.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if clock.monotonic() >= deadline:
                    return
                clock.sleep(_LOOK * self._runtime.random.random())
            except OSError:
                return  # a file system without locks
            else:
                return
