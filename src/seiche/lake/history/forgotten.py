"""How transactions ended whose versions have expired."""

from typing import Final
from uuid import UUID

from seiche.errors import NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.commit.decided import recorded, root_if_any
from seiche.lake.objects.rows import TransactionRow
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.root import at_micros
from seiche.lake.tree.timeline import version_at

__all__ = ["forgotten_outcome"]

# The version of ids that say when they were made.
_ORDERED: Final = 7
# By how much the clock may have been wrong that made an id: a day.
_SLACK_MICROS: Final = 24 * 3600 * 1_000_000


def forgotten_outcome(states: States, transaction_id: str) -> TransactionRow | None:
    """How a transaction ended that the tree has forgotten; `None` if it did not end in a version that is old enough for
    that, or if its id does not say when it began.

    The tree forgets a transaction with its version, but what is left of the root names it for ever. Without a look
    there, one that was committed long ago would pass for one that never was, and be done again. Roots are read from the
    time on when it began; who asks for a young one pays one or two requests.
    """
    state, unique = states.latest(), UUID(transaction_id)
    spans = GivenUp.of(state).versions.spans if unique.version == _ORDERED else ()
    if not spans:
        return None
    end = _first_known(states, state, spans[-1][1])
    began = max((unique.int >> 80) * 1000 - _SLACK_MICROS, 0)
    return recorded(transaction_id, range(_first_made(states, state, began, end), end), states.store)


def _first_known(states: States, state: State, version: int) -> int:
    """The first version from this one on whose transactions the tree still knows: those of versions that were kept
    while others expired around them, for a tag for instance, are forgotten, too.
    """
    while version < state.version and (root := root_if_any(states.store, version)) is not None:
        if all(state.outcome(one.id) is not None for one in root.transactions):
            break
        version += 1
    return version


def _first_made(states: States, state: State, began: int, end: int) -> int:
    """The first version that a transaction which began then can have made; `end` if that is not below it."""
    after = root_if_any(states.store, end)
    if after is None or (after.prev_eff_micros or 0) < began:
        return end
    try:
        return version_at(states.store, state.root, at_micros(began), runtime=states.runtime)
    except NotFound:
        return 0
