"""A run of a pipeline: everything it makes is published in one commit of the lake, or nothing is."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import seiche
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import NotFound, RetryableConflict
from seiche.spark.pipeline.building import SIDE_BY_SIDE, Builder
from seiche.spark.pipeline.checking import Checker
from seiche.spark.pipeline.definition import Check, Definition
from seiche.spark.pipeline.frames import Frames
from seiche.spark.pipeline.plan import Plan, plan
from seiche.spark.pipeline.progress import Progress, unheard
from seiche.spark.pipeline.records import CheckRecord, Offsets, RunRecord, Status, StepRecord, record
from seiche.spark.pipeline.rejected import keep_rejected
from seiche.spark.pipeline.sources import check_sources, read_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from seiche import Lake
    from seiche.spark.pipeline.checking import Query
    from seiche.spark.transaction import SparkTransaction

__all__ = ["Run", "open_or_create", "run"]

Outcome: TypeAlias = Literal["published", "published before", "rejected"]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a run. `version` is the lake's version that it published, if it did; `kept` the tag under which
    what was rejected can be looked at.
    """

    outcome: Outcome
    run_id: str
    version: int | None
    record: RunRecord | None = None
    attempts: int = 1
    kept: str = ""

    @property
    def published(self) -> bool:
        return self.outcome != "rejected"

    @property
    def failed_checks(self) -> tuple[CheckRecord, ...]:
        return tuple(check for check in self.record.checks if not check.passed) if self.record else ()


@dataclass(frozen=True, slots=True)
class _Attempt:
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
        steps = Builder(self.tx, frames, self.plan, self.runtime, self.progress, self.anew).build()
        checker = Checker(frames.query, partial(self._before, frames))
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            checks = tuple(pool.map(partial(self._check, checker), definition.checks))
        status: Status = "published" if all(check.passed for check in checks) else "rejected"
        return RunRecord(
            run_id=self.run_id,
            pipeline=definition.name,
            status=status,
            started_at=started,
            seconds=round(self.runtime.clock.monotonic() - began, 3),
            read_version=self.tx.base,
            transaction_id=self.tx.id,
            steps=steps,
            checks=checks,
            read=self._read(steps),
        )

    def _sources(self) -> "dict[str, DataFrame]":
        definition = self.plan.definition
        needed = {name for key in self._wanted() for name in self.plan.reads[key]}
        offsets = Offsets(self.tx, definition.name)
        return {
            source.name: read_source(source, self.tx, offsets, definition.folder, anew=self.anew)
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

    def _before(self, frames: Frames, check: Check) -> "Query | None":
        """How to ask what the lake said before this run; `None` if one of the tables was not there."""
        base = seiche.open(self.lake.store, version=self.tx.base)
        tables = [name for name in self.plan.reads[f"check {check.name}"] if "." in name]
        try:
            for name in tables:
                base.table(name)
        except NotFound:
            return None
        old = cast("SparkTransaction", base.transaction(spark=self.tx.session))
        return Frames(old, frames.sources).query

    def _read(self, steps: Sequence[StepRecord]) -> dict[str, int]:
        """The versions of the lake's tables that went into this run, for those that it did not make itself."""
        made = {step.table for step in steps}
        names = {name for key in self._wanted() for name in self.plan.reads[key] if "." in name} - made
        names |= {source.table for source in self.plan.definition.sources if source.table}
        return {name: self.tx.edit(self.tx.table(name).id).row.table_version for name in sorted(names)}


def run(
    definition: Definition,
    spark: "SparkSession | None" = None,
    *,
    run_id: str | None = None,
    select: Sequence[str] = (),
    full_refresh: bool = False,
    keep: str = "",
    attempts: int = 10,
    progress: Progress = unheard,
    runtime: Runtime = SYSTEM,
) -> Run:
    """Build the tables of a pipeline, check them together, and publish them at once.

    Whatever fails, nothing is published: a step raises its error, and a failed check gives a `Run` that is `rejected`
    and names the rows. The run is serializable: if others changed a table that it read or overwrote, it is built
    again on what they made. A `run_id` that was published before is not run again.

    `select` takes some of the steps (`shop.orders+` with those that depend on it); `full_refresh` reads sources from
    the beginning and replaces tables that are otherwise added to; `keep` is a tag for what was rejected.
    """
    planned = plan(definition, select)
    check_sources(definition)
    lake = open_or_create(definition.lake)
    _check_tables(planned, lake)
    identity = run_id or str(runtime.uuid())
    before = _published_before(lake, definition, identity)
    if before is not None:
        return before
    if spark is None:
        from seiche.spark.settings import session

        spark = session(f"seiche {definition.name}")
    patience = Patience(attempts=attempts, timeout=inf)
    conflict: RetryableConflict | None = None
    for number in patience.tries(runtime):
        tx = _begin(lake, definition, identity, spark)
        attempt = _Attempt(planned, lake, tx, identity, runtime, progress, full_refresh)
        made = attempt.build()
        if made.status == "rejected":
            kept = keep_rejected(lake, tx, made, keep) if keep else ""
            tx.rollback()
            return Run("rejected", identity, None, made, number, kept)
        record(tx, made)
        try:
            version = tx.commit()
        except RetryableConflict as error:
            progress(definition.name, "others were faster: again")
            conflict = error
            continue
        return Run("published before" if tx.replayed else "published", identity, version, made, number)
    raise conflict or RetryableConflict(f"{definition.name}: no attempt was made", remedy="Allow at least one.")


def open_or_create(uri: str) -> "Lake":
    """The lake at `uri`, made if there is none: the first run of a pipeline begins with nothing."""
    try:
        return seiche.open(uri)
    except NotFound:
        try:
            return seiche.create(uri)
        except seiche.AlreadyExists:
            return seiche.open(uri)


def _begin(lake: "Lake", definition: Definition, run_id: str, spark: "SparkSession") -> "SparkTransaction":
    begun = lake.transaction(
        "serializable",
        key=_key(definition, run_id),
        spark=spark,
        properties={"pipeline": definition.name, "run": run_id},
    )
    return cast("SparkTransaction", begun)


def _key(definition: Definition, run_id: str) -> str:
    return f"pipeline {definition.name} run {run_id}"


def _published_before(lake: "Lake", definition: Definition, run_id: str) -> Run | None:
    identity = lake.transaction(key=_key(definition, run_id)).id
    status = lake.status(identity)
    return Run("published before", run_id, status.version) if status.outcome == "committed" else None


def _check_tables(planned: Plan, lake: "Lake") -> None:
    """Raise `NotFound` for a table that nobody makes, before Spark starts."""
    for name in sorted(planned.tables_needed):
        try:
            lake.table(name)
        except NotFound as error:
            raise NotFound(
                f"{planned.definition.name}: there is no table {name} in {lake.uri}, and no step makes it",
                remedy="Create it, add a step for it, or correct the name.",
                table=name,
            ) from error
