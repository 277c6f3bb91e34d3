"""What an export takes of a table, for each table format.

In the copy a table depends on nothing but its own directory: files that it had elsewhere, by way of base paths, lie
there too, and no address is left in its metadata. So the copy can be moved. Plain Lance writers are not kept out of it:
whoever goes on with the copy as a lake closes a table with the first commit to it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput
from seiche.lake.export.items import Item, copied, made
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import TableRow
from seiche.lake.publish import opened
from seiche.lake.versions import manifests
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table.format import file
from seiche.table.format.flags import BASE_PATHS
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Clone
from seiche.table.operations.context import Build
from seiche.table.version_files import StoredFile, VersionFiles
from seiche.table.versions.naming import Naming

__all__ = ["LanceCopy", "TableCopy", "reference", "table_copy"]


class TableCopy(ABC):
    """One managed table on its way into an export."""

    def __init__(self, lake: Store, location: str, runtime: Runtime) -> None:
        self.lake = lake
        self.location = location
        self.runtime = runtime

    @abstractmethod
    def add(self, row: TableRow) -> None:
        """The table as a version of the lake has it that is exported. Reads nothing."""

    @abstractmethod
    def settle(self, target: Store, home: str) -> list[Item]:
        """All files of the rows so far, by their paths in the copy, which will stand in `target`, or at the address
        `home` if that is not empty.

        An error if one of them is missing or damaged: an export is whole, or is none.
        """

    @abstractmethod
    def row(self, row: TableRow) -> TableRow:
        """A row as it stands in the copy. To be asked for after `settle`."""

    @abstractmethod
    def hint(self, target: Store) -> None:
        """Leave in the copy what only speeds plain readers up."""

    @staticmethod
    @abstractmethod
    def reference(lake: Store, row: TableRow) -> TableRow:
        """The row of an external table that is this one, at this version, where it is."""


class LanceCopy(TableCopy):
    """A Lance table: every version from the oldest that is exported to the newest, and all files of these."""

    def __init__(self, lake: Store, location: str, runtime: Runtime) -> None:
        super().__init__(lake, location, runtime)
        self._store = below(lake, location)
        self._refs: dict[int, ManifestRef] = {}
        self._rewritten: dict[str, ManifestRef] = {}
        self._newest = 0

    def add(self, row: TableRow) -> None:
        self._refs.update(manifests(row))
        self._newest = max(self._newest, row.table_version)

    def settle(self, target: Store, home: str) -> list[Item]:
        found: dict[str, Item] = {}
        # Versions that no exported version of the lake names are needed too: a native writer that starts from an old
        # one skips a missing version in silence.
        listed: VersionFiles | None = None
        for version in range(min(self._refs, default=1), self._newest + 1):
            ref = self._refs.get(version)
            source = Naming.V2.path(version) if ref is None else ref.path
            data = self._store.get(source)
            if ref is not None and hashlib.sha256(data).digest() != ref.sha256:
                raise self._damaged(ref.path)
            read = file.decode(data, path=join(self.location, source))
            listed = files = VersionFiles(read.manifest, self._store, self.runtime, listed=listed)
            for one in self._version(version, read, files.all()):
                found.setdefault(one.path, one)
        return list(found.values())

    def row(self, row: TableRow) -> TableRow:
        if row.manifest is None or not self._rewritten:
            return row
        refs = [self._rewritten.get(one.path, one) for one in (*row.earlier, row.manifest)]
        return replace(row, manifest=refs[-1], earlier=tuple(refs[:-1]))

    def hint(self, target: Store) -> None:
        from seiche.table.versions import hint

        if target.lists_in_one_request and self._newest:
            hint.write(below(target, self.location), self._newest)

    @staticmethod
    def reference(lake: Store, row: TableRow) -> TableRow:
        place = below(lake, row.location).native_uri()
        source = {**row.source, "version": str(row.table_version)}
        return replace(row, type="external", location=place, manifest=None, earlier=(), source=source)

    def _version(self, version: int, read: file.ManifestFile, files: Iterable[StoredFile]) -> Iterator[Item]:
        """One version: its manifest under its plain name, and under its private one if the lake goes by that."""
        name, ref = join(self.location, Naming.V2.path(version)), self._refs.get(version)
        if read.manifest.header.base_paths:
            data = _bytes(_alone(read.manifest), read)
            yield made(name, data)
            if ref is not None:
                digest = hashlib.sha256(data).digest()
                self._rewritten[ref.path] = replace(ref, sha256=digest, size=len(data), unknown=b"")
                yield made(join(self.location, ref.path), data)
        elif ref is not None:
            # What was staged is what is published, but for the flag that keeps plain writers out.
            yield copied(self._store, ref.path, name, ref.size)
            yield copied(self._store, ref.path, join(self.location, ref.path), ref.size)
        else:
            source = Naming.V2.path(version)
            yield Item(name, lambda: iter((opened(self._store.get(source), name),)))
        for one in files:
            yield copied(one.store, one.path, join(self.location, one.target), one.size)
        side = f"_transactions/{read.manifest.header.transaction_file}"
        if read.manifest.header.transaction_file and self._store.exists(side):
            yield copied(self._store, side, join(self.location, side))

    def _damaged(self, path: str) -> Corrupt:
        return Corrupt(
            f"{self._store.uri}: {path} is not the manifest that the lake decided on",
            remedy="Restore it from a copy of the lake, or export another version.",
            path=path,
        )


def _alone(manifest: Manifest) -> Manifest:
    """The version with all its files below its own root, where they are copied to.

    Bases are left for values only that stand elsewhere, which are referred to from the copy as they were.
    """
    moved = Clone(is_shallow=False, ref_version=manifest.version).apply(manifest, Build(manifest.version))
    header = moved.copy_header()
    if not header.base_paths:
        header.reader_feature_flags &= ~BASE_PATHS
        header.writer_feature_flags &= ~BASE_PATHS
    return Manifest(header, moved.fragments, moved.index_section)


def _bytes(manifest: Manifest, read: file.ManifestFile) -> bytes:
    transaction = b"" if read.transaction is None else read.transaction.SerializeToString(deterministic=True)
    return opened(b"".join(file.encode(manifest, transaction)), "")


def table_copy(lake: Store, row: TableRow, runtime: Runtime) -> TableCopy:
    """The copy of a table, by its format; `InvalidInput` if that is not known here."""
    return _format(row)(lake, row.location, runtime)


def reference(lake: Store, row: TableRow) -> TableRow:
    """The row of an external table that is this one where it is, at this version."""
    return row if row.type != "managed" else _format(row).reference(lake, row)


def _format(row: TableRow) -> type[TableCopy]:
    if row.format == "iceberg":
        from seiche.lake.export.iceberg import IcebergCopy

        return IcebergCopy
    if row.format != "lance":
        raise InvalidInput(
            f"tables of the format {row.format} cannot be exported",
            remedy="Leave them out, with `tables=`.",
            table=row.id,
        )
    return LanceCopy
