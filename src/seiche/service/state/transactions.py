"""Transactions and their intents in SQL: every method is one SQL transaction."""

# ruff: noqa: S608 - statements are put together from names, numbers and question marks only

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

from seiche.service.state.database import Database, Session
from seiche.service.state.records import ApplyError, IntentRecord, Record
from seiche.service.states import FINAL, State

__all__ = ["Ending", "Held", "TransactionStore"]

_COLUMNS: Final = tuple(field.name for field in fields(Record))
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM seiche_transactions"
_INSERT: Final = f"INSERT INTO seiche_transactions ({', '.join(_COLUMNS)}) VALUES "
_ROW: Final = f"({', '.join('?' * len(_COLUMNS))})"
_ENDING: Final = ("state", "updated", "lake_version", "attempts", "error_code", "error_message")
_INTENT_COLUMNS: Final = (
    "account, tx, target, kind, blob, exclusive, expected_version, created, position, "
    "error_code, error_message, error_at, error_expected, error_actual, error_owner"
)
_LIVE: Final = (State.OPEN, State.PREPARED, State.APPLY_FAILED_RETRYABLE)
_COMMITTING: Final = (State.PREPARED, State.APPLY_FAILED_RETRYABLE)
# For a transaction that was decided before it was written down.
_NOTE: Final = (
    f"{_INSERT}{_ROW} ON CONFLICT (account, id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _ENDING)
    + f" WHERE seiche_transactions.state NOT IN ({', '.join(str(int(state)) for state in sorted(FINAL))})"
)


@dataclass(frozen=True, slots=True)
class Held:
    """Why intents could not be written: another transaction, alive, has the target."""

    target: str
    owner: str
    since: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How one transaction's commit ended. Errors are by target; `""` stands for all of them."""

    id: str
    state: State
    lake_version: int = 0
    errors: Mapping[str, ApplyError] | None = None


class TransactionStore:
    """Any number of servers may use the same database: what two of them do at once, one of them did first."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def insert(self, record: Record) -> Record:
        """Remember a new transaction; if there is one of this id already, that one is returned, unchanged."""

        def act(session: Session) -> Record:
            session.run(f"{_INSERT}{_ROW} ON CONFLICT (account, id) DO NOTHING", _values(record))
            (row,) = session.run(f"{_SELECT} WHERE account = ? AND id = ?", (record.account, record.id))
            return _record(row)

        return self.database.transact(act)

    def get(self, account: str, tx: str) -> Record | None:
        rows = self.database.read(lambda session: _found(session, account, tx))
        return rows[0] if rows else None

    def prepare(self, record: Record, intents: Sequence[IntentRecord], now: int) -> Record | Held:
        """Write all intents and become PREPARED, or do nothing.

        Intents are written in the order of their targets, so that of two that want the same ones the first wins and
        none waits for the other. Exclusive ones of owners that are gone, decided or out of time are taken over.
        """

        def act(session: Session) -> Record | Held:
            found = _found(session, record.account, record.id, lock=True)
            if not found or found[0].state is not State.OPEN:
                return found[0] if found else record
            # What an earlier prepare of the same transaction left.
            session.run("DELETE FROM seiche_intents WHERE account = ? AND tx = ?", (record.account, record.id))
            for intent in sorted(intents, key=lambda one: one.target):
                held = _written(session, intent, now)
                if held is not None:
                    raise _Refused(held)
            session.run(
                "UPDATE seiche_transactions SET state = ?, updated = ?, changes_hash = ?, properties = ?"
                " WHERE account = ? AND id = ?",
                (
                    int(State.PREPARED),
                    now,
                    record.changes_hash,
                    json.dumps(dict(record.properties)),
                    record.account,
                    record.id,
                ),
            )
            return replace(record, state=State.PREPARED, updated=now)

        try:
            return self.database.transact(act)
        except _Refused as refused:
            return refused.held

    def reserve(self, record: Record, name: str, value: str, now: int) -> str:
        """Set a property of an open transaction if it has none of this name; returns the one that it has then."""

        def act(session: Session) -> str:
            (found,) = _found(session, record.account, record.id, lock=True)
            properties = dict(found.properties)
            kept = properties.setdefault(name, value)
            if name not in found.properties and found.state is State.OPEN:
                session.run(
                    "UPDATE seiche_transactions SET properties = ?, updated = ? WHERE account = ? AND id = ?",
                    (json.dumps(properties), now, record.account, record.id),
                )
            return kept

        return self.database.transact(act)

    def abandon(self, account: str, tx: str, now: int, reason: str = "") -> Record | None:
        """Become ABORTED, if it is undecided and no commit of it was ever begun. The intents go with it.

        Returns it as it is then; still undecided means that only a root can tell.
        """

        def act(session: Session) -> Record | None:
            session.run(
                "UPDATE seiche_transactions SET state = ?, updated = ?, reason = ?"
                f" WHERE account = ? AND id = ? AND attempts = 0 AND state IN ({_marks(_LIVE)})",
                (int(State.ABORTED), now, reason, account, tx, *map(int, _LIVE)),
            )
            found = _found(session, account, tx)
            if found and found[0].state is State.ABORTED:
                _release(session, account, [tx])
            return found[0] if found else None

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
                    f"{_INSERT}{', '.join([_ROW] * len(executing))} ON CONFLICT (account, id) DO UPDATE SET"
                    " attempts = seiche_transactions.attempts"
                    f" + CASE WHEN seiche_transactions.state IN ({_numbers(_COMMITTING)}) THEN 1 ELSE 0 END"
                    f" RETURNING {', '.join(_COLUMNS)}",
                    [value for record in executing for value in _values(record)],
                )
                started |= {row[1]: _record(row) for row in rows}
            if committing:
                session.run(
                    "UPDATE seiche_transactions SET attempts = attempts + 1, updated = ?"
                    f" WHERE account = ? AND id IN ({_marks(committing)})"
                    f" AND state IN ({_numbers(_COMMITTING)})",
                    (now, account, *committing),
                )
                rows = session.run(
                    f"{_SELECT} WHERE account = ? AND id IN ({_marks(committing)})", (account, *committing)
                )
                started |= {row[1]: _record(row) for row in rows}
            return started

        return self.database.transact(act)

    def known(self, account: str, ids: Sequence[str]) -> dict[str, Record]:
        """Those of the transactions that are remembered."""
        rows = self.database.read(
            lambda session: session.run(f"{_SELECT} WHERE account = ? AND id IN ({_marks(ids)})", (account, *ids))
        )
        return {row[1]: _record(row) for row in rows}

    def note(self, records: Sequence[Record]) -> None:
        """Remember transactions together with how their commit ended. What is final here already stays as it is."""
        self.database.transact(lambda session: session.run_many(_NOTE, [_values(record) for record in records]))

    def keep(self, intents: Sequence[IntentRecord], now: int) -> Held | None:
        """Write all intents of a transaction that may be committed still, or none if somebody else has a target."""

        def act(session: Session) -> None:
            found = _found(session, intents[0].account, intents[0].tx, lock=True) if intents else []
            if not found or found[0].state not in _COMMITTING:
                return
            for intent in sorted(intents, key=lambda one: one.target):
                session.run(
                    "DELETE FROM seiche_intents WHERE account = ? AND tx = ? AND target = ?",
                    (intent.account, intent.tx, intent.target),
                )
                held = _written(session, intent, now)
                if held is not None:
                    raise _Refused(held)

        try:
            self.database.transact(act)
        except _Refused as refused:
            return refused.held
        return None

    def finish(self, account: str, endings: Sequence[Ending], now: int) -> None:
        """Note how commits ended. What is final stays as it is; intents of those that were applied or aborted go."""

        def act(session: Session) -> None:
            by_fate: dict[tuple[State, int], list[str]] = {}
            for ending in endings:
                by_fate.setdefault((ending.state, ending.lake_version), []).append(ending.id)
            for (state, version), ids in by_fate.items():
                session.run(
                    "UPDATE seiche_transactions SET state = ?, lake_version = ?, updated = ?"
                    f" WHERE account = ? AND id IN ({_marks(ids)}) AND state NOT IN ({_numbers(FINAL)})",
                    (int(state), version, now, account, *ids),
                )
                if state in (State.APPLIED, State.ABORTED):
                    _release(session, account, ids)
            for ending in endings:
                _annotate(session, account, ending)

        self.database.transact(act)

    def intents(self, account: str, ids: Sequence[str]) -> dict[str, list[IntentRecord]]:
        """The intents of transactions, in the order of the changes that they came from."""
        if not ids:
            return {}
        rows = self.database.read(
            lambda session: session.run(
                f"SELECT {_INTENT_COLUMNS} FROM seiche_intents WHERE account = ? AND tx IN ({_marks(ids)})"
                " ORDER BY position",
                (account, *ids),
            )
        )
        found: dict[str, list[IntentRecord]] = {}
        for row in rows:
            found.setdefault(row[1], []).append(_intent(row))
        return found

    def overdue(self, now: int, limit: int) -> list[Record]:
        """Undecided transactions of all accounts whose time is up, the longest overdue first."""
        return self._listed(f"expires < ? AND state IN ({_numbers(_LIVE)}) ORDER BY expires LIMIT {limit}", (now,))

    def doubtful(self, limit: int) -> list[Record]:
        """Transactions whose commit was begun, and of which it was not noted how it ended."""
        return self._listed(f"attempts > 0 AND state IN ({_numbers(_COMMITTING)}) ORDER BY updated LIMIT {limit}", ())

    def collect(self, before: int) -> int:
        """Forget decided transactions whose time was up before that, intents without an owner, and old keys."""

        def act(session: Session) -> int:
            gone = session.run(
                f"DELETE FROM seiche_transactions WHERE expires < ? AND state IN ({_numbers(FINAL)}) RETURNING id",
                (before,),
            )
            session.run(
                "DELETE FROM seiche_intents WHERE NOT EXISTS (SELECT 1 FROM seiche_transactions t"
                " WHERE t.account = seiche_intents.account AND t.id = seiche_intents.tx)"
            )
            session.run("DELETE FROM seiche_idempotency WHERE expires < ?", (before,))
            return len(gone)

        return self.database.transact(act)

    def _listed(self, condition: str, values: Sequence[Any]) -> list[Record]:
        rows = self.database.read(lambda session: session.run(f"{_SELECT} WHERE {condition}", values))
        return [_record(row) for row in rows]


class _Refused(Exception):
    """Leaves the SQL transaction, which undoes the intents written so far."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held


def _found(session: Session, account: str, tx: str, *, lock: bool = False) -> list[Record]:
    if lock:
        # Of two that change the same transaction the second waits. SQLite lets only one in anyway.
        session.run("UPDATE seiche_transactions SET id = id WHERE account = ? AND id = ?", (account, tx))
    rows = session.run(f"{_SELECT} WHERE account = ? AND id = ?", (account, tx))
    return [_record(row) for row in rows]


def _written(session: Session, intent: IntentRecord, now: int) -> Held | None:
    """Write one intent, or say who has its target."""
    values = (
        intent.account, intent.tx, intent.target, intent.kind, intent.blob, int(intent.exclusive),
        intent.expected_version, intent.created, intent.position, None, None, None, None, None, None,
    )  # fmt: skip
    for _ in range(3):
        made = session.run(
            f"INSERT INTO seiche_intents ({_INTENT_COLUMNS}) VALUES ({_marks(values)})"
            " ON CONFLICT DO NOTHING RETURNING tx",
            values,
        )
        if made:
            return None
        owner = session.run(
            "SELECT tx, created FROM seiche_intents WHERE account = ? AND target = ? AND exclusive = 1",
            (intent.account, intent.target),
        )
        if not owner:
            continue
        holding = _found(session, intent.account, owner[0][0])
        if holding and not holding[0].final and not holding[0].expired(now):
            return Held(intent.target, owner[0][0], owner[0][1])
        session.run(
            "DELETE FROM seiche_intents WHERE account = ? AND target = ? AND tx = ?",
            (intent.account, intent.target, owner[0][0]),
        )
    return Held(intent.target, "", now)


def _release(session: Session, account: str, ids: Sequence[str]) -> None:
    session.run(
        f"DELETE FROM seiche_intents WHERE account = ? AND tx IN ({_marks(ids)})",
        (account, *ids),
    )


def _annotate(session: Session, account: str, ending: Ending) -> None:
    if not ending.errors:
        return
    common = ending.errors.get("") or next(iter(ending.errors.values()))
    session.run(
        "UPDATE seiche_transactions SET error_code = ?, error_message = ? WHERE account = ? AND id = ?",
        (common.code, common.message, account, ending.id),
    )
    for target, error in sorted(ending.errors.items()):
        one = " AND target = ?" if target else ""
        session.run(
            "UPDATE seiche_intents SET error_code = ?, error_message = ?, error_at = ?, error_expected = ?,"
            f" error_actual = ?, error_owner = ? WHERE account = ? AND tx = ?{one}",
            (
                error.code, error.message, error.at, error.expected_version, error.actual_version,
                error.conflict_owner, account, ending.id, *([target] if target else []),
            ),
        )  # fmt: skip


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _numbers(states: Iterable[State]) -> str:
    return ", ".join(str(int(state)) for state in sorted(states))


def _values(record: Record) -> tuple[Any, ...]:
    return (
        record.account, record.id, int(record.state), record.created, record.updated, record.expires,
        record.base_version, record.attempts, _encoded(tuple(record.properties.items())), record.request_hash,
        record.changes_hash, record.reason, record.lake_version, record.error_code, record.error_message,
    )  # fmt: skip


@lru_cache(maxsize=1000)
def _encoded(properties: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(properties))


def _record(row: Sequence[Any]) -> Record:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Record(**values | {"state": State(values["state"]), "properties": json.loads(values["properties"])})


def _intent(row: Sequence[Any]) -> IntentRecord:
    account, tx, target, kind, blob, exclusive, expected, created, position, code, message, at, *rest = row
    error = None if code is None else ApplyError(code, message, at, *rest)
    return IntentRecord(account, tx, target, kind, blob, bool(exclusive), expected, created, position, error)
