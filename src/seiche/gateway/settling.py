"""Committing so that the answer is sure: a client that hears "failed" may delete its files."""

import logging
from typing import TYPE_CHECKING

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, ConflictError, SeicheError, Unavailable
from seiche.gateway.grouping import Grouping

if TYPE_CHECKING:
    from seiche.lake.lake import Lake, Status
    from seiche.lake.transaction import Transaction

__all__ = ["commit_surely"]

log = logging.getLogger("seiche.gateway")

_ASKING = Patience(attempts=6, timeout=5.0, first_delay=0.025, longest_delay=0.2)


def commit_surely(lake: "Lake", transaction: "Transaction", runtime: Runtime, grouping: Grouping) -> int:
    """Commit, with whoever else does so at this moment, and return the version of the lake that did it.

    Raises anything but `CommitUnknown` only if it is certain that nothing was written, and never will be. Whatever goes
    wrong, storage is asked for the outcome; if that is open, it is decided against by a root of its own. If even that
    cannot be done: `CommitUnknown`.
    """
    try:
        return grouping.commit(transaction)
    except ConflictError:
        raise
    except Exception as error:
        log.warning("transaction %s is settled after %r", transaction.id, error)
        status = _settled(lake, transaction.id, runtime)
        if status is None:
            raise CommitUnknown(
                f"storage does not say what became of transaction {transaction.id}", transaction_id=transaction.id
            ) from error
        if status.outcome == "committed":
            return status.version or 0
        if isinstance(error, SeicheError) and not isinstance(error, CommitUnknown):
            raise
        raise Unavailable(
            f"transaction {transaction.id} was not committed, and is settled: {error}",
            remedy="Nothing was written. Try again.",
            transaction_id=transaction.id,
        ) from error


def _settled(lake: "Lake", transaction_id: str, runtime: Runtime) -> "Status | None":
    for _ in _ASKING.tries(runtime):
        try:
            return lake.settle(transaction_id)
        except SeicheError as error:
            log.warning("transaction %s cannot be settled yet: %s", transaction_id, error.message)
    return None
