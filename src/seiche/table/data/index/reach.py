"""Which fragments the indices of a version really speak for, also where their rows have moved since."""

from dataclasses import dataclass

from pyroaring import BitMap

from seiche.table.format.index_details import FRAGMENT_REUSE, ReuseContent, ReuseIndexFiles, find
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations.coverage import covered, followed, is_system
from seiche.table.snapshot import Snapshot

__all__ = ["Reach"]


@dataclass(frozen=True, slots=True)
class Reach:
    """The index segments of a version, each with the fragments of that version that it covers."""

    segments: tuple[tuple[IndexMetadata, BitMap], ...]
    # Whether a fragment-reuse index leads some of them to where their rows are now.
    led_on: bool

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Reach":
        """Reads the content of the fragment-reuse index, if there is one."""
        manifest = snapshot.manifest
        entry = find(manifest.indices, FRAGMENT_REUSE)
        moves = ReuseContent() if entry is None else ReuseIndexFiles(snapshot.store).read(entry)
        existing = BitMap(manifest.fragments.ids()) if manifest.indices else BitMap()
        found = []
        for index in manifest.indices:
            if not is_system(index):
                now = covered(index)
                found.append((index, existing.copy() if now is None else followed(now, moves) & existing))
        return cls(tuple(found), entry is not None)

    def segments_over(self, fragment_id: int) -> frozenset[bytes]:
        """The ids of the segments that cover a fragment."""
        return frozenset(index.uuid.uuid for index, fragments in self.segments if fragment_id in fragments)

    def over(self, fragments: BitMap) -> list[IndexMetadata]:
        """The segments that cover at least one of the fragments."""
        return [index for index, own in self.segments if not own.isdisjoint(fragments)]

    def covers_evenly(self, fragments: BitMap) -> bool:
        """Whether each segment covers all of the fragments or none."""
        return all(own.isdisjoint(fragments) or fragments.issubset(own) for _, own in self.segments)

    def covered(self, name: str) -> bool:
        """Whether any segment of this index covers anything."""
        return any(own for index, own in self.segments if index.name == name)

    def unindexed(self, name: str, fragments: BitMap) -> BitMap:
        """Those of the fragments that no segment of this index covers."""
        left = fragments.copy()
        for index, own in self.segments:
            if index.name == name:
                left -= own
        return left
