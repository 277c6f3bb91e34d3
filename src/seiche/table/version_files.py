"""The files that a version consists of, as storage has them: under the table's root and under its base paths."""

from collections.abc import Iterator
from dataclasses import dataclass

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.store.base import ObjectInfo, Store
from seiche.store.paths import join
from seiche.table.bases import base_stores
from seiche.table.format import deletions
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, DeletionFile, IndexMetadata
from seiche.table.reachable import index_folder, side_folder

__all__ = ["StoredFile", "VersionFiles"]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file: where it is, how large, and which path a table has it under that has all its files below its root."""

    store: Store
    path: str
    size: int
    target: str

    @property
    def address(self) -> str:
        return self.store.native_uri(self.path)


class VersionFiles:
    """Looks the files of a version up; directories are listed once each."""

    def __init__(
        self, manifest: Manifest, store: Store, runtime: Runtime = SYSTEM, *, listed: "VersionFiles | None" = None
    ) -> None:
        """`store` is rooted at the table. What was `listed` for another version of it need not be listed again."""
        self._manifest = manifest
        self._store = store
        self._bases = base_stores(manifest, store, runtime)
        self._tables = {base.id for base in manifest.header.base_paths if base.is_dataset_root}
        known = {} if listed is None else listed._listings
        # Base paths have other numbers in other versions.
        self._listings: dict[tuple[int | None, str], _Listing] = {
            key: listing for key, listing in known.items() if key[0] is None
        }

    def all(self) -> list[StoredFile]:
        """Every file, once. `NotFound` if one is missing, `Corrupt` if one is not as large as the manifest says.

        `InvalidInput` if two of them could not lie below one root.
        """
        found: dict[str, StoredFile] = {}
        for file in self._each():
            twin = found.setdefault(file.target, file)
            if twin is not file and twin.address != file.address:
                raise InvalidInput(
                    f"two files of the table would both become {file.target}: {twin.address} and {file.address}",
                    remedy="Compact the table first.",
                    path=file.target,
                )
        return list(found.values())

    def _each(self) -> Iterator[StoredFile]:
        for fragment in self._manifest.fragments:
            for file in fragment.files:
                yield from self._data(file)
            if fragment.HasField("deletion_file"):
                yield self._deletions(fragment)
        for index in self._manifest.indices:
            yield from self._index(index)

    def _data(self, file: DataFile) -> Iterator[StoredFile]:
        """The data file, and large values that were left out of it."""
        base = _base_id(file)
        folder = "data" if base is None or base in self._tables else ""
        listing = self._list(base, folder)
        path = join(folder, file.path)
        info = listing.files.get(path)
        if info is not None and file.file_size_bytes not in (0, info.size):
            raise Corrupt(
                f"{path} of {self._root(base).uri} has {info.size} bytes, the manifest says {file.file_size_bytes}",
                remedy="The file is damaged. Restore it from a copy, or take another version.",
                path=path,
            )
        yield self._stored(base, path, info, f"data/{file.path}")
        for beside in listing.below.get(side_folder(path), ()):
            name = beside.path[len(folder) + 1 :] if folder else beside.path
            yield self._stored(base, beside.path, beside, f"data/{name}")

    def _deletions(self, fragment: DataFragment) -> StoredFile:
        base = _base_id(fragment.deletion_file)
        path = deletions.path(fragment.id, fragment.deletion_file)
        return self._stored(base, path, self._list(base, "_deletions").files.get(path), path)

    def _index(self, index: IndexMetadata) -> Iterator[StoredFile]:
        base = _base_id(index)
        folder = index_folder(index.uuid.uuid)
        found = self._list(base, folder).files
        for path in dict.fromkeys([*(join(folder, file.path) for file in index.files), *found]):
            yield self._stored(base, path, found.get(path), path)

    def _stored(self, base: int | None, path: str, info: ObjectInfo | None, target: str) -> StoredFile:
        if info is None:
            raise NotFound(
                f"{path} of {self._root(base).uri} is missing, which version {self._manifest.version} needs",
                remedy="The version was cleaned up meanwhile, or the file was removed by hand. Take another version.",
                path=path,
                version=self._manifest.version,
            )
        return StoredFile(self._root(base), path, info.size, target)

    def _root(self, base: int | None) -> Store:
        return self._store if base is None else self._bases[base]

    def _list(self, base: int | None, folder: str) -> "_Listing":
        key = (base, folder)
        if key not in self._listings:
            self._listings[key] = _Listing(self._root(base), folder)
        return self._listings[key]


class _Listing:
    """The files below a directory: by path, and by the directories inside it that they lie in."""

    def __init__(self, store: Store, folder: str) -> None:
        self.files: dict[str, ObjectInfo] = {}
        self.below: dict[str, list[ObjectInfo]] = {}
        for info in store.list(folder):
            self.files[info.path] = info
            inside = info.path.rpartition("/")[0]
            while len(inside) > len(folder):
                self.below.setdefault(inside, []).append(info)
                inside = inside.rpartition("/")[0]


def _base_id(file: DataFile | DeletionFile | IndexMetadata) -> int | None:
    return file.base_id if file.HasField("base_id") else None
