"""One node of the tree, as a value."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, TypeAlias

from seiche.lake.tree.pointer import Pointer
from seiche.lake.tree.spelling import NOTHING, Spelling

__all__ = ["EMPTY", "PER_FILE", "PER_ROW", "Message", "Node", "weight"]

# Bytes that a row takes in a file besides its cells: four offsets and four validity bits, rounded up.
PER_ROW: Final = 18
# Everything in a file that is not a row: Arrow's schema (twice), batch header and footer, the system rows of a plain
# node.
PER_FILE: Final = 2_400


# A change that waits in a write buffer: the new value, or None for a delete, and the transaction it came with. A plain
# tuple, because a root makes hundreds of them each time it is read.
Message: TypeAlias = tuple[bytes | None, str]
_VALUE: Final = itemgetter(0)
_TXN: Final = itemgetter(1)


@dataclass(frozen=True, slots=True)
class Node:
    """Sorted keys with their values, the children between them, and messages that have not travelled further down yet.

    A key stands in exactly one key table of the tree, also in an inner node: its value is there, not in a leaf. What a
    buffer says about a key overrides this node's key table and everything below. Leaves (level 0) have no children and,
    unless they are the root, no buffer. `buffer` is never changed in place; a key has at most one message in it.
    """

    level: int = 0
    keys: tuple[bytes, ...] = ()
    values: tuple[bytes, ...] = ()
    children: tuple[Pointer, ...] = ()
    buffer: Mapping[bytes, Message] = field(default_factory=dict)
    # `buffer_size` and `buffered`, once they were asked for.
    _buffer_size: int = field(default=-1, init=False, repr=False, compare=False)
    _buffered: list[bytes] | None = field(default=None, init=False, repr=False, compare=False)
    # A spelling, and the messages that are missing in it. One field, so that whoever looks finds both or neither.
    _spelled: tuple[Spelling, Mapping[bytes, Message]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def place(self, key: bytes) -> tuple[int, bool]:
        """The index of `key` in the key table and True, or of the child that covers it and False."""
        index = bisect_left(self.keys, key)
        return index, index < len(self.keys) and self.keys[index] == key

    @property
    def buffer_size(self) -> int:
        """Bytes that the buffer takes in a file before compression."""
        if self._buffer_size < 0:
            object.__setattr__(self, "_buffer_size", weight(self.buffer, self.buffer.values()))
        return self._buffer_size

    def buffered(self, start: bytes, stop: bytes | None) -> list[bytes]:
        """The keys with `start <= key < stop` that the buffer speaks of, ascending.

        All of them are sorted once: a large transaction leaves a root with ten thousands of messages, and whoever lists
        its tables asks for the range of one namespace after the other.
        """
        ordered = self._buffered
        if ordered is None:
            ordered = sorted(self.buffer)
            object.__setattr__(self, "_buffered", ordered)
        return ordered[bisect_left(ordered, start) : None if stop is None else bisect_left(ordered, stop)]

    @property
    def spelling(self) -> Spelling:
        """The buffer as it stands in a file. If that of the node before is known, only what is new has to be spelled.

        Two threads that ask at once do the same work twice, and come to the same.
        """
        known, missing = (NOTHING, self.buffer) if self._spelled is None else self._spelled
        if missing:
            known = known.buffering(missing)
            object.__setattr__(self, "_spelled", (known, {}))
        return known

    def buffering(self, messages: Iterable[tuple[bytes, bytes | None, str]]) -> "Node":
        """This node with these messages in its buffer as well, the last word on a key counting.

        Its size follows from that of this one: a root is measured at every commit, and hundreds may wait in it.
        """
        news = {key: (value, txn) for key, value, txn in messages}
        replaced = self.buffer.keys() & news.keys()
        size = self.buffer_size + weight(news, news.values()) - weight(replaced, [self.buffer[key] for key in replaced])
        buffer = {**self.buffer, **news}
        made = Node(self.level, self.keys, self.values, self.children, buffer)
        object.__setattr__(made, "_buffer_size", size)
        spelled = self._spelled
        if spelled is not None:
            object.__setattr__(made, "_spelled", (spelled[0], {**spelled[1], **news}))
        return made

    @property
    def table_size(self) -> int:
        """Bytes that everything but the buffer takes in a file before compression."""
        cells = sum(map(len, self.keys)) + sum(map(len, self.values)) + sum(map(len, self.children))
        return PER_FILE + cells + len(self.keys) * PER_ROW

    @property
    def size(self) -> int:
        """An upper bound of the bytes of this node's file, known without encoding it."""
        return self.table_size + self.buffer_size


def weight(keys: Collection[bytes], messages: Collection[Message]) -> int:
    """Bytes that messages about these keys take in a file before compression.

    Without a step of Python for each: every flush weighs a thousand of them several times.
    """
    values = sum(map(len, filter(None, map(_VALUE, messages))))
    return sum(map(len, keys)) + values + sum(map(len, map(_TXN, messages))) + PER_ROW * len(keys)


EMPTY: Final = Node()
