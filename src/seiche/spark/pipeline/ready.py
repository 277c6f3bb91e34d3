"""Tasks that wait for each other, and run side by side where they need not."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Task", "run_ready"]

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Task(Generic[Done]):
    """Something to do, once everything is done that it needs."""

    name: str
    needs: frozenset[str]
    do: Callable[[], Done]


def run_ready(tasks: Iterable[Task[Done]], at_once: int) -> list[Done]:
    """Do every task as soon as those are done that it needs, several at once, earlier ones first; in their order.

    Names that no task has are not waited for, and tasks must not wait in a circle. After an error nothing more is
    begun, and it is raised when those that run have ended.
    """
    given = list(tasks)
    names = {task.name for task in given}
    waiting = list(given)
    done: dict[str, Done] = {}
    running: dict[Future[Done], str] = {}
    with ThreadPoolExecutor(at_once) as pool:
        while waiting or running:
            for task in list(waiting):
                if len(running) < at_once and (task.needs & names) <= done.keys():
                    waiting.remove(task)
                    # In a context of its own each: what the run holds, no task of it waits for.
                    running[pool.submit(copy_context().run, task.do)] = task.name
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for one in ended:
                done[running.pop(one)] = one.result()
    return [done[task.name] for task in given]
