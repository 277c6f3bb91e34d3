"""Commits through the Iceberg REST catalog, by PyIceberg, against PyIceberg's own catalog in SQLite doing the same.

A commit sets a property of a table: what is measured is the catalog, not the writing of rows. Each client is a process
of its own. With tables of their own clients do not conflict; on one table PyIceberg's catalog refuses whoever is not
first, and the client tries again. Bars: as many as the SQLite catalog with 1 client, 5 times as many with 16.

The SQLite catalog runs in the client's process: 16 clients are 16 processes, each of which also does the catalog's
work. With a server there is one process more, on the same cores. The SQLite catalog flushes its database at each commit
(SQLite's own default, `synchronous=FULL`), and does not flush files of metadata; "Seiche with fsync" flushes the root
and the metadata, files and directories, so it does more; without it nothing is flushed, so it does less. Neither is
quite the same: both are shown.

What the disk does in a second differs from the next: the catalogs take turns, several times with 1 client, each in a
folder where files are made quickly, and nothing is removed before the end. "least" is the lowest ratio of a turn.

"nothing" is a server that answers each commit with the same metadata and keeps nothing: what PyIceberg as a client
leaves to any catalog behind HTTP on this machine.

The part "bare" leaves PyIceberg's transaction out on both sides, because on two cores it is most of the work: SQLite's
catalog is called for each commit (`commit_table`), ours is sent the request that PyIceberg sends for the same.
"""

import http.client
import json
import multiprocessing
import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from bench._folders import folder, quick_folder
from bench.report import Table
from seiche.store.local import Durability

SCHEMA = pa.schema([("id", pa.int64())])
CLIENTS = (1, 16)
COMMITS = {1: 200, 16: 60}
TURNS = {1: 3, 16: 1}
MOST_TRIES = 200

_CONTEXT = multiprocessing.get_context("spawn")
_SERVER = """
import sys, threading
import seiche
from seiche.core.process import settle_server
from seiche.gateway.serving import serving
with serving(seiche.open(sys.argv[1], durability=sys.argv[2]), iceberg_port=0) as found:
    settle_server()  # as `seiche serve` does
    print(found["iceberg"], flush=True)
    threading.Event().wait()
"""


_NOTHING = """
import json, sys
import uvicorn
METADATA = json.loads(sys.argv[1])
CONFIG = {"defaults": {}, "overrides": {"prefix": "lake"}}
LOADED = json.dumps({"metadata-location": "x", "metadata": METADATA, "config": {}}).encode()
async def app(scope, receive, send):
    if scope["type"] != "http":
        await receive(); await send({"type": "lifespan.startup.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    path = scope["path"]
    body = json.dumps(CONFIG).encode() if path == "/v1/config" else LOADED
    if path.endswith("/namespaces"):
        body = b'{"namespace": ["bench"], "properties": {}}'
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)
Server(uvicorn.Config(app, port=0, log_level="error", access_log=False, lifespan="off")).run()
"""


@dataclass
class Measured:
    """How long each commit took, from its first try to its success; how many tries were refused, how many gave up;
    how long all of them took together.
    """

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    failed: int = 0
    took: float = 0.0

    @property
    def rate(self) -> float:
        """Commits per second."""
        return len(self.seconds) / self.took


def added(parts: Sequence[Measured]) -> Measured:
    """All of them as one."""
    return Measured(
        [one for part in parts for one in part.seconds],
        sum(part.refused for part in parts),
        sum(part.failed for part in parts),
        sum(part.took for part in parts),
    )


def run() -> Iterable[Table]:
    for part in PARTS.values():
        yield from part()


def compared(shared: bool) -> Table:
    """Both catalogs, with 1 and with 16 clients."""
    where = "one table" if shared else "tables of their own"
    return in_turns(f"Commits through a catalog, to {where}", CATALOGS, shared)


def bare() -> Table:
    """Both catalogs, without the client's own part."""
    return in_turns("Commits through a catalog, to tables of their own, without PyIceberg's transaction", BARE, False)


def in_turns(title: str, catalogs: "Catalogs", shared: bool) -> Table:
    rows: list[tuple[object, ...]] = []
    with ExitStack() as kept:
        for clients in CLIENTS:
            found: dict[str, list[Measured]] = {}
            for _ in range(TURNS[clients]):
                for name, measure in catalogs.items():
                    found.setdefault(name, []).append(measure(kept, clients, shared))
            base = found["PyIceberg on SQLite"]
            for name, turns in found.items():
                ratios = [one.rate / other.rate for one, other in zip(turns, base, strict=True)]
                total = added(turns)
                p99 = quantiles(total.seconds, n=100)[-1] * 1000 if len(total.seconds) > 1 else 0.0
                ratio = total.rate / added(base).rate
                rows.append((name, clients, total.rate, ratio, min(ratios), p99, total.refused, total.failed))
    return Table(
        title,
        ("catalog", "clients", "commits/s", "ratio", "least", "p99 ms", "refused", "failed"),
        rows,
        'Bars: 1 client 1.0, 16 clients 5.0; "nothing" bounds them.',
    )


def sqlite(kept: ExitStack, clients: int, shared: bool, act: "Act | None" = None) -> Measured:
    path = kept.enter_context(quick_folder())
    settings = {"uri": f"sqlite:///{path}/catalog.db", "warehouse": f"file://{path}/warehouse"}
    return together("pyiceberg.catalog.sql.SqlCatalog", settings, clients, shared, act)


def ours(kept: ExitStack, clients: int, shared: bool, durability: Durability, act: "Act | None" = None) -> Measured:
    import seiche

    path = kept.enter_context(quick_folder())
    seiche.create(str(path / "lake"))
    with server(path / "lake", durability) as url:
        settings = {"uri": url, "warehouse": "lake"}
        return together("pyiceberg.catalog.rest.RestCatalog", settings, clients, shared, act)


def nothing(_: ExitStack, clients: int, shared: bool) -> Measured:  # noqa: ARG001 - it has no tables
    with process(_NOTHING, typical_metadata(COMMITS[clients] // 2)) as url:
        settings = {"uri": url, "warehouse": "lake"}
        return together("pyiceberg.catalog.rest.RestCatalog", settings, clients, shared=False)


def called(table: Any) -> "Commit":
    """A call of the catalog for each commit."""
    from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

    def commit(properties: dict[str, str]) -> None:
        requirement = AssertTableUUID(uuid=table.metadata.table_uuid)
        table.catalog.commit_table(table, (requirement,), (SetPropertiesUpdate(updates=properties),))

    return commit


def sent(table: Any) -> "Commit":
    """A request to the catalog for each commit, over a connection that stays open."""
    address = urlsplit(table.catalog.uri)
    path = f"/v1/lake/namespaces/bench/tables/{table.name()[-1]}"
    requirement = {"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)}
    connection = http.client.HTTPConnection(address.hostname or "", address.port)

    def commit(properties: dict[str, str]) -> None:
        update = {"action": "set-properties", "updates": properties}
        body = json.dumps({"requirements": [requirement], "updates": [update]})
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        with connection.getresponse() as answer:
            if b'"metadata-location"' not in answer.read() or answer.status != 200:
                raise RuntimeError(f"{answer.status} {answer.reason}")

    return commit


# Commits properties. What makes one of a table that PyIceberg has loaded.
Commit = Callable[[dict[str, str]], None]
Act = Callable[[Any], Commit]
Catalogs = dict[str, Callable[[ExitStack, int, bool], Measured]]
CATALOGS: Catalogs = {
    "PyIceberg on SQLite": sqlite,
    "Seiche": partial(ours, durability="os"),
    "Seiche with fsync": partial(ours, durability="fsync"),
    "nothing": nothing,
}
BARE: Catalogs = {
    "PyIceberg on SQLite": partial(sqlite, act=called),
    "Seiche": partial(ours, durability="os", act=sent),
    "Seiche with fsync": partial(ours, durability="fsync", act=sent),
}


def typical_metadata(commits: int) -> str:
    """The metadata of a table in the middle of a run, as JSON: it grows with its log of earlier files."""
    import seiche
    from seiche.lake.iceberg.metadata import json_of

    with folder() as path:
        lake = seiche.create(str(path / "lake"))
        lake.create_namespace("bench")
        lake.create_table("bench.t0", SCHEMA, format="iceberg")
        for number in range(commits):
            with lake.transaction() as transaction:
                transaction.set_properties("bench.t0", {"k0": str(number)})
        return json_of(lake.transaction().iceberg("bench.t0").metadata).decode()


def server(path: Path, durability: Durability) -> AbstractContextManager[str]:
    """The gateway in a process of its own, as in real life."""
    return process(_SERVER, str(path), durability)


@contextmanager
def process(program: str, *arguments: str) -> Iterator[str]:
    """A server, by its program; it says where it is."""
    running = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        if running.stdout is None:
            raise RuntimeError("no output")
        yield running.stdout.readline().strip()
    finally:
        running.kill()
        running.wait()
        if running.stdout is not None:
            running.stdout.close()


def catalog(kind: str, settings: dict[str, str]) -> Any:
    import importlib

    module, _, name = kind.rpartition(".")
    return getattr(importlib.import_module(module), name)("bench", **settings)


def together(kind: str, settings: dict[str, str], clients: int, shared: bool, act: Act | None = None) -> Measured:
    """What all clients did, who begin at the same moment."""
    made = catalog(kind, settings)
    made.create_namespace("bench")
    for number in range(1 if shared else clients):
        made.create_table(f"bench.t{number}", SCHEMA)
    barrier, told = _CONTEXT.Barrier(clients + 1), _CONTEXT.Queue()
    processes = [
        _CONTEXT.Process(
            target=work, args=(kind, settings, 0 if shared else number, number, COMMITS[clients], act, barrier, told)
        )
        for number in range(clients)
    ]
    for process in processes:
        process.start()
    barrier.wait(120)
    began = time.perf_counter()
    answers: list[Measured] = [_answer(told, processes) for _ in processes]
    took = time.perf_counter() - began
    for process in processes:
        process.join()
    return replace(added(answers), took=took)


def _answer(told: Any, processes: list[Any]) -> Measured:
    while True:
        try:
            found: Measured = told.get(timeout=10)
        except queue.Empty:
            if any(one.exitcode for one in processes):
                raise RuntimeError("a client has failed") from None
        else:
            return found


def work(
    kind: str,
    settings: dict[str, str],
    table: int,
    client: int,
    commits: int,
    act: Act | None,
    barrier: Any,
    told: Any,
) -> None:
    """One client. A warm-up first: opening the catalog is not what is measured."""
    opened = catalog(kind, settings).load_table(f"bench.t{table}")
    commit = (act or transacted)(opened)
    for number in range(3):
        attempt(opened, commit, {f"w{client}": str(number)}, Measured())
    measured = Measured()
    barrier.wait()
    for number in range(commits):
        attempt(opened, commit, {f"k{client}": str(number)}, measured)
    told.put(measured)


def transacted(table: Any) -> Commit:
    """A transaction of PyIceberg for each commit."""

    def commit(properties: dict[str, str]) -> None:
        with table.transaction() as transaction:
            transaction.set_properties(properties)

    return commit


def attempt(table: Any, commit: Commit, properties: dict[str, str], measured: Measured) -> None:
    """One commit, again until it is there."""
    began = time.perf_counter()
    for _ in range(MOST_TRIES):
        try:
            commit(properties)
        except Exception:
            measured.refused += 1
            try:
                table.refresh()
            except Exception:
                measured.refused += 1
        else:
            measured.seconds.append(time.perf_counter() - began)
            return
    measured.failed += 1


PARTS: dict[str, Callable[[], Iterable[Table]]] = {
    "own": lambda: [compared(shared=False)],
    "shared": lambda: [compared(shared=True)],
    "bare": lambda: [bare()],
}
