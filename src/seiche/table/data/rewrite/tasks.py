"""Rewriting fragments, as work that can be done anywhere: what is to be rewritten and how, and what became of it."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from seiche.core.runtime import Runtime
from seiche.core.threads import handed_out
from seiche.errors import Corrupt
from seiche.store.base import Store
from seiche.table.data.index.reach import Reach
from seiche.table.data.portion import Portion
from seiche.table.data.rewrite.compact_plan import Options, groups
from seiche.table.data.rewrite.reorder_plan import Order
from seiche.table.format.deletions import is_counted
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.operations.files import live_fields
from seiche.table.snapshot import Snapshot

__all__ = ["Progress", "RewriteResult", "RewriteTask", "execute", "execute_all", "plan"]

# Told how many tasks are done, and how many there are.
Progress: TypeAlias = Callable[[int, int], object]

# Tasks that run at the same time; each uses several threads of native code itself.
_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Fragments to be put into new ones: as they are, or sorted. Can be pickled and executed by any process."""

    portion: Portion
    options: Options
    order: Order | None = None

    @property
    def rows(self) -> int:
        """How many rows are to be read."""
        return self.portion.rows

    def __repr__(self) -> str:
        return f"<{'compact' if self.order is None else 'reorder'} {self.portion!r}>"


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """Fragments, and the new ones that hold the same rows; these are on disk and belong to no version yet.

    Can be pickled.
    """

    portion: Portion
    # The new fragments without ids; `None` if there was nothing to improve.
    encoded: tuple[bytes, ...] | None
    # Whether the rows are in the same order as before.
    in_order: bool

    @property
    def new(self) -> tuple[DataFragment, ...]:
        return tuple(map(DataFragment.FromString, self.encoded or ()))

    @property
    def changed(self) -> bool:
        """Whether there is anything to commit."""
        return self.encoded is not None

    @property
    def rows(self) -> int:
        return sum(one.physical_rows for one in self.new)

    def holds_in(self, manifest: Manifest) -> bool:
        """Whether the new fragments hold the rows that a version has in the old ones, and their values."""
        return self.portion.is_in(manifest) and self._has_columns_of(manifest.header.fields)

    def _has_columns_of(self, now: Sequence[Field]) -> bool:
        """Whether what was read and written are the columns that a version has. Fragments do not tell: a restore brings
        back a column that had been dropped, whose values stayed in the old files and are not in the new ones; and an id
        that no file had may stand for another column by then.
        """
        fields = self.portion.manifest.header.fields
        then = {one.id: (one.logical_type, one.parent_id) for one in fields}
        had = {one for fragment in self.portion.fragments for one in live_fields(fragment)}
        has = {one for fragment in self.new for one in live_fields(fragment)}
        return all(then.get(one.id) == (one.logical_type, one.parent_id) for one in now if one.id in had | has)

    def __repr__(self) -> str:
        return f"<{len(self.encoded or ())} new for {self.portion!r}>"


def plan(snapshot: Snapshot, options: Options, order: Order | None, *, across: bool = False) -> list[RewriteTask]:
    """The tasks of a compaction, or with an `order` of a reordering: within each fragment, or `across` all."""
    if order is None:
        found: Sequence[Sequence[DataFragment]] = groups(snapshot.manifest, Reach.of(snapshot), options)
    else:
        order.check(snapshot.schema)
        fragments = snapshot.manifest.fragments.decoded()
        found = [fragments] if across and fragments else [(one,) for one in fragments]
    return [RewriteTask(Portion.of(snapshot, group), options, order) for group in found]


def execute(task: RewriteTask, store: Store, runtime: Runtime) -> RewriteResult:
    """Write the new fragments; durable when this returns, and seen by nobody."""
    if task.order is None:
        from seiche.table.data.rewrite.compact import compacted

        made: tuple[DataFragment, ...] | None = compacted(task.portion, task.options, store, runtime)
    else:
        from seiche.table.data.rewrite.reorder import reordered

        made = reordered(task.portion, task.order, task.options, store, runtime)
    if made is not None:
        _check_rows(task.portion, made)
    encoded = None if made is None else tuple(one.SerializeToString() for one in made)
    return RewriteResult(task.portion, encoded, in_order=task.order is None)


def _check_rows(portion: Portion, made: Sequence[DataFragment]) -> None:
    """`Corrupt` if other rows were read than the manifest says that there are: rows that are deleted would be back."""
    found = sum(one.physical_rows for one in made)
    if found != portion.rows and all(map(is_counted, portion.fragments)):
        raise Corrupt(
            f"{portion!r} have {portion.rows} rows by the manifest, and {found} were read",
            remedy="A deletion file or a data file of them is damaged. Put it back from a copy, or go back to a version"
            " that does not need it.",
            fragments=[one.id for one in portion.fragments],
        )


def execute_all(
    tasks: Sequence[RewriteTask],
    store: Store,
    runtime: Runtime,
    parallel: int | None = None,
    progress: Progress | None = None,
) -> list[RewriteResult]:
    """Execute tasks, some at a time; the results are in the order of the tasks."""
    if len(tasks) < 2 or parallel == 1:
        # A thread of its own would only have to be waited for.
        results = []
        for task in tasks:
            results.append(execute(task, store, runtime))
            if progress is not None:
                progress(len(results), len(tasks))
        return results
    with ThreadPoolExecutor(min(parallel or _PARALLEL, len(tasks)), "seiche-rewrite") as pool:
        running = handed_out(pool, partial(execute, store=store, runtime=runtime), tasks)
        for done, future in enumerate(as_completed(running), 1):
            future.result()
            if progress is not None:
                progress(done, len(tasks))
    return [future.result() for future in running]
