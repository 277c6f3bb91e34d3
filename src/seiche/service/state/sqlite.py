"""The service's memory in a SQLite file: for any number of server processes on one machine."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, Final, TypeVar
from weakref import finalize

from seiche.errors import Corrupt, PermissionDenied, SeicheError, Unavailable
from seiche.service.state.database import SCHEMA, Database, Session

__all__ = ["SqliteDatabase"]

T = TypeVar("T")

_BUSY_SECONDS: Final = 30.0
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_DENIED: Final = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN})


class _SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()


class SqliteDatabase(Database):
    """One connection, used by one thread at a time; closed at the latest when nobody has this any more.

    The write-ahead log is not flushed at each commit: what a power failure takes from it is not decided, or is told by
    the lake.
    """

    def __init__(self, path: str) -> None:
        """`path` may be `:memory:`. The file is made at the first call if it is missing."""
        self._path = path if path == ":memory:" else os.path.abspath(path)
        self._lock = RLock()
        self._connection: sqlite3.Connection | None = None

    @property
    def uri(self) -> str:
        return f"sqlite:///{self._path.lstrip('/')}"

    def transact(self, act: Callable[[Session], T]) -> T:
        return self._within("BEGIN IMMEDIATE", act)

    def read(self, act: Callable[[Session], T]) -> T:
        return self._within("BEGIN", act)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _within(self, begin: str, act: Callable[[Session], T]) -> T:
        with self._lock:
            try:
                connection = self._connected()
                connection.execute(begin)
                try:
                    done = act(_SqliteSession(connection))
                except BaseException:
                    # If the disk is full it has done so itself.
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                if _code(error) in _BROKEN:
                    # Whoever removes the file, as is said below, does not have to start the server anew.
                    self.close()
                raise self._meaning(error) from error
            return done

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                with suppress(sqlite3.OperationalError):
                    # Busy at once if somebody else is just changing the mode: then they do it for us.
                    connection.execute("PRAGMA journal_mode = WAL").fetchall()
                connection.execute("PRAGMA synchronous = NORMAL").fetchall()
                for statement in SCHEMA:
                    connection.execute(statement)
            except sqlite3.Error:
                connection.close()
                raise
            finalize(self, connection.close).atexit = False  # a forked child must not close it for its parent
            self._connection = connection
        return self._connection

    def _meaning(self, error: sqlite3.Error) -> SeicheError:
        code = _code(error)
        message = f"{self.uri}: {error}"
        if code in _BROKEN:
            remedy = "If it is that file, remove the file: every decided transaction is in the lake. Or name another."
            return Corrupt(message, remedy=remedy, uri=self.uri)
        if code in _DENIED:
            return PermissionDenied(message, remedy="Check that the directory exists and may be written.", uri=self.uri)
        return Unavailable(message, uri=self.uri)


def _code(error: sqlite3.Error) -> int:
    """What kind of trouble it is."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
