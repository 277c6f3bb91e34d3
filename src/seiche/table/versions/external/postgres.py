"""Records in a PostgreSQL database."""

from typing import TYPE_CHECKING, Any

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.table.versions.external.base import unclear
from seiche.table.versions.external.sql import SqlManifestStore

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresManifestStore"]

# What the server says (SQLSTATE; a shorter one stands for its whole class), and what that means here.
_NO_TABLE = "42P01"
_MADE_MEANWHILE = frozenset({"23505", "42710", "42P07"})
_ROLLED_BACK = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_NOT_NOW = ("25006", "53", "55P03", "57014")  # a standby, no resources, lock or statement timeout: rolled back, too
_DENIED = ("28", "42501")
# Or going, or the server is in trouble or (40003, of databases made of several servers) cannot say: how far it came is
# not known.
_CONNECTION_LOST = ("08", "40003", "57P", "58", "XX")

_PATIENCE = Patience(attempts=10, timeout=30.0)
_CONNECT_SECONDS = 10

# A server may be set to answer before a commit is on disk. A claim that it forgets in a crash has two winners.
_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


class PostgresManifestStore(SqlManifestStore):
    """For writers on many machines. The database table is made at the first write if it is missing.

    A replica that takes over without the last commits has forgotten claims: replicate synchronously.
    """

    _parameter = "%({})s"

    def __init__(self, conninfo: str, *, table: str = "seiche_manifests", runtime: Runtime = SYSTEM) -> None:
        """`conninfo` is a `postgresql://` address or libpq's key-value form; the first call connects."""
        super().__init__(table)
        self._conninfo = _parsed(conninfo)
        self._runtime = runtime

    @property
    def uri(self) -> str:
        return f"postgresql://{self._conninfo.get('host', '')}/{self._conninfo.get('dbname', '')}"

    def _execute(self, statement: str, values: dict[str, Any], *, writes: bool) -> list[Any]:
        """Run one statement, again only where it certainly had no effect; a lost write is the caller's to settle."""
        import psycopg

        failure: psycopg.Error | None = None
        with self._lock:
            for _ in _PATIENCE.tries(self._runtime):
                connection = self._connected()
                try:
                    return connection.execute(statement, values).fetchall()
                except psycopg.Error as error:
                    failure = error
                if failure.sqlstate == _NO_TABLE:
                    if not writes:
                        return []
                    self._make_table(connection)
                elif failure.sqlstate not in _ROLLED_BACK and (writes or not connection.closed):
                    break
        raise self._meaning(failure, sent=writes) from failure

    def _connected(self) -> "psycopg.Connection[Any]":
        import psycopg

        held: psycopg.Connection[Any] | None = self._held()
        if held is not None and not held.closed:
            return held
        self._connection = None
        try:
            # Without prepared statements, which poolers that switch servers between transactions would mix up.
            opened = psycopg.connect(**self._conninfo, autocommit=True, prepare_threshold=None)
            self._hold(opened)
            opened.execute(_DURABLE)
        except psycopg.Error as error:
            raise self._meaning(error, sent=False) from error
        return opened

    def _make_table(self, connection: "psycopg.Connection[Any]") -> None:
        import psycopg

        try:
            connection.execute(self._create)
        except psycopg.Error as error:
            if error.sqlstate not in _MADE_MEANWHILE:
                raise self._meaning(error, sent=False) from error

    def _meaning(self, error: "psycopg.Error | None", *, sent: bool) -> SeicheError:
        state = (error and error.sqlstate) or ""
        message = f"{self.uri}: {error}"
        if state.startswith(_DENIED):
            return PermissionDenied(message, remedy="Check the user and its grants.", uri=self.uri, sqlstate=state)
        if state in _ROLLED_BACK or state == _NO_TABLE or state.startswith(_NOT_NOW):
            return Unavailable(message, uri=self.uri, sqlstate=state)
        if not state or state.startswith(_CONNECTION_LOST):
            return unclear(self.uri, str(error)) if sent else Unavailable(message, uri=self.uri, sqlstate=state)
        return InvalidInput(
            message,
            remedy="The database or its table is not as expected; see the SQLSTATE.",
            uri=self.uri,
            sqlstate=state,
        )


def _parsed(conninfo: str) -> dict[str, Any]:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise InvalidInput(
            "a manifest store in PostgreSQL needs the library psycopg",
            remedy='Install it with pip install "seiche[postgres]".',
        ) from error
    try:
        return {"connect_timeout": _CONNECT_SECONDS} | conninfo_to_dict(conninfo)
    except psycopg.Error:
        # Not chained and not quoted: the text of the error repeats the address, and the password in it.
        raise InvalidInput(
            "the address of the PostgreSQL server cannot be read",
            remedy="Write postgresql://USER@HOST:PORT/DATABASE.",
        ) from None
