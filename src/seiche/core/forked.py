"""What a process inherits from the one that it was forked from, and cannot use: threads, and locks that they hold."""

import os
from typing import Protocol
from weakref import WeakSet

from seiche.errors import InvalidInput

__all__ = ["Inherited", "NativeThreads", "renew_in_children"]


class Inherited(Protocol):
    """Something that a forked child has from its parent."""

    def forked(self) -> None:
        """Make anew, in the child, what it cannot use. No other thread is there yet."""
        ...


_inherited: WeakSet[Inherited] = WeakSet()


def renew_in_children(one: Inherited) -> None:
    """Have it told in every process that is forked from this one, before anything else happens there.

    A thread of the parent may hold a lock at that moment. In the child nobody would ever let go of it.
    """
    _inherited.add(one)


def _tell_inherited() -> None:
    for one in tuple(_inherited):
        one.forked()


os.register_at_fork(after_in_child=_tell_inherited)


class NativeThreads:
    """A native library works in threads of its own, which a forked child does not have: there it hangs, or crashes.

    Not even what the child opens itself helps. So the child is told, instead.
    """

    def __init__(self, what: str) -> None:
        """`what` the library is called where users meet it."""
        self._what = what
        self._used = self._lost = False
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._lost = self._used

    def check(self) -> None:
        """To be called before each use; raises `InvalidInput` in a child whose parent had used the library."""
        self._used = True
        if self._lost:
            raise InvalidInput(
                f"{self._what} was used before this process was forked, and cannot be used in it",
                remedy=f"Start workers with the 'spawn' method, or use {self._what} in the parent only after forking.",
            )
