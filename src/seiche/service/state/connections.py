"""A few connections to PostgreSQL that all threads of a server share."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, Final

from seiche.errors import Unavailable
from seiche.service.state.database import SCHEMA

if TYPE_CHECKING:
    import psycopg

__all__ = ["Connections"]

# PostgreSQL takes a hundred by itself, of all servers. One for each thread of two of them would be more.
_MOST: Final = 16
_TURN_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 10
# A statement that is run so often over one connection is prepared from then on.
_OFTEN: Final = 5
# A machine that is gone says nothing. The system would wait a quarter of an hour for it, or two hours.
_SIGNS: Final[dict[str, Any]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
# Whoever makes the tables; two that make the same one at the same time get in each other's way.
_MAKING: Final = 0x5E1C4E
_NAME: Final = re.compile(r"IF NOT EXISTS (\w+)")


class Connections:
    """Connections to one database, made when they are needed. Whoever finds all of them in use waits for one.

    Behind them may be a pooler that gives each SQL transaction to another backend. Then no statement is prepared: that
    backend would not know it, or know another one by its name.
    """

    def __init__(self, conninfo: str, parsed: dict[str, Any]) -> None:
        self._conninfo = conninfo
        self._signs = {name: value for name, value in _SIGNS.items() if name not in parsed}
        self._turns = BoundedSemaphore(_MOST)
        self._lock = Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._used: set[psycopg.Connection[Any]] = set()

    @contextmanager
    def one(self) -> Iterator["psycopg.Connection[Any]"]:
        """One of them, for as long as the block, after which nothing is left of a SQL transaction that did not end.

        `Unavailable` if none is free for very long.
        """
        if not self._turns.acquire(timeout=_TURN_SECONDS):
            raise Unavailable(f"the database has not answered {_MOST} questions for {_TURN_SECONDS:g} s")
        try:
            connection = self._taken()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._turns.release()

    def renew(self) -> None:
        """Let go of those that nobody uses: they may lead to where the one led that has failed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Let go of all of them, also of those in use."""
        self.renew()
        with self._lock:
            used = [*self._used]
        for connection in used:
            connection.close()

    def _taken(self) -> "psycopg.Connection[Any]":
        with self._lock:
            held = self._idle.pop() if self._idle else None
        connection = held or self._made()
        with self._lock:
            self._used.add(connection)
        return connection

    def _made(self) -> "psycopg.Connection[Any]":
        import psycopg

        made = psycopg.connect(
            self._conninfo,
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=_CONNECT_SECONDS,
            **self._signs,
        )
        try:
            if not _pooled(made):
                made.prepare_threshold = _OFTEN
            _make_tables(made)
        except BaseException:
            made.close()
            raise
        return made

    def _give_back(self, connection: "psycopg.Connection[Any]") -> None:
        import psycopg

        idle = psycopg.pq.TransactionStatus.IDLE
        with suppress(psycopg.Error):
            connection.rollback()
        sound = connection.info.transaction_status is idle
        with self._lock:
            self._used.discard(connection)
            if sound:
                self._idle.append(connection)
        if not sound:
            connection.close()


def _pooled(connection: "psycopg.Connection[Any]") -> bool:
    """Whether it leads to a pooler, which presents itself as a backend that is not the one that answers."""
    return connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,)


def _make_tables(connection: "psycopg.Connection[Any]") -> None:
    """Make tables and indices, unless all of them are there: whoever makes one again waits for everybody who writes,
    and keeps out all others meanwhile.
    """
    names = [_NAME.findall(statement)[0] for statement in SCHEMA]
    there = "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%s::text[]) AS name"
    if connection.execute(there, (names,)).fetchone() == (True,):
        return
    with connection.transaction():
        connection.execute(f"SELECT pg_advisory_xact_lock({_MAKING})")
        for statement in SCHEMA:
            connection.execute(statement)
