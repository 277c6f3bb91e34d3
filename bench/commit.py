"""Commits to one table, against pylance in the same run: one appender, and many at once.

Data files are written once and named by every commit, so that only the commit is measured. Each writer has a table of
its own, and they go in turns. `LanceDataset.commit` takes an address, as its documentation shows it, or a dataset that
is open, which is quicker: Seiche's open table is measured against that, and a table that is opened for each commit
against the address. Bars: one appender 8 times as fast as pylance at 10 fragments and 10 times at 100,000
without fsync, 2 and 5 times with; 16 processes 10 times pylance's throughput without fsync and 4 times with, p99 under
a second, no failures. pylance itself never calls fsync.
"""

import json
import multiprocessing
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from bench._folders import folder, quick_folder
from bench.report import Table
from seiche import Table as SeicheTable
from seiche.store import open_store
from seiche.store.local import Durability
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Append
from seiche.testing import CountingStore

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
KINDS = ("pylance", "os", "fsync")
ROUNDS = 5
PROCESSES = 16
COMMITS = 100
_CONTEXT = multiprocessing.get_context("spawn")


def run() -> Iterable[Table]:
    for part in PARTS.values():
        yield from part()


def prepared(path: Path, fragments: int) -> FragmentMetadata:
    """A table with this many fragments, all naming one data file; returns the fragment to append."""
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, schema=SCHEMA)
    lance.write_dataset(rows.slice(0, 0), path)
    (fragment,) = write_fragments(rows, str(path))
    lance.LanceDataset.commit(str(path), lance.LanceOperation.Append([fragment] * fragments), read_version=1)
    return fragment


def in_turns(actions: Mapping[str, Callable[[], object]], times: int) -> dict[str, float]:
    """Milliseconds of the median run of each, a few runs of one and then of the next: so whatever else the machine does
    hits all of them.
    """
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            for _ in range(times // ROUNDS):
                begin = time.perf_counter()
                action()
                taken[name].append(time.perf_counter() - begin)
    return {name: median(times) * 1000 for name, times in taken.items()}


def pylance_append(path: Path, fragment: FragmentMetadata, *, anew: bool = False) -> Callable[[], object]:
    held = [lance.dataset(str(path))]

    def append() -> None:
        dataset = held[0]
        held[0] = lance.LanceDataset.commit(
            str(path) if anew else dataset, lance.LanceOperation.Append([fragment]), read_version=dataset.version
        )

    return append


def seiche_append(
    path: Path, fragment: DataFragment, durability: Durability, *, anew: bool = False
) -> Callable[[], object]:
    if anew:
        return lambda: SeicheTable.open(str(path), durability=durability).commit(Append((fragment,)))
    table = SeicheTable.open(str(path), durability=durability)
    return lambda: table.commit(Append((fragment,)))


def _appender(kind: str, path: Path, fragments: int, *, anew: bool) -> Callable[[], object]:
    """What appends to a table of its own, which is opened once, or `anew` for each commit."""
    fragment = prepared(path / "t", fragments)
    if kind == "pylance":
        return pylance_append(path / "t", fragment, anew=anew)
    return seiche_append(path / "t", fragment_from_lance(fragment), "os" if kind == "os" else "fsync", anew=anew)


def single(*, anew: bool = False) -> Table:
    rows = []
    for fragments, times in ((10, 300), (1_000, 200), (100_000, 20)):
        with ExitStack() as kept:
            paths = {kind: kept.enter_context(quick_folder()) for kind in KINDS}
            appenders = {kind: _appender(kind, path, fragments, anew=anew) for kind, path in paths.items()}
            pylance, plain, synced = in_turns(appenders, times).values()
            rows.append((fragments, pylance, plain, pylance / plain, synced, pylance / synced))
    opened = "opened for each commit" if anew else "opened once"
    return Table(
        f"one appender, the table {opened}, milliseconds per commit (median)",
        ("fragments", "pylance", "Seiche", "times as fast", "Seiche with fsync", "times as fast"),
        rows,
        "" if anew else "bars: 8 and 2 times at 10 fragments, 10 and 5 times at 100,000",
    )


def _commit_many(kind: str, path: str, encoded: bytes, metadata: str, start: object, results: object) -> None:
    """One process of the crowd: open, wait for the others, commit, report how long each commit took."""
    taken: list[float] = []
    failed = 0
    if kind == "pylance":
        append = pylance_append(Path(path), FragmentMetadata.from_json(metadata))
    else:
        append = seiche_append(Path(path), DataFragment.FromString(encoded), "os" if kind == "os" else "fsync")
    start.wait()  # type: ignore[attr-defined]
    for _ in range(COMMITS):
        begin = time.perf_counter()
        try:
            append()
        except Exception:
            failed += 1
        taken.append(time.perf_counter() - begin)
    results.put((taken, failed))  # type: ignore[attr-defined]
    start.wait()  # type: ignore[attr-defined]  # a process that ends takes time from those that still work


def crowd() -> Table:
    rows = []
    baseline = 0.0
    for kind in KINDS:
        with quick_folder() as path:
            fragment = prepared(path / "t", 10)
            encoded = fragment_from_lance(fragment).SerializeToString()
            start, results = _CONTEXT.Barrier(PROCESSES + 1), _CONTEXT.Queue()
            arguments = (kind, str(path / "t"), encoded, json.dumps(fragment.to_json()), start, results)
            workers = [_CONTEXT.Process(target=_commit_many, args=arguments) for _ in range(PROCESSES)]
            for worker in workers:
                worker.start()
            start.wait()
            begin = time.perf_counter()
            reports = [results.get() for _ in workers]
            elapsed = time.perf_counter() - begin
            start.wait()
            for worker in workers:
                worker.join()
            taken = sorted(one for times, _ in reports for one in times)
            failed = sum(failures for _, failures in reports)
            rate = (PROCESSES * COMMITS - failed) / elapsed
            baseline = baseline or rate
            name = {"pylance": "pylance", "os": "Seiche", "fsync": "Seiche with fsync"}[kind]
            p99 = taken[int(len(taken) * 0.99)] * 1000
            rows.append((name, rate, rate / baseline, median(taken) * 1000, p99, failed))
            table = lance.dataset(str(path / "t"))
            table.validate()  # type: ignore[no-untyped-call]
            assert len(table.versions()) == table.version, "versions are not contiguous"
            if kind != "pylance":
                assert table.version == 2 + PROCESSES * COMMITS
    return Table(
        f"{PROCESSES} processes, {COMMITS} commits each, to one table",
        ("writer", "commits/s", "times pylance", "median ms", "p99 ms", "failed"),
        rows,
        "bars: 10 times without fsync, 4 times with; p99 under 1000 ms; none failed",
    )


def memory() -> Table:
    with folder() as path:
        fragment = fragment_from_lance(prepared(path / "t", 100_000))
        size = max(one.stat().st_size for one in (path / "t/_versions").iterdir())
        tracemalloc.start()
        SeicheTable.open(str(path / "t"), durability="os").commit(Append((fragment,)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return Table(
        "memory of an append to 100,000 fragments, opening included",
        ("manifest MB", "peak MB", "times the manifest"),
        [(size / 1e6, peak / 1e6, peak / size)],
        "bar: under 4 times; counts what Python allocates, not what the protobuf library does",
    )


def requests() -> Table:
    with folder() as path:
        fragment = fragment_from_lance(prepared(path / "t", 10))
        store = CountingStore(open_store(str(path / "t")))
        table = SeicheTable.open(store)
        table.commit(Append((fragment,)))
        store.reset()
        table.commit(Append((fragment,)))
        counts = ", ".join(f"{count} {verb}" for verb, count in sorted(store.counts.items()))
        return Table(
            "storage requests of one append, local disk, warm",
            ("reads", "writes", "by verb"),
            [(store.reads, store.writes, counts)],
        )


PARTS: Mapping[str, Callable[[], Iterable[Table]]] = {
    "single": lambda: [single(), single(anew=True)],
    "crowd": lambda: [crowd()],
    "memory": lambda: [memory()],
    "requests": lambda: [requests()],
}
