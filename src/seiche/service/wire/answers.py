"""Answers from the committing threads on their way to the event loop."""

import asyncio
import logging
from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

from seiche.errors import SeicheError
from seiche.service.commit.tickets import Decided

__all__ = ["Answer", "Answers"]

log = logging.getLogger("seiche.service")

Answer: TypeAlias = Decided | SeicheError


class Answers:
    """Hands answers that come from other threads to the event loop: one wake-up for a whole group."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Several lakes have several committing threads: an answer that slips in between would never be delivered.
        self._lock = Lock()
        self._ready: list[tuple[Callable[[Answer], None], Answer]] = []

    def expect(self) -> tuple["asyncio.Future[Decided]", Callable[[Answer], None]]:
        """A future, and what to call with its answer from any thread."""
        future: asyncio.Future[Decided] = self._loop.create_future()

        def settle(answer: Answer) -> None:
            if future.done():
                return  # the client is gone; what was decided is decided
            if isinstance(answer, SeicheError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        return future, self.then(settle)

    def then(self, act: Callable[[Answer], None]) -> Callable[[Answer], None]:
        """What to call with an answer from any thread, so that `act` gets it in the event loop."""

        def done(answer: Answer) -> None:
            with self._lock:
                self._ready.append((act, answer))
                first = len(self._ready) == 1
            if first:
                self._loop.call_soon_threadsafe(self._deliver)

        return done

    def _deliver(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, []
        for act, answer in ready:
            try:
                act(answer)
            except Exception:  # those behind it would wait until their time is up
                log.exception("an answer could not be sent")
