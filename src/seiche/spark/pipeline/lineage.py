"""Which version of which table made which: what a run's record says, with the versions that its commit made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import seiche
from seiche.errors import NotFound
from seiche.spark.pipeline.records import RunRecord

if TYPE_CHECKING:
    from seiche import Lake

__all__ = ["Made", "lineage"]


@dataclass(frozen=True, slots=True)
class Made:
    """A table that a run made: its version, `None` if that is not kept any more, and what it was made from.

    Of a source that is not a table of the lake there is no version.
    """

    table: str
    version: int | None
    inputs: Mapping[str, int | None]


def lineage(lake: "Lake", run: RunRecord) -> list[Made]:
    """What a published run made of what, in the order of its steps; nothing for a run that was not published."""
    version = lake.status(run.transaction_id).version if run.status == "published" else None
    if version is None:
        return []
    try:
        made = _versions(seiche.open(lake.store, version=version), [step.table for step in run.steps])
    except NotFound:
        made = {}  # that version of the lake has been given up
    known: dict[str, int | None] = {**run.read, **made}
    return [
        Made(step.table, made.get(step.table), {name: known.get(name) for name in step.reads}) for step in run.steps
    ]


def _versions(lake: "Lake", tables: list[str]) -> dict[str, int]:
    return {name: lake.table(name).version for name in tables}
