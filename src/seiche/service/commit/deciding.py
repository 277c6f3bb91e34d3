"""One group of transactions: noted before, decided by a root, noted after. The root alone decides."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

from seiche.core.runtime import Runtime
from seiche.errors import CommitUnknown, SeicheError, Unavailable
from seiche.lake.commit.committer import Answer
from seiche.lake.commit.intent import Intent
from seiche.lake.commit.written import written_since
from seiche.lake.lake import Lake
from seiche.lake.state import State as LakeState
from seiche.lake.transacting import Status
from seiche.lake.tree.root import millis
from seiche.service.blobs import Blobs
from seiche.service.changes import Wanted, table_of
from seiche.service.commit.merging import Lineage, merged
from seiche.service.commit.noting import Begun, Notes
from seiche.service.commit.outcomes import Touched, Verdict, verdict
from seiche.service.commit.planning import Plan, intent_of, table_in
from seiche.service.commit.tickets import Decided, Ticket
from seiche.service.operations import decode
from seiche.service.refusals import refused
from seiche.service.state.records import IntentRecord, Record
from seiche.service.state.transactions import TransactionStore
from seiche.service.states import State

__all__ = ["Decided", "Decider", "Ticket"]

log = logging.getLogger("seiche.service")

# Nothing can be said about what happened, or nothing happened: trying again is safe.
_OPEN = (Unavailable, CommitUnknown)
# Called with a transaction and its answer, once that is for good.
Settle: TypeAlias = Callable[[Plan, Answer], None]
# Tables by their ids, as an answer says that a root left them: all that were joined have the same ones.
Seen: TypeAlias = dict[tuple[str, ...], tuple[Answer, tuple[Touched, ...]]]


@contextmanager
def _alone() -> Iterator[None]:
    """A defect, or work that nobody thought of, is the failure of one transaction, not of those decided with it."""
    try:
        yield
    except SeicheError:
        raise
    except Exception as error:
        log.exception("a commit failed")
        raise SeicheError(f"the commit failed: {type(error).__name__}: {error}") from error


class Decider:
    """Decides groups for one account on one lake. One thread at a time."""

    def __init__(self, account: str, lake: Lake, store: TransactionStore, blobs: Blobs, runtime: Runtime) -> None:
        self.account = account
        self.lake = lake
        self.store = store
        self.blobs = blobs
        self.runtime = runtime
        self.lineage = Lineage()
        self._notes = Notes(account, store, blobs, runtime)

    def decide(self, group: Sequence[Ticket]) -> None:
        """Decide all of them and tell each. Never raises for what is wrong with one of them."""
        begun = self._notes.begin(group)
        tickets = {ticket.id: ticket for ticket in group}
        touched: Seen = {}
        decided: list[Decided] = []

        def settle(plan: Plan, answer: Answer) -> None:
            if plan.id in begun.answers:
                return
            one = self._ended(plan, answer, begun, touched)
            begun.answers[plan.id] = one
            decided.append(one)
            # What is in a root, and holds no locks, can be told before it is noted: the tree says the same.
            if one.record.state is State.APPLIED and not plan.kept and one.record.attempts == 1:
                tickets[plan.id].tell(one)

        plans = self._plans([one for one in group if one.id in begun.records], begun.records, settle)
        found = self._commit(plans, settle)
        for plan in plans:
            settle(plan, found[plan.id])
        self._notes.end(decided, plans, begun)
        for ticket in group:
            ticket.tell(begun.answers[ticket.id])

    def _plans(self, tickets: Sequence[Ticket], records: dict[str, Record], settle: Settle) -> list[Plan]:
        prepared = [ticket.id for ticket in tickets if ticket.plan is None]
        intents = self.store.intents(self.account, prepared)
        plans: list[Plan] = []
        for ticket in tickets:
            record = records[ticket.id]
            try:
                with _alone():
                    plans.append(ticket.plan or self._prepared(record, intents.get(ticket.id, [])))
            except SeicheError as error:
                settle(Plan(record.id, record.base_version, kept=True), Answer(error=error))
        return plans

    def _prepared(self, record: Record, intents: Sequence[IntentRecord]) -> Plan:
        """What was prepared, from what was kept of it."""
        if not intents:
            # Another server may have applied it, and have cleared them away; the tree tells.
            if self.lake.remembered(record.id).outcome == "undecided":
                raise Unavailable(f"transaction {record.id} has no intents", code="EMPTY_TRANSACTION")
            return Plan(record.id, record.base_version, kept=True)
        if intents[0].kind == "work":
            work = self.blobs.get(intents[0].blob)
            return Plan(record.id, record.base_version, (), record.properties, work, flushed=True, kept=True)
        held = self.blobs.get_all(one.blob for one in intents if one.kind != "delete")
        wanted = [self._wanted(one, held.get(one.blob, b"")) for one in intents]
        return Plan(record.id, record.base_version, wanted, record.properties, kept=True)

    def _wanted(self, intent: IntentRecord, data: bytes) -> Wanted:
        table = table_of(self.account, intent.target)
        if table is None:
            raise refused(f"{intent.target} is not the key of a table", "target.scope")
        operation = decode(data, table) if intent.kind == "operation" else None
        return Wanted(
            intent.target,
            table,
            intent.kind,  # type: ignore[arg-type]
            data,
            intent.exclusive,
            intent.expected_version,
            intent.blob,
            operation,
        )

    def _commit(self, plans: Sequence[Plan], settle: Settle) -> dict[str, Answer]:
        """Decide all of them with one root; `settle` hears of those in it as soon as it stands.

        If those that were joined cannot be decided, each is by itself.
        """
        answers: dict[str, Answer] = {}
        ready = [found for plan in plans if (found := self._ready(plan, answers)) is not None]
        joined = [plan for plan in ready if plan.appends]
        intents: list[tuple[Intent, list[Plan]]] = []
        for plan in ready:
            if plan.appends:
                continue
            try:
                with _alone():
                    intents.append((intent_of(plan, self.lake), [plan]))
            except SeicheError as error:
                answers[plan.id] = Answer(error=error)
        # Appends last: nearly nothing is in their way, whereas they are in the way of whoever expects a version.
        intents += self._joined(joined, answers) if joined else ()
        again = self._put(intents, answers, settle)
        if again:
            self._put([pair for plan in again for pair in self._joined([plan], answers)], answers, settle)
        return answers

    def _joined(self, plans: list[Plan], answers: dict[str, Answer]) -> Iterable[tuple[Intent, list[Plan]]]:
        try:
            with _alone():
                joined = merged(plans, self._state(plans), self.lineage, self.runtime)
            yield joined, plans
        except SeicheError as error:
            if len(plans) == 1:
                answers[plans[0].id] = Answer(error=error)
                return
            for plan in plans:
                yield from self._joined([plan], answers)

    def _state(self, plans: Sequence[Plan]) -> LakeState:
        """A version of the lake that has all tables that they name, as new as what they were made from, if there is
        one.
        """
        known = self.lake.states.known
        # Another server may have made the table, or the version of it, that a transaction was prepared on.
        needed: dict[str, int] = {}
        for plan in plans:
            for one in plan.wanted:
                read = plan.operation(one).transaction.read_version if one.kind == "operation" else 0
                needed[one.table] = max(read, needed.get(one.table, 0))
        for table, version in needed.items():
            if known.key_of(table) is None or table_in(known, table).row.table_version < version:
                return self.lake.states.latest()
        return known

    def _ready(self, plan: Plan, answers: dict[str, Answer]) -> Plan | None:
        """The plan, once the files that it brings are safely on disk, as old as the oldest of them.

        One that names files that are not there fails alone.
        """
        if plan.flushed:
            return plan
        try:
            with _alone():
                state = self._state([plan])
                files = [
                    path
                    for one in plan.wanted
                    if one.kind == "operation"
                    for path in plan.operation(one).files(state, table_in(state, one.table).row)
                ]
                self.lake.store.flush(files)
                return replace(plan, base=written_since(files, plan.base, state, self.runtime))
        except SeicheError as error:
            answers[plan.id] = Answer(error=error)
            return None

    def _put(
        self, intents: Sequence[tuple[Intent, list[Plan]]], answers: dict[str, Answer], settle: Settle
    ) -> list[Plan]:
        """One root for all of them; returns those that were joined and must be decided one by one."""
        if not intents:
            return []

        def stands(given: list[Answer]) -> None:
            for (_, plans), answer in zip(intents, given, strict=True):
                if answer.error is None:
                    for plan in plans:
                        settle(plan, answer)

        try:
            given = self._decide([intent for intent, _ in intents], stands)
        except SeicheError as error:
            if len(intents) > 1 and not isinstance(error, _OPEN):
                # Something is wrong with one of them that shows only when files are written.
                return [plan for pair in intents for plan in self._put([pair], answers, settle)]
            given = [Answer(error=error)] * len(intents)
        again: list[Plan] = []
        for (intent, plans), answer in zip(intents, given, strict=True):
            if answer.error is not None and len(plans) > 1 and not isinstance(answer.error, _OPEN):
                again += plans
            else:
                answers |= dict.fromkeys((plan.id for plan in plans), answer)
                self._note_lineage(intent, plans, answer, intents)
        return again

    def _decide(self, intents: Sequence[Intent], stands: Callable[[list[Answer]], None]) -> list[Answer]:
        with _alone():
            return self.lake.decide_group(intents, stands)

    def _note_lineage(
        self, intent: Intent, plans: list[Plan], answer: Answer, group: Sequence[tuple[Intent, list[Plan]]]
    ) -> None:
        known = self.lake.states.known
        others = {table for one, _ in group if one is not intent for table in one.edits}
        for table in intent.edits:
            if answer.version == known.version and table not in others and plans[0].appends and not answer.replayed:
                self.lineage.extend(table, table_in(known, table).row.table_version)
            else:
                self.lineage.forget(table)

    def _ended(self, plan: Plan, answer: Answer, begun: Begun, touched: Seen) -> Decided:
        begun.decided_at = begun.decided_at or self._now()
        record, now = begun.records[plan.id], begun.decided_at
        if answer.error is None:
            return Decided(
                record.became(State.APPLIED, now, lake_version=answer.version or 0),
                self._touched(plan, answer, touched),
            )
        given = verdict(answer.error, plan.wanted, self.lake.states.known, now)
        try:
            status = self._settled(plan.id, answer.error, given, begun)
        except SeicheError as error:
            # Nothing can be said about it now. That is nobody else's business in the group.
            if given.state is not State.APPLY_FAILED_RETRYABLE:
                given = verdict(Unavailable(error.message), plan.wanted, self.lake.states.known, now)
        else:
            if status.outcome == "committed":
                return Decided(record.became(State.APPLIED, now, lake_version=status.version or 0))
            if status.outcome == "aborted":
                return Decided(record.became(State.ABORTED, now, lake_version=status.version or 0))
        first = next(iter(given.errors.values()))
        failed = replace(record.became(given.state, now), error_code=first.code, error_message=first.message)
        return Decided(failed, errors=given.errors, failure=answer.error)

    def _settled(self, tx: str, failure: SeicheError, given: Verdict, begun: Begun) -> Status:
        """What others made of a transaction that failed here; if that is nothing, what is given may be answered."""
        status = self.lake.remembered(tx)
        if status.outcome != "undecided" or given.state is not State.APPLY_FAILED_CONFLICT or tx in begun.keyed:
            return status
        if not self._notes.refuse(tx, given.errors, failure, begun):
            # Another server may be about to apply it, having seen less or more: only a root makes this answer true.
            settled = self.lake.settle(tx)
            return settled if settled.outcome == "committed" else status
        return status

    def _touched(self, plan: Plan, answer: Answer, seen: Seen) -> tuple[Touched, ...]:
        """The tables of a transaction as its root left them; `seen` are those of the others in the group."""
        tables = plan.touches
        same = seen.get(tables)
        if same is None or same[0] is not answer:
            same = seen[tables] = answer, self._left_by(answer, tables or tuple(answer.tables))
        return same[1]

    def _left_by(self, answer: Answer, tables: Sequence[str]) -> tuple[Touched, ...]:
        state = self.lake.states.known
        if state.version != answer.version:
            return ()
        # Another member of the same group may have dropped one, or have changed it after this one.
        rows = [table_in(state, table).row for table in tables if state.key_of(table) is not None]
        made = answer.tables
        return tuple(Touched(row.id, made.get(row.id, row.table_version), row.pointer_version) for row in rows)

    def _now(self) -> int:
        return millis(self.runtime.clock.now())
