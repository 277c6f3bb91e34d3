"""Nodes by their pointers: read from storage once, kept in memory, because a node file never changes."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

from seiche.core.forked import renew_in_children
from seiche.errors import Corrupt, NotFound
from seiche.lake.tree import node_file
from seiche.lake.tree.node import Node
from seiche.lake.tree.pointer import Pointer, target
from seiche.store.base import Store

__all__ = ["Nodes"]

CACHE_BYTES: Final = 32 << 20
# What a cell takes in memory besides its bytes, and what a message takes: several times what they take in a file.
_PER_CELL: Final = 41
_PER_MESSAGE: Final = 300


class Nodes:
    """The nodes of one store, with the most recently used ones in memory. Safe to share between threads.

    A cached node needs no check: its path was never used for anything else, and never will be.
    """

    def __init__(self, store: Store, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.store = store
        self.reads = 0
        self._capacity = cache_bytes
        self._size = 0
        self._cached: OrderedDict[Pointer, tuple[Node, int]] = OrderedDict()
        self._lock = Lock()
        renew_in_children(self)

    def forked(self) -> None:
        if self._lock.locked():  # by a thread that was in the middle of changing it
            self._cached, self._size = OrderedDict(), 0
        self._lock = Lock()

    @property
    def cached_bytes(self) -> int:
        """About what the nodes in memory take there."""
        return self._size

    def load(self, pointer: Pointer) -> Node:
        """The node behind a pointer; `Corrupt` if its file is damaged, missing or another than the pointer means."""
        node = self._recall(pointer)
        return self._fetch([pointer])[0] if node is None else node

    def load_many(self, pointers: Sequence[Pointer]) -> list[Node]:
        """Several nodes in the order asked for; those that are not in memory are read in parallel."""
        nodes = {pointer: self._recall(pointer) for pointer in pointers}
        missing = [pointer for pointer, node in nodes.items() if node is None]
        found = dict(zip(missing, self._fetch(missing), strict=True)) if missing else {}
        return [nodes[pointer] or found[pointer] for pointer in pointers]

    def keep(self, pointer: Pointer, node: Node) -> None:
        """Remember a node that was just made, so that nobody here has to read it back."""
        size = node.size + 2 * _PER_CELL * len(node.keys) + _PER_MESSAGE * len(node.buffer)
        with self._lock:
            if pointer in self._cached:
                return
            self._cached[pointer] = node, size
            self._size += size
            while self._size > self._capacity:
                _, (_, size) = self._cached.popitem(last=False)
                self._size -= size

    def _recall(self, pointer: Pointer) -> Node | None:
        with self._lock:
            entry = self._cached.get(pointer)
            if entry is None:
                return None
            self._cached.move_to_end(pointer)
            return entry[0]

    def _fetch(self, pointers: Sequence[Pointer]) -> list[Node]:
        targets = [target(pointer) for pointer in pointers]
        try:
            files = self.store.get_many(path for path, _ in targets)
        except NotFound as error:
            raise Corrupt(
                f"a node of the tree is missing: {error.message}",
                remedy="Open a version that is still kept, or restore the file; `seiche fsck` names what needs it.",
                paths=[path for path, _ in targets],
            ) from error
        nodes = []
        for pointer, (path, crc), data in zip(pointers, targets, files, strict=True):
            node, _ = node_file.decode(data, path, crc=crc)
            self.keep(pointer, node)
            nodes.append(node)
        with self._lock:
            self.reads += len(nodes)
        return nodes
