"""Runs of appends: what one writer has checked, said so that the next one need not read it all again.

In a crowd of appenders every commit has to be checked by everybody else. But the writer of the newest version has
looked at all versions before it. If it found nothing but appends, the properties of its transaction say since which
version. The next writer reads that transaction anyway, because it builds upon it, and has so checked all of them at
once. A lone writer says nothing.
"""

from dataclasses import dataclass, replace

from seiche.table.format import transaction_pb2 as pb
from seiche.table.operations import Append, Operation
from seiche.table.transaction import Transaction

__all__ = ["PROPERTY", "Run", "attested", "following", "with_run", "without_run"]

PROPERTY = "seiche.appends_since"

# After so many versions without anybody else's, a writer is taken to be alone.
_ALONE = 64


@dataclass(frozen=True, slots=True)
class Run:
    """Every version from `first` to `last` is an append, and nothing in it is unknown here."""

    first: int
    last: int
    # The last of them that somebody else made.
    others: int


def attested(message: pb.Transaction, version: int) -> int:
    """The version since which all are appends, as the transaction that made `version` says; 0 if it does not say.

    It says which version it made, too: the same transaction may have been copied and have made another version, here or
    elsewhere, and says nothing about what came before that one.
    """
    if PROPERTY not in message.properties:
        return 0
    first, _, made = message.properties[PROPERTY].partition("-")
    if not (first.isdecimal() and made.isdecimal() and len(first) <= len(made) < 20 and int(made) == version):
        return 0
    return int(first) if 0 < int(first) <= version else 0


def following(run: Run | None, version: int, message: pb.Transaction, kind: type[Operation] | None) -> Run | None:
    """What is known after somebody else's `version`, an operation of this `kind`, if `run` was known before it."""
    if kind is not Append:
        return None
    first = attested(message, version) or version
    if run is not None and run.last == version - 1:
        first = min(first, run.first)
    return Run(first, version, version)


def with_run(transaction: Transaction, version: int, run: Run | None) -> tuple[Transaction, Run | None]:
    """The transaction that makes `version` of it, which says what is known to be before it, and what is known then."""
    if run is None or run.last != version - 1 or version - run.others > _ALONE:
        return transaction, None
    if not isinstance(transaction.operation, Append):
        return transaction, None
    properties = {**transaction.properties, PROPERTY: f"{run.first}-{version}"}
    return replace(transaction, properties=properties), Run(run.first, version, run.others)


def without_run(transaction: Transaction) -> Transaction:
    """The transaction as it is to be committed: what it may have said elsewhere does not hold here."""
    if PROPERTY not in transaction.properties:
        return transaction
    kept = {key: value for key, value in transaction.properties.items() if key != PROPERTY}
    return replace(transaction, properties=kept)
