"""What is known about transactions: from the database while they live, from the tree for as long as it remembers."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from seiche.core.runtime import Runtime
from seiche.errors import SeicheError, Unavailable
from seiche.lake.care.given_up import GivenUp
from seiche.lake.lake import Lake
from seiche.lake.transacting import Status
from seiche.lake.tree.root import millis
from seiche.service.refusals import expired, not_found
from seiche.service.settings import Settings
from seiche.service.state.records import Record
from seiche.service.state.transactions import Ending, TransactionStore
from seiche.service.states import Action, Call, State, action

__all__ = ["Ledger", "from_tree"]

log = logging.getLogger("seiche.service")


class Ledger:
    """The records of one account. Where the database is behind, the tree is asked, and what it says is noted."""

    def __init__(self, account: str, lake: Lake, store: TransactionStore, settings: Settings, runtime: Runtime) -> None:
        self._account = account
        self._lake = lake
        self._store = store
        self._settings = settings
        self._runtime = runtime
        # The last of those in doubt that the sweep has looked at, unless it has seen them all.
        self._looked_at: Record | None = None

    def now(self) -> int:
        return millis(self._runtime.clock.now())

    def new(
        self, tx: str, ttl: float | None, properties: Mapping[str, str], request: str, *, base: int | None = None
    ) -> Record:
        """A transaction that begins now; it is nowhere yet. With a `base` it is executed in one go."""
        now = self.now()
        until = now + self._settings.lifetime(ttl)
        if base is None:
            version = self._lake.states.latest().version
            return Record(self._account, tx, State.OPEN, now, now, until, version, 0, properties, request)
        return Record(self._account, tx, State.PREPARED, now, now, until, base, 1, properties, request)

    def load(self, tx: str) -> Record:
        """The transaction, from the database or, if that does not have it, from the tree."""
        record = self._store.get(self._account, tx) if tx else None
        if record is not None:
            return self._recalled(self.healed(record))
        try:
            status = self._lake.status(str(UUID(tx)))
        except ValueError:
            raise not_found(tx) from None
        if not tx or status.outcome == "undecided":
            raise not_found(tx)
        return from_tree(self.new(tx, None, {}, ""), status)

    def healed(self, record: Record) -> Record:
        """The record, after the tree was asked if a commit was begun and nobody noted how it ended.

        It is asked also if the database alone has decided against it: that may have forgotten that a commit was begun,
        in a power failure or because it is a backup of an earlier day.
        """
        aborted_here = record.state is State.ABORTED and not record.lake_version
        if not aborted_here and (record.final or not record.attempts):
            return record
        status = self._lake.remembered(record.id)
        if status.outcome == "undecided":
            return record
        return self._note(record, status)

    def _recalled(self, record: Record) -> Record:
        """The record, after what is left of expired versions was asked, too, if one of them can have been its own."""
        if record.final or not record.attempts:
            return record
        gone = GivenUp.of(self._lake.states.known).versions.spans
        if not gone or gone[-1][1] <= record.base_version + 1:
            return record
        status = self._lake.status(record.id)
        return record if status.outcome == "undecided" else self._note(record, status)

    def end(self, record: Record, reason: str) -> Record:
        """Decide against a transaction. If a commit of it may have begun, only a root can."""
        return self.healed(self._ended(record, reason))

    def action(self, record: Record, call: Call) -> Action:
        """What the table says; a transaction whose time is up is ended first, and the call refused."""
        found = action(record.state, call, expired=record.expired(self.now()))
        if found is Action.EXPIRE:
            ended = self.end(record, "expired")
            if ended.state is State.APPLIED and call is Call.COMMIT:
                return Action.SAME
            raise expired(record.id)
        return found

    def sweep(self, limit: int) -> int:
        """Decide transactions whose time is up, and note how commits ended that nobody noted; returns how many.

        One that cannot be decided now is in nobody's way.
        """
        overdue = self._store.overdue(self._account, self.now(), limit)
        ended = sum(self._swept(record, lambda one: self._ended(one, "expired")) for record in overdue)
        # Those that may still be committed stay in doubt. The others have their turn too, or would keep their locks.
        doubtful = self._store.doubtful(self._account, limit, self._looked_at)
        self._looked_at = doubtful[-1] if len(doubtful) == limit else None
        return ended + sum(self._swept(record, self.healed) for record in doubtful)

    def _ended(self, record: Record, reason: str) -> Record:
        """The same, for those who tell nobody: that the database alone decided against it may turn out not to be so."""
        ended = self._store.abandon(self._account, record.id, self.now(), reason) or record
        if ended.final:
            return ended
        return self._note(ended, self._lake.settle(record.id))

    def _swept(self, record: Record, act: Callable[[Record], Record]) -> bool:
        try:
            return act(record).final
        except SeicheError as error:
            log.warning("a transaction is undecided: %s", error.message, extra={"transaction": record.id})
            return False

    def _note(self, record: Record, status: Status) -> Record:
        state = _state_of(status)
        try:
            self._store.finish(self._account, [Ending(record.id, state, status.version or 0)], self.now())
        except Unavailable as error:
            log.warning("decided, but not noted: %s", error.message)
        return record.became(state, self.now(), lake_version=status.version or 0)


def from_tree(record: Record, status: Status) -> Record:
    """A transaction that only the tree remembers."""
    return replace(record, state=_state_of(status), lake_version=status.version or 0)


def _state_of(status: Status) -> State:
    return State.APPLIED if status.outcome == "committed" else State.ABORTED
