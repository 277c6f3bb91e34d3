"""From what a client names to what is meant, checked before anything is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from seiche.errors import InvalidInput, Unavailable
from seiche.lake.objects.keys import name_of
from seiche.lake.objects.names import Name, parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.service import operations
from seiche.service.blobs import BLOB_MISSING, delete_uri, hash_in
from seiche.service.changes import Change, Wanted, pointer_key, table_of
from seiche.service.refusals import refused, version_mismatch

__all__ = ["Found", "Resolver", "find", "split_name"]


@dataclass(frozen=True, slots=True)
class Found:
    """A table as the lake has it."""

    key: bytes
    row: TableRow

    @property
    def name(self) -> Name:
        return name_of(self.key)


def find(state: State, table_id: str) -> Found | None:
    """The table of this id, if a version of the lake has it."""
    key = state.key_of(table_id)
    row = None if key is None else state.behind(key)
    return Found(key, row) if key is not None and isinstance(row, TableRow) else None


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves the changes of one transaction against one version of the lake.

    `reserved` are ids of tables that the transaction may make, with their names.
    """

    state: State
    account: str
    catalog: str
    tx: str
    read_blob: Callable[[str], bytes]
    reserved: Mapping[str, Name]
    # Tables that were looked up in this version before.
    known: dict[str, "Found | None"] = field(default_factory=dict)

    def all(self, changes: Sequence[Change]) -> list[Wanted]:
        """What is wanted of which target; no target twice."""
        if not changes:
            raise refused("the request has no changes", "changes.missing", "Say what shall be changed.")
        wanted = [self.one(change) for change in changes]
        seen: set[str] = set()
        for one in wanted:
            if one.target in seen:
                raise refused(f"duplicate target: {one.target}", "target.duplicate", "Name each target once.")
            seen.add(one.target)
        return wanted

    def one(self, change: Change) -> Wanted:
        """What is wanted of one target."""
        table_id = self._table(change)
        target = pointer_key(self.account, table_id)
        found = self.found(table_id)
        if found is None and table_id not in self.reserved:
            raise refused(f"table not found: {table_id}", "table.not-found", "Name a table that exists.")
        actual = 0 if found is None else found.row.pointer_version
        if change.expected_version is not None and change.expected_version != actual:
            raise version_mismatch(target, change.expected_version, actual)
        given = [one for one in (change.payload, change.blob_uri, change.table) if one is not None]
        if len(given) != 1:
            raise refused("a change needs a payload, a blob or a table", "payload.missing")
        if change.table is not None:
            return self._definition(change, target, table_id, actual)
        data = change.payload
        if change.blob_uri is not None:
            uri = change.blob_uri.strip()
            if uri == delete_uri(self.account, self.tx, target):
                return Wanted(target, table_id, "delete", b"", True, actual, uri)
            data = self._handed_in(uri)
        if found is None or data is None:
            raise refused(f"the table {table_id} does not exist yet", "table.not-found", "Send its definition.")
        return self._content(change, target, found, data)

    def _handed_in(self, uri: str) -> bytes:
        """What was handed in under this name before. There is no use in asking again for what never was."""
        try:
            return self.read_blob(hash_in(self.account, uri))
        except Unavailable as error:
            if error.details.get("code") != BLOB_MISSING:
                raise
            raise refused(f"{uri!r}: {error.message}", "blob.not-found", "Send it as a payload.") from error

    def found(self, table_id: str) -> Found | None:
        """The table of this id."""
        if table_id not in self.known:
            self.known[table_id] = find(self.state, table_id)
        return self.known[table_id]

    def _table(self, change: Change) -> str:
        named = ""
        if change.table_id:
            if change.table_account and change.table_account != self.account:
                raise refused("the table belongs to another account", "account.foreign")
            named = change.table_id
        elif change.table_name:
            named = self._by_name(change.table_name)
        if change.target_key:
            table = table_of(self.account, change.target_key)
            if table is None or (named and table != named):
                raise refused(
                    f"{change.target_key!r} is not the key of the table", "target.scope", "Leave the key out."
                )
            named = table
        if not named:
            raise refused("missing table reference", "target.missing", "Name a table by its id or its name.")
        return named

    def _by_name(self, name: str) -> str:
        full = split_name(name, self.catalog)
        row = self.state.relation(full)
        if not isinstance(row, TableRow):
            for table_id, reserved in self.reserved.items():
                if reserved == full:
                    return table_id
            raise refused(f"table not found: {name}", "table.not-found", "Name a table that exists.")
        return row.id

    def _definition(self, change: Change, target: str, table_id: str, actual: int) -> Wanted:
        table = change.table
        if table is None or table.id != table_id or table.account != self.account:
            raise refused("the definition is not that of the target", "TABLE_INTENT_TARGET_MISMATCH")
        return Wanted(target, table_id, "definition", table.encoded, True, actual)

    def _content(self, change: Change, target: str, found: Found, data: bytes) -> Wanted:
        row = found.row
        if row.is_own("iceberg"):
            return Wanted(target, row.id, "metadata", data, True, row.pointer_version)
        operation = operations.decode(data, _name(found.key))
        if operation.transaction.read_version > row.table_version:
            raise refused(
                f"the operation was made from version {operation.transaction.read_version}; the table is at"
                f" {row.table_version}",
                "payload.read-version",
            )
        exclusive = change.expected_version is not None
        return Wanted(target, row.id, "operation", data, exclusive, change.expected_version, operation=operation)


@lru_cache(maxsize=10_000)
def _name(key: bytes) -> str:
    return ".".join(name_of(key))


def split_name(name: str, catalog: str) -> Name:
    """The parts of `catalog.ns1.ns2.table` without the catalog, which must be this one."""
    # A catalog may have dots in its name.
    ours = name.startswith(f"{catalog}.")
    rest = name.removeprefix(f"{catalog}.") if ours else name.partition(".")[2]
    try:
        full = parts(rest, what="table")
    except InvalidInput as error:
        raise refused(f"{name!r} is not the name of a table: {error.message}", "table.name") from error
    if not ours or len(full) < 2:
        raise refused(f"table not found: {name}", "table.not-found", f"Names are {catalog}.namespace.table here.")
    return full
