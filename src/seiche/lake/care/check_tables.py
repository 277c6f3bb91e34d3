"""Proving that the tables of a lake are what its versions say: manifests, their names, and the files that they name."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, NotFound, SeicheError
from seiche.lake.care.problems import Findings, Mending
from seiche.lake.care.reading_ahead import BYTES_AT_ONCE, ReadAhead
from seiche.lake.care.table_roots import TableRoot, TableRoots
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.lake.objects.rows import TableRow
from seiche.lake.publish import fenced, opened
from seiche.lake.versions import manifests
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below
from seiche.table import invariants
from seiche.table.format import deletions, file
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.fields import has_blobs
from seiche.table.format.file import ManifestFile
from seiche.table.format.index_details import content_file
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, IndexMetadata
from seiche.table.reachable import index_folder
from seiche.table.versions import hint
from seiche.table.versions.naming import Naming, parse

__all__ = ["TableCheck"]

# The folder of a table in which manifests are kept that could not be read.
_DAMAGED: Final = "_damaged"
_ADOPT: Final = (
    "Look at it. `lake.adopt(table)` brings its changes into the lake; one that was dropped has to be brought back"
    " first, with `lake.rollback(to, tables=)`. Nothing was overwritten."
)
_AGAIN: Final = "The published manifest holds the same: `fsck(repair=True)` writes it again from there."
_PUBLISH: Final = "Plain Lance readers are behind. The next commit, or `fsck(repair=True)`, makes up for it."


@dataclass(slots=True)
class TableCheck:
    """One Lance table of the lake, as the kept versions know it."""

    lake: Store
    location: str
    findings: Findings
    runtime: Runtime
    # The newest version of a table at this moment, by its id: others may commit while this looks around.
    current: Callable[[str], int]
    deep: bool = False
    # How many bytes of manifests are read before they are looked at.
    ahead: int = BYTES_AT_ONCE
    # Manifests that kept versions of the lake name, by the table's version.
    refs: dict[int, ManifestRef] = field(default_factory=dict)
    newest: TableRow | None = None
    files: int = 0
    _listing: Mapping[str, int] = field(default_factory=dict)
    # Fragments that were looked at, under the base paths that the last version had.
    _known: set[bytes] = field(default_factory=set)
    _bases: tuple[bytes, ...] = ()
    _seen: set[str] = field(default_factory=set)

    def add(self, row: TableRow) -> None:
        """The table as a kept version of the lake has it."""
        self.refs.update(manifests(row))
        if self.newest is None or row.table_version >= self.newest.table_version:
            self.newest = row

    def check(self) -> None:
        """Look at every version from the oldest that is kept to the newest."""
        if not self.refs or self.newest is None:
            return
        store = below(self.lake, self.location)
        self._listing = {info.path: info.size for info in store.list()}
        self.files = len(self._listing)
        roots = TableRoots(TableRoot(store, self._full, sizes=self._listing), self.runtime)
        before: Manifest | None = None
        versions = range(min(self.refs), self.newest.table_version + 1)
        paths = (path for version in versions for path in self._paths(version))
        ahead = ReadAhead(store, paths, self._listing, self.ahead)
        for version in versions:
            read = self._version(store, ahead, version)
            if read is None:
                before = None
                continue
            if before is not None:
                with self.findings.looking_at("manifest", self._full(self._path(version))):
                    invariants.check(before, read.manifest)
            before = read.manifest
            self._check_files(roots, read)
        self._check_names(store, self.newest)

    def _paths(self, version: int) -> Iterator[str]:
        """Where the manifest of a version stands, in the order of `_version`."""
        if version in self.refs:
            yield self.refs[version].path
        yield Naming.V2.path(version)

    def _version(self, store: Store, ahead: ReadAhead, version: int) -> ManifestFile | None:
        """The manifest of a version, wherever it can be read from."""
        ref = self.refs.get(version)
        staged = None if ref is None else self._staged(store, ahead, version, ref)
        published = self._published(store, ahead, version, staged)
        return published if staged is None else file.decode(staged, path=self._path(version))

    def _staged(self, store: Store, ahead: ReadAhead, version: int, ref: ManifestRef) -> bytes | None:
        """The manifest that the lake decided on, if it is still that."""
        path = self._full(ref.path)
        sound: list[bytes] = []
        with self.findings.looking_at(
            "manifest",
            path,
            needed_by=f"version {version} of the table",
            mending=lambda: _from_published(store, version, ref),
        ):
            data = ahead.get(ref.path)
            if len(data) != ref.size or hashlib.sha256(data).digest() != ref.sha256:
                raise Corrupt(f"{path} is not the manifest that the lake decided on")
            _check_version(file.decode(data, path=path), version, ref.transaction)
            sound.append(data)
        return sound[0] if sound else None

    def _published(self, store: Store, ahead: ReadAhead, version: int, staged: bytes | None) -> ManifestFile | None:
        """The manifest under its plain name, after comparing it with the one that the lake decided on."""
        name = Naming.V2.path(version)
        path = self._full(name)
        closed = None if staged is None else fenced(staged, path)
        try:
            data = ahead.get(name)
        except NotFound:
            self._unpublished(store, version, closed)
            return None
        try:
            read = file.decode(data, path=path)
            # In the copy that an export makes, plain writers are not kept out.
            same = closed is None or data == closed
            if closed is not None and not same:
                same = file.decode(fenced(data, path), path=path) == file.decode(closed, path=path)
            if not same:
                self._foreign(path, version)
                return None
            ref = self.refs.get(version)
            _check_version(read, version, ref.transaction if ref is not None else None)
        except (Corrupt, ValueError) as error:
            said = error.message if isinstance(error, SeicheError) else str(error)
            repair = None if closed is None else lambda: _replace(store, version, data, closed)
            self.findings.add("published.damaged", path, said, repair=repair)
            return None
        return read

    def _unpublished(self, store: Store, version: int, closed: bytes | None) -> None:
        name = Naming.V2.path(version)
        if closed is None:
            self.findings.add(
                "published.missing", self._full(name), f"version {version} of the table is missing, later ones exist"
            )
            return
        newest = self.newest is not None and version > self.newest.table_version - len(manifests(self.newest))
        self.findings.add(
            "published.missing",
            self._full(name),
            f"version {version} of the table was decided and has not got its plain name",
            _PUBLISH,
            severity="note" if newest else "error",
            repair=lambda: store.put_if_absent(name, closed),
        )

    def _foreign(self, path: str, version: int) -> None:
        self.findings.add(
            "published.foreign", path, f"version {version} was written by somebody who does not know the lake", _ADOPT
        )

    def _check_names(self, store: Store, row: TableRow) -> None:
        """Nothing above the newest version, and a hint that is of use."""
        named = (parse(path.removeprefix("_versions/")) for path in self._listing if path.startswith("_versions/"))
        above = [found[1] for found in named if found is not None and found[1] > row.table_version]
        newest = self.current(row.id) if above else row.table_version
        for version in above:
            if version > newest:
                self._foreign(self._full(Naming.V2.path(version)), version)
        if hint.PATH in self._listing and hint.read(store) < newest:
            self.findings.add(
                "hint.stale",
                self._full(hint.PATH),
                f"the table's hint does not say {newest}",
                "It only costs time.",
                severity="note",
                repair=lambda: hint.write(store, newest),
            )

    def _check_files(self, roots: TableRoots, read: ManifestFile) -> None:
        manifest = read.manifest
        needed_by = f"version {manifest.version} of the table"
        with self.findings.looking_at("manifest", self._full(self._path(manifest.version)), needed_by=needed_by):
            roots.at(manifest)
            self._check_fragments(roots, manifest, needed_by)
            for index in manifest.indices:
                self._check_index(roots.of(index), index, needed_by)
            if manifest.header.transaction_file and read.transaction is None:
                # Where the transaction stands in the manifest itself, the file is a courtesy.
                path = f"_transactions/{manifest.header.transaction_file}"
                self._check_exists("transaction", roots.own, path, 0, needed_by)

    def _check_fragments(self, roots: TableRoots, manifest: Manifest, needed_by: str) -> None:
        """Those that no version before had in the same form. Under other base paths that would be other files."""
        bases = tuple(base.SerializeToString(deterministic=True) for base in manifest.header.base_paths)
        if bases != self._bases:
            self._known, self._bases = set(), bases
        deleted = []
        for fragment in manifest.fragments.unseen(self._known):
            for one in fragment.files:
                self._check_data(roots.of(one), one, fragment, manifest, needed_by)
            if fragment.HasField("deletion_file"):
                deleted.append(fragment)
        files = DeletionFiles(roots.own.store, self.runtime, bases=roots.stores)

        def look(fragment: DataFragment) -> Findings:
            found = Findings()
            path = deletions.path(fragment.id, fragment.deletion_file)
            with found.looking_at("deletions", roots.of(fragment.deletion_file).shown(path), needed_by=needed_by):
                files.read(fragment)
            return found

        for found in self.lake.in_parallel(look, deleted):
            self.findings.join(found)

    def _check_data(
        self, root: TableRoot, one: DataFile, fragment: DataFragment, manifest: Manifest, needed_by: str
    ) -> None:
        path = root.data(one)
        if not self._check_exists("data", root, path, one.file_size_bytes, needed_by) or not self.deep:
            return
        if not root.is_table and has_blobs(manifest.header.fields):
            return  # native code reads such a file only as part of a table
        from seiche.table.data.reading_file import check_data_file

        with self.findings.looking_at("data", root.shown(path), needed_by=needed_by):
            beside = check_data_file(root.store, path, fragment.physical_rows, one, manifest.header)
            for large, size in beside.items():
                self._check_beside(root, large, size, needed_by)

    def _check_beside(self, root: TableRoot, path: str, size: int, needed_by: str) -> None:
        """A file of large values, which must have at least this size: only the data file says that there is one."""
        found = root.size(path)
        full = root.shown(path)
        if found is None:
            self.findings.add("data.missing", full, f"{full} is missing, which {needed_by} needs")
        elif found < size:
            said = f"{full} has {found} bytes instead of {size}, which {needed_by} needs"
            self.findings.add("data.damaged", full, said)

    def _check_index(self, root: TableRoot, index: IndexMetadata, needed_by: str) -> None:
        if len(index.uuid.uuid) != 16:
            return
        folder = index_folder(index.uuid.uuid)
        for one in index.files:
            self._check_exists("index", root, join(folder, one.path), one.size_bytes, needed_by)
        content = content_file(index)
        if content is not None:
            self._check_exists("index", root, join(folder, content), 0, needed_by)

    def _check_exists(self, what: str, root: TableRoot, path: str, size: int, needed_by: str) -> bool:
        """Whether a file is there and as large as it must be; 0 means that its size is not known. Asked again, no."""
        full = root.shown(path)
        if full in self._seen:
            return False
        self._seen.add(full)
        with self.findings.looking_at(what, full, needed_by=needed_by):
            found = root.size(path)
            if found is None:
                self.findings.add(f"{what}.missing", full, f"{full} is missing, which {needed_by} needs")
            elif size and found != size:
                said = f"{full} has {found} bytes instead of {size}, which {needed_by} needs"
                self.findings.add(f"{what}.damaged", full, said)
            else:
                return True
        return False

    def _path(self, version: int) -> str:
        ref = self.refs.get(version)
        return Naming.V2.path(version) if ref is None else ref.path

    def _full(self, path: str) -> str:
        return join(self.location, path)


def _from_published(store: Store, version: int, ref: ManifestRef) -> Mending | None:
    """How the lake's own manifest is made again from the published one, if that is known to give the same bytes."""
    name = Naming.V2.path(version)
    try:
        sound = opened(store.get(name), name)
    except (SeicheError, DecodeError, ValueError):
        return None
    if hashlib.sha256(sound).digest() != ref.sha256:
        return None
    return Mending(_AGAIN, lambda: store.put(ref.path, sound))


def _replace(store: Store, version: int, damaged: bytes, sound: bytes) -> None:
    """Put the lake's own manifest under its name. What stands there may be of a release that writes it differently, and
    is kept.
    """
    store.put(f"{_DAMAGED}/{version:020}.manifest", damaged)
    store.put(Naming.V2.path(version), sound)


def _check_version(read: ManifestFile, version: int, transaction: str | None) -> None:
    if read.manifest.version != version:
        raise ValueError(f"it calls itself version {read.manifest.version} instead of {version}")
    if transaction is not None and (read.transaction is None or read.transaction.uuid != transaction):
        found = "none" if read.transaction is None else read.transaction.uuid
        raise ValueError(f"it was made by transaction {found} instead of {transaction}")
