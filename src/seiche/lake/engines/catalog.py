"""Namespaces and tables of a lake through the Lance Namespace interface: what there is, making, dropping, renaming."""

import io
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import lance_namespace as lance

from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.lake.creating import location
from seiche.lake.engines.answers import answering, asked
from seiche.lake.engines.declared import Declared
from seiche.lake.engines.namespaces import properties_of
from seiche.lake.engines.staged_table import StagedTable
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.tree.root import millis
from seiche.store.base import Store

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["CatalogNamespace", "id_of", "page"]

T = TypeVar("T")


def id_of(request: Any) -> Name:
    """The name that a request is about; empty for the root."""
    return tuple(asked(request, "id") or ())


class CatalogNamespace(lance.LanceNamespace):
    """The part of a namespace that is about names.

    A table that was declared exists for whoever declared it, in this object. The lake learns of it with its first
    version: nobody ever finds a table that has no columns yet.
    """

    def __init__(self) -> None:
        self._declared = Declared()

    @abstractmethod
    def _reading(self) -> "Transaction":
        """A transaction to look things up in."""

    @abstractmethod
    def _place(self, row: TableRow) -> Store:
        """Where pylance works on a table."""

    @abstractmethod
    def _writing(self, do: Callable[["Transaction"], T]) -> T:
        """Do something in a transaction; whether it is committed at once is the namespace's own affair."""

    def list_namespaces(self, request: lance.ListNamespacesRequest) -> lance.ListNamespacesResponse:
        """The names of the namespaces directly in one, or of the outermost."""
        outer = id_of(request)
        with answering("namespace"):
            transaction = self._reading()
            properties_of(transaction, outer)
            names = [name[-1] for name in transaction.namespaces(outer)]
        found, token = page(names, request)
        return lance.ListNamespacesResponse(namespaces=found, page_token=token)

    def describe_namespace(self, request: lance.DescribeNamespaceRequest) -> lance.DescribeNamespaceResponse:
        """The properties of a namespace."""
        with answering("namespace"):
            return lance.DescribeNamespaceResponse(properties=properties_of(self._reading(), id_of(request)))

    def namespace_exists(self, request: lance.NamespaceExistsRequest) -> lance.NamespaceExistsResponse:
        """Returns if there is such a namespace."""
        with answering("namespace"):
            properties_of(self._reading(), id_of(request))
        return lance.NamespaceExistsResponse()

    def create_namespace(self, request: lance.CreateNamespaceRequest) -> lance.CreateNamespaceResponse:
        """Make a namespace; with the mode `exist_ok` one that is there already will do."""
        mode = _word(asked(request, "mode"), ("create", "existok"), "mode")
        properties = asked(request, "properties")

        def create(transaction: "Transaction") -> dict[str, str]:
            try:
                transaction.create_namespace(id_of(request), properties)
            except AlreadyExists:
                if mode != "existok":
                    raise
            return properties_of(transaction, id_of(request))

        with answering("namespace"):
            return lance.CreateNamespaceResponse(properties=self._writing(create))

    def drop_namespace(self, request: lance.DropNamespaceRequest) -> lance.DropNamespaceResponse:
        """Remove a namespace, which must be empty unless the behaviour is `cascade`."""
        behavior = _word(asked(request, "behavior"), ("restrict", "cascade"), "behavior")
        mode = _word(asked(request, "mode"), ("fail", "skip"), "mode")
        name = id_of(request)

        def drop(transaction: "Transaction") -> dict[str, str]:
            try:
                properties = properties_of(transaction, name)
            except NotFound:
                if mode == "skip":
                    return {}
                raise
            if behavior == "cascade":
                self._empty(transaction, name)
            elif transaction.namespaces(name) or transaction.tables(name):
                raise lance.NamespaceNotEmptyError(f"namespace {text(name)} is not empty")
            transaction.drop_namespace(name)
            return properties

        with answering("namespace"):
            return lance.DropNamespaceResponse(properties=self._writing(drop))

    def list_tables(self, request: lance.ListTablesRequest) -> lance.ListTablesResponse:
        """The names of the Lance tables directly in a namespace."""
        outer = id_of(request)
        with answering("namespace"):
            transaction = self._reading()
            properties_of(transaction, outer)
            names = [name[-1] for name in transaction.tables(outer)] if outer else []
            found, token = page(names, request, lambda name: _is_lance(transaction, (*outer, name)))
        return lance.ListTablesResponse(tables=found, page_token=token)

    def list_all_tables(self, request: lance.ListTablesRequest) -> lance.ListTablesResponse:
        """The names of all Lance tables, with `$` between their parts."""
        return self.all_tables(request, "$")

    def all_tables(self, request: lance.ListTablesRequest, delimiter: str) -> lance.ListTablesResponse:
        """The names of all Lance tables, with a `delimiter` between their parts."""
        with answering("namespace"):
            transaction = self._reading()
            named: dict[str, list[Name]] = {}
            for name in transaction.tables():
                named.setdefault(delimiter.join(name), []).append(name)
            found, token = page(
                sorted(named), request, lambda shown: any(_is_lance(transaction, name) for name in named[shown])
            )
        return lance.ListTablesResponse(tables=found, page_token=token)

    def table_exists(self, request: lance.TableExistsRequest) -> lance.TableExistsResponse:
        """Returns if there is such a table; one that was only declared does not exist yet."""
        with answering("table"):
            StagedTable(self._reading(), parts(id_of(request), what="table"))
        return lance.TableExistsResponse()

    def create_table(self, request: lance.CreateTableRequest, request_data: bytes) -> lance.CreateTableResponse:
        """Make a table of the rows in an Arrow IPC stream."""
        mode = _word(asked(request, "mode"), ("create", "existok", "overwrite"), "mode")
        name = id_of(request)

        def create(transaction: "Transaction") -> Store:
            data = _rows(request_data)
            try:
                table = transaction.create_table(name, data.schema, properties=asked(request, "properties"))
                table.append(data)
            except AlreadyExists:
                if mode == "create":
                    raise
                if mode == "overwrite":
                    transaction.table(name).overwrite(data)
            return StagedTable(transaction, name).store

        with answering("table"):
            store = self._writing(create)
        options = dict(store.native_options) or None
        return lance.CreateTableResponse(location=store.native_uri(), storage_options=options)

    def declare_table(self, request: lance.DeclareTableRequest) -> lance.DeclareTableResponse:
        """Find a place for a table whose first version is about to come."""
        with answering("table"):
            name = parts(id_of(request), what="table")
            if asked(request, "location"):
                raise InvalidInput(
                    "the place of a table of a lake is the lake's to choose", remedy="Declare it without a location."
                )
            transaction = self._reading()
            transaction.check_free(name)
            table_id = str(transaction.runtime.uuid())
            row = TableRow(
                id=table_id,
                location=location(name, table_id),
                properties=asked(request, "properties") or {},
                created_at_millis=millis(transaction.runtime.clock.now()),
            )
        self._declared.add(name, row)
        store = self._place(row)
        return lance.DeclareTableResponse(
            location=store.native_uri(),
            storage_options=dict(store.native_options) or None,
            managed_versioning=True,
            properties=dict(row.properties) or None,
        )

    def drop_table(self, request: lance.DropTableRequest) -> lance.DropTableResponse:
        """Remove a table; its files stay as long as a kept version of the lake needs them."""
        name = id_of(request)
        with answering("table"):
            self._writing(lambda transaction: self._drop(transaction, name))
        return lance.DropTableResponse(id=list(name))

    def _drop(self, transaction: "Transaction", name: Name) -> None:
        """Remove a table, and what the namespace keeps about it beside."""
        transaction.drop_table(name)

    def _empty(self, transaction: "Transaction", name: Name) -> None:
        """Drop everything in a namespace, at any depth."""
        for inner in transaction.namespaces(name):
            self._empty(transaction, inner)
            transaction.drop_namespace(inner)
        for table in transaction.tables(name):
            try:
                self._drop(transaction, table)
            except NotFound:
                transaction.drop_view(table)

    def rename_table(self, request: lance.RenameTableRequest) -> lance.RenameTableResponse:
        """Give a table another name, also in another namespace; it stays the same table."""
        name = id_of(request)
        outer = asked(request, "new_namespace_id")
        target = (*(name[:-1] if outer is None else outer), asked(request, "new_table_name"))
        with answering("table"):
            self._writing(lambda transaction: transaction.rename_table(name, target))
        return lance.RenameTableResponse()

    def register_table(self, request: lance.RegisterTableRequest) -> lance.RegisterTableResponse:
        """Refused: a table that others commit to cannot become one of the lake's by naming its place."""
        raise lance.UnsupportedOperationError("a lake does not take over directories: write the rows into a new table")

    def deregister_table(self, request: lance.DeregisterTableRequest) -> lance.DeregisterTableResponse:
        """Refused: the files of a table that the lake no longer knows would be its garbage."""
        raise lance.UnsupportedOperationError("use `drop_table`, or export the table first to keep its files")


def _is_lance(transaction: "Transaction", name: Name) -> bool:
    try:
        return StagedTable(transaction, name).row.format == "lance"
    except NotFound:
        return False  # a view


def _rows(data: bytes) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(io.BytesIO(data)).read_all()
    except pa.ArrowException as error:
        raise InvalidInput(f"the rows cannot be read: {error}", remedy="Send an Arrow IPC stream.") from error


def _word(given: str | None, known: Sequence[str], what: str) -> str:
    """A choice, however it is spelled; the first one if none was made."""
    if not given:
        return known[0]
    word = given.replace("_", "").lower()
    if word not in known:
        raise lance.UnsupportedOperationError(f"the {what} {given!r} is not supported; there are {', '.join(known)}")
    return word


def page(
    names: Iterable[str], request: Any, wanted: Callable[[str], bool] = lambda _: True
) -> tuple[list[str], str | None]:
    """A part of a sorted list, and where the next begins. Which names are `wanted` is asked about no more of them than
    that needs.
    """
    token, limit = asked(request, "page_token"), asked(request, "limit")
    shown: list[str] = []
    for name in names:
        if (token is None or name > token) and wanted(name):
            if len(shown) == limit:
                return shown, shown[-1] if shown else token
            shown.append(name)
    return shown, None
