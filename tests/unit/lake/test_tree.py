"""The tree against a dictionary."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.node import EMPTY, Message, Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.tree import Tree
from seiche.testing import CountingStore, DictStore
from tests.unit.lake.trees import TIGHT, Grove, check_shape

ORDERS = [3, 4, 5, 7, 8, 16, 128]


def key(number: int) -> bytes:
    return b"C===ns table%04d" % number


def random_commits(grove: Grove, *, commits: int, universe: int, check_each: int = 25) -> None:
    """Phases of growing and of shrinking, so that the tree gets both deeper and flatter."""
    chance = grove.runtime.random
    for number in range(commits):
        deleting = 0.85 if number // (commits // 5) % 2 else 0.2
        messages: list[tuple[bytes, bytes | None]] = []
        for _ in range(chance.randint(1, 12)):
            gone = chance.random() < deleting
            value = None if gone else b"value %d " % number * chance.randint(1, 30)
            messages.append((key(chance.randrange(universe)), value))
        grove.commit(messages)
        for mine, value in dict(messages).items():
            assert grove.tree.root.buffer[mine] == (value, f"txn-{grove.commits - 1}")
        wanted = key(chance.randrange(universe))
        assert grove.tree.get(wanted) == grove.model.get(wanted)
        if number % check_each == 0:
            first, last = sorted((key(chance.randrange(universe)), key(chance.randrange(universe))))
            inside = sorted((k, v) for k, v in grove.model.items() if first <= k < last)
            assert list(grove.tree.scan(first, last)) == inside
            assert list(grove.tree.scan()) == sorted(grove.model.items())
            check_shape(grove)
    assert list(grove.tree.scan_prefix(b"C===ns ")) == sorted(grove.model.items())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("universe", [40, 600])
def test_the_tree_equals_a_dictionary_through_growing_and_shrinking(order: int, universe: int) -> None:
    grove = Grove(Shape(order, TIGHT, 600), seed=order * universe, cache_bytes=0 if order == 7 else 1 << 20)
    random_commits(grove, commits=400, universe=universe)


def test_a_tree_that_is_emptied_becomes_flat_again() -> None:
    grove = Grove(Shape(8, TIGHT, 600))
    for first in range(0, 3000, 10):
        grove.commit((key(number), b"v" * 50) for number in range(first, first + 10))
    deepest, most = grove.tree.root.level, sum(1 for _ in grove.nodes())
    for first in range(0, 3000, 10):
        grove.commit((key(number), None) for number in range(first, first + 10))
    assert list(grove.tree.scan()) == []
    assert grove.tree.root.level < deepest
    assert sum(1 for _ in grove.nodes()) < most // 4
    for kind in ("splits", "merges", "sticky", "resolved", "inner_pushes", "collapses"):
        assert grove.counts[kind] > 0, f"{kind} never happened: {grove.counts}"


@pytest.mark.parametrize("order", [3, 4, 8, 16])
def test_no_node_but_the_root_is_less_than_half_full(order: int) -> None:
    # Messages are few here and files may be large: only the number of keys limits a node.
    grove = Grove(Shape(order, 1 << 15, 300), seed=order)
    random_commits(grove, commits=300, universe=2000, check_each=100)
    random_commits(grove, commits=200, universe=2000, check_each=100)
    halves = [len(node.keys) for depth, node in grove.nodes() if depth]
    assert len(halves) > 20
    assert min(halves) >= grove.tree.shape.least_keys


Steps = st.lists(
    st.lists(st.tuples(st.integers(0, 60), st.one_of(st.none(), st.integers(0, 300))), min_size=1, max_size=30),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(st.integers(3, 16) | st.just(128), st.sampled_from([0, 300, 1500]), Steps)
@example(3, 0, [[(number, 100) for number in range(61)], [(number, None) for number in range(61)], [(5, 1)]])
def test_any_sequence_of_commits_reads_back_as_in_a_dictionary(
    order: int, root_buffer: int, steps: list[list[tuple[int, int | None]]]
) -> None:
    grove = Grove(Shape(order, TIGHT, root_buffer))
    for step in steps:
        grove.commit((key(number), None if size is None else b"v" * size) for number, size in step)
    assert list(grove.tree.scan()) == sorted(grove.model.items())
    for number in range(61):
        assert grove.tree.get(key(number)) == grove.model.get(key(number))
    check_shape(grove)


def test_messages_of_a_commit_stay_in_its_root_and_move_down_only_later() -> None:
    grove = Grove(Shape(4, TIGHT, 0))
    for number in range(200):
        mine = {key(number * 7 % 100): b"%d" % number, key(number * 11 % 100): None}
        grove.commit(mine.items())
        for one, value in mine.items():
            assert grove.tree.root.buffer[one] == (value, f"txn-{number}")
    assert grove.tree.root.level >= 2


def test_a_transaction_larger_than_a_node_stays_whole_in_its_root_and_the_next_commit_moves_it_down() -> None:
    grove = Grove(Shape(8, TIGHT, 1000))
    change = grove.commit((key(number), b"v" * 50) for number in range(500))
    assert not change.files
    assert len(grove.tree.root.buffer) == 500
    grove.commit([(key(500), b"v")])
    assert grove.tree.root.buffer_size <= 1000
    assert grove.tree.root.level > 1
    assert len(list(grove.tree.scan())) == 501
    check_shape(grove)


def test_a_table_committed_to_a_thousand_times_takes_one_place() -> None:
    grove = Grove(Shape())
    for number in range(1000):
        grove.commit([(key(1), b"%d" % number)])
    assert len(grove.tree.root.buffer) == 1
    assert grove.files == grove.commits


def test_untouched_children_are_shared_and_old_trees_still_read_the_same() -> None:
    grove = Grove(Shape(8, TIGHT, 500))
    for first in range(0, 400, 10):
        grove.commit((key(number), b"old") for number in range(first, first + 10))
    before, content = grove.tree, dict(grove.model)
    for number in range(30):
        grove.commit([(key(number), b"new" * 20)])
    old, new = set(before.walk()), set(grove.tree.walk())
    assert len(old & new) > len(old) // 2
    assert new - old
    assert list(before.scan()) == sorted(content.items())


def test_walk_finds_every_node_once_and_needs_not_read_leaves() -> None:
    grove = Grove(Shape(8, TIGHT, 500))
    for first in range(0, 400, 10):
        grove.commit((key(number), b"x") for number in range(first, first + 10))
    everything = list(grove.tree.walk(leaves=True))
    assert len(everything) == len(set(everything)) == sum(1 for _ in grove.nodes()) - 1
    nodes = Nodes(grove.store)
    assert sorted(Tree(grove.tree.root, nodes, grove.tree.shape).walk()) == sorted(everything)
    assert nodes.reads < len(everything) // 2
    assert list(grove.tree.walk(seen=set(everything))) == []


def test_a_built_tree_equals_one_that_was_committed() -> None:
    store = DictStore()
    items = [(key(number), b"value %d" % number) for number in range(3000)]
    tree = Tree.build(iter(items), Nodes(store), Shape(16, 1 << 16), put=store.put_if_absent, runtime=Runtime.seeded(1))
    assert tree.root.level == 3
    fresh = Tree(tree.root, Nodes(store), tree.shape)
    assert list(fresh.scan()) == items
    assert fresh.get(key(1234)) == b"value 1234"
    assert fresh.get(b"C===ns tabl") is None
    with pytest.raises(InvalidInput, match="does not come after"):
        Tree.build([(b"b", b""), (b"a", b"")], Nodes(store), Shape(), put=store.put_if_absent)


def test_a_scan_reads_only_nodes_that_can_hold_its_range() -> None:
    store = CountingStore(DictStore())
    items = [(key(number), b"v") for number in range(5000)]
    tree = Tree.build(items, Nodes(store), Shape(16, 1 << 16), put=store.put_if_absent)
    narrow = Nodes(store)
    assert len(list(Tree(tree.root, narrow, tree.shape).scan(key(2500), key(2503)))) == 3
    assert narrow.reads <= 2 * (tree.root.level + 1)
    nothing = Nodes(store)
    assert list(Tree(tree.root, nothing, tree.shape).scan(key(9), key(9))) == []
    assert nothing.reads == 0


def test_many_short_scans_look_through_a_large_buffer_once() -> None:
    """Listing 40,000 namespaces that one transaction had made took an hour and more."""

    class Counted(dict[bytes, Message]):
        looked = 0

        def __iter__(self) -> Iterator[bytes]:
            self.looked += 1
            return super().__iter__()

        def items(self) -> Any:
            self.looked += 1
            return super().items()

    buffer = Counted({key(number): (b"v%d" % number, "txn") for number in range(999, -1, -1)})
    tree = Tree(Node(buffer=buffer), Nodes(DictStore()), Shape())
    for number in range(999):
        assert list(tree.scan(key(number), key(number + 1))) == [(key(number), b"v%d" % number)]
    assert buffer.looked == 1


def test_a_prefix_ends_where_no_key_with_it_can_follow() -> None:
    grove = Grove(Shape())
    grove.commit([(b"a", b"1"), (b"a\xff", b"2"), (b"a\xff\xff", b"3"), (b"b", b"4"), (b"\xff\xff", b"5")])
    assert [k for k, _ in grove.tree.scan_prefix(b"a\xff")] == [b"a\xff", b"a\xff\xff"]
    assert [k for k, _ in grove.tree.scan_prefix(b"\xff")] == [b"\xff\xff"]
    assert len(list(grove.tree.scan_prefix(b""))) == 5


def test_nodes_are_read_once_and_the_least_recently_used_ones_are_forgotten() -> None:
    store = CountingStore(DictStore())
    items = [(key(number), b"v" * 100) for number in range(2000)]
    tree = Tree.build(items, Nodes(store), Shape(16, 1 << 16), put=store.put_if_absent)
    store.reset()
    roomy = Tree(tree.root, Nodes(store), tree.shape)
    for _ in range(3):
        assert roomy.get(key(77)) is not None
    assert store.requests == roomy.nodes.reads == tree.root.level
    cramped = Tree(tree.root, Nodes(store, cache_bytes=20_000), tree.shape)
    for number in range(2000):
        assert cramped.get(key(number)) is not None
    assert cramped.nodes._size <= 20_000
    assert cramped.nodes.reads < 4000


def test_limits_that_cannot_work_are_refused() -> None:
    for shape in ((2, 1 << 20, 0), (8, 100, 0), (8, 1 << 20, -1)):
        with pytest.raises(InvalidInput, match="cannot work"):
            Shape(*shape)
    with pytest.raises(InvalidInput, match="empty key"):
        Tree(EMPTY, Nodes(DictStore()), Shape()).apply([(b"", b"v", "t")])
