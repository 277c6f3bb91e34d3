"""What a check of a lake looks at, one thing at a time: each is noticed if it is wrong, and not if it is right."""

from collections.abc import Iterable

import pytest

from seiche.core.runtime import Runtime
from seiche.lake.care.check_roots import check_roots
from seiche.lake.care.check_tables import _check_version
from seiche.lake.care.check_trees import TreeCheck, _check_place
from seiche.lake.care.problems import Findings
from seiche.lake.objects import rows
from seiche.lake.objects.keys import id_key, namespace_key, table_key, transaction_key
from seiche.lake.objects.rows import NamespaceRow, ObjectNameRow, TableRow, TransactionRow
from seiche.lake.tree import transactions
from seiche.lake.tree.node import Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.root import Root
from seiche.lake.tree.transactions import TransactionRecord
from seiche.lake.tree.tree import Tree
from seiche.table.format.file import ManifestFile
from seiche.table.format.transaction_pb2 import Transaction
from seiche.testing import DictStore
from tests.unit.lake.roots import SHAPE, a_root
from tests.unit.table.tables import manifest

DONE = TransactionRecord("done", 0)


def said(findings: Findings) -> str:
    return " ".join(one.message for one in findings.problems)


def of_roots(roots: Iterable[Root]) -> str:
    store, findings = DictStore(), Findings()
    for root in roots:
        store.put(root.name, root.encode(16))
    list(check_roots(store, findings))
    return said(findings)


@pytest.mark.parametrize(
    ("second", "third", "why"),
    [
        ({}, {}, ""),
        ({"min_base": 1}, {"min_base": 0}, "fence is lower"),
        ({"transactions": (DONE,)}, {"transactions": (DONE,)}, "decides a transaction again"),
    ],
)
def test_roots_form_one_line(second: dict[str, object], third: dict[str, object], why: str) -> None:
    found = of_roots([a_root(0), a_root(1, **second), a_root(2, **third)])
    assert bool(found) == bool(why)
    assert why in found


def test_a_node_stands_where_it_belongs() -> None:
    node = Node(0, (b"b", b"d"), (b"1", b"2"))
    _check_place(node, 1, (b"a", b"e"))
    _check_place(node, 1, (None, None))
    with pytest.raises(ValueError, match="level 0 stands below one of level 2"):
        _check_place(node, 2, (None, None))
    for inside in ((b"b", None), (None, b"d"), (b"c", b"e")):
        with pytest.raises(ValueError, match="does not belong between"):
            _check_place(node, 1, inside)


def test_a_manifest_was_made_by_the_transaction_that_the_lake_says() -> None:
    read = ManifestFile(manifest(3), Transaction(uuid="mine"))
    _check_version(read, 3, "mine")
    _check_version(read, 3, None)
    with pytest.raises(ValueError, match="by transaction mine instead of theirs"):
        _check_version(read, 3, "theirs")
    with pytest.raises(ValueError, match="by transaction none"):
        _check_version(ManifestFile(manifest(3), None), 3, "theirs")
    with pytest.raises(ValueError, match="version 3 instead of 4"):
        _check_version(read, 4, "mine")


NAMESPACE, HERE, THERE = namespace_key(("shop",)), table_key(("shop", "a")), table_key(("shop", "b"))


@pytest.mark.parametrize(
    ("leads_to", "decided", "why"),
    [(HERE, True, ""), (THERE, True, "does not lead to it"), (HERE, False, "is not in the tree")],
)
def test_names_ids_and_transactions_of_a_version_fit_together(leads_to: bytes, decided: bool, why: str) -> None:
    store = DictStore()
    items = {
        NAMESPACE: rows.encode(NamespaceRow(id="n")),
        HERE: rows.encode(TableRow(id="t", location="tables/t")),
        id_key("t"): rows.encode(ObjectNameRow(key=leads_to)),
    }
    if decided:
        items[transaction_key("done")] = rows.encode(TransactionRow(version=1))
    tree = Tree.build(sorted(items.items()), Nodes(store), SHAPE, put=store.put)
    findings = Findings()
    TreeCheck(Nodes(store), findings).check_objects(a_root(1, node=tree.root, transactions=(DONE,)), tree)
    assert bool(said(findings)) == bool(why)
    assert why in said(findings)


def test_change_sets_beside_a_root_are_those_of_its_own_transactions() -> None:
    runtime = Runtime.seeded(1)
    store = DictStore(runtime=runtime)
    records, side_file, files = transactions.stow([DONE], runtime, inline=-1)
    store.put_many(files)
    for whose, wrong in ((records, False), ((TransactionRecord("other", 0, keys=None),), True)):
        findings = Findings()
        root = a_root(1, transactions=whose, transactions_file=side_file)
        TreeCheck(Nodes(store), findings)._check_side_files(root)
        assert ("about other transactions" in said(findings)) == wrong
