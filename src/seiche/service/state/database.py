"""One SQL transaction at a time, on SQLite or on PostgreSQL: the little that both have to do for the service."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

__all__ = ["SCHEMA", "Database", "Session"]

T = TypeVar("T")

SCHEMA: Final = (
    """
CREATE TABLE IF NOT EXISTS seiche_transactions (
  account text NOT NULL, id text NOT NULL, state integer NOT NULL,
  created bigint NOT NULL, updated bigint NOT NULL, expires bigint NOT NULL,
  base_version bigint NOT NULL, attempts integer NOT NULL, properties text NOT NULL,
  request_hash text NOT NULL, changes_hash text NOT NULL, reason text NOT NULL,
  lake_version bigint NOT NULL, error_code text NOT NULL, error_message text NOT NULL,
  PRIMARY KEY (account, id)
)
""",
    "CREATE INDEX IF NOT EXISTS seiche_transactions_expiry ON seiche_transactions (expires)",
    # What the sweep looks for every few seconds: OPEN, PREPARED or APPLY_FAILED_RETRYABLE, among very many others.
    "CREATE INDEX IF NOT EXISTS seiche_transactions_live ON seiche_transactions (expires) WHERE state IN (1, 2, 8)",
    "CREATE INDEX IF NOT EXISTS seiche_transactions_doubt ON seiche_transactions (updated) WHERE state IN (2, 8)",
    """
CREATE TABLE IF NOT EXISTS seiche_intents (
  account text NOT NULL, tx text NOT NULL, target text NOT NULL, kind text NOT NULL, blob text NOT NULL,
  exclusive integer NOT NULL, expected_version bigint, created bigint NOT NULL, position integer NOT NULL,
  error_code text, error_message text, error_at bigint, error_expected bigint, error_actual bigint, error_owner text,
  PRIMARY KEY (account, tx, target)
)
""",
    # The lock: one exclusive intent for each target.
    "CREATE UNIQUE INDEX IF NOT EXISTS seiche_intents_lock ON seiche_intents (account, target) WHERE exclusive = 1",
    """
CREATE TABLE IF NOT EXISTS seiche_idempotency (
  account text NOT NULL, operation text NOT NULL, key text NOT NULL, request_hash text NOT NULL,
  done integer NOT NULL, owner text NOT NULL, lease bigint NOT NULL, expires bigint NOT NULL,
  PRIMARY KEY (account, operation, key)
)
""",
    # All there is to say about a transaction that failed for good, for whoever asks again. A table of its own, because
    # databases of earlier releases have the others already.
    """
CREATE TABLE IF NOT EXISTS seiche_failures (
  account text NOT NULL, id text NOT NULL, failure text NOT NULL,
  PRIMARY KEY (account, id)
)
""",
    # In which lake the transactions of an account are looked up.
    "CREATE TABLE IF NOT EXISTS seiche_lakes (account text NOT NULL PRIMARY KEY, lake text NOT NULL)",
    # The newest version of that lake that a server has seen, and its root: a copy of the lake has the same id.
    """
CREATE TABLE IF NOT EXISTS seiche_roots (
  account text NOT NULL PRIMARY KEY, version bigint NOT NULL, root text NOT NULL
)
""",
)


class Session(Protocol):
    """Inside one SQL transaction. Parameters are written as question marks."""

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement; returns the rows that it gives."""
        ...


class Database(ABC):
    """Runs functions in SQL transactions.

    A function may be run again if the first time had no effect, or if it cannot be known whether it had: whatever it
    does must be right when done twice.
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """Where it is, without credentials."""

    @abstractmethod
    def transact(self, act: Callable[[Session], T]) -> T:
        """All that `act` does, or nothing. `Unavailable` if the database does not answer."""

    @abstractmethod
    def read(self, act: Callable[[Session], T]) -> T:
        """The same for what only reads."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""
