"""Idempotency keys: the same request under the same key is done once, and answered the same each time."""

# ruff: noqa: S608 - statements are put together from names, numbers and question marks only

from dataclasses import dataclass
from enum import Enum
from typing import Final

from seiche.service.state.database import Database, Session

__all__ = ["LEASE_MILLIS", "TTL_MILLIS", "Claim", "KeyStore", "Verdict"]

# How long the one who works on a request keeps others from it; then it counts as dead, and they take over.
LEASE_MILLIS: Final = 30_000
TTL_MILLIS: Final = 900_000
# A lease that ends later than that was given by a clock that was wrong, and would keep others out for as long as it
# was: for hours, where the clock of a server that died has been set right since. Clocks may differ a little.
_LONGEST_LEASE: Final = 2 * LEASE_MILLIS

_THIS: Final = "account = ? AND operation = ? AND key = ?"


class Verdict(Enum):
    """What somebody who comes with a key shall do."""

    RUN = "run"
    REPLAY = "replay"
    PENDING = "pending"
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True)
class Claim:
    """One key of one account and operation, and who works on it."""

    account: str
    operation: str
    key: str
    request_hash: str
    owner: str


class KeyStore:
    """The keys in SQL. Operations are idempotent by themselves; a key makes sure that they are the same ones."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, claim: Claim, now: int) -> Verdict:
        """Begin to work on a request, unless it is done, somebody is at it, or the key stands for another one."""

        def act(session: Session) -> Verdict:
            where = (claim.account, claim.operation, claim.key)
            session.run(f"DELETE FROM seiche_idempotency WHERE {_THIS} AND expires < ?", (*where, now))
            made = session.run(
                "INSERT INTO seiche_idempotency (account, operation, key, request_hash, done, owner, lease, expires)"
                " VALUES (?, ?, ?, ?, 0, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING owner",
                (*where, claim.request_hash, claim.owner, now + LEASE_MILLIS, now + TTL_MILLIS),
            )
            if made:
                return Verdict.RUN
            rows = session.run(f"SELECT request_hash, done, owner, lease FROM seiche_idempotency WHERE {_THIS}", where)
            if not rows:
                return Verdict.PENDING
            request, done, owner, lease = rows[0]
            if request != claim.request_hash:
                return Verdict.MISMATCH
            if done:
                return Verdict.REPLAY
            if owner != claim.owner and now <= lease <= now + _LONGEST_LEASE:
                return Verdict.PENDING
            taken = session.run(
                "UPDATE seiche_idempotency SET owner = ?, lease = ?"
                f" WHERE {_THIS} AND owner = ? AND done = 0 RETURNING owner",
                (claim.owner, now + LEASE_MILLIS, *where, owner),
            )
            return Verdict.RUN if taken else Verdict.PENDING

        return self._database.transact(act)

    def done(self, claim: Claim, now: int) -> None:
        """The request has its answer, for good."""
        self._end(
            f"UPDATE seiche_idempotency SET done = 1, expires = ? WHERE {_THIS} AND owner = ?",
            (now + TTL_MILLIS,),
            claim,
        )

    def release(self, claim: Claim) -> None:
        """It has none yet: whoever comes next works on it, without waiting for the lease to run out."""
        self._end(f"UPDATE seiche_idempotency SET lease = ? WHERE {_THIS} AND owner = ? AND done = 0", (0,), claim)

    def forget(self, claim: Claim) -> None:
        """It was refused: the key may be used for another request."""
        self._end(f"DELETE FROM seiche_idempotency WHERE {_THIS} AND owner = ? AND done = 0", (), claim)

    def _end(self, statement: str, values: tuple[int, ...], claim: Claim) -> None:
        where = (claim.account, claim.operation, claim.key, claim.owner)
        self._database.transact(lambda session: session.run(statement, (*values, *where)))
