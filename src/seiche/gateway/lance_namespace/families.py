"""A table with its branches and tags: they are renamed and dropped with it."""

from typing import TYPE_CHECKING, Any

import lance_namespace as lance

from seiche.gateway.lance_namespace.branches import branch_in, branches_seen
from seiche.gateway.lance_namespace.tags import key_of, keys_of, tags
from seiche.lake.engines.answers import answering, asked
from seiche.lake.engines.catalog import CatalogNamespace, id_of
from seiche.lake.engines.lance_namespace import TransactionNamespace
from seiche.lake.engines.object_paths import path_inside
from seiche.lake.objects.names import Name, parts
from seiche.table.format import file
from seiche.table.format.schema import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.lake.transaction import Transaction

__all__ = ["FamilyVerbs", "SessionNamespace"]


class FamilyVerbs(CatalogNamespace):
    """The part of a namespace that is about names, for tables that have branches and tags."""

    def rename_table(self, request: Any) -> lance.RenameTableResponse:
        """Give a table another name, and its branches with it."""
        name = id_of(request)
        outer = asked(request, "new_namespace_id")
        target = (*(name[:-1] if outer is None else outer), asked(request, "new_table_name"))

        def rename(transaction: "Transaction") -> None:
            found = branches_seen(transaction, parts(name, what="table"))
            transaction.rename_table(name, target)
            for branch, full in found.items():
                transaction.rename_table(full, branch_in(parts(target, what="table"), branch))

        with answering("table"):
            self._writing(rename)
        return lance.RenameTableResponse()

    def drop_table(self, request: Any) -> lance.DropTableResponse:
        """Remove a table with its branches; files stay as long as a kept version of the lake needs them."""
        name = id_of(request)

        def drop(transaction: "Transaction") -> None:
            found = branches_seen(transaction, parts(name, what="table"))
            for one in (name, *found.values()):
                self._drop(transaction, one)

        with answering("table"):
            self._writing(drop)
        return lance.DropTableResponse(id=list(name))

    def _drop(self, transaction: "Transaction", name: Name) -> None:
        """Remove a table with its tags: nobody could take them away later, and they keep what they stand for."""
        row = transaction.named(parts(name, what="table")).row
        transaction.drop_table(name)
        transaction.reads.range(transaction.state, keys_of(row), structural=True)
        for tag in tags(transaction.state, row):
            transaction.write_row(key_of(row, tag), None)


class SessionNamespace(FamilyVerbs, TransactionNamespace):
    """The lake as a transaction sees it that clients have chosen by a header."""

    def schema(self, request: Any) -> "pa.Schema":
        """The columns of what `describe_table` describes: at a version, if one is named."""
        name, version = id_of(request), asked(request, "version")
        if version is None:
            return self._transaction.table(name).schema
        with answering("version"):
            store = self.table(name).store
            path = path_inside(store, self._version(name, version).manifest_path)
            header = file.decode(store.get(path), path=path).manifest.header
            return to_arrow(header.fields, header.schema_metadata)
