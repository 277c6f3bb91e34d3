"""An Iceberg table in figures, as far as they tell what will hurt."""

from pyiceberg.manifest import DataFileContent

from seiche.lake.care.health import SMALL_BYTES, IcebergHealth
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import all_entries, manifests_in
from seiche.lake.iceberg.metadata import load
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State

__all__ = ["figures"]


def figures(state: State, row: TableRow, name: str) -> IcebergHealth:
    """What the current snapshot consists of, and how much metadata there is; `Corrupt` if that cannot be read."""
    metadata = load(state, row)
    size = 0 if row.iceberg is None else state.store.head(row.iceberg.location).size
    snapshot, io = metadata.current_snapshot(), LakeFileIO(state.store, outside=state.outside)
    manifests = [] if snapshot is None else manifests_in(snapshot, io)
    files = small = deletes = rows = 0
    for entries in all_entries(manifests, io, state.store):
        for entry in entries:
            if entry.data_file.content != DataFileContent.DATA:
                deletes += 1
                continue
            files += 1
            small += entry.data_file.file_size_in_bytes < SMALL_BYTES
            rows += entry.data_file.record_count
    return IcebergHealth(
        table=name,
        version=row.table_version,
        snapshots=len(metadata.snapshots),
        manifests=len(manifests),
        files=files,
        small_files=small,
        delete_files=deletes,
        rows=rows,
        metadata_bytes=size,
    )
