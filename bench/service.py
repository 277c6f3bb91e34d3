"""The transaction service: commits per second of many clients, against as many pylance processes on plain storage.

Every transaction is one round trip and names the same data file, so that only commits are measured, as in `commit`;
the server flushes everything to disk unless the line says otherwise, pylance never does. Bars: at 16 clients on one
table 20 times pylance's commits per second, p99 under 250 ms, nobody fails; a single client within 2 times a commit
without a server; memory flat over 100,000 commits (`--part memory`, which takes some minutes, and says what flat
means). Clients in one process are threads that share a connection, as those of one application do; pylance's 16 are
always 16 processes.

What a bare gRPC server with the same message sizes does in the same run, which answers at once and does nothing, is the
most that any server on these libraries could do on this machine: clients and server share its cores.
"""

import json
import multiprocessing
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance.fragment import FragmentMetadata

import seiche
from bench import commit as plain
from bench._echo import asking, calling, echo
from bench._folders import folder, quick_folder
from bench.lake import Report, prepared
from bench.report import Table
from seiche.core.runtime import SYSTEM
from seiche.lake.transaction import Transaction
from seiche.store.local import Durability
from seiche.store.prefix import below
from seiche.table.change import Change
from seiche.table.data.write import Limits, write_rows
from seiche.table.operations import Append
from seiche.table.operations.overwrite import Overwrite
from seiche.table.transaction import Transaction as TableTransaction

if TYPE_CHECKING:
    from seiche.service.client.channel import Channel

PROCESSES = 16
COMMITS = 100
SINGLE, TURN = 200, 20
MEMORY_CLIENTS, MEMORY_PROCESSES, MEMORY_TABLES = 64, 4, 4
# So many commits fill the server's caches; memory is looked at over as many as the bar says, from there on.
WARM, OVER, STEP = 40_000, 100_000, 10_000
# Flat is what grows by less than this share over all of them, as the line says that fits best.
GROWTH = 0.05
EMPTIED = 25

_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Shape:
    """Clients, the processes that they are threads of, and what they append to."""

    clients: int
    processes: int
    tables: int = 1
    stays_open: bool = True
    durability: Durability = "fsync"

    def __str__(self) -> str:
        where = "one process" if self.processes == 1 else f"{self.processes} processes"
        what = "one table" if self.tables == 1 else f"{self.tables} tables"
        more = ("" if self.stays_open else ", a call each") + ("" if self.durability == "fsync" else ", no fsync")
        return f"{self.clients} clients in {where}, {what}{more}"


# The bar speaks of 16 clients. Those of one application share a process and its connection; the worst case is that none
# do.
SHAPES = (
    Shape(1, 1),
    Shape(16, 16),
    Shape(16, 4),
    Shape(16, 2),
    Shape(16, 16, durability="os"),
    Shape(16, 4, durability="os"),
    Shape(16, 2, durability="os"),
    Shape(16, 16, stays_open=False),
    Shape(16, 16, tables=16),
    Shape(16, 4, tables=16),
    Shape(64, 16),
    Shape(64, 4),
    Shape(64, 16, tables=16),
)


def run() -> Iterable[Table]:
    yield crowds()
    yield alone()


@contextmanager
def server(path: Path, durability: Durability) -> Iterator[str]:
    """A server process for the lake at `path`, as a user starts it; yields its address."""
    with _server(path, "--durability", durability) as (address, _):
        yield address


@contextmanager
def _server(path: Path, *options: str) -> Iterator[tuple[str, int]]:
    """The same with the number of the process, and more options."""
    command = [
        sys.executable,
        "-c",
        "import seiche.cli; seiche.cli.main()",
        "serve",
        str(path / "lake"),
        "--no-auth",
        "--port",
        "0",
    ]
    process = subprocess.Popen(
        [*command, "--state", f"sqlite://{path}/state.db", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = re.search(r"grpc://[\d.:]+", process.stdout.readline())
        assert found is not None, "the server did not start"
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def payloads(path: Path, tables: int) -> list[tuple[str, bytes]]:
    """A lake of so many tables, and for each an append of a file that is there."""
    from bench._peers import ROWS, SCHEMA

    lake = prepared(path / "lake", tables)
    found = []
    for number in range(tables):
        row = lake.table(f"bench.t{number}").row
        header = lake.transaction().table(f"bench.t{number}")._work().base.header
        written = write_rows(below(lake.store, row.location), header, SCHEMA, iter(ROWS.to_batches()), Limits.of())
        found.append((row.id, TableTransaction(row.table_version, "", Append(written.fragments)).encode()))
    return found


def crowds() -> Table:
    baseline = pylance(PROCESSES)
    rows: list[tuple[object, ...]] = [
        (
            "16 pylance processes, one table",
            baseline.rate,
            1.0,
            baseline.percentile(0.5),
            baseline.percentile(0.99),
            baseline.failed,
            "",
        )
    ]
    with echo() as port:
        for name, act in (("a call each", calling), ("open calls", asking)):
            bare = crowd(PROCESSES, partial(act, port))
            rows.append(
                (
                    f"16 clients, bare gRPC, {name}",
                    bare.rate,
                    bare.rate / baseline.rate,
                    bare.percentile(0.5),
                    bare.percentile(0.99),
                    bare.failed,
                    "",
                )
            )
    for shape in SHAPES:
        with quick_folder() as path:
            given = payloads(path, shape.tables)
            before = seiche.open(str(path / "lake")).version
            with server(path, shape.durability) as address:
                act = partial(_client, address, given, shape.stays_open)
                report = crowd(shape.clients, act, processes=shape.processes)
            lake = seiche.open(str(path / "lake"))
            committed = sum(lake.table(f"bench.t{number}").to_arrow().num_rows for number in range(shape.tables)) / 10
            assert committed == len(report.taken), "acknowledged and committed differ"
            roots = lake.version - before
            rows.append(
                (
                    str(shape),
                    report.rate,
                    report.rate / baseline.rate,
                    report.percentile(0.5),
                    report.percentile(0.99),
                    report.failed,
                    len(report.taken) / roots,
                )
            )
    return Table(
        f"Commits through the service, {COMMITS} of each client, no data written",
        ("writer", "commits/s", "times pylance", "median ms", "p99 ms", "failed", "transactions per root"),
        rows,
        "bars at 16 clients and one table: 20 times pylance, p99 under 250 ms, none failed",
    )


def crowd(
    clients: int, make: Callable[[int], Callable[[], object]], each: int = COMMITS, *, processes: int = PROCESSES
) -> Report:
    """So many clients, in processes and threads, that each commit so many times, all starting at once."""
    processes = min(clients, processes)
    threads = clients // processes
    start, results = _CONTEXT.Barrier(processes + 1), _CONTEXT.Queue()
    workers = [
        _CONTEXT.Process(target=_work, args=(make, one, threads, each, start, results)) for one in range(processes)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    begin = time.perf_counter()
    reports, ended = [], []
    for _ in workers:
        reports.append(results.get())
        ended.append(time.perf_counter() - begin)
    for worker in workers:
        worker.join()
    failures: dict[str, int] = {}
    for _, failed in reports:
        for what in failed:
            failures[what] = failures.get(what, 0) + 1
    return Report(ended[-1], [one for times, _ in reports for one in times], sum(failures.values()), ended, failures)


def _work(
    make: Callable[[int], Callable[[], object]], number: int, threads: int, each: int, start: Any, results: Any
) -> None:
    taken: list[float] = []
    failed: list[str] = []
    acts = [make(number * threads + one) for one in range(threads)]

    def loop(act: Callable[[], object]) -> None:
        for _ in range(each):
            begin = time.perf_counter()
            try:
                act()
                taken.append(time.perf_counter() - begin)
            except Exception as error:
                failed.append(f"{type(error).__name__}: {str(error)[:100]}")

    start.wait()
    running = [threading.Thread(target=loop, args=(act,)) for act in acts]
    for one in running:
        one.start()
    for one in running:
        one.join()
    results.put((taken, failed))


def _client(address: str, given: list[tuple[str, bytes]], stays_open: bool, number: int) -> "Appender":
    table, payload = given[number % len(given)]
    return Appender(address, table, payload, stays_open)


class Appender:
    """Appends to a table in one round trip, over a call that stays open as in `seiche.connect`, or not.

    Built on the version that the last call made, as any writer would.
    """

    def __init__(self, address: str, table: str, payload: bytes, stays_open: bool) -> None:
        from seiche.service import transactions_pb2 as pb
        from seiche.table.format import transaction_pb2

        self._pb = pb
        self._channel = _channel(address)
        self._stays_open = stays_open
        self._table = table
        self.operation = transaction_pb2.Transaction.FromString(payload)
        self._base = self._channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse).version

    def __call__(self) -> None:
        pb = self._pb
        request = pb.ExecuteTransactionRequest(tx_id=str(SYSTEM.ordered_uuid()), base_version=self._base)
        request.properties["seiche.flushed"] = "true"
        request.changes.add(payload=self.operation.SerializeToString()).table_id.id = self._table
        if self._stays_open:
            answer = self._channel.execute(request)
        else:
            answer = self._channel.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse)
        if answer.transaction.state != pb.TS_APPLIED:
            raise RuntimeError(str(answer.transaction.properties))
        self._base = answer.version
        for one in answer.tables:
            self.operation.read_version = one.table_version


@lru_cache
def _channel(address: str) -> "Channel":
    """Clients in one process share their connection, as the threads do that use one `seiche.connect`."""
    from seiche.service.client.channel import Address, Channel

    return Channel(Address.parse(address))


def pylance(processes: int) -> Report:
    """The same without a server, by pylance."""
    with quick_folder() as path:
        fragment = plain.prepared(path / "t", 10)
        return crowd(processes, partial(_pylance, path / "t", json.dumps(fragment.to_json())))


def _pylance(path: Path, metadata: str, _: int) -> Callable[[], object]:
    return plain.pylance_append(path, FragmentMetadata.from_json(metadata))


def alone() -> Table:
    """One client that nobody disturbs, against the same commit without a server.

    Each has a lake of its own, and they take turns: a commit costs more the more versions there were since the tree was
    last written out, and what else the machine does is for both the same.
    """
    with folder() as path:
        lakes = [path / "without", path / "through"]
        for one in lakes:
            one.mkdir()
        (_, payload), given = payloads(lakes[0], 1)[0], payloads(lakes[1], 1)
        lake = seiche.open(str(lakes[0] / "lake"), durability="fsync")
        change = Change(TableTransaction.decode(payload).operation)

        def embedded() -> None:
            def act(tx: Transaction) -> None:
                tx.table("bench.t0").apply(change)

            lake.run(act)

        with server(lakes[1], "fsync") as address:
            direct, served = _medians(embedded, _client(address, given, True, 0))
        rows = [("without a server", direct, 1.0), ("through the service", served, served / direct)]
    return Table(
        "One commit with nobody else there, ms", ("writer", "median ms", "times"), rows, "bar: at most 2 times"
    )


def _medians(*acts: Callable[[], object]) -> list[float]:
    """How long each takes, in milliseconds, by turns."""
    taken: list[list[float]] = [[] for _ in acts]
    for turn in range(SINGLE // TURN + 1):
        for act, times in zip(acts, taken, strict=True):
            for _ in range(TURN):
                begin = time.perf_counter()
                act()
                if turn:  # the first is for warming up
                    times.append(time.perf_counter() - begin)
    return [statistics.median(times) * 1000 for times in taken]


def memory() -> Iterable[Table]:
    """What the server holds in memory after so many commits of 64 clients.

    Now and then they all wait until the tables are emptied, so that it is not the tables that grow.
    """
    with folder() as path:
        given = payloads(path, MEMORY_TABLES)
        header = seiche.open(str(path / "lake")).transaction().table("bench.t0")._work().base.header
        nothing = Overwrite(fragments=(), schema=tuple(header.fields))
        empty = TableTransaction(header.version, "", nothing).encode()
        page = _free_port()
        with _server(path, "--metrics-port", str(page)) as (address, process):
            rows: list[tuple[object, ...]] = [(0, _resident(process), _cached(page), "")]
            done = 0
            for mark in range(STEP, WARM + OVER + 1, STEP):
                each = (mark - done) // MEMORY_CLIENTS
                together = _CONTEXT.Barrier(MEMORY_CLIENTS)
                versions = _CONTEXT.Array("q", _versions(path, MEMORY_TABLES))
                make = partial(Emptying, address, given, empty, together, versions)
                report = crowd(MEMORY_CLIENTS, make, each, processes=MEMORY_PROCESSES)
                assert report.failed == 0, report.failures
                done += each * MEMORY_CLIENTS
                rows.append((done, _resident(process), _cached(page), report.rate))
    warm = [(float(str(done)), float(str(held))) for done, held, *_ in rows if int(str(done)) > WARM - STEP / 2]
    slope, level = statistics.linear_regression(*zip(*warm, strict=True))
    grown, begun = slope * OVER, level + slope * WARM
    yield Table(
        f"Memory of the server, {MEMORY_CLIENTS} clients in {MEMORY_PROCESSES} processes, {MEMORY_TABLES} tables",
        ("commits", "resident MB", "in caches MB", "commits/s"),
        rows,
        f"from {WARM:,} commits on, when the caches are full: {begun:.0f} MB, {grown:+.1f} MB"
        f" ({grown / begun:+.1%}) over {OVER:,} commits, between {min(held for _, held in warm):.0f} and"
        f" {max(held for _, held in warm):.0f}; bar: flat, which is less than {GROWTH:+.0%}:"
        f" {'holds' if grown < GROWTH * begun else 'MISSED'}",
    )


def _versions(path: Path, tables: int) -> list[int]:
    lake = seiche.open(str(path / "lake"))
    return [lake.table(f"bench.t{number}").row.table_version for number in range(tables)]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _cached(page: int) -> float:
    """What the server says that nodes and manifests take in its memory."""
    with urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics") as answer:
        found = re.search(rb'seiche_cached_bytes\{account="default"\} (\S+)', answer.read())
    assert found is not None
    return float(found[1]) / (1 << 20)


def _resident(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


class Emptying:
    """As `Appender`. Every so many commits all clients wait for each other, and one for each table empties it."""

    def __init__(
        self, address: str, given: list[tuple[str, bytes]], empty: bytes, together: Any, versions: Any, number: int
    ) -> None:
        self._append = _client(address, given, True, number)
        self._empty = Appender(address, given[number % len(given)][0], empty, True) if number < len(given) else None
        self._together = together
        self._versions = versions
        self._table = number % len(given)
        self._count = 0
        self._append.operation.read_version = versions[self._table]

    def __call__(self) -> None:
        self._count += 1
        self._append()
        if self._count % EMPTIED:
            return
        self._together.wait()
        if self._empty is not None:
            self._empty.operation.read_version = self._append.operation.read_version
            self._empty()
            self._versions[self._table] = self._empty.operation.read_version
        self._together.wait()
        self._append.operation.read_version = self._versions[self._table]


PARTS: Mapping[str, Callable[[], Iterable[Table]]] = {
    "crowds": lambda: [crowds()],
    "alone": lambda: [alone()],
    "memory": memory,
}
