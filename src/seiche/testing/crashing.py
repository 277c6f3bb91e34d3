"""The same scenario again and again, interrupted at each of its storage calls in turn."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from seiche.errors import SeicheError
from seiche.store.base import Store
from seiche.testing.dict_store import DictStore
from seiche.testing.simulated import Fault, SimulatedStore, Stopped, applies
from seiche.testing.wrapping import Call

__all__ = ["CRASHES", "Aftermath", "SeenStates", "crash_points"]

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


class SeenStates:
    """Which states of stores have been met.

    Most calls of a process are reads, and dying at one of them leaves what dying at the last write has left. What
    somebody finds and does there, from the same seed, has been seen then.
    """

    def __init__(self) -> None:
        self._met: set[Hashable] = set()

    def is_new(self, store: Store) -> bool:
        """Whether the state is met for the first time."""
        assert isinstance(store, DictStore), "only its states can be compared"
        state = store.state()
        if state in self._met:
            return False
        self._met.add(state)
        return True

    def __len__(self) -> int:
        return len(self._met)


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
