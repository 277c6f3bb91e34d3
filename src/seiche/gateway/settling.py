"""Committing so that the answer is sure: a client that hears "failed" may delete its files."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, ConflictError, SeicheError, Unavailable
from seiche.gateway.grouping import Grouping

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.state import State
    from seiche.lake.transacting import Status
    from seiche.lake.transaction import Transaction

__all__ = ["commit_all_surely", "commit_surely"]

log = logging.getLogger("seiche.gateway")

_ASKING = Patience(attempts=6, timeout=5.0, first_delay=0.025, longest_delay=0.2)


def commit_surely(lake: "Lake", transaction: "Transaction", runtime: Runtime, grouping: Grouping) -> "State":
    """Commit, with whoever else does so at this moment, and return the version of the lake that has it.

    Raises anything but `CommitUnknown` only if it is certain that nothing was written, and never will be. Whatever goes
    wrong, storage is asked for the outcome; if that is open, it is decided against by a root of its own. If even that
    cannot be done: `CommitUnknown`.
    """
    (found,) = commit_all_surely(lake, [transaction], runtime, grouping)
    if isinstance(found, Exception):
        raise found
    return found


def commit_all_surely(
    lake: "Lake", transactions: "Sequence[Transaction]", runtime: Runtime, grouping: Grouping
) -> "list[State | Exception]":
    """The same for several that have nothing to do with each other; the error of each in its place."""
    try:
        found = grouping.commit(transactions)
    except Exception as error:  # noqa: BLE001 - whatever it was, each of them may have been decided
        found = [error] * len(transactions)
    for number, ended in enumerate(found):
        if isinstance(ended, Exception) and not isinstance(ended, ConflictError):
            found[number] = _settle(lake, transactions[number].id, ended, runtime)
    return found


def _settle(lake: "Lake", transaction_id: str, error: Exception, runtime: Runtime) -> "State | Exception":
    """What has become of a transaction whose commit ended with this error."""
    log.warning("transaction %s is settled after %r", transaction_id, error)
    status = _settled(lake, transaction_id, runtime)
    failure: Exception
    if status is None:
        failure = CommitUnknown(
            f"storage does not say what became of transaction {transaction_id}", transaction_id=transaction_id
        )
    elif status.outcome == "committed":
        return _version(lake, status.version or 0)
    elif isinstance(error, SeicheError) and not isinstance(error, CommitUnknown):
        return error
    else:
        failure = Unavailable(
            f"transaction {transaction_id} was not committed, and is settled: {error}",
            remedy="Nothing was written. Try again.",
            transaction_id=transaction_id,
        )
    failure.__cause__ = error
    return failure


def _version(lake: "Lake", version: int) -> "State":
    """The version that has it; if it cannot be read now, the newest that is known here."""
    try:
        return lake.states.at(version)
    except SeicheError:
        return lake.states.known


def _settled(lake: "Lake", transaction_id: str, runtime: Runtime) -> "Status | None":
    for _ in _ASKING.tries(runtime):
        try:
            return lake.settle(transaction_id)
        except SeicheError as error:
            log.warning("transaction %s cannot be settled yet: %s", transaction_id, error.message)
    return None
