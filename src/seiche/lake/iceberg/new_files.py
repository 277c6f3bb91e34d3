"""The files that a new snapshot brings into a table."""

from collections.abc import Sequence
from typing import Any

from pyiceberg.manifest import ManifestEntryStatus, read_manifest_list

from seiche.errors import InvalidInput
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.reach import BROKEN
from seiche.store.base import Store

__all__ = ["brought_by", "check_there"]


def brought_by(snapshot: Any, store: Store) -> list[str]:
    """The paths in the lake of its manifest list, and of the manifests and data files that it adds.

    `InvalidInput` if one of the metadata files among them is missing or cannot be read.
    """
    io = LakeFileIO(store)
    found = [snapshot.manifest_list]
    try:
        for manifest in read_manifest_list(io.new_input(snapshot.manifest_list)):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                found.append(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(io)
                found += [one.data_file.file_path for one in entries if one.status is ManifestEntryStatus.ADDED]
    except BROKEN as error:
        raise _unreadable(snapshot, error) from error
    inside = (path_of(store, one) for one in found)
    return [path for path in inside if path is not None]


def check_there(paths: Sequence[str], snapshot: Any, store: Store) -> None:
    """`InvalidInput` if a file that somebody else is to have written is not there, or not any more."""
    for path, there in zip(paths, store.in_parallel(store.exists, paths), strict=True):
        if not there:
            raise _unreadable(snapshot, f"{path} does not exist")


def _unreadable(snapshot: Any, why: object) -> InvalidInput:
    return InvalidInput(
        f"snapshot {snapshot.snapshot_id} names files that cannot be read: {why}",
        remedy="Nothing was written. Write all files of a snapshot before it is committed.",
        snapshot=snapshot.snapshot_id,
    )
