"""Records as rows: the statements that SQLite and PostgreSQL share."""

import os
from abc import abstractmethod
from contextlib import suppress
from threading import Lock
from typing import Any, ClassVar

from seiche.errors import InvalidInput
from seiche.table.versions.external.base import ManifestStore, lost, not_there
from seiche.table.versions.external.records import ManifestRecord

__all__ = ["SqlManifestStore"]

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
  base_uri text NOT NULL, version bigint NOT NULL, path text NOT NULL, size bigint NOT NULL, e_tag text,
  PRIMARY KEY (base_uri, version)
)
"""
_GET = "SELECT version, path, size, e_tag FROM {table} WHERE base_uri = {base_uri} AND version = {version}"
_LATEST = """
SELECT version, path, size, e_tag FROM {table} WHERE base_uri = {base_uri} ORDER BY version DESC LIMIT 1
"""
# One statement, so that the look at later versions and the insertion cannot be parted by a crash or by somebody else.
_INSERT = """
INSERT INTO {table} (base_uri, version, path, size, e_tag)
SELECT {base_uri}, {version}, {path}, {size}, {e_tag}
WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE base_uri = {base_uri} AND version > {version})
ON CONFLICT DO NOTHING
RETURNING version
"""
_UPDATE = """
UPDATE {table} SET path = {path}, size = {size}, e_tag = {e_tag}
WHERE base_uri = {base_uri} AND version = {version} AND path IN ({replacing}, {path})
RETURNING version
"""
_DELETE = "DELETE FROM {table} WHERE base_uri = {base_uri} AND version = {version} RETURNING version"

# Types are written out because PostgreSQL cannot guess those of a parameter that only stands in a SELECT list.
_TYPES = {
    "base_uri": "text",
    "version": "bigint",
    "path": "text",
    "size": "bigint",
    "e_tag": "text",
    "replacing": "text",
}


class SqlManifestStore(ManifestStore):
    """What the SQL stores have in common: each call is one statement in a transaction of its own."""

    # How the database writes a named parameter.
    _parameter: ClassVar[str]

    def __init__(self, table: str) -> None:
        """`table` is the name of the database table."""
        if not table.isidentifier():
            raise InvalidInput(f"{table!r} cannot be the name of a database table", remedy="Use letters and digits.")
        marks = {name: f"CAST({self._parameter.format(name)} AS {kind})" for name, kind in _TYPES.items()}
        self._create, self._get, self._latest, self._insert, self._update, self._delete = (
            statement.format(table=f'"{table}"', **marks)
            for statement in (_CREATE, _GET, _LATEST, _INSERT, _UPDATE, _DELETE)
        )
        self._lock = Lock()
        self._connection: Any = None
        # The process that the connection belongs to, and connections of the one that it was forked from.
        self._owner = 0
        self._inherited: list[Any] = []

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def _held(self) -> Any:
        """The connection of this process, if it has one."""
        if self._connection is not None and self._owner != os.getpid():
            # A connection must not be used by a forked child, nor closed by it.
            self._inherited.append(self._connection)
            self._connection = None
        return self._connection

    def _hold(self, connection: Any) -> None:
        self._connection, self._owner = connection, os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        # A connection belongs to its process.
        return {**vars(self), "_connection": None, "_owner": 0, "_inherited": [], "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def __del__(self) -> None:
        # Tables are not closed by their users, so neither is what they hold; the libraries complain about that.
        with suppress(Exception):
            self.close()

    @abstractmethod
    def _execute(self, statement: str, values: dict[str, Any], *, writes: bool) -> list[Any]:
        """Run a statement, durably if it `writes`, and return its rows. `Unavailable` if it cannot be run now,
        `CommitUnknown` if what it writes may be there all the same.
        """

    def _read(self, statement: str, values: dict[str, Any]) -> list[Any]:
        return self._execute(statement, values, writes=False)

    def _write(self, statement: str, values: dict[str, Any]) -> list[Any]:
        return self._execute(statement, values, writes=True)

    def get(self, base_uri: str, version: int) -> ManifestRecord | None:
        return _first(self._read(self._get, {"base_uri": base_uri, "version": version}))

    def get_latest(self, base_uri: str) -> ManifestRecord | None:
        return _first(self._read(self._latest, {"base_uri": base_uri}))

    def put_if_absent(self, base_uri: str, record: ManifestRecord) -> None:
        if not self._write(self._insert, _values(base_uri, record)):
            taken = self.get(base_uri, record.version)
            if taken is None or taken.path != record.path:
                raise lost(record, base_uri, taken)

    def put_if_present(self, base_uri: str, record: ManifestRecord, *, replacing: str) -> None:
        if not self._write(self._update, _values(base_uri, record) | {"replacing": replacing}):
            raise not_there(record, base_uri, replacing)

    def delete(self, base_uri: str, version: int) -> None:
        self._write(self._delete, {"base_uri": base_uri, "version": version})


def _values(base_uri: str, record: ManifestRecord) -> dict[str, Any]:
    return {
        "base_uri": base_uri,
        "version": record.version,
        "path": record.path,
        "size": record.size,
        "e_tag": record.e_tag,
    }


def _first(rows: list[Any]) -> ManifestRecord | None:
    return ManifestRecord(*rows[0]) if rows else None
