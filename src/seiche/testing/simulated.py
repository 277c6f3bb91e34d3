"""A store that fails on purpose, the same way each time for the same seed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, SeicheError, Unavailable
from seiche.store.base import Data, ObjectInfo, Store
from seiche.store.files import joined
from seiche.store.paths import check, check_directory, check_start_after, parent
from seiche.testing.wrapping import CONDITIONAL, READS, WRITES, Call, WrappingStore

__all__ = ["Fault", "Faults", "SimulatedStore", "Stopped", "applies"]

T = TypeVar("T")

Fault: TypeAlias = Literal[
    "before",  # the request fails and had no effect: Unavailable
    "lost",  # the request never arrives, which the caller cannot know: CommitUnknown
    "after",  # it takes effect, but the answer is lost: CommitUnknown, or Unavailable for what may simply be repeated
    "late",  # it takes effect later, when the caller has long been told CommitUnknown
    "conflict",  # a conditional request meets another one (status 409): nothing was decided, Unavailable
    "torn",  # a write leaves a part of the file: CommitUnknown; only of stores without atomic writes
    "empty",  # a write leaves a file of no bytes: CommitUnknown; likewise
    "stop_before",  # the process dies before the request is sent
    "stop_after",  # the process dies after it took effect
    "stop_halfway",  # the process dies when a renamed file has its new name but still its old one too
    "stop_torn",  # the process dies in the middle of a write that is not atomic
]

_ALL = READS | WRITES
_PUTS = frozenset({"put", "put_if_absent"})
_DECIDING = WRITES - {"delete"}
_APPLIES: Mapping[Fault, frozenset[str]] = {
    "before": _ALL,
    "lost": _DECIDING,
    "after": _ALL,
    "late": _DECIDING,
    "conflict": CONDITIONAL,
    "torn": _PUTS,
    "empty": _PUTS,
    "stop_before": _ALL,
    "stop_after": _ALL,
    "stop_halfway": frozenset({"rename_if_absent"}),
    "stop_torn": _PUTS,
}
_BY_CHANCE: tuple[Fault, ...] = ("before", "lost", "after", "late", "conflict", "torn", "empty")


def applies(fault: Fault, verb: str) -> bool:
    """Whether `fault` can happen to a call of `verb`."""
    return verb in _APPLIES[fault]


class Stopped(BaseException):
    """The simulated process is dead. Nothing may catch this but the test that killed it."""


@dataclass(frozen=True, slots=True)
class Faults:
    """How likely each fault is at each call that it applies to, and how the storage behaves otherwise.

    With probability `delay` a call takes up to `longest_delay` seconds. With `odd_order` listings mix the directories.
    """

    before: float = 0.0
    lost: float = 0.0
    after: float = 0.0
    late: float = 0.0
    conflict: float = 0.0
    torn: float = 0.0
    empty: float = 0.0
    delay: float = 0.0
    longest_delay: float = 1.0
    odd_order: bool = False

    def draw(self, verb: str, chance: float) -> Fault | None:
        """The fault that a number between 0 and 1 stands for."""
        for fault in _BY_CHANCE:
            if applies(fault, verb):
                chance -= getattr(self, fault)
                if chance < 0:
                    return fault
        return None


class SimulatedStore(WrappingStore):
    """One process's view of `inner`, with faults that follow from `seed`, or from `plan` by the number of the call.

    Calls are counted from 1 and recorded in `calls`, the faults among them in `injected`. `on_call` is told of each
    call before it happens: a scheduler can switch to another process there. Once the process has stopped, every further
    call raises `Stopped` too. Time passes on the runtime's clock, a simulated one if none is given. A planned fault
    that does not apply to the verb of its call is ignored. Without faults the store keeps every promise. Not for
    threads.
    """

    def __init__(
        self,
        inner: Store,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        plan: Mapping[int, Fault] | None = None,
        on_call: Callable[[Call], None] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(inner)
        own = Runtime.seeded(seed)
        self._random = own.random
        self._clock = (runtime or own).clock
        self._faults = faults or Faults()
        self._plan = dict(plan or {})
        self._under_way: list[Callable[[], object]] = []
        self.on_call = on_call
        self.calls: list[Call] = []
        self.injected: list[tuple[int, Fault]] = []
        self.stopped = False

    def stop(self) -> None:
        """Kill the process: from now on every call raises `Stopped`. Requests under way arrive nevertheless."""
        self.stopped = True

    def deliver(self) -> None:
        """Let every request that is still under way in the network arrive."""
        while self._under_way:
            _quietly(self._under_way.pop(0))

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        self._put("put", self._inner.put, path, joined(data), durable)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self._put("put_if_absent", self._inner.put_if_absent, path, joined(data), durable)

    def rename_if_absent(self, source: str, target: str) -> None:
        self._perform(
            Call("rename_if_absent", check(target), check(source)),
            lambda: self._inner.rename_if_absent(source, target),
            lambda: self._inner.copy_if_absent(source, target),
        )

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        check_start_after(check_directory(prefix), start_after)
        return self._perform(
            Call("list", prefix),
            lambda: self._listed(self._inner.list(prefix, start_after=start_after, recursive=recursive)),
        )

    def _put(self, verb: str, write: Callable[..., None], path: str, data: bytes, durable: bool) -> None:
        def write_part() -> None:
            write(path, data[: self._random.randrange(len(data))] if data else data, durable=durable)

        call = Call(verb, check(path), size=len(data))
        self._perform(
            call,
            lambda: write(path, data, durable=durable),
            write_part,
            lambda: write(path, b"", durable=durable),
        )

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        check(call.path)
        if call.source:
            check(call.source)
        return self._perform(call, act)

    def _perform(
        self,
        call: Call,
        act: Callable[[], T],
        act_partly: Callable[[], object] | None = None,
        act_emptily: Callable[[], object] | None = None,
    ) -> T:
        fault = self._begin(call)
        if fault is None:
            return act()
        self.injected.append((len(self.calls), fault))
        match fault:
            case "before":
                raise Unavailable(f"{call}: simulated failure before it", path=call.path)
            case "conflict":
                raise Unavailable(f"{call}: simulated conflict with another request", path=call.path, status=409)
            case "late":
                self._under_way.append(act)
            case "after" if call.verb in READS:
                raise Unavailable(f"{call}: simulated loss of the answer", path=call.path)
            case "after" | "stop_after":
                _quietly(act)
            case "torn" | "stop_torn" | "stop_halfway":
                assert act_partly is not None
                act_partly()
            case "empty":
                assert act_emptily is not None
                act_emptily()
        if fault.startswith("stop"):
            self.stopped = True
            raise Stopped(f"{fault} call {len(self.calls)}: {call}")
        if call.verb == "delete":
            raise Unavailable(f"{call}: simulated loss of the answer", path=call.path)
        raise CommitUnknown(f"{call}: simulated loss of the answer", path=call.path)

    def _begin(self, call: Call) -> Fault | None:
        """Everything that comes before the request itself; returns the fault that it will meet."""
        self._check_alive()
        if self.on_call is not None:
            self.on_call(call)
            self._check_alive()  # while others had their turn, somebody may have killed this process
        self.calls.append(call)
        if self._under_way and self._random.random() < 0.5:
            _quietly(self._under_way.pop(0))
        if self._random.random() < self._faults.delay:
            self._clock.sleep(self._random.random() * self._faults.longest_delay)
        by_chance = self._faults.draw(call.verb, self._random.random())
        planned = self._plan.get(len(self.calls))
        return planned if planned is not None and applies(planned, call.verb) else by_chance

    def _check_alive(self) -> None:
        if self.stopped:
            raise Stopped("the process is dead already")

    def _listed(self, found: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        for info in self._mixed(found) if self._faults.odd_order else found:
            self._check_alive()
            yield info

    def _mixed(self, found: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        """The same files with those of different directories in random order; within one directory the order stays."""
        directories: dict[str, list[ObjectInfo]] = {}
        for info in found:
            directories.setdefault(parent(info.path), []).append(info)
        turns = [name for name, files in directories.items() for _ in files]
        self._random.shuffle(turns)
        files = {name: iter(infos) for name, infos in directories.items()}
        for name in turns:
            yield next(files[name])


def _quietly(act: Callable[[], object]) -> None:
    """Do it; nobody is there to hear of its failure."""
    with suppress(SeicheError):
        act()
