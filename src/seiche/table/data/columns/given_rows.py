"""The rows that values were given for one by one: those of the version that was read first."""

import numpy as np
from pyroaring import BitMap

from seiche.errors import IncompatibleConflict
from seiche.table.data.removal import live_rows
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

__all__ = ["GivenRows"]

_REMEDY = "Nothing was written. Read the table again, and give values for the rows that it has."


class GivenRows:
    """Remembers them as places in fragments, which stay what they are; what others do to the rows does not."""

    def __init__(self) -> None:
        self._rows: dict[int, BitMap] = {}
        self._fragments: frozenset[int] | None = None

    def offsets(self, snapshot: Snapshot, fragment: DataFragment) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
        """The places in a fragment that there are values for, ascending: all rows that it has when first asked."""
        if fragment.id not in self._rows:
            self._rows[fragment.id] = live_rows(snapshot, fragment)
        return np.frombuffer(self._rows[fragment.id].to_array(), dtype=np.uint32)

    def check(self, snapshot: Snapshot) -> None:
        """`IncompatibleConflict` if a row was moved since, or one came back that there is no value for.

        A row that is gone may have been deleted, and then needs no value, or an update may have written it into a newer
        fragment. The two look the same; so if there is any newer fragment, the row counts as moved.
        """
        present = frozenset(snapshot.manifest.fragments.ids())
        if self._fragments is None:
            self._fragments = present
            return
        came = present - self._fragments
        for fragment_id, rows in self._rows.items():
            fragment = snapshot.manifest.fragments.get(fragment_id)
            here = BitMap() if fragment is None else live_rows(snapshot, fragment)
            if fragment is None or (came and rows - here):
                raise IncompatibleConflict(
                    "others have moved or removed the rows that the new values are for.",
                    remedy=_REMEDY,
                    fragments=[fragment_id],
                )
            if here - rows:
                raise IncompatibleConflict(
                    "others have brought rows back that there are no new values for.",
                    remedy=_REMEDY,
                    fragments=[fragment_id],
                )
