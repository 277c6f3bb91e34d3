"""A lake that has decided very many transactions decides the next ones as quickly: their ids stand together."""

from seiche.core.runtime import Runtime
from seiche.lake.objects.keys import transaction_key
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.tree import Tree
from seiche.testing import DictStore

DECIDED, GROUPS, MEMBERS = 8_000, 40, 64
SMALL = 512 << 10


def reads(runtime: Runtime, *, ordered: bool) -> int:
    """How many nodes are read to decide some groups in a lake that knows many transactions, and caches few nodes."""

    def fresh() -> bytes:
        runtime.clock.sleep(0.001)
        return transaction_key(str(runtime.ordered_uuid() if ordered else runtime.uuid()))

    store = DictStore(runtime=runtime)
    items = [(key, b"decided") for key in sorted(fresh() for _ in range(DECIDED))]
    nodes = Nodes(store, cache_bytes=SMALL)
    tree = Tree.build(items, nodes, Shape(root_buffer_bytes=16 << 10), put=store.put, runtime=runtime)
    for _ in range(GROUPS):
        group = [fresh() for _ in range(MEMBERS)]
        assert not any(tree.get(key) for key in group)
        change = tree.apply([(key, b"decided", "") for key in group], runtime)
        store.put_many(change.files)
        tree = change.tree
    needed = nodes.reads
    assert sum(1 for _ in tree.scan()) == DECIDED + GROUPS * MEMBERS
    return needed


def test_ids_in_the_order_of_time_need_next_to_no_reading() -> None:
    before = reads(Runtime.seeded(0), ordered=False)
    assert before > GROUPS * MEMBERS / 4, "the cache is too large for this to prove anything"
    assert reads(Runtime.seeded(0), ordered=True) < before / 20
