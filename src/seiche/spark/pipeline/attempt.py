"""One try at a run: everything is built and checked inside one transaction of the lake."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import seiche
from seiche.core.runtime import Runtime
from seiche.errors import NotFound
from seiche.spark.pipeline.building import Builder
from seiche.spark.pipeline.checking import Checker, columns_named
from seiche.spark.pipeline.definition import Check
from seiche.spark.pipeline.frames import Frames
from seiche.spark.pipeline.plan import Plan
from seiche.spark.pipeline.progress import Progress
from seiche.spark.pipeline.ready import Task, run_ready
from seiche.spark.pipeline.records import CheckRecord, Offsets, RunRecord, StepRecord
from seiche.spark.pipeline.sources import read_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from seiche import Lake
    from seiche.lake.handles import LakeTable, TransactionTable
    from seiche.spark.transaction import SparkTransaction

__all__ = ["Attempt"]

# Spark's own scheduler divides the machine; more steps and checks at once would only compete for it.
SIDE_BY_SIDE: Final = 4


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a run, on the version of the lake that its transaction began from."""

    plan: Plan
    lake: "Lake"
    tx: "SparkTransaction"
    run_id: str
    runtime: Runtime
    progress: Progress
    anew: bool

    def build(self) -> RunRecord:
        """Build and check everything inside the transaction, and record it there."""
        definition = self.plan.definition
        started, began = self.runtime.clock.now(), self.runtime.clock.monotonic()
        frames = Frames(self.tx, self._sources())
        done = run_ready(self._tasks(frames), SIDE_BY_SIDE)
        steps = tuple(one for one in done if isinstance(one, StepRecord))
        checks = tuple(one for one in done if isinstance(one, CheckRecord))
        failed = [check.name for check in checks if not check.passed]
        return RunRecord(
            run_id=self.run_id,
            pipeline=definition.name,
            status="rejected" if failed else "published",
            started_at=started,
            seconds=round(self.runtime.clock.monotonic() - began, 3),
            read_version=self.tx.base,
            transaction_id="" if failed else self.tx.id,
            steps=steps,
            checks=checks,
            read=self._read(steps),
            message=f"failed: {', '.join(failed)}" if failed else "",
        )

    def _tasks(self, frames: Frames) -> "Iterator[Task[StepRecord | CheckRecord]]":
        """Steps when their inputs are made, and checks when the tables are that they look at."""
        builder = Builder(self.tx, frames, self.plan, self.runtime, self.progress, self.anew)
        for step in self.plan.steps:
            yield Task(step.table, self.plan.reads[step.table] - {step.table}, partial(builder.step, step))
        checker = Checker(frames, partial(self._before, frames))
        for check in self.plan.definition.checks:
            name = f"check {check.name}"
            yield Task(name, self.plan.reads[name], partial(self._check, checker, check))

    def _sources(self) -> "dict[str, DataFrame]":
        definition = self.plan.definition
        needed = {name for key in self._wanted() for name in self.plan.reads[key]}
        # Checks look at what is new also if the steps do not run that it is for.
        left = {
            name for step in definition.steps if step not in self.plan.steps for name in self.plan.reads[step.table]
        }
        noted, looking = (Offsets(self.tx, definition.name, self.anew, only) for only in (False, True))
        return {
            source.name: read_source(source, self.tx, looking if source.name in left else noted, definition.folder)
            for source in definition.sources
            if source.name in needed
        }

    def _wanted(self) -> list[str]:
        checks = [f"check {check.name}" for check in self.plan.definition.checks]
        return [*(step.table for step in self.plan.steps), *checks]

    def _check(self, checker: Checker, check: Check) -> CheckRecord:
        self.progress(check.name, "checking")
        found = checker.evaluate(check)
        self.progress(check.name, "passed" if found.passed else f"failed: {found.found}, not {found.expected}")
        return found

    def _before(self, frames: Frames, check: Check) -> Frames | None:
        """How to ask what the lake said before this run; `None` if one of the tables was not there, or had a column not
        yet that the check names.
        """
        base = seiche.open(self.lake.store, version=self.tx.base)
        tables = [name for name in self.plan.reads[f"check {check.name}"] if "." in name]
        named = columns_named(check.sql)
        try:
            if any(named & (_columns(self.tx.table(name)) - _columns(base.table(name))) for name in tables):
                return None
        except NotFound:
            return None
        old = cast("SparkTransaction", base.transaction(spark=self.tx.session))
        return Frames(old, frames.sources)

    def _read(self, steps: Sequence[StepRecord]) -> dict[str, int]:
        """The versions of the lake's tables that went into this run, for those that it did not make itself."""
        made = {step.table for step in steps}
        names = {name for key in self._wanted() for name in self.plan.reads[key] if "." in name} - made
        names |= {source.table for source in self.plan.definition.sources if source.table}
        return {name: self.tx.edit(self.tx.table(name).id).row.table_version for name in sorted(names)}


def _columns(table: "LakeTable | TransactionTable") -> set[str]:
    """The names of its columns as queries know them, which do not tell capital letters from small ones."""
    return {name.lower() for name in table.schema.names}
