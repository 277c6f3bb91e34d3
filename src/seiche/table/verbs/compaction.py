"""The verbs that put rows into other fragments without changing them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seiche.table.change import Result
from seiche.table.verbs.base import Verbs
from seiche.table.verbs.rewrite_plan import RewritePlan

if TYPE_CHECKING:
    from seiche.table.data.index.remap import IndexMode
    from seiche.table.data.rewrite.compact_plan import Mode
    from seiche.table.data.rewrite.reorder_plan import SortKey
    from seiche.table.data.rewrite.tasks import Progress

__all__ = ["CompactionVerbs"]


class CompactionVerbs(Verbs):
    """`compact` and `reorder`, each at once or as tasks that other processes execute.

    Both reserve ids with one version and put the new fragments in place with the next. Rows, their ids and their
    versions stay what they are; deleted rows are left behind. Fragments that others change meanwhile are left out, and
    done again.

    What becomes of indices is said by `index` and reported in `notes["indices"]`: `"remap"` writes them anew for the
    new places of the rows, `"reuse"` leaves their files and adds a map of where rows went, `"drop"` lets moved rows be
    scanned until `optimize_indices`. Answers are right either way. Where the one asked for cannot be done, another is;
    in a transaction of a lake that changes rows of the table after it, `"reuse"` is as `"drop"`.
    """

    def compact(
        self,
        *,
        target_rows_per_fragment: int = 1 << 20,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool = True,
        materialize_deletions_threshold: float = 0.1,
        batch_size: int | None = None,
        compaction_mode: "Mode" = "reencode",
        index: "IndexMode" = "remap",
        parallel: int | None = None,
        progress: "Progress | None" = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Put small neighbouring fragments together, and write those anew of which much is deleted.

        `progress` is called with the number of tasks that are done and that of all, `parallel` of which run at a time.
        """
        plan = self.compaction(
            target_rows_per_fragment=target_rows_per_fragment,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions=materialize_deletions,
            materialize_deletions_threshold=materialize_deletions_threshold,
            batch_size=batch_size,
            compaction_mode=compaction_mode,
            index=index,
        )
        return plan.run(parallel=parallel, progress=progress, attempts=attempts, timeout=timeout)

    def reorder(
        self,
        by: "SortKey | Sequence[SortKey]",
        *,
        across: bool = True,
        target_rows_per_fragment: int = 1 << 20,
        max_bytes_per_file: int | None = None,
        index: "IndexMode" = "remap",
        parallel: int | None = None,
        progress: "Progress | None" = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Sort rows by columns, such as `"day"` or `[("day", "descending"), "id"]`: all of them, or those of each
        fragment for itself if not `across`. Nulls come last; what is in order already is nothing to do.

        Only indices that know rows by stable ids can follow rows into another order.
        """
        plan = self.reordering(
            by,
            across=across,
            target_rows_per_fragment=target_rows_per_fragment,
            max_bytes_per_file=max_bytes_per_file,
            index=index,
        )
        return plan.run(parallel=parallel, progress=progress, attempts=attempts, timeout=timeout)

    def compaction(
        self,
        *,
        target_rows_per_fragment: int = 1 << 20,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool = True,
        materialize_deletions_threshold: float = 0.1,
        batch_size: int | None = None,
        compaction_mode: "Mode" = "reencode",
        index: "IndexMode" = "remap",
    ) -> RewritePlan:
        """A compaction step by step: `plan()` gives tasks, `execute(task)` does one, `commit(results)` brings them in.

        Another process executes tasks with the same object, made of its own handle on the table.
        """
        from seiche.table.data.rewrite.compact_plan import Options

        options = Options(
            target_rows_per_fragment,
            max_bytes_per_file,
            materialize_deletions,
            materialize_deletions_threshold,
            batch_size,
            compaction_mode,
        )
        return RewritePlan(self, "compact", options, None, index)

    def reordering(
        self,
        by: "SortKey | Sequence[SortKey]",
        *,
        across: bool = True,
        target_rows_per_fragment: int = 1 << 20,
        max_bytes_per_file: int | None = None,
        index: "IndexMode" = "remap",
    ) -> RewritePlan:
        """A reordering step by step, as `compaction` is a compaction."""
        from seiche.table.data.rewrite.compact_plan import Options
        from seiche.table.data.rewrite.reorder_plan import Order

        options = Options(target_rows_per_fragment=target_rows_per_fragment, max_bytes_per_file=max_bytes_per_file)
        return RewritePlan(self, "reorder", options, Order.by(by), index, across=across)
