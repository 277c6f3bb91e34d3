"""Several processes in one, of which one runs at a time: who goes on is decided at every storage call.

A schedule is the list of those decisions. The same schedule gives the same run, so a failure can be looked at again.
Small programs are run under every schedule with few switches, larger ones under many random schedules.
"""

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
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
    """One process, in a thread that is begun with its first turn and runs only while it has the turn."""

    def __init__(self, process: Process[T], stage: "_Stage[T]") -> None:
        self._process = process
        self._stage = stage
        self._turn = allocate_lock()  # as a signal: whoever gives the turn releases it
        self._turn.acquire()
        self._begun = False
        self.result: T | None = None
        self.error: BaseException | None = None
        self.ended = False

    def go_on(self) -> None:
        """Give it the turn. Whoever had it must do nothing more but wait, or end."""
        if self._begun:
            self._turn.release()
        else:
            # Not a `Thread`, whose start waits for the new thread: that alone took half the time of short runs.
            self._begun = True
            start_new_thread(self._run, ())

    def _run(self) -> None:
        try:
            self.result = self._process(self._pause)
        except BaseException as error:  # noqa: BLE001 - a simulated crash is one, and whoever looks at the run wants it
            self.error = error
        self.ended = True
        self._stage.give_turn()

    def _pause(self, _: Call) -> None:
        # Most decisions are to go on as before, and those cost no switch of threads.
        if self._stage.give_turn(self) is not self:
            self._turn.acquire()


class _Stage(Generic[T]):
    """The processes of one run and who had the turn. Whoever has it decides, at its next call, who is given it then."""

    def __init__(self, processes: Sequence[Process[T]], choose: Chooser) -> None:
        self.tasks = [_Task(process, self) for process in processes]
        self.schedule: list[int] = []
        self.options: list[tuple[int, ...]] = []
        self._choose = choose
        self._last = -1
        self._over = allocate_lock()
        self._over.acquire()
        self._failure: BaseException | None = None

    def play(self) -> None:
        """Let all of them run to their ends; raises what `choose` raised."""
        self.give_turn()
        self._over.acquire()
        if self._failure is not None:
            raise self._failure

    def give_turn(self, asking: _Task[T] | None = None) -> _Task[T] | None:
        """Decide who goes on; unless that is the one who asks, it is running when this returns."""
        try:
            chosen = self._chosen()
        except BaseException as error:  # noqa: BLE001 - raised again where the run was begun
            self._failure, chosen = error, None
        if chosen is None:
            self._over.release()
        elif chosen is not asking:
            chosen.go_on()
        return chosen

    def _chosen(self) -> _Task[T] | None:
        ready = tuple(number for number, task in enumerate(self.tasks) if not task.ended)
        if not ready:
            return None
        self._last = self._choose(self._last, ready)
        self.schedule.append(self._last)
        self.options.append(ready)
        return self.tasks[self._last]


def interleave(processes: Sequence[Process[T]], choose: Chooser) -> Run[T]:
    """Run the processes to their ends, asking `choose` who goes on before each storage call.

    What `choose` raises ends the run there, as it does when a check between two steps fails.
    """
    stage = _Stage(processes, choose)
    stage.play()
    return Run(
        tuple(stage.schedule),
        tuple(task.result for task in stage.tasks),
        tuple(task.error for task in stage.tasks),
        tuple(stage.options),
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
