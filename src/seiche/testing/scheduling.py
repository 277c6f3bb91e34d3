"""Several processes in one, of which one runs at a time: who goes on is decided at every storage call.

A schedule is the list of those decisions. The same schedule gives the same run, so a failure can be looked at again.
Small programs are run under every schedule with few switches, larger ones under many random schedules.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Semaphore, Thread
from typing import Generic, TypeAlias, TypeVar

from seiche.core.runtime import Runtime
from seiche.testing.wrapping import Call

__all__ = ["Chooser", "Process", "Run", "explore", "interleave", "sample"]

T = TypeVar("T")

# A process gets a function to call before each storage call (`on_call` of a SimulatedStore) and returns its result.
Process: TypeAlias = Callable[[Callable[[Call], None]], T]
# Which of the processes that can go on does so; the first argument is the one that ran last, -1 at the beginning.
Chooser: TypeAlias = Callable[[int, Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """One run: who went on at each step, what each process returned, and what it raised instead."""

    schedule: tuple[int, ...]
    results: tuple[T | None, ...]
    errors: tuple[BaseException | None, ...]
    options: tuple[tuple[int, ...], ...] = field(repr=False)


class _Task(Generic[T]):
    """One process as a thread that runs only between `resume` and its next storage call."""

    def __init__(self, process: Process[T], name: str) -> None:
        self._go = Semaphore(0)
        self._paused = Semaphore(0)
        self._process = process
        self.result: T | None = None
        self.error: BaseException | None = None
        self.ended = False
        Thread(target=self._run, name=name, daemon=True).start()

    def resume(self) -> None:
        """Let it run to its next storage call, or to its end."""
        self._go.release()
        self._paused.acquire()

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.result = self._process(self._pause)
        except BaseException as error:  # noqa: BLE001 - a simulated crash is one, and whoever looks at the run wants it
            self.error = error
        self.ended = True
        self._paused.release()

    def _pause(self, _: Call) -> None:
        self._paused.release()
        self._go.acquire()


def interleave(processes: Sequence[Process[T]], choose: Chooser) -> Run[T]:
    """Run the processes to their ends, asking `choose` who goes on before each storage call."""
    tasks = [_Task(process, f"process-{number}") for number, process in enumerate(processes)]
    schedule: list[int] = []
    options: list[tuple[int, ...]] = []
    last = -1
    while ready := tuple(number for number, task in enumerate(tasks) if not task.ended):
        last = choose(last, ready)
        schedule.append(last)
        options.append(ready)
        tasks[last].resume()
    return Run(
        tuple(schedule), tuple(task.result for task in tasks), tuple(task.error for task in tasks), tuple(options)
    )


def sample(processes: Callable[[], Sequence[Process[T]]], seed: int, *, switching: float = 0.3) -> Run[T]:
    """One random run: at each call, with probability `switching`, somebody else goes on."""
    chance = Runtime.seeded(seed).random

    def choose(last: int, ready: Sequence[int]) -> int:
        stay = last in ready and chance.random() >= switching
        return last if stay else chance.choice(ready)

    return interleave(processes(), choose)


def explore(processes: Callable[[], Sequence[Process[T]]], *, switches: int = 2) -> Iterator[Run[T]]:
    """Every run in which a process that could have gone on is interrupted at most `switches` times.

    `processes` makes them anew for each run, on a fresh store. Most faults of concurrency show with two switches.
    """
    prefix: list[int] | None = []
    while prefix is not None:
        run = interleave(processes(), _follow(prefix))
        yield run
        prefix = _next(run, switches)


def _follow(prefix: Sequence[int]) -> Chooser:
    """The decisions of `prefix`, and from there on nobody is interrupted."""
    step = -1

    def choose(last: int, ready: Sequence[int]) -> int:
        nonlocal step
        step += 1
        if step < len(prefix):
            return prefix[step]
        return last if last in ready else ready[0]

    return choose


def _next(run: Run[T], switches: int) -> list[int] | None:
    """The next schedule in order: the last decision that can be another one is, within the number of switches."""
    used = [0]
    for step, choice in enumerate(run.schedule):
        before = run.schedule[step - 1] if step else -1
        used.append(used[-1] + (before in run.options[step] and choice != before))
    for step in reversed(range(len(run.schedule))):
        before = run.schedule[step - 1] if step else -1
        order = _order(before, run.options[step])
        for other in order[order.index(run.schedule[step]) + 1 :]:
            if used[step] + (before in run.options[step] and other != before) <= switches:
                return [*run.schedule[:step], other]
    return None


def _order(before: int, ready: Sequence[int]) -> list[int]:
    """First the one that ran last, then the others."""
    return sorted(ready, key=lambda number: (number != before, number))
