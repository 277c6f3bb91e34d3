"""The transaction service: commits per second of many clients, against as many pylance processes on plain storage.

Every transaction is one round trip and names the same data file, so that only commits are measured, as in `commit`;
the server flushes everything to disk, pylance does not. Bars: at 16 clients on one table 20 times pylance's commits per
second, p99 under 250 ms, nobody fails; a single client within 2 times a commit without a server; memory flat over
100,000 commits (`--part memory`, which takes some minutes). Clients in one process are threads that share a connection,
as those of one application do; pylance's 16 are always 16 processes.

What a bare gRPC server with the same message sizes does in the same run, which answers at once and does nothing, is the
most that any server on these libraries could do on this machine: clients and server share its cores.
"""

import json
import multiprocessing
import re
import statistics
import subprocess
import sys
import threading
import time
import uuid
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
from bench._folders import folder
from bench.lake import Report, prepared
from bench.report import Table
from seiche.lake.transaction import Transaction
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
SINGLE = 200
MEMORY_CLIENTS = 64
MARKS = (20_000, 50_000, 100_000)
EMPTIED = 50

_CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Shape:
    """Clients, the processes that they are threads of, and what they append to."""

    clients: int
    processes: int
    tables: int = 1
    stays_open: bool = True

    def __str__(self) -> str:
        where = "one process" if self.processes == 1 else f"{self.processes} processes"
        what = "one table" if self.tables == 1 else f"{self.tables} tables"
        return f"{self.clients} clients in {where}, {what}" + ("" if self.stays_open else ", a call each")


# The bar speaks of 16 clients. Those of one application share a process and its connection; the worst case is that none
# do.
SHAPES = (
    Shape(1, 1),
    Shape(16, 16),
    Shape(16, 4),
    Shape(16, 2),
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
def server(path: Path) -> Iterator[str]:
    """A server process for the lake at `path`, as a user starts it; yields its address."""
    with _server(path) as (address, _):
        yield address


@contextmanager
def _server(path: Path) -> Iterator[tuple[str, int]]:
    """The same with the number of the process."""
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
        [*command, "--state", f"sqlite://{path}/state.db"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
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
        with folder() as path:
            given = payloads(path, shape.tables)
            before = seiche.open(str(path / "lake")).version
            with server(path) as address:
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


def _client(address: str, given: list[tuple[str, bytes]], stays_open: bool, number: int) -> Callable[[], object]:
    """What appends to a table in one round trip, over a call that stays open as in `seiche.connect`, or not.

    Built on the version that the last call made, as any writer would.
    """
    from seiche.service import transactions_pb2 as pb
    from seiche.table.format import transaction_pb2

    channel = _channel(address)
    lake = channel.call("DescribeLake", pb.DescribeLakeRequest(), pb.DescribeLakeResponse)
    table, payload = given[number % len(given)]
    operation = transaction_pb2.Transaction.FromString(payload)
    base = lake.version

    def act() -> None:
        nonlocal base
        request = pb.ExecuteTransactionRequest(tx_id=str(uuid.uuid4()), base_version=base)
        request.properties["seiche.flushed"] = "true"
        request.changes.add(payload=operation.SerializeToString()).table_id.id = table
        if stays_open:
            answer = channel.execute(request)
        else:
            answer = channel.call("ExecuteTransaction", request, pb.ExecuteTransactionResponse)
        if answer.transaction.state != pb.TS_APPLIED:
            raise RuntimeError(str(answer.transaction.properties))
        base = answer.version
        for one in answer.tables:
            operation.read_version = one.table_version

    return act


@lru_cache
def _channel(address: str) -> "Channel":
    """Clients in one process share their connection, as the threads do that use one `seiche.connect`."""
    from seiche.service.client.channel import Address, Channel

    return Channel(Address.parse(address))


def pylance(processes: int) -> Report:
    """The same without a server, by pylance."""
    with folder() as path:
        fragment = plain.prepared(path / "t", 10)
        return crowd(processes, partial(_pylance, path / "t", json.dumps(fragment.to_json())))


def _pylance(path: Path, metadata: str, _: int) -> Callable[[], object]:
    return plain.pylance_append(path, FragmentMetadata.from_json(metadata))


def alone() -> Table:
    """One client that nobody disturbs, against the same commit without a server."""
    rows = []
    with folder() as path:
        given = payloads(path, 1)
        lake = seiche.open(str(path / "lake"), durability="fsync")
        change = Change(TableTransaction.decode(given[0][1]).operation)

        def embedded() -> None:
            def act(tx: Transaction) -> None:
                tx.table("bench.t0").apply(change)

            lake.run(act)

        direct = _median(embedded)
        with server(path) as address:
            served = _median(_client(address, given, True, 0))
        rows = [("without a server", direct, 1.0), ("through the service", served, served / direct)]
    return Table(
        "One commit with nobody else there, ms", ("writer", "median ms", "times"), rows, "bar: at most 2 times"
    )


def _median(act: Callable[[], object]) -> float:
    act()
    taken = []
    for _ in range(SINGLE):
        begin = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1000


def memory() -> Iterable[Table]:
    """What the server holds in memory after so many commits of 64 clients, each on a table of its own.

    Every client empties its table now and then, so that it is not the tables that grow.
    """
    with folder() as path:
        given = payloads(path, MEMORY_CLIENTS)
        with _server(path) as (address, process):
            rows: list[tuple[object, ...]] = [(0, _resident(process))]
            done = 0
            for mark in MARKS:
                each = (mark - done) // MEMORY_CLIENTS
                report = crowd(MEMORY_CLIENTS, partial(_emptying, address, str(path / "lake"), given), each)
                assert report.failed == 0, report.failures
                done += each * MEMORY_CLIENTS
                rows.append((done, _resident(process)))
    yield Table("Memory of the server, 64 clients and tables", ("commits", "resident MB"), rows, "bar: flat")


def _resident(process: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _emptying(address: str, uri: str, given: list[tuple[str, bytes]], number: int) -> Callable[[], object]:
    """As `_client`, on a table of its own that is emptied every so many commits."""
    header = seiche.open(uri).transaction().table(f"bench.t{number}")._work().base.header
    nothing = Overwrite(fragments=(), schema=tuple(header.fields))
    append = _client(address, given, True, number)
    empty = _client(address, [(given[number][0], TableTransaction(header.version, "", nothing).encode())], True, 0)
    count = 0

    def act() -> None:
        nonlocal count
        count += 1
        (append if count % EMPTIED else empty)()

    return act


PARTS: Mapping[str, Callable[[], Iterable[Table]]] = {
    "crowds": lambda: [crowds()],
    "alone": lambda: [alone()],
    "memory": memory,
}
