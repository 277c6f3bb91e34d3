"""Group commit: transactions that wait are decided together, by one root, each with an answer of its own."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Final

from seiche.errors import CommitUnknown, SeicheError
from seiche.service.commit.deciding import Decider
from seiche.service.commit.tickets import Ticket
from seiche.service.refusals import overloaded, stopping

__all__ = ["GroupCommitter", "Limits"]

log = logging.getLogger("seiche.service")

# However many there are, nobody waits longer than this for others to join.
_LONGEST_WINDOW: Final = 0.01


@dataclass(frozen=True, slots=True)
class Limits:
    """How many may wait, and how many are decided at once."""

    waiting: int = 4096
    group: int = 512


DEFAULT: Final = Limits()


@dataclass(slots=True)
class Figures:
    """What was done so far."""

    groups: int = 0
    decided: int = 0
    refused: int = 0
    longest: float = 0.0
    sizes: deque[int] = field(default_factory=lambda: deque(maxlen=1000))


class GroupCommitter:
    """A queue in front of one lake, and the one thread that empties it, in the order of arrival.

    When nobody else is there, nobody waits. Under load the next group is given a moment to fill up, until about as many
    are there as there seem to be clients: otherwise they fall into two halves that take turns, at twice the cost.
    """

    def __init__(self, decider: Decider, limits: Limits = DEFAULT, name: str = "") -> None:
        self._decider = decider
        self._limits = limits
        self._clock = decider.runtime.clock
        self._waiting: deque[Ticket] = deque()
        self._changed = Condition()
        self._closing = False
        # How many must wait before the thread looks at them; fewer are left to gather.
        self._enough = 1
        self._current: Sequence[Ticket] = ()
        # The most that were there at once since the last group was taken: waiting, or about to be answered.
        self._crowd = 0
        self.figures = Figures()
        self._thread = Thread(target=self._work, name=f"seiche-commit-{name}", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, ticket: Ticket) -> None:
        """Take a transaction in; its answer comes later. `Unavailable` if too many wait, or the server is stopping."""
        with self._changed:
            if self._closing:
                raise stopping()
            if len(self._waiting) >= self._limits.waiting:
                self.figures.refused += 1
                raise overloaded(len(self._waiting))
            self._waiting.append(ticket)
            unanswered = 0 if not self._current or self._current[-1].told else len(self._current)
            self._crowd = max(self._crowd, len(self._waiting) + unanswered)
            if len(self._waiting) >= self._enough:
                self._changed.notify()

    def close(self) -> None:
        """Decide what waits, take in no more, and return."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        took = 0.0
        while group := self._next(took):
            began = self._clock.monotonic()
            self._decide(group)
            size, took = len(group), self._clock.monotonic() - began
            self.figures.groups += 1
            self.figures.decided += size
            self.figures.sizes.append(size)
            self.figures.longest = max(self.figures.longest, took)

    def _next(self, took: float) -> list[Ticket]:
        """Those to be decided next; none when the server stops."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            # Those who were just answered are likely to come back.
            if self._crowd > 1 and not self._closing:
                self._enough = min(self._crowd, self._limits.group)
                self._changed.wait_for(self._gathered, min(_LONGEST_WINDOW, took))
                self._enough = 1
            group: list[Ticket] = []
            later: list[Ticket] = []
            seen: set[str] = set()
            while self._waiting and len(group) < self._limits.group:
                ticket = self._waiting.popleft()
                # The same one asked for twice: the second is told what became of the first.
                (later if ticket.id in seen else group).append(ticket)
                seen.add(ticket.id)
            self._waiting.extendleft(reversed(later))
            self._current, self._crowd = group, len(group) + len(self._waiting)
            return group

    def _gathered(self) -> bool:
        return self._closing or len(self._waiting) >= self._enough

    def _decide(self, group: Sequence[Ticket]) -> None:
        failure: SeicheError
        try:
            self._decider.decide(group)
            return
        except SeicheError as error:
            failure = error
        except Exception as error:  # nobody may wait for ever because of a defect
            log.exception("a group could not be decided")
            # The root may stand: it is the notes behind it that nobody thought of.
            failure = CommitUnknown(f"the server failed: {type(error).__name__}")
        for ticket in group:
            ticket.tell(failure)
