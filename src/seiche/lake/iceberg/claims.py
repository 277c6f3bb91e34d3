"""Which tables have been registered in the places of tables that were dropped: one at a time may stand there."""

from typing import TYPE_CHECKING, Final

from seiche.errors import AlreadyExists
from seiche.lake.commit.reads import Aspect
from seiche.lake.iceberg.places import table_id_in
from seiche.lake.objects import rows
from seiche.lake.objects.keys import id_key, name_of, retention_key, trash_key
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import RetentionRow, TableRow
from seiche.lake.state import State

if TYPE_CHECKING:
    from seiche.lake.sight import Sight

__all__ = ["check_unclaimed", "claim", "is_claimed", "others_at", "stood_at"]

_REGISTERED: Final = "registered/"


def claim(transaction: "Sight", name: Name, row: TableRow) -> None:
    """Let the place of a table that was dropped be that of `row` from now on; `AlreadyExists` if it is another's.

    Two who claim it at the same time write the same row, and so meet. All who ever stood there are remembered: a
    rollback may bring any of them back.
    """
    first, *before = check_unclaimed(transaction, name, row)
    claimed = {"location": row.location, "tables": " ".join([*before, row.id])}
    transaction.write_row(_key(first), rows.encode(RetentionRow(maximum_age_millis=0, properties=claimed)))


def check_unclaimed(transaction: "Sight", name: Name, row: TableRow) -> list[str]:
    """`AlreadyExists` if another table has the place of `row`; the ids of all that ever stood there."""
    _, first = table_id_in(transaction.state.store, row.location)
    known = [first, *_tables(transaction.row_behind(_key(first)))]
    for one in known:
        if _is_there(transaction, one):
            raise AlreadyExists(
                f"the metadata belongs to a table that the lake has; it cannot be {text(name)} too",
                remedy="Drop or rename that table instead.",
                table=text(name),
            )
        # Neither may it be brought back meanwhile, nor may a clean-up forget it: that takes its files next.
        for seen in (id_key(one), trash_key(one)):
            transaction.reads.key(transaction.state, seen, Aspect.WHOLE, structural=True)
    return known


def is_claimed(state: State, table_id: str) -> bool:
    """Whether the place of the table with this id has become that of others."""
    return state.get(_key(table_id)) is not None


def others_at(state: State, row: TableRow) -> dict[str, Name]:
    """The other tables that stand in the place of an Iceberg table of the lake's own, by their ids: one at most."""
    found = {one: state.key_of(one) for one in stood_at(state, row.location) if one != row.id}
    return {one: name_of(key) for one, key in found.items() if key is not None}


def stood_at(state: State, location: str) -> list[str]:
    """The ids of all tables that ever stood in a place of an Iceberg table."""
    _, first = table_id_in(state.store, location)
    return [first, *_tables(state.get(_key(first)))]


def _key(table_id: str) -> bytes:
    return retention_key(f"{_REGISTERED}{table_id}")


def _tables(value: bytes | None) -> list[str]:
    return [] if value is None else rows.decode(value, RetentionRow).properties["tables"].split()


def _is_there(transaction: "Sight", table_id: str) -> bool:
    """In the lake or made by the transaction. One that the transaction drops counts until it is committed: what others
    do to the table meanwhile would be missing in what is registered.
    """
    edit = transaction.edits.get(table_id)
    return transaction.state.key_of(table_id) is not None or (edit is not None and edit.key is not None)
