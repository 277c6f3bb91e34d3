"""The tree as a value: look up, scan, and derive the next one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput
from seiche.lake.tree import node_file, search
from seiche.lake.tree.draft import Draft, Shape
from seiche.lake.tree.flush import Flush
from seiche.lake.tree.names import optimised
from seiche.lake.tree.node import Message, Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.pointer import Pointer, pointer
from seiche.lake.tree.search import Item

__all__ = ["Change", "Tree"]


@dataclass(frozen=True, slots=True)
class Change:
    """A tree that does not exist yet: it does once `files` are written and a root with `tree.root` is published."""

    tree: "Tree"
    files: Mapping[str, bytes]
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tree:
    """A B-epsilon tree from keys to values, both bytes, at one version. It never changes; `apply` makes another one."""

    root: Node
    nodes: Nodes
    shape: Shape

    def get(self, key: bytes) -> bytes | None:
        """The value of `key`, or None."""
        return search.get(self.root, key, self.nodes)

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
        """The items with `start <= key < stop`, ascending, read as they are asked for."""
        return search.scan(self.root, self.nodes, start, stop)

    def scan_prefix(self, prefix: bytes) -> Iterator[Item]:
        """The items whose keys begin with `prefix`, ascending."""
        return self.scan(prefix, search.after_prefix(prefix))

    def walk(self, *, leaves: bool = False, seen: set[Pointer] | None = None) -> Iterator[Pointer]:
        """Pointers to all nodes below the root; see `seiche.lake.tree.search.walk`."""
        return search.walk(self.root, self.nodes, leaves=leaves, seen=seen)

    def apply(self, messages: Iterable[tuple[bytes, bytes | None, str]], runtime: Runtime = SYSTEM) -> Change:
        """This tree with `(key, value or None to delete, transaction id)` applied, the last word on a key counting.

        The messages themselves always stay in the new root; older ones may move down, into new files. Nodes that are
        not touched are shared with this tree. A key that is written again replaces its old message, so a table that
        is committed to a thousand times takes no more room than one that was committed to once.
        """
        messages = list(messages)
        own = {key for key, _, _ in messages}
        if b"" in own:
            raise InvalidInput("the empty key cannot stand in the tree", remedy="Give every row a key.")
        root = self.root.buffering(messages)
        flush = Flush(self.nodes, self.shape)
        files: dict[str, bytes] = {}
        if flush.excess(root) > 0:
            root = _sealed(flush.root(root, own), self.nodes, self.shape, runtime, files.__setitem__)
        return Change(Tree(root, self.nodes, self.shape), files, flush.counts)

    @classmethod
    def build(
        cls,
        items: Iterable[Item],
        nodes: Nodes,
        shape: Shape,
        *,
        put: Callable[[str, bytes], None],
        runtime: Runtime = SYSTEM,
    ) -> "Tree":
        """A tree of ascending `items`, three quarters full, each node handed to `put` as soon as it is encoded."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for key, value in items:
            if not key or (keys and key <= keys[-1]):
                raise InvalidInput(
                    f"key {key!r} does not come after the one before it", remedy="Sort the items by key."
                )
            keys.append(key)
            values.append(value)
        flush = Flush(nodes, shape)
        draft = flush.grown(Draft(0, keys, values, []), max(2, shape.most_keys * 3 // 4))
        return cls(_sealed(draft, nodes, shape, runtime, put), nodes, shape)


def _sealed(draft: Draft, nodes: Nodes, shape: Shape, runtime: Runtime, put: Callable[[str, bytes], None]) -> Node:
    """The draft as a node, after all drafts below it have got their files: a parent names the checksums of its
    children.
    """
    children = []
    for child in draft.children:
        if isinstance(child, Draft):
            node = _sealed(child, nodes, shape, runtime, put)
            path = optimised(f"node-{runtime.uuid()}.ipc")
            created = b"%d" % int(runtime.clock.now().timestamp() * 1000)
            data = node_file.encode(node, {"created_at_millis": created}, shape.order)
            put(path, data)
            child = pointer(path, node_file.checksum(data))  # noqa: PLW2901
            nodes.keep(child, node)
        children.append(child)
    buffer: Mapping[bytes, Message] = draft.buffer
    return Node(draft.level, tuple(draft.keys), tuple(draft.values), tuple(children), buffer)
