"""Lakes for tests of roots: a chain of versions with nothing but transactions in it."""

from datetime import timedelta
from typing import Any

from seiche.core.retry import Patience
from seiche.core.runtime import Runtime
from seiche.lake.objects.keys import transaction_key
from seiche.lake.tree.create import create_lake
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.names import root_name
from seiche.lake.tree.node import EMPTY
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.swap import SETTLING, Lost, Won, publish, stage
from seiche.lake.tree.transactions import TransactionRecord
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store

# So small that roots of a short chain already flush.
SHAPE = Shape(order=8, node_bytes=8 << 10, root_buffer_bytes=1_000)


def a_root(version: int = 0, **fields: Any) -> Root:
    """A root by itself."""
    values: dict[str, Any] = {
        "root_id": f"root-{version}",
        "node": EMPTY,
        "definition": "_lakehouse_def_x.binpb#01234567",
        "created_at_millis": 1000 + version,
    }
    if version:
        values |= {"prev_storage_micros": 1, "prev_eff_micros": 1}
    return Root(version=version, **(values | fields))


def follow(store: Store, base: Root, runtime: Runtime, txn: str = "", **fields: Any) -> Root:
    """A root that could follow `base`, with one transaction in it; its files are written."""
    txn = txn or str(runtime.uuid())
    change = Tree(base.node, Nodes(store), SHAPE).apply([(transaction_key(txn), b"done", txn)], runtime)
    stage(store, change.files, runtime=runtime)
    record = TransactionRecord(txn, base.version, keys=(transaction_key(txn),))
    return base.successor(
        change.tree.root,
        root_id=str(runtime.uuid()),
        transactions=[record],
        now=runtime.clock.now(),
        storage_time=store.head(base.name).modified,
        **fields,
    )


def commit(store: Store, base: Root, runtime: Runtime, txn: str = "", patience: Patience = SETTLING) -> Won | Lost:
    """One attempt at the version after `base`."""
    root = follow(store, base, runtime, txn)
    absent = [transaction_key(root.transactions[0].id)]
    return publish(store, root, base, order=128, absent=absent, patience=patience, runtime=runtime)


def chain(store: Store, versions: int, runtime: Runtime) -> list[Root]:
    """A lake with this many versions after the first, a second apart."""
    roots = [create_lake(store, runtime=runtime)[0]]
    for _ in range(versions):
        runtime.clock.sleep(timedelta(seconds=1).total_seconds())
        outcome = commit(store, roots[-1], runtime)
        assert isinstance(outcome, Won)
        roots.append(outcome.root)
    return roots


def fake_roots(store: Store, first: int, last: int) -> None:
    """Files under the names of many roots; only the last one can be read."""
    for version in range(first, last):
        store.put(root_name(version), b"")
    store.put(root_name(last), a_root(last).encode(128))
