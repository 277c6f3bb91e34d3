"""Manifests and their lists: read in full, or told to be damaged."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import Any, Final, TypeVar

from pyiceberg.exceptions import ResolveError
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile, read_manifest_list
from pyiceberg.table.snapshots import Snapshot

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.store.base import Store

__all__ = [
    "BROKEN",
    "UNREADABLE",
    "all_entries",
    "files_in",
    "living_entries",
    "manifests_in",
    "manifests_of",
    "read_in_full",
    "side_by_side",
]

Item = TypeVar("Item")
Found = TypeVar("Found")

# What comes of reading files of metadata that are missing or damaged.
BROKEN = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AssertionError,
    EOFError,
    OverflowError,
    MemoryError,
    SystemError,  # from PyIceberg's native decoder, if a length is negative
    zlib.error,
    ResolveError,  # if the file says that it has other fields
)
# The same with what the lake's own storage says of such files. That it gave no answer, or refused one, is not among it:
# that says nothing about a file.
UNREADABLE = (*BROKEN, Corrupt, InvalidInput, NotFound)

_DAMAGED: Final = tuple(one for one in BROKEN if one is not OSError)
_AT_ONCE: Final = 16
_RESTORE: Final = "Run `seiche fsck`, which names all that is damaged, and restore it from a copy of the lake."


def manifests_in(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
    """The manifests of a snapshot; `Corrupt` if their list is missing or damaged."""
    return manifests_of(snapshot.manifest_list, io, files_in(snapshot))


def manifests_of(where: str, io: FileIO, files: int = 0) -> list[ManifestFile]:
    """The same by the address of the list, and the number of data files that the snapshot has, as far as it says so."""
    try:
        return _some(list(read_manifest_list(io.new_input(where))), files)
    except UNREADABLE as error:
        raise _damaged("manifest list", where, error) from error


def files_in(snapshot: Snapshot) -> int:
    """How many data files a snapshot has; 0 if it does not say so, as it need not."""
    said = snapshot.summary.additional_properties.get("total-data-files", "") if snapshot.summary else ""
    return int(said) if said.isdecimal() else 0


def _some(manifests: list[ManifestFile], files: int) -> list[ManifestFile]:
    """The manifests of a list. One that was cut off right behind its header looks as if it had none."""
    if files and not manifests:
        raise LookupError(f"it has no manifest, of {files} data files")
    return manifests


def living_entries(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """What a manifest says of the files that its snapshot has; `Corrupt` if it is missing or damaged."""
    try:
        return manifest.fetch_manifest_entry(io, discard_deleted=True)
    except Corrupt:
        raise
    except UNREADABLE as error:
        raise _damaged("manifest", manifest.manifest_path, error) from error


def all_entries(manifests: Iterable[ManifestFile], io: FileIO, store: Store) -> Iterator[list[ManifestEntry]]:
    """The living entries of each manifest, which are read side by side."""
    return side_by_side(store, partial(living_entries, io=io), manifests)


def side_by_side(store: Store, look: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
    """What is seen of each item, in their order; some are looked at together, and few are in memory at a time."""
    wanted = list(items)
    for first in range(0, len(wanted), _AT_ONCE):
        yield from store.in_parallel(look, wanted[first : first + _AT_ONCE])


def read_in_full() -> None:
    """From now on PyIceberg's own reads of damaged manifests and lists are `Corrupt`, in this process, and so are those
    that have less in them than was written: one that was cut off behind its header, or behind a block, looks whole.
    """
    held: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (ManifestFile, "fetch_manifest_entry", _all_entries),
        (Snapshot, "manifests", _all_manifests),
    )
    for owner, name, holding in held:
        found = getattr(owner, name)
        if not hasattr(found, "__wrapped__"):
            setattr(owner, name, holding(found))


def _all_entries(fetch: Callable[..., list[ManifestEntry]]) -> Callable[..., list[ManifestEntry]]:
    @wraps(fetch)
    def fetched(manifest: ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        written = sum(count or 0 for count in counts)  # version 1 need not count
        try:
            found = fetch(manifest, io, discard_deleted=False)
            if len(found) < written:
                raise LookupError(f"it has {len(found)} of {written} entries")
        except _DAMAGED as error:
            raise _damaged("manifest", manifest.manifest_path, error) from error
        return [one for one in found if not discard_deleted or one.status is not ManifestEntryStatus.DELETED]

    return fetched


def _all_manifests(read: Callable[..., list[ManifestFile]]) -> Callable[..., list[ManifestFile]]:
    @wraps(read)
    def listed(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
        try:
            return _some(read(snapshot, io), files_in(snapshot))
        except _DAMAGED as error:
            raise _damaged("manifest list", snapshot.manifest_list, error) from error

    return listed


def _damaged(what: str, where: str, error: BaseException) -> Corrupt:
    return Corrupt(f"the {what} {where} cannot be read: {error}", remedy=_RESTORE, path=where)
