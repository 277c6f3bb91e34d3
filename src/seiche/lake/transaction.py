"""A transaction: statements over any number of tables that happen together or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    RetryableConflict,
    SeicheError,
    Unavailable,
)
from seiche.lake.commit import Committer
from seiche.lake.edits import TableEdit
from seiche.lake.federated_edit import explained
from seiche.lake.intent import Intent, RowEdit
from seiche.lake.objects import rows
from seiche.lake.objects.keys import children_of, name_of, namespace_key, table_key, tables_of
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import NamespaceRow, TableRow, ViewRow
from seiche.lake.reads import Aspect, ReadSet
from seiche.lake.state import State
from seiche.lake.statements import Statements
from seiche.lake.streams import StreamClaim
from seiche.lake.tree.root import millis
from seiche.lake.tree.transactions import Isolation
from seiche.lake.work import Work

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.engines.lance_namespace import TransactionNamespace
    from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog
    from seiche.lake.federated import ForeignType
    from seiche.lake.handles import TransactionTable
    from seiche.lake.iceberg.table import IcebergTable

__all__ = ["Transaction"]

Status = Literal["running", "committed", "rolled back", "failed", "unknown"]


class Transaction(Statements):
    """Statements that are visible to nobody else until `commit`, and then all at once.

    Reads see the version of the lake where the transaction began, and the transaction's own changes. An error in a
    statement leaves the transaction as it was before that statement; a failed commit ends it. As a context manager it
    commits at the end of the block, or rolls back if the block raises.
    """

    def __init__(
        self,
        state: State,
        committer: Committer,
        runtime: Runtime,
        *,
        transaction_id: str,
        isolation: Isolation = "snapshot",
        stream: StreamClaim | None = None,
        properties: Mapping[str, str] | None = None,
        expires_at_millis: int = 0,
        read_only: bool = False,
    ) -> None:
        """Use `lake.transaction()`."""
        self.id = transaction_id
        self.isolation: Isolation = isolation
        self.status: Status = "running"
        self.version: int | None = None
        self.replayed = False
        self._state = state
        self._committer = committer
        self.runtime = runtime
        self.stream = stream
        self.properties = dict(properties or {})
        self.expires_at_millis = expires_at_millis
        self._read_only = read_only
        self.reads = ReadSet()
        self.edits: dict[str, TableEdit] = {}
        self.rows: dict[bytes, RowEdit] = {}
        # Data files that the statements wrote and that are not safely on disk yet.
        self.unflushed: list[str] = []
        # Names as this transaction sees them, where it changed them: a table's id, or None where it is gone.
        self.names: dict[bytes, str | None] = {}
        self._lance: TransactionNamespace | None = None
        # The oldest version of the lake that anything in it was built on, if files were written before it began.
        self.oldest = state.version

    @property
    def base(self) -> int:
        """The version of the lake that this transaction sees."""
        return self._state.version

    def table(self, name: str | Sequence[str]) -> "TransactionTable":
        """A table as this transaction sees it: read it, change it."""
        from seiche.lake.handles import TransactionTable

        self.check_running()
        row = self._edit(parts(name)).row
        if row.format == "iceberg":
            from seiche.lake.iceberg.handles import IcebergTransactionTable

            return IcebergTransactionTable(self, row.id)
        if row.type != "managed":
            from seiche.lake.federated import ForeignTable

            return ForeignTable(self, row.id)
        return TransactionTable(self, row.id)

    def namespace(self) -> "TransactionNamespace":
        """The lake as this transaction sees it, for pylance: what it commits there becomes part of the transaction."""
        from seiche.lake.engines.lance_namespace import TransactionNamespace

        self.check_running()
        if self._lance is None:
            self._lance = TransactionNamespace(self)
        return self._lance

    def create_namespace(self, name: str | Sequence[str], properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace; the one around it must exist."""
        self.check_running()
        full = parts(name, what="namespace")
        self._check_parent(full[:-1])
        key = namespace_key(full)
        if self._row(key) is not None:
            raise AlreadyExists(f"there is a namespace {text(full)} already", name=text(full))
        row = NamespaceRow(
            id=str(self.runtime.uuid()), properties=dict(properties or {}), created_at_millis=self._now_millis()
        )
        self._write(key, rows.encode(row))

    def alter_namespace(self, name: str | Sequence[str], properties: Mapping[str, str | None]) -> None:
        """Set properties of a namespace, or remove those given as `None`."""
        self.check_running()
        full = parts(name, what="namespace")
        found = self._namespace(full)
        merged = {**found.properties, **properties}
        kept = {key: value for key, value in merged.items() if value is not None}
        changed = replace(found, properties=kept, pointer_version=found.pointer_version + 1)
        self._write(namespace_key(full), rows.encode(changed))

    def drop_namespace(self, name: str | Sequence[str]) -> None:
        """Remove an empty namespace."""
        self.check_running()
        full = parts(name, what="namespace")
        self._namespace(full)
        inside = [*self.namespaces(full), *self.tables(full)]
        if inside:
            raise InvalidInput(
                f"namespace {text(full)} is not empty: it has {text(inside[0])}"
                + (f" and {len(inside) - 1} more" if len(inside) > 1 else ""),
                remedy="Drop or move what is in it first.",
                name=text(full),
            )
        self.reads.range(self._state, tables_of(full), structural=True)
        self.reads.range(self._state, children_of(full), structural=True)
        self._write(namespace_key(full), None)

    def create_table(
        self,
        name: str | Sequence[str],
        schema: "pa.Schema",
        *,
        format: str = "lance",
        properties: Mapping[str, str] | None = None,
        stable_row_ids: bool = False,
        **options: Any,
    ) -> "TransactionTable":
        """Make an empty table.

        An Iceberg table (`format="iceberg"`) takes an Arrow or an Iceberg schema, and as `options` PyIceberg's
        `partition_spec` and `sort_order`; a `location` only if the lake has given it out.
        """
        from seiche.lake.creating import creation
        from seiche.lake.handles import TransactionTable

        self.check_running()
        if format == "iceberg":
            from seiche.lake.iceberg import statements

            statements.create(self, name, schema, properties=properties, **options)
            return self.table(name)
        if format != "lance" or options:
            raise InvalidInput(
                f"a table of format {format!r} cannot be made with {sorted(options)}",
                remedy='Use format="lance" or "iceberg"; partition_spec= and sort_order= are for Iceberg.',
            )
        full = parts(name, what="table")
        self.check_free(full)
        row, base, change = creation(
            full, schema, self.runtime, properties=properties or {}, stable_row_ids=stable_row_ids
        )
        self.edits[row.id] = TableEdit(row=row, key=table_key(full), work=Work.begin(base))
        self.names[table_key(full)] = row.id
        made = TransactionTable(self, row.id)
        made.apply(change)
        return made

    def register_table(
        self,
        name: str | Sequence[str],
        location: str,
        type: "ForeignType" = "external",  # noqa: A002 - the word for it
        *,
        format: str = "lance",
        catalog: str | Mapping[str, str] | None = None,
        version: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> "TransactionTable":
        """Give a table that lies elsewhere a name in the lake.

        An `external` one can be read, at its newest version or always at `version`; a `federated` one written too. The
        lake promises less about these: a change of a federated table is committed to it just before the lake's root,
        once for each transaction, and can be seen before the rest; if the root is refused then, an
        `IncompatibleConflict` says so. What others commit there is no part of the lake's versions.

        An Iceberg table (`format="iceberg"`) is named by its metadata file, by its folder if its metadata files are
        numbered, or, with `catalog`, by its name in that catalog: one that PyIceberg's configuration knows by name, or
        the properties of one. `version` is a snapshot of it.
        """
        from seiche.lake.federated import register

        self.check_running()
        register(self, name, location, type, format=format, catalog=catalog, version=version, properties=properties)
        return self.table(name)

    def enter(self, name: Name, row: TableRow) -> None:
        """Give a name that is free to a table that stands elsewhere."""
        self.put_edit(TableEdit(row=row, key=table_key(name)))
        self.names[table_key(name)] = row.id

    def iceberg(self, name: str | Sequence[str]) -> "IcebergTable":
        """An Iceberg table as this transaction sees it: its metadata, and where the file is that it began from."""
        from seiche.lake.iceberg import statements

        self.check_running()
        return statements.look(self, name)

    def commit_iceberg(
        self,
        name: str | Sequence[str],
        requirements: Sequence[Any],
        updates: Sequence[Any],
        *,
        follow: bool = False,
        exclusive: bool = False,
        written: Mapping[str, int] | None = None,
    ) -> "IcebergTable":
        """Make a commit of an Iceberg engine part of the transaction; returns the table after it.

        `requirements` and `updates` are PyIceberg's models. Requirements are checked against what the transaction sees,
        and a `RetryableConflict` says which one does not hold; when the transaction is committed they are checked again
        if others have changed the table. With `assert-create` among them the table is made. With `follow`, an append
        that was built on an earlier state of the table is put on top of what the transaction sees. An `exclusive` one
        is never moved. `written` tells for files, by their path in the lake, which version the lake had when they were
        written, if that was before the transaction began.
        """
        from seiche.lake.iceberg import statements

        self.check_running()
        return statements.commit(self, name, requirements, updates, follow=follow, exclusive=exclusive, written=written)

    def register_iceberg(
        self, name: str | Sequence[str], metadata_location: str, *, overwrite: bool = False
    ) -> "IcebergTable":
        """Make a table of Iceberg metadata that exists. Files that it has outside of the lake stay there."""
        from seiche.lake.iceberg import statements

        self.check_running()
        statements.register(self, name, metadata_location, overwrite=overwrite)
        return statements.look(self, name)

    def iceberg_catalog(self) -> "SeicheCatalog":
        """The lake as this transaction sees it, for PyIceberg: what it commits there becomes part of the
        transaction.
        """
        from seiche.lake.engines.pyiceberg_catalog import SeicheCatalog

        self.check_running()
        return SeicheCatalog.inside(self)

    def drop_table(self, name: str | Sequence[str]) -> None:
        """Remove a table. Its files stay until the lake's clean-up finds that no kept version needs them."""
        self.check_running()
        full = parts(name, what="table")
        edit = self._edit(full)
        self.edits[edit.row.id] = replace(edit, key=None, work=None)
        self.names[table_key(full)] = None

    def rename_table(self, name: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Give a table another name, also in another namespace. It stays the same table."""
        self.check_running()
        full, target = parts(name, what="table"), parts(to, what="table")
        edit = self._edit(full)
        self.check_free(target)
        self.edits[edit.row.id] = replace(edit, key=table_key(target))
        self.names[table_key(full)] = None
        self.names[table_key(target)] = edit.row.id

    def set_properties(self, name: str | Sequence[str], properties: Mapping[str, str | None]) -> None:
        """Set properties of a table, or remove those given as `None`."""
        self.check_running()
        edit = self._edit(parts(name, what="table"))
        if edit.row.format == "iceberg":
            from seiche.lake.iceberg import statements

            statements.set_properties(self, edit, properties)
            return
        self.edits[edit.row.id] = replace(edit, properties={**edit.properties, **properties})

    def create_view(
        self,
        name: str | Sequence[str],
        sql: str,
        *,
        dialect: str = "spark",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Make a view: a name for a query."""
        self.check_running()
        full = parts(name, what="view")
        self.check_free(full)
        row = ViewRow(
            id=str(self.runtime.uuid()),
            sql=sql,
            dialect=dialect,
            properties=dict(properties or {}),
            created_at_millis=self._now_millis(),
        )
        self._write(table_key(full), rows.encode(row))

    def drop_view(self, name: str | Sequence[str]) -> None:
        """Remove a view."""
        self.check_running()
        full = parts(name, what="view")
        value = self._row(table_key(full))
        if value is None or rows.kind_of(value) is not ViewRow:
            raise NotFound(f"there is no view {text(full)}", name=text(full))
        self._write(table_key(full), None)

    def namespaces(self, inside: str | Sequence[str] = ()) -> list[Name]:
        """The namespaces directly in another one, or the outermost ones."""
        self.check_running()
        outer = parts(inside, what="namespace") if inside else ()
        span = children_of(outer)
        self.reads.range(self._state, span)
        found = {key for key, _ in self._state.scan(span)}
        for key, edit in self.rows.items():
            if key in span:
                (found.discard if edit.wanted is None else found.add)(key)
        return [name_of(key) for key in sorted(found)]

    def tables(self, namespace: str | Sequence[str]) -> list[Name]:
        """The tables and views directly in a namespace."""
        self.check_running()
        full = parts(namespace, what="namespace")
        span = tables_of(full)
        self.reads.range(self._state, span)
        found = {key for key, _ in self._state.scan(span)}
        for key, edit in self.rows.items():
            if key in span:
                (found.discard if edit.wanted is None else found.add)(key)
        for key, table_id in self.names.items():
            if key in span:
                (found.discard if table_id is None else found.add)(key)
        return [name_of(key) for key in sorted(found)]

    def commit(self) -> int:
        """Make everything visible at once; returns the version of the lake that does so.

        Raises `RetryableConflict` or `IncompatibleConflict` if others were faster with something that leaves no room
        for this, and `CommitUnknown` if the storage would not say; `lake.status(tx.id)` tells later. The transaction
        ends in any case. If nothing was changed, no version is made and the one that was read is returned.
        """
        self.check_running()
        intent = self.intent()
        if intent is None:
            self.status, self.version = "committed", self.base
            return self.base
        if self._read_only:
            raise InvalidInput(
                f"the lake was opened at version {self.base} and is read-only",
                remedy="Open it without a version to change it.",
            )
        # Until there is an answer: whatever interrupts the commit may come after the root.
        self.status = "unknown"
        try:
            answer = self._committer.commit(intent)
        except CommitUnknown:
            raise
        except SeicheError as error:
            self.status = "failed"
            if not isinstance(error, ConflictError):
                raise
            told = explained(error, intent.edits.values(), self.id)
            if told is error:
                raise
            raise told from error
        self.status, self.version, self.replayed = "committed", answer.version, answer.replayed
        return answer.version or 0

    def save(self) -> str:
        """Put the transaction into storage as it is now, so that another process can go on with it; returns its id.

        `lake.resume(id)` continues it. What happens here afterwards is not part of what was saved.
        """
        from seiche.lake import saved

        self.check_running()
        for edit in self.edits.values():
            if edit.is_planned_last and edit.worked:
                raise InvalidInput(
                    f"the transaction changes {edit.name}, a federated table, and cannot be saved",
                    remedy="Commit it in the process that began it.",
                )
        self._state.store.flush(self.unflushed)
        self.unflushed.clear()
        saved.write(self, self._state.store)
        return self.id

    def rollback(self) -> None:
        """End the transaction; nothing of it happened."""
        self.check_running()
        self.status = "rolled back"

    def intent(self) -> Intent | None:
        """What the transaction asks for, as a value; `None` if it asks for nothing."""
        edits = {table_id: edit for table_id, edit in self.edits.items() if edit.changed}
        written = {key: edit for key, edit in self.rows.items() if edit.found != edit.wanted}
        if not edits and not written and self.stream is None:
            return None
        if self.expires_at_millis and self._now_millis() > self.expires_at_millis:
            raise RetryableConflict(
                f"transaction {self.id} is older than transactions may become.",
                remedy="Nothing was written. Run it again; `lake.transaction(lifetime=...)` allows more time.",
                transaction_id=self.id,
            )
        return Intent(
            id=self.id,
            base=min(self.base, self.oldest),
            isolation=self.isolation,
            reads=self.reads,
            edits=edits,
            rows=written,
            stream=self.stream,
            properties=self.properties,
            unflushed=tuple(self.unflushed),
            seen=self.base,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status != "running":
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def __repr__(self) -> str:
        return f"<transaction {self.id}: {self.status}, began at version {self.base}, {self.isolation}>"

    def edit(self, table_id: str) -> TableEdit:
        """What the transaction does to a table so far."""
        return self.edits[table_id]

    def put_edit(self, edit: TableEdit) -> None:
        """One statement more on a table."""
        self.edits[edit.row.id] = edit

    def note_read(self, table_id: str) -> None:
        """The content of a table was looked at."""
        edit = self.edits[table_id]
        if edit.found_key is not None:
            self.reads.key(self._state, edit.found_key, Aspect.CONTENT)
            self.edits[table_id] = replace(edit, read=True)

    def publish(self, row: TableRow) -> bool:
        """See to it that the table's version has its plain name; `False` if that was not possible.

        For reading it does not matter: not to those who may only read, nor if something foreign has taken the name.
        """
        try:
            self._committer.publisher.publish(row)
        except (Corrupt, PermissionDenied, Unavailable):
            return False
        return True

    @property
    def state(self) -> State:
        """The version of the lake that the transaction sees, without its own changes."""
        return self._state

    def _edit(self, name: Name) -> TableEdit:
        """The table of this name, as the transaction sees it."""
        key = table_key(name)
        if key in self.names:
            table_id = self.names[key]
            if table_id is not None:
                return self.edits[table_id]
            raise NotFound(f"{text(name)} was dropped or renamed by this transaction", table=text(name))
        self.reads.key(self._state, key, Aspect.IDENTITY)
        row = self._state.table(name)
        if row.id not in self.edits:
            self.edits[row.id] = TableEdit(row=row, key=key, found=row, found_key=key)
        return self.edits[row.id]

    def _row(self, key: bytes) -> bytes | None:
        """What stands behind a key, as the transaction sees it."""
        if key in self.rows:
            return self.rows[key].wanted
        return self._state.get(key)

    def _write(self, key: bytes, wanted: bytes | None) -> None:
        found = self.rows[key].found if key in self.rows else self._state.get(key)
        self.rows[key] = RowEdit(found, wanted)

    def _namespace(self, name: Name) -> NamespaceRow:
        value = self._row(namespace_key(name))
        if value is None:
            raise NotFound(
                f"there is no namespace {text(name)}",
                remedy="`create_namespace` makes one.",
                name=text(name),
            )
        return rows.decode(value, NamespaceRow)

    def _check_parent(self, name: Name) -> None:
        """What is made inside a namespace needs it to be there still when the commit is decided."""
        if name:
            self._namespace(name)
            if namespace_key(name) not in self.rows:
                self.reads.key(self._state, namespace_key(name), Aspect.IDENTITY, structural=True)

    def check_free(self, name: Name) -> None:
        """`AlreadyExists` if the name is taken, as the transaction sees it."""
        if len(name) < 2:
            raise InvalidInput(
                f"{text(name)} has no namespace", remedy="Name it `namespace.name`, after creating the namespace."
            )
        self._check_parent(name[:-1])
        key = table_key(name)
        taken = self.names[key] is not None if key in self.names else self._row(key) is not None
        if taken:
            raise AlreadyExists(f"there is a table or view {text(name)} already", name=text(name))

    def check_running(self) -> None:
        """`InvalidInput` if the transaction has ended."""
        if self.status != "running":
            raise InvalidInput(
                f"the transaction {self.id} has ended: {self.status}",
                remedy="Begin a new one with `lake.transaction()`.",
                transaction_id=self.id,
            )

    def _now_millis(self) -> int:
        return millis(self.runtime.clock.now())
