"""How old an index segment is: which fragments it cannot possibly know."""

from seiche.errors import NotFound
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.snapshot import Snapshot
from seiche.table.versions.stored import PutVersions

__all__ = ["largest_known_id"]


def largest_known_id(segment: IndexMetadata, snapshot: Snapshot) -> int:
    """An id above which the files of the segment have nothing about any fragment.

    What a segment covers does not tell: when values of a fragment are written anew, its coverage shrinks, but its files
    keep the old ones, and native code believes them as soon as another segment of the same index covers the fragment.
    So it goes by age: a fragment that came after a version which already had the segment is unknown to it.
    """
    without, found = segment.dataset_version, snapshot.manifest
    newest = snapshot.published_version or 0
    versions = PutVersions(snapshot.store, runtime=snapshot.runtime)
    step = 1
    # The earlier the version, the more fragments came after it; but any that has the segment will do. So gallop to one,
    # then search between it and the last that does not have it. Versions that are not kept count as those.
    while without + step <= newest:
        manifest = _with(segment, versions, without + step)
        if manifest is not None:
            found = manifest
            break
        without += step
        step *= 2
    while found.version - without > 1:
        middle = (without + found.version) // 2
        manifest = _with(segment, versions, middle)
        if manifest is None:
            without = middle
        else:
            found = manifest
    return found.max_fragment_id


def _with(segment: IndexMetadata, versions: PutVersions, number: int) -> Manifest | None:
    """The version, if it is kept and has the segment."""
    try:
        manifest = versions.read(number).manifest
    except NotFound:
        return None
    return manifest if any(one.uuid.uuid == segment.uuid.uuid for one in manifest.indices) else None
