"""A run of a pipeline: everything it makes is published in one commit of the lake, or nothing is."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import seiche
from seiche.core.given import wrong
from seiche.core.retry import Patience
from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import CommitUnknown, InvalidInput, NotFound, PermissionDenied, RetryableConflict, SeicheError
from seiche.spark.pipeline.attempt import Attempt
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.frames import short
from seiche.spark.pipeline.inputs import check_inputs, check_tag, there
from seiche.spark.pipeline.plan import Plan, plan
from seiche.spark.pipeline.progress import Progress, unheard
from seiche.spark.pipeline.records import CheckRecord, RunRecord, is_published, record, record_alone
from seiche.spark.pipeline.rejected import keep_rejected
from seiche.store.gate import Passage
from seiche.store.local import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seiche import Lake
    from seiche.spark.transaction import SparkTransaction

__all__ = ["Run", "open_or_create", "run"]

Outcome: TypeAlias = Literal["published", "published before", "rejected"]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a run. `version` is the lake's version that it published, if it did and that is still known;
    `kept` the tag under which what was rejected can be looked at.
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


def run(
    definition: Definition,
    spark: "SparkSession | Callable[[], SparkSession] | None" = None,
    *,
    lake: "Lake | None" = None,
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
    again on what they made. A `run_id` that was published before is not run again. A run that publishes nothing is
    kept in `seiche.runs` too, with why, by a commit that changes nothing else.

    `select` takes some of the steps (`shop.orders+` with those that depend on it); `full_refresh` reads sources from
    the beginning and replaces tables that are otherwise added to; `keep` is a tag for what was rejected. `spark` is a
    session, or what makes one when everything is checked that can be checked without; `lake` an open lake, with options
    of its own, to take instead of opening the one that the pipeline names.
    """
    _check_id(run_id)
    planned = plan(definition, select)
    found = there(definition.lake) if lake is None else lake
    check_inputs(planned, found)
    if keep:
        check_tag(found, keep)
    lake = open_or_create(definition.lake) if lake is None else lake
    _check_access(lake)
    identity = str(runtime.uuid()) if run_id is None else run_id
    before = _published_before(lake, definition, identity)
    if before is not None:
        return before
    job = _Job(planned, lake, _session(definition, spark), identity, keep, full_refresh, progress, runtime)
    started, began = runtime.clock.now(), runtime.clock.monotonic()
    try:
        done = job.publish(Patience(attempts=attempts, timeout=inf))
    except CommitUnknown:
        raise  # it may have been published, and is recorded then
    except Exception as error:
        seconds = round(runtime.clock.monotonic() - began, 3)
        why = error.message if isinstance(error, SeicheError) else short(error)
        failed = RunRecord(identity, definition.name, "failed", started, seconds, lake.version, "", message=why)
        record_alone(lake, failed)
        raise
    if done.record is not None and not done.published:
        record_alone(lake, done.record)
    return done


@dataclass(frozen=True, slots=True)
class _Job:
    """A run that has a lake, a plan and a Spark."""

    plan: Plan
    lake: "Lake"
    spark: "SparkSession"
    run_id: str
    keep: str
    anew: bool
    progress: Progress
    runtime: Runtime

    def publish(self, patience: Patience) -> Run:
        """Build and commit, again on the newest version after each conflict that allows it."""
        with Passage(self.lake.store, self.runtime) as passage:
            return self._publish(patience, passage)

    def _publish(self, patience: Patience, passage: Passage) -> Run:
        name = self.plan.definition.name
        conflict: RetryableConflict | None = None
        for number in patience.tries(self.runtime):
            passage.before(number)
            tx = self._begin()
            # Once more, now that a version is held: a clean-up that forgets the id from here on ends the transaction.
            before = _published_before(self.lake, self.plan.definition, self.run_id)
            if before is not None:
                tx.rollback()
                return before
            made = Attempt(self.plan, self.lake, tx, self.run_id, self.runtime, self.progress, self.anew).build()
            if made.status == "rejected":
                kept = keep_rejected(self.lake, tx, made, self.keep) if self.keep else ""
                tx.rollback()
                return Run("rejected", self.run_id, None, made, number, kept)
            record(tx, made)
            try:
                version = tx.commit()
            except RetryableConflict as error:
                self.progress(name, "others were faster: again")
                conflict = error
                continue
            return Run("published before" if tx.replayed else "published", self.run_id, version, made, number)
        raise conflict or RetryableConflict(f"{name}: no attempt was made", remedy="Allow at least one.")

    def _begin(self) -> "SparkTransaction":
        definition = self.plan.definition
        begun = self.lake.transaction(
            "serializable",
            key=_key(definition, self.run_id),
            spark=self.spark,
            properties={"pipeline": definition.name, "run": self.run_id},
        )
        return cast("SparkTransaction", begun)


def open_or_create(uri: str) -> "Lake":
    """The lake at `uri`, made if there is none: the first run of a pipeline begins with nothing."""
    try:
        return seiche.open(uri)
    except NotFound:
        try:
            return seiche.create(uri)
        except seiche.AlreadyExists:
            return seiche.open(uri)
        except SeicheError as error:
            said = f"there is no lake at {uri}, and none can be made there: {error.message}"
            raise type(error)(said, remedy=error.remedy, **error.details) from error


def _session(definition: Definition, spark: "SparkSession | Callable[[], SparkSession] | None") -> "SparkSession":
    from seiche.spark.settings import session

    if spark is None:
        return session(f"seiche {definition.name}")
    return spark() if callable(spark) else spark


def _check_id(run_id: str | None) -> None:
    """An empty id is one that somebody forgot to fill in: as a new one each time it would publish a run twice."""
    if run_id is None:
        return
    if not isinstance(run_id, str):
        raise wrong("a run id", run_id, "Give a text, such as the scheduler's own id for the run.")
    if not run_id.strip():
        raise InvalidInput("the run id is empty", remedy="Give the scheduler's own id for the run, or none at all.")


def _key(definition: Definition, run_id: str) -> str:
    return f"pipeline {definition.name} run {run_id}"


def _published_before(lake: "Lake", definition: Definition, run_id: str) -> Run | None:
    identity = lake.transaction(key=_key(definition, run_id)).id
    status = lake.status(identity)
    if status.outcome != "committed" and not is_published(lake, definition.name, run_id):
        return None
    return Run("published before", run_id, status.version)


def _check_access(lake: "Lake") -> None:
    """Raise `PermissionDenied` before Spark starts if the lake is on this machine and this user may not write to it."""
    if not isinstance(lake.store, LocalStore):
        return
    for folder in filter(os.path.isdir, map(lake.store.native_uri, ("", "tables"))):
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionDenied(
                f"{folder}: this user may not write there, and a run publishes there",
                remedy="Give the user the right to, or name another lake with --lake.",
                path=folder,
            )
