"""Doing again what may be done twice, until the storage says that it is done."""

from collections.abc import Callable
from typing import Final, TypeVar

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, SeicheError, Unavailable

__all__ = ["insist"]

T = TypeVar("T")

_PATIENCE: Final = Patience(attempts=6, timeout=30.0, first_delay=0.05, longest_delay=2.0)


def insist(act: Callable[[], T], runtime: Runtime) -> T:
    """The result of `act`, which must be something that once more does no harm.

    An unclear answer is not passed on: nothing here decides anything, so there is no outcome to ask for.
    """
    unanswered: SeicheError | None = None
    for _ in _PATIENCE.tries(runtime):
        try:
            return act()
        except (CommitUnknown, Unavailable) as error:
            unanswered = error
    # What helps, such as to free space, is what the storage says; to ask for an outcome is no help here.
    remedy = unanswered.remedy if isinstance(unanswered, Unavailable) else ""
    raise Unavailable(f"the storage does not do it: {unanswered.message if unanswered else ''}", remedy=remedy) from (
        unanswered
    )
