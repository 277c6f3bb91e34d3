"""Reading the tree: one key, or a range of them in order."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from seiche.lake.tree.node import Message, Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.pointer import Pointer

__all__ = ["Item", "after_prefix", "get", "scan", "walk"]

Item: TypeAlias = tuple[bytes, bytes]

_MOST_AT_ONCE: Final = 16


def get(node: Node, key: bytes, nodes: Nodes) -> bytes | None:
    """The value of `key`, or None. The first word on the way down counts: what is higher up is newer."""
    while True:
        message = node.buffer.get(key)
        if message is not None:
            return message[0]
        index = bisect_left(node.keys, key)
        if index < len(node.keys) and node.keys[index] == key:
            return node.values[index]
        if not node.children:
            return None
        node = nodes.load(node.children[index])


def scan(node: Node, nodes: Nodes, start: bytes = b"", stop: bytes | None = None) -> Iterator[Item]:
    """The items with `start <= key < stop` in ascending order; only nodes that can hold some of them are read."""
    return iter(()) if stop is not None and start >= stop else _scan(node, nodes, start, stop, {})


def after_prefix(prefix: bytes) -> bytes | None:
    """The first key behind all keys that begin with `prefix`, or None if there is no such end."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def walk(node: Node, nodes: Nodes, *, leaves: bool = False, seen: set[Pointer] | None = None) -> Iterator[Pointer]:
    """Every pointer below `node`, parents before children; those in `seen` are left out with all that is below them.

    `seen` grows by what is yielded, so that trees that share nodes can be walked one after the other. Leaves are read
    only with `leaves=True`: their pointers are known from the level of their parents.
    """
    seen = set() if seen is None else seen
    fresh = [child for child in node.children if child not in seen]
    seen.update(fresh)
    for first in range(0, len(fresh), _MOST_AT_ONCE):
        some = fresh[first : first + _MOST_AT_ONCE]
        children = nodes.load_many(some) if leaves or node.level > 1 else []
        yield from some
        for child in children:
            yield from walk(child, nodes, leaves=leaves, seen=seen)


def _scan(node: Node, nodes: Nodes, start: bytes, stop: bytes | None, above: Mapping[bytes, Message]) -> Iterator[Item]:
    """`above` is what higher nodes say about keys of the range: it overrides this node."""
    news = {key: node.buffer[key] for key in node.buffered(start, stop)}
    news.update(above)
    order = sorted(news)
    first = bisect_left(node.keys, start)
    last = len(node.keys) if stop is None else bisect_left(node.keys, stop)
    if not node.children:
        table = dict(zip(node.keys[first:last], node.values[first:last], strict=True))
        yield from _merged(table, news)
        return
    at_once = 1
    ready: list[Node] = []
    for index in range(first, last + 1):
        if not ready:
            # A short scan reads one child at a time, a long one ever more at once.
            ready = nodes.load_many(node.children[index : min(index + at_once, last + 1)])[::-1]
            at_once = min(at_once * 2, _MOST_AT_ONCE)
        low = start if index == first else node.keys[index - 1]
        high = stop if index == last else node.keys[index]
        inside = order[bisect_left(order, low) : len(order) if high is None else bisect_left(order, high)]
        yield from _scan(
            ready.pop(), nodes, low, high, {key: news[key] for key in inside if key != low or index == first}
        )
        if index < last:
            pivot = node.keys[index]
            value = news[pivot][0] if pivot in news else node.values[index]
            if value is not None:
                yield pivot, value


def _merged(table: dict[bytes, bytes], news: Mapping[bytes, Message]) -> Iterator[Item]:
    for key, (value, _) in news.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    yield from sorted(table.items())
