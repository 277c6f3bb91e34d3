"""Which files of a lake its tables need, for each table format.

A table is taken as a whole: from its version in the oldest kept version of the lake up to its newest one, every version
counts, also those that no kept version of the lake names. A writer that began at the oldest one has to be checked
against all that came since, and native code skips a missing version in silence.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.care.path_set import KeptPaths, PathSet
from seiche.lake.care.ranges import NONE, Ranges
from seiche.lake.objects.rows import TableRow
from seiche.lake.versions import LakeVersions, manifests
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.format import file
from seiche.table.format.manifest import Manifest
from seiche.table.format.transaction_pb2 import Transaction
from seiche.table.reachable import Reach
from seiche.table.versions.naming import Naming

__all__ = ["FORMATS", "UNREADABLE", "IcebergFiles", "LanceFiles", "NeededNames", "TableFiles"]

# What a table that cannot be looked into fails with.
UNREADABLE: Final = (Corrupt, InvalidInput, NotFound, DecodeError)
# What is known of an Iceberg table is kept in a few bytes for each file; its manifests are read some at a time.
_ICEBERG_BYTES: Final = 4 << 20
# Stands for any table of the lake.
ANYWHERE: Final = "*"


class TableFiles(ABC):
    """The files that one table of the lake needs, collected in `needed` as paths in the lake."""

    def __init__(self, lake: Store, location: str, needed: PathSet) -> None:
        self.lake = lake
        self.location = location
        self.needed = needed

    @abstractmethod
    def add(self, row: TableRow) -> None:
        """Count in the table as a kept version of the lake has it. Reads nothing."""

    @abstractmethod
    def unread(self) -> Sequence[Any]:
        """What has to be read to know all files of the rows so far, part by part, each about `part_bytes` in memory.

        An error, here or while a part is read or taken in, says that it cannot be known: then nothing of the table may
        be taken for garbage.
        """

    @property
    @abstractmethod
    def part_bytes(self) -> int:
        """How much memory a part takes, roughly."""

    @abstractmethod
    def read(self, part: Any) -> Any:
        """Read a part. Changes nothing here: many parts, of many tables, are read at once."""

    @abstractmethod
    def take(self, part: Any, read: Any) -> None:
        """Count in a part that was read. The parts come in their order."""

    @property
    @abstractmethod
    def newest(self) -> int:
        """The newest version of the table."""

    def taken_names(self) -> list[str]:
        """Where manifests stand that the lake did not decide on, under names of versions that it did decide on."""
        return []

    def may_share(self) -> bool:
        """Whether the table may be made of files of other tables, as far as can be known if it cannot be settled."""
        return True


class LanceFiles(TableFiles):
    """A Lance table: staged and published manifests, and all that they name."""

    def __init__(self, lake: Store, location: str, needed: PathSet) -> None:
        super().__init__(lake, location, needed)
        self._row: TableRow | None = None
        self._blank = False
        self._lowest = 0
        self._known = NONE
        # The versions that are being read, and what is remembered from one of them to the next.
        self._wanted: list[int] = []
        self._names = NeededNames(needed, location)

    def add(self, row: TableRow) -> None:
        made = manifests(row)
        if not made:
            self._blank = True
            return
        for _, ref in made:
            self.needed.add(join(self.location, ref.path))
        lowest = made[0][0]
        self._lowest = lowest if self._row is None else min(self._lowest, lowest)
        if self._row is None or row.table_version >= self._row.table_version:
            self._row = row

    @property
    def newest(self) -> int:
        return 0 if self._row is None else self._row.table_version

    def unread(self) -> Sequence[tuple[LakeVersions, int]]:
        if self._blank:
            raise _nothing_named(self.location)
        if self._row is None:
            return []
        versions = LakeVersions(self.lake, self._row)
        self._wanted = self._unknown()
        return [(versions, version) for version in self._wanted]

    @property
    def part_bytes(self) -> int:
        made = None if self._row is None else self._row.manifest
        return 0 if made is None else made.size

    def read(self, part: tuple[LakeVersions, int]) -> Manifest:
        versions, version = part
        return versions.read(version).manifest

    def take(self, part: tuple[LakeVersions, int], read: Manifest) -> None:
        _, version = part
        self.needed.add(join(self.location, Naming.V2.path(version)))
        self._names.add_manifest(read)
        if version == self._wanted[-1]:
            self._known |= Ranges.of(self._wanted)
            self._names = NeededNames(self.needed, self.location)

    def taken_names(self) -> list[str]:
        """Only the newest versions can have lost their names: those before were seen to be published."""
        if self._row is None:
            return []
        store = below(self.lake, self.location)
        own = [(Naming.V2.path(version), ref.transaction) for version, ref in manifests(self._row)]
        return [join(self.location, path) for path, made in own if _is_anothers(store, path, made)]

    def may_share(self) -> bool:
        """A table keeps the base paths that it has: where none of the versions that can be read has one, none had."""
        if self._blank or self._row is None:
            return True
        versions = LakeVersions(self.lake, self._row)
        read = []
        for version in self._unknown():
            with suppress(*UNREADABLE):
                read.append(versions.read(version).manifest)
        return not read or any(one.header.base_paths for one in read)

    def _unknown(self) -> list[int]:
        """The versions that were not looked at yet."""
        return list((Ranges(((0, self._lowest),)) | self._known).missing(self.newest + 1))


class IcebergFiles(TableFiles):
    """An Iceberg table: the metadata of every kept version of the lake, and all that it leads to."""

    def __init__(self, lake: Store, location: str, needed: PathSet) -> None:
        super().__init__(lake, location, needed)
        self._named: set[str] = set()
        self._blank = False
        self._newest = 0

    def add(self, row: TableRow) -> None:
        if row.iceberg is None:
            self._blank = True
        else:
            self._named.add(row.iceberg.location)
            self.needed.add(row.iceberg.location)
            self._newest = max(self._newest, row.table_version)

    @property
    def newest(self) -> int:
        return self._newest

    def unread(self) -> Sequence[tuple[str, ...]]:
        """All at once: what one metadata file leads to, most others do too."""
        if self._blank:
            raise _nothing_named(self.location)
        return [tuple(sorted(self._named))] if self._named else []

    @property
    def part_bytes(self) -> int:
        return _ICEBERG_BYTES

    def read(self, part: tuple[str, ...]) -> PathSet:
        from seiche.lake.iceberg.reach import IcebergReach

        found = KeptPaths()
        IcebergReach(self.lake, found).add_metadata(*part)
        return found

    def take(self, part: tuple[str, ...], read: PathSet) -> None:
        self.needed.update(read)
        self._named.difference_update(part)


def _is_anothers(store: Store, path: str, transaction: str) -> bool:
    """Whether a manifest is there that another transaction made, or that does not say which."""
    try:
        made = file.read_transaction(store, path)
    except NotFound:
        return False  # not published yet
    except UNREADABLE:
        return True
    return made is None or made.uuid != transaction


def _nothing_named(location: str) -> Corrupt:
    """Not "nothing is needed": a row that names nothing is damaged, or of a release that names it in another way."""
    return Corrupt(f"a row of the table at {location} does not say which version it is at", remedy="Run `seiche fsck`.")


class NeededNames:
    """Takes down what manifests and transactions name, under the location of their table.

    Files of a version that has base paths may lie in another table, of which the address may be written in many ways.
    Their names are unique, so wherever in the lake such a file lies, it counts as needed.
    """

    def __init__(self, needed: PathSet, location: str, *, anywhere: bool = False) -> None:
        self._files = _Under(needed, location, "")
        self._folders = _Under(needed, location, "/")
        self._reach = Reach(self._files, self._folders)
        self._anywhere = anywhere

    def add_manifest(self, manifest: Manifest) -> None:
        """Count in a version; `InvalidInput` if it may name files in a way that is not known here."""
        based = self._anywhere or bool(manifest.header.base_paths)
        if based != self._files.anywhere:
            # What it has looked at already it would not look at again.
            self._reach = Reach(self._files, self._folders)
        self._files.anywhere = self._folders.anywhere = based
        self._reach.add_manifest(manifest)

    def add_transaction(self, transaction: Transaction) -> None:
        """Count in what a transaction brings that waits to be committed."""
        self._files.anywhere = self._folders.anywhere = True
        self._reach.add_transaction(transaction)


class _Under:
    """A set of paths, as one that takes names below a directory."""

    def __init__(self, paths: PathSet, location: str, end: str) -> None:
        self._paths = paths
        self._location = location
        self._end = end
        self.anywhere = False

    def add(self, name: str) -> None:
        self._paths.add(f"{self._location}/{name}{self._end}")
        if self.anywhere:
            self._paths.add(f"{ANYWHERE}/{name}{self._end}")

    def __contains__(self, name: object) -> bool:
        return f"{self._location}/{name}{self._end}" in self._paths


# How to look into tables of each format. Of a table of any other format nothing is ever taken for garbage.
FORMATS: Final[Mapping[str, type[TableFiles]]] = {"lance": LanceFiles, "iceberg": IcebergFiles}
