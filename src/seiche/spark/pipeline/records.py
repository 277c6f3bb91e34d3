"""What is kept of runs in the lake itself: a row for each run, and how far each source has been read.

Both are tables of the lake, and change in the same commit as the tables that the run makes. So what was published is
recorded, and no source row is read twice or never. A run that was rejected or failed is recorded by a commit of its own
that changes nothing else; if even that cannot be done, it leaves no trace.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from seiche.errors import AlreadyExists, NotFound, SeicheError

if TYPE_CHECKING:
    import pyarrow as pa

    from seiche import Lake
    from seiche.lake.transaction import Transaction

__all__ = [
    "NAMESPACE",
    "RUNS",
    "CheckRecord",
    "Offsets",
    "RunRecord",
    "Status",
    "StepRecord",
    "is_published",
    "record",
    "record_alone",
    "runs",
]

NAMESPACE: Final = "seiche"
RUNS: Final = (NAMESPACE, "runs")
OFFSETS: Final = (NAMESPACE, "offsets")

Status: TypeAlias = Literal["published", "rejected", "failed"]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did."""

    table: str
    mode: str
    reads: tuple[str, ...] = ()
    rows: int = 0
    files: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """What one check found."""

    name: str
    passed: bool
    found: Any = None
    expected: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: what it read, made and found, or in `message` why it did not. `read_version` is that of the lake.

    `transaction_id` is that of what was published, empty if nothing was.
    """

    run_id: str
    pipeline: str
    status: Status
    started_at: datetime
    seconds: float
    read_version: int
    transaction_id: str
    steps: tuple[StepRecord, ...] = ()
    checks: tuple[CheckRecord, ...] = ()
    # For each table that was read: its version.
    read: Mapping[str, int] = field(default_factory=dict)
    message: str = ""

    def as_row(self) -> dict[str, Any]:
        """As it stands in the table."""
        row = {name: getattr(self, name) for name in _PLAIN}
        for name in _AS_JSON:
            value = getattr(self, name)
            plain = [asdict(one) for one in value] if isinstance(value, tuple) else dict(value)
            row[name] = json.dumps(plain, default=str)
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "RunRecord":
        steps = tuple(StepRecord(**{**one, "reads": tuple(one["reads"])}) for one in json.loads(row["steps"]))
        checks = tuple(CheckRecord(**{**one, "rows": tuple(one["rows"])}) for one in json.loads(row["checks"]))
        plain = {name: row[name] for name in _PLAIN}
        return cls(**plain, steps=steps, checks=checks, read=json.loads(row["read"]))


_AS_JSON: Final = ("steps", "checks", "read")
_PLAIN: Final = tuple(name for name in RunRecord.__dataclass_fields__ if name not in _AS_JSON)


def record(tx: "Transaction", run: RunRecord) -> None:
    """Keep a run, as part of the transaction."""
    _ensure(tx, RUNS, _runs_schema())
    tx.append(RUNS, _table([run.as_row()], _runs_schema()))


def record_alone(lake: "Lake", run: RunRecord) -> None:
    """Keep a run that was not published, if that is possible: whatever was in its way may be in the way of this too."""
    with suppress(SeicheError, OSError):
        lake.run(lambda tx: record(tx, run))


def is_published(lake: "Lake", pipeline: str, run_id: str) -> bool:
    """Whether a run is on record as published. The lake forgets the ids of transactions when their versions expire."""
    wanted = {"pipeline": pipeline, "run_id": run_id, "status": "published"}
    try:
        table = lake.table(RUNS)
    except NotFound:
        return False
    found = table.to_arrow(columns=["status"], filter=" AND ".join(f"{one} = {_text(wanted[one])}" for one in wanted))
    return bool(found.num_rows)


def runs(lake: "Lake", pipeline: str | None = None) -> list[RunRecord]:
    """The runs that are kept, the newest first."""
    try:
        rows = lake.table(RUNS).to_arrow().to_pylist()
    except NotFound:
        return []
    found = [RunRecord.from_row(row) for row in rows if pipeline in (None, row["pipeline"])]
    return sorted(found, key=lambda run: run.started_at, reverse=True)


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far a pipeline has read its sources, as one transaction sees it.

    Each pipeline has a table of its own for that: pipelines run serializable, and one that reads its offsets must not
    fail because another one wrote its own. With `anew` nothing counts as read before; who is `looking` only
    notes nothing.
    """

    tx: "Transaction"
    pipeline: str
    anew: bool = False
    looking: bool = False

    def seen(self, source: str) -> dict[str, str]:
        """What was read of the source so far: files, or the table with its version."""
        if self.anew:
            return {}
        try:
            table = self.tx.table(self._table_name)
        except NotFound:
            return {}
        found = table.to_arrow(filter=f"source = {_text(source)}").to_pylist()
        return {row["item"]: row["value"] for row in found}

    def note(self, source: str, items: Mapping[str, str]) -> None:
        """These were read now."""
        if self.looking:
            return
        if self.anew:
            self._forget(source)
        if not items:
            return
        _ensure(self.tx, self._table_name, _offsets_schema())
        rows = [{"source": source, "item": item, "value": items[item]} for item in items]
        # The table's own verbs: a job of Spark for a few rows would take longer than the rest of the commit.
        merge = self.tx.table(self._table_name).merge(_table(rows, _offsets_schema()), on=["source", "item"])
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _forget(self, source: str) -> None:
        with suppress(NotFound):
            self.tx.table(self._table_name).delete(f"source = {_text(source)}")

    @property
    def _table_name(self) -> tuple[str, ...]:
        return (*OFFSETS, self.pipeline)


def _ensure(tx: "Transaction", table: tuple[str, ...], schema: "pa.Schema") -> None:
    for depth in range(1, len(table)):
        with suppress(AlreadyExists):
            tx.create_namespace(table[:depth])
    with suppress(AlreadyExists):
        tx.create_table(table, schema)


def _table(rows: Iterable[Mapping[str, Any]], schema: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows), schema=schema)


def _runs_schema() -> "pa.Schema":
    import pyarrow as pa

    types = {"started_at": pa.timestamp("us", tz="UTC"), "seconds": pa.float64(), "read_version": pa.int64()}
    return pa.schema([(name, types.get(name, pa.string())) for name in (*_PLAIN, *_AS_JSON)])


def _offsets_schema() -> "pa.Schema":
    import pyarrow as pa

    return pa.schema([(name, pa.string()) for name in ("source", "item", "value")])


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
