"""A lake of a million tables: what looking one up, committing one and listing a namespace cost.

Counts of node files are exact and the same in each run; times are of this machine, now.
"""

import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from uuid import UUID

import seiche
from bench.report import Table
from seiche.core.runtime import SYSTEM, Runtime
from seiche.lake.objects import keys, rows
from seiche.lake.tree.create import create_lake
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.latest import latest_root, write_hint
from seiche.lake.tree.names import HINT
from seiche.lake.tree.node import EMPTY, Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.transactions import TransactionRecord
from seiche.lake.tree.tree import Tree
from seiche.store import Store, open_store
from seiche.testing import CountingStore

TABLES = 1_000_000
ROOTS = 100_000
COMMITS = 5_000
IN_A_NAMESPACE = 1_000


def run() -> Iterable[Table]:
    for part in PARTS.values():
        yield from part()


def million() -> Iterable[Table]:
    """Build the lake in a process of its own, so that the memory shown is that of using it."""
    shape = Shape()
    with tempfile.TemporaryDirectory() as directory:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            node, built = pool.submit(build, directory, shape, TABLES).result()
        store = open_store(directory, durability="os")
        tree = Tree(node, Nodes(store), shape)
        before = memory()
        figures = [
            *built,
            *look_up(store, tree),
            *commit(store, tree),
            *list_namespace(store, tree),
            *as_a_user(directory),
            ("memory beyond the interpreter's", f"{memory() - before} MiB", ""),
        ]
    note = "The bar: at most 4 node reads for a look-up, at most 2 node writes for a commit, on average."
    yield Table(f"A lake of {TABLES:,} tables", ("what", "figure", "time"), figures, note)


def root_files() -> Iterable[Table]:
    """How large roots are, and what it costs to write and to read one."""
    columns = ("keys in the root", "messages", "KiB", "encode us", "decode us")
    yield Table("Root files", columns, list(codec(Shape())))


def latest() -> Iterable[Table]:
    """Finding the newest of many roots, with hints of all kinds."""
    with tempfile.TemporaryDirectory() as directory:
        inner = open_store(directory, durability="os")
        store = CountingStore(inner)
        base, made = create_lake(inner)
        now = SYSTEM.clock.now()
        for version in range(1, ROOTS):
            base = base.successor(EMPTY, root_id=table_id(version), transactions=[], now=now, storage_time=now)
            inner.put_if_absent(base.name, base.encode(made.order), durable=False)
        rows = []
        hints = {
            "right": ROOTS - 1, "none": None, "ten behind": ROOTS - 11, "of the first": 0, "ahead": 10 * ROOTS,
            "garbage": -1,
        }  # fmt: skip
        for hint, said in hints.items():
            inner.delete(HINT)
            if said is not None:
                inner.note(HINT, b"%d" % said if said >= 0 else b"\x00garbage")
            store.reset()
            began = time.perf_counter()
            assert latest_root(store).version == ROOTS - 1
            spent = time.perf_counter() - began
            verbs = ", ".join(f"{count} {verb}" for verb, count in sorted(store.counts.items()))
            rows.append((hint, store.requests, verbs, f"{spent * 1e3:.2f} ms"))
    note = "The last of them reads the root. The bar: at most 40, with a hint 2 to find it."
    yield Table(f"Finding the latest of {ROOTS:,} roots", ("hint", "requests", "by verb", "time"), rows, note)


Figure = tuple[str, str, str]


def build(directory: str, shape: Shape, tables: int) -> tuple[Node, list[Figure]]:
    """Write the whole tree at once."""
    store = open_store(directory, durability="os")
    files = size = 0

    def put(path: str, data: bytes) -> None:
        nonlocal files, size
        files += 1
        size += len(data)
        store.put_if_absent(path, data, durable=False)

    began = time.perf_counter()
    tree = Tree.build(items(tables), Nodes(store), shape, put=put)
    first, made = create_lake(store)
    now = SYSTEM.clock.now()
    lake = first.successor(tree.root, root_id=table_id(0), transactions=[], now=now, storage_time=now)
    store.put_if_absent(lake.name, lake.encode(made.order), durable=False)
    write_hint(store, lake.version)
    levels = tree.root.level + 1
    what = f"{files} nodes on {levels} levels, {size >> 20} MiB"
    return tree.root, [("built", what, f"{time.perf_counter() - began:.0f} s")]


def items(tables: int) -> Iterator[tuple[bytes, bytes]]:
    """The rows of tables by name, then by id, ascending."""
    for number in range(tables):
        yield keys.table_key(name(number)), row(number)
    ids = sorted((table_id(number), number) for number in range(tables))
    for text, number in ids:
        yield keys.id_key(text), rows.encode(rows.ObjectNameRow(key=keys.table_key(name(number))))


def name(number: int) -> tuple[str, str]:
    """The name of a table."""
    return f"namespace{number // IN_A_NAMESPACE:05}", f"table{number % IN_A_NAMESPACE:05}"


def table_id(number: int) -> str:
    """The id of a table: spread like a random one, but the same in each run."""
    return str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)))


def row(number: int, version: int = 1) -> bytes:
    """A table's row, as large as a real one."""
    manifest = rows.Manifest(
        path=f"_staged/{table_id(number + version)}.manifest",
        transaction=table_id(number + version),
        sha256=table_id(number).replace("-", "").encode(),
        size=12_345,
    )
    location = f"0101/1100/0011/10101010-{table_id(number)}.lance"
    # Of another's table nothing is published, and there is nothing here that could be.
    table = rows.TableRow(
        id=table_id(number), type="external", location=location, table_version=version, manifest=manifest
    )
    return rows.encode(table)


def look_up(store: Store, tree: Tree, count: int = 500) -> Iterator[Figure]:
    """By name, first each time with nothing in memory but the root."""
    chance = random.Random(7)
    reads = []
    began = time.perf_counter()
    for _ in range(count):
        nodes = Nodes(store)
        assert Tree(tree.root, nodes, tree.shape).get(keys.table_key(name(chance.randrange(TABLES)))) is not None
        reads.append(nodes.reads + 1)
    each = (time.perf_counter() - began) / count
    yield "look up, cold", f"{max(reads)} node reads at most, the root's included", f"{each * 1e3:.2f} ms"
    began = time.perf_counter()
    for _ in range(10 * count):
        tree.get(keys.table_key(name(chance.randrange(TABLES // 100))))
    yield "look up, nodes in memory", "", f"{(time.perf_counter() - began) / count / 10 * 1e6:.0f} us"


def commit(store: Store, tree: Tree) -> Iterator[Figure]:
    """One table each time, chosen at random, and the transaction's own key."""
    chance = random.Random(8)
    runtime = Runtime(SYSTEM.clock, chance)
    nodes = Nodes(store)
    tree = Tree(tree.root, nodes, tree.shape)
    written, times = [], []
    for version in range(COMMITS):
        began = time.perf_counter()
        txn = str(runtime.uuid())
        number = chance.randrange(TABLES)
        outcome = rows.encode(rows.TransactionRow(version=version, decided_at_millis=1_700_000_000_000 + version))
        messages = [
            (keys.table_key(name(number)), row(number, version), txn),
            (keys.transaction_key(txn), outcome, txn),
        ]
        change = tree.apply(messages, runtime)
        store.put_many(change.files, durable=False)
        root(change.tree.root, txn, version).encode(tree.shape.order)
        times.append(time.perf_counter() - began)
        written.append(len(change.files) + 1)
        tree = change.tree
    alone = written.count(1) / COMMITS
    yield "commit one table", f"{statistics.mean(written):.3f} node writes on average, {max(written)} at most", ""
    yield "", f"{alone:.1%} of commits write only the root; {nodes.reads / COMMITS:.3f} node reads each", ""
    yield "build and encode a root", "flushes included", percentiles(times)


def list_namespace(store: Store, tree: Tree) -> Iterator[Figure]:
    """All tables of a namespace in the middle, with nothing in memory but the root."""
    nodes = Nodes(store)
    began = time.perf_counter()
    found = list(Tree(tree.root, nodes, tree.shape).scan(*keys.tables_of(name(TABLES // 2)[:1])))
    spent = time.perf_counter() - began
    yield "list a namespace", f"{len(found)} tables, {nodes.reads + 1} node reads", f"{spent * 1e3:.1f} ms"


def as_a_user(directory: str, count: int = 500) -> Iterator[Figure]:
    """The same through the lake itself: opened, looked into, committed to and listed."""
    store = CountingStore(open_store(directory, durability="os"))
    began = time.perf_counter()
    lake = seiche.open(store)
    yield "open the lake", f"{store.requests} requests", f"{(time.perf_counter() - began) * 1e3:.1f} ms"
    chance = random.Random(9)
    named = [name(chance.randrange(TABLES)) for _ in range(count)]
    nodes, times = lake.states.nodes, []
    for one in named:
        began = time.perf_counter()
        with lake.transaction() as tx:
            tx.set_properties(one, {"owner": "bench"})
        times.append(time.perf_counter() - began)
    what = f"{nodes.reads / count:.2f} node reads each, {store.writes / count:.2f} writes of any kind"
    yield "commit properties of one", what, percentiles(times)
    began = time.perf_counter()
    found = lake.tables(named[0][:1])
    yield "list a namespace", f"{len(found)} tables", f"{(time.perf_counter() - began) * 1e3:.1f} ms"


def codec(shape: Shape) -> Iterator[tuple[int, int, int, str, str]]:
    """Encoding and decoding roots of several sizes."""
    for filled, messages in ((0, 0), (0, 200), (127, 200), (127, 400)):
        table = [(keys.table_key(name(number)), row(number)) for number in range(filled)]
        children = tuple(f"0101/1100/0011/10101010-node-{table_id(n)}.ipc#0a1b2c3d" for n in range(filled + 1))
        buffer = {keys.table_key(name(n)): (row(n), table_id(n)) for n in range(5_000, 5_000 + messages)}
        node = Node(1, tuple(k for k, _ in table), tuple(v for _, v in table), children, buffer) if filled else EMPTY
        made = root(node if filled else Node(buffer=buffer), table_id(1), 1)
        data = made.encode(shape.order)
        encoding, decoding = timed(lambda: made.encode(shape.order)), timed(lambda: Root.decode(data, 1))  # noqa: B023
        yield filled, messages, len(data) >> 10, f"{encoding:.0f}", f"{decoding:.0f}"


def root(node: Node, txn: str, version: int) -> Root:
    """A root as a commit would write it."""
    first = Root(
        version=version - 1 if version else 0, root_id=txn, node=EMPTY, definition="d#00000000", created_at_millis=1
    )
    now = SYSTEM.clock.now()
    record = TransactionRecord(txn, first.version, keys=(keys.table_key(name(version)),))
    return first.successor(node, root_id=txn, transactions=[record], now=now, storage_time=now)


def timed(act: Callable[[], object], rounds: int = 50) -> float:
    """Microseconds of the quickest of several calls."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        act()
        best = min(best, time.perf_counter() - began)
    return best * 1e6


def percentiles(times: list[float]) -> str:
    """Median, 99th percentile and the longest."""
    ordered = sorted(times)
    middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"median {middle * 1e3:.2f} ms, p99 {late * 1e3:.1f} ms, longest {ordered[-1] * 1e3:.1f} ms"


def memory() -> int:
    """The most that this process has used so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


PARTS: Mapping[str, Callable[[], Iterable[Table]]] = {"million": million, "roots": root_files, "latest": latest}
