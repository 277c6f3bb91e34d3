"""The service without the wire: the calls of the protocol, in plain values.

A `Service` serves one account on one lake. Every call may be made from any thread, and on any of several servers that
share the database and the lake. gRPC handlers and HTTP gateways call the same object.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import SeicheError, Unavailable
from seiche.lake.lake import Lake, Status
from seiche.lake.objects.names import Name, text
from seiche.lake.state import State as LakeState
from seiche.lake.tree.root import millis
from seiche.service.blobs import Blobs
from seiche.service.changes import Change, Wanted, digest
from seiche.service.deciding import Decided, Decider, Ticket
from seiche.service.group import GroupCommitter, Limits
from seiche.service.planning import Plan
from seiche.service.refusals import (
    committed_already,
    expired,
    key_mismatch,
    key_pending,
    locked,
    not_found,
    not_open,
    not_prepared,
    refused,
)
from seiche.service.state.database import Database
from seiche.service.state.keys import Claim, KeyStore, Verdict
from seiche.service.state.records import IntentRecord, Record
from seiche.service.state.transactions import Ending, Held, TransactionStore
from seiche.service.states import Action, Call, State, action
from seiche.service.targets import Resolver, split_name

__all__ = ["DEFAULT_TTL", "LONGEST_TTL", "RESERVED", "Service", "Settings"]

log = logging.getLogger("seiche.service")

DEFAULT_TTL: Final = 600.0
LONGEST_TTL: Final = 6 * 3600.0
SHORTEST_TTL: Final = 1.0
# Properties of a transaction that hold ids of tables which it may make, by name.
RESERVED: Final = "seiche.reserved-table-id:"
# A client that has flushed the files that it names says so in this property.
FLUSHED: Final = "seiche.flushed"
_MOST_PROPERTIES: Final = 256
_LONGEST_PROPERTY: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set. `max_operations` limits the changes of one transaction; by default nothing does."""

    catalog: str = "lake"
    max_operations: int | None = None
    default_ttl: float = DEFAULT_TTL
    limits: Limits = field(default_factory=Limits)


class Service:
    """Transactions of one account: begun, prepared, committed or aborted here, decided by the lake."""

    def __init__(
        self,
        lake: Lake,
        database: Database,
        *,
        account: str = "default",
        settings: Settings | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        if not account:
            raise refused("missing account_id", "account.missing")
        self.lake = lake
        self.account = account
        self.settings = settings = settings or Settings()
        self._runtime = runtime
        self.store = TransactionStore(database)
        self._keys = KeyStore(database)
        self._blobs = Blobs(lake.store)
        self._space = runtime.derived_uuid(UUID(lake.state().definition.id), f"account:{account}")
        self._decider = Decider(account, lake, self.store, self._blobs, runtime)
        self.group = GroupCommitter(self._decider, settings.limits, account)

    def close(self) -> None:
        """Decide what waits, and take in no more."""
        self.group.close()

    def begin(self, *, ttl: float | None = None, key: str = "", properties: Mapping[str, str] | None = None) -> Record:
        """A new transaction, OPEN. With the same key, the one that the first call made, as it is now."""
        given = dict(properties or {})
        _check_properties(given)
        request = digest(json.dumps([ttl, sorted(given.items())]).encode())
        record = self._new(self._id("BeginTransaction", key), ttl, given, request if key.strip() else "")
        if key.strip():
            # The tree remembers longer than the database: what was decided under this key is not begun again.
            status = self.lake.status(record.id)
            if status.outcome != "undecided":
                return self.store.get(self.account, record.id) or _from_tree(record, status)
        made = self.store.insert(record)
        if made.request_hash != record.request_hash:
            raise key_mismatch("BeginTransaction", key)
        return made

    def prepare(self, tx: str, changes: Sequence[Change], *, key: str = "") -> Record:
        """PREPARED: everything that is wanted is written down, and exclusive targets are this transaction's."""
        request = digest(repr((tx, [_summary(change) for change in changes])).encode())
        return self._once("PrepareTransaction", key, request, tx, lambda: self._prepare(tx, changes, request))

    def commit(self, tx: str, *, key: str = "") -> Record:
        """Decided, if it could be: look at the state. What is final is answered again without doing anything."""

        def act() -> Record:
            done: Future[Decided] = Future()
            record = self.submit_commit(tx, _into(done))
            return record if record is not None else done.result().record

        return self._once("CommitTransaction", key, digest(tx.encode()), tx, act)

    def submit_commit(self, tx: str, done: Callable[[Decided | SeicheError], None]) -> Record | None:
        """As `commit`, for those who do not want to wait: returns the record if there is nothing to decide."""
        record = self._load(tx)
        match self._action(record, Call.COMMIT):
            case Action.SAME:
                return record
            case Action.APPLY:
                self.group.submit(Ticket(tx, done))
                return None
        raise not_prepared(tx, record.state)

    def abort(self, tx: str, reason: str = "") -> Record:
        """ABORTED, for good: no root will ever have it. Refused if it is found to be applied."""
        record = self._load(tx)
        match self._action(record, Call.ABORT):
            case Action.SAME:
                return record
            case Action.ABORT:
                ended = self._end(record, reason)
                if ended.state is State.ABORTED:
                    return ended
                record = ended
        raise committed_already(tx, record.state)

    def get(self, tx: str) -> Record:
        """The transaction as it is. A commit that nobody noted the end of is looked up in the tree."""
        return self._load(tx)

    def intents(self, tx: str) -> list[IntentRecord]:
        """What the transaction wants, and why that failed if it did."""
        return self.store.intents(self.account, [tx]).get(tx, [])

    def reserve(self, tx: str, table_name: str) -> str:
        """An id for a table that this transaction will make; the same each time for the same name."""
        record = self._load(tx)
        full = text(split_name(table_name, self.settings.catalog))
        known = record.properties.get(RESERVED + full)
        match self._action(record, Call.RESERVE):
            case Action.RESERVE:
                return known or self.store.reserve(record, RESERVED + full, str(self._runtime.uuid()), self._now())
            case _ if known is not None:
                return known
        raise not_open(tx, record.state)

    def execute(
        self,
        changes: Sequence[Change] = (),
        *,
        base_version: int | None = None,
        key: str = "",
        tx: str = "",
        ttl: float | None = None,
        properties: Mapping[str, str] | None = None,
        work: bytes = b"",
    ) -> Decided:
        """Begin, prepare and commit in one go; with the same key again, what became of the first one.

        `base_version` is a version of the lake from before any of the files that the changes name were written. With
        `work`, a saved transaction of the lake, there are no changes. `tx` is the id that it shall have; the same id
        again is the same transaction.
        """
        done: Future[Decided] = Future()
        self.submit(
            changes,
            _into(done),
            base_version=base_version,
            key=key,
            tx=tx,
            ttl=ttl,
            properties=properties,
            work=work,
        )
        return done.result()

    def submit(
        self,
        changes: Sequence[Change],
        done: Callable[[Decided | SeicheError], None],
        *,
        base_version: int | None = None,
        key: str = "",
        tx: str = "",
        ttl: float | None = None,
        properties: Mapping[str, str] | None = None,
        work: bytes = b"",
        request_hash: str = "",
        look: bool = True,
    ) -> None:
        """As `execute`, for those who do not want to wait: `done` is called with the answer, from another thread.

        Without `look` storage is not asked what is new before anything is refused.
        """
        given = dict(properties or {})
        if given:
            _check_properties(given)
        known = self.lake.states.known
        base = known.version if base_version is None else min(base_version, known.version)
        if base < 0:
            raise refused(f"{base_version} is not a version of the lake", "base-version.invalid")
        chosen = _checked_id(tx) if tx else ""
        tx = chosen or self._id("ExecuteTransaction", key)
        # Whoever gives the id vouches for it: with other files, it is still the same transaction.
        request = "" if chosen else request_hash or _hash(ttl, given, changes, work)
        record = replace(self._new(tx, ttl, given, request), state=State.PREPARED, base_version=base, attempts=1)
        if work:
            plan = Plan(tx, base, properties=given, work=work, flushed=True)
        else:
            wanted = self._wanted(tx, changes, {}, look=look)
            plan = Plan(tx, base, wanted, given, flushed=given.get(FLUSHED) == "true")
        self.group.submit(Ticket(tx, done, record, plan))

    def sweep(self, limit: int = 100) -> int:
        """Decide transactions whose time is up, and note how commits ended that nobody noted; returns how many."""
        now, ended = self._now(), 0
        for record in self.store.overdue(now, limit):
            if record.account == self.account:
                self._end(record, "expired")
                ended += 1
        for record in self.store.doubtful(limit):
            if record.account == self.account and self._healed(record).final:
                ended += 1
        return ended

    def _prepare(self, tx: str, changes: Sequence[Change], request: str) -> Record:
        record = self._load(tx)
        match self._action(record, Call.PREPARE):
            case Action.COMPARE if record.changes_hash == request:
                return record
            case Action.COMPARE:
                raise refused("the transaction was prepared with other changes", "prepare.mismatch")
            case Action.PREPARE:
                pass
            case _:
                raise not_open(tx, record.state)
        wanted = self._wanted(tx, changes, _reserved(record))
        now = self._now()
        # Blobs first: they do no harm if nothing comes of it, whereas an intent without its blob could not be applied.
        intents = [
            IntentRecord(
                self.account,
                tx,
                one.target,
                one.kind,
                one.blob if one.kind == "delete" else self._blobs.put(one.data),
                one.exclusive,
                one.expected_version,
                now,
                position,
            )
            for position, one in enumerate(wanted)
        ]
        done = self.store.prepare(replace(record, changes_hash=request), intents, now)
        if isinstance(done, Held):
            raise locked(done.target, done.owner, done.since)
        if done.state is not State.PREPARED:
            raise not_open(tx, done.state)
        if done.changes_hash != request:
            raise refused("the transaction was prepared with other changes", "prepare.mismatch")
        return done

    def _wanted(
        self, tx: str, changes: Sequence[Change], reserved: Mapping[str, Name], *, look: bool = True
    ) -> list[Wanted]:
        most = self.settings.max_operations
        if most is not None and len(changes) > most:
            raise refused(f"{len(changes)} changes are more than {most}", "POINTER_TXN_TOO_LARGE")
        state = self.lake.states.known
        try:
            return self._resolver(state, tx, reserved).all(changes)
        except SeicheError:
            # What this server knows may be old: others make tables too.
            newer = self.lake.states.latest() if look else state
            if newer.version == state.version:
                raise
            return self._resolver(newer, tx, reserved).all(changes)

    def _resolver(self, state: LakeState, tx: str, reserved: Mapping[str, Name]) -> Resolver:
        return Resolver(state, self.account, self.settings.catalog, tx, self._blobs.get, reserved)

    def _load(self, tx: str) -> Record:
        """The transaction, from the database or, if that does not have it, from the tree."""
        record = self.store.get(self.account, tx) if tx else None
        if record is not None:
            return self._healed(record)
        try:
            status = self.lake.status(str(UUID(tx)))
        except ValueError:
            raise not_found(tx) from None
        if not tx or status.outcome == "undecided":
            raise not_found(tx)
        return _from_tree(self._new(tx, None, {}, ""), status)

    def _healed(self, record: Record) -> Record:
        """The record, after the tree was asked if a commit was begun and nobody noted how it ended."""
        if record.final or not record.attempts:
            return record
        status = self.lake.status(record.id)
        if status.outcome == "undecided":
            return record
        return self._note(record, status)

    def _note(self, record: Record, status: Status) -> Record:
        state = State.APPLIED if status.outcome == "committed" else State.ABORTED
        try:
            self.store.finish(self.account, [Ending(record.id, state, status.version or 0)], self._now())
        except Unavailable as error:
            log.warning("decided, but not noted: %s", error.message)
        return record.became(state, self._now(), lake_version=status.version or 0)

    def _action(self, record: Record, call: Call) -> Action:
        """What the table says; a transaction whose time is up is ended first, and the call refused."""
        found = action(record.state, call, expired=record.expired(self._now()))
        if found is Action.EXPIRE:
            ended = self._end(record, "expired")
            if ended.state is State.APPLIED and call is Call.COMMIT:
                return Action.SAME
            raise expired(record.id)
        return found

    def _end(self, record: Record, reason: str) -> Record:
        """Decide against a transaction. If a commit of it may have begun, only a root can."""
        ended = self.store.abandon(self.account, record.id, self._now(), reason) or record
        if ended.final:
            return ended
        return self._note(ended, self.lake.settle(record.id))

    def _once(self, operation: str, key: str, request: str, tx: str, act: Callable[[], Record]) -> Record:
        """Do it once for each key: again with the same request it is answered, with another one refused."""
        if not tx:
            raise refused("missing tx_id", "tx-id.missing")
        key = key.strip()
        if not key:
            return act()
        claim = Claim(self.account, operation, key, request, str(self._runtime.uuid()))
        match self._keys.claim(claim, self._now()):
            case Verdict.MISMATCH:
                raise key_mismatch(operation, key)
            case Verdict.PENDING:
                raise key_pending(operation, key)
            case Verdict.REPLAY:
                return self._load(tx)
        try:
            record = act()
        except SeicheError as error:
            (self._keys.release if error.retryable else self._keys.forget)(claim)
            raise
        if record.final or record.state is State.PREPARED:
            self._keys.done(claim, self._now())
        else:
            self._keys.release(claim)
        return record

    def _id(self, operation: str, key: str) -> str:
        key = key.strip()
        if not key:
            return str(self._runtime.uuid())
        return str(self._runtime.derived_uuid(self._space, f"{operation}:{key}"))

    def _new(self, tx: str, ttl: float | None, properties: Mapping[str, str], request: str) -> Record:
        now = self._now()
        wanted = self.settings.default_ttl if ttl is None or ttl == 0 else ttl
        if not wanted >= SHORTEST_TTL or wanted > LONGEST_TTL:
            raise refused(
                f"a time to live of {wanted} s is not between {SHORTEST_TTL} and {LONGEST_TTL} s", "ttl.out-of-range"
            )
        version = self.lake.states.known.version
        return Record(
            self.account, tx, State.OPEN, now, now, now + int(wanted * 1000), version, 0, properties, request
        )  # fmt: skip

    def _now(self) -> int:
        return millis(self._runtime.clock.now())


def _checked_id(tx: str) -> str:
    try:
        return str(UUID(tx))
    except ValueError:
        raise refused(f"{tx!r} cannot be the id of a transaction", "tx-id.invalid", "Use a UUID.") from None


def _into(future: "Future[Decided]") -> Callable[[Decided | SeicheError], None]:
    def done(answer: Decided | SeicheError) -> None:
        if isinstance(answer, SeicheError):
            future.set_exception(answer)
        else:
            future.set_result(answer)

    return done


def _from_tree(record: Record, status: Status) -> Record:
    """A transaction that only the tree remembers."""
    state = State.APPLIED if status.outcome == "committed" else State.ABORTED
    return replace(record, state=state, lake_version=status.version or 0)


def _reserved(record: Record) -> dict[str, Name]:
    return {
        table: tuple(name.removeprefix(RESERVED).split("."))
        for name, table in record.properties.items()
        if name.startswith(RESERVED)
    }


def _summary(change: Change) -> tuple[object, ...]:
    """What tells one change from another."""
    data = change.payload if change.table is None else change.table.encoded
    return (
        change.table_id,
        change.table_name,
        change.target_key,
        None if data is None else digest(data),
        change.blob_uri,
        change.table is not None,
        change.expected_version,
    )


def _hash(ttl: float | None, properties: Mapping[str, str], changes: Sequence[Change], work: bytes) -> str:
    return digest(repr((ttl, sorted(properties.items()), [*map(_summary, changes)])).encode() + work)


def _check_properties(properties: Mapping[str, str]) -> None:
    if len(properties) > _MOST_PROPERTIES or sum(map(len, (*properties, *properties.values()))) > _LONGEST_PROPERTY:
        raise refused("the properties are too many or too long", "properties.too-large")
