"""Which anomalies a history of transactions shows, from what clients saw alone.

Transactions append unique values to lists and read whole lists. From the values alone follows who wrote before whom
(ww), who read whose write (wr), and who read before whose write (rw). A cycle in that graph is an order that no serial
execution can have; the kinds of its edges say which anomaly it is:

    G0        write cycle: only ww
    G1a       a read of a value that was never committed
    G1b       a read of a value that its own transaction had followed by another one: an intermediate state
    G1c       circular information flow: ww and wr
    G-single  exactly one rw: read skew, lost update
    G2        two or more rw: write skew

Serializability allows none of them. Under snapshot isolation two transactions may both read a list and append to it,
for rows are written independently of each other: so there a single rw counts only if its transaction has read, not
just written, after the one that it did not see: it read half of what was committed by then. Two rw edges that follow
each other are write skew, which it allows.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

__all__ = ["Anomaly", "Appended", "Read", "Txn", "check"]

Kind: TypeAlias = Literal["ww", "wr", "rw"]
Level: TypeAlias = Literal["snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class Appended:
    """A value, unlike any other in the history, put at the end of the list `key`."""

    key: str
    value: int


@dataclass(frozen=True, slots=True)
class Read:
    """The whole list `key` as a transaction saw it."""

    key: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Txn:
    """What one client did in one transaction, and whether it was told that it committed (`None`: it does not know)."""

    name: str
    steps: tuple[Appended | Read, ...]
    committed: bool | None = True

    def appended(self) -> Iterator[Appended]:
        return (step for step in self.steps if isinstance(step, Appended))

    def reads(self) -> Iterator[Read]:
        """Reads of what was there before, without the transaction's own appends."""
        own: dict[str, list[int]] = defaultdict(list)
        for step in self.steps:
            if isinstance(step, Appended):
                own[step.key].append(step.value)
            else:
                mine = len(own[step.key])
                yield Read(step.key, step.values[: len(step.values) - mine] if mine else step.values)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that must not happen, with the transactions that show it."""

    kind: str
    story: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.story}"


@dataclass(slots=True)
class _Graph:
    """Between two transactions there may be an edge of each kind."""

    edges: dict[str, dict[tuple[str, Kind], str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, source: str, target: str, kind: Kind, why: str) -> None:
        if source != target:
            self.edges[source].setdefault((target, kind), why)


_WW: frozenset[Kind] = frozenset({"ww"})
_WW_WR: frozenset[Kind] = frozenset({"ww", "wr"})
_ALL: frozenset[Kind] = frozenset({"ww", "wr", "rw"})


@dataclass(frozen=True, slots=True)
class _Cycle:
    """A kind of cycle in the graph of a history: of edges of these kinds, with at most `most_rw` of the kind rw.

    With `half_read` only those count in which an rw edge begins where a wr edge ends.
    """

    kinds: frozenset[Kind]
    most_rw: int = 0
    half_read: bool = False


_FORBIDDEN: Mapping[Level, Sequence[_Cycle]] = {
    "snapshot": (_Cycle(_WW), _Cycle(_WW_WR), _Cycle(_ALL, 1, half_read=True)),
    "serializable": (_Cycle(_WW), _Cycle(_WW_WR), _Cycle(_ALL, 1), _Cycle(_ALL, 1 << 30)),
}


def check(history: Iterable[Txn], level: Level) -> list[Anomaly]:
    """The anomalies that `level` does not allow. Committed appends that later reads do not show count as lost."""
    transactions = list(history)
    writer = {step.value: txn for txn in transactions for step in txn.appended()}
    found: list[Anomaly] = []
    orders = _orders(transactions, found)
    found += _bad_reads(transactions, writer)
    found += _lost(transactions, orders)
    graph = _graph(transactions, orders, writer)
    found += _cycles(graph, _FORBIDDEN[level])
    return found


def _orders(transactions: Sequence[Txn], found: list[Anomaly]) -> dict[str, tuple[int, ...]]:
    """For each list the longest read of it; every other read must be a beginning of that."""
    longest: dict[str, tuple[int, ...]] = {}
    observed = [(txn, step) for txn in transactions if txn.committed for step in txn.reads()]
    for _, step in observed:
        if len(step.values) > len(longest.get(step.key, ())):
            longest[step.key] = step.values
    for txn, step in observed:
        if longest.get(step.key, ())[: len(step.values)] != step.values:
            found.append(Anomaly("order", f"{txn.name} saw {step.key} = {step.values}, others {longest[step.key]}"))
        if len(set(step.values)) != len(step.values):
            found.append(Anomaly("duplicate", f"{txn.name} saw {step.key} = {step.values}"))
    return longest


def _bad_reads(transactions: Sequence[Txn], writer: Mapping[int, Txn]) -> Iterator[Anomaly]:
    last = {(txn.name, step.key): step.value for txn in transactions for step in txn.appended()}
    for txn in transactions:
        if txn.committed is not True:
            continue
        for read in txn.reads():
            for value in read.values:
                source = writer.get(value)
                if source is None or source.committed is False:
                    yield Anomaly("G1a", f"{txn.name} read {value} of {read.key}, which was not committed")
            tail = writer.get(read.values[-1]) if read.values else None
            if tail is not None and tail is not txn and last[tail.name, read.key] != read.values[-1]:
                yield Anomaly("G1b", f"{txn.name} read {read.key} in the middle of {tail.name}")


def _lost(transactions: Sequence[Txn], orders: Mapping[str, tuple[int, ...]]) -> Iterator[Anomaly]:
    """The history must end with a read of every list by a transaction that began after all others had ended."""
    for txn in transactions:
        if txn.committed:
            for step in txn.appended():
                if step.value not in orders.get(step.key, ()):
                    yield Anomaly("lost", f"{txn.name} was told that it appended {step.value} to {step.key}")


def _graph(transactions: Sequence[Txn], orders: Mapping[str, tuple[int, ...]], writer: Mapping[int, Txn]) -> _Graph:
    graph = _Graph()
    for key, order in orders.items():
        for one, other in pairwise(order):
            if one in writer and other in writer:
                graph.add(writer[one].name, writer[other].name, "ww", f"{key}: {one} before {other}")
    for txn in transactions:
        if txn.committed is not True:
            continue
        for read in txn.reads():
            order = orders.get(read.key, ())
            if read.values and read.values[-1] in writer:
                graph.add(writer[read.values[-1]].name, txn.name, "wr", f"{read.key}: read {read.values[-1]}")
            following = order[len(read.values)] if len(order) > len(read.values) else None
            if following is not None and following in writer:
                graph.add(txn.name, writer[following].name, "rw", f"{read.key}: read before {following}")
    return graph


def _cycles(graph: _Graph, forbidden: Sequence[_Cycle]) -> Iterator[Anomaly]:
    """A shortest cycle of each forbidden sort through each transaction, each once."""
    seen: set[frozenset[str]] = set()
    for sort in forbidden:
        for start in list(graph.edges):
            cycle = _shortest(graph, start, sort)
            if cycle is not None and frozenset(name for name, _ in cycle) not in seen:
                seen.add(frozenset(name for name, _ in cycle))
                yield Anomaly(_name([kind for _, kind in cycle]), _story(graph, cycle))


def _shortest(graph: _Graph, start: str, sort: _Cycle) -> list[tuple[str, Kind]] | None:
    """A shortest way from `start` back to it: each transaction with the kind of the edge that leaves it."""
    front: list[tuple[list[tuple[str, Kind]], str, int]] = [([], start, 0)]
    seen: set[tuple[str, int]] = set()
    while front:
        following = []
        for path, here, used in front:
            for target, kind in graph.edges.get(here, {}):
                rw = used + (kind == "rw")
                if kind not in sort.kinds or rw > sort.most_rw or (sort.half_read and not path and not rw):
                    continue
                way = [*path, (here, kind)]
                if target == start and (kind == "wr" or not sort.half_read):
                    return way
                if target != start and (target, min(rw, 2)) not in seen:
                    seen.add((target, min(rw, 2)))
                    following.append((way, target, rw))
        front = following
    return None


def _name(kinds: Sequence[Kind]) -> str:
    rw = kinds.count("rw")
    if rw == 0:
        return "G1c" if "wr" in kinds else "G0"
    if rw == 1:
        return "G-single"
    return "G2"


def _story(graph: _Graph, cycle: Sequence[tuple[str, Kind]]) -> str:
    targets = [*(name for name, _ in cycle[1:]), cycle[0][0]]
    parts = [
        f"{name} -{kind} ({graph.edges[name][target, kind]})-> "
        for (name, kind), target in zip(cycle, targets, strict=True)
    ]
    return "".join(parts) + cycle[0][0]
