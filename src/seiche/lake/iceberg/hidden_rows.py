"""Rows that files of deletes took out of a table: its data files still have and count them, and so does PyIceberg."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFileContent, ManifestContent
from pyiceberg.table import ManifestGroupPlanner

if TYPE_CHECKING:
    from seiche.lake.engines.iceberg_table import EngineTable
    from seiche.lake.iceberg.metadata import Metadata

__all__ = ["hidden_in", "keep_hidden", "with_deletes"]


def keep_hidden() -> None:
    """From now on a plan has all files of deletes that may hold for its data files, in this process.

    PyIceberg leaves out those whose statistics say that they hide none of the rows that are asked for. But who writes a
    file anew because of one row takes all its rows along, and what such a file hides would be back in the table.
    """
    found = ManifestGroupPlanner._build_metrics_evaluator
    if not hasattr(found, "__wrapped__"):
        ManifestGroupPlanner._build_metrics_evaluator = _of_data_only(found)  # type: ignore[method-assign]


def _of_data_only(build: Callable[..., Callable[[Any], bool]]) -> Callable[..., Callable[[Any], bool]]:
    @wraps(build)
    def built(planner: ManifestGroupPlanner) -> Callable[[Any], bool]:
        may_match = build(planner)
        return lambda one: one.content != DataFileContent.DATA or may_match(one)

    return built


def with_deletes(table: "EngineTable") -> list[Any] | None:
    """The data files, as tasks of PyIceberg, some of whose rows are deleted by other files; `None` if some are deleted
    by value, whose rows PyIceberg cannot find.
    """
    snapshot = table.current_snapshot()
    manifests = () if snapshot is None else snapshot.manifests(table.io)
    if all(one.content is ManifestContent.DATA for one in manifests):
        return []
    try:
        return [one for one in table.scan().plan_files() if one.delete_files]
    except ValueError:  # whole files it can still remove
        return None


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
