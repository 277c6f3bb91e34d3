"""Where two trees differ: nothing is missed, and what they share is not read."""

import random

import pytest

from seiche.core.runtime import Runtime
from seiche.lake.care.live import rows_since
from seiche.lake.tree.difference import differing_keys
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.tree import Tree
from seiche.testing import DictStore

SMALL = Shape(order=4, node_bytes=8 << 10, root_buffer_bytes=400)


def key(number: int) -> bytes:
    return b"k%05d" % number


def grown(seed: int, commits: int, keys: int) -> list[Tree]:
    """Trees of one store, each made of the one before by a few changes."""
    chance = random.Random(seed)
    runtime = Runtime.seeded(seed)
    store = DictStore(runtime=runtime)
    tree = Tree.build([], Nodes(store), SMALL, put=store.put)
    trees = [tree]
    for commit in range(commits):
        changes = {key(chance.randrange(keys)): chance.choice([None, b"%d" % commit]) for _ in range(3)}
        change = tree.apply([(one, value, str(commit)) for one, value in changes.items()], runtime)
        store.put_many(change.files)
        tree = change.tree
        trees.append(tree)
    return trees


def missed(one: Tree, other: Tree, start: bytes, stop: bytes | None) -> set[bytes]:
    """Keys that differ and were not found."""
    found = differing_keys(one, other, start, stop)
    assert found == sorted(set(found))
    assert all(start <= each and (stop is None or each < stop) for each in found)
    differing = set(one.scan(start, stop)) ^ set(other.scan(start, stop))
    return {each for each, _ in differing} - set(found)


@pytest.mark.parametrize("seed", range(6))
def test_every_key_that_differs_is_found(seed: int) -> None:
    trees = grown(seed, commits=120, keys=150)
    assert max(tree.root.level for tree in trees) >= 2
    chance = random.Random(seed)
    for _ in range(150):
        one, other = chance.choice(trees), chance.choice(trees)
        assert missed(one, other, b"", None) == set()
        start, stop = sorted((key(chance.randrange(150)), key(chance.randrange(150))))
        assert missed(one, other, start, stop) == set()


def test_a_comparison_of_the_roots_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = grown(1, commits=120, keys=150)
    monkeypatch.setattr(Tree, "walk", lambda self: iter(()))
    assert any(missed(one, trees[-1], b"", None) for one in trees)


def test_what_is_shared_is_not_read() -> None:
    runtime = Runtime.seeded(0)
    store = DictStore(runtime=runtime)
    shape = Shape(order=16, node_bytes=64 << 10, root_buffer_bytes=2_000)
    tree = Tree.build(((key(number), b"x" * 20) for number in range(5_000)), Nodes(store), shape, put=store.put)
    later = tree
    for number in range(120):
        change = later.apply([(key(number * 3), b"new", "t")], runtime)
        store.put_many(change.files)
        later = change.tree
    assert later.root.children != tree.root.children, "some of it has moved down"
    leaves = sum(1 for _ in tree.walk())
    fresh = Nodes(store)
    before, after = Tree(tree.root, fresh, shape), Tree(later.root, fresh, shape)
    found = differing_keys(before, after)
    assert {key(number * 3) for number in range(120)} <= set(found)
    assert fresh.reads < leaves / 3
    assert len(found) < 500


def test_a_tree_does_not_differ_from_itself() -> None:
    tree = grown(3, commits=50, keys=50)[-1]
    assert differing_keys(tree, tree) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_clean_up_finds_every_row_that_a_later_version_has_and_an_earlier_one_has_not(seed: int) -> None:
    """Also rows that are on their way down, in the buffers of nodes: what they name must not be taken for garbage."""
    trees = grown(seed, commits=120, keys=150)
    chance = random.Random(seed)
    pairs = [sorted(chance.sample(range(len(trees)), 2)) for _ in range(60)]
    for first, second in [*pairs, *((number, number + 1) for number in range(len(trees) - 1))]:
        before, after = trees[first], trees[second]
        assert list(rows_since(after, before)) == sorted(set(after.scan()) - set(before.scan()))
    assert list(rows_since(trees[-1], None)) == list(trees[-1].scan())
