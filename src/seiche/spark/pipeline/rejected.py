"""Keeping what a run would have published and did not, so that somebody can look at it."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, count
from typing import TYPE_CHECKING, cast

from seiche.errors import AlreadyExists
from seiche.lake.objects.names import MOST_BYTES, Name
from seiche.spark.pipeline.records import RunRecord

if TYPE_CHECKING:
    from seiche import Lake
    from seiche.lake.transaction import Transaction
    from seiche.spark.transaction import SparkTransaction

__all__ = ["NAMESPACE", "keep_rejected"]

NAMESPACE = "rejected"
# The properties of namespaces that are made here.
_OURS = {"seiche.made-for": "what was rejected"}


def keep_rejected(lake: "Lake", tx: "SparkTransaction", made: RunRecord, tag: str) -> str:
    """Copy the tables of a rejected run to `rejected.<tag>.<name>` of a version that only `tag` leads to.

    The version after it does not have them any more: nobody meets them who does not ask for the tag.
    """

    names = _names(tag, [step.table for step in made.steps])

    def copy(into: "SparkTransaction") -> None:
        _clear(into)  # what a run left that was killed before it had cleared up
        with suppress(AlreadyExists):
            into.create_namespace(NAMESPACE, _OURS)
        into.create_namespace((NAMESPACE, tag), _OURS)
        for table, name in names.items():
            rows = tx.read(table)
            into.create_table(name, tx.table(table).schema)
            into.append(name, rows)

    _, version = lake.run_versioned(lambda into: copy(cast("SparkTransaction", into)), spark=tx.session)
    try:
        lake.tag(tag, version)
    finally:  # without a tag nothing leads to them, and with one they are where it leads
        lake.run(_clear)
    return tag


def _clear(into: "Transaction") -> None:
    """Drop all copies that are there, also those of other runs: theirs too are in a version that is made already."""
    if (NAMESPACE,) not in into.namespaces():
        return
    for inside in into.namespaces(NAMESPACE):
        if _is_ours(into, inside):
            for name in into.tables(inside):
                into.drop_table(name)
            into.drop_namespace(inside)
    if _is_ours(into, (NAMESPACE,)) and not into.namespaces(NAMESPACE) and not into.tables(NAMESPACE):
        into.drop_namespace(NAMESPACE)


def _is_ours(into: "Transaction", namespace: Name) -> bool:
    """Whether it was made for what was rejected: users may have namespaces of that name, too."""
    return into.namespace_named(namespace).properties.items() >= _OURS.items()


def _names(tag: str, tables: Iterable[str]) -> dict[str, Name]:
    """What the copy of each table is called: its name in one word, which ends in a number if another has it."""
    found: dict[str, Name] = {}
    for table in tables:
        word = table.replace(".", "_")
        ends = chain([""], (f"_{number}" for number in count(2)))
        names = ((NAMESPACE, tag, _ending(word, end)) for end in ends)
        found[table] = next(name for name in names if name not in found.values())
    return found


def _ending(word: str, end: str) -> str:
    """The word, cut off where it would be too long for a name: several names make one here."""
    return word.encode()[: MOST_BYTES - len(end)].decode(errors="ignore") + end
