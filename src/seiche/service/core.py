"""The service without the wire: the calls of the protocol, in plain values.

A `Service` serves one account on one lake. Every call may be made from any thread, and on any of several servers that
share the database and the lake. gRPC handlers and HTTP gateways call the same object.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import SeicheError, Unavailable
from seiche.lake.lake import Lake
from seiche.lake.objects.names import text
from seiche.service.blobs import Blobs
from seiche.service.changes import Change, digest
from seiche.service.commit.deciding import Decider
from seiche.service.commit.group import GroupCommitter
from seiche.service.commit.noting import noted
from seiche.service.commit.planning import Plan
from seiche.service.commit.tickets import Decided, Ticket, into
from seiche.service.idempotency import Idempotency
from seiche.service.ids import Ids
from seiche.service.ledger import Ledger, from_tree
from seiche.service.lookup import Targets
from seiche.service.properties import FLUSHED, KEYED, RESERVED
from seiche.service.refusals import (
    committed_already,
    key_mismatch,
    locked,
    not_found,
    not_open,
    not_prepared,
    refused,
)
from seiche.service.requests import (
    as_written,
    begin_hash,
    check_properties,
    check_reserved,
    checked_id,
    execute_hash,
    prepare_hash,
    reserved_names,
)
from seiche.service.settings import DEFAULT_TTL, LONGEST_TTL, Settings
from seiche.service.state.database import Database
from seiche.service.state.keys import KeyStore
from seiche.service.state.records import IntentRecord, Record
from seiche.service.state.transactions import Held, TransactionStore
from seiche.service.states import Action, Call, State
from seiche.service.targets import split_name
from seiche.service.undecided import Undecided
from seiche.service.witnesses import check_written_here

__all__ = ["DEFAULT_TTL", "LONGEST_TTL", "Service", "Settings"]


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
        self._blobs = Blobs(lake.store)
        self._ledger = Ledger(account, lake, self.store, settings, runtime)
        self._undecided = Undecided(account, self.store, settings.max_undecided, runtime.clock)
        self._keys = Idempotency(account, KeyStore(database), self._ledger, runtime)
        self.lake_id = lake.state().definition.id
        self._ids = Ids(self.lake_id, account, runtime)
        self._targets = Targets(lake, account, settings, self._blobs)
        self._decider = Decider(account, lake, self.store, self._blobs, runtime)
        self.group = GroupCommitter(self._decider, settings.limits, account)

    def close(self) -> None:
        """Decide what waits, and take in no more."""
        self.group.close()

    def begin(self, *, ttl: float | None = None, key: str = "", properties: Mapping[str, str] | None = None) -> Record:
        """A new transaction, OPEN. With the same key, the one that the first call made, as it is now."""
        given = dict(properties or {})
        check_properties(given)
        request = begin_hash(ttl, given)
        record = self._ledger.new(self._ids.made("BeginTransaction", key), ttl, given, request if key.strip() else "")
        if key.strip():
            # The tree remembers longer than the database: what was decided under this key is not begun again.
            status = self.lake.status(record.id)
            if status.outcome != "undecided":
                known = self.store.get(self.account, record.id)
                return from_tree(record, status) if known is None else self._ledger.healed(_same(known, record, key))
        try:
            self._undecided.admit()
        except Unavailable:
            # That there is no room for more is nothing to whoever asks again for one that there is.
            if not key.strip() or self.store.get(self.account, record.id) is None:
                raise
        return _same(self.store.insert(record), record, key)

    def prepare(self, tx: str, changes: Sequence[Change], *, key: str = "") -> Record:
        """PREPARED: everything that is wanted is written down, and exclusive targets are this transaction's."""
        tx = as_written(tx)
        request = prepare_hash(tx, changes)
        return self._keys.once("PrepareTransaction", key, request, tx, lambda: self._prepare(tx, changes, request))

    def commit(self, tx: str, *, key: str = "") -> Record:
        """Decided, if it could be: look at the state. What is final is answered again without doing anything."""
        tx = as_written(tx)

        def act() -> Record:
            done: Future[Decided] = Future()
            record = self.submit_commit(tx, into(done))
            return record if record is not None else done.result().record

        return self._keys.once("CommitTransaction", key, digest(tx.encode()), tx, act)

    def submit_commit(self, tx: str, done: Callable[[Decided | SeicheError], None]) -> Record | None:
        """As `commit`, for those who do not want to wait: returns the record if there is nothing to decide."""
        tx = as_written(tx)
        record = self._ledger.load(tx)
        match self._ledger.action(record, Call.COMMIT):
            case Action.SAME:
                # Its time may have been up, and another server was still in time.
                return record if record.final else self._ledger.load(tx)
            case Action.APPLY:
                self.group.submit(Ticket(tx, done))
                return None
        raise not_prepared(tx, record.state)

    def abort(self, tx: str, reason: str = "") -> Record:
        """ABORTED, for good: no root will ever have it. Refused if it is found to be applied."""
        tx = as_written(tx)
        record = self._ledger.load(tx)
        match self._ledger.action(record, Call.ABORT):
            case Action.SAME:
                return record
            case Action.ABORT:
                ended = self._ledger.end(record, reason)
                if ended.state is State.ABORTED:
                    return ended
                record = ended
        raise committed_already(tx, record.state)

    def get(self, tx: str) -> Record:
        """The transaction as it is. A commit that nobody noted the end of is looked up in the tree."""
        return self._ledger.load(as_written(tx))

    def intents(self, tx: str) -> list[IntentRecord]:
        """What the transaction wants, and why that failed if it did."""
        tx = as_written(tx)
        return self.store.intents(self.account, [tx]).get(tx, [])

    def reserve(self, tx: str, table_name: str) -> str:
        """An id for a table that this transaction will make; the same each time for the same name."""
        tx = as_written(tx)
        record = self._ledger.load(tx)
        name = RESERVED + text(split_name(table_name, self.settings.catalog))
        if name not in record.properties and self._ledger.action(record, Call.RESERVE) is Action.RESERVE:
            check_reserved(record.properties)
            found = self.store.reserve(record, name, str(self._runtime.uuid()), self._ledger.now())
            if found is None:
                raise not_found(tx)
            record = found
        if name not in record.properties:
            raise not_open(tx, record.state)
        return record.properties[name]

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
        again is the same transaction. One whose id follows from a key (`KEYED`) may be tried anew after a conflict.
        """
        done: Future[Decided] = Future()
        self.submit(
            changes,
            into(done),
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
        proven: bool = True,
    ) -> bool:
        """As `execute`, for those who do not want to wait: `done` is called with the answer, from another thread.

        Without `look` storage is not asked what is new before anything is refused. Who is not `proven` to write into
        this lake, and not into a copy of it, is believed about files once one of each table was seen, and so is who
        gives the name of a table and not its id; returns whether it is proven now.
        """
        given = dict(properties or {})
        if given:
            check_properties(given)
        if work and changes:
            # One of them would be done and the other not, and both said to be.
            raise refused("the request has changes and work", "changes.and-work", "Send one of them.")
        base = self._base(base_version, look=look)
        chosen = checked_id(tx) if tx else ""
        tx = chosen or self._ids.made("ExecuteTransaction", key)
        # Whoever gives the id vouches for it: with other files, it is still the same transaction.
        request = "" if chosen else request_hash or execute_hash(ttl, given, changes, work)
        # Who says from when its files are is believed also about the rest. It is nothing that the lake remembers.
        flushed = given.pop(FLUSHED, "") == "true" and base_version is not None
        keyed = given.pop(KEYED, "") == "true" and bool(chosen)
        record = self._ledger.new(tx, ttl, given, request, base=base)
        if work:
            plan = Plan(tx, base, properties=given, work=work, flushed=True)
        else:
            wanted = self._targets.wanted(tx, changes, {}, look=look)
            plan = Plan(tx, base, wanted, given, flushed=flushed)
        # When files were written a name may have led to another table than now, in whose place they are.
        named = any(change.table_name for change in changes)
        if plan.flushed and (named or not proven):
            proven = check_written_here(self.lake, base, plan.wanted, work) or proven
        self.group.submit(Ticket(tx, done, record, plan, key="" if chosen else key.strip(), keyed=keyed))
        return proven

    def sweep(self, limit: int = 100) -> int:
        """Decide transactions whose time is up, and note how commits ended that nobody noted; returns how many."""
        return self._ledger.sweep(limit)

    def _base(self, given: int | None, *, look: bool) -> int:
        """The version of the lake that a transaction began from; without one, the latest.

        What this server has seen last may be behind a fence that was there long before: nothing is as old as that only
        because nobody has looked since.
        """
        known = self.lake.states.known.version
        if given is None or given > known:
            if not look:
                raise Unavailable("the latest version is to be looked for", reason="look")
            known = self.lake.states.latest().version
        base = known if given is None else min(given, known)
        if base < 0:
            raise refused(f"{given} is not a version of the lake", "base-version.invalid")
        return base

    def _prepare(self, tx: str, changes: Sequence[Change], request: str) -> Record:
        record = self._ledger.load(tx)
        match self._ledger.action(record, Call.PREPARE):
            case Action.COMPARE if record.changes_hash == request:
                return record
            case Action.COMPARE:
                raise refused("the transaction was prepared with other changes", "prepare.mismatch")
            case Action.PREPARE:
                pass
            case _:
                raise not_open(tx, record.state)
        wanted = self._targets.wanted(tx, changes, reserved_names(record.properties))
        now = self._ledger.now()
        intents = noted(self.account, tx, wanted, self._blobs, now)
        done = self.store.prepare(replace(record, changes_hash=request), intents, now)
        if isinstance(done, Held):
            raise locked(done.target, done.owner, done.since)
        if done.state is not State.PREPARED:
            raise not_open(tx, done.state)
        if done.changes_hash != request:
            raise refused("the transaction was prepared with other changes", "prepare.mismatch")
        return done


def _same(known: Record, asked: Record, key: str) -> Record:
    """The transaction that was begun under this key, if it was by the same request."""
    if known.request_hash != asked.request_hash:
        raise key_mismatch("BeginTransaction", key)
    return known
