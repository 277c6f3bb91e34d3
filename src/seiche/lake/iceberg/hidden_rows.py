"""Rows that deletes by position took out of a table: its files still count them, and so does PyIceberg."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import ManifestContent

if TYPE_CHECKING:
    from seiche.lake.engines.iceberg_table import EngineTable
    from seiche.lake.iceberg.metadata import Metadata

__all__ = ["hidden_in", "with_deletes"]


def with_deletes(table: "EngineTable") -> list[Any]:
    """The data files, as tasks of PyIceberg, some of whose rows are deleted by other files."""
    snapshot = table.current_snapshot()
    manifests = () if snapshot is None else snapshot.manifests(table.io)
    if all(one.content is ManifestContent.DATA for one in manifests):
        return []
    try:
        return [one for one in table.scan().plan_files() if one.delete_files]
    except ValueError:  # equality deletes, whose rows PyIceberg cannot find; whole files it can still remove
        return []


def hidden_in(tasks: Sequence[Any], before: "Metadata", after: "EngineTable") -> int:
    """How many rows the files hide that were in the table `before` and are not any more."""
    if not tasks:
        return 0
    left = {one.file.file_path for one in after.scan().plan_files()}
    gone = [one for one in tasks if one.file.file_path not in left]
    first = before.schema().fields[0].name
    read = ArrowScan(before, after.io, before.schema().select(first), AlwaysTrue())
    seen = sum(batch.num_rows for batch in read.to_record_batches(gone))
    hidden: int = sum(one.file.record_count for one in gone) - seen
    return hidden
