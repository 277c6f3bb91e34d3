"""A compaction or reordering in steps."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seiche.core.given import a_function, made, number, several
from seiche.errors import InvalidInput
from seiche.table.change import Result
from seiche.table.snapshot import Snapshot
from seiche.table.verbs.base import Verbs

if TYPE_CHECKING:
    from seiche.table.data.index.remap import IndexMode
    from seiche.table.data.rewrite.compact_plan import Options
    from seiche.table.data.rewrite.reorder_plan import Order
    from seiche.table.data.rewrite.tasks import Progress, RewriteResult, RewriteTask

__all__ = ["RewritePlan", "together"]

_ROUNDS = 10


class RewritePlan:
    """The steps need not happen in one process: tasks and results are values that can be pickled.

    Nothing changes for anybody before `commit`.
    """

    def __init__(
        self,
        table: Verbs,
        verb: str,
        options: "Options",
        order: "Order | None",
        index: "IndexMode",
        *,
        across: bool = False,
    ) -> None:
        """Use `table.compaction()` or `table.reordering()`."""
        if index not in ("remap", "reuse", "drop"):
            raise InvalidInput(f"indices cannot be treated with {index!r}", remedy='Use "remap", "reuse" or "drop".')
        self._table = table
        self._verb = verb
        self._options = options
        self._order = order
        self._index = index
        self._across = across

    def plan(self) -> "list[RewriteTask]":
        """What there is to do in the newest version; empty if it is as it should be."""
        return self._tasks(self._snapshot())

    def execute(self, task: "RewriteTask") -> "RewriteResult":
        """Write the new fragments of one task, in this process."""
        from seiche.table.data.rewrite.tasks import RewriteTask, execute

        made(task, RewriteTask, "a task", "Give one of those that `plan()` returned.")
        snapshot = self._snapshot()
        return execute(task, snapshot.store, snapshot.runtime)

    def commit(
        self, results: "Iterable[RewriteResult]", *, attempts: int | None = None, timeout: float | None = None
    ) -> Result:
        """Put the new fragments in place of the old ones.

        Those whose old fragments were changed meanwhile are left out: `notes["left_out"]` counts them, and a new plan
        finds them again. If that are all, it is a `RetryableConflict`. Of a task that was executed more than once, one
        result is used.
        """
        from seiche.table.data.rewrite.rewriting import Rewriting
        from seiche.table.data.rewrite.tasks import RewriteResult

        remedy = "Give what `execute` returned for each task, in a list."
        given = [made(one, RewriteResult, "a result", remedy) for one in several(results, "results", remedy)]
        rewriting = Rewriting(None, self._index, given)
        return self._table._run(self._verb, rewriting, attempts=attempts, timeout=timeout)

    def run(
        self,
        *,
        parallel: int | None = None,
        progress: "Progress | None" = None,
        attempts: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Plan, execute and commit. What had to be left out is planned and done again, a limited number of times."""
        from seiche.table.data.rewrite.rewriting import Rewriting
        from seiche.table.data.rewrite.tasks import execute_all

        remedy = "Give how many tasks run at a time, from 1 on, or leave it out."
        if parallel is not None and number(parallel, "parallel", remedy) < 1:
            raise InvalidInput(f"{parallel} tasks cannot run at a time", remedy=remedy, parallel=parallel)
        a_function(progress, "progress", "Give a function of how many tasks are done and of how many there are.")

        def work(snapshot: Snapshot) -> "list[RewriteResult]":
            return execute_all(self._tasks(snapshot), snapshot.store, snapshot.runtime, parallel, progress)

        total: Result | None = None
        for _ in range(_ROUNDS):
            rewriting = Rewriting(work, self._index)
            done = self._table._run(self._verb, rewriting, attempts=attempts, timeout=timeout)
            total = done if total is None else together(total, done)
            if not rewriting.left_out:
                break
        assert total is not None  # noqa: S101 - there is at least one round
        return total

    def _tasks(self, snapshot: Snapshot) -> "list[RewriteTask]":
        from seiche.table.data.rewrite.tasks import plan

        return plan(snapshot, self._options, self._order, across=self._across)

    def _snapshot(self) -> Snapshot:
        """The table as it is now."""
        seen: list[Snapshot] = []
        self._table._run(self._verb, seen.append)
        return seen[0]


def together(one: Result, other: Result) -> Result:
    """What two rounds of a rewrite did."""
    if not other.changed:
        return one
    notes = dict(other.notes)
    for name in ("fragments_removed", "fragments_added"):
        notes[name] = _number(one.notes.get(name)) + _number(other.notes.get(name))
    if "indices" in one.notes or "indices" in other.notes:
        notes["indices"] = {**_mapping(one.notes.get("indices")), **_mapping(other.notes.get("indices"))}
    return Result(
        other.verb,
        other.version,
        rows=one.rows + other.rows,
        files=one.files + other.files,
        bytes=one.bytes + other.bytes,
        attempts=one.attempts + other.attempts,
        notes=notes,
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
