"""Row ids and versions of rows that are about to stand in another order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds, RowVersions

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RowMarks", "addresses"]

# Rows of a fragment that does not say when they were made count as there from the beginning.
_UNKNOWN_VERSION = 1


@dataclass(frozen=True, slots=True)
class RowMarks:
    """For each row its address, its stable id, and the versions that made and last changed it."""

    addresses: "NDArray[np.uint64]"
    ids: "NDArray[np.uint64]"
    created: "NDArray[np.uint64]"
    updated: "NDArray[np.uint64]"

    @classmethod
    def of(cls, fragments: Sequence[DataFragment]) -> "RowMarks":
        """The marks of all rows of the fragments, by ascending address; deleted rows have some too."""
        places, ids, created, updated = [], [], [], []
        for one in fragments:
            rows = one.physical_rows
            # First of all: a wrong number of rows is found here, before memory is set aside for as many.
            ids.append(RowIds.decode(one.inline_row_ids, rows=rows).to_array())
            places.append(addresses(one.id, range(rows)))
            created.append(_versions(one.inline_created, rows))
            updated.append(_versions(one.inline_last_updated, rows))
        return cls(*map(np.concatenate, (places, ids, created, updated)))

    def at(self, addresses: "NDArray[np.uint64]") -> "RowMarks":
        """Those of the rows at these addresses, in this order."""
        where = np.searchsorted(self.addresses, addresses)
        return RowMarks(addresses, self.ids[where], self.created[where], self.updated[where])

    def stamped(self, fragments: Sequence[DataFragment]) -> tuple[DataFragment, ...]:
        """The fragments, which hold exactly these rows in this order, with the marks."""
        made = []
        start = 0
        for fragment in fragments:
            end = start + fragment.physical_rows
            copy = DataFragment()
            copy.CopyFrom(fragment)
            copy.inline_row_ids = RowIds(self.ids[start:end]).encode()
            copy.inline_created = RowVersions.of(self.created[start:end]).encode()
            copy.inline_last_updated = RowVersions.of(self.updated[start:end]).encode()
            made.append(copy)
            start = end
        return tuple(made)


def addresses(fragment_id: int, offsets: Iterable[int]) -> "NDArray[np.uint64]":
    """The addresses of rows of one fragment."""
    return (np.uint64(fragment_id) << np.uint64(32)) + np.fromiter(offsets, np.uint64)


def _versions(encoded: bytes, rows: int) -> "NDArray[np.uint64]":
    stored = RowVersions.decode(encoded, rows=rows) if encoded else RowVersions.run(_UNKNOWN_VERSION, rows)
    return stored.to_array()
