"""What processes do that commit to one table at the same time, by Seiche or by pylance."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import lance
import pyarrow as pa

from seiche.table.table import Table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("writer", pa.int64())])
# Ids of one process begin at a multiple of this.
SPAN = 1_000_000


@dataclass
class Report:
    """What a process was told: rows of commits that were acknowledged, and of those that failed; the longest wait."""

    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def try_each(self, ids: Iterable[int], commits: int, act: Callable[[int], object], *, again: bool) -> None:
        """Act on one id after the other until `commits` have succeeded; on the same one `again` if it failed."""
        waiting = iter(ids)
        one = next(waiting)
        while len(self.done) < commits:
            begin = time.perf_counter()
            try:
                act(one)
            except Exception as error:
                self.failed.append(one)
                self.errors.append(f"{type(error).__name__}: {error}"[:500])
                if not again:
                    one = next(waiting)
            else:
                self.done.append(one)
                if len(self.done) < commits:
                    one = next(waiting)
            self.slowest = max(self.slowest, time.perf_counter() - begin)


def rows(ids: Iterable[int], writer: int) -> pa.Table:
    wanted = list(ids)
    return pa.table({"id": wanted, "writer": [writer] * len(wanted)}, schema=SCHEMA)


def seiche(uri: str, deed: str, writer: int, options: dict[str, Any]) -> Callable[[int], object]:
    table = Table.open(uri, **options)
    if deed == "append":
        return lambda one: table.append(rows([one], writer))
    return lambda one: table.delete(f"id = {one}")


def pylance(uri: str, deed: str, writer: int, options: dict[str, Any]) -> Callable[[int], object]:
    dataset: Any = lance.dataset(uri, storage_options=options or None)
    if deed == "append":
        return lambda one: dataset.insert(rows([one], writer), mode="append")
    return lambda one: dataset.delete(f"id = {one}")


def write(
    kind: str, deed: str, number: int, commits: int, uri: str, options: dict[str, Any], begin: Any, reports: Any
) -> None:
    """One of the processes: open the table, wait for the others, work, and report."""
    act = {"seiche": seiche, "pylance": pylance}[kind](uri, deed, number, options)
    first = number * SPAN
    report = Report()
    begin.wait(120)
    report.try_each(range(first, first + SPAN), commits, act, again=deed == "delete")
    reports.put((number, report))
