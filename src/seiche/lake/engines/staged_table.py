"""A table inside a transaction, as an engine works on it."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from seiche.core.runtime import Runtime
from seiche.errors import NotFound
from seiche.lake.commit.edits import TableEdit
from seiche.lake.commit.work import Work
from seiche.lake.handles import TransactionTable
from seiche.lake.objects.keys import name_of
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.change import Change

if TYPE_CHECKING:
    from seiche.lake.transaction import Transaction

__all__ = ["StagedTable"]


class StagedTable:
    """The statements on one table so far, and the way to add one. `NotFound` if there is no such table."""

    def __init__(self, transaction: "Transaction", name: Name) -> None:
        """`name` are the parts of the table's name; its id alone will do, since no table has a name of one part."""
        self.transaction = transaction
        self.id = _by_id(transaction, name[0]) if len(name) == 1 else transaction.table(name).id

    @property
    def name(self) -> str:
        return self.edit.name

    @property
    def edit(self) -> TableEdit:
        """Everything that the transaction does to the table, as a value; the files that it names are there."""
        self.transaction.late.write()
        return self.transaction.edit(self.id)

    @property
    def row(self) -> TableRow:
        """What the lake says about the table, as the transaction sees it."""
        return self.edit.shown

    @property
    def work(self) -> Work:
        """What the transaction has made of the table's content; the files that it names are there."""
        self.transaction.late.write()
        return TransactionTable(self.transaction, self.id)._work()

    @property
    def runtime(self) -> Runtime:
        return self.transaction.runtime

    @cached_property
    def store(self) -> Store:
        """The storage of the table, rooted at it."""
        return below(self.transaction.state.store, self.row.location)

    def apply(self, change: Change) -> None:
        """Make the change a statement of the transaction."""
        TransactionTable(self.transaction, self.id).apply(change)

    def put_back(self, edit: TableEdit) -> None:
        """Undo statements: the table is again what `edit` says, which was taken before them."""
        self.transaction.put_edit(edit)

    def note_read(self) -> None:
        """The content of the table has been looked at, and its properties."""
        self.transaction.note_read(self.id)
        self.transaction.note_properties(self.id)

    def note_files(self, paths: Iterable[str]) -> None:
        """Files that somebody has written without flushing them, to be flushed before the commit that names them."""
        self.transaction.unflushed += [join(self.row.location, path) for path in paths]


def _by_id(transaction: "Transaction", table_id: str) -> str:
    transaction.check_running()
    if table_id in transaction.edits:
        return table_id
    key = transaction.state.key_of(table_id)
    if key is None:
        raise NotFound(
            f"there is no table with the id {table_id}",
            remedy="It was dropped. Names have at least two parts: namespace and table.",
            table=table_id,
        )
    return transaction.table(name_of(key)).id
