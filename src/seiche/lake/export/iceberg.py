"""What an export takes of an Iceberg table: metadata, manifests and data of every snapshot that the metadata names.

Iceberg names files by address. In the copy these are the addresses of the copy, so plain engines read it where it is.
The lake itself knows files by the table's place, wherever the lake stands, so a copy that is moved is still read by it.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from pyiceberg.manifest import DataFileContent, ManifestFile, read_manifest_list

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, SeicheError
from seiche.lake.export.avro import Record, rewritten
from seiche.lake.export.items import Item, copied
from seiche.lake.export.tables import TableCopy
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.metadata import Metadata, read
from seiche.lake.iceberg.places import address, path_of
from seiche.lake.iceberg.reach import BROKEN, named_beside
from seiche.lake.objects.rows import TableRow
from seiche.store.base import Store

__all__ = ["IcebergCopy"]

_ADDRESSES: Final = ("manifest_path", "file_path", "referenced_data_file")


class IcebergCopy(TableCopy):
    """An Iceberg table. Paths in the lake stay what they are, only what stands in the files changes."""

    def __init__(self, lake: Store, location: str, runtime: Runtime) -> None:
        super().__init__(lake, location, runtime)
        self._io = LakeFileIO(lake)
        self._metadata: dict[str, None] = {}
        self._earlier: dict[str, None] = {}
        self._found: dict[str, Item] = {}
        self._lengths: dict[str, int] = {}
        self._moves = True

    def add(self, row: TableRow) -> None:
        if row.iceberg is not None:
            self._metadata[row.iceberg.location] = None

    def settle(self, target: Store) -> list[Item]:
        manifests: dict[str, ManifestFile] = {}
        lists: dict[str, None] = {}
        for path in self._metadata:
            for where in self._lists(path):
                lists[where] = None
                manifests.update((one.manifest_path, one) for one in self._read_list(where))
        # A file of deletions names the rows' files inside itself, by address: then all keep the ones they have.
        self._moves = sum(map(self._take_files, manifests.values())) == 0
        change = self._changed(target)
        for where in manifests:
            self._take(where, lambda data, path: rewritten(data, change, path), measured=True)
        for where in lists:
            self._take(where, lambda data, path: rewritten(data, change, path))
        for path in (*self._metadata, *self._earlier):
            self._take(path, lambda data, path: self._moved_json(data, path, target))
        return list(self._found.values())

    def row(self, row: TableRow) -> TableRow:
        return row

    def hint(self, target: Store) -> None:
        """There is none."""

    @staticmethod
    def reference(lake: Store, row: TableRow) -> TableRow:
        raise InvalidInput(
            f"the Iceberg table {row.id} cannot be referred to from another lake",
            remedy='Copy it: use mode="full", or name it in `tables=`.',
            table=row.id,
        )

    def _lists(self, path: str) -> Iterator[str]:
        """The snapshots of a metadata file; what it names beside them is taken if it is there."""
        metadata: Metadata = read(self.lake, path)
        for beside in named_beside(metadata):
            inside = path_of(self.lake, beside)
            if inside is None or not self.lake.exists(inside):
                continue
            if inside.endswith(".metadata.json"):
                self._earlier[inside] = None
            else:
                self._found.setdefault(inside, copied(self.lake, inside))
        for snapshot in metadata.snapshots:
            yield snapshot.manifest_list

    def _read_list(self, where: str) -> list[ManifestFile]:
        try:
            return list(read_manifest_list(self._io.new_input(where)))
        except (*BROKEN, SeicheError) as error:
            raise _unreadable(where, error) from error

    def _take_files(self, manifest: ManifestFile) -> bool:
        """Take the data files of a manifest; whether there are files among them that name others inside."""
        names_others = False
        try:
            for entry in manifest.fetch_manifest_entry(self._io, discard_deleted=True):
                inside = path_of(self.lake, entry.data_file.file_path)
                names_others |= entry.data_file.content == DataFileContent.POSITION_DELETES
                if inside is not None:
                    size = entry.data_file.file_size_in_bytes
                    self._found.setdefault(inside, copied(self.lake, inside, size=size))
        except (*BROKEN, SeicheError) as error:
            raise _unreadable(manifest.manifest_path, error) from error
        return names_others

    def _take(self, where: str, make: Callable[[bytes, str], bytes], *, measured: bool = False) -> None:
        """Take a file of metadata, as it is to be."""
        path = where if where in self._metadata or where in self._earlier else path_of(self.lake, where)
        if path is None:
            return
        if not self._moves:
            self._found[path] = copied(self.lake, path)
            return
        self._found[path] = Item(path, lambda: iter((make(self.lake.get(path), path),)))
        if measured:
            self._lengths[path] = len(make(self.lake.get(path), path))

    def _changed(self, target: Store) -> Callable[[Record], Record]:
        """Changes a record of a manifest, or of a list of manifests."""

        def change(record: Record) -> Record:
            if "manifest_path" in record and "manifest_length" in record:
                path = path_of(self.lake, record["manifest_path"])
                record["manifest_length"] = self._lengths.get(path or "", record["manifest_length"])
            for holder in (record, record.get("data_file", {})):
                for name in _ADDRESSES:
                    if name in holder:
                        holder[name] = self._moved(holder[name], target)
            return record

        return change

    def _moved(self, value: Any, target: Store) -> Any:
        """An address as it is in the copy. What lies outside of the lake stays there."""
        if isinstance(value, tuple):
            return value[0], self._moved(value[1], target)
        path = path_of(self.lake, value) if isinstance(value, str) and "/" in value else None
        return value if path is None else address(target, path)

    def _moved_json(self, data: bytes, path: str, target: Store) -> bytes:
        packed = path.endswith(".gz.metadata.json")
        found = self._walked(json.loads(gzip.decompress(data) if packed else data), target)
        text = json.dumps(found, separators=(",", ":")).encode()
        return gzip.compress(text, mtime=0) if packed else text

    def _walked(self, value: Any, target: Store) -> Any:
        if isinstance(value, dict):
            return {name: self._walked(one, target) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walked(one, target) for one in value]
        return self._moved(value, target)


def _unreadable(where: str, error: Exception) -> Corrupt:
    return Corrupt(
        f"{where} cannot be read: {error}",
        remedy="Restore it from a copy of the lake, or leave the table out of the export.",
        path=where,
    )
