"""Commits of many requests at once: those that wait are decided together, by one root, each with its own answer."""

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from seiche.errors import Unavailable
from seiche.lake.commit import Answer

if TYPE_CHECKING:
    from seiche.lake.commit import Committer
    from seiche.lake.intent import Intent
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["Grouping"]

_MOST = 256


@dataclass(slots=True)
class _Waiting:
    """One who waits to be decided; `failure` is what happened to the whole group."""

    intent: "Intent"
    answer: Answer | None = None
    failure: Exception | None = None

    @property
    def decided(self) -> bool:
        return self.answer is not None or self.failure is not None

    def version(self) -> int:
        """The version that decided it; raises what stood in the way."""
        if self.failure is not None:
            raise self.failure
        if self.answer is None:
            raise Unavailable(f"transaction {self.intent.id} was not decided")
        if self.answer.error is not None:
            raise self.answer.error
        return self.answer.version or 0


class Grouping:
    """One at a time decides, and takes along all who came meanwhile. When nobody else is there, nobody waits."""

    def __init__(self, lake: "Lake") -> None:
        self._committer: Committer = lake._committer
        self._turn = Lock()
        self._lock = Lock()
        self._queue: list[_Waiting] = []

    def commit(self, transaction: "Transaction") -> int:
        """As `transaction.commit()`; the transaction must not be used afterwards."""
        transaction.check_running()
        intent = transaction.intent()
        if intent is None:
            return transaction.base
        mine = _Waiting(intent)
        with self._lock:
            self._queue.append(mine)
        with self._turn:
            while not mine.decided:
                self._decide()
        return mine.version()

    def _decide(self) -> None:
        with self._lock:
            group, self._queue = _apart(self._queue)
        try:
            answers = self._committer.commit_group([one.intent for one in group])
        except Exception as error:  # noqa: BLE001 - storage may have decided: each has to find out for itself
            for one in group:
                one.failure = error
            return
        for one, answer in zip(group, answers, strict=True):
            one.answer = answer


def _apart(queue: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
    """Those for the next group, in the order in which they came, and the rest: one id is decided once at a time."""
    group: list[_Waiting] = []
    later: list[_Waiting] = []
    seen: set[str] = set()
    for one in queue:
        (later if one.intent.id in seen or len(group) >= _MOST else group).append(one)
        seen.add(one.intent.id)
    return group, later
