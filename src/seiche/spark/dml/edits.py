"""Changed rows as values: what shall happen to them, and what a worker reports when it has.

What Spark makes of a statement is a frame of *edits*: the address of a row, the number of what shall happen to it, and
the values that it gets. `applying` puts them into place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyroaring import BitMap

from seiche.spark.address import Address
from seiche.spark.writing import Target
from seiche.table.data.portion import Portion
from seiche.table.format import roaring

__all__ = ["ACTION", "Action", "Edited", "Editing", "Edits", "by_kind", "packed", "unpacked", "value_of"]

# The column that says which of the actions a row is for.
ACTION = "_seiche_action"


def value_of(column: str) -> str:
    """The name under which a column's new values come. Spark itself stumbles over dots and backticks on the way."""
    return "_seiche_value_" + column.replace("%", "%25").replace(".", "%2E").replace("`", "%60")


@dataclass(frozen=True, slots=True)
class Action:
    """What happens to a row: `columns` are those that get new values, all of them for an insert; `None` deletes it."""

    columns: tuple[str, ...] | None
    insert: bool = False


def by_kind(actions: Sequence[Action], counts: Sequence[int]) -> dict[str, int]:
    """How many rows were inserted, updated and deleted, if each action was applied to so many."""
    totals = {"inserted": 0, "updated": 0, "deleted": 0}
    for action, count in zip(actions, counts, strict=True):
        kind = "inserted" if action.insert else "deleted" if action.columns is None else "updated"
        totals[kind] += count
    return totals


def packed(rows: Mapping[int, BitMap]) -> dict[int, bytes]:
    """Rows by fragment, as a worker reports them."""
    return {fragment_id: roaring.encode(offsets) for fragment_id, offsets in rows.items()}


def unpacked(reports: Iterable[Mapping[int, bytes]]) -> dict[int, BitMap]:
    """The rows by fragment that workers report, each for fragments of its own."""
    return {
        fragment_id: roaring.decode(offsets, what=f"the rows taken out of fragment {fragment_id}")
        for rows in reports
        for fragment_id, offsets in rows.items()
    }


class Edits(Protocol):
    """The work of all tasks together, of whichever format the table is."""

    @property
    def target(self) -> "Place":
        """Where new rows go."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """What an edit may be for."""

    @property
    def key(self) -> tuple[tuple[int, str], ...]:
        """The key by which rows were matched, with the ids of its fields."""


class Place(Protocol):
    """Where rows go, and as what."""

    @property
    def address(self) -> Address:
        """Of the storage."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""


@dataclass(frozen=True, slots=True)
class Editing:
    """The work of all tasks together, as a value. The task that has edits of group *n* finds its fragments there."""

    target: Target
    portions: tuple[Portion, ...]
    actions: tuple[Action, ...]
    # The key by which rows were matched, with the ids of its fields; of inserted ones its hashes are reported.
    key: tuple[tuple[int, str], ...] = ()
    # Whether it is reported how many rows were inserted, updated and deleted.
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """What one task did, for the driver: no rows, only where they are now and were before."""

    updated: tuple[bytes, ...] = ()
    removed: tuple[int, ...] = ()
    # By fragment the rows that were there and are not any more, as Roaring bitmaps.
    rows: dict[int, bytes] = field(default_factory=dict)
    new: tuple[bytes, ...] = ()
    # How many rows each action was applied to.
    counts: tuple[int, ...] = ()
    # Hashes of the keys that were inserted; `None` if they are too many.
    keys: tuple[int, ...] | None = ()
    files: int = 0
    bytes: int = 0
    executor: str = ""
