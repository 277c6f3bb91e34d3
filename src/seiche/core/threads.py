"""Work for the threads of a pool that gets done also where no thread can be had any more."""

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["done_by_threads", "handed_out"]

Item = TypeVar("Item")
Done = TypeVar("Done")


def handed_out(pool: Executor, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Future[Done]]:
    """`work` on each of the items, by the threads of `pool`; what they refuse is done here, before this returns.

    They refuse everything as soon as a program's main thread has come to its end, although its other threads, and what
    it has left to do at the exit, go on; and a system that has too many threads already gives no more of them.
    """
    tasks = [_Task(work, item) for item in items]
    try:
        for task in tasks:
            pool.submit(task.do)
    except RuntimeError:
        for task in tasks:
            task.do()
    return [task.future for task in tasks]


def done_by_threads(most: int, name: str, work: Callable[[Item], Done], items: Collection[Item]) -> Sequence[Done]:
    """`work` on each of the items, `most` of them at a time; after an error, what has not begun is left."""
    with ThreadPoolExecutor(min(most, len(items)), name) as pool:
        futures = handed_out(pool, work, items)
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()


class _Task(Generic[Item, Done]):
    """One item, done once: a pool that cannot start a thread says so when it has the task already."""

    __slots__ = ("_begun", "_item", "_work", "future")

    def __init__(self, work: Callable[[Item], Done], item: Item) -> None:
        self._work = work
        self._item = item
        self._begun = Lock()
        self.future: Future[Done] = Future()

    def do(self) -> None:
        if not self._begun.acquire(blocking=False) or not self.future.set_running_or_notify_cancel():
            return
        try:
            self.future.set_result(self._work(self._item))
        except BaseException as error:
            self.future.set_exception(error)
            if not isinstance(error, Exception):
                raise  # whoever is interrupted does not go on to the next
