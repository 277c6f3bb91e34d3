"""What the service refuses, each with a reason that a machine can read and that never changes."""

from typing import TypeVar

from seiche.errors import IncompatibleConflict, InvalidInput, RetryableConflict, SeicheError, Unavailable
from seiche.service.states import State

__all__ = [
    "committed_already",
    "expired",
    "key_mismatch",
    "key_pending",
    "locked",
    "not_found",
    "not_open",
    "not_prepared",
    "other_lake",
    "overloaded",
    "refused",
    "stopping",
    "version_mismatch",
]

Kind = TypeVar("Kind", bound=SeicheError)


def refused(message: str, reason: str, remedy: str = "", **details: object) -> InvalidInput:
    """A request that cannot be right as it stands; nothing was written for it."""
    return InvalidInput(message, remedy=remedy or "Nothing was written. Correct the request.", reason=reason, **details)


def not_found(tx: str) -> InvalidInput:
    return refused(
        f"transaction not found: {tx}",
        "transaction.not-found",
        "Begin a transaction and use its id.",
        transaction_id=tx,
    )


def other_lake(uri: str) -> InvalidInput:
    return refused(
        f"the server has another lake than it had when this client connected: {uri}",
        "lake.other",
        "Nothing was written. Connect again if that is the one you mean, or ask a server that has yours.",
    )


def expired(tx: str) -> InvalidInput:
    return refused(
        f"transaction expired: {tx}",
        "transaction.expired",
        "Nothing was written. Begin a new one, with a longer time to live if need be.",
        transaction_id=tx,
    )


def not_open(tx: str, state: State) -> InvalidInput:
    return refused(f"transaction not open: {state.wire}", "transaction.not-open", transaction_id=tx, state=state.wire)


def not_prepared(tx: str, state: State) -> InvalidInput:
    return refused(
        f"transaction not prepared: {state.wire}", "transaction.not-prepared", transaction_id=tx, state=state.wire
    )


def committed_already(tx: str, state: State) -> InvalidInput:
    return refused(
        f"transaction already committed: {state.wire}",
        "transaction.already-committed",
        "What is decided cannot be aborted.",
        transaction_id=tx,
        state=state.wire,
    )


def locked(target: str, owner: str, since: int) -> RetryableConflict:
    return RetryableConflict(
        f"target already locked by transaction: {owner}",
        remedy="Nothing was written. Try again when that transaction is decided, or has run out of time.",
        reason="target.locked",
        target=target,
        owner=owner,
        since=since,
    )


def version_mismatch(target: str, expected: int, actual: int) -> RetryableConflict:
    return RetryableConflict(
        f"{target} is at pointer version {actual}, not {expected}",
        remedy="Nothing was written. Read the table again and decide anew.",
        reason="precondition.version",
        target=target,
        expected=expected,
        actual=actual,
    )


def key_mismatch(operation: str, key: str) -> IncompatibleConflict:
    remedy = "Nothing was written. Use a key for one request only."
    return _about_key(
        IncompatibleConflict, operation, key, "was used for another request", "idempotency.mismatch", remedy
    )


def key_pending(operation: str, key: str) -> Unavailable:
    what = "is that of a request that is being worked on"
    return _about_key(Unavailable, operation, key, what, "idempotency.pending", "Ask again in a moment.")


def _about_key(kind: type[Kind], operation: str, key: str, what: str, reason: str, remedy: str) -> Kind:
    message = f"the idempotency key {key!r} of {operation} {what}"
    return kind(message, remedy=remedy, reason=reason, op=operation, key=key)


def overloaded(waiting: int) -> Unavailable:
    return Unavailable(
        f"{waiting} transactions wait to be committed, and no more are taken",
        remedy="Nothing was decided. Try again later, more slowly.",
        reason="queue.full",
    )


def stopping() -> Unavailable:
    return Unavailable("the server is stopping", remedy="Ask another one.", reason="stopping")
