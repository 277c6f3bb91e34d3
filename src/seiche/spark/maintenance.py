"""Care for tables as jobs of Spark: planned on the driver, done by workers, committed once."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from seiche.core.runtime import SYSTEM
from seiche.errors import SPENT, RetryableConflict
from seiche.lake.handles import LakeTable, TransactionTable
from seiche.spark.address import Address
from seiche.spark.copying import Carriers
from seiche.spark.jobs import Progress, executor, parallelism, run_each
from seiche.store.base import Store
from seiche.table.change import Result
from seiche.table.data.index.build import IndexTask, Segment, build_segment
from seiche.table.data.rewrite.tasks import RewriteResult, RewriteTask, execute
from seiche.table.snapshot import Snapshot
from seiche.table.table import Table
from seiche.table.verbs.rewrite_plan import together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["clone", "compact", "create_index"]

# What others change while it is being rewritten is planned and done again, so often.
_ROUNDS = 5


def compact(
    session: "SparkSession",
    table: LakeTable | TransactionTable,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Compact a table with a task of Spark for each group of fragments; `options` as for `table.compact`."""
    plan = table.compaction(**options)
    total: Result | None = None
    executors: set[str] = set()
    for following in reversed(range(_ROUNDS)):
        tasks = plan.plan()
        address = Address.of(_snapshot(table).store)
        done = run_each(session, partial(_rewrite, address), tasks, progress)
        executors.update(one.executor for one in done)
        try:
            result = plan.commit([one.result for one in done])
        except RetryableConflict as error:
            if error.details.get("reason") != SPENT or not (following or total):
                raise
            continue  # others were at all of it
        total = result if total is None else together(total, result)
        if not result.notes.get("left_out"):
            break
    assert total is not None  # noqa: S101 - the last round makes one, or raises
    return replace(total, notes={**total.notes, "executors": len(executors)}) if total.changed else total


def create_index(
    session: "SparkSession",
    table: LakeTable | TransactionTable,
    column: str,
    index_type: str = "BTREE",
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Build an index with a task of Spark for each of its segments; `options` as for `table.create_index`."""
    build = table.index_build(column, index_type, **options)
    tasks = build.plan(workers or parallelism(session))
    address = Address.of(_snapshot(table).store)
    return build.commit(run_each(session, partial(_segment, address), tasks, progress))


def clone(
    session: "SparkSession",
    table: Table,
    target: str | Store,
    *,
    version: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Table:
    """Make a deep clone of a table: workers copy its files, then the driver writes the manifest that makes it one.

    `options` as for `Table.clone`. If it fails or dies there is no table at the target, and doing it again begins anew.
    """
    carriers = Carriers(session, progress)
    return table.clone(target, version=version, carry=carriers.clone, **options)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    result: RewriteResult
    executor: str


def _rewrite(address: Address, task: RewriteTask) -> _Rewritten:
    return _Rewritten(execute(task, address.open(), SYSTEM), executor())


def _segment(address: Address, task: IndexTask) -> Segment:
    return build_segment(task, address.open(), SYSTEM)


def _snapshot(table: LakeTable | TransactionTable) -> Snapshot:
    """The table as it is now."""
    seen: list[Snapshot] = []
    table._run("look", seen.append)
    return seen[0]
