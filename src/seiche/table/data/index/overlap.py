"""Which rows an index segment knows under other places than those it was built over."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from seiche.table.data.index.build import Segment
from seiche.table.format.index_details import FRAGMENT_REUSE, ReuseIndexFiles, find
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.format.row_ids import RowIds
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["apart", "knows"]


def knows(segment: Segment, fragments: Iterable[DataFragment], snapshot: Snapshot) -> bool:
    """Whether the segment may have something about rows that are now in these fragments, though it was built over
    others: rows with stable ids take these along when they move, and a map leads from old places to new ones.

    As long as nobody else covers such a fragment, its rows are scanned and what the segment says of them is passed
    over. But together with a segment that does cover it, each row would be found twice, or with an old value.
    """
    own = BitMap(segment.portion.ids)
    others = [one for one in fragments if one.id not in own]
    if not others:
        return False
    if snapshot.manifest.has_stable_row_ids:
        known = _row_ids(segment.portion.fragments)
        return bool(np.isin(_row_ids(others), known).any())
    return not _led_from(own, snapshot).isdisjoint(BitMap(one.id for one in others))


def apart(segments: Sequence[Segment], snapshot: Snapshot) -> list[Segment]:
    """The segments of which no two know the same row. Of two that do, the one that was built later stays."""
    kept: list[Segment] = []
    for one in sorted(segments, key=lambda segment: -segment.portion.version):
        taken = {fragment_id for other in kept for fragment_id in other.portion.ids}
        # In one version no row is in two fragments, so there is nothing to compare.
        later = [other for other in kept if other.portion.version > one.portion.version]
        moved = (fragment for other in later for fragment in other.portion.fragments)
        if taken.isdisjoint(one.portion.ids) and not knows(one, moved, snapshot):
            kept.append(one)
    return [one for one in segments if one in kept]


def _led_from(fragment_ids: BitMap, snapshot: Snapshot) -> BitMap:
    """Where rows of these fragments may be by now, as the fragment-reuse index has it."""
    entry = find(snapshot.manifest.indices, FRAGMENT_REUSE)
    if entry is None:
        return BitMap()
    led, reached = BitMap(), fragment_ids.copy()
    for version in ReuseIndexFiles(snapshot.store).read(entry).versions:
        for group in version.groups:
            if any(one.id in reached for one in group.old_fragments):
                led.update(one.id for one in group.new_fragments)
        reached |= led
    return led


def _row_ids(fragments: Iterable[DataFragment]) -> "NDArray[np.uint64]":
    found = [RowIds.decode(one.inline_row_ids, rows=one.physical_rows).to_array() for one in fragments]
    return np.concatenate(found) if found else np.empty(0, np.uint64)
