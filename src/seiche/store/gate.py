"""Slow runs on one machine that let one go first which has lost several times.

A run that takes long would lose for ever to others that change what it reads: while it is at work, one of them has
always committed. Two of the same length are no better: who has lost begins when the other is halfway through, each time
anew. So who has lost holds a gate, at which those who begin wait. A courtesy, not a lock: nothing is safe because of
it, who dies lets go of it, and those who wait do so for some minutes only. On object stores there is none.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from math import inf
from types import TracebackType
from typing import Final, Self

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.store.local import LocalStore

__all__ = ["Gate", "Passage"]

_LOOK: Final = 0.05
_PATIENCE: Final = 600.0
# A directory that every lake with tables has: no file is needed for it. Commits take turns at the one above it.
_DIRECTORY: Final = "tables"
# From this attempt on the gate is held.
_OFTEN: Final = 3

# The gates that are held by what runs here. It would wait for itself if a run makes another one inside.
_held: ContextVar[frozenset[str]] = ContextVar("held", default=frozenset())


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
        """Hold it for the length of the block, if it is to be had; first wait until nobody else does.

        Inside of the block nothing waits for it, nor in threads that go on in a copy of its context.
        """
        if self._path in _held.get():
            yield
            return
        try:
            place = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            yield  # no such directory: no courtesy
            return
        try:
            self._take(place)
            token = _held.set(_held.get() | {self._path})
            try:
                yield
            finally:
                _held.reset(token)
        finally:
            self._leave(place)

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

    @staticmethod
    def _leave(place: int) -> None:
        try:
            # Closing is not enough: a process that was forked meanwhile has the descriptor too, and would keep it.
            fcntl.flock(place, fcntl.LOCK_UN)
        except OSError:
            pass  # of a network file system that is gone
        finally:
            os.close(place)


class Passage:
    """The attempts of one run: the first ones wait at the gate, and from the third one on it is held, to the end."""

    __slots__ = ("_deadline", "_held", "_runtime", "_store")

    def __init__(self, store: Store, runtime: Runtime, *, timeout: float = inf) -> None:
        self._store = store
        self._runtime = runtime
        self._deadline = runtime.clock.monotonic() + timeout
        self._held: ExitStack | None = None

    def before(self, attempt: int) -> None:
        """Call it before the attempt of this number, counted from 1."""
        if self._held is not None:
            return
        left = self._deadline - self._runtime.clock.monotonic()
        gate = Gate(self._store, self._runtime, patience=min(_PATIENCE, left))
        if attempt < _OFTEN:
            gate.wait()
        else:
            self._held = ExitStack()
            self._held.enter_context(gate.held())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held is not None:
            self._held.close()
