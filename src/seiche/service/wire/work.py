"""What is done for one request, counted until all of it is over."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from seiche.service.wire.answers import Answer
from seiche.service.wire.bounds import Taken

__all__ = ["Work"]

T = TypeVar("T")


class Work:
    """The work on one request that was taken in.

    A client that is gone, because its time was up or its connection broke, ends little of it: the thread that is at it
    goes on, and a transaction that waits to be decided still does. As long as they hold the request it counts; clients
    that have no patience and come again could otherwise fill the memory while storage does not answer.
    """

    def __init__(self, threads: ThreadPoolExecutor, taken: Taken) -> None:
        self._threads = threads
        self._taken = taken

    async def run(self, act: Callable[[], T]) -> T:
        """Have a thread do it. What none has begun is left if nobody waits for it any more."""
        job = self._threads.submit(act)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if not job.cancel():
                self._taken.again()
                job.add_done_callback(lambda _: self._taken.done())
            raise

    def submitting(
        self, make: Callable[[Callable[[Answer], None]], Callable[..., bool]], done: Callable[[Answer], None]
    ) -> Callable[..., bool]:
        """What to call to have a transaction decided: what `make` gives when it is told who hears of the answer."""
        taken = self._taken

        def answered(answer: Answer) -> None:
            taken.done()
            done(answer)

        submit = make(answered)

        def submitted(**options: bool) -> bool:
            taken.again()
            try:
                return submit(**options)
            except BaseException:
                taken.done()
                raise

        return submitted
