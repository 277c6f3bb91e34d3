"""Tables that are not the lake's own: named in the lake, kept and committed to elsewhere.

An *external* table can be read, a *federated* one written too. What a lake promises of its own tables it cannot promise
of these. Their content is no part of any version of the lake: no time travel, no rollback, no clean-up. A transaction
sees the version that it finds when it first looks, and goes on seeing that one. What others commit there meanwhile is
noticed when the transaction changes the same table, not when it has only read it. How a change is committed, and what
can be seen in between, is told in `seiche.lake.federated.edit`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias
from uuid import UUID

from seiche.core import given
from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.lake.commit.work import Work
from seiche.lake.federated.edit import FederatedEdit, check_one_name, place_of, still_kept
from seiche.lake.handles import LakeTable, TransactionTable
from seiche.lake.objects.names import parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import millis
from seiche.store.base import Store
from seiche.store.beside import open_beside
from seiche.table.change import Change, Prepare, Result
from seiche.table.format.flags import require_writable
from seiche.table.format.manifest import Manifest
from seiche.table.history import Version
from seiche.table.snapshot import Snapshot
from seiche.table.table import Table
from seiche.table.versions.opening import open_versions

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from seiche.lake.sight import Sight
    from seiche.table.data.changes import Changes

__all__ = ["ForeignLakeTable", "ForeignTable", "ForeignType", "register"]

# The version of uuids that are made from names.
_DERIVED = 5

ForeignType: TypeAlias = Literal["external", "federated"]


def register(
    tx: "Sight",
    name: str | Sequence[str],
    location: str,
    type: ForeignType = "external",  # noqa: A002 - the word for it
    *,
    format: str = "lance",
    catalog: str | Mapping[str, str] | None = None,
    version: int | None = None,
    properties: Mapping[str, str] | None = None,
) -> TableRow:
    """Give a table that lies elsewhere a name in the lake; see `tx.register_table`."""
    if type not in ("external", "federated"):
        raise InvalidInput(f"the type {type!r} is unknown", remedy='Use "external" or "federated".')
    if type == "federated" and version is not None:
        raise InvalidInput("a federated table is always at its newest version", remedy="Leave `version=` out.")
    location = given.an_address(location, "Give the place where the table lies, or its name in the catalog.")
    properties = given.texts(properties, "properties", 'Give texts by name: {"owner": "me"}.')
    if catalog is not None and not isinstance(catalog, str):
        given.texts(
            catalog, "the catalog", "Give the name of a catalog that PyIceberg knows, or the properties of one."
        )
    if format == "iceberg":
        from seiche.lake.iceberg.foreign import tables as foreign

        return foreign.register(tx, name, location, type, catalog=catalog, version=version, properties=properties)
    if format != "lance" or catalog is not None:
        raise InvalidInput(
            f"a table of format {format!r} cannot be registered" + (" by a catalog" if catalog is not None else ""),
            remedy='Use format="lance" or "iceberg"; catalogs are for Iceberg.',
        )
    full = parts(name, what="table")
    tx.check_free(full)
    store = open_beside(tx.state.store, location, runtime=tx.runtime)
    tx.state.outside.check(store.native_uri(), tx.state.store.native_uri())
    _check_outside(tx, store)
    table = Table.open(store, version, runtime=tx.runtime)
    if type == "federated":
        require_writable(table.manifest.header)
    row = TableRow(
        id=str(tx.runtime.uuid()),
        type=type,
        location=store.native_uri(),
        table_version=table.version,
        source={} if version is None else {"version": str(version)},
        properties=properties,
        created_at_millis=millis(tx.runtime.clock.now()),
    )
    tx.enter(full, row)
    return row


def _check_outside(tx: "Sight", store: Store) -> None:
    """The lake's clean-up knows nothing of registered tables: one of its own must not become one."""
    from seiche.lake.federated.release import released

    home, place = tx.state.store.native_uri().rstrip("/") + "/", store.native_uri()
    if place.startswith(home) and place[len(home) :] not in released(tx.state):
        raise InvalidInput(
            f"{store.uri} lies inside of the lake",
            remedy="Use the table that the lake has there; `lake.release(table)` gives it to plain writers.",
            location=place,
        )


class ForeignTable(TransactionTable):
    """A table that is not the lake's own, inside a transaction. An external one is read-only."""

    def to_lance(self) -> "lance.LanceDataset":
        """The table as a pylance dataset, at the version that the transaction sees. Its commits are none of the
        lake's.
        """
        from seiche.table.data.native import open_version

        with self._kept():
            return open_version(self._place, self._work().base.version)

    def to_arrow(self, *, columns: Sequence[str] | None = None, filter: str | None = None) -> "pa.Table":
        """Rows at the version that the transaction sees, and its own changes."""
        with self._kept():
            return super().to_arrow(columns=columns, filter=filter)

    def count_rows(self, filter: str | None = None) -> int:
        """How many rows there are at the version that the transaction sees, with its own changes."""
        with self._kept():
            return super().count_rows(filter)

    def _statement(self, verb: str, prepare: Prepare) -> Result:
        with self._kept():
            return super()._statement(verb, prepare)

    def _kept(self) -> AbstractContextManager[None]:
        versions = open_versions(self._place, runtime=self._transaction.runtime, options={})
        return still_kept(self.name, versions, self._work().base.version)

    def check_writable(self) -> None:
        """Raise `InvalidInput` if the table can only be read here, or has what only others know how to write, or is
        changed by the transaction under another name."""
        super().check_writable()
        check_one_name(self._edit, self._transaction.edits.values())
        require_writable(self._work().base.header)

    def _apply(self, change: Change) -> None:
        self.check_writable()
        edit = self._edit
        super()._apply(change)
        try:
            after = self._edit
            assert isinstance(after, FederatedEdit)  # noqa: S101 - of the same kind as before
            after.check_statements()
        except InvalidInput:
            self._transaction.put_edit(edit)
            raise

    @property
    def _place(self) -> Store:
        state = self._transaction.state
        return place_of(state.store, state.outside, self._edit.row, self._transaction.runtime)

    def _work(self) -> Work:
        edit = self._edit
        if edit.work is not None:
            return edit.work
        work = Work.begin(_table(self._place, edit.row, self._transaction.runtime).manifest)
        if edit.row.type == "federated":
            # An id that follows from a key may have been used before.
            may_be_done = UUID(self._transaction.id).version == _DERIVED
            edit = FederatedEdit(**edit.shared, may_be_done=may_be_done)
        self._transaction.put_edit(replace(edit, work=work))
        return work

    def _load(self, version: int) -> Manifest:
        return Table.open(self._place, version, runtime=self._transaction.runtime).manifest

    def _snapshot(self, rows: bool = True) -> Snapshot:
        work, runtime = self._work(), self._transaction.runtime
        if not work.statements:
            return Snapshot(self._place, work.base, runtime)
        return Snapshot(self._place, work.running, runtime, staged=True, published=work.base)


class ForeignLakeTable(LakeTable):
    """A table that is not the lake's own. Every verb of a federated one is a transaction of its own."""

    _kind = ("lance", False)

    @property
    def version(self) -> int:
        """The table's own version now, or the one that it was registered at."""
        return self._manifest().version

    @property
    def uri(self) -> str:
        """Where it is."""
        return self._place().uri

    def to_lance(self) -> "lance.LanceDataset":
        """The table as a plain pylance dataset. What it commits is none of the lake's."""
        from seiche.table.data.native import open_version

        return open_version(self._place(), self.version)

    def versions(self) -> list[Version]:
        """The versions that are kept where the table lies, oldest first."""
        return self._table().versions()

    def changes(
        self, from_version: int, to_version: int | None = None, *, columns: Sequence[str] | None = None
    ) -> "Changes":
        """The rows that anybody inserted, updated and deleted between two versions; see `Table.changes`."""
        return self._table().changes(from_version, to_version, columns=columns)

    def version_made_by(self, transaction_id: str) -> int | None:
        """The version of a federated table that a transaction of the lake has made, whether or not the lake decided for
        it; `None` if it has made none that is kept.
        """
        unique = str(Runtime.derived_uuid(UUID(transaction_id), self.row.id))
        made = Table.open(self._place(), runtime=self._lake.states.runtime).transactions()
        return next((version for version, one in reversed(made) if one.uuid == unique), None)

    def _place(self) -> Store:
        states = self._lake.states
        return place_of(states.store, states.outside, self._known(), states.runtime)

    def _manifest(self) -> Manifest:
        return self._table().manifest

    def _table(self) -> Table:
        return _table(self._place(), self.row, self._lake.states.runtime)


def _table(store: Store, row: TableRow, runtime: Runtime) -> Table:
    pinned = row.source.get("version")
    return Table.open(store, None if pinned is None else int(pinned), runtime=runtime)
