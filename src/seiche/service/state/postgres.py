"""The service's memory in PostgreSQL: for replicas on many machines."""

import re
from collections.abc import Callable, Sequence
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import Corrupt, InvalidInput, PermissionDenied, Unavailable
from seiche.service.state.database import SCHEMA, Database, Session

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresDatabase"]

T = TypeVar("T")

_PATIENCE: Final = Patience(attempts=20, timeout=30.0, first_delay=0.02, longest_delay=1.0)
_CONNECT_SECONDS: Final = 10
# So long the database waits for the next statement of a server that was stopped or cut off in the middle of a SQL
# transaction. Others wait for what it has locked; when it goes on it does it again.
_IDLE_SECONDS: Final = 10.0
# Whoever makes the tables; two that make the same one at the same time get in each other's way.
_MAKING: Final = 0x5E1C4E
_NAME: Final = re.compile(r"IF NOT EXISTS (\w+)")
_DENIED: Final = ("28", "42501")


class _PostgresSession:
    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description is not None else []


class PostgresDatabase(Database):
    """A connection for each thread. One that is lost is made again, and what was under way on it is done again."""

    def __init__(self, conninfo: str, *, runtime: Runtime = SYSTEM) -> None:
        """`conninfo` is a `postgresql://` address; the first call connects."""
        try:
            import psycopg.conninfo
        except ImportError as error:
            raise InvalidInput(
                "PostgreSQL needs the package psycopg", remedy='Install it with pip install "seiche[postgres]".'
            ) from error
        try:
            self._parsed: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(conninfo)
        except psycopg.Error:
            # Not chained and not quoted: the text of the error repeats the address, and the password in it.
            raise InvalidInput(
                "the address of the database cannot be read", remedy="Write postgresql://USER@HOST:PORT/DATABASE."
            ) from None
        self._conninfo = conninfo
        self._runtime = runtime
        self._threads = local()
        self._lock = Lock()
        self._all: list[psycopg.Connection[Any]] = []

    @property
    def uri(self) -> str:
        return f"postgresql://{self._parsed.get('host', '')}/{self._parsed.get('dbname', '')}"

    def read(self, act: Callable[[Session], T]) -> T:
        return self.transact(act)

    def transact(self, act: Callable[[Session], T]) -> T:
        import psycopg

        failure: psycopg.Error | None = None
        for _ in _PATIENCE.tries(self._runtime):
            try:
                connection = self._connected()
                with connection.transaction():
                    return act(_PostgresSession(connection))
            except psycopg.Error as error:
                failure = error
                state = error.sqlstate or ""
                if state.startswith(_DENIED):
                    raise PermissionDenied(f"{self.uri}: {error}", remedy="Check its user and password.") from error
                if isinstance(error, psycopg.DataError):
                    # A text with a NUL, for one, which PostgreSQL has no room for.
                    raise InvalidInput(f"the database cannot hold this: {error}", reason="text.invalid") from error
                if not _passing(error):
                    raise Corrupt(f"{self.uri}: {error}", remedy="Look at the tables named seiche_*.") from error
                if not state.startswith("40"):
                    self._forget()
        raise Unavailable(f"{self.uri}: {failure}", uri=self.uri) from failure

    def close(self) -> None:
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
        self._threads = local()

    def _connected(self) -> "psycopg.Connection[Any]":
        import psycopg

        held: psycopg.Connection[Any] | None = getattr(self._threads, "connection", None)
        if held is not None and not held.closed:
            return held
        made = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=_CONNECT_SECONDS)
        try:
            made.execute(f"SET idle_in_transaction_session_timeout = {int(_IDLE_SECONDS * 1000)}")
            _make_tables(made)
        except psycopg.Error:
            made.close()
            raise
        self._threads.connection = made
        with self._lock:
            self._all.append(made)
        return made

    def _forget(self) -> None:
        held: psycopg.Connection[Any] | None = getattr(self._threads, "connection", None)
        self._threads.connection = None
        if held is not None:
            held.close()
            with self._lock:
                self._all = [one for one in self._all if one is not held]


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


def _passing(error: "psycopg.Error") -> bool:
    """Whether it may work the next time: no connection, one that took too long or leads to a database that only reads
    just now, no resources, or others were in the way.
    """
    import psycopg

    state = error.sqlstate or ""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state.startswith(
        ("08", "25", "40", "53", "55", "57", "58")
    )
