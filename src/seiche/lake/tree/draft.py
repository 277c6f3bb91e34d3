"""A node while it is being changed, and how drafts are cut in pieces and joined."""

from bisect import bisect_left
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from seiche.errors import InvalidInput
from seiche.lake.tree.node import PER_FILE, PER_ROW, Message, Node, weight
from seiche.lake.tree.pointer import Pointer

__all__ = ["Child", "Draft", "Shape"]

# What a pointer to a node that is not written yet will take: hashed path, name, id, checksum.
_POINTER_SIZE: Final = 23 + 1 + 45 + 9


@dataclass(frozen=True, slots=True)
class Shape:
    """How large nodes of a lake may become; part of its definition."""

    order: int = 128
    """The most children of a node; it has one key less."""
    node_bytes: int = 1 << 20
    """The most bytes of a node's file, before compression."""
    root_buffer_bytes: int = 128 << 10
    """The most bytes of messages in the root. Less than a node's, since every commit writes the root again."""

    def __post_init__(self) -> None:
        if self.order < 3 or self.node_bytes < 4096 or self.root_buffer_bytes < 0:
            raise InvalidInput(
                f"a tree of order {self.order} with nodes of {self.node_bytes} bytes cannot work",
                remedy="Use an order of at least 3 and nodes of at least 4096 bytes.",
            )

    @property
    def most_keys(self) -> int:
        """The most keys of a node."""
        return self.order - 1

    @property
    def least_keys(self) -> int:
        """The fewest keys of a node that is not the root; with fewer it is joined with a neighbour."""
        return (self.order + 1) // 2 - 1


@dataclass(slots=True)
class Draft:
    """A node under construction: lives only inside one change of the tree, then becomes a `Node`."""

    level: int
    keys: list[bytes]
    values: list[bytes]
    children: "list[Child]"
    buffer: dict[bytes, Message] = field(default_factory=dict)

    @classmethod
    def of(cls, node: Node) -> "Draft":
        """A draft with the content of `node`, sharing nothing that can change."""
        return cls(node.level, list(node.keys), list(node.values), list(node.children), dict(node.buffer))

    @property
    def buffer_size(self) -> int:
        """As `Node.buffer_size`."""
        return weight(self.buffer, self.buffer.values())

    @property
    def table_size(self) -> int:
        """As `Node.table_size`."""
        cells = sum(map(len, self.keys)) + sum(map(len, self.values))
        pointers = sum(_POINTER_SIZE if isinstance(child, Draft) else len(child) for child in self.children)
        return PER_FILE + cells + len(self.keys) * PER_ROW + pointers

    @property
    def size(self) -> int:
        """As `Node.size`."""
        return self.table_size + self.buffer_size

    def place(self, key: bytes) -> tuple[int, bool]:
        """As `Node.place`."""
        index = bisect_left(self.keys, key)
        return index, index < len(self.keys) and self.keys[index] == key

    def write(self, messages: Mapping[bytes, Message]) -> None:
        """Take messages into a leaf's key table. A delete of a key that is not there changes nothing."""
        table = dict(zip(self.keys, self.values, strict=True))
        for key, (value, _) in messages.items():
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        self.keys = sorted(table)
        self.values = [table[key] for key in self.keys]

    def settle(self, keep: AbstractSet[bytes] = frozenset()) -> None:
        """Take messages about this node's own keys into the key table, except those in `keep`.

        A delete stays in the buffer as a *sticky tombstone*: the key is still needed to find the way to the children
        beside it, and a key table cannot say that a key is gone.
        """
        for index, key in enumerate(self.keys):
            message = self.buffer.get(key)
            if message is not None and message[0] is not None and key not in keep:
                self.values[index] = message[0]
                del self.buffer[key]

    def cut(self, most_keys: int, most_bytes: int) -> "tuple[list[Draft], list[int]]":
        """Equal pieces that respect both limits where one key per piece allows it, and the indexes of keys between
        them.

        Messages go with the piece that covers them. Those about the keys in between are left to the caller, who puts
        these keys into the node above.
        """
        count = -(-(len(self.keys) + 1) // (most_keys + 1))
        most = (len(self.keys) + 1) // 2
        if most < 2 or (count == 1 and self.size <= most_bytes):
            return [self], []
        count = min(most, max(count, -(-self.size // most_bytes)))
        while True:
            bounds = self._bounds(count)
            pieces = self._pieces(bounds)
            if count == most or all(piece.size <= most_bytes for piece in pieces):
                return pieces, bounds
            count += 1

    def _bounds(self, count: int) -> list[int]:
        least, extra = divmod(len(self.keys) - (count - 1), count)
        bounds = []
        end = -1
        for piece in range(count - 1):
            end += 1 + least + (piece < extra)
            bounds.append(end)
        return bounds

    def _pieces(self, bounds: list[int]) -> "list[Draft]":
        pieces = []
        start = 0
        for end in [*bounds, len(self.keys)]:
            children = self.children[start : end + 1] if self.level else []
            pieces.append(Draft(self.level, self.keys[start:end], self.values[start:end], children))
            start = end + 1
        pivots = [self.keys[bound] for bound in bounds]
        for key, message in self.buffer.items():
            index = bisect_left(pivots, key)
            if index == len(pivots) or pivots[index] != key:
                pieces[index].buffer[key] = message
        return pieces

    def join(self, key: bytes, value: bytes, right: "Draft", tombstone: Message | None) -> None:
        """Take in the right neighbour and the key between, which comes down from the node above.

        If a sticky tombstone lay on that key, this is where it ends: a leaf simply drops the key, an inner node still
        needs it and takes the tombstone along.
        """
        if self.level or tombstone is None:
            self.keys.append(key)
            self.values.append(value)
        if self.level and tombstone is not None:
            self.buffer[key] = tombstone
        self.keys += right.keys
        self.values += right.values
        self.children += right.children
        self.buffer.update(right.buffer)


Child: TypeAlias = Pointer | Draft
