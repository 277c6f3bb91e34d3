"""Where two trees differ, found without reading what they share."""

from itertools import chain, islice
from typing import Final

from seiche.lake.tree.tree import Tree

__all__ = ["differing_keys"]

_MOST_AT_ONCE: Final = 64


def differing_keys(one: Tree, other: Tree, start: bytes = b"", stop: bytes | None = None) -> list[bytes]:
    """Keys in `start <= key < stop`, ascending, among which are all whose values differ; few others are.

    Both trees must be of the same store. Reads the inner nodes of both, and of the leaves only those that one tree has
    and the other has not: versions of a lake share nearly all of them. This is enough. If the value of a key comes from
    a node that both trees have, it can differ only if in one of them a buffer further up overrides it. A node that both
    have above that one would do so in both; so there is one that only one tree has, and the key stands in it.
    """
    if one.root is other.root:
        return []
    mine, theirs = set(one.walk()), set(other.walk())
    apart = iter(sorted(mine ^ theirs))
    found: set[bytes] = set()
    nodes = [one.root, other.root]
    while nodes:
        found.update(
            key
            for node in nodes
            for key in chain(node.keys, node.buffer)
            if start <= key and (stop is None or key < stop)
        )
        nodes = one.nodes.load_many(list(islice(apart, _MOST_AT_ONCE)))
    return sorted(found)
