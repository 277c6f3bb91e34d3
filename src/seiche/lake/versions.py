"""The lake as the one who decides the versions of its tables."""

from seiche.errors import Corrupt, InvalidInput
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import TableRow
from seiche.store.base import Data, Store
from seiche.store.prefix import below
from seiche.table.versions.base import Versions
from seiche.table.versions.naming import Naming

__all__ = ["LakeVersions", "staged_path"]


def staged_path(version: int, unique: str) -> str:
    """Where a manifest waits for the root that makes it a version. Ends as pylance expects of a manifest."""
    return f"_staged/{version:020}-{unique}.manifest"


class LakeVersions(Versions):
    """The versions of one table up to the one that a row of the lake names.

    The newest ones stand under the private names that the row gives; all older ones are published, because a version is
    published before the root of the next one is put.
    """

    def __init__(self, lake: Store, row: TableRow) -> None:
        super().__init__(below(lake, row.location))
        self.row = row
        self._staged = {first: ref.path for first, ref in manifests(row)}

    def newest(self, known: int = 0) -> int:
        return self.row.table_version

    def all(self) -> list[int]:
        raise InvalidInput("a lake lists the versions of a table by its log", remedy="Use `lake.log()`.")

    def path(self, version: int) -> str:
        return self._staged.get(version) or Naming.V2.path(version)

    def claim(self, version: int, data: Data) -> None:
        raise InvalidInput(
            "a version of this table is made by a commit of the lake only",
            remedy="Use a transaction of the lake.",
        )

    def announce(self, version: int) -> None:
        """The lake's own hint does it."""


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
