"""The lake as the one who decides the versions of its tables."""

import hashlib
from typing import TYPE_CHECKING

from seiche.errors import Corrupt, InvalidInput, SeicheError
from seiche.lake.manifest_cache import ManifestCache
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import id_key
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import ObjectNameRow, TableRow
from seiche.lake.tree import search
from seiche.lake.tree.latest import latest_root
from seiche.lake.tree.nodes import Nodes
from seiche.store.base import Data, Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.format.file import ManifestFile
from seiche.table.format.manifest import Manifest
from seiche.table.format.transaction_pb2 import Transaction
from seiche.table.versions.base import Versions
from seiche.table.versions.naming import Naming, named

if TYPE_CHECKING:
    import lance

__all__ = ["LakeVersions", "manifests", "newest_manifest", "staged_path"]


_REPAIR = (
    "`seiche fsck --repair` writes it again if the published one is still there; if not, restore it from a copy of the"
    " lake."
)


def staged_path(version: int, unique: str) -> str:
    """Where a manifest waits for the root that makes it a version; `unique` are hexadecimal digits, of a hash or by
    chance.

    The name has the length of a version's plain name: pylance, given a manifest by its path, goes by that to tell how
    the table names its versions.
    """
    return f"_staged/s{version & 0xFFFFFFF:07x}{unique.replace('-', '')[:12]}.manifest"


class LakeVersions(Versions):
    """The versions of one table up to the one that a row of the lake names.

    The newest ones stand under the private names that the row gives; all older ones are published, because a version is
    published before the root of the next one is put.
    """

    def __init__(self, lake: Store, row: TableRow, cache: ManifestCache | None = None) -> None:
        super().__init__(below(lake, row.location))
        self._lake = lake
        self.row = row
        self._staged = dict(manifests(row))
        self._cache = cache or ManifestCache()

    def follow(self, row: TableRow) -> None:
        """Others have committed: the newest version is that of `row`."""
        self.row = row
        self._staged |= manifests(row)

    def newest(self, known: int = 0) -> int:
        return self.row.table_version

    def all(self) -> list[int]:
        published = {number for _, number in named(self.store)}
        return sorted(one for one in published | self._staged.keys() if one <= self.newest())

    def reached(self, version: int) -> int:
        """`version`, if it is none that comes after the one of the row; `NotFound` if it is."""
        if version > self.newest():
            raise self._no_version(version)
        return version

    def path(self, version: int) -> str:
        staged = self._staged.get(version)
        return Naming.V2.path(version) if staged is None else staged.path

    def read(self, version: int) -> ManifestFile:
        ref = self._staged.get(version)
        if ref is None:
            return super().read(version)
        held = self._cache.recall(ref)
        if held is None:
            held = super().read(version)
            self._cache.keep(ref, held)
        return held

    def _bytes_of(self, version: int) -> bytes:
        data = super()._bytes_of(version)
        ref = self._staged.get(version)
        # A damaged one may well be readable, with fewer rows; and whoever commits builds the next version upon it,
        # which would be sound.
        if ref is not None and hashlib.sha256(data).digest() != ref.sha256:
            path = join(self.row.location, ref.path)
            raise Corrupt(
                f"{path} is not the manifest that the lake decided on, of version {version} of a table",
                remedy=_REPAIR,
                path=path,
                version=version,
            )
        return data

    def dataset(self, version: int) -> "lance.LanceDataset":
        """The native dataset at a version, which need not be published yet; for reading only."""
        from seiche.table.data.native import open_staged

        manifest = self.read(version).manifest
        published = version not in self._staged or self.store.exists(Naming.V2.path(version))
        return open_staged(self.store, manifest, base=manifest if published else None)

    def _no_version(self, version: int) -> SeicheError:
        ref = self._staged.get(version)
        if ref is None or not self._is_needed(ref):
            return super()._no_version(version)
        path = join(self.row.location, ref.path)
        return Corrupt(
            f"{path} is missing, the manifest of version {version} of a table that the lake needs",
            remedy=_REPAIR,
            path=path,
            version=version,
        )

    def _is_needed(self, ref: ManifestRef) -> bool:
        """Whether the newest version of the lake names a manifest: one that it does not name may have been cleared away
        since the row was read.
        """
        root, nodes = latest_root(self._lake).node, Nodes(self._lake)
        name = search.get(root, id_key(self.row.id), nodes)
        if name is None:
            return False
        stored = search.get(root, rows.decode(definitions.resolve(self._lake, name), ObjectNameRow).key, nodes)
        if stored is None:
            return False
        row = rows.decode(definitions.resolve(self._lake, stored), TableRow)
        return ref in [one for _, one in manifests(row)]

    def message(self, version: int) -> Transaction:
        inline = self.read(version).transaction if version in self._staged else None
        return super().message(version) if inline is None else inline

    def claim(self, version: int, data: Data) -> None:
        raise InvalidInput(
            "a version of this table is made by a commit of the lake only",
            remedy="Use a transaction of the lake.",
        )

    def announce(self, version: int) -> None:
        """The lake's own hint does it."""


def newest_manifest(lake: Store, row: TableRow, cache: ManifestCache) -> Manifest:
    """The newest version that a row of the lake names."""
    held = None if row.manifest is None else cache.manifest(row.manifest)
    return LakeVersions(lake, row, cache).read(row.table_version).manifest if held is None else held


def manifests(row: TableRow) -> list[tuple[int, ManifestRef]]:
    """The manifests that the root of this row made, with their versions, ascending."""
    if row.manifest is None:
        return []
    refs = [*row.earlier, row.manifest]
    first = row.table_version - len(refs) + 1
    if first < 1:
        raise Corrupt(
            f"the row of table {row.id} names {len(refs)} manifests for version {row.table_version}",
            remedy="Run `seiche fsck`.",
            table=row.id,
        )
    return list(enumerate(refs, first))
