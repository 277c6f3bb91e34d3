"""Transactions in SQL: every method is one SQL transaction."""

# ruff: noqa: S608 - statements are put together from names, numbers and question marks only

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from seiche.service.state import intents as wants
from seiche.service.state.database import Database, Session
from seiche.service.state.intents import Ending, Held, Taken
from seiche.service.state.records import ApplyError, IntentRecord, Record
from seiche.service.state.rows import (
    COLUMNS,
    INSERT,
    ROW,
    SELECT,
    lookup,
    marks,
    numbers,
    record_of,
    values_of,
)
from seiche.service.states import FINAL, State

__all__ = ["Ending", "Held", "TransactionStore"]

_ENDING: Final = ("state", "updated", "lake_version", "error_code", "error_message")
_LIVE: Final = (State.OPEN, State.PREPARED, State.APPLY_FAILED_RETRYABLE)
_COMMITTING: Final = (State.PREPARED, State.APPLY_FAILED_RETRYABLE)
# For transactions that were decided before they were written down.
_UNLESS_FINAL: Final = (
    " ON CONFLICT (account, id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _ENDING)
    + ", attempts = seiche_transactions.attempts + excluded.attempts"
    + f" WHERE seiche_transactions.state NOT IN ({numbers(FINAL)})"
)


class TransactionStore:
    """Any number of servers may use the same database: what two of them do at once, one of them did first."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def insert(self, record: Record) -> Record:
        """Remember a new transaction; if there is one of this id already, that one is returned, unchanged."""

        def act(session: Session) -> Record:
            session.run(f"{INSERT}{ROW} ON CONFLICT (account, id) DO NOTHING", values_of(record))
            (row,) = session.run(f"{SELECT} WHERE account = ? AND id = ?", (record.account, record.id))
            return record_of(row)

        return self.database.transact(act)

    def get(self, account: str, tx: str) -> Record | None:
        rows = self.database.read(lambda session: lookup(session, account, tx))
        return rows[0] if rows else None

    def prepare(self, record: Record, intents: Sequence[IntentRecord], now: int) -> Record | Held:
        """Write all intents and become PREPARED, or do nothing.

        Intents are written in the order of their targets, so that of two that want the same ones the first wins and
        none waits for the other. Exclusive ones of owners that are gone, decided or out of time are taken over.
        """

        def act(session: Session) -> Record | Held:
            found = lookup(session, record.account, record.id, lock=True)
            if not found or found[0].state is not State.OPEN:
                return found[0] if found else record
            # What an earlier prepare of the same transaction left.
            session.run("DELETE FROM seiche_intents WHERE account = ? AND tx = ?", (record.account, record.id))
            wants.write_all(session, intents, now)
            session.run(
                "UPDATE seiche_transactions SET state = ?, updated = ?, changes_hash = ? WHERE account = ? AND id = ?",
                (int(State.PREPARED), now, record.changes_hash, record.account, record.id),
            )
            return replace(found[0], state=State.PREPARED, updated=now, changes_hash=record.changes_hash)

        try:
            return self.database.transact(act)
        except Taken as refused:
            return refused.held

    def reserve(self, record: Record, name: str, value: str, now: int) -> Record | None:
        """Set a property of a transaction, if it is open and has none of this name; returns it as it is then."""

        def act(session: Session) -> Record | None:
            found = lookup(session, record.account, record.id, lock=True)
            if not found or found[0].state is not State.OPEN or name in found[0].properties:
                return found[0] if found else None
            properties = {**found[0].properties, name: value}
            session.run(
                "UPDATE seiche_transactions SET properties = ?, updated = ? WHERE account = ? AND id = ?",
                (json.dumps(properties), now, record.account, record.id),
            )
            return replace(found[0], properties=properties, updated=now)

        return self.database.transact(act)

    def abandon(self, account: str, tx: str, now: int, reason: str = "") -> Record | None:
        """Become ABORTED, if it is undecided and no commit of it was ever begun. The intents go with it.

        Returns it as it is then; still undecided means that only a root can tell.
        """

        def act(session: Session) -> Record | None:
            session.run(
                "UPDATE seiche_transactions SET state = ?, updated = ?, reason = ?"
                f" WHERE account = ? AND id = ? AND attempts = 0 AND state IN ({numbers(_LIVE)})",
                (int(State.ABORTED), now, reason, account, tx),
            )
            found = lookup(session, account, tx)
            if found and found[0].state is State.ABORTED:
                wants.release(session, account, [tx])
            return found[0] if found else None

        return self.database.transact(act)

    def refuse(self, account: str, tx: str, errors: Mapping[str, ApplyError], now: int, failure: str = "") -> bool:
        """Become APPLY_FAILED_CONFLICT, if only one commit of it was ever begun; whether it did. Then none is begun any
        more, and why is known to whoever asks.
        """

        def act(session: Session) -> bool:
            refused = session.run(
                "UPDATE seiche_transactions SET state = ?, updated = ? WHERE account = ? AND id = ?"
                f" AND attempts = 1 AND state IN ({numbers(_COMMITTING)}) RETURNING id",
                (int(State.APPLY_FAILED_CONFLICT), now, account, tx),
            )
            if refused:
                wants.annotate(session, account, Ending(tx, State.APPLY_FAILED_CONFLICT, 0, errors, failure))
            return bool(refused)

        return self.database.transact(act)

    def start(
        self, account: str, executing: Sequence[Record], committing: Sequence[str], now: int
    ) -> dict[str, Record]:
        """Note that commits begin, before any of them does: those of `executing` are new ones, or begun again.

        Returns all of them as they are then, with `attempts` counted if they may be committed. Whoever finds them
        later knows that only a root decides against them.
        """

        def act(session: Session) -> dict[str, Record]:
            started: dict[str, Record] = {}
            if executing:
                rows = session.run(
                    f"{INSERT}{', '.join([ROW] * len(executing))} ON CONFLICT (account, id) DO UPDATE SET"
                    " attempts = seiche_transactions.attempts"
                    f" + CASE WHEN seiche_transactions.state IN ({numbers(_COMMITTING)}) THEN 1 ELSE 0 END"
                    f" RETURNING {', '.join(COLUMNS)}",
                    [value for record in executing for value in values_of(record)],
                )
                started |= {row[1]: record_of(row) for row in rows}
            if committing:
                session.run(
                    "UPDATE seiche_transactions SET attempts = attempts + 1, updated = ?"
                    f" WHERE account = ? AND id IN ({marks(committing)})"
                    f" AND state IN ({numbers(_COMMITTING)})",
                    (now, account, *committing),
                )
                rows = session.run(
                    f"{SELECT} WHERE account = ? AND id IN ({marks(committing)})", (account, *committing)
                )
                started |= {row[1]: record_of(row) for row in rows}
            return started

        return self.database.transact(act)

    def known(self, account: str, ids: Sequence[str]) -> dict[str, Record]:
        """Those of the transactions that are remembered."""
        rows = self.database.read(
            lambda session: session.run(f"{SELECT} WHERE account = ? AND id IN ({marks(ids)})", (account, *ids))
        )
        return {row[1]: record_of(row) for row in rows}

    def failures(self, account: str, ids: Sequence[str]) -> dict[str, str]:
        """What kept those of the transactions that failed for good from being applied, as far as it was noted."""
        rows = self.database.read(
            lambda session: session.run(
                f"SELECT id, failure FROM seiche_failures WHERE account = ? AND id IN ({marks(ids)})", (account, *ids)
            )
        )
        return dict(rows)

    def note(self, records: Sequence[Record]) -> None:
        """Remember transactions, each of them once, together with how their commit ended. What is final here already
        stays as it is.
        """
        # One statement: between two of them the event loop would be let in.
        statement = f"{INSERT}{', '.join([ROW] * len(records))}{_UNLESS_FINAL}"
        values = [value for record in records for value in values_of(record)]
        self.database.transact(lambda session: session.run(statement, values))

    def keep(self, intents: Sequence[IntentRecord], now: int) -> Held | None:
        """Write all intents of a transaction that may be committed still, or none if somebody else has a target."""

        def act(session: Session) -> None:
            found = lookup(session, intents[0].account, intents[0].tx, lock=True) if intents else []
            if not found or found[0].state not in _COMMITTING:
                return
            for intent in intents:
                wants.release(session, intent.account, [intent.tx], intent.target)
            wants.write_all(session, intents, now)

        try:
            self.database.transact(act)
        except Taken as refused:
            return refused.held
        return None

    def finish(self, account: str, endings: Sequence[Ending], now: int) -> None:
        """Note how commits ended. What is final stays as it is; intents of those that were applied or aborted go."""

        def act(session: Session) -> None:
            by_fate: dict[tuple[State, int], list[str]] = {}
            for ending in endings:
                by_fate.setdefault((ending.state, ending.lake_version), []).append(ending.id)
            for (state, version), ids in by_fate.items():
                # What failed before is of no account if it was applied in the end.
                no_error = ", error_code = '', error_message = ''" if state is State.APPLIED else ""
                session.run(
                    f"UPDATE seiche_transactions SET state = ?, lake_version = ?, updated = ?{no_error}"
                    f" WHERE account = ? AND id IN ({marks(ids)}) AND state NOT IN ({numbers(FINAL)})",
                    (int(state), version, now, account, *ids),
                )
                if state in (State.APPLIED, State.ABORTED):
                    wants.release(session, account, ids)
            for ending in endings:
                wants.annotate(session, account, ending)

        self.database.transact(act)

    def intents(self, account: str, ids: Sequence[str]) -> dict[str, list[IntentRecord]]:
        """The intents of transactions, in the order of the changes that they came from."""
        return self.database.read(lambda session: wants.listed(session, account, ids)) if ids else {}

    def overdue(self, account: str, now: int, limit: int) -> list[Record]:
        """Undecided transactions whose time is up, the longest overdue first."""
        live = f"account = ? AND expires < ? AND state IN ({numbers(_LIVE)})"
        return self._listed(f"{live} ORDER BY expires LIMIT {limit}", (account, now))

    def doubtful(self, account: str, limit: int, after: Record | None = None) -> list[Record]:
        """Transactions whose commit was begun, and of which it was not noted how it ended; those behind `after`."""
        doubt = f"account = ? AND attempts > 0 AND state IN ({numbers(_COMMITTING)})"
        behind = "" if after is None else " AND (updated, id) > (?, ?)"
        values = (account,) if after is None else (account, after.updated, after.id)
        return self._listed(f"{doubt}{behind} ORDER BY updated, id LIMIT {limit}", values)

    def undecided(self, account: str, most: int) -> int:
        """How many transactions are not decided, counted up to `most`."""
        live = f"account = ? AND state IN ({numbers(_LIVE)})"
        counted = f"SELECT COUNT(*) FROM (SELECT 1 FROM seiche_transactions WHERE {live} LIMIT {most}) AS counted"
        rows = self.database.read(lambda session: session.run(counted, (account,)))
        return int(rows[0][0])

    def collect(self, before: int) -> int:
        """Forget decided transactions whose time was up before that, what belongs to none, and old keys."""

        def act(session: Session) -> int:
            gone = session.run(
                f"DELETE FROM seiche_transactions WHERE expires < ? AND state IN ({numbers(FINAL)}) RETURNING id",
                (before,),
            )
            for table, tx in (("seiche_intents", "tx"), ("seiche_failures", "id")):
                session.run(
                    f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM seiche_transactions t"
                    f" WHERE t.account = {table}.account AND t.id = {table}.{tx})"
                )
            session.run("DELETE FROM seiche_idempotency WHERE expires < ?", (before,))
            return len(gone)

        return self.database.transact(act)

    def _listed(self, condition: str, values: Sequence[Any]) -> list[Record]:
        rows = self.database.read(lambda session: session.run(f"{SELECT} WHERE {condition}", values))
        return [record_of(row) for row in rows]
