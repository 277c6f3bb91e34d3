"""Transactions and intents as rows of SQL."""

# ruff: noqa: S608 - statements are put together from names, numbers and question marks only

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from seiche.service.state.database import Session
from seiche.service.state.records import ApplyError, IntentRecord, Record
from seiche.service.states import State

__all__ = [
    "COLUMNS",
    "INSERT",
    "INTENT_COLUMNS",
    "ROW",
    "SELECT",
    "intent_of",
    "lookup",
    "marks",
    "numbers",
    "record_of",
    "values_of",
]

COLUMNS: Final = tuple(field.name for field in fields(Record))
SELECT: Final = f"SELECT {', '.join(COLUMNS)} FROM seiche_transactions"
INSERT: Final = f"INSERT INTO seiche_transactions ({', '.join(COLUMNS)}) VALUES "
ROW: Final = f"({', '.join('?' * len(COLUMNS))})"
INTENT_COLUMNS: Final = (
    "account, tx, target, kind, blob, exclusive, expected_version, created, position, "
    "error_code, error_message, error_at, error_expected, error_actual, error_owner"
)


def lookup(session: Session, account: str, tx: str, *, lock: bool = False) -> list[Record]:
    """The transaction, if there is one."""
    if lock:
        # Of two that change the same transaction the second waits. SQLite lets only one in anyway.
        session.run("UPDATE seiche_transactions SET id = id WHERE account = ? AND id = ?", (account, tx))
    rows = session.run(f"{SELECT} WHERE account = ? AND id = ?", (account, tx))
    return [record_of(row) for row in rows]


def marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def numbers(states: Iterable[State]) -> str:
    return ", ".join(str(int(state)) for state in sorted(states))


def values_of(record: Record) -> tuple[Any, ...]:
    return (
        record.account, record.id, int(record.state), record.created, record.updated, record.expires,
        record.base_version, record.attempts, _encoded(tuple(record.properties.items())), record.request_hash,
        record.changes_hash, record.reason, record.lake_version, record.error_code, record.error_message,
    )  # fmt: skip


@lru_cache(maxsize=1000)
def _encoded(properties: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(properties))


def record_of(row: Sequence[Any]) -> Record:
    values = dict(zip(COLUMNS, row, strict=True))
    return Record(**values | {"state": State(values["state"]), "properties": json.loads(values["properties"])})


def intent_of(row: Sequence[Any]) -> IntentRecord:
    account, tx, target, kind, blob, exclusive, expected, created, position, code, message, at, *rest = row
    error = None if code is None else ApplyError(code, message, at, *rest)
    return IntentRecord(account, tx, target, kind, blob, bool(exclusive), expected, created, position, error)
