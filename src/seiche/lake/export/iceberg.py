"""What an export takes of an Iceberg table: metadata, manifests and data of every snapshot that the metadata names.

Iceberg names files by address. In the copy these are the addresses of the copy, in files of deletions too, so plain
engines read it where it is. The lake itself knows files by the table's place, wherever the lake stands, so a copy that
is moved is still read by it.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt
from seiche.lake.care.portions import portions
from seiche.lake.export.avro import Record, rewritten
from seiche.lake.export.iceberg_deletes import DeleteFile, can_rewrite
from seiche.lake.export.iceberg_deletes import rewritten as rewritten_deletes
from seiche.lake.export.items import Item, copied
from seiche.lake.export.tables import TableCopy
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import BROKEN, UNREADABLE, files_in, manifests_of
from seiche.lake.iceberg.metadata import Metadata, is_packed, read
from seiche.lake.iceberg.places import address, path_of, root_address
from seiche.lake.iceberg.reach import named_beside
from seiche.lake.objects.rows import TableRow
from seiche.store.base import Store

__all__ = ["IcebergCopy"]

# How much more memory the entries of a manifest take than its file.
_IN_MEMORY: Final = 20
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
        # Files of deletions that name others inside, by their paths, and what they are.
        self._naming: dict[str, str] = {}
        self._deletes: dict[str, DeleteFile] = {}
        self._moves = True

    def add(self, row: TableRow) -> None:
        if row.iceberg is not None:
            self._metadata[row.iceberg.location] = None

    def settle(self, target: Store, home: str) -> list[Item]:
        home = home or root_address(target)
        manifests: dict[str, ManifestFile] = {}
        lists: dict[str, int] = {}
        for path in self._metadata:
            lists |= self._lists(path)
        for some in portions((item, 0) for item in lists.items()):
            for found in self.lake.in_parallel(self._read_list, some):
                manifests |= {one.manifest_path: one for one in found}
        for part in portions((one, _IN_MEMORY * one.manifest_length) for one in manifests.values()):
            for files in self.lake.in_parallel(self._files, part):
                self._take_files(files)
        # A file of deletions names the rows' files inside itself, by address. If one cannot be written anew, all keep
        # the addresses that they have: otherwise deleted rows would come back.
        self._moves = all(map(can_rewrite, self._naming.values()))
        if self._moves:
            self._take_deletes(home)
        change = self._changed(home)
        for where in manifests:
            self._take(where, lambda data, path: rewritten(data, change, path))
        self._measure(manifests, change)
        for where in lists:
            self._take(where, lambda data, path: rewritten(data, change, path))
        for path in (*self._metadata, *self._earlier):
            self._take(path, lambda data, path: self._moved_json(data, path, home))
        return list(self._found.values())

    def row(self, row: TableRow) -> TableRow:
        return row

    def hint(self, target: Store) -> None:
        """There is none."""

    @staticmethod
    def reference(lake: Store, row: TableRow) -> TableRow:
        if row.iceberg is None:
            raise Corrupt(f"the row of Iceberg table {row.id} names no metadata", table=row.id)
        path = row.iceberg.location
        source = {**row.source, "lake": lake.native_uri(), "metadata": path}
        return replace(row, type="external", location=address(lake, path), iceberg=None, source=source)

    def _lists(self, path: str) -> Iterator[tuple[str, int]]:
        """The snapshots of a metadata file, with the number of their files; what it names beside them is taken if it is
        there.
        """
        metadata: Metadata = read(self.lake, path)
        named = [path for path in (path_of(self.lake, where) for where in named_beside(metadata)) if path is not None]
        for inside, is_there in zip(named, self.lake.in_parallel(self.lake.exists, named), strict=True):
            if not is_there:
                continue
            if inside.endswith((".metadata.json", ".metadata.json.gz")):
                self._earlier[inside] = None
            else:
                self._found.setdefault(inside, copied(self.lake, inside))
        for snapshot in metadata.snapshots:
            yield snapshot.manifest_list, files_in(snapshot)

    def _read_list(self, one: tuple[str, int]) -> list[ManifestFile]:
        where, files = one
        try:
            return manifests_of(where, self._io, files)
        except UNREADABLE as error:
            raise _unreadable(where, error) from error

    def _files(self, manifest: ManifestFile) -> list[DataFile]:
        try:
            return [one.data_file for one in manifest.fetch_manifest_entry(self._io, discard_deleted=True)]
        except UNREADABLE as error:
            raise _unreadable(manifest.manifest_path, error) from error

    def _take_files(self, files: list[DataFile]) -> None:
        """Take the data files of a manifest, and take down which of them name others inside."""
        for one in files:
            inside = path_of(self.lake, one.file_path)
            if inside is not None:
                self._found.setdefault(inside, copied(self.lake, inside, size=one.file_size_in_bytes))
                if one.content == DataFileContent.POSITION_DELETES:
                    self._naming[inside] = str(one.file_format.value).upper()

    def _take_deletes(self, home: str) -> None:
        """Take the files of deletions as they are to be. What is kept of each is what manifests say of it."""
        for path, kind in self._naming.items():

            def make(path: str = path, kind: str = kind) -> DeleteFile:
                return rewritten_deletes(kind, self.lake.get(path), lambda one: str(self._moved(one, home)), path)

            done = make()
            self._deletes[path] = replace(done, data=b"", size=len(done.data))
            self._found[path] = Item(path, lambda make=make: iter((make().data,)), len(done.data))  # type: ignore[misc]

    def _take(self, where: str, make: Callable[[bytes, str], bytes]) -> None:
        """Take a file of metadata, as it is to be."""
        path = where if where in self._metadata or where in self._earlier else path_of(self.lake, where)
        if path is None:
            return
        if not self._moves:
            self._found[path] = copied(self.lake, path)
            return
        self._found[path] = Item(path, lambda: iter((make(self.lake.get(path), path),)))

    def _measure(self, manifests: Mapping[str, ManifestFile], change: Callable[[Record], Record]) -> None:
        """Take down how long manifests will be: their lists say so."""

        def length(path: str) -> int:
            return len(rewritten(self.lake.get(path), change, path))

        inside = ((path_of(self.lake, where), _IN_MEMORY * one.manifest_length) for where, one in manifests.items())
        for some in portions((path, size) for path, size in inside if path is not None and self._moves):
            self._lengths |= zip(some, self.lake.in_parallel(length, some), strict=True)

    def _changed(self, home: str) -> Callable[[Record], Record]:
        """Changes a record of a manifest, or of a list of manifests."""

        def change(record: Record) -> Record:
            if "manifest_path" in record and "manifest_length" in record:
                path = path_of(self.lake, record["manifest_path"])
                record["manifest_length"] = self._lengths.get(path or "", record["manifest_length"])
            entry = record.get("data_file", {})
            done = self._deletes.get(path_of(self.lake, entry["file_path"]) or "") if entry else None
            if done is not None:
                done.tell(entry)
            for holder in (record, entry):
                for name in _ADDRESSES:
                    if name in holder:
                        holder[name] = self._moved(holder[name], home)
            return record

        return change

    def _moved(self, value: Any, home: str) -> Any:
        """An address as it is in the copy. What lies outside of the lake stays there."""
        if isinstance(value, tuple):
            return value[0], self._moved(value[1], home)
        path = path_of(self.lake, value) if isinstance(value, str) and "/" in value else None
        return value if path is None else f"{home}/{path}"

    def _moved_json(self, data: bytes, path: str, home: str) -> bytes:
        packed = is_packed(data)
        try:
            found = self._walked(json.loads(gzip.decompress(data) if packed else data), home)
        except BROKEN as error:
            raise _unreadable(path, error) from error
        text = json.dumps(found, separators=(",", ":")).encode()
        return gzip.compress(text, mtime=0) if packed else text

    def _walked(self, value: Any, home: str) -> Any:
        if isinstance(value, dict):
            return {name: self._walked(one, home) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walked(one, home) for one in value]
        return self._moved(value, home)


def _unreadable(where: str, error: Exception) -> Corrupt:
    return Corrupt(
        f"{where} cannot be read: {error.__cause__ if isinstance(error, Corrupt) else error}",
        remedy="Restore it from a copy of the lake, or leave the table out of the export.",
        path=where,
    )
