"""Both commit routes: any number of changes to tables, decided together, applied at most once for each intention.

A request is known by its key: the header `Idempotency-Key`, or a hash of what it asks for. The key determines the id of
the transaction, and the lake applies an id once. So a client that lost the answer and asks again gets the first answer.
A hash is a weaker sign: the same request can also be meant again, later. It counts as a repetition only while what it
wrote is still there, whatever the tables are called by then.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyiceberg.table.update import AssertCreate, AssertRefSnapshotId

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    ConflictError,
    InvalidInput,
    NotFound,
    RetryableConflict,
)
from seiche.gateway.grouping import Grouping
from seiche.gateway.iceberg_rest.keys import HASH, Times, check_applied, check_same_request, version_of
from seiche.gateway.iceberg_rest.repetitions import is_there, showing, was_there_before
from seiche.gateway.iceberg_rest.requests import TableChange, request_hash
from seiche.gateway.settling import commit_all_surely, commit_surely
from seiche.lake.commit.reads import Aspect
from seiche.lake.iceberg.edit import IcebergEdit
from seiche.lake.iceberg.updates import unmet
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import text
from seiche.lake.state import State

if TYPE_CHECKING:
    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["HASH", "Commits", "Committed", "Request"]

_PLANNING = Patience(attempts=8, timeout=30.0, first_delay=0.01, longest_delay=0.5)


class Committed(NamedTuple):
    """A version of the lake that has what was asked for, and the transaction that did it: `lake.status` knows it."""

    state: State
    transaction: str


class Request(NamedTuple):
    """What is asked for, and the client's own key, if it sent one."""

    changes: Sequence[TableChange]
    key: str | None


class Commits:
    """Commits to the Iceberg tables of one lake."""

    def __init__(self, lake: "Lake", catalog: str, grouping: Grouping, runtime: Runtime) -> None:
        self._lake = lake
        self._catalog = catalog
        self._grouping = grouping
        self._runtime = runtime
        self._times = Times()

    def commit(self, changes: Sequence[TableChange], key: str | None) -> Committed:
        """Apply all changes or none, and return the version of the lake that has them, and by which transaction.

        `key` is the client's own, if it sent one. Raises `RetryableConflict` if a requirement does not hold, `NotFound`
        for a table that does not exist, `CommitUnknown` if it cannot be found out whether it was applied.
        """
        conflict: ConflictError | None = None
        # Again if others were faster with something else: a requirement that fails ends it.
        for _ in _PLANNING.tries(self._runtime):
            begun = self._begun(Request(changes, key), self._lake.state())
            if isinstance(begun, Committed):
                return begun
            try:
                state = commit_surely(self._lake, begun, self._runtime, self._grouping)
            except RetryableConflict as error:
                conflict = error
            else:
                if key is not None:
                    check_applied(self._lake, state, begun.id, request_hash(list(changes)))
                return Committed(state, begun.id)
        raise conflict or RetryableConflict("other writers were faster each time")

    def commit_each(self, requests: Sequence[Request]) -> list[Committed | Exception | None]:
        """Try each of several independent requests once, and decide together those that can be.

        The result of a request is `None` if it met a conflict with others: it has to be tried again.
        """
        found: list[Committed | Exception | None] = [None] * len(requests)
        planned: dict[int, Transaction] = {}
        state = self._lake.state()
        for number, request in enumerate(requests):
            try:
                begun = self._begun(request, state)
            except Exception as error:  # noqa: BLE001 - the answer to this one, and no concern of the others
                found[number] = error
            else:
                if isinstance(begun, Committed):
                    found[number] = begun
                else:
                    planned[number] = begun
        ended = commit_all_surely(self._lake, list(planned.values()), self._runtime, self._grouping)
        for (number, transaction), made in zip(planned.items(), ended, strict=True):
            if not isinstance(made, Exception):
                found[number] = self._applied(requests[number], made, transaction.id)
            elif not isinstance(made, RetryableConflict):
                found[number] = made
        return found

    def plan(self, transaction: "Transaction", changes: Sequence[TableChange]) -> None:
        """Make the changes part of a transaction; requirements are checked against what it sees."""
        for change in changes:
            check_format(transaction, change)
            if change.updates:
                self._plan_one(transaction, change)
            else:
                self._only_require(transaction, change)

    def _begun(self, request: Request, state: State) -> "Transaction | Committed":
        """The transaction that is to apply the request, planned on `state`; or the answer, if it has been applied
        before.
        """
        wanted = request_hash(list(request.changes))
        base = request.key or f"req:{self._catalog}:{wanted}"
        last: tuple[str, int] | None = None
        for name in self._times.attempts(base, partial(self._is_decided, state)):
            transaction = self._lake.transaction_on(state, name, {HASH: wanted})
            decided = state.outcome(transaction.id)
            if decided is None:
                break
            if decided.outcome == "committed":
                last = transaction.id, decided.version
                if request.key is not None:
                    check_same_request(self._lake, *last, wanted)
                    break
        # Only the last time counts: before it was applied then, what came of the earlier ones was found to be gone. To
        # look at each of them again would read as many versions of the past as there were.
        if last is not None:
            then = version_of(self._lake, last[1])
            if request.key is not None or (then is not None and is_there(request.changes, then, state)):
                return Committed(showing([one.name for one in request.changes], then, state), last[0])
        if was_there_before(request.changes, state):
            return Committed(state, transaction.id)
        self.plan(transaction, request.changes)
        if request.key is None and not _changes_anything(transaction):
            # As other catalogs have it. A key is another matter: once answered, its request is done for ever.
            return Committed(state, transaction.id)
        self._stay(transaction, request.changes)
        return transaction

    def _is_decided(self, state: State, key: str) -> bool:
        return state.outcome(self._lake.transaction_on(state, key, {}).id) is not None

    def _applied(self, request: Request, state: State, transaction: str) -> Committed | Exception:
        try:
            if request.key is not None:
                check_applied(self._lake, state, transaction, request_hash(list(request.changes)))
        except Exception as error:  # noqa: BLE001 - the answer to this one, and no concern of the others
            return error
        return Committed(state, transaction)

    def _plan_one(self, transaction: "Transaction", change: TableChange) -> None:
        # Who says which snapshot a branch must have wants to be told if it has another, not to be put behind it.
        exact = any(isinstance(one, AssertRefSnapshotId) for one in change.requirements)
        try:
            transaction.commit_iceberg(change.name, change.requirements, change.updates, exclusive=exact)
        except AlreadyExists as error:
            if "location" in error.details:  # the name is free, and will be, however often a client tries again
                raise
            raise RetryableConflict(
                f"Requirement failed: {text(change.name)} exists already", table=text(change.name)
            ) from error

    @staticmethod
    def _only_require(transaction: "Transaction", change: TableChange) -> None:
        """A table that is not changed but must be as it is: noticed also if others change it until the commit."""
        key = table_key(change.name)
        transaction.reads.key(transaction.state, key, Aspect.WHOLE, structural=True)
        if any(isinstance(one, AssertCreate) for one in change.requirements):
            if transaction.state.relation(change.name) is not None:
                raise RetryableConflict(f"Requirement failed: {text(change.name)} exists", table=text(change.name))
            return
        why = unmet(change.requirements, transaction.iceberg(change.name).metadata)
        if why:
            raise RetryableConflict(f"Requirement failed: {text(change.name)}: {why}", table=text(change.name))

    @staticmethod
    def _stay(transaction: "Transaction", changes: Sequence[TableChange]) -> None:
        """Let the commit fail if one of the names means another table by then.

        Otherwise the transaction would follow a table that is renamed, and a client that lost the answer and asks again
        would hear that there is no such table.
        """
        for change in changes:
            transaction.reads.key(transaction.state, table_key(change.name), Aspect.IDENTITY, structural=True)


def _changes_anything(transaction: "Transaction") -> bool:
    """Whether a request leaves any table other than it was. If not, what it requires holds, and nothing is to do."""
    changed = [edit for edit in transaction.edits.values() if edit.changed]
    works = [edit.iceberg if isinstance(edit, IcebergEdit) else None for edit in changed]
    return any(work is None or not work.changes_nothing for work in works)


def check_format(transaction: "Transaction", change: TableChange) -> None:
    """Refuse a table of another format by saying where it can be changed; also one that the transaction has made."""
    try:
        row = transaction.named(change.name).row
    except NotFound:
        row = None
    if row is not None and (row.format != "iceberg" or row.type != "managed"):
        raise InvalidInput(
            f"{text(change.name)} is a table of format {row.format}: the Iceberg protocol cannot change it",
            remedy="Use the Lance Namespace protocol (`seiche serve --lance-port`).",
            table=text(change.name),
        )
    if row is None and not any(isinstance(one, AssertCreate) for one in change.requirements):
        raise NotFound(f"there is no table {text(change.name)}", table=text(change.name))
