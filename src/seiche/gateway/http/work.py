"""Where calls are worked on: in threads, each by itself, or all together that came while the last ones were.

Nobody waits for company. A server that is not busy works on each call as it comes; one that is has fewer threads to
switch between, and shares what costs as much for one as for many.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock

from seiche.gateway.http.calls import Answer, Call

__all__ = ["Together", "Workers"]

_MOST = 64

Promise = asyncio.Future[Answer]


class Workers:
    """A pool of threads. `inside` says how many calls it has that are not answered yet."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, "seiche-gateway")
        self._inside: set[Promise] = set()

    @property
    def inside(self) -> int:
        return len(self._inside)

    def promise(self) -> Promise:
        """An answer to come. In the thread of an event loop."""
        made: Promise = asyncio.get_running_loop().create_future()
        self._inside.add(made)
        return made

    def submit(self, do: Callable[[], None]) -> None:
        self._pool.submit(do)

    def alone(self, call: Call, promise: Promise, work: Callable[[Call], Answer]) -> None:
        """Work on a call in a thread of its own."""

        def do() -> None:
            try:
                known: Answer | Exception = work(call)
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                known = error
            self.tell([(promise, known)])

        self._pool.submit(do)

    def tell(self, known: Sequence[tuple[Promise, Answer | Exception]]) -> None:
        """Keep promises, by an answer or an error. Those of one loop all at once: it is woken one time."""
        loops: dict[asyncio.AbstractEventLoop, list[tuple[Promise, Answer | Exception]]] = {}
        for promise, answer in known:
            self._inside.discard(promise)
            loops.setdefault(promise.get_loop(), []).append((promise, answer))
        for loop, told in loops.items():
            # A loop that has ended has nobody left who waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_keep, told)

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Together:
    """One thread at a time works on all calls that are there.

    `work` gives an answer for each call, or `None` for one that is to be worked on by itself: `alone` does that. If it
    raises, all of them hear that, and those who come after them are worked on as ever.
    """

    def __init__(
        self,
        workers: Workers,
        work: Callable[[Sequence[Call]], Sequence[Answer | None]],
        alone: Callable[[Call], Answer],
    ) -> None:
        self._workers = workers
        self._work = work
        self._alone = alone
        self._lock = Lock()
        self._waiting: list[tuple[Call, Promise]] = []
        self._working = False

    def ask(self, call: Call, promise: Promise) -> None:
        with self._lock:
            self._waiting.append((call, promise))
            begin, self._working = not self._working, True
        if begin:
            self._workers.submit(self._run)

    def _run(self) -> None:
        while True:
            with self._lock:
                taken, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                self._working = bool(taken)
            if not taken:
                return
            answers: Sequence[Answer | Exception | None]
            try:
                answers = self._work([call for call, _ in taken])
            except Exception as error:  # noqa: BLE001 - raised where they are waited for
                answers = [error] * len(taken)
            self._workers.tell(
                [(promise, one) for (_, promise), one in zip(taken, answers, strict=True) if one is not None]
            )
            for (call, promise), one in zip(taken, answers, strict=True):
                if one is None:
                    self._workers.alone(call, promise, self._alone)


def _keep(told: Sequence[tuple[Promise, Answer | Exception]]) -> None:
    for promise, known in told:
        if promise.done():
            continue
        if isinstance(known, Exception):
            promise.set_exception(known)
        else:
            promise.set_result(known)
