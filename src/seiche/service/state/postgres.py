"""The service's memory in PostgreSQL: for replicas on many machines."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import Corrupt, InvalidInput, PermissionDenied, Unavailable
from seiche.service.state.connections import Connections
from seiche.service.state.database import Database, Session

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresDatabase"]

T = TypeVar("T")

# Until another server has taken over from one that is gone. It is the time that ends it, not the number.
_PATIENCE: Final = Patience(attempts=200, timeout=30.0, first_delay=0.02, longest_delay=1.0)
# So long the database waits for the next statement of a server that was stopped or cut off in the middle of a SQL
# transaction. Others wait for what it has locked; when it goes on it does it again.
_IDLE_SECONDS: Final = 10.0
_DENIED: Final = ("28", "42501")


class _PostgresSession:
    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description is not None else []


class PostgresDatabase(Database):
    """What was under way when a connection was lost is done again, over another one."""

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
        self._connections = Connections(conninfo, self._parsed)
        self._runtime = runtime

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
                return self._within(act)
            except psycopg.Error as error:
                failure = error
                state = error.sqlstate or ""
                if state.startswith(_DENIED):
                    raise PermissionDenied(f"{self.uri}: {error}", remedy="Check its user and password.") from error
                if isinstance(error, psycopg.DataError):
                    # A text with a NUL, for one, which PostgreSQL has no room for.
                    raise InvalidInput(f"the database cannot hold this: {error}", reason="text.invalid") from error
                if not state.startswith("40"):
                    self._connections.renew()
                if not _passing(error):
                    raise Corrupt(f"{self.uri}: {error}", remedy="Look at the tables named seiche_*.") from error
        raise Unavailable(f"{self.uri}: {failure}", uri=self.uri) from failure

    def close(self) -> None:
        self._connections.close()

    def _within(self, act: Callable[[Session], T]) -> T:
        with self._connections.one() as connection:
            # For this SQL transaction only: behind a pooler the next one has another backend, and this one others.
            limit = f"SET LOCAL idle_in_transaction_session_timeout = {int(_IDLE_SECONDS * 1000)}"
            connection.execute(f"BEGIN; {limit}", prepare=False)
            done = act(_PostgresSession(connection))
            connection.execute("COMMIT", prepare=False)
            return done


def _passing(error: "psycopg.Error") -> bool:
    """Whether it may work the next time: no connection, one that took too long or leads to a database that only reads
    just now, no resources, or others were in the way.
    """
    import psycopg

    state = error.sqlstate or ""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state.startswith(
        ("08", "25", "40", "53", "55", "57", "58")
    )
