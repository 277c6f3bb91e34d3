"""Thousands of tables in a tree of order 8: the shape that keeps commits small, and mutants that do not have it."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from seiche.lake.objects import keys, rows
from seiche.lake.tree.draft import Draft, Shape
from seiche.lake.tree.flush import Flush
from seiche.lake.tree.node import Node
from tests.unit.lake.trees import Grove, check_shape

# A row takes about 200 bytes: a node has room for some twenty messages besides its seven keys.
SHAPE = Shape(order=8, node_bytes=6 << 10, root_buffer_bytes=6 << 10)


@dataclass
class Run:
    """What came out of creating all tables, one per commit, and dropping many of them again."""

    grove: Grove
    tables: int = 0
    largest: int = 0
    below: int = 0


def lake(tables: int) -> Run:
    """Create `tables` tables in 20 namespaces in random order; drop all but a twentieth; create some again."""
    run = Run(Grove(SHAPE, seed=8, cache_bytes=16 << 20), tables)
    chance = random.Random(8)
    numbers = list(range(tables))
    chance.shuffle(numbers)
    for number in numbers:
        commit(run, number, dropped=False)
    run.below = sum(len(node.buffer) for depth, node in run.grove.nodes() if depth)
    for number in sorted(numbers[: tables * 19 // 20]):
        commit(run, number, dropped=True)
    for number in numbers[: tables // 20]:
        commit(run, number, dropped=False)
    return run


def commit(run: Run, number: int, *, dropped: bool) -> None:
    table_id = f"{number:08d}-0000-4000-8000-000000000000"
    key = keys.table_key((f"namespace{number % 20}", f"table{number}"))
    row = rows.encode(rows.TableRow(id=table_id, location=f"tables/{table_id}.lance", table_version=number))
    name = rows.encode(rows.ObjectNameRow(key=key))
    change = run.grove.commit([(key, None if dropped else row), (keys.id_key(table_id), None if dropped else name)])
    run.largest = max([run.largest, *map(len, change.files.values())])


@pytest.fixture(scope="module")
def run(effort: Callable[[int, int], int]) -> Run:
    return lake(effort(5_000, 20_000))


@pytest.mark.soak
def test_every_table_is_found_by_name_and_listed_in_order(run: Run) -> None:
    assert len(run.grove.model) == 2 * (run.tables // 20 + run.tables // 20)
    assert list(run.grove.tree.scan()) == sorted(run.grove.model.items())
    wanted = keys.tables_of(("namespace7",))
    assert list(run.grove.tree.scan(*wanted)) == sorted(item for item in run.grove.model.items() if item[0] in wanted)
    check_shape(run.grove)


@pytest.mark.soak
def test_the_tree_has_depth_and_every_node_keeps_its_limit(run: Run) -> None:
    assert deepest(run) >= 4
    assert 0 < run.largest <= SHAPE.node_bytes
    assert run.grove.tree.root.buffer_size <= SHAPE.root_buffer_bytes


@pytest.mark.soak
def test_messages_reached_buffers_below_the_root(run: Run) -> None:
    assert run.below > 1_000
    assert run.grove.counts["inner_pushes"] > 1_000


@pytest.mark.soak
def test_merges_and_sticky_tombstones_were_reached(run: Run) -> None:
    assert run.grove.counts["merges"] > 100, run.grove.counts
    assert run.grove.counts["sticky"] > 100, run.grove.counts
    assert run.grove.counts["resolved"] > 100, run.grove.counts


@pytest.mark.soak
def test_a_commit_writes_at_most_two_files_on_average(run: Run) -> None:
    assert run.grove.commits == 2 * run.tables
    assert run.grove.files <= 2 * run.grove.commits, run.grove.files / run.grove.commits


def deepest(run: Run) -> int:
    return 1 + max(depth for depth, _ in run.grove.nodes())


def test_a_flat_root_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flush, "root", lambda self, node, own: Draft.of(node))
    flat = lake(200)
    assert list(flat.grove.tree.scan()) == sorted(flat.grove.model.items())
    assert deepest(flat) < 4
    assert flat.below == 0
    assert flat.grove.tree.root.buffer_size > SHAPE.root_buffer_bytes


def test_without_sticky_tombstones_dropped_tables_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = Draft.settle

    def forgetful(self: Draft, keep: frozenset[bytes] = frozenset()) -> None:
        settle(self, keep)
        for key in [key for key in self.keys if key in self.buffer and key not in keep]:
            del self.buffer[key]

    monkeypatch.setattr(Draft, "settle", forgetful)
    assert revived(lake(2_000))


def test_a_merge_that_forgets_the_tombstone_brings_the_table_back(monkeypatch: pytest.MonkeyPatch) -> None:
    join = Draft.join

    def careless(self: Draft, key: bytes, value: bytes, right: Draft, tombstone: object) -> None:
        join(self, key, value, right, None)

    monkeypatch.setattr(Draft, "join", careless)
    assert revived(lake(2_000))


def test_flushing_a_commits_own_messages_hides_them_from_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Flush.root

    def hasty(self: Flush, node: Node, own: set[bytes]) -> Draft:
        return root(self, node, frozenset())

    monkeypatch.setattr(Flush, "root", hasty)
    run = Run(Grove(SHAPE))
    hidden = 0
    for number in range(500):
        commit(run, number, dropped=False)
        hidden += keys.table_key((f"namespace{number % 20}", f"table{number}")) not in run.grove.tree.root.buffer
    assert hidden


def revived(run: Run) -> list[bytes]:
    return [key for key, _ in run.grove.tree.scan() if key not in run.grove.model]
