"""Other systems that keep tables in files, doing what a lake of Seiche is measured at: ten rows into one or ten tables.

All run with their defaults, which for most of them includes some attempts after a conflict. Each writer holds one
connection and appends through it, as its documentation says. None of them calls fsync for data files.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

__all__ = ["DUCKLAKES", "PEERS", "ROWS", "SCHEMA", "Transact", "database", "opened", "prepare"]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = pa.table({"id": list(range(10)), "name": [f"name {number}" for number in range(10)]}, schema=SCHEMA)

# Appends ten rows to each of the first so many tables, in one transaction.
Transact = Callable[[int], object]

# By the names that are shown. Inlined rows go into the catalog's database instead of a file.
DUCKLAKES = (
    "DuckLake on SQLite",
    "DuckLake on SQLite, inlined",
    "DuckLake on PostgreSQL",
    "DuckLake on PostgreSQL, inlined",
)
# The others have no transactions over several tables.
PEERS = (*DUCKLAKES, "delta-rs", "PyIceberg on SQLite")


@contextmanager
def database() -> Iterator[str]:
    """A PostgreSQL server, as DuckDB wants to be told about it."""
    from tests.databases import postgres

    with postgres() as address:
        parts = urlsplit(address)
        host = parse_qs(parts.query).get("host", [parts.hostname])[0]
        yield f"dbname={parts.path.strip('/')} user={parts.username} host={host}"


def prepare(name: str, folder: Path, postgres: str, tables: int) -> None:
    """Make the empty tables."""
    if name.startswith("DuckLake"):
        connection = _ducklake(name, folder, postgres)
        for number in range(tables):
            connection.execute(f"CREATE TABLE lake.t{number} (id BIGINT, name VARCHAR)")
        connection.close()
    elif name == "delta-rs":
        from deltalake import DeltaTable

        for number in range(tables):
            DeltaTable.create(str(folder / f"t{number}"), schema=SCHEMA)
    else:
        catalog = _iceberg(folder)
        catalog.create_namespace("bench")
        for number in range(tables):
            catalog.create_table(f"bench.t{number}", SCHEMA)


def opened(name: str, folder: Path, postgres: str) -> Transact:
    """What appends to tables that are there."""
    if name.startswith("DuckLake"):
        return _ducklake_writer(_ducklake(name, folder, postgres))
    return _delta_writer(folder) if name == "delta-rs" else _iceberg_writer(_iceberg(folder))


def _ducklake(name: str, folder: Path, postgres: str) -> Any:
    import duckdb

    connection = duckdb.connect()
    for extension in ("ducklake", "sqlite_scanner", "postgres_scanner"):
        # The wheels carry the extensions inside the package, where DuckDB does not look by itself.
        where = files(f"duckdb_extension_{extension}") / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{where / extension}.duckdb_extension'")
    catalog = f"postgres:{postgres}" if "PostgreSQL" in name else f"sqlite:{folder / 'catalog.sqlite'}"
    options = f"DATA_PATH '{folder / 'data'}/'"
    if "PostgreSQL" in name:
        options += f", METADATA_SCHEMA '{folder.name.replace('-', '_')}'"
    limit = 10 if "inlined" in name else 0
    connection.execute(f"ATTACH 'ducklake:{catalog}' AS lake ({options}, DATA_INLINING_ROW_LIMIT {limit})")
    connection.register("given", ROWS)
    return connection


def _ducklake_writer(connection: Any) -> Transact:
    import duckdb

    def transact(tables: int) -> None:
        connection.execute("BEGIN")
        try:
            for number in range(tables):
                connection.execute(f"INSERT INTO lake.t{number} SELECT * FROM given")
            connection.execute("COMMIT")
        except duckdb.Error:
            with suppress(duckdb.Error):  # a failed commit has ended it already
                connection.execute("ROLLBACK")
            raise

    return transact


def _delta_writer(folder: Path) -> Transact:
    from deltalake import DeltaTable, write_deltalake

    table = DeltaTable(str(folder / "t0"))
    return lambda _: write_deltalake(table, ROWS, mode="append")


def _iceberg(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("bench", uri=f"sqlite:///{folder / 'catalog.sqlite'}", warehouse=f"file://{folder / 'data'}")


def _iceberg_writer(catalog: Any) -> Transact:
    return lambda _: catalog.load_table("bench.t0").append(ROWS)
