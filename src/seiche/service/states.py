"""The state machine of a transaction, as one table: what each call does in each state.

A cell says what the call does; what then comes of it is the business of the one who does it. States that are final are
answered as such before anybody looks at the clock: a transaction that was applied never becomes "expired".
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Final

__all__ = ["FINAL", "TABLE", "Action", "Call", "State", "action"]


class State(IntEnum):
    """The states, by the numbers that they have on the wire."""

    OPEN = 1
    PREPARED = 2
    ABORTED = 4
    APPLY_FAILED_CONFLICT = 5
    APPLIED = 7
    APPLY_FAILED_RETRYABLE = 8

    @property
    def wire(self) -> str:
        """The name on the wire."""
        return f"TS_{self.name}"


FINAL: Final = frozenset({State.ABORTED, State.APPLY_FAILED_CONFLICT, State.APPLIED})


class Call(Enum):
    """What can be asked of a transaction that exists."""

    PREPARE = "Prepare"
    COMMIT = "Commit"
    ABORT = "Abort"
    GET = "Get"
    RESERVE = "Reserve"


class Action(Enum):
    """What is done about it. All that is not here is refused, with a reason that a machine can read."""

    # Answered as it stands.
    SAME = "same"
    # Intents are written: PREPARED, or an error and nothing changes.
    PREPARE = "prepare"
    # Prepared again: answered as it stands if the request is the same, else refused.
    COMPARE = "compare"
    # Decided by a root: APPLIED, APPLY_FAILED_CONFLICT or APPLY_FAILED_RETRYABLE.
    APPLY = "apply"
    # ABORTED, by a root if a commit may have begun; unless it is found to be applied.
    ABORT = "abort"
    # As abort, and then the call is refused: it came too late.
    EXPIRE = "expire"
    # An id for a table that is to be made.
    RESERVE = "reserve"
    # The id that was reserved before, or refused.
    RESERVED = "reserved"
    # Refused: the state allows no such call.
    NOT_OPEN = "not-open"
    NOT_PREPARED = "not-prepared"
    COMMITTED = "committed"


def _table(text: str) -> Mapping[tuple[State, bool, Call], Action]:
    heads, *lines = text.strip().splitlines()
    calls = [Call(word) for word in heads.split()]
    cells: dict[tuple[State, bool, Call], Action] = {}
    for line in lines:
        name, *words = line.split()
        state, expired = State[name.removesuffix("+")], name.endswith("+")
        for call, word in zip(calls, words, strict=True):
            cells[state, expired, call] = Action(word)
    return cells


# A state with "+" is one whose time is up.
TABLE: Final = _table(
    """
                         Prepare   Commit        Abort      Get   Reserve
OPEN                     prepare   not-prepared  abort      same  reserve
OPEN+                    expire    expire        abort      same  reserve
PREPARED                 compare   apply         abort      same  reserved
PREPARED+                expire    expire        abort      same  reserved
APPLY_FAILED_RETRYABLE   not-open  apply         abort      same  reserved
APPLY_FAILED_RETRYABLE+  expire    expire        abort      same  reserved
APPLIED                  not-open  same          committed  same  reserved
APPLIED+                 not-open  same          committed  same  reserved
APPLY_FAILED_CONFLICT    not-open  same          committed  same  reserved
APPLY_FAILED_CONFLICT+   not-open  same          committed  same  reserved
ABORTED                  not-open  not-prepared  same       same  reserved
ABORTED+                 not-open  not-prepared  same       same  reserved
"""
)


def action(state: State, call: Call, *, expired: bool) -> Action:
    """What `call` does to a transaction in this state."""
    return TABLE[state, expired, call]
