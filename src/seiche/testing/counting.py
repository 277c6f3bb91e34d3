"""A store that counts what it is asked for."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from seiche.store.base import Done, Item, Store
from seiche.testing.wrapping import READS, WRITES, Call, WrappingStore

__all__ = ["CountingStore"]

T = TypeVar("T")


class CountingStore(WrappingStore):
    """Counts requests by verb, and bytes, so that a test can state exactly what an operation costs.

    A request counts whether it succeeds or not. `exists` counts as `head`, a listing as one request however long it is.
    `waves` is how many had to wait for each other: on a store that is far away it is what an operation takes. Those
    that a store would do side by side are one wave, though here they are done in turn.
    """

    def __init__(self, inner: Store, *, far: bool = False) -> None:
        """With `far` it behaves like a store across a network, whatever kind of store `inner` is."""
        super().__init__(inner)
        self._far = far
        self.counts: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self.waves = 0

    @property
    def lists_in_one_request(self) -> bool:
        return not self._far and super().lists_in_one_request

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
        self.bytes_read = self.bytes_written = self.waves = 0

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        begin = end = self.waves
        done: list[Done] = []
        for item in items:
            self.waves = begin
            done.append(work(item))
            end = max(end, self.waves)
        self.waves = end
        return done

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        self.counts[call.verb] += 1
        self.waves += 1
        self.bytes_written += call.size
        answer = act()
        if isinstance(answer, bytes):
            self.bytes_read += len(answer)
        return answer
