"""Calls of one kind that are worked on together: whatever has come while the last ones were, is taken at once.

Nobody waits for company. A server that is not busy works on each call as it comes; one that is has fewer threads to
switch between, and can share what costs the same for one as for many.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from seiche.gateway.http.calls import Answer, Call

__all__ = ["Together"]

_MOST = 64

_Waiting = tuple[Call, "asyncio.Future[Answer]"]


class Together:
    """One thread of a pool at a time works on all calls that are there.

    `work` gives an answer for each call, or `None` for one that is to be worked on by itself: `alone` does that, in a
    thread of its own. Neither may raise.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        work: Callable[[Sequence[Call]], Sequence[Answer | None]],
        alone: Callable[[Call], Answer],
    ) -> None:
        self._pool = pool
        self._work = work
        self._alone = alone
        self._lock = Lock()
        self._waiting: list[_Waiting] = []
        self._working = False

    def ask(self, call: Call) -> "asyncio.Future[Answer]":
        """The answer to come. In the thread of an event loop."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.append((call, answer))
            begin, self._working = not self._working, True
        if begin:
            self._pool.submit(self._run)
        return answer

    def _run(self) -> None:
        while True:
            with self._lock:
                taken, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                self._working = bool(taken)
            if not taken:
                return
            self._tell(taken, self._work([call for call, _ in taken]))

    def _tell(self, taken: Sequence[_Waiting], answers: Sequence[Answer | None]) -> None:
        """All at once, so that the loop is woken one time."""
        known: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Answer], Answer]]] = {}
        for (call, future), answer in zip(taken, answers, strict=True):
            if answer is None:
                self._pool.submit(self._by_itself, call, future)
            else:
                known.setdefault(future.get_loop(), []).append((future, answer))
        for loop, told in known.items():
            # A loop that has ended has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_set, told)

    def _by_itself(self, call: Call, future: "asyncio.Future[Answer]") -> None:
        answer = self._alone(call)
        with suppress(RuntimeError):
            future.get_loop().call_soon_threadsafe(_set, [(future, answer)])


def _set(told: "Sequence[tuple[asyncio.Future[Answer], Answer]]") -> None:
    for future, answer in told:
        if not future.done():
            future.set_result(answer)
