"""Which files of a lake an Iceberg table needs: all that its metadata leads to, through every snapshot in it."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from pyiceberg.exceptions import ResolveError
from pyiceberg.manifest import ManifestEntry, ManifestFile, read_manifest_list

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.care.path_set import PathSet
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.metadata import Metadata, read
from seiche.lake.iceberg.places import path_of
from seiche.store.base import Store

__all__ = ["BROKEN", "UNREADABLE", "IcebergReach", "living_entries", "manifests_of", "named_beside"]

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

_AT_ONCE: Final = 16
T = TypeVar("T")
Found = TypeVar("Found")


class IcebergReach:
    """Takes down what metadata leads to, as paths in the lake; each file is looked into once.

    Files outside of the lake are none of its business. `Corrupt` if something that leads further cannot be read: then
    it is not known what is needed.
    """

    def __init__(self, store: Store, needed: PathSet) -> None:
        self._store = store
        self._io = LakeFileIO(store)
        self._needed = needed
        self._looked = PathSet()

    def add_metadata(self, *paths: str) -> None:
        """Count in metadata files of the lake, with everything behind them; they are read side by side."""
        for path in paths:
            self._needed.add(path)
        new = [path for path in paths if path not in self._looked]
        lists: dict[str, None] = {}
        for beside, snapshots in self._some_at_a_time(self._addresses, new):
            for where in beside:
                self._need(where)
            lists |= dict.fromkeys(snapshots)
        self.add_lists(lists)
        for path in new:
            self._looked.add(path)

    def _addresses(self, path: str) -> tuple[list[str], list[str]]:
        """What metadata names beside its snapshots, and the lists of manifests of those."""
        metadata = read(self._store, path)
        return list(named_beside(metadata)), [one.manifest_list for one in metadata.snapshots]

    def add_lists(self, lists: Iterable[str]) -> None:
        """Count in snapshots, by the addresses of their lists of manifests; what is to be read is read side by side."""
        new = [where for where in dict.fromkeys(lists) if where not in self._looked]
        manifests: dict[str, ManifestFile] = {}
        for where in new:
            self._need(where)
        for found in self._some_at_a_time(self._manifests, new):
            manifests |= {one.manifest_path: one for one in found if one.manifest_path not in self._looked}
        for where in manifests:
            self._need(where)
        for files in self._some_at_a_time(self._files, manifests.values()):
            for where in files:
                self._need(where)
        for where in (*manifests, *new):
            self._looked.add(where)

    def _some_at_a_time(self, look: Callable[[T], Found], items: Iterable[T]) -> Iterator[Found]:
        wanted = list(items)
        for first in range(0, len(wanted), _AT_ONCE):
            yield from self._store.in_parallel(look, wanted[first : first + _AT_ONCE])

    def _manifests(self, where: str) -> list[ManifestFile]:
        return manifests_of(where, self._io)

    def _files(self, manifest: ManifestFile) -> list[str]:
        # Entries of deleted files are history; whoever needs the files has them among his living ones.
        return [entry.data_file.file_path for entry in living_entries(manifest, self._io)]

    def _need(self, where: str) -> None:
        path = path_of(self._store, where)
        if path is not None:
            self._needed.add(path)


def manifests_of(where: str, io: LakeFileIO) -> list[ManifestFile]:
    """The manifests of a snapshot, by the address of their list; `Corrupt` if that is missing or damaged."""
    try:
        return list(read_manifest_list(io.new_input(where)))
    except UNREADABLE as error:
        raise Corrupt(f"the manifest list {where} cannot be read: {error}", path=where) from error


def living_entries(manifest: ManifestFile, io: LakeFileIO) -> list[ManifestEntry]:
    """What a manifest says of the files that its snapshot has; `Corrupt` if it is missing or damaged."""
    where = manifest.manifest_path
    try:
        return manifest.fetch_manifest_entry(io, discard_deleted=True)
    except UNREADABLE as error:
        raise Corrupt(f"the manifest {where} cannot be read: {error}", path=where) from error


def named_beside(metadata: Metadata) -> Iterator[str]:
    """Addresses that metadata names beside its snapshots: earlier metadata files, and statistics."""
    for entry in metadata.metadata_log:
        yield entry.metadata_file
    for one in metadata.statistics:
        yield one.statistics_path
    for part in metadata.partition_statistics:
        yield part.statistics_path
