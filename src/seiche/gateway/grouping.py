"""Commits of many requests at once: those that wait are decided together, by one root, each with its own answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING

from seiche.errors import SeicheError, Unavailable
from seiche.lake.commit.committer import Answer

if TYPE_CHECKING:
    from seiche.lake.commit.committer import Committer
    from seiche.lake.commit.intent import Intent
    from seiche.lake.lake import Lake
    from seiche.lake.state import State
    from seiche.lake.transaction import Transaction

__all__ = ["Grouping"]

_MOST = 256


@dataclass(slots=True)
class _Asked:
    """One thread that waits: until all of its `left` transactions are decided, or it is told to decide (`leads`)."""

    left: int
    leads: bool = False
    told: Event = field(default_factory=Event)


@dataclass(slots=True)
class _Waiting:
    """One transaction that waits to be decided: `found` is the version that has it, or what stood in the way."""

    intent: "Intent"
    asked: _Asked
    found: "State | Exception | None" = None


class Grouping:
    """One thread at a time decides, and takes along all that came meanwhile. When nobody else is there, nobody waits.

    A thread whose own transactions are decided hands over to the first that still waits. With a lock instead, each
    thread that was decided along with it would be woken in turn, only to find that out.
    """

    def __init__(self, lake: "Lake") -> None:
        self._committer: Committer = lake._committer
        self._lock = Lock()
        self._queue: list[_Waiting] = []
        self._deciding = False

    def commit(self, transactions: "Sequence[Transaction]") -> "list[State | Exception]":
        """As `commit()` of each: the version of the lake that has it, or its error. Each is decided for itself.

        The transactions must not be used afterwards.
        """
        found: list[State | Exception] = [one.state for one in transactions]
        asked = _Asked(0)
        mine: dict[int, _Waiting] = {}
        for number, transaction in enumerate(transactions):
            try:
                transaction.check_running()
                intent = transaction.intent()
            except SeicheError as error:
                found[number] = error
                continue
            if intent is not None:
                mine[number] = _Waiting(intent, asked)
        if mine:
            self._wait(asked, list(mine.values()))
        for number, one in mine.items():
            found[number] = one.found or Unavailable(f"transaction {one.intent.id} was not decided")
        return found

    def _wait(self, asked: _Asked, mine: list[_Waiting]) -> None:
        self._enter(asked, mine)
        if not asked.leads:
            asked.told.wait()
        if not asked.leads:
            return
        try:
            while asked.left:
                self._decide()
        finally:
            self._hand_over()

    def _enter(self, asked: _Asked, mine: list[_Waiting]) -> None:
        asked.left = len(mine)
        with self._lock:
            self._queue += mine
            asked.leads, self._deciding = not self._deciding, True

    def _hand_over(self) -> None:
        with self._lock:
            self._deciding = bool(self._queue)
            following = self._queue[0].asked if self._queue else None
        if following is not None:
            following.leads = True
            following.told.set()

    def _decide(self) -> None:
        with self._lock:
            group, self._queue = _apart(self._queue)
        try:
            answers = self._committer.commit_group([one.intent for one in group])
        except Exception as error:  # noqa: BLE001 - storage may have decided: each has to find out for itself
            found: list[State | Exception] = [error] * len(group)
        else:
            found = [self._found(answer) for answer in answers]
        for one, state in zip(group, found, strict=True):
            one.found = state
            one.asked.left -= 1
            if not one.asked.left and not one.asked.leads:
                one.asked.told.set()

    def _found(self, answer: Answer) -> "State | Exception":
        if answer.error is not None:
            return answer.error
        states = self._committer.states
        known = states.known
        if known.version == answer.version or answer.version is None or answer.replayed:
            return known
        try:
            return states.at(answer.version)
        except SeicheError:
            return known  # it is committed: whatever cannot be read now must not make it look as if it were not


def _apart(queue: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """Those for the next group, in the order in which they came, and the rest: one id is decided once at a time, and a
    table is not dropped or renamed by the root that another changes it by, whose answer shows it there.
    """
    group: list[_Waiting] = []
    later: list[_Waiting] = []
    seen: set[str] = set()
    tables: set[str] = set()
    for one in queue:
        edits = one.intent.edits
        moved = {table for table, edit in edits.items() if edit.found_key is not None and edit.renamed}
        if one.intent.id in seen or len(group) >= _MOST or not tables.isdisjoint(moved):
            later.append(one)
        else:
            group.append(one)
            tables.update(edits)
        seen.add(one.intent.id)
    return group, later
