"""What the SQL store is told about a group of transactions: before it is decided, and after.

What it is told before makes later callers careful: of a transaction whose commit was begun only a root can say that it
will not happen. What it is told after is a convenience; if that fails, the answer is the same, and whoever asks next
finds it in the tree.

Appends in one call are not written down before. Nothing can be asked about them that the tree does not answer: who
sends them again is told what became of them, and a negative answer about them is a root. Those with a key are: what the
tree has under a key may be another request that came at the same time, to another server.

Of one whose client has made the id from a key of its own nothing is written down, before or after. It is done anew
under the same id until it is in the tree, where it can be only once: nobody needs to be told that it will never happen,
and who was would never be able to do it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seiche.core.runtime import Runtime
from seiche.errors import SeicheError
from seiche.lake.tree.root import millis
from seiche.service.blobs import Blobs
from seiche.service.changes import Wanted, work_key
from seiche.service.commit.planning import Plan
from seiche.service.commit.tickets import Decided, Ticket
from seiche.service.failures import from_text, to_text
from seiche.service.refusals import key_mismatch, not_found, not_prepared, refused
from seiche.service.state.records import ApplyError, IntentRecord, Record
from seiche.service.state.transactions import Ending, TransactionStore
from seiche.service.states import State

__all__ = ["Begun", "Notes", "noted"]

log = logging.getLogger("seiche.service")


@dataclass(slots=True)
class Begun:
    """A group as it goes to be decided: what is known of its members, and the answers of those that do not go.

    `appends` are those in one call, `unwritten` those of them that no other server can know of; `keyed` are those of
    which nothing is written.
    """

    records: dict[str, Record] = field(default_factory=dict)
    answers: dict[str, Decided | SeicheError] = field(default_factory=dict)
    appends: frozenset[str] = frozenset()
    unwritten: frozenset[str] = frozenset()
    keyed: frozenset[str] = frozenset()
    # When the first of them was decided, which is when all of them were.
    decided_at: int = 0


class Notes:
    """Keeps the SQL store of one account in step with what is decided."""

    def __init__(self, account: str, store: TransactionStore, blobs: Blobs, runtime: Runtime) -> None:
        self._account = account
        self._store = store
        self._blobs = blobs
        self._runtime = runtime

    def begin(self, group: Sequence[Ticket]) -> Begun:
        """Count the attempt of each member, and find those that may not be committed, or not any more."""
        appends = {one.id: one.key for one in group if one.plan is not None and one.plan.appends}
        keyed = frozenset(one.id for one in group if one.keyed)
        unnamed = [tx for tx, key in appends.items() if not key and tx not in keyed]
        known = self._store.known(self._account, unnamed) if unnamed else {}
        unwritten = frozenset(unnamed) - known.keys()
        new = unwritten | keyed
        executing = [one.record for one in group if one.record is not None and one.id not in new]
        committing = [one.id for one in group if one.record is None]
        started = {}
        if executing or committing:
            started = self._store.start(self._account, executing, committing, self._now())
        begun = Begun(appends=frozenset(appends), unwritten=unwritten, keyed=keyed)
        failed = [one.id for one in started.values() if one.state is State.APPLY_FAILED_CONFLICT]
        failures = self._store.failures(self._account, failed) if failed else {}
        for ticket in group:
            record = ticket.record if ticket.id in new else started.get(ticket.id)
            refusal = _refusal(ticket, record, failures.get(ticket.id))
            if refusal is not None:
                begun.answers[ticket.id] = refusal
            elif record is not None:
                begun.records[ticket.id] = record
        return begun

    def refuse(self, tx: str, errors: Mapping[str, ApplyError], failure: SeicheError, begun: Begun) -> bool:
        """Whether it is written down that a transaction will not happen, and why. If another server may be at it, only
        a root can say so.
        """
        if tx in begun.appends:
            return False
        try:
            return self._store.refuse(self._account, tx, errors, self._now(), to_text(failure))
        except SeicheError as error:
            log.warning("a conflict is not noted: %s", error.message, extra={"transaction": tx})
            return False

    def end(self, decided: Sequence[Decided], plans: Sequence[Plan], begun: Begun) -> None:
        """Write down how it ended, once for the whole group."""
        new, endings, again = [], [], set()
        for one in decided:
            record = one.record
            if record.id in begun.keyed:
                continue
            if record.id in begun.unwritten:
                new.append(record)
            if record.id not in begun.unwritten or one.errors:
                failure = "" if one.failure is None or not record.final else to_text(one.failure)
                endings.append(Ending(record.id, record.state, record.lake_version, one.errors, failure))
            if record.state is State.APPLY_FAILED_RETRYABLE:
                again.add(record.id)
        try:
            if new:
                self._store.note(new)
            # Before the errors, which are written on what is kept.
            self._keep([plan for plan in plans if plan.id in again and not plan.kept])
            if endings:
                self._store.finish(self._account, endings, begun.decided_at)
        except SeicheError as error:
            log.warning("decided, but not noted: %s", error.message, extra={"transactions": [*begun.records]})

    def _keep(self, plans: Sequence[Plan]) -> None:
        """Keep what transactions in one call want that may still succeed: anybody may commit them now, by their id."""
        now = self._now()
        for plan in plans:
            wanted = noted(self._account, plan.id, plan.wanted, self._blobs, now)
            if plan.work:
                key = work_key(self._account, plan.id)
                wanted = [
                    IntentRecord(self._account, plan.id, key, "work", self._blobs.put(plan.work), False, None, now)
                ]
            self._store.keep(wanted, now)

    def _now(self) -> int:
        return millis(self._runtime.clock.now())


def noted(account: str, tx: str, wanted: Sequence[Wanted], blobs: Blobs, now: int) -> list[IntentRecord]:
    """What a transaction wants, as it is kept.

    Blobs first: they do no harm if nothing comes of it, whereas an intent without its blob could not be applied.
    """
    kept = blobs.put_all(one.data for one in wanted if one.kind != "delete")
    return [
        IntentRecord(
            account,
            tx,
            one.target,
            one.kind,
            one.blob if one.kind == "delete" else kept[one.data],
            one.exclusive,
            one.expected_version,
            now,
            position,
        )
        for position, one in enumerate(wanted)
    ]


def _refusal(ticket: Ticket, record: Record | None, failure: str | None) -> Decided | SeicheError | None:
    """The answer to a transaction that is not to be committed; `failure` is why it was not, the first time."""
    if record is None:
        return not_found(ticket.id)
    if ticket.record is not None and record.request_hash != ticket.record.request_hash:
        return key_mismatch("ExecuteTransaction", ticket.key or ticket.id)
    if record.final:
        return Decided(record, failure=None if failure is None else from_text(failure, record.error_message))
    if ticket.record is not None and record.changes_hash:
        return refused("the transaction was prepared with other changes", "prepare.mismatch")
    if record.state is State.OPEN:
        return not_prepared(ticket.id, record.state)
    return None
