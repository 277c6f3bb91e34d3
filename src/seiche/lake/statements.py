"""The verbs of tables as statements of a transaction: the table's name, then what the verb takes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from seiche.table.change import Result
from seiche.table.verbs.merge import MergeBuilder

if TYPE_CHECKING:
    from seiche.lake.handles import TransactionTable

__all__ = ["Statements"]

TableName: TypeAlias = str | Sequence[str]


class Statements(ABC):
    """`tx.append("shop.orders", data)` is `tx.table("shop.orders").append(data)`, and so on. All verbs are on the
    table.
    """

    @abstractmethod
    def table(self, name: TableName) -> "TransactionTable":
        """A table as the transaction sees it."""

    def append(self, table: TableName, data: Any, **options: Any) -> Result:
        """Add rows."""
        return self.table(table).append(data, **options)

    def overwrite(self, table: TableName, data: Any, **options: Any) -> Result:
        """Replace all rows."""
        return self.table(table).overwrite(data, **options)

    def delete(self, table: TableName, predicate: str, **options: Any) -> Result:
        """Remove the rows that match a predicate (SQL)."""
        return self.table(table).delete(predicate, **options)

    def update(
        self,
        table: TableName,
        set: Mapping[str, str],  # noqa: A002 - the word for it
        where: str | None = None,
        **options: Any,
    ) -> Result:
        """Give columns of the matching rows other values, by SQL expressions."""
        return self.table(table).update(set, where=where, **options)

    def merge(self, table: TableName, data: Any, on: str | Sequence[str], **options: Any) -> MergeBuilder:
        """Merge rows by key; say what shall happen to them, then `.execute()`."""
        return self.table(table).merge(data, on, **options)
