"""What a lake can define: each a transaction of one statement."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from seiche.lake.handles import LakeTable, TransactionTable
from seiche.lake.objects.names import Name, parts
from seiche.lake.objects.rows import TableRow
from seiche.lake.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche.table.data.source import Rows

__all__ = ["DefinitionVerbs"]

T = TypeVar("T")


class DefinitionVerbs(ABC):
    """Namespaces, tables and views: listed, made, registered, renamed and dropped."""

    @abstractmethod
    def transaction(self) -> Transaction:
        """Begin a transaction."""

    @abstractmethod
    def run(self, fn: Callable[[Transaction], T]) -> T:
        """Run `fn(tx)` in a transaction and commit it."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Around whatever reads."""

    @abstractmethod
    def handle(self, full: Name, row: TableRow) -> LakeTable:
        """The table of this name, of which it is known what it is."""

    def namespaces(self, inside: str | Sequence[str] = ()) -> list[Name]:
        """The namespaces directly in another one, or the outermost ones."""
        with self.reading():
            return self.transaction().namespaces(inside)

    def tables(self, namespace: str | Sequence[str] | None = None) -> list[Name]:
        """The tables and views directly in a namespace, or all that there are."""
        with self.reading():
            return self.transaction().tables(namespace)

    def create_namespace(self, name: str | Sequence[str], properties: Mapping[str, str] | None = None) -> None:
        """Make a namespace; the one around it must exist."""
        self.run(lambda tx: tx.create_namespace(name, properties))

    def drop_namespace(self, name: str | Sequence[str]) -> None:
        """Remove an empty namespace."""
        self.run(lambda tx: tx.drop_namespace(name))

    def create_table(self, name: str | Sequence[str], schema: "pa.Schema | Rows", **options: Any) -> LakeTable:
        """Make a table: an empty one with this `schema`, or one of rows; `options` as for `tx.create_table`."""
        from seiche.lake.beginning import Beginning

        first = Beginning.of(schema)
        return self._made(name, lambda tx: tx.create_table(name, first, **options))

    def register_table(self, name: str | Sequence[str], location: str, **options: Any) -> LakeTable:
        """Give a table that lies elsewhere a name in the lake; `options` as for `tx.register_table`."""
        return self._made(name, lambda tx: tx.register_table(name, location, **options))

    def _made(self, name: str | Sequence[str], make: "Callable[[Transaction], TransactionTable]") -> LakeTable:
        """The table that a statement makes. It is not looked for again: that might fail when it has been made."""
        return self.handle(parts(name, what="table"), self.run(lambda tx: tx.edits[make(tx).id].row))

    def drop_table(self, name: str | Sequence[str]) -> None:
        """Remove a table; its files stay as long as a kept version needs them."""
        self.run(lambda tx: tx.drop_table(name))

    def rename_table(self, name: str | Sequence[str], to: str | Sequence[str]) -> None:
        """Give a table another name."""
        self.run(lambda tx: tx.rename_table(name, to))

    def create_view(self, name: str | Sequence[str], sql: str, **options: Any) -> None:
        """Make a view, a name for a query that Spark's SQL reads by; see `tx.create_view`."""
        self.run(lambda tx: tx.create_view(name, sql, **options))

    def drop_view(self, name: str | Sequence[str]) -> None:
        """Remove a view."""
        self.run(lambda tx: tx.drop_view(name))
