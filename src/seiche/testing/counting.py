"""A store that counts what it is asked for."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from seiche.store.base import Store
from seiche.testing.wrapping import READS, WRITES, Call, WrappingStore

__all__ = ["CountingStore"]

T = TypeVar("T")


class CountingStore(WrappingStore):
    """Counts requests by verb, and bytes, so that a test can state exactly what an operation costs.

    A request counts whether it succeeds or not. `exists` counts as `head`, a listing as one request however long it is.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0

    @property
    def requests(self) -> int:
        """All requests since the start or the last `reset`."""
        return self.counts.total()

    @property
    def reads(self) -> int:
        """Requests that change nothing."""
        return sum(self.counts[verb] for verb in READS)

    @property
    def writes(self) -> int:
        """Requests that may change something."""
        return sum(self.counts[verb] for verb in WRITES)

    def reset(self) -> None:
        """Start again at zero."""
        self.counts.clear()
        self.bytes_read = self.bytes_written = 0

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        self.counts[call.verb] += 1
        self.bytes_written += call.size
        answer = act()
        if isinstance(answer, bytes):
            self.bytes_read += len(answer)
        return answer
