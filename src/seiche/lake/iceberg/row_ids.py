"""The ids that rows get from format version 3 on."""

from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS, ManifestContent
from pyiceberg.table.update import AddSnapshotUpdate

from seiche.lake.iceberg.manifests import UNREADABLE
from seiche.lake.iceberg.metadata import Metadata

__all__ = ["counted"]

# What a list says of each manifest: PyIceberg itself reads it as in version 2, which knows no ids.
_LISTED: Final = MANIFEST_LIST_FILE_SCHEMAS[3]
_CONTENT, _ADDED, _EXISTING, _FIRST = (
    [one.name for one in _LISTED.fields].index(name)
    for name in ("content", "added_rows_count", "existing_rows_count", "first_row_id")
)
_DATA: Final = ManifestContent.DATA.value


def counted(updates: Sequence[Any], metadata: Metadata, io: FileIO) -> tuple[Any, ...]:
    """The updates, in which the first snapshot after one without ids counts all rows that get some by it.

    Those that are there get theirs with the manifests that it lists. DuckDB gives them ids and counts only the new
    rows, so that the next ones would get the same.
    """
    added = [one for one in updates if isinstance(one, AddSnapshotUpdate)]
    parent = metadata.snapshot_by_id(added[0].snapshot.parent_snapshot_id or -1) if added else None
    if parent is None or parent.first_row_id is not None:
        return tuple(updates)
    last = added[-1].snapshot
    if last.first_row_id is None or last.added_rows is None:
        return tuple(updates)
    rows = max(last.added_rows, _given(last, io))
    full = AddSnapshotUpdate(snapshot=last.model_copy(update={"added_rows": rows}))
    return tuple(full if one is added[-1] else one for one in updates)


def _given(snapshot: Any, io: FileIO) -> int:
    """How many ids the list of a snapshot has given out; 0 if it cannot be read, which is told elsewhere."""
    try:
        with AvroFile[Any](io.new_input(snapshot.manifest_list), _LISTED) as listed:
            found = [(one[_FIRST], one[_ADDED] + one[_EXISTING]) for one in listed if one[_CONTENT] == _DATA]
    except UNREADABLE:
        return 0
    ends = (first + rows - snapshot.first_row_id for first, rows in found if first is not None)
    # No more than there are rows, whatever stands in the list.
    return int(min(max(ends, default=0), sum(rows for _, rows in found)))
