"""How old an index segment is: which fragments it cannot possibly know."""

from collections.abc import Sequence

from pyroaring import BitMap

from seiche.errors import NotFound
from seiche.table.format.index_details import FRAGMENT_REUSE, find
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.format.row_ids import RowIds
from seiche.table.operations.coverage import covered
from seiche.table.snapshot import Snapshot
from seiche.table.versions.stored import PutVersions

__all__ = ["is_older"]


def is_older(segment: IndexMetadata, fragments: Sequence[DataFragment], snapshot: Snapshot) -> bool:
    """Whether the files of the segment cannot have anything about any row of the fragments.

    What a segment covers does not tell. When values of a fragment are written anew, or rows with stable ids move, its
    coverage shrinks, but its files keep what they have; and native code believes them as soon as another segment of the
    same index covers the fragment. So it goes by age: what came after a version which already had the segment is
    unknown to it.
    """
    early = _early_version(segment, snapshot)
    if any(one.id <= early.max_fragment_id for one in fragments):
        return False
    reuse = find(snapshot.manifest.indices, FRAGMENT_REUSE)
    led_to = BitMap() if reuse is None else covered(reuse) or BitMap()
    if any(one.id in led_to for one in fragments):
        # The map of moved rows leads there, from wherever the segment knows them.
        return False
    if not snapshot.manifest.has_stable_row_ids:
        return True
    # A new fragment may have rows that were elsewhere before.
    ids = (RowIds.decode(one.inline_row_ids, rows=one.physical_rows).to_array() for one in fragments)
    return all(not len(each) or int(each.min()) >= early.header.next_row_id for each in ids)


def _early_version(segment: IndexMetadata, snapshot: Snapshot) -> Manifest:
    """A version that has the segment, as early as one can be found."""
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
    return found


def _with(segment: IndexMetadata, versions: PutVersions, number: int) -> Manifest | None:
    """The version, if it is kept and has the segment."""
    try:
        manifest = versions.read(number).manifest
    except NotFound:
        return None
    return manifest if any(one.uuid.uuid == segment.uuid.uuid for one in manifest.indices) else None
