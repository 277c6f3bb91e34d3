"""The same scenario again and again, interrupted at each of its storage calls in turn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from seiche.errors import SeicheError
from seiche.store.base import Store
from seiche.testing.simulated import Fault, SimulatedStore, Stopped, applies
from seiche.testing.wrapping import Call

__all__ = ["CRASHES", "Aftermath", "crash_points"]

Scenario: TypeAlias = Callable[[SimulatedStore], object]

# The ways in which a process can die at a call, on a store that keeps its promises.
CRASHES: tuple[Fault, ...] = ("stop_before", "stop_after", "stop_halfway")


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What one interrupted run left behind."""

    number: int
    fault: Fault
    call: Call
    store: Store
    error: BaseException | None
    result: object

    def __str__(self) -> str:
        return f"{self.fault} call {self.number} ({self.call})"


def crash_points(
    fresh: Callable[[], Store], scenario: Scenario, *, faults: Sequence[Fault] = CRASHES, every: int = 1
) -> Iterator[Aftermath]:
    """Run `scenario` once to count its calls; then for each call and each fault that applies to it, on a fresh store.

    `fresh` gives a store in the state that the scenario starts from; the scenario must make the same calls each time.
    Each interrupted run is followed by its aftermath, whose `store` is the bare one, as the next process finds it. With
    other faults than crashes the scenario may go on: `error` is the one of our own that it ended with, if any. For a
    short form of a long proof, only one of `every` so many calls and faults is tried.
    """
    rehearsal = SimulatedStore(fresh())
    scenario(rehearsal)
    numbered = enumerate(rehearsal.calls, start=1)
    points = [(number, call, fault) for number, call in numbered for fault in faults if applies(fault, call.verb)]
    for number, call, fault in points[::every]:
        yield _interrupted(fresh(), scenario, number, fault, call)


def _interrupted(inner: Store, scenario: Scenario, number: int, fault: Fault, call: Call) -> Aftermath:
    store = SimulatedStore(inner, plan={number: fault})
    error: BaseException | None = None
    result: object = None
    try:
        result = scenario(store)
    except (SeicheError, Stopped) as raised:
        error = raised
    store.deliver()
    assert store.injected == [(number, fault)], f"the scenario did not come to call {number} ({call}) again"
    assert store.calls[number - 1] == call, f"call {number} was {store.calls[number - 1]}, and {call} the first time"
    assert isinstance(error, Stopped) == store.stopped, f"somebody caught the death of the process at call {number}"
    return Aftermath(number, fault, call, inner, error, result)
