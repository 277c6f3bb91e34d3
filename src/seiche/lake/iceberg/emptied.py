"""A main branch that was taken away gets a snapshot without rows: of a table without one, DuckDB shows the newest
snapshot that there is, and readers of its log the last that was current, so the rows of before would be there again.

A table whose main branch never had a snapshot is left alone: there another branch may still become the main one, as
long as nothing else is.
"""

from typing import Any, Final

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from seiche.lake.iceberg.appends import Appends
from seiche.lake.iceberg.metadata import Metadata, last_number
from seiche.lake.iceberg.updates import apply
from seiche.lake.tree.root import millis

__all__ = ["is_emptied", "with_empty_main"]

_ID: Final = (1 << 63) - 1
_NOTHING: Final = dict.fromkeys(
    (
        "total-records",
        "total-files-size",
        "total-data-files",
        "total-delete-files",
        "total-position-deletes",
        "total-equality-deletes",
    ),
    "0",
)


def is_emptied(metadata: Metadata) -> bool:
    """Whether the main branch had a snapshot, has none any more, and the table still has some."""
    return bool(MAIN_BRANCH not in metadata.refs and metadata.snapshot_log and metadata.snapshots)


def with_empty_main(metadata: Metadata, folder: str, appends: Appends) -> Metadata:
    """The metadata with a main branch that has no rows; its list of manifests is kept with the files of `appends`."""
    runtime = appends.runtime
    number = runtime.uuid().int & _ID
    now = max(millis(runtime.clock.now()), metadata.last_updated_ms)
    version = metadata.format_version
    values: dict[str, Any] = {
        "snapshot-id": number,
        "sequence-number": None if version == 1 else last_number(metadata) + 1,
        "timestamp-ms": now,
        "manifest-list": appends.empty_list(metadata, folder, number),
        "summary": Summary(Operation.DELETE, **_NOTHING),
        "schema-id": metadata.current_schema_id,
    }
    if version > 2:
        values |= {"first-row-id": getattr(metadata, "next_row_id", None) or 0, "added-rows": 0}
    ref = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": number}
    updates = [AddSnapshotUpdate(snapshot=Snapshot.model_validate(values)), SetSnapshotRefUpdate.model_validate(ref)]
    return apply(metadata, updates, now_millis=now)
