"""Several commits in one turn, for those who come back at once.

Where many processes append in a loop, the turn would pass on after each commit, and everyone would begin by reading
what all the others did since: most of the work of a commit in a crowd. A process that had to wait for its turn, and is
seen to come back within moments, keeps it for a little while.
"""

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Condition, Lock, Thread, get_ident
from types import TracebackType
from typing import Final
from weakref import WeakSet

from seiche.core.runtime import Runtime
from seiche.store.base import Store

__all__ = ["KeptTurns"]

# A process that takes longer than this to come back, in seconds, is not waited for.
_MOMENT: Final = 0.004
# So long a turn is kept for a process that has not come back; then the next one is let in.
_END = _MOMENT
# So long the thread that sees to that stays without anything to do.
_IDLE = 1.0
# For how long a turn is kept at most: with a dozen others that do the same, everybody gets in several times a second.
_LONGEST: Final = 0.025
# Whoever has lost so often, in less than so many seconds each time, has others on this machine wait for the next try.
_POLITE: Final = 3
_SHORT: Final = 0.4


class KeptTurns:
    """The turns of one process at one directory. A courtesy like the store's own: nothing is safe because of it.

    A turn that is kept passes on when its owner does not come back in a moment, or dies. Safe to share between threads.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._clock = runtime.clock
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._changed = Condition(self._lock)
        # Whether there is a thread that ends kept turns, and whether it has to be told that there is one.
        self._watched = self._asleep = False
        # The turn that is kept and used by nobody now, when it was taken, and how often that has happened.
        self._kept: AbstractContextManager[bool] | None = None
        self._since = 0.0
        self._times = 0
        # When a commit was last done here.
        self._left = float("-inf")
        # Threads that have a turn for longer than one commit.
        self._holders: set[int] = set()

    def one(self, meanwhile: Callable[[], object] | None = None) -> "_One":
        """As `Store.turn`: one writer at a time inside the block; gives whether somebody else was there first."""
        if self._process != os.getpid():
            self._begin()  # a forked child has neither the turn nor the thread that would end it
        return _One(self, meanwhile)

    def take(self, meanwhile: Callable[[], object] | None) -> tuple[AbstractContextManager[bool], bool, float, bool]:
        """The turn, whether it had to be waited for, since when it is held, and whether it is worth keeping."""
        now = self._clock.monotonic()
        if self._holders and get_ident() in self._holders:
            return nullcontext(False), False, now, False
        with self._lock:
            quick = now - self._left <= _MOMENT
            if self._kept is not None:
                turn, self._kept = self._kept, None
                return turn, False, self._since, now - self._since < _LONGEST
        turn = self._store.turn(meanwhile)
        if turn.__enter__():
            return turn, True, self._clock.monotonic(), quick
        return turn, False, now, False

    def leave(self, turn: AbstractContextManager[bool], since: float, worth: bool) -> None:
        """Let the next one in, now or in a moment."""
        left = self._clock.monotonic()
        with self._lock:
            self._left = left
            if worth and self._kept is None and self._watch():
                self._kept, self._since, self._times = turn, since, self._times + 1
                return
        turn.__exit__(None, None, None)

    def attempt(self, number: int, took: float) -> AbstractContextManager[object]:
        """Around an attempt at something that others may be quicker than; the one before took so many seconds.

        A thread that has lost too often gets a turn for the whole attempt, and its own commits are let in meanwhile. A
        slow one does not: those who wait for a turn go on without it when nothing moves for a while.
        """
        return self.held() if number > _POLITE and took < _SHORT else nullcontext()

    @contextmanager
    def held(self) -> Iterator[None]:
        """A turn for all that is done inside the block by this thread, whose commits are let in."""
        with self.one():
            self._holders.add(get_ident())
            try:
                yield
            finally:
                self._holders.discard(get_ident())

    def end(self) -> None:
        """Let the next one in now, if a turn is kept here."""
        if self._process == os.getpid():  # a forked child would give back what its parent has
            with self._lock:
                turn, self._kept = self._kept, None
            if turn is not None:
                turn.__exit__(None, None, None)

    def _watch(self) -> bool:
        """Whether there is a thread that ends a turn which is kept from now on."""
        if not self._watched:
            try:
                Thread(target=self._end, name="seiche-turns", daemon=True).start()
            except RuntimeError:  # there are too many, or the process ends
                return False
            _keeping.add(self)
            self._watched = True
        elif self._asleep:
            self._changed.notify()
        return True

    def _end(self) -> None:
        """End turns whose owner did not come back. Runs in a thread of its own, until there is none for a while."""
        changed = self._changed
        with changed:
            while self._changed is changed:
                times, self._asleep = self._times, self._kept is None
                told = changed.wait(_IDLE if self._asleep else _END)
                if self._kept is not None and self._times == times:
                    turn, self._kept = self._kept, None
                    turn.__exit__(None, None, None)
                elif self._asleep and not told and self._kept is None:
                    self._watched = False
                    return


# Those with a turn that may be kept. A process that ends has no threads any more long before it lets go of its files.
_keeping: Final[WeakSet[KeptTurns]] = WeakSet()


@atexit.register
def _end_all() -> None:
    for turns in tuple(_keeping):
        turns.end()


class _One:
    """One turn, as a context manager."""

    __slots__ = ("_meanwhile", "_since", "_turn", "_turns", "_worth")

    def __init__(self, turns: KeptTurns, meanwhile: Callable[[], object] | None) -> None:
        self._turns = turns
        self._meanwhile = meanwhile

    def __enter__(self) -> bool:
        self._turn, waited, self._since, self._worth = self._turns.take(self._meanwhile)
        return waited

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.leave(self._turn, self._since, self._worth and kind is None)
