"""The files that a new snapshot brings into a table."""

from collections.abc import Container, Sequence
from typing import Any

from pyiceberg.manifest import ManifestEntryStatus, read_manifest_list
from pyiceberg.table.update import AddSnapshotUpdate, SetPartitionStatisticsUpdate, SetStatisticsUpdate

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput, NotFound
from seiche.lake.commit.written import written_since
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.reach import BROKEN
from seiche.lake.state import State

__all__ = ["age_of", "brought_by", "named_by"]


def brought_by(snapshot: Any, state: State, specs: Container[int]) -> list[str]:
    """The paths in the lake of its manifest list, and of the manifests and data files that it adds.

    `InvalidInput` if one of the metadata files among them is missing, cannot be read, or has a partition spec that the
    table does not have, and `PermissionDenied` if one lies where nothing may be opened. Neither tells what is in a
    file: whoever asks need not be allowed to read it.
    """
    io = LakeFileIO(state.store, outside=state.outside)
    found = [snapshot.manifest_list]
    try:
        for manifest in read_manifest_list(io.new_input(snapshot.manifest_list)):
            if manifest.partition_spec_id not in specs:
                raise InvalidInput(
                    f"snapshot {snapshot.snapshot_id} has files of partition spec {manifest.partition_spec_id}, "
                    "which the table does not have",
                    remedy="Nothing was written. Load the table again, and write the files with a spec that it has.",
                    snapshot=snapshot.snapshot_id,
                )
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                found.append(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(io)
                found += [one.data_file.file_path for one in entries if one.status is ManifestEntryStatus.ADDED]
    except FileNotFoundError as error:
        raise _unreadable(snapshot, error) from error
    except BROKEN as error:
        raise _unreadable(snapshot, f"{found[-1]} is something else") from error
    inside = (path_of(state.store, one) for one in found)
    return [path for path in inside if path is not None]


def named_by(update: Any, state: State, specs: Container[int]) -> list[str]:
    """The paths in the lake of the files that an update brings: those of a snapshot, or of statistics that are there.

    Statistics that are not there serve nobody, and harm nobody either.
    """
    if isinstance(update, AddSnapshotUpdate):
        return brought_by(update.snapshot, state, specs)
    store = state.store
    if isinstance(update, SetStatisticsUpdate):
        path = path_of(store, update.statistics.statistics_path)
    elif isinstance(update, SetPartitionStatisticsUpdate):
        path = path_of(store, update.partition_statistics.statistics_path)
    else:
        return []
    return [path] if path is not None and store.exists(path) else []


def age_of(paths: Sequence[str], what: Any, base: int, state: State, runtime: Runtime) -> int:
    """The version of the lake after which files were written that somebody else has: `base`, or an older one.

    `InvalidInput` if one of them is not there, or not any more; `what` brings them, a snapshot or an update.
    """
    try:
        return written_since(paths, base, state, runtime)
    except NotFound as error:
        raise _unreadable(what, error.message) from error


def _unreadable(what: Any, why: object) -> InvalidInput:
    number = getattr(getattr(what, "snapshot", what), "snapshot_id", None)
    return InvalidInput(
        f"snapshot {number} names files that cannot be read: {why}",
        remedy="Nothing was written. Write all files of a snapshot before it is committed.",
        snapshot=number,
    )
