"""What a name stands for, as a transaction sees it."""

from typing import TYPE_CHECKING

from seiche.errors import InvalidInput, NotFound
from seiche.lake.commit.reads import Aspect
from seiche.lake.objects import rows
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.names import Name, parts, text
from seiche.lake.objects.rows import ViewRow
from seiche.lake.transaction import Transaction

if TYPE_CHECKING:
    from seiche.lake.handles import TransactionTable

__all__ = ["find", "qualified", "table", "view"]


def find(tx: Transaction, name: Name) -> "TransactionTable | ViewRow | None":
    """The table or view of this name; `None` if there is none."""
    full = parts(name)
    if len(full) < 2:
        return None
    found = view(tx, full)
    if found is not None:
        return found
    try:
        return tx.table(full)
    except NotFound:
        return None


def table(tx: Transaction, name: Name) -> "TransactionTable":
    """The table of this name; an error that says what is there instead, if it is not one."""
    if view(tx, name) is not None:
        raise InvalidInput(
            f"{text(name)} is a view, and a table was expected",
            remedy="Name a table that it looks at; DROP VIEW and CREATE OR REPLACE VIEW are for views.",
        )
    return tx.table(parts(name))


def view(tx: Transaction, name: Name) -> ViewRow | None:
    """The view of this name; `None` if there is none. The transaction counts as having looked."""
    key = table_key(parts(name))
    if tx.names.get(key) is not None:
        return None
    tx.reads.key(tx.state, key, Aspect.IDENTITY)
    value = tx.rows[key].wanted if key in tx.rows else tx.state.get(key)
    if value is None or rows.kind_of(value) is not ViewRow:
        return None
    tx.reads.key(tx.state, key, Aspect.WHOLE)
    return rows.decode(value, ViewRow)


def qualified(name: Name, namespace: Name) -> Name:
    """The whole name: one of a single part is looked for in the namespace that is used."""
    if len(name) > 1:
        return name
    if not namespace:
        raise InvalidInput(
            f"{text(name)} has no namespace", remedy="Write it as namespace.name, or say USE namespace before."
        )
    return (*namespace, *name)
