"""What became of a commit, in the words of the protocol."""

from collections.abc import Sequence
from dataclasses import dataclass

from seiche.errors import AlreadyExists, ConflictError, IncompatibleConflict, InvalidInput, NotFound, SeicheError
from seiche.lake.state import State as LakeState
from seiche.service.changes import Wanted
from seiche.service.failures import sayable
from seiche.service.state.records import ApplyError
from seiche.service.states import State

__all__ = ["Touched", "Verdict", "verdict"]


@dataclass(frozen=True, slots=True)
class Touched:
    """A table that took part in a commit, as the commit left it."""

    table: str
    table_version: int
    pointer_version: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state that a failed commit leads to, and why, by target; `""` stands for all of them."""

    state: State
    errors: dict[str, ApplyError]


def verdict(error: SeicheError, wanted: Sequence[Wanted], lake: LakeState, now: int) -> Verdict:
    """A conflict is for good: the same intents cannot succeed. Everything else may work later, but for files that the
    disk did not take: they must be written anew.
    """
    message = sayable(error.message)
    if isinstance(error, ConflictError) and error.details.get("reason") != "outrun":
        precise = _culprits(message, wanted, lake, now)
        if precise:
            return Verdict(State.APPLY_FAILED_CONFLICT, precise)
        code = "INCOMPATIBLE_CONFLICT" if isinstance(error, IncompatibleConflict) else "RETRYABLE_CONFLICT"
        return Verdict(State.APPLY_FAILED_CONFLICT, {"": ApplyError(code, message, now)})
    if isinstance(error, AlreadyExists):
        owner = _owner(error, lake)
        return Verdict(
            State.APPLY_FAILED_CONFLICT,
            {"": ApplyError("NAME_POINTER_CONFLICT", message, now, conflict_owner=owner)},
        )
    if isinstance(error, InvalidInput | NotFound) or error.details.get("reason") == "lost":
        return Verdict(State.APPLY_FAILED_CONFLICT, {"": ApplyError("TABLE_INTENT_INVALID_PAYLOAD", message, now)})
    code = str(error.details.get("code") or error.kind.upper().replace(".", "_"))
    return Verdict(State.APPLY_FAILED_RETRYABLE, {"": ApplyError(code, message, now)})


def _culprits(message: str, wanted: Sequence[Wanted], lake: LakeState, now: int) -> dict[str, ApplyError]:
    """The targets that are not at the version that was expected."""
    found = {}
    for one in wanted:
        if one.expected_version is None:
            continue
        row = lake.table_by_id(one.table)
        actual = 0 if row is None else row.pointer_version
        if actual != one.expected_version:
            found[one.target] = ApplyError("EXPECTED_VERSION_MISMATCH", message, now, one.expected_version, actual)
    return found


def _owner(error: SeicheError, lake: LakeState) -> str | None:
    name = error.details.get("name")
    row = lake.relation(tuple(str(name).split("."))) if name else None
    return None if row is None else row.id
