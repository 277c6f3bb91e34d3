"""Trying again, with limits and with jitter, so that many writers make progress together."""

from collections.abc import Iterator
from dataclasses import dataclass

from seiche.core.runtime import Runtime

__all__ = ["Patience"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long something is tried before giving up."""

    attempts: int = 100
    timeout: float = 60.0
    first_delay: float = 0.002
    longest_delay: float = 0.5

    def tries(self, runtime: Runtime) -> Iterator[int]:
        """Yield 1, 2, 3 ...; before each but the first, sleep a random part of a doubling delay.

        Ends after `attempts` tries or when `timeout` seconds have passed; the first try is always given. Full jitter,
        not equal steps: writers that lost together must not come back together.
        """
        deadline = runtime.clock.monotonic() + self.timeout
        delay = self.first_delay
        for attempt in range(1, self.attempts + 1):
            if attempt > 1:
                if runtime.clock.monotonic() >= deadline:
                    return
                runtime.clock.sleep(runtime.random.random() * delay)
                delay = min(delay * 2, self.longest_delay)
            yield attempt
