"""What a merge will do to one version of a table, decided row by row before anything is written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from seiche.table.data.merge.clauses import Action, Clause, Side
from seiche.table.data.merge.matched import (
    Decided,
    Sides,
    decide_matched,
    decide_others,
    picked,
    updated_matched,
    updated_others,
)
from seiche.table.data.merge.source import MergeSource
from seiche.table.data.merge.target import find_matches
from seiche.table.data.moving import Moved
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MergePlan", "about", "plan"]


def about(clauses: Sequence[Clause], side: Side) -> list[Clause]:
    """The clauses for these rows, in the order in which they are tried."""
    return [clause for clause in clauses if clause.side == side]


def plan(snapshot: Snapshot, source: MergeSource, on: Sequence[str], clauses: Sequence[Clause]) -> "MergePlan":
    """Find the matches and give each row to its clause. Reads the table, writes nothing."""
    lonely = about(clauses, "not matched by source")
    matches = find_matches(snapshot, on, source, others=bool(lonely))
    sides = Sides(snapshot, source, on, matches)
    decided = decide_matched(sides, about(clauses, "matched")) + decide_others(snapshot, matches.others, lonely)
    new = np.empty(0, np.int64)
    if about(clauses, "not matched"):
        unmatched = np.ones(len(source), np.bool_)
        unmatched[matches.rows] = False
        new = np.flatnonzero(unmatched)
    return MergePlan(sides, decided, new)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Which rows of the table change by which clause, and which rows of the data are new."""

    sides: Sides
    decided: Sequence[Decided]
    # Rows of the data, by number.
    new: "NDArray[np.int64]"

    @property
    def snapshot(self) -> Snapshot:
        return self.sides.snapshot

    @property
    def source(self) -> MergeSource:
        return self.sides.source

    def count(self, action: Action) -> int:
        """How many rows are updated, deleted or inserted."""
        if action == "insert":
            return len(self.new)
        return sum(len(one.places) for one in self.decided if one.clause.action == action)

    @property
    def updates(self) -> list[Decided]:
        """Those of the decisions by which rows are written anew."""
        return [one for one in self.decided if one.clause.action == "update" and len(one.places)]

    @property
    def taken_out(self) -> "NDArray[np.uint64]":
        """The addresses of rows that leave their place, because they are deleted or written anew."""
        return np.concatenate([np.empty(0, np.uint64), *(one.places.addresses for one in self.decided)])

    @property
    def copied(self) -> "NDArray[np.int64] | None":
        """The rows of the data that the new files hold, if they hold nothing else.

        If they are all rows of the data, and no row ids depend on their order, they are in the order of the data: then
        a merge that is run again after a conflict finds that it has written them already.
        """
        whole = len(self.source.shared) == len(self.snapshot.schema.names)
        if not all(whole and one.clause.takes_all for one in self.updates):
            return None
        rows = np.concatenate([*(self.sides.matches.rows[one.matches] for one in self.updates), self.new])
        count = len(self.source)
        each_once = len(rows) == count and bool((np.bincount(rows, minlength=count) == 1).all())
        return np.arange(count) if each_once and not self.snapshot.manifest.has_stable_row_ids else rows

    def new_rows(self, moved: Moved) -> Iterator[pa.RecordBatch]:
        """The rows for new files: those that are updated, noted in `moved`, then those that are new."""
        if (copied := self.copied) is not None:
            self.note_copied(moved)
            yield from picked(self.source, self.snapshot.schema, copied)
            return
        for one in self.updates:
            if one.clause.side == "matched":
                yield from updated_matched(self.sides, one, moved)
            else:
                yield from updated_others(self.snapshot, one, moved)
        yield from picked(self.source, self.snapshot.schema, self.new)

    def note_copied(self, moved: Moved) -> None:
        """Note which rows of the table those of `copied` take the place of."""
        for one in self.updates:
            moved.note(one.places)
