"""What of an index segment that is not committed yet still holds in a version that came after it was built."""

from collections.abc import Iterable

from pyroaring import BitMap

from seiche.errors import RetryableConflict
from seiche.table.data.index.build import Segment
from seiche.table.data.removal import came_back
from seiche.table.format.manifest import Manifest
from seiche.table.operations.fields import check_same_meaning, related
from seiche.table.operations.files import changed_fields
from seiche.table.snapshot import Snapshot

__all__ = ["Standing"]


class Standing:
    """Segments beside one version. Deletion vectors are read where they differ, once for each segment, side by side."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[bytes, BitMap] = {}

    def left_of(self, segments: Iterable[Segment]) -> list[Segment]:
        """Those that speak for something here, and those of a table without rows.

        Not one of a column that is another by now, though it has the name.
        """
        manifest = self._snapshot.manifest
        return [one for one in segments if _is_of(one, manifest) and (self.over(one) or not one.portion.ids)]

    def over(self, segment: Segment) -> BitMap:
        """The fragments in which the segment knows every row, by the value that was read.

        Not those in which rows are back that were deleted when it was built: a Restore brings such.
        """
        found = self._known.get(segment.encoded)
        if found is None:
            found = self._known[segment.encoded] = self._compared(segment)
        return found

    def changed(self, segment: Segment) -> BitMap:
        """The other fragments of the segment that are still there."""
        fragments = self._snapshot.manifest.fragments
        return BitMap(one for one in segment.portion.ids if fragments.get(one) is not None) - self.over(segment)

    def _compared(self, segment: Segment) -> BitMap:
        portion = segment.portion
        then = portion.snapshot(self._snapshot.store, self._snapshot.runtime)
        fields = related(then.manifest.header.fields, _used(segment))
        pairs = [(one, self._snapshot.manifest.fragments.get(one.id)) for one in portion.fragments]
        same = [(one, now) for one, now in pairs if now is not None and fields.isdisjoint(changed_fields(one, now))]
        had_deletions = [(one, now) for one, now in same if one.HasField("deletion_file")]
        compared = self._snapshot.store.in_parallel(
            lambda pair: came_back(pair[0], then, pair[1], self._snapshot), had_deletions
        )
        back = BitMap(one.id for (one, _), came in zip(had_deletions, compared, strict=True) if came)
        return BitMap(one.id for one, _ in same) - back


def _is_of(segment: Segment, manifest: Manifest) -> bool:
    """Whether the columns that were read for the segment are there, and what they were."""
    then, now = segment.portion.manifest.header.fields, manifest.header.fields
    used = _used(segment)
    try:
        check_same_meaning(used, then, now, values=False)
    except RetryableConflict:
        return False
    return used.issubset(one.id for one in now)


def _used(segment: Segment) -> set[int]:
    index = segment.index
    return {*index.fields, *index.covering_fields}
