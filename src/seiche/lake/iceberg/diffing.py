"""What happened to one Iceberg table between two versions of a lake."""

from collections.abc import Iterator
from typing import Any

from pyiceberg.manifest import DataFileContent

from seiche.lake.history.changes import ObjectChange
from seiche.lake.history.table_diff import ColumnChange, TableDiff, TableOperation
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.manifests import all_entries, manifests_in
from seiche.lake.iceberg.metadata import Metadata, load
from seiche.lake.objects.rows import Row, TableRow
from seiche.lake.state import State

__all__ = ["iceberg_diff"]


def iceberg_diff(state: State, change: ObjectChange) -> TableDiff | None:
    """How the content of the table differs; `None` if its metadata is the same, or it is not the lake's own.

    Operations are the snapshots that the later of both has and the earlier has not. Rows are counted by the data files;
    those that files of deletes hide are among them. How many were added and removed the snapshots' own summaries say,
    as far as they fit: not all engines write them.
    """
    before, after = _row(change.before), _row(change.after)
    if before == after or (before is not None and after is not None and before.iceberg == after.iceberg):
        return None
    old = None if before is None else load(state, before)
    new = None if after is None else load(state, after)
    newest = after or before
    if newest is None:
        return None
    first, last = (0 if row is None else row.table_version for row in (before, after))
    older, newer = (old, new) if first <= last else (new, old)
    made = _snapshots(older, newer) if old is not None and new is not None else []
    (old_files, rows_before), (new_files, rows_after) = (_files(state, one) for one in (old, new))
    added = sum(_number(one, "added-records") for one in made)
    removed = sum(_number(one, "deleted-records") for one in made)
    if first > last:
        added, removed = removed, added
    if rows_before + added - removed != rows_after or not made:
        added, removed = max(0, rows_after - rows_before), max(0, rows_before - rows_after)
    return TableDiff(
        id=newest.id,
        table=change.name,
        before=first,
        after=last,
        operations=tuple(
            TableOperation(min(first, last) + number, one.summary.operation.value, str(one.snapshot_id))
            for number, one in enumerate(made, 1)
            if one.summary is not None
        ),
        rows_before=rows_before,
        rows_after=rows_after,
        rows_added=added,
        rows_removed=removed,
        files_added=tuple(sorted(new_files - old_files)),
        files_removed=tuple(sorted(old_files - new_files)),
        columns=tuple(_columns(old, new)),
    )


def _row(row: Row | None) -> TableRow | None:
    return row if isinstance(row, TableRow) and row.is_own("iceberg") else None


def _snapshots(older: Metadata | None, newer: Metadata | None) -> list[Any]:
    known = set() if older is None else {one.snapshot_id for one in older.snapshots}
    return [] if newer is None else [one for one in newer.snapshots if one.snapshot_id not in known]


def _number(snapshot: Any, name: str) -> int:
    return 0 if snapshot.summary is None else int(snapshot.summary[name] or 0)


def _files(state: State, metadata: Metadata | None) -> tuple[frozenset[str], int]:
    """The files of the table, and how many rows are in those that have rows."""
    snapshot = None if metadata is None else metadata.current_snapshot()
    if snapshot is None or metadata is None:
        return frozenset(), 0
    io = LakeFileIO(state.store, outside=state.outside)
    start = f"{metadata.location.rstrip('/')}/"
    manifests = manifests_in(snapshot, io)
    found = [entry.data_file for entries in all_entries(manifests, io, state.store) for entry in entries]
    rows = sum(one.record_count for one in found if one.content == DataFileContent.DATA)
    return frozenset(one.file_path.removeprefix(start) for one in found), rows


def _columns(old: Metadata | None, new: Metadata | None) -> Iterator[ColumnChange]:
    """Columns are the same if they have the same field id."""
    before, after = _described(old), _described(new)
    for one in sorted(before.keys() | after.keys()):
        if one not in after:
            yield ColumnChange("dropped", before[one][0], before=before[one][1])
        elif one not in before:
            yield ColumnChange("added", after[one][0], after=after[one][1])
        elif before[one][0] != after[one][0]:
            yield ColumnChange("renamed", after[one][0], before[one][1], after[one][1], old_name=before[one][0])
        elif before[one] != after[one]:
            yield ColumnChange("changed", after[one][0], before[one][1], after[one][1])


def _described(metadata: Metadata | None) -> dict[int, tuple[str, str]]:
    if metadata is None:
        return {}
    schema = metadata.schema()
    return {one: (str(schema.find_column_name(one)), _type(schema.find_field(one))) for one in schema.field_ids}


def _type(field: Any) -> str:
    return str(field.field_type) + (" not null" if field.required else "")
