"""Trying again, with limits and with jitter, so that many writers make progress together."""

from collections.abc import Iterator
from dataclasses import dataclass

from seiche.core.runtime import Runtime

__all__ = ["Patience"]

# So many times as long as an attempt takes is waited at most, where that is longer than the delay.
_ATTEMPTS_LONG = 8


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long something is tried before giving up."""

    attempts: int = 100
    timeout: float = 60.0
    first_delay: float = 0.002
    longest_delay: float = 0.5

    def tries(self, runtime: Runtime, *, paced: bool = False) -> Iterator[int]:
        """Yield 1, 2, 3 ...; before each but the first, sleep a random part of a doubling delay.

        Ends after `attempts` tries or when `timeout` seconds have passed; the first try is always given. Full jitter,
        not equal steps: writers that lost together must not come back together. They would if an attempt takes much
        longer than the delay, so if `paced`, what the last one took is the least to begin with.
        """
        clock = runtime.clock
        deadline = clock.monotonic() + self.timeout
        delay = self.first_delay
        took = 0.0
        for attempt in range(1, self.attempts + 1):
            if attempt > 1:
                if clock.monotonic() >= deadline:
                    return
                long = took * min(2 ** (attempt - 2), _ATTEMPTS_LONG)
                clock.sleep(runtime.random.random() * max(delay, long))
                delay = min(delay * 2, self.longest_delay)
            began = clock.monotonic()
            yield attempt
            took = clock.monotonic() - began if paced else 0.0
