"""Time, as a thing that is passed in: the engine never asks the operating system itself."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "SimulatedClock", "SystemClock"]


class Clock(Protocol):
    """Where the engine gets its time from. Time only ever affects liveness, never safety."""

    def now(self) -> datetime:
        """The wall-clock time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back; for measuring how long something took."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after about this many seconds."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    # The functions themselves: every commit asks for the time, several times.
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


class SimulatedClock:
    """A clock that moves only when told to, or when somebody sleeps: a run takes no real time and can be replayed."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        self._elapsed += max(0.0, seconds)

    def advance(self, seconds: float) -> None:
        """Move forward, or with a negative number back, as a badly set clock would."""
        self._elapsed += seconds
