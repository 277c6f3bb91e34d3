"""Files that metadata leads to which becomes a table of the lake: that no clean-up takes them meanwhile."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.care.layout import place
from seiche.lake.care.path_set import PathSet
from seiche.lake.commit.reads import Aspect
from seiche.lake.commit.written import written_since
from seiche.lake.federated.release import taken_back
from seiche.lake.iceberg.claims import stood_at
from seiche.lake.iceberg.reach import IcebergReach
from seiche.lake.objects import rows
from seiche.lake.objects.keys import trash_key
from seiche.lake.objects.rows import TableRow, TrashRow

if TYPE_CHECKING:
    from seiche.lake.sight import Sight

__all__ = ["keep"]


def keep(transaction: "Sight", files: Collection[str], metadata: str | None) -> None:
    """Let the transaction bring files that are in the lake already, and to which `metadata` leads, its path if that is
    in the lake too.

    A clean-up may be about to take those that nothing needs, behind a fence that lets everybody pass who began after
    they were noted. So the transaction is as old as they are, by what the storage says, and meets that fence;
    `InvalidInput` if there has been one since already. What a table needs that the transaction sees, no clean-up takes
    before a fence behind that version. Nor does it with what a dropped table needs, before it forgets that: that the
    table was remembered counts as read.
    """
    state = transaction.state
    kept = _kept(transaction, files, metadata)
    others = [path for path in sorted(files) if path not in kept and not place(path).foreign]
    try:
        since = written_since(others, state.version, state, transaction.runtime)
    except NotFound as error:
        raise InvalidInput(
            f"the metadata leads to {error.details.get('path')}, which a clean-up has taken",
            remedy="`lake.trash()` may still have it.",
            **error.details,
        ) from error
    if since < state.root.min_base:
        raise InvalidInput(
            f"the metadata leads to files that no table of the lake needs, such as {others[0]}, and that a clean-up may"
            f" be taking now: all files were given up that no version from {state.root.min_base} on needed",
            remedy="Register newer metadata of the table, or roll the table back if a version that has them is kept. If"
            " they were put there from a copy, write them once more: what is written now is not given up.",
            path=others[0],
        )
    transaction.oldest = min(transaction.oldest, since)


def _kept(transaction: "Sight", files: Collection[str], metadata: str | None) -> Collection[str] | PathSet:
    """Those of the files that cannot be taken unless the transaction fails; others may be among them."""
    state, found = transaction.state, PathSet()
    reach = IcebergReach(state.store, found)
    for location in sorted({place(path).location for path in files} - {""}):
        back = taken_back(location, state)
        if back is not None:
            # Another catalog may have written there, and nothing of it is touched until the row is gone.
            transaction.reads.key(state, back, Aspect.WHOLE, structural=True)
            for path in files:
                if place(path).location == location:
                    found.add(path)
        for row in _tables(transaction, location):
            if row.iceberg is None:
                continue
            if row.iceberg.location == metadata:
                return files
            with suppress(Corrupt):  # what it leads to from there on is not known to be needed
                reach.add_metadata(row.iceberg.location)
    return found


def _tables(transaction: "Sight", location: str) -> Iterator[TableRow]:
    """The tables that are or were in a place, as far as the lake knows them."""
    state = transaction.state
    for table_id in stood_at(state, location):
        row, dropped = state.table_by_id(table_id), state.get(trash_key(table_id))
        if row is not None:
            yield row
        elif dropped is not None:
            transaction.reads.key(state, trash_key(table_id), Aspect.WHOLE, structural=True)
            yield rows.decode(rows.decode(dropped, TrashRow).row, TableRow)
