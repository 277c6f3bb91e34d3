"""The versions of a lake that can still be read, and what stands in their trees."""

from collections.abc import Iterable, Iterator
from typing import Final

from seiche.errors import Corrupt, NotFound
from seiche.lake.care.given_up import GivenUp
from seiche.lake.care.leases import leases
from seiche.lake.state import State
from seiche.lake.states import States
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.node import Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.search import Item
from seiche.lake.tree.tree import Tree

__all__ = ["changes_since", "differing", "live_roots", "rows_since"]

_AT_ONCE: Final = 32


def live_roots(states: States, newest: State, versions: Iterable[int] | None = None) -> Iterator[Root]:
    """The roots that are not tombstones, ascending: of some versions, or of all up to `newest`.

    Which ones are is seen in the roots themselves; only those that the tree of `newest` knows to be tombstones are not
    looked at again. No hint has a say in it. A root that is lost is none if its version was given up: nobody can read
    it any more.
    """
    given_up = GivenUp.of(newest)
    if versions is None:
        versions = given_up.tombstones.missing(newest.version + 1)
    some: list[int] = []
    for version in versions:
        some.append(version)
        if len(some) == _AT_ONCE:
            yield from _live(states, some, given_up)
            some = []
    yield from _live(states, some, given_up)


def _live(states: States, versions: list[int], given_up: GivenUp) -> Iterator[Root]:
    def read(version: int) -> Root | None:
        try:
            return read_root(states.store, version)
        except (Corrupt, NotFound):
            # Who took a lease before that was decided still has in memory what the root said.
            if version in given_up.versions and all(one.version != version for one in leases(states.store)):
                return None
            raise

    for root in states.store.in_parallel(read, versions):
        if root is not None and root.expired_at_millis is None:
            yield root


def rows_since(tree: Tree, before: Tree | None) -> Iterator[Item]:
    """The items of a version's tree that another one does not have; all of them if there is no other.

    Values may be references to definition files. Reads only what the two trees do not share.
    """
    if before is None:
        yield from tree.scan()
        return
    for key, value in changes_since(tree, before):
        if value is not None:
            yield key, value


def changes_since(tree: Tree, before: Tree) -> Iterator[tuple[bytes, bytes | None]]:
    """The keys that stand for something else than in another tree, in order; `None` where they stand for nothing now.

    Reads only what the two trees do not share.
    """
    for key in sorted(differing(before.root, tree.root, tree.nodes)):
        value = tree.get(key)
        if value != before.get(key):
            yield key, value


def differing(one: Node, other: Node, nodes: Nodes) -> set[bytes]:
    """Keys among which are all that the trees below two roots have different values for.

    A key that only nodes of both trees know has the same value in both: going down, the first node that knows it is the
    same. So the keys of nodes that only one of them has are enough, and below those only their own children matter.
    """
    found = {key for key, _ in set(_items(one)) ^ set(_items(other))}
    mine, theirs = set(one.children), set(other.children)
    while mine != theirs:
        apart = nodes.load_many(sorted(mine - theirs)), nodes.load_many(sorted(theirs - mine))
        mine, theirs = ({child for node in side for child in node.children} for side in apart)
        for side in apart:
            for node in side:
                found.update(node.keys, node.buffer)
    return found


def _items(node: Node) -> Iterator[tuple[bytes, object]]:
    yield from zip(node.keys, node.values, strict=True)
    yield from node.buffer.items()
