"""Which files of a lake an Iceberg table needs: all that its metadata leads to, through every snapshot in it."""

import zlib
from collections.abc import Iterator

from pyiceberg.manifest import ManifestFile, read_manifest_list

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.care.path_set import PathSet
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.metadata import Metadata, read
from seiche.lake.iceberg.places import path_of
from seiche.store.base import Store

__all__ = ["BROKEN", "UNREADABLE", "IcebergReach", "named_beside"]

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
)
# The same with what the lake's own storage says of such files. That it gave no answer, or refused one, is not among it:
# that says nothing about a file.
UNREADABLE = (*BROKEN, Corrupt, InvalidInput, NotFound)


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

    def add_metadata(self, path: str) -> None:
        """Count in a metadata file of the lake, with everything behind it."""
        self._needed.add(path)
        if path in self._looked:
            return
        metadata = read(self._store, path)
        for beside in named_beside(metadata):
            self._need(beside)
        for snapshot in metadata.snapshots:
            self.add_list(snapshot.manifest_list)
        self._looked.add(path)

    def add_list(self, where: str) -> None:
        """Count in a snapshot, by the address of its list of manifests."""
        self._need(where)
        if where in self._looked:
            return
        try:
            for manifest in read_manifest_list(self._io.new_input(where)):
                self._add_manifest(manifest)
        except UNREADABLE as error:
            raise Corrupt(f"the manifest list {where} cannot be read: {error}", path=where) from error
        self._looked.add(where)

    def _add_manifest(self, manifest: ManifestFile) -> None:
        where = manifest.manifest_path
        self._need(where)
        if where in self._looked:
            return
        # Entries of deleted files are history; whoever needs the files has them among his living ones.
        for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True):
            self._need(entry.data_file.file_path)
        self._looked.add(where)

    def _need(self, where: str) -> None:
        path = path_of(self._store, where)
        if path is not None:
            self._needed.add(path)


def named_beside(metadata: Metadata) -> Iterator[str]:
    """Addresses that metadata names beside its snapshots: earlier metadata files, and statistics."""
    for entry in metadata.metadata_log:
        yield entry.metadata_file
    for one in metadata.statistics:
        yield one.statistics_path
    for part in metadata.partition_statistics:
        yield part.statistics_path
