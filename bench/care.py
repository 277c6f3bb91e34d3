"""Keeping a lake of 100,000 files: what a clean-up and a check cost in requests, memory and time.

Requests are exact and the same in each run; time and memory are of this machine, now. The lake is made without rows:
data files of a few bytes, of which nobody here looks at more than the size.
"""

import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pyarrow as pa

import seiche
from bench.report import Table
from seiche.lake.lake import Lake
from seiche.lake.transaction import Transaction
from seiche.store import open_store
from seiche.table.change import Change
from seiche.table.format.manifest_pb2 import DataFile, DataFragment
from seiche.table.operations import Append
from seiche.testing import CountingStore

FILES = 100_000
TABLES = 20
VERSIONS = 10
SCHEMA = pa.schema([("id", pa.int64())])

Row = tuple[str, str, str, str, str]
Step = Callable[[CountingStore], str]


def run() -> Iterable[Table]:
    """Each step in a process of its own, so that the memory shown is its own."""
    with tempfile.TemporaryDirectory() as directory:
        rows = [isolated(step, directory) for step in (idle, build, plan, check, expire, collect, remove, check)]
    note = (
        f"{TABLES} tables with {VERSIONS} versions each; half of the tables are then dropped and all old versions given"
        " up. Memory is the most that a process used; that of the first row is the interpreter's."
    )
    yield Table(f"A lake of {FILES:,} files", ("step", "what", "requests", "MiB", "time"), rows, note)


def isolated(step: Step, directory: str) -> Row:
    """A step in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, step, directory).result()


def measured(step: Step, directory: str) -> Row:
    """What a step does, by requests, memory and time."""
    store = CountingStore(open_store(directory, durability="os"))
    began = time.perf_counter()
    what = step(store)
    spent = time.perf_counter() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    counts = ", ".join(f"{count:,} {verb}" for verb, count in store.counts.most_common(4))
    return step.__name__, what, counts, str(most), f"{spent:.1f} s"


def idle(_store: CountingStore) -> str:
    """Nothing but what is loaded anyway."""
    import seiche.lake.care.fsck
    import seiche.lake.care.gc  # noqa: F401

    return "the interpreter and libraries"


def build(store: CountingStore) -> str:
    """The lake."""
    lake = seiche.create(store)
    lake.create_namespace("shop")
    for number in range(TABLES):
        lake.create_table(f"shop.t{number}", SCHEMA)
    each = FILES // (TABLES * VERSIONS)
    for version in range(VERSIONS):
        with lake.transaction() as tx:
            for number in range(TABLES):
                append(tx, f"shop.t{number}", f"{version}", each)
    return f"{FILES:,} data files"


def append(tx: Transaction, name: str, label: str, count: int) -> None:
    """Fragments whose files are there, and have nothing in them."""
    table = tx.table(name)
    location = tx.edit(table.id).row.location
    fragments = []
    for number in range(count):
        path = f"{label}-{number:06}-{'x' * 32}.lance"
        tx.state.store.put(f"{location}/data/{path}", b"rows", durable=False)
        file = DataFile(
            path=path,
            fields=[0],
            column_indices=[0],
            file_major_version=2,
            file_minor_version=2,
            file_size_bytes=4,
        )
        fragments.append(DataFragment(files=[file], physical_rows=1))
    table.apply(Change(Append(tuple(fragments)), rows=count))


def opened(store: CountingStore) -> Lake:
    """The lake, with the cost of opening it left out."""
    lake = seiche.open(store)
    store.reset()
    return lake


def plan(store: CountingStore) -> str:
    """A dry run while everything is needed."""
    found = opened(store).gc(grace=0)
    return f"{found.files:,} files, {len(found.unneeded):,} unneeded"


def check(store: CountingStore) -> str:
    """`fsck`."""
    found = opened(store).fsck()
    return f"{found.versions} versions, {found.files:,} files, {len(found.problems)} problems"


def expire(store: CountingStore) -> str:
    """Half of the tables dropped, and every version but the newest given up."""
    lake = opened(store)
    with lake.transaction() as tx:
        for number in range(TABLES // 2):
            tx.drop_table(f"shop.t{number}")
    store.reset()
    return f"{len(lake.expire(older_than=0, keep=1).versions)} versions"


def collect(store: CountingStore) -> str:
    """What nothing needs goes to the trash."""
    done = opened(store).gc(dry_run=False, grace=0)
    return f"{len(done.moved):,} of {done.files:,} files moved"


def remove(store: CountingStore) -> str:
    """The trash is emptied."""
    done = opened(store).gc(dry_run=False, grace=0, window=0)
    return f"{done.removed:,} files removed"
