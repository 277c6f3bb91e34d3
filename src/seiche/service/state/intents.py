"""Intents in SQL: what transactions want, and the locks among that. Each function is a part of one SQL transaction."""

# ruff: noqa: S608 - statements are put together from names, numbers and question marks only

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seiche.service.state.database import Session
from seiche.service.state.records import ApplyError, IntentRecord
from seiche.service.state.rows import INTENT_COLUMNS, intent_of, lookup, marks
from seiche.service.states import State

__all__ = ["Ending", "Held", "Taken", "annotate", "listed", "release", "write_all"]


@dataclass(frozen=True, slots=True)
class Held:
    """Why intents could not be written: another transaction, alive, has the target."""

    target: str
    owner: str
    since: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How one transaction's commit ended. Errors are by target; `""` stands for all of them.

    `failure` is all that there is to say about what kept it from being applied for good, as a text.
    """

    id: str
    state: State
    lake_version: int = 0
    errors: Mapping[str, ApplyError] | None = None
    failure: str = ""


class Taken(Exception):
    """Leaves the SQL transaction, which undoes the intents written so far."""

    def __init__(self, held: Held) -> None:
        super().__init__()
        self.held = held


def write_all(session: Session, intents: Sequence[IntentRecord], now: int) -> None:
    """Write intents in the order of their targets: of two that want the same ones none waits for the other.

    Raises `Taken` if another transaction, alive, has a target; those of owners that are not are taken over.
    """
    for intent in sorted(intents, key=lambda one: one.target):
        held = _written(session, intent, now)
        if held is not None:
            raise Taken(held)


def listed(session: Session, account: str, ids: Sequence[str]) -> dict[str, list[IntentRecord]]:
    """The intents of transactions, in the order of the changes that they came from."""
    rows = session.run(
        f"SELECT {INTENT_COLUMNS} FROM seiche_intents WHERE account = ? AND tx IN ({marks(ids)}) ORDER BY position",
        (account, *ids),
    )
    all_of: dict[str, list[IntentRecord]] = {}
    for row in rows:
        all_of.setdefault(row[1], []).append(intent_of(row))
    return all_of


def release(session: Session, account: str, ids: Sequence[str], target: str | None = None) -> None:
    """Let go of what transactions want, or of one target."""
    one = "" if target is None else " AND target = ?"
    session.run(
        f"DELETE FROM seiche_intents WHERE account = ? AND tx IN ({marks(ids)}){one}",
        (account, *ids, *([] if target is None else [target])),
    )


def annotate(session: Session, account: str, ending: Ending) -> None:
    """Write on the transaction and its intents why they failed, if they did and it did not end otherwise meanwhile."""
    if not ending.errors:
        return
    common = ending.errors.get("") or next(iter(ending.errors.values()))
    failed = session.run(
        "UPDATE seiche_transactions SET error_code = ?, error_message = ? WHERE account = ? AND id = ? AND state = ?"
        " RETURNING id",
        (common.code, common.message, account, ending.id, int(ending.state)),
    )
    if not failed:
        return
    if ending.failure:
        session.run(
            "INSERT INTO seiche_failures (account, id, failure) VALUES (?, ?, ?) ON CONFLICT (account, id)"
            " DO UPDATE SET failure = excluded.failure",
            (account, ending.id, ending.failure),
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


def _written(session: Session, intent: IntentRecord, now: int) -> Held | None:
    """Write one intent, or say who has its target."""
    values = (
        intent.account, intent.tx, intent.target, intent.kind, intent.blob, int(intent.exclusive),
        intent.expected_version, intent.created, intent.position, None, None, None, None, None, None,
    )  # fmt: skip
    for _ in range(3):
        made = session.run(
            f"INSERT INTO seiche_intents ({INTENT_COLUMNS}) VALUES ({marks(values)})"
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
        holding = lookup(session, intent.account, owner[0][0])
        if holding and not holding[0].final and not holding[0].expired(now):
            return Held(intent.target, owner[0][0], owner[0][1])
        _take_over(session, intent, owner[0][0], now, decided=bool(holding) and holding[0].final)
    return Held(intent.target, "", now)


def _take_over(session: Session, intent: IntentRecord, owner: str, now: int, *, decided: bool) -> None:
    """Take a target from a transaction that is decided, or whose time is up.

    From the latter all of them: a server whose clock is behind may commit it still, and must not find a part of it.
    """
    release(session, intent.account, [owner], intent.target if decided else None)
    if not decided:
        session.run(
            "UPDATE seiche_transactions SET state = ?, updated = ?, reason = ?"
            " WHERE account = ? AND id = ? AND attempts = 0 AND state = ?",
            (int(State.ABORTED), now, "expired", intent.account, owner, int(State.PREPARED)),
        )
