"""How many transactions an account may leave undecided."""

from threading import Lock
from typing import Final

from seiche.core.clock import Clock
from seiche.errors import Unavailable
from seiche.service.state.transactions import TransactionStore
from seiche.service.wire.bounds import exhausted

__all__ = ["Undecided"]

# So many are begun without counting again.
_AT_ONCE: Final = 1000
# So long nothing is counted again after there was no room: counting costs more than beginning.
_FULL_SECONDS: Final = 1.0


class Undecided:
    """Keeps an account from beginning transactions without end: they cost until they are decided, or time is up.

    Each server counts now and then, so there may be a thousand more for each of them.
    """

    def __init__(self, account: str, store: TransactionStore, most: int, clock: Clock) -> None:
        self._account = account
        self._store = store
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._room = 0
        self._full_until = 0.0

    def admit(self) -> None:
        """Count one more. `Unavailable` if there are too many."""
        with self._lock:
            if not self._room and self._clock.monotonic() >= self._full_until:
                self._room = min(_AT_ONCE, self._most - self._store.undecided(self._account, self._most))
                if not self._room:
                    self._full_until = self._clock.monotonic() + _FULL_SECONDS
            if not self._room:
                raise self._refusal()
            self._room -= 1

    def _refusal(self) -> Unavailable:
        return exhausted(
            f"{self._most} transactions are undecided, and no more are begun",
            "transactions.too-many",
            "Commit or abort those that are open; the others end when their time is up.",
        )
