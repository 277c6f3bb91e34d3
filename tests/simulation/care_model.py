"""A lake whose tables have data files of a few bytes, and an oracle that knows which files must be there.

The oracle looks at every version that can be read, in the plainest way, and shares nothing with the code that decides
what may be cleared away.
"""

from collections.abc import Iterator
from datetime import timedelta

import seiche
from seiche import Lake, NotFound
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.lake.lake import open_lake
from seiche.lake.objects import rows
from seiche.lake.objects.keys import TRASH, tables_under
from seiche.lake.objects.rows import TableRow, TrashRow
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.transaction import Transaction
from seiche.lake.tree.latest import latest_root, read_root
from seiche.lake.tree.names import root_name
from seiche.lake.tree.pointer import target
from seiche.lake.versions import manifests
from seiche.store.base import Store
from seiche.table.format import file
from seiche.table.versions.naming import Naming
from seiche.testing import DictStore
from tests.simulation.lake_model import SCHEMA, TABLES, append

DAY = 86_400.0


def write(tx: Transaction, mark: str, *tables: str) -> None:
    """Append rows to tables: data files first, as always, then the statement."""
    for name in tables or TABLES:
        row = tx.table(name)
        location = tx.edit(row.id).row.location
        label = f"{name.rpartition('.')[2]}-{mark}"
        tx.state.store.put(f"{location}/data/{label}.lance", mark.encode())
        row.apply(append(label))


def committed(lake: Lake, mark: str, *tables: str) -> int:
    """A transaction of its own; returns the version that it made."""
    return lake.run_versioned(lambda tx: write(tx, mark, *tables))[1]


def moved_on(store: DictStore, seconds: float) -> None:
    """Let time pass on the clock of the storage."""
    clock = store._clock
    assert isinstance(clock, SimulatedClock)
    clock.advance(seconds)


def at(store: Store, seed: int, *, skew: float = 0.0) -> Lake:
    """The lake, as another process opens it, whose clock may be wrong."""
    runtime = Runtime.seeded(seed)
    assert isinstance(runtime.clock, SimulatedClock)
    inner = store
    while hasattr(inner, "inner"):
        inner = inner.inner
    assert isinstance(inner, DictStore)
    runtime.clock.advance((inner._clock.now() - runtime.clock.now()).total_seconds() + skew)
    return open_lake(store, runtime=runtime)


# So small that a short history has nodes below its roots.
SMALL = {"order": 4, "node_file_max_size_bytes": 4096, "root_buffer_max_size_bytes": 1500}


def past(seed: int = 0, versions: int = 4) -> DictStore:
    """A lake with some history, a few hours apart."""
    runtime = Runtime.seeded(seed)
    store = DictStore(runtime=runtime)
    lake = seiche.create(store, runtime=runtime, settings=SMALL)
    lake.create_namespace("bank")
    for table in TABLES:
        lake.create_table(table, SCHEMA)
    for number in range(versions):
        moved_on(store, 3600)
        committed(at(store, 100 + number), f"old{number}")
    moved_on(store, 3600)
    return store


def copied(store: DictStore) -> DictStore:
    """The same files with the same times, in a store of its own."""
    runtime = Runtime.seeded(0)
    clock = runtime.clock
    assert isinstance(clock, SimulatedClock)
    copy = DictStore(runtime=runtime)
    for info in sorted(store.list(), key=lambda one: one.modified):
        clock.advance((info.modified - clock.now()).total_seconds())
        copy.put(info.path, store.get(info.path))
    clock.advance((store._clock.now() - clock.now()).total_seconds())
    return copy


def live_states(store: Store) -> Iterator[State]:
    """Every version that can be read, oldest first."""
    newest = latest_root(store).version
    states = States(store, Runtime.seeded(0))
    for version in range(newest + 1):
        root = read_root(store, version)
        if root.expired_at_millis is None:
            yield states.of(root)


Spans = dict[str, tuple[int, TableRow]]


def needed(store: Store, spans: Spans | None = None) -> set[str]:
    """The files that must be there for every version to be read, and every table to be written.

    `spans` is filled with the tables: the oldest version that is needed of each, and its newest row.
    """
    found = {root_name(version) for version in range(latest_root(store).version + 1)}
    spans = {} if spans is None else spans
    state: State | None = None
    for state in live_states(store):
        root = state.root
        pointers = [root.definition, *([root.transactions_file] if root.transactions_file else []), *state.tree.walk()]
        found.update(target(pointer)[0] for pointer in pointers)
        for _, value in state.scan(tables_under(())):
            row = rows.decode(value, TableRow)
            lowest, _ = spans.get(row.id, (row.table_version, row))
            spans[row.id] = min(lowest, row.table_version), row
            found.update(f"{row.location}/{ref.path}" for _, ref in manifests(row))
    assert state is not None
    for _, value in state.tree.scan_prefix(TRASH):
        row = rows.decode(rows.decode(value, TrashRow).row, TableRow)
        if row.id in spans:
            spans[row.id] = spans[row.id][0], row
    for lowest, row in spans.values():
        for version in range(lowest, row.table_version + 1):
            found.update(_of_version(store, row, version))
    return found


def _of_version(store: Store, row: TableRow, version: int) -> Iterator[str]:
    staged = dict(manifests(row))
    path = f"{row.location}/{staged[version].path if version in staged else Naming.V2.path(version)}"
    yield path
    if version not in staged:
        yield f"{row.location}/{Naming.V2.path(version)}"
    try:
        manifest = file.decode(store.get(path), path=path).manifest
    except NotFound:
        return
    for fragment in manifest.fragments:
        yield from (f"{row.location}/data/{one.path}" for one in fragment.files)


def missing(store: Store) -> list[str]:
    """Files that are needed and not there: must be none, at any time."""
    return sorted(path for path in needed(store) if not store.exists(path))


def garbage(store: Store) -> list[str]:
    """Files that nothing needs, but for those of a clean-up itself and what only speeds things up."""
    spans: Spans = {}
    kept = needed(store, spans)
    # The newest version may be published or not.
    kept.update(f"{row.location}/{Naming.V2.path(row.table_version)}" for _, row in spans.values())
    staying = ("_latest_hint", "_oldest", "_leases/", "_noted/")
    hints = "latest_version_hint.json"
    listed = [info.path for info in store.list()]
    return [path for path in listed if path not in kept and not path.startswith(staying) and not path.endswith(hints)]


def cleaned(store: DictStore, *, keep: int = 1, seed: int = 900) -> None:
    """Expiry, then clean-up until nothing is left to do, as a diligent operator would over some weeks."""
    moved_on(store, 8 * DAY)
    at(store, seed).expire(older_than=timedelta(days=7), keep=keep)
    for number in range(3):
        at(store, seed + 1 + number).gc(dry_run=False)
        moved_on(store, 8 * DAY)
