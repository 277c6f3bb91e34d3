"""The verbs about indices."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seiche.core.given import made, number, several
from seiche.errors import InvalidInput
from seiche.table.change import Result
from seiche.table.snapshot import Snapshot
from seiche.table.verbs.base import Verbs

if TYPE_CHECKING:
    from seiche.table.data.index.build import IndexTask, Segment
    from seiche.table.data.index.plan import IndexPlan

__all__ = ["IndexBuild", "IndexVerbs"]


class IndexVerbs(Verbs):
    """`create_index`, `drop_index` and `optimize_indices`.

    Index files are written natively and come into the table by one commit. An index speaks for the rows that it was
    built over; others are scanned, so answers are complete at every moment.
    """

    def create_index(
        self,
        column: str,
        index_type: str = "BTREE",
        *,
        name: str | None = None,
        replace: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> Result:
        """Build an index on a column, named `column_idx` unless `name` says otherwise.

        Kinds for single values: `BTREE`, `BITMAP`, `ZONEMAP`, `BLOOMFILTER`, `NGRAM`; for lists `LABEL_LIST`; for full
        text `INVERTED`; for vectors `IVF_FLAT`, `IVF_PQ`, `IVF_SQ`, `IVF_RQ` and `IVF_HNSW_FLAT`, `_PQ`, `_SQ`. The
        `options` are those that pylance takes for the kind, such as `num_partitions` and `metric`. A name that is taken
        is `AlreadyExists` unless `replace`; a column that does not exist or does not suit is `InvalidInput`.
        """
        from seiche.table.data.index.creating import Indexing
        from seiche.table.data.index.plan import IndexPlan

        plan = IndexPlan(column, index_type, name, options, replace=replace)
        return self._run("create_index", Indexing(plan), attempts=attempts, timeout=timeout)

    def index_build(
        self,
        column: str,
        index_type: str = "BTREE",
        *,
        name: str | None = None,
        replace: bool = False,
        **options: Any,
    ) -> "IndexBuild":
        """An index that several workers build: `plan(workers)` gives tasks, `execute(task)` builds a segment, and
        `commit(segments)` makes one index of them. Arguments as for `create_index`.
        """
        from seiche.table.data.index.plan import IndexPlan

        return IndexBuild(self, IndexPlan(column, index_type, name, options, replace=replace))

    def drop_index(self, name: str, *, attempts: int | None = None, timeout: float | None = None) -> Result:
        """Remove an index; `NotFound` if there is none of this name."""
        from seiche.table.data.index.dropping import DroppingIndex

        return self._run("drop_index", DroppingIndex(name), attempts=attempts, timeout=timeout)

    def optimize_indices(
        self,
        names: str | Sequence[str] | None = None,
        *,
        merge: int | None = None,
        retrain: bool = False,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Let indices, all or those named, know the rows that they do not speak for yet.

        New rows are put together with the `merge` newest segments (1 if not given), or with 0 into a segment of their
        own. `retrain` builds each index anew from all rows.
        """
        from seiche.table.data.index.optimizing import Optimizing

        chosen = [names] if isinstance(names, str) else names
        prepare = Optimizing(chosen, merge, retrain=retrain)
        return self._run("optimize_indices", prepare, attempts=attempts, timeout=timeout)


class IndexBuild:
    """An index in steps that need not happen in one process: tasks and segments are values that can be pickled."""

    def __init__(self, table: Verbs, plan: "IndexPlan") -> None:
        """Use `table.index_build()`."""
        self._table = table
        self._plan = plan

    def plan(self, workers: int) -> "list[IndexTask]":
        """At most so many tasks, each with about the same number of rows."""
        remedy = "Give as many as shall build segments at the same time, from 1 on."
        if number(workers, "the number of workers", remedy) < 1:
            raise InvalidInput(f"at least one worker is needed, not {workers!r}", remedy=remedy)
        snapshot = self._snapshot()
        self._plan.check(snapshot.manifest)
        fragments = snapshot.manifest.fragments.decoded()
        shares: list[list[Any]] = [[] for _ in range(max(1, min(workers, len(fragments))))]
        for fragment in sorted(fragments, key=lambda one: -one.physical_rows):
            min(shares, key=lambda share: sum(one.physical_rows for one in share)).append(fragment)
        return [self._plan.task(snapshot, sorted(share, key=lambda one: one.id)) for share in shares]

    def execute(self, task: "IndexTask") -> "Segment":
        """Build one segment, in this process; the table does not change."""
        from seiche.table.data.index.build import IndexTask, build_segment

        made(task, IndexTask, "a task", "Give one of those that `plan()` returned.")
        snapshot = self._snapshot()
        return build_segment(task, snapshot.store, snapshot.runtime)

    def commit(
        self, segments: "Iterable[Segment]", *, attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Make one index of the segments. Rows that were added or moved since the plan are scanned, not lost.

        Of a task that was executed more than once, one segment is used.
        """
        from seiche.table.data.index.build import Segment
        from seiche.table.data.index.creating import Indexing

        remedy = "Give what `execute` returned for each task, in a list."
        given = [made(one, Segment, "a segment", remedy) for one in several(segments, "segments", remedy)]
        prepare = Indexing(self._plan, given)
        return self._table._run("create_index", prepare, attempts=attempts, timeout=timeout)

    def _snapshot(self) -> Snapshot:
        seen: list[Snapshot] = []
        self._table._run("create_index", seen.append)
        return seen[0]
