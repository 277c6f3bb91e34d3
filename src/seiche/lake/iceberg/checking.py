"""Proving that the Iceberg tables of a lake are what its versions say."""

from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.manifest import FileFormat, ManifestFile, read_manifest_list

from seiche.lake.care.layout import place
from seiche.lake.care.problems import Findings
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.metadata import Metadata, last_number, read
from seiche.lake.iceberg.parquet import check_parquet
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.reach import BROKEN, named_beside
from seiche.lake.objects.rows import TableRow
from seiche.lake.outside import ANYWHERE, Outside
from seiche.store.base import Store
from seiche.store.paths import join
from seiche.store.prefix import below

__all__ = ["IcebergCheck"]

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
        for path, row in sorted(self._rows.items(), key=lambda item: item[1].table_version):
            needed_by = f"version {row.table_version} of the table"
            if path not in self._listing:
                self.findings.add("metadata.missing", path, f"{path} is missing, which {needed_by} needs")
                continue
            self.found.add(path)
            with self.findings.looking_at("metadata", path, needed_by=needed_by):
                metadata = read(self.lake, path)
                self._check_row(metadata, row, highest.get(row.id, 0))
                highest[row.id] = last_number(metadata)
                self._check_metadata(metadata, needed_by)

    def follow(self, metadata: Metadata, needed_by: str) -> None:
        """Look at everything in the lake that metadata leads to which lies elsewhere."""
        with self.findings.looking_at("metadata", metadata.location, needed_by=needed_by):
            self._check_metadata(metadata, needed_by)

    def _check_row(self, metadata: Metadata, row: TableRow, highest: int) -> None:
        if row.iceberg is not None and row.iceberg.uuid and str(metadata.table_uuid) != row.iceberg.uuid:
            raise ValueError(f"it is that of table {metadata.table_uuid} instead of {row.iceberg.uuid}")
        if last_number(metadata) < highest:
            raise ValueError(
                f"its sequence number {last_number(metadata)} is below {highest}, which was given out before"
            )

    def _check_metadata(self, metadata: Metadata, needed_by: str) -> None:
        logged = {one.metadata_file for one in metadata.metadata_log}
        for where in named_beside(metadata):
            if where not in logged:
                self._check_statistics(where, needed_by)
            elif (path := path_of(self.lake, where)) is not None and path in self._listing:
                self.found.add(path)
        for snapshot in metadata.snapshots:
            self._check_list(snapshot, needed_by)

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

    def _check_list(self, snapshot: Any, version: str) -> None:
        needed_by = f"snapshot {snapshot.snapshot_id} in {version}"
        if not self._exists("manifests", snapshot.manifest_list, 0, needed_by):
            return
        io = LakeFileIO(self.lake, outside=self.outside)
        try:
            for manifest in read_manifest_list(io.new_input(snapshot.manifest_list)):
                self._check_manifest(manifest, io, needed_by)
        except BROKEN as error:
            self._damaged("manifests", snapshot.manifest_list, error, needed_by)

    def _check_manifest(self, manifest: ManifestFile, io: LakeFileIO, needed_by: str) -> None:
        if not self._exists("manifest", manifest.manifest_path, manifest.manifest_length, needed_by):
            return
        try:
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                one = entry.data_file
                if self._exists("data", one.file_path, one.file_size_in_bytes, needed_by) and self.deep:
                    self._check_data(one, needed_by)
        except BROKEN as error:
            self._damaged("manifest", manifest.manifest_path, error, needed_by)

    def _check_data(self, one: Any, needed_by: str) -> None:
        """Read a data file, or one of deletions, from end to end."""
        path = path_of(self.lake, one.file_path)
        if path is not None and one.file_format == FileFormat.PARQUET:
            with self.findings.looking_at("data", path, needed_by=needed_by):
                check_parquet(self.lake, path, one.record_count)

    def _exists(self, what: str, where: str, size: int, needed_by: str) -> bool:
        """Whether a file is to be looked into: it is there, in full, and was not looked at before."""
        path = path_of(self.lake, where)
        if path is None or path in self._seen:
            return path is None and what in ("manifests", "manifest")
        self._seen.add(path)
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
        if not location:
            found = self.lake.find(path)
            return None if found is None else found.size
        self._list(location)
        return self._listing.get(path)

    def _list(self, location: str) -> None:
        if location not in self._listed:
            self._listed.add(location)
            self._listing |= {join(location, info.path): info.size for info in below(self.lake, location).list()}

    def _damaged(self, what: str, where: str, error: BaseException, needed_by: str) -> None:
        path = path_of(self.lake, where) or where
        said = f"{path} cannot be read ({type(error).__name__}: {error}), which {needed_by} needs"
        self.findings.add(f"{what}.damaged", path, said, _RESTORE)
