"""Which operations can be committed over which: the matrix of the specification, and the errors it leads to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seiche.errors import AlreadyExists, IncompatibleConflict, RetryableConflict, SeicheError
from seiche.table.format.manifest import Manifest
from seiche.table.operations import OPERATIONS, Operation
from seiche.table.transaction import Transaction

__all__ = [
    "MATRIX",
    "Committed",
    "Dispute",
    "Rule",
    "always_compatible",
    "conflict",
    "forgotten",
    "rules",
    "taken",
    "vanished",
]


@dataclass(frozen=True, slots=True)
class Committed:
    """A version that others made, and the transaction that made it. Its manifest is loaded when somebody asks."""

    version: int
    transaction: Transaction
    load: Callable[[], Manifest]


@dataclass(frozen=True, slots=True)
class Dispute:
    """Where two operations meet: what the other one did, for the message, and what it is about, for programs."""

    what: str
    fragments: tuple[int, ...] = ()
    keys: tuple[str, ...] = ()
    # Set by a condition that decides itself whether a retry can help.
    outcome: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """Part of a cell: what follows if the condition holds. A cell without rules is `ok`."""

    outcome: str
    condition: str


# A row is the operation that is being committed, a column the one that was committed since it read the table. A cell is
# read from left to right: the first of its rules whose condition holds decides.
#
#   ok             both stand; the operation is applied to the newer version as it is
#   rebase(what)   both stand, after the operation was adapted to the other one: see `seiche.table.rebase`
#   retry          it must be run again; the result means the same
#   incompatible   running it again may mean something else
#   generations    incompatible if the other one merged our generation of a log shard or a newer one, retry if an older
#   exists         a Clone is the first version of a table, and this table has one
#
# A condition in parentheses names a function of `seiche.table.conditions`, which says what it means.
_TABLE = """
                  | Append          | Delete             | Overwrite
Append            | ok              | ok                 | incompatible
Delete            | ok              | rebase(rows)       | incompatible
Overwrite         | ok              | ok                 | retry
CreateIndex       | ok              | ok                 | incompatible
Rewrite           | ok              | retry(fragments)   | incompatible
Merge             | retry           | retry              | incompatible
Project           | retry(nulls)    | ok                 | incompatible
Restore           | ok              | ok                 | ok
ReserveFragments  | ok              | ok                 | incompatible
Clone             | exists          | exists             | exists
Update            | retry(inserted) | rebase(rows)       | incompatible
UpdateConfig      | ok              | ok                 | incompatible
DataReplacement   | ok              | incompatible(gone) | incompatible
UpdateMemWalState | incompatible    | incompatible       | incompatible
UpdateBases       | ok              | ok                 | incompatible(bases)

                  | CreateIndex                | Rewrite                       | Merge
Append            | ok                         | ok                            | retry(schema)
Delete            | ok                         | retry(fragments)              | retry(fragments)
Overwrite         | ok                         | ok                            | ok
CreateIndex       | rebase(indices)            | retry(index) rebase(moved)    | retry(log) retry(dropped) rebase(trim)
Rewrite           | retry(index) rebase(reuse) | retry(fragments) retry(reuse) | retry
Merge             | retry(log)                 | retry                         | retry
Project           | ok                         | ok                            | retry
Restore           | ok                         | ok                            | ok
ReserveFragments  | ok                         | ok                            | ok
Clone             | exists                     | exists                        | exists
Update            | generations                | retry(fragments)              | retry
UpdateConfig      | ok                         | ok                            | retry(metadata)
DataReplacement   | retry(indexed)             | retry(fragments)              | retry
UpdateMemWalState | generations                | ok                            | incompatible
UpdateBases       | ok                         | ok                            | ok

                  | Project                             | Restore                | ReserveFragments
Append            | retry(schema)                       | incompatible           | ok
Delete            | ok                                  | incompatible           | ok
Overwrite         | ok                                  | ok                     | ok
CreateIndex       | retry(dropped)                      | incompatible           | ok
Rewrite           | ok                                  | incompatible           | ok
Merge             | incompatible                        | incompatible           | ok
Project           | retry                               | incompatible           | ok
Restore           | ok                                  | ok                     | ok
ReserveFragments  | ok                                  | incompatible           | ok
Clone             | exists                              | exists                 | exists
Update            | retry(schema)                       | incompatible           | ok
UpdateConfig      | retry(dropped)                      | incompatible(metadata) | ok
DataReplacement   | incompatible(dropped) retry(schema) | incompatible           | ok
UpdateMemWalState | incompatible                        | incompatible           | ok
UpdateBases       | ok                                  | ok                     | ok

                  | Clone        | Update                                   | UpdateConfig
Append            | ok           | ok                                       | ok
Delete            | ok           | rebase(rows)                             | ok
Overwrite         | ok           | ok                                       | retry(keys)
CreateIndex       | ok           | rebase(trim) rebase(generations)         | ok
Rewrite           | ok           | retry(fragments)                         | ok
Merge             | ok           | retry                                    | retry(metadata)
Project           | ok           | retry(nulls)                             | rebase(metadata)
Restore           | ok           | ok                                       | ok
ReserveFragments  | ok           | ok                                       | ok
Clone             | exists       | exists                                   | exists
Update            | ok           | retry(inserted) generations rebase(rows) | ok
UpdateConfig      | ok           | ok                                       | incompatible(keys)
DataReplacement   | ok           | retry(fragments)                         | ok
UpdateMemWalState | incompatible | generations                              | ok
UpdateBases       | ok           | ok                                       | ok

                  | DataReplacement  | UpdateMemWalState                            | UpdateBases
Append            | ok               | incompatible                                 | ok
Delete            | retry(fragments) | incompatible                                 | ok
Overwrite         | ok               | retry                                        | retry(bases)
CreateIndex       | retry(indexed)   | incompatible(no_mem_wal) rebase(generations) | ok
Rewrite           | retry(fragments) | ok                                           | ok
Merge             | retry            | incompatible                                 | ok
Project           | retry(nulls)     | incompatible                                 | ok
Restore           | ok               | incompatible                                 | ok
ReserveFragments  | ok               | ok                                           | ok
Clone             | exists           | exists                                       | exists
Update            | retry(fragments) | generations                                  | ok
UpdateConfig      | ok               | ok                                           | ok
DataReplacement   | retry(cells)     | incompatible                                 | ok
UpdateMemWalState | incompatible     | generations                                  | ok
UpdateBases       | ok               | ok                                           | incompatible(bases)
"""


def _parsed(table: str) -> dict[tuple[type, type], tuple[Rule, ...]]:
    by_name: dict[str, type] = {operation.name: operation for operation in OPERATIONS}
    cells: dict[tuple[type, type], tuple[Rule, ...]] = {}
    columns: list[type] = []
    for line in filter(None, table.splitlines()):
        name, *words = (part.strip() for part in line.split("|"))
        if name:
            for column, cell in zip(columns, words, strict=True):
                cells[by_name[name], column] = tuple(_rule(word) for word in cell.split() if word != "ok")
        else:
            columns = [by_name[word] for word in words]
    return cells


def _rule(word: str) -> Rule:
    outcome, _, condition = word.rstrip(")").partition("(")
    return Rule("retry", "generations") if word == "generations" else Rule(outcome, condition)


MATRIX = _parsed(_TABLE)


def rules(ours: Operation, theirs: Operation) -> tuple[Rule, ...]:
    """The cell for committing `ours` over `theirs`. An operation that we do not know is one that we cannot judge."""
    return MATRIX.get((type(ours), type(theirs)), _UNKNOWN)


def always_compatible(ours: type[Operation], theirs: type[Operation]) -> bool:
    """Whether the cell is `ok`, whatever the two operations are about."""
    return MATRIX.get((ours, theirs), _UNKNOWN) == ()


_UNKNOWN = (Rule("retry", ""),)


def conflict(outcome: str, dispute: Dispute, transaction: Transaction, other: Committed, table: str) -> SeicheError:
    """The error that tells the whole story: who wanted what, who was first, and what to do."""
    outcome = dispute.outcome or outcome
    operation, winner = transaction.operation.name, other.transaction.operation.name
    details: dict[str, Any] = {
        "table": table,
        "operation": operation,
        "read_version": transaction.read_version,
        "version": other.version,
        "winner_operation": winner,
        "winner_transaction": other.transaction.uuid,
        "fragments": dispute.fragments,
        "keys": dispute.keys,
    }
    message = (
        f"{table}: {operation} read version {transaction.read_version}, but version {other.version}"
        f" ({winner}, txn {other.transaction.uuid}) {dispute.what}."
    )
    if outcome == "exists":
        remedy = "Nothing was written. A clone is the first version of a new table: clone to an address that is free."
        return AlreadyExists(message, remedy=remedy, **details)
    if outcome == "incompatible":
        look = f"Look at version {other.version} first: a retry may change other rows than were meant."
        return IncompatibleConflict(message, remedy=f"Nothing was written. {look}", **details)
    remedy = f"Nothing was written. Run the operation again on version {other.version} or a later one."
    return RetryableConflict(message, remedy=remedy, **details)


def forgotten(transaction: Transaction, table: str) -> RetryableConflict:
    """The version that was read is gone, so it cannot be told what others changed."""
    name, version = transaction.operation.name, transaction.read_version
    return RetryableConflict(
        f"{table}: {name} read version {version}, which is no longer kept to compare newer ones with.",
        table=table,
        operation=name,
        read_version=version,
    )


def vanished(fragment_id: int, transaction: Transaction, latest: int, table: str) -> RetryableConflict:
    """A fragment is gone though no commit was seen to remove it: a Merge may leave one out of its list."""
    name, version = transaction.operation.name, transaction.read_version
    return RetryableConflict(
        f"{table}: {name} read version {version} and changes fragment {fragment_id}, which version {latest} no longer"
        " has.",
        table=table,
        operation=name,
        read_version=version,
        version=latest,
        fragments=(fragment_id,),
    )


def taken(latest: int, table: str) -> AlreadyExists:
    """There is a table where a Clone should make one."""
    return AlreadyExists(
        f"{table}: there is a table, at version {latest}.",
        remedy="A clone is the first version of a new table: clone to an address that is free.",
        table=table,
        version=latest,
    )
