"""From an address to a database."""

from urllib.parse import unquote

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.service.state.database import Database

__all__ = ["open_database"]


def open_database(address: str, *, runtime: Runtime = SYSTEM) -> Database:
    """The database at `sqlite:///path`, `sqlite://` (in memory) or `postgresql://...`."""
    if address.startswith("sqlite://"):
        from seiche.service.state.sqlite import SqliteDatabase

        path = unquote(address.removeprefix("sqlite://"))
        return SqliteDatabase(path or ":memory:")
    if address.startswith(("postgresql://", "postgres://")):
        from seiche.service.state.postgres import PostgresDatabase

        return PostgresDatabase(address, runtime=runtime)
    raise InvalidInput(
        f"{address!r} is not the address of a state store",
        remedy="Write sqlite:///path/to/file.db or postgresql://user@host/database.",
    )
