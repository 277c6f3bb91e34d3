"""Which files of a lake an Iceberg table needs: all that its metadata leads to, through every snapshot in it."""

from collections.abc import Iterator, Mapping

from pyiceberg.manifest import ManifestFile

from seiche.lake.care.path_set import PathSet
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import files_in, living_entries, manifests_of, side_by_side
from seiche.lake.iceberg.metadata import Metadata, read
from seiche.lake.iceberg.places import path_of
from seiche.store.base import Store

__all__ = ["IcebergReach", "named_beside"]


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
        lists: dict[str, int] = {}
        for beside, snapshots in side_by_side(self._store, self._addresses, new):
            for where in beside:
                self._need(where)
            lists |= snapshots
        self.add_lists(lists)
        for path in new:
            self._looked.add(path)

    def _addresses(self, path: str) -> tuple[list[str], dict[str, int]]:
        """What metadata names beside its snapshots, and the lists of manifests of those, as `add_lists` takes them."""
        metadata = read(self._store, path)
        return list(named_beside(metadata)), {one.manifest_list: files_in(one) for one in metadata.snapshots}

    def add_lists(self, lists: Mapping[str, int]) -> None:
        """Count in snapshots, by the addresses of their lists of manifests, with the number of their data files as far
        as it is known; what is to be read is read side by side.
        """
        new = [where for where in lists if where not in self._looked]
        manifests: dict[str, ManifestFile] = {}
        for where in new:
            self._need(where)
        for found in side_by_side(self._store, self._manifests, ((where, lists[where]) for where in new)):
            manifests |= {one.manifest_path: one for one in found if one.manifest_path not in self._looked}
        for where in manifests:
            self._need(where)
        for files in side_by_side(self._store, self._files, manifests.values()):
            for where in files:
                self._need(where)
        for where in (*manifests, *new):
            self._looked.add(where)

    def _manifests(self, one: tuple[str, int]) -> list[ManifestFile]:
        where, files = one
        return manifests_of(where, self._io, files)

    def _files(self, manifest: ManifestFile) -> list[str]:
        # Entries of deleted files are history; whoever needs the files has them among his living ones.
        return [entry.data_file.file_path for entry in living_entries(manifest, self._io)]

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
