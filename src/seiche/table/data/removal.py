"""Taking rows out of their fragments: by deletion vectors, or with the whole fragment when none is left."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from pyroaring import BitMap

from seiche.errors import Corrupt, NotFound
from seiche.table.format.deletions import encode_bitmap, path
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.snapshot import Snapshot

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Removal", "all_live_rows", "by_fragment", "came_back", "live_rows", "remove_all", "remove_rows"]


@dataclass(frozen=True, slots=True)
class Removal:
    """What an operation says when rows are taken out: fragments as they shall be, and those that go altogether."""

    updated: tuple[DataFragment, ...] = ()
    removed: tuple[int, ...] = ()
    # By fragment, the rows that were there and are not any more.
    rows: Mapping[int, BitMap] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.rows.values()))


def by_fragment(addresses: "NDArray[np.uint64]") -> dict[int, BitMap]:
    """Row addresses, in any order, as offsets in each fragment."""
    if not len(addresses):
        return {}
    ordered = addresses if bool((addresses[:-1] <= addresses[1:]).all()) else np.sort(addresses)
    fragments = ordered >> np.uint64(32)
    starts = np.concatenate(([0], np.flatnonzero(fragments[1:] != fragments[:-1]) + 1))
    ends = np.append(starts[1:], len(ordered))
    offsets = (ordered & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return {
        int(fragments[start]): _bitmap(offsets[start:end])
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    }


def _bitmap(offsets: "NDArray[np.uint32]") -> BitMap:
    # From anything but this type of array the numbers are taken over one by one.
    members = array("I")
    members.frombytes(offsets.tobytes())
    return BitMap(members)


def remove_rows(snapshot: Snapshot, rows: Mapping[int, BitMap]) -> Removal:
    """Take these rows, which must be there, out of their fragments; deletion files are durable when this returns.

    A deletion file holds all deletions of its fragment, the earlier ones too.
    """
    snapshot.manifest.fragments.get(0)  # decodes them once, before several threads would
    parts = snapshot.store.in_parallel(lambda item: _remove(snapshot, *item), rows.items())
    updated = [fragment for fragment, _ in parts if fragment is not None]
    # Together: after the first, most of what the others would wait for is on disk already.
    snapshot.store.flush(path(fragment.id, fragment.deletion_file) for fragment in updated)
    sizes = [size for fragment, size in parts if fragment is not None]
    gone = [fragment_id for fragment_id, (fragment, _) in zip(rows, parts, strict=True) if fragment is None]
    return Removal(tuple(updated), tuple(gone), dict(rows), len(sizes), sum(sizes))


def remove_all(snapshot: Snapshot) -> Removal | None:
    """Take out every row without reading one; `None` if some fragment does not say how many it has."""
    fragments = snapshot.manifest.fragments
    if not all(fragment.physical_rows for fragment in fragments):
        return None
    rows = all_live_rows(snapshot, fragments)
    return Removal(removed=tuple(rows), rows=rows)


def live_rows(snapshot: Snapshot, fragment: DataFragment) -> BitMap:
    """The offsets of the rows that are there."""
    every = BitMap(range(fragment.physical_rows))
    return every - snapshot.deletions.read(fragment) if fragment.HasField("deletion_file") else every


def all_live_rows(snapshot: Snapshot, fragments: Iterable[DataFragment]) -> dict[int, BitMap]:
    """Those of several fragments by their ids; their deletion vectors are read side by side."""
    wanted = list(fragments)
    deleted = snapshot.deletions.read_all(wanted)
    return {one.id: BitMap(range(one.physical_rows)) - deleted[one.id] for one in wanted}


def came_back(then: DataFragment, before: Snapshot, now: DataFragment, after: Snapshot) -> bool:
    """Whether rows of a fragment that were deleted before are there after: a Restore brings them back.

    Also if that cannot be told, because a clean-up took what says which rows were deleted.
    """
    if not then.HasField("deletion_file") or then.deletion_file == now.deletion_file:
        return False
    try:
        return not live_rows(after, now) <= live_rows(before, then)
    except NotFound:
        return True


def _remove(snapshot: Snapshot, fragment_id: int, offsets: BitMap) -> tuple[DataFragment | None, int]:
    """The fragment without these rows, `None` if it has no others, and the size of its new deletion file."""
    fragment = snapshot.manifest.fragments.get(fragment_id)
    if fragment is None:
        raise Corrupt(
            f"rows were found in fragment {fragment_id}, which version {snapshot.version} does not have",
            remedy="An index answers for rows that are gone: drop it, run this again, and create it anew.",
            fragments=[fragment_id],
        )
    deleted = snapshot.deletions.read(fragment) | offsets
    if fragment.physical_rows and len(deleted) >= fragment.physical_rows:
        return None, 0
    made = DataFragment()
    made.CopyFrom(fragment)
    # A bitmap also for few rows: it is made in a tenth of the time, and merged deletions become one anyway.
    file = snapshot.deletions.write(fragment_id, snapshot.version, deleted, bitmap=True, durable=False)
    made.deletion_file.CopyFrom(file)
    return made, len(encode_bitmap(deleted))
