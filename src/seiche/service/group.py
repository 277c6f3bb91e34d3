"""Group commit: transactions that wait are decided together, by one root, each with an answer of its own."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Condition, Thread
from typing import Final

from seiche.errors import SeicheError, Unavailable
from seiche.service.deciding import Decided, Decider, Ticket
from seiche.service.refusals import overloaded

__all__ = ["GroupCommitter", "Limits"]

log = logging.getLogger("seiche.service")

# However many there are, nobody waits longer than this for others to join.
_LONGEST_WINDOW: Final = 0.004


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
                raise Unavailable("the server is stopping", remedy="Ask another one.", reason="stopping")
            if len(self._waiting) >= self._limits.waiting:
                self.figures.refused += 1
                raise overloaded(len(self._waiting))
            self._waiting.append(ticket)
            self._changed.notify()

    def close(self) -> None:
        """Decide what waits, take in no more, and return."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        expected, took = 1, 0.0
        while group := self._next(expected, took):
            began = self._clock.monotonic()
            self._decide(group)
            size, took = len(group), self._clock.monotonic() - began
            # Those who were just answered are likely to come back, and others came meanwhile.
            expected = size + len(self._waiting)
            self.figures.groups += 1
            self.figures.decided += size
            self.figures.sizes.append(size)
            self.figures.longest = max(self.figures.longest, took)

    def _next(self, expected: int, took: float) -> list[Ticket]:
        """Those to be decided next; none when the server stops."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            if expected > 1 and not self._closing:
                until = self._clock.monotonic() + min(_LONGEST_WINDOW, took)
                while len(self._waiting) < expected and (left := until - self._clock.monotonic()) > 0:
                    self._changed.wait(left)
            group: list[Ticket] = []
            later: list[Ticket] = []
            seen: set[str] = set()
            while self._waiting and len(group) < self._limits.group:
                ticket = self._waiting.popleft()
                # The same one asked for twice: the second is told what became of the first.
                (later if ticket.id in seen else group).append(ticket)
                seen.add(ticket.id)
            self._waiting.extendleft(reversed(later))
            return group

    def _decide(self, group: Sequence[Ticket]) -> None:
        told: set[int] = set()
        noted = [replace(ticket, done=partial(_told, ticket, told)) for ticket in group]
        failure: SeicheError
        try:
            self._decider.decide(noted)
            return
        except SeicheError as error:
            failure = error
        except Exception as error:  # nobody may wait for ever because of a defect
            log.exception("a group could not be decided")
            failure = Unavailable(f"the server failed: {type(error).__name__}", remedy="Ask for the outcome later.")
        for ticket in group:
            if id(ticket) not in told:
                ticket.tell(failure)


def _told(ticket: Ticket, told: set[int], answer: Decided | SeicheError) -> None:
    told.add(id(ticket))
    ticket.done(answer)
