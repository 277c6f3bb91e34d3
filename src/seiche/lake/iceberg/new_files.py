"""The files that a new snapshot brings into a table."""

from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFileContent,
    ManifestContent,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.table.update import AddSnapshotUpdate, SetPartitionStatisticsUpdate, SetStatisticsUpdate

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.lake.commit.written import written_since
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import BROKEN, living_entries, manifests_in
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.iceberg.places import path_of
from seiche.lake.state import State

__all__ = ["age_of", "brought_by", "misnoted", "named_by"]

# The column of a file of deletions that names the file whose rows are deleted; DuckDB takes the number of another one.
_PATHS: Final = (2147483546, 2147483646)


def brought_by(snapshot: Any, state: State, specs: Container[int]) -> list[str]:
    """The paths in the lake of its manifest list, and of the manifests and data files that it adds.

    `InvalidInput` if one of the metadata files among them is missing, cannot be read, has a partition spec that the
    table does not have, or deletes rows that others would go on to show, and `PermissionDenied` if one lies where
    nothing may be opened. Neither tells what is in a file: whoever asks need not be allowed to read it.
    """
    io = LakeFileIO(state.store, outside=state.outside)
    found, new = [snapshot.manifest_list], []
    try:
        manifests = list(read_manifest_list(io.new_input(snapshot.manifest_list)))
        for manifest in manifests:
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
                added = [one.data_file for one in entries if one.status is ManifestEntryStatus.ADDED]
                found += [one.file_path for one in added]
                new += [(manifest.partition_spec_id, one) for one in added]
        why = _misnoted(manifests, new, io)
    except FileNotFoundError as error:
        raise _unreadable(snapshot, error) from error
    except (*BROKEN, Corrupt) as error:
        raise _unreadable(snapshot, f"{found[-1]} is something else") from error
    if why:
        raise InvalidInput(
            f"snapshot {snapshot.snapshot_id} {why}",
            remedy="Nothing was written. Change rows from before the table's partitions did by another engine.",
            snapshot=snapshot.snapshot_id,
        )
    inside = (path_of(state.store, one) for one in found)
    return [path for path in inside if path is not None]


def misnoted(metadata: Metadata, io: FileIO) -> str:
    """Which rows some engines know as deleted and others do not, in a snapshot that a branch or tag stands for; empty
    if there are none, or if that cannot be read.
    """
    heads = {ref.snapshot_id for ref in metadata.refs.values()} if len(metadata.partition_specs) > 1 else set()
    with suppress(Corrupt):
        for snapshot in filter(None, map(metadata.snapshot_by_id, sorted(heads))):
            manifests = manifests_in(snapshot, io)
            deletes = [one for one in manifests if one.content is ManifestContent.DELETES]
            noted = [(one.partition_spec_id, entry.data_file) for one in deletes for entry in living_entries(one, io)]
            why = _misnoted(manifests, noted, io)
            if why:
                return f"snapshot {snapshot.snapshot_id} {why}"
    return ""


def _misnoted(manifests: Sequence[ManifestFile], noted: Iterable[tuple[int, Any]], io: FileIO) -> str:
    """Says so if rows of a file are deleted by one that is noted under another partition spec, as DuckDB does it once
    the partitions of a table have changed: it finds them by the name of the file, and others, who go by the
    specification, do not find them.
    """
    deletions: dict[str | None, set[tuple[int, int]]] = {}
    for spec, one in noted:
        deletions.setdefault(_deleted_from(one), set()).add((spec, len(one.partition)))
    if {*deletions} <= {None} or len({one.partition_spec_id for one in manifests}) == 1:
        return ""
    for manifest in manifests:
        for entry in living_entries(manifest, io) if manifest.content is ManifestContent.DATA else ():
            own = (manifest.partition_spec_id, len(entry.data_file.partition))
            for spec, _ in deletions.get(entry.data_file.file_path, set()) - {own}:
                return (
                    f"deletes rows of a file of partition spec {own[0]} by one that is noted under other partitions, of"
                    f" spec {spec}: most engines would not find the deletion, and show the rows"
                )
    return ""


def _deleted_from(one: Any) -> str | None:
    """The only file that a file of deletions is about, if it says so."""
    lower, upper = (bounds or {} for bounds in (one.lower_bounds, one.upper_bounds))
    for number in _PATHS if one.content is DataFileContent.POSITION_DELETES else ():
        if lower.get(number) is not None and lower.get(number) == upper.get(number):
            return bytes(lower[number]).decode(errors="replace")
    return None


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
