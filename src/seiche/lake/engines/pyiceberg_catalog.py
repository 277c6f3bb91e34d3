"""A lake as a catalog of PyIceberg, and a transaction of it as one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, StagedTable, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import EMPTY_DICT, Properties

from seiche.errors import InvalidInput, NotFound
from seiche.lake.commit.reads import Aspect
from seiche.lake.engines.iceberg_answers import answering
from seiche.lake.engines.iceberg_home import Home, LakeHome, TransactionHome, home_of
from seiche.lake.engines.iceberg_table import EngineFileIO, EngineTable
from seiche.lake.engines.namespaces import properties_of
from seiche.lake.iceberg.creating import new_metadata
from seiche.lake.iceberg.statements import look
from seiche.lake.iceberg.table import IcebergTable
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import TableRow, ViewRow, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.lake import Lake
    from seiche.lake.transaction import Transaction

__all__ = ["SeicheCatalog"]

Identifier: TypeAlias = "str | tuple[str, ...]"
T = TypeVar("T")


class SeicheCatalog(MetastoreCatalog):
    """The Iceberg tables of a lake for PyIceberg. Others have no business here and are not listed.

    By PyIceberg's own configuration: `py-catalog-impl` is the name of this class, and `lake` (or `uri`) the lake's
    address; options of the lake's storage have `store.` in front. `lake.iceberg_catalog()` gives one whose every call
    is a transaction of its own, `tx.iceberg_catalog()` one inside a transaction.
    """

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._home: Home = home_of(properties)

    @classmethod
    def over(cls, lake: "Lake") -> "SeicheCatalog":
        """The catalog of an open lake."""
        return cls._of(LakeHome(lake))

    @classmethod
    def inside(cls, transaction: "Transaction") -> "SeicheCatalog":
        """The catalog as a transaction sees it."""
        return cls._of(TransactionHome(transaction))

    @classmethod
    def _of(cls, home: Home) -> "SeicheCatalog":
        made = cls.__new__(cls)
        MetastoreCatalog.__init__(made, "lake")
        made._home = home
        return made

    def create_table(
        self,
        identifier: Identifier,
        schema: "Schema | pa.Schema",
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Make a table."""
        name = _name(identifier)

        def create(transaction: "Transaction") -> None:
            transaction.create_table(
                name,
                schema,
                format="iceberg",
                partition_spec=partition_spec,
                sort_order=sort_order,
                properties=properties,
                location=location,
            )

        with answering("table"):
            self._home.writing(create)
        return self.load_table(name)

    def create_table_transaction(
        self,
        identifier: Identifier,
        schema: "Schema | pa.Schema",
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Begin to make a table together with its first rows."""
        name = _name(identifier)
        with answering("table"):
            transaction = self._home.reading()
            properties_of(transaction, name[:-1])
            metadata = new_metadata(
                name,
                schema,
                transaction.state.store,
                transaction.runtime,
                partition_spec=partition_spec,
                sort_order=sort_order,
                properties=properties,
                location=location,
            )
        return CreateTableTransaction(StagedTable(name, metadata, "", self._io(), self))

    def load_table(self, identifier: Identifier) -> EngineTable:
        """The table as it is now."""
        name = _name(identifier)
        with answering("table"):
            found = self._found(name)
        io = self._io() if found.files is None else found.files
        table = EngineTable(name, found.metadata, found.metadata_location, io, self)
        table.on_look = self._home.looks(found.row.id)
        return table

    def _found(self, name: Name) -> IcebergTable:
        try:
            return self._home.looking(lambda transaction: look(transaction, name))
        except InvalidInput as error:
            raise NoSuchTableError(str(error)) from error

    def commit_table(
        self, table: Table, requirements: tuple[Any, ...], updates: tuple[Any, ...]
    ) -> CommitTableResponse:
        """Commit what was done to a table. An append is put on top of what others have appended meanwhile."""
        name = tuple(table.name())
        exclusive = bool(getattr(table, "exclusive", False))
        snapshots = [one.snapshot for one in updates if isinstance(one, AddSnapshotUpdate)]
        key = None
        if snapshots:
            # PyIceberg sends the same snapshot again if it does not know what became of it.
            key = f"iceberg {table.metadata.table_uuid} {' '.join(str(one.snapshot_id) for one in snapshots)}"

        def commit(transaction: "Transaction") -> None:
            transaction.commit_iceberg(
                name, requirements, updates, follow=True, exclusive=exclusive, written=_written(table)
            )

        with answering("table", exclusive=exclusive):
            found = self._home.committing(commit, name, key)
        return CommitTableResponse.model_construct(metadata=found.metadata, metadata_location=found.metadata_location)

    def register_table(self, identifier: Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """Make a table of metadata that exists."""
        name = _name(identifier)
        with answering("table"):
            self._home.writing(lambda tx: tx.register_iceberg(name, metadata_location, overwrite=overwrite))
        return self.load_table(name)

    def drop_table(self, identifier: Identifier) -> None:
        """Remove a table; its files stay as long as a kept version of the lake needs them."""
        name = _name(identifier)

        def drop(transaction: "Transaction") -> None:
            look(transaction, name)
            transaction.drop_table(name)

        with answering("table"):
            try:
                self._home.writing(drop)
            except InvalidInput as error:
                raise NoSuchTableError(str(error)) from error

    def purge_table(self, identifier: Identifier) -> None:
        """Remove a table. Its files go when `lake.gc` finds that no kept version of the lake needs them."""
        self.drop_table(identifier)

    def rename_table(self, from_identifier: Identifier, to_identifier: Identifier) -> Table:
        """Give a table another name, also in another namespace; it stays the same table."""
        source, target = _name(from_identifier), _name(to_identifier)

        def rename(transaction: "Transaction") -> None:
            look(transaction, source)
            transaction.rename_table(source, target)

        with answering("table"):
            self._home.writing(rename)
        return self.load_table(target)

    def list_tables(self, namespace: Identifier) -> list[tuple[str, ...]]:
        """The Iceberg tables directly in a namespace."""
        return [name for name, row in self._relations(namespace) if isinstance(row, TableRow)]

    def create_namespace(self, namespace: Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Make a namespace; the one around it must exist."""
        with answering("namespace"):
            self._home.writing(lambda tx: tx.create_namespace(_name(namespace), properties))

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove an empty namespace."""
        name = _name(namespace)

        def drop(transaction: "Transaction") -> None:
            properties_of(transaction, name)
            if transaction.namespaces(name) or transaction.tables(name):
                raise NamespaceNotEmptyError(f"Namespace {text(name)} is not empty")
            transaction.drop_namespace(name)

        with answering("namespace"):
            self._home.writing(drop)

    def list_namespaces(self, namespace: Identifier = ()) -> list[tuple[str, ...]]:
        """The namespaces directly in another one, or the outermost."""
        outer = _name(namespace) if namespace else ()

        def names(transaction: "Transaction") -> list[Name]:
            properties_of(transaction, outer)
            return transaction.namespaces(outer)

        with answering("namespace"):
            return self._home.looking(names)

    def load_namespace_properties(self, namespace: Identifier) -> Properties:
        """What is said about a namespace."""
        with answering("namespace"):
            return self._home.looking(lambda tx: properties_of(tx, _name(namespace)))

    def update_namespace_properties(
        self, namespace: Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Set and remove properties of a namespace; says what was done."""
        name = _name(namespace)

        def update(transaction: "Transaction") -> PropertiesUpdateSummary:
            summary, _ = self._get_updated_props_and_update_summary(properties_of(transaction, name), removals, updates)
            changed: dict[str, str | None] = {**dict.fromkeys(removals or ()), **updates}
            transaction.alter_namespace(name, changed)
            return summary

        with answering("namespace"):
            return self._home.writing(update)

    def list_views(self, namespace: Identifier) -> list[tuple[str, ...]]:
        """The views directly in a namespace."""
        return [name for name, row in self._relations(namespace) if isinstance(row, ViewRow)]

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is a view of this name."""
        key = table_key(_name(identifier))
        found = self._home.looking(lambda tx: tx.row_behind(key, Aspect.IDENTITY))
        return found is not None and kind_of(found) is ViewRow

    def drop_view(self, identifier: Identifier) -> None:
        """Remove a view."""
        with answering("view"):
            self._home.writing(lambda tx: tx.drop_view(_name(identifier)))

    def load_view(self, identifier: Identifier) -> Any:
        """Not here: a view of the lake is a query with its dialect."""
        raise NotImplementedError("views of a lake are not Iceberg views; `lake.tables()` lists them")

    def register_view(self, identifier: Identifier, metadata_location: str) -> Any:
        """Not here."""
        raise NotImplementedError("views of a lake are not Iceberg views; use `tx.create_view`")

    @staticmethod
    def _delete_old_metadata(io: Any, base: Any, metadata: Any) -> None:
        """Nothing is deleted: earlier versions of the lake may need it."""

    def _relations(self, namespace: Identifier) -> list[tuple[Name, TableRow | ViewRow]]:
        outer = _name(namespace)

        def rows(transaction: "Transaction") -> list[tuple[Name, TableRow | ViewRow]]:
            properties_of(transaction, outer)
            found = ((name, _relation(transaction, name)) for name in transaction.tables(outer))
            return [(name, row) for name, row in found if isinstance(row, ViewRow) or row.format == "iceberg"]

        with answering("namespace"):
            return self._home.looking(rows)

    def _io(self) -> EngineFileIO:
        return self._home.io()


def _relation(transaction: "Transaction", name: Name) -> TableRow | ViewRow:
    try:
        return transaction.named(name).row
    except NotFound:
        return ViewRow(id="")


def _name(identifier: Identifier) -> Name:
    return parts(identifier if isinstance(identifier, str) else tuple(identifier))


def _written(table: Table) -> Mapping[str, int]:
    return table.io.written if isinstance(table.io, EngineFileIO) else {}
