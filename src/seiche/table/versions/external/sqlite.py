"""Records in a SQLite file: the embedded manifest store."""

import os
import sqlite3
from contextlib import suppress
from typing import Any

from seiche.errors import Corrupt, PermissionDenied, SeicheError, Unavailable
from seiche.store.paths import as_uri_path
from seiche.table.versions.external.base import unclear
from seiche.table.versions.external.sql import SqlManifestStore

__all__ = ["SqliteManifestStore"]

_BUSY_SECONDS = 30.0

_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_DENIED = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_CANTOPEN})
# SQLite rolls the statement back and says so: nothing happened.
_NOTHING_HAPPENED = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT}
)


class SqliteManifestStore(SqlManifestStore):
    """For any number of processes of one machine; the file must lie on a local disk, as SQLite's locks need one.

    A returned write survives a power failure: the write-ahead log is flushed at each commit.
    """

    _parameter = ":{}"

    def __init__(
        self, path: str | os.PathLike[str], *, table: str = "manifests", timeout: float = _BUSY_SECONDS
    ) -> None:
        """The file is made at the first call if missing. A statement waits `timeout` seconds for those of others."""
        super().__init__(table)
        self._path = os.path.abspath(os.fspath(path))
        self._timeout = timeout

    @property
    def uri(self) -> str:
        return "sqlite://" + as_uri_path(self._path)

    def _execute(self, statement: str, values: dict[str, Any], *, writes: bool) -> list[Any]:
        sent = False
        with self._lock:
            try:
                connection = self._connected()
                sent = writes
                # Only when all rows are fetched is the statement over and the transaction committed.
                return connection.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise self._meaning(error, sent=sent) from error

    def _connected(self) -> sqlite3.Connection:
        held: sqlite3.Connection | None = self._held()
        if held is not None:
            return held
        connection = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            with suppress(sqlite3.OperationalError):
                # Busy at once, without waiting, if somebody else is just changing the mode: then they do it for us.
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
            # Less than FULL forgets the last commits in a power failure, and a forgotten claim has two winners.
            connection.execute("PRAGMA synchronous = FULL").fetchall()
            connection.execute(self._create).fetchall()
        except sqlite3.Error:
            connection.close()
            raise
        self._hold(connection)
        return connection

    def _meaning(self, error: sqlite3.Error, *, sent: bool) -> SeicheError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the upper bits only say more about the same
        message = f"{self.uri}: {error}"
        if code in _BROKEN:
            return Corrupt(
                message,
                remedy="Restore the file from a copy, or remove it: records are found again from"
                " the table's directory when no writer is at work.",
                uri=self.uri,
            )
        if code in _DENIED:
            return PermissionDenied(message, remedy="Check that the directory exists and may be written.", uri=self.uri)
        if code in _NOTHING_HAPPENED or not sent:
            return Unavailable(message, uri=self.uri)
        return unclear(self.uri, str(error))
