"""Native libraries in a process that was forked."""

import os

from seiche.errors import InvalidInput

__all__ = ["NativeThreads"]


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
