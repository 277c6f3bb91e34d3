"""A transaction that waits for a decision, and what its client is told."""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from seiche.errors import SeicheError
from seiche.service.commit.outcomes import Touched
from seiche.service.commit.planning import Plan
from seiche.service.state.records import ApplyError, Record

__all__ = ["Decided", "Ticket", "into"]

log = logging.getLogger("seiche.service")


@dataclass(frozen=True, slots=True)
class Decided:
    """A transaction as it is after its commit was tried, and the tables that took part.

    `failure` is what kept it from being applied, as it would be raised without a server.
    """

    record: Record
    tables: tuple[Touched, ...] = ()
    errors: dict[str, ApplyError] = field(default_factory=dict)
    failure: SeicheError | None = None


@dataclass(slots=True)
class Ticket:
    """A transaction that waits for a decision: one that was prepared before, or one that is executed in one go.

    The latter brings its plan, and the record that it begins with.
    """

    id: str
    done: Callable[[Decided | SeicheError], None]
    record: Record | None = None
    plan: Plan | None = None
    # What its id follows from, if the client gave a key.
    key: str = ""
    # Whether its client does the same work anew under the same id, if it comes to nothing now.
    keyed: bool = False
    told: bool = False

    def tell(self, answer: Decided | SeicheError) -> None:
        """Give the answer, unless there was one. One who does not listen any more must not stop the others."""
        if self.told:
            return
        self.told = True
        try:
            self.done(answer)
        except Exception:
            log.exception("an answer could not be delivered")


def into(future: "Future[Decided]") -> Callable[[Decided | SeicheError], None]:
    """What to call with an answer so that whoever waits for the future gets it."""

    def done(answer: Decided | SeicheError) -> None:
        if isinstance(answer, SeicheError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    return done
