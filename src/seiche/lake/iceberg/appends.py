"""Putting an append on top of what others have committed meanwhile, by new metadata only.

A snapshot is the list of all manifests of the table. One that only adds rows is moved by a new list: the manifests that
the table has now, and the ones that the snapshot brought, with a new sequence number. What it brought keeps its data
files, and its entries inherit the number from the list. Its manifests get new names all the same: PyIceberg remembers
manifests by their names together with the sequence number that it first saw with them, and whoever looked at the append
before it was moved would go on with the wrong one.
"""

import io
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.manifest import UNASSIGNED_SEQ, ManifestContent, ManifestFile, write_manifest_list
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation, Summary, update_snapshot_summaries

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import BROKEN, manifests_in
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.iceberg.places import path_of
from seiche.lake.outside import ANYWHERE, Outside
from seiche.store.base import Store
from seiche.store.overlay import OverlayStore

__all__ = ["Appends", "CannotMove"]


class CannotMove(Exception):
    """The snapshot is not one that can be put on top of another; says why."""


@dataclass(slots=True)
class Appends:
    """Moves appends of one table. `files` are the ones that it has made and that are to be written before the root."""

    store: Store
    runtime: Runtime
    files: dict[str, bytes] = field(default_factory=dict)
    outside: Outside = ANYWHERE

    def moved(self, snapshot: Any, parent: Any | None, onto: Any | None, metadata: Metadata) -> Any:
        """The snapshot as it is on top of `onto` instead of `parent`, in a table with this metadata.

        Raises `CannotMove` if it did more than add rows, or in a way that this table cannot take any more.
        """
        brought = self._brought(snapshot, parent)
        if metadata.format_version > 2:
            raise CannotMove("appends to tables of format version 3 cannot be moved")
        if metadata.format_version > 1 and not snapshot.sequence_number:
            # Its manifests have no place for a number: older deletes would count for its rows.
            raise CannotMove("it was written for format version 1")
        if snapshot.schema_id is not None and metadata.schema_by_id(snapshot.schema_id) is None:
            raise CannotMove(f"its schema {snapshot.schema_id} was removed")
        specs = metadata.specs()
        if any(one.partition_spec_id not in specs for one in brought):
            raise CannotMove("its partition spec was removed")
        standing = [] if onto is None else self.listed(onto)
        number = metadata.next_sequence_number()
        where = self._list_address(snapshot)
        with write_manifest_list(
            format_version=metadata.format_version,
            output_file=_Kept(where, self),
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=None if onto is None else onto.snapshot_id,
            sequence_number=number,
            avro_compression=cast(Any, _compression(metadata)),
        ) as writer:
            writer.add_manifests([*map(self._renamed, brought), *standing])
        return snapshot.model_copy(
            update={
                "parent_snapshot_id": None if onto is None else onto.snapshot_id,
                "sequence_number": number,
                "manifest_list": where,
                "timestamp_ms": max(snapshot.timestamp_ms, metadata.last_updated_ms),
                "summary": _summary(snapshot, onto),
            }
        )

    def empty_list(self, metadata: Metadata, folder: str, snapshot_id: int) -> str:
        """The address of a list without manifests, for a snapshot that comes next in a table with this metadata."""
        where = f"{folder}/snap-{snapshot_id}-0-{self.runtime.uuid()}.avro"
        with write_manifest_list(
            # PyIceberg writes none of version 3, which differs in what it says of each manifest.
            format_version=1 if metadata.format_version == 1 else 2,
            output_file=_Kept(where, self),
            snapshot_id=snapshot_id,
            parent_snapshot_id=None,
            sequence_number=metadata.next_sequence_number(),
            avro_compression=cast(Any, _compression(metadata)),
        ) as writer:
            writer.add_manifests([])
        return where

    def _brought(self, snapshot: Any, parent: Any | None) -> list[ManifestFile]:
        """The manifests that the snapshot has brought, if it has left all others as they were."""
        if snapshot.summary is None or snapshot.summary.operation is not Operation.APPEND:
            raise CannotMove("it does more than append")
        listed = self.listed(snapshot)
        brought = [one for one in listed if one.added_snapshot_id == snapshot.snapshot_id]
        others = {one.manifest_path for one in listed} - {one.manifest_path for one in brought}
        before = [] if parent is None else self.listed(parent)
        dropped = [one for one in before if one.manifest_path not in others]
        # Manifests that only tell what was deleted are left out by every snapshot but the one that deleted.
        if others - {one.manifest_path for one in before} or any(map(_is_alive, dropped)) or any(map(_more, brought)):
            raise CannotMove("it has rewritten manifests of the table")
        return brought

    def listed(self, snapshot: Any) -> list[ManifestFile]:
        """The manifests of a snapshot; `Corrupt` if their list is damaged."""
        try:
            return manifests_in(snapshot, self._io())
        except Corrupt as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise CannotMove(f"the manifest list {snapshot.manifest_list} is missing") from error

    def columns(self, snapshot: Any, brought_by: Collection[int] | None) -> list[Schema]:
        """The columns by which rows of a snapshot were written, as far as manifests say so: those that certain
        snapshots brought, or all of them.
        """
        found = []
        for one in self.listed(snapshot):
            is_meant = brought_by is None or one.added_snapshot_id in brought_by
            if is_meant and one.has_added_files() and not _is_of_deletes(one):
                with suppress(*BROKEN), AvroFile[Any](self._io().new_input(one.manifest_path)) as manifest:
                    found.append(Schema.model_validate_json(manifest.header.meta.get("schema", "")))
        return found

    def _io(self) -> FileIO:
        return LakeFileIO(OverlayStore(self.store, self.files), outside=self.outside)

    def _list_address(self, snapshot: Any) -> str:
        folder = snapshot.manifest_list.rpartition("/")[0]
        return f"{folder}/snap-{snapshot.snapshot_id}-1-{self.runtime.uuid()}.avro"

    def _renamed(self, manifest: ManifestFile) -> ManifestFile:
        with self._io().new_input(manifest.manifest_path).open() as stream:
            data = stream.read()
        where = f"{manifest.manifest_path.rpartition('/')[0]}/{self.runtime.uuid()}-m0.avro"
        self.keep(where, data)
        values = list(manifest._data)
        renamed = ManifestFile(where, *values[1:])
        renamed.sequence_number = renamed.min_sequence_number = UNASSIGNED_SEQ
        return renamed

    def keep(self, where: str, data: bytes) -> None:
        """A file to be written before the root."""
        path = path_of(self.store, where)
        if path is None:
            raise CannotMove(f"its files lie outside of the lake: {where}")
        self.files[path] = data


class _Kept(OutputFile):
    """A file that is not written yet, but kept with those that will be."""

    def __init__(self, location: str, appends: Appends) -> None:
        super().__init__(location)
        self._appends = appends

    def __len__(self) -> int:
        return 0

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        return self._appends._io().new_input(self.location)

    def create(self, overwrite: bool = False) -> Any:
        return _Bytes(self.location, self._appends)


class _Bytes(io.BytesIO):
    """A file that is kept when it is closed, unless an error was the reason."""

    def __init__(self, location: str, appends: Appends) -> None:
        super().__init__()
        self._location = location
        self._appends = appends

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()  # first: what fails to be kept is not tried again when nobody has this any more
            self._appends.keep(self._location, content)

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        if kind is None:
            self.close()
        else:
            super().close()


def _is_alive(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def _is_of_deletes(manifest: ManifestFile) -> bool:
    # By value: lists of format version 1 say nothing of it, and PyIceberg gives a plain 0.
    return manifest.content != ManifestContent.DATA


def _more(manifest: ManifestFile) -> bool:
    """Whether a manifest has more in it than files that were added."""
    counts = (manifest.existing_files_count, manifest.deleted_files_count)
    return _is_of_deletes(manifest) or any(count is None or count > 0 for count in counts)


def _compression(metadata: Metadata) -> str:
    name, usual = TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
    return metadata.properties.get(name, usual)


def _summary(snapshot: Any, onto: Any | None) -> Summary:
    """The same additions, with totals that count from another snapshot."""
    own = {k: v for k, v in snapshot.summary.additional_properties.items() if not k.startswith("total-")}
    before = None if onto is None or onto.summary is None else onto.summary
    return update_snapshot_summaries(Summary(Operation.APPEND, **own), before)
