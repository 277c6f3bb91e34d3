"""Transactions of a lake: what they cost in requests, over several tables, and for many writers at once.

Side by side with systems that do the same, in one run and in turns, so that whatever else the machine does hits all of
them. Ten rows go into each table, data files included, except where it says that only commits are measured. Bars:

- a warm append to one table: at most 5 writes and 2 reads, data files aside;
- one transaction over 10 tables: 3 times the best of the others, and at most 4 times as long as one over 1 table;
- 8 processes that append to one table: 4 times the best of the others, p99 under a second, nobody fails.

DuckLake and delta-rs do not flush data files to the disk; "Seiche" does not either, "Seiche with fsync" flushes all.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import seiche
from bench import _peers as peers
from bench._folders import folder, quick_folder
from bench._peers import ROWS, SCHEMA, Transact
from bench.report import Table
from seiche import Lake
from seiche.lake.transaction import Transaction
from seiche.store import open_store
from seiche.store.local import Durability
from seiche.store.prefix import below
from seiche.table.change import Change
from seiche.table.data.write import Limits, write_rows
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Append
from seiche.testing import CountingStore
from seiche.testing.wrapping import Call

OURS: Mapping[str, Durability] = {"Seiche": "os", "Seiche with fsync": "fsync"}
TABLES = 10
APPENDERS, APPENDS = 8, 30
# Of those that take half a second for each, a few say as much.
SLOW_APPENDS = {"DuckLake on SQLite": 6, "DuckLake on SQLite, inlined": 6}
COMMITTERS, COMMITS = 16, 50
ROUNDS, IN_A_ROUND = 10, 5

_CONTEXT = multiprocessing.get_context("spawn")
T = TypeVar("T")


def run() -> Iterable[Table]:
    for part in PARTS.values():
        yield from part()


def prepared(path: Path, tables: int) -> Lake:
    """A lake of empty tables."""
    lake = seiche.create(str(path), durability="os")
    lake.create_namespace("bench")
    with lake.transaction() as tx:
        for number in range(tables):
            tx.create_table(f"bench.t{number}", SCHEMA)
    return lake


def opened(path: Path, durability: Durability) -> Transact:
    """What appends to the tables of a lake."""
    lake = seiche.open(str(path), durability=durability)

    def transact(tables: int) -> None:
        with lake.transaction() as tx:
            for number in range(tables):
                tx.append(f"bench.t{number}", ROWS)

    return transact


class CountedStore(CountingStore):
    """Counts requests, but not those about data files."""

    def _call(self, call: Call, act: Callable[[], T]) -> T:
        return act() if "/data/" in call.path else super()._call(call, act)


def requests() -> Iterable[Table]:
    """Exact numbers, the same in each run."""
    rows = []
    for far, tables in product((False, True), (1, TABLES)):
        with folder() as path:
            prepared(path / "lake", tables)
            store = CountedStore(open_store(str(path / "lake"), durability="os"), far=far)
            lake = seiche.open(store)
            for _ in range(3):
                store.reset()
                with lake.transaction() as tx:
                    for number in range(tables):
                        tx.append(f"bench.t{number}", ROWS)
            counts = ", ".join(f"{count} {verb}" for verb, count in sorted(store.counts.items()))
            rows.append(("object" if far else "local", tables, store.reads, store.writes, store.waves, counts))
    note = (
        "Data files aside; on local disk a table's hint is written too. Waves: what waits for each other. The bar: 2"
        " reads and 5 writes for one."
    )
    heads = ("store", "tables", "reads", "writes", "waves", "by verb")
    yield Table("Storage requests of a warm append", heads, rows, note)


def ten_tables() -> Iterable[Table]:
    """One writer, one and ten tables in a transaction."""
    with peers.database() as postgres:
        yield _ten_tables(postgres)


def _ten_tables(postgres: str) -> Table:
    taken: dict[str, dict[int, list[float]]] = {name: {1: [], TABLES: []} for name in (*OURS, *peers.DUCKLAKES)}
    with ExitStack() as kept:
        writers = {name: _one_writer(name, kept.enter_context(quick_folder()), postgres) for name in taken}
        for transact in writers.values():
            transact(1)
            transact(TABLES)
        for _ in range(ROUNDS):
            for name, transact in writers.items():
                for tables in (1, TABLES):
                    taken[name][tables] += [_seconds(partial(transact, tables)) for _ in range(IN_A_ROUND)]
    each = {
        name: {tables: median(times) * 1000 for tables, times in figures.items()} for name, figures in taken.items()
    }
    best = min(each[name][TABLES] for name in peers.DUCKLAKES)
    rows = [
        (name, one := figures[1], ten := figures[TABLES], ten / one, 1000 / ten, best / ten)
        for name, figures in each.items()
    ]
    return Table(
        f"One transaction over {TABLES} tables, 10 rows into each",
        ("writer", "1 table ms", f"{TABLES} tables ms", "times 1 table", "per second", "times the best peer"),
        rows,
        "medians; bars: 3 times the best peer, at most 4 times one table",
    )


def _one_writer(name: str, path: Path, postgres: str) -> Transact:
    if name in OURS:
        prepared(path / "lake", TABLES)
        return opened(path / "lake", OURS[name])
    peers.prepare(name, path, postgres, TABLES)
    return peers.opened(name, path, postgres)


def _seconds(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


@dataclass(frozen=True, slots=True)
class Report:
    """What a crowd of processes did: seconds of each success, failures, and when each process was done."""

    elapsed: float
    taken: list[float]
    failed: int
    ended: list[float]
    failures: Mapping[str, int]

    @property
    def rate(self) -> float:
        return len(self.taken) / self.elapsed

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.taken) or [float("nan")]
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000


def crowd(processes: int, times: int, make: Callable[[int], Callable[[], object]]) -> Report:
    """So many processes that each do `make(number)()` so many times, all starting at once."""
    start, results = _CONTEXT.Barrier(processes + 1), _CONTEXT.Queue()
    workers = [_CONTEXT.Process(target=_work, args=(make, one, times, start, results)) for one in range(processes)]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    reports = []
    ended = []
    for _ in workers:
        reports.append(results.get())
        ended.append(time.perf_counter() - begin)
    start.wait()
    for worker in workers:
        worker.join()
    failures: dict[str, int] = {}
    for _, failed in reports:
        for what in failed:
            failures[what] = failures.get(what, 0) + 1
    taken = [one for times_, _ in reports for one in times_]
    return Report(ended[-1], taken, sum(failures.values()), ended, failures)


def _work(make: Callable[[int], Callable[[], object]], number: int, times: int, start: Any, results: Any) -> None:
    act = make(number)
    taken: list[float] = []
    failed: list[str] = []
    # Once to warm up: what is loaded at the first time is paid once, by those who do this for a living.
    with suppress(Exception):
        act()
    start.wait()
    for _ in range(times):
        begin = time.perf_counter()
        try:
            act()
            taken.append(time.perf_counter() - begin)
        except Exception as error:
            failed.append(f"{type(error).__name__}: {str(error)[:100]}")
    results.put((taken, failed))
    start.wait()  # a process that ends takes time from those that still work


def appenders() -> Iterable[Table]:
    """Many processes, one table, data included."""
    with peers.database() as postgres:
        yield _appenders(postgres)


def _appenders(postgres: str) -> Table:
    reports = {}
    for number, name in enumerate((*OURS, *peers.PEERS)):
        with folder() as path:
            own = path / f"crowd_{path.name[-8:]}_{number}"
            own.mkdir()
            if name in OURS:
                lake = prepared(own / "lake", 1)
                reports[name] = crowd(APPENDERS, APPENDS, partial(_our_appender, own / "lake", OURS[name]))
                done = len(reports[name].taken) + APPENDERS
                assert lake.table("bench.t0").to_arrow().num_rows == 10 * done, "rows were lost"
            else:
                peers.prepare(name, own, postgres, 1)
                times = SLOW_APPENDS.get(name, APPENDS)
                reports[name] = crowd(APPENDERS, times, partial(_peer_appender, name, own, postgres))
    best = max(reports[name].rate for name in peers.PEERS)
    return Table(
        f"{APPENDERS} processes that append 10 rows to one table, {APPENDS} times each",
        ("writer", "appends/s", "times the best peer", "median ms", "p99 ms", "failed", "of"),
        [
            (
                name,
                one.rate,
                one.rate / best,
                one.percentile(0.5),
                one.percentile(0.99),
                one.failed,
                one.failed + len(one.taken),
            )
            for name, one in reports.items()
        ],
        "bars: 4 times the best peer, p99 under 1000 ms, none failed",
    )


def _our_appender(path: Path, durability: Durability, _: int) -> Callable[[], object]:
    table = seiche.open(str(path), durability=durability).table("bench.t0")
    table.to_arrow()
    return lambda: table.append(ROWS)


def _peer_appender(name: str, path: Path, postgres: str, _: int) -> Callable[[], object]:
    transact = peers.opened(name, path, postgres)
    return lambda: transact(1)


def committers(shared: bool) -> Iterable[Table]:
    """Many processes, commits only: every transaction names the same data file."""
    rows = []
    for name, durability in OURS.items():
        with folder() as path:
            lake = prepared(path, COMMITTERS)
            store = below(lake.store, lake.table("bench.t0").row.location)
            header = lake.transaction().table("bench.t0")._work().base.header
            written = write_rows(store, header, SCHEMA, iter(ROWS.to_batches()), Limits.of())
            fragment = written.fragments[0].SerializeToString()
            before = lake.version
            report = crowd(COMMITTERS, COMMITS, partial(_committer, path, durability, fragment, shared))
            assert lake.version == before + len(report.taken) + COMMITTERS, "versions were lost"
            late = (report.percentile(0.5), report.percentile(0.99))
            rows.append((name, report.rate, *late, min(report.ended) / max(report.ended), report.failed))
    yield Table(
        f"{COMMITTERS} processes, {COMMITS} commits each, {'one table' if shared else 'a table each'}, no data written",
        ("writer", "commits/s", "median ms", "p99 ms", "first done / last done", "failed"),
        rows,
        "Roots of one lake are decided one after the other, so tables of their own spare the rebase, not the wait.",
    )


def _committer(path: Path, durability: Durability, fragment: bytes, shared: bool, number: int) -> Callable[[], object]:
    lake = seiche.open(str(path), durability=durability)
    name = "bench.t0" if shared else f"bench.t{number}"
    change = Change(Append((DataFragment.FromString(fragment),)))
    lake.table(name)

    def commit(tx: Transaction) -> None:
        tx.table(name).apply(change)

    return lambda: lake.run(commit)


PARTS: Mapping[str, Callable[[], Iterable[Table]]] = {
    "requests": requests,
    "ten_tables": ten_tables,
    "appenders": appenders,
    "disjoint": partial(committers, False),
    "shared": partial(committers, True),
}
