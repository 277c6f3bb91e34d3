"""Proving that the Iceberg tables of a lake are what its versions say."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from pyiceberg.manifest import FileFormat, ManifestFile

from seiche.errors import Corrupt, PermissionDenied
from seiche.lake.care.layout import place
from seiche.lake.care.problems import Findings
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import living_entries, manifests_in, side_by_side
from seiche.lake.iceberg.metadata import Metadata, last_number, read
from seiche.lake.iceberg.parquet import check_parquet
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.reach import named_beside
from seiche.lake.objects.rows import TableRow
from seiche.lake.outside import ANYWHERE, Outside
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below

__all__ = ["IcebergCheck"]

Item = TypeVar("Item")

_RESTORE: Final = (
    "Restore it from a copy of the lake, or give up the snapshots that need it, with"
    " `lake.table(name).to_iceberg().maintenance.expire_snapshots()`, and then the versions."
)
_NO_STATISTICS: Final = "Engines do without. Have one compute them again, or remove them from the table."


@dataclass(slots=True)
class IcebergCheck:
    """One Iceberg table of the lake: metadata of all kept versions, and every file that it leads to."""

    lake: Store
    location: str
    findings: Findings
    # Whether data files are read too.
    deep: bool = False
    # What may be opened besides the lake's own files.
    outside: Outside = ANYWHERE
    files: int = 0
    # What was found of the files that the metadata leads to, as paths in the lake.
    found: set[str] = field(default_factory=set)
    _rows: dict[str, TableRow] = field(default_factory=dict)
    # The files in its place, and in those of other tables that it has files of, with their sizes.
    _listing: dict[str, int] = field(default_factory=dict)
    _listed: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def add(self, row: TableRow) -> None:
        """The table as a kept version of the lake has it."""
        if row.iceberg is not None:
            self._rows[row.iceberg.location] = row

    def check(self) -> None:
        """Look at everything."""
        self._list(self.location)
        self.files = len(self._listing)
        # A table that was dropped and registered again has the place of the one that it was.
        highest: dict[str, int] = {}
        there: list[tuple[str, TableRow]] = []
        for path, row in sorted(self._rows.items(), key=lambda item: item[1].table_version):
            if path in self._listing:
                self.found.add(path)
                there.append((path, row))
            else:
                said = f"{path} is missing, which {_version(row)} needs"
                self.findings.add("metadata.missing", path, said)
        wanted: dict[str, tuple[Any, str]] = {}
        for (path, row), read_as in self._read(lambda one: read(self.lake, one[0]), there):
            with self.findings.looking_at("metadata", path, needed_by=_version(row)):
                metadata = _or_raised(read_as)
                self._check_row(metadata, row, highest.get(row.id, 0))
                highest[row.id] = last_number(metadata)
                self._check_beside(metadata, _version(row))
                for one in metadata.snapshots:
                    wanted.setdefault(one.manifest_list, (one, f"snapshot {one.snapshot_id} in {_version(row)}"))
        self._check_snapshots(wanted.values())

    def follow(self, metadata: Metadata, needed_by: str) -> None:
        """Look at everything in the lake that metadata leads to which lies elsewhere."""
        self._check_beside(metadata, needed_by)
        self._check_snapshots((one, f"snapshot {one.snapshot_id} in {needed_by}") for one in metadata.snapshots)

    def _check_row(self, metadata: Metadata, row: TableRow, highest: int) -> None:
        if row.iceberg is not None and row.iceberg.uuid and str(metadata.table_uuid) != row.iceberg.uuid:
            raise ValueError(f"it is that of table {metadata.table_uuid} instead of {row.iceberg.uuid}")
        if last_number(metadata) < highest:
            raise ValueError(
                f"its sequence number {last_number(metadata)} is below {highest}, which was given out before"
            )

    def _check_beside(self, metadata: Metadata, needed_by: str) -> None:
        logged = {one.metadata_file for one in metadata.metadata_log}
        for where in named_beside(metadata):
            if where not in logged:
                self._check_statistics(where, needed_by)
            elif (path := path_of(self.lake, where)) is not None and path in self._listing:
                self.found.add(path)

    def _check_statistics(self, where: str, needed_by: str) -> None:
        """Nothing is read by them: a commit may name statistics that are not there, and engines plan without."""
        path = path_of(self.lake, where)
        if path is None or path in self._seen:
            return
        self._seen.add(path)
        if path in self._listing or self.lake.exists(path):
            self.found.add(path)
        else:
            said = f"{path} is missing, which {needed_by} names"
            self.findings.add("statistics.missing", path, said, _NO_STATISTICS, severity="note")

    def _check_snapshots(self, snapshots: Iterable[tuple[Any, str]]) -> None:
        """Look at everything behind snapshots, each with what needs it; lists and manifests are read side by side."""
        io = LakeFileIO(self.lake, outside=self.outside)
        wanted = [item for item in snapshots if self._exists("manifests", item[0].manifest_list, 0, item[1])]
        manifests: list[tuple[ManifestFile, str]] = []
        for (snapshot, needed_by), listed in self._read(lambda one: manifests_in(one[0], io), wanted):
            if self._is_read("manifests", snapshot.manifest_list, listed, needed_by):
                manifests += [
                    (one, needed_by)
                    for one in listed
                    if self._exists("manifest", one.manifest_path, one.manifest_length, needed_by)
                ]
        for (manifest, needed_by), entries in self._read(lambda one: living_entries(one[0], io), manifests):
            if self._is_read("manifest", manifest.manifest_path, entries, needed_by):
                for entry in entries:
                    self._check_file(entry.data_file, needed_by)

    def _check_file(self, one: Any, needed_by: str) -> None:
        if self._exists("data", one.file_path, one.file_size_in_bytes, needed_by) and self.deep:
            self._check_data(one, needed_by)

    def _read(self, look: Callable[[Item], Any], items: Iterable[Item]) -> Iterator[tuple[Item, Any]]:
        """Each item with what is read of it, or the error that came of that."""
        wanted = list(items)
        return zip(wanted, side_by_side(self.lake, partial(_tried, look), wanted), strict=True)

    def _is_read(self, what: str, where: str, read_as: Any, needed_by: str) -> bool:
        """Whether a file could be read; otherwise that is a problem."""
        if not isinstance(read_as, Exception):
            return True
        path = path_of(self.lake, where) or where
        if isinstance(read_as, PermissionDenied):
            self.findings.add(f"{what}.unreadable", path, read_as.message, read_as.remedy)
        elif isinstance(read_as, Corrupt):
            cause = read_as.__cause__ or read_as
            said = f"{path} cannot be read ({type(cause).__name__}: {cause}), which {needed_by} needs"
            self.findings.add(f"{what}.damaged", path, said, _RESTORE)
        else:
            raise read_as
        return False

    def _check_data(self, one: Any, needed_by: str) -> None:
        """Read a data file, or one of deletions, from end to end."""
        path = path_of(self.lake, one.file_path)
        if path is not None and one.file_format == FileFormat.PARQUET:
            with self.findings.looking_at("data", path, needed_by=needed_by):
                check_parquet(self.lake, path, one.record_count)

    def _exists(self, what: str, where: str, size: int, needed_by: str) -> bool:
        """Whether a file is to be looked into: it is there, in full, and was not looked at before."""
        path = path_of(self.lake, where)
        if (path or where) in self._seen:
            return False
        self._seen.add(path or where)
        if path is None:
            return what in ("manifests", "manifest")
        found = self._size(path)
        if found is None:
            self.findings.add(f"{what}.missing", path, f"{path} is missing, which {needed_by} needs", _RESTORE)
            return False
        if size and found != size:
            said = f"{path} has {found} bytes instead of {size}; {needed_by} needs it"
            self.findings.add(f"{what}.damaged", path, said, _RESTORE)
            return False
        self.found.add(path)
        return True

    def _size(self, path: str) -> int | None:
        """How large a file of the lake is; `None` if it is not there."""
        location = place(path).location
        if location:
            self._list(location)
        if path in self._listing:
            return self._listing[path]
        # Also if it is in a table: storage may list it under a folder that is spelt differently.
        found = self.lake.find(path)
        return None if found is None else found.size

    def _list(self, location: str) -> None:
        if location not in self._listed:
            self._listed.add(location)
            self._listing |= {join(location, info.path): info.size for info in below(self.lake, location).list()}


def _version(row: TableRow) -> str:
    return f"version {row.table_version} of the table"


def _tried(look: Callable[[Item], Any], item: Item) -> Any:
    try:
        return look(item)
    except Exception as error:  # noqa: BLE001 - whoever asked raises it, or says so
        return error


def _or_raised(read_as: Any) -> Any:
    if isinstance(read_as, Exception):
        raise read_as
    return read_as
