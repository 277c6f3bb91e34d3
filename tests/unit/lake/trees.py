"""Trees for tests: a model to compare with, and shapes small enough to split, merge and flush all the time."""

from collections import Counter
from collections.abc import Iterable, Iterator

from seiche.core.runtime import Runtime
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.node import EMPTY, Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.tree import Change, Tree
from seiche.store.base import Store
from seiche.testing import DictStore

# Small enough that a handful of messages is too much for a node. The file itself takes 2400 bytes of the limit.
TIGHT = 4096


class Grove:
    """A tree and the dictionary that it must always equal; each `commit` is one transaction."""

    def __init__(self, shape: Shape, *, store: Store | None = None, cache_bytes: int = 1 << 20, seed: int = 0) -> None:
        self.runtime = Runtime.seeded(seed)
        self.store = DictStore(runtime=self.runtime) if store is None else store
        self.tree = Tree(EMPTY, Nodes(self.store, cache_bytes=cache_bytes), shape)
        self.model: dict[bytes, bytes] = {}
        self.counts: Counter[str] = Counter()
        self.commits = self.files = 0

    def commit(self, messages: Iterable[tuple[bytes, bytes | None]]) -> Change:
        """Apply the messages to the tree and to the model, and write the files."""
        txn = f"txn-{self.commits}"
        made = [(key, value, txn) for key, value in messages]
        change = self.tree.apply(made, self.runtime)
        self.store.put_many(change.files)
        for key, value, _ in made:
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value
        self.tree = change.tree
        self.counts.update(change.counts)
        self.commits += 1
        self.files += len(change.files) + 1
        return change

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """Every node with its distance from the root."""
        waiting = [(0, self.tree.root)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting += [(depth + 1, child) for child in self.tree.nodes.load_many(node.children)]


def check_shape(grove: Grove) -> None:
    """The invariants of the tree: limits, order, levels, who may have a buffer, and that a key stands in one place."""
    shape = grove.tree.shape
    standing: Counter[bytes] = Counter()
    for depth, node in grove.nodes():
        assert node.level == grove.tree.root.level - depth
        assert len(node.keys) <= shape.most_keys
        assert list(node.keys) == sorted(set(node.keys))
        assert len(node.children) == (len(node.keys) + 1 if node.level else 0)
        standing.update(node.keys)
        if depth:
            assert node.size <= shape.node_bytes or len(node.keys) <= 2
            assert node.level or not node.buffer
    assert not standing or max(standing.values()) == 1
