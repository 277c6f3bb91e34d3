"""Keeping what a run would have published and did not, so that somebody can look at it."""

from contextlib import suppress
from typing import TYPE_CHECKING, cast

from seiche.errors import AlreadyExists
from seiche.spark.pipeline.records import RunRecord

if TYPE_CHECKING:
    from seiche import Lake
    from seiche.lake.transaction import Transaction
    from seiche.spark.transaction import SparkTransaction

__all__ = ["NAMESPACE", "keep_rejected"]

NAMESPACE = "rejected"


def keep_rejected(lake: "Lake", tx: "SparkTransaction", made: RunRecord, tag: str) -> str:
    """Copy the tables of a rejected run to `rejected.<tag>.<name>` of a version that only `tag` leads to.

    The version after it does not have them any more: nobody meets them who does not ask for the tag.
    """

    def copy(into: "SparkTransaction") -> None:
        _namespaces(into, tag)
        for step in made.steps:
            rows = tx.read(step.table)
            into.create_table(_name(tag, step.table), tx.table(step.table).schema)
            into.append(_name(tag, step.table), rows)

    _, version = lake.run_versioned(lambda into: copy(cast("SparkTransaction", into)), spark=tx.session)

    def drop(into: "Transaction") -> None:
        for step in made.steps:
            into.drop_table(_name(tag, step.table))
        into.drop_namespace((NAMESPACE, tag))

    try:
        lake.tag(tag, version)
    finally:  # without a tag nothing leads to them, and with one they are where it leads
        lake.run(drop)
    return tag


def _name(tag: str, table: str) -> tuple[str, ...]:
    return NAMESPACE, tag, table.replace(".", "_")


def _namespaces(into: "SparkTransaction", tag: str) -> None:
    with suppress(AlreadyExists):
        into.create_namespace(NAMESPACE)
    into.create_namespace((NAMESPACE, tag))
