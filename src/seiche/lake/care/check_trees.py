"""Proving that the trees of a lake are sound: every node, every row, every file that they point to."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from seiche.lake.care.problems import Findings
from seiche.lake.care.reading_ahead import ReadAhead
from seiche.lake.objects import definitions, rows
from seiche.lake.objects.keys import (
    EXPORT,
    ID,
    NAMESPACE,
    RETENTION,
    STREAM,
    TABLE,
    TAG,
    TRANSACTION,
    TRASH,
    id_key,
    name_of,
    namespace_key,
    transaction_key,
)
from seiche.lake.objects.names import text
from seiche.lake.objects.rows import (
    ExportRow,
    NamespaceRow,
    ObjectNameRow,
    RetentionRow,
    Row,
    StreamRow,
    TableRow,
    TagRow,
    TransactionRow,
    TrashRow,
    ViewRow,
)
from seiche.lake.tree import definition, node_file, transactions
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.node import Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.pointer import Pointer, fetch, target
from seiche.lake.tree.root import Root
from seiche.lake.tree.tree import Tree
from seiche.store.base import Store

__all__ = ["TreeCheck"]

_EXPECTED: Final[Mapping[bytes, tuple[type[Row], ...]]] = {
    NAMESPACE: (NamespaceRow,),
    TABLE: (TableRow, ViewRow),
    ID: (ObjectNameRow,),
    TRANSACTION: (TransactionRow,),
    STREAM: (StreamRow,),
    TAG: (TagRow,),
    EXPORT: (ExportRow,),
    TRASH: (TrashRow,),
    RETENTION: (RetentionRow,),
}


class TreeCheck:
    """Goes through trees one after the other; what several of them share is looked at once."""

    def __init__(self, nodes: Nodes, findings: Findings) -> None:
        """Nodes that are sound are kept in `nodes`, for whoever goes through the same trees."""
        self._nodes = nodes
        self._store = nodes.store
        self._findings = findings
        self._seen: set[Pointer] = set()
        self._messages: Mapping[bytes, object] = {}
        # Rows that stand in files of their own, with where they were found: whether they count is seen in the end.
        self._stowed: list[tuple[bytes, bytes, str]] = []
        self.nodes = 0

    def check(self, root: Root) -> bool:
        """Look at all that a root points to; whether all of it can be read."""
        before = len(self._findings.problems)
        self._check_side_files(root)
        self._check_rows(root.name, dict(zip(root.node.keys, root.node.values, strict=True)))
        fresh = {key: message[0] for key, message in root.node.buffer.items() if self._messages.get(key) != message}
        self._check_rows(root.name, fresh)
        self._messages = root.node.buffer
        self._descend(root.node, root.name, (None, None), root.version)
        self._check_stowed(Tree(root.node, self._nodes, Shape()) if len(self._findings.problems) == before else None)
        return len(self._findings.problems) == before

    def _check_side_files(self, root: Root) -> None:
        needed_by = f"version {root.version}"
        if root.definition not in self._seen:
            self._seen.add(root.definition)
            with self._findings.looking_at("definition", _path(root.definition), needed_by=needed_by):
                definition.load(self._existing(root.definition), root.definition)
        if root.transactions_file is not None:
            with self._findings.looking_at("changes", _path(root.transactions_file), needed_by=needed_by):
                records = transactions.load(self._existing(root.transactions_file), root.transactions_file)
                if {record.id for record in records} != root.ids:
                    raise ValueError("it is about other transactions than its root")

    def _existing(self, pointer: Pointer) -> Store:
        """The store, after making sure that the file is there: a missing file is not a damaged one."""
        self._store.head(target(pointer)[0])
        return self._store

    def _descend(self, node: Node, path: str, bounds: tuple[bytes | None, bytes | None], version: int) -> None:
        """All nodes below one that were not looked at yet."""
        edges = [bounds[0], *node.keys, bounds[1]] if node.children else []
        fresh = {
            child: inside
            for child, inside in zip(node.children, pairwise(edges), strict=True)
            if child not in self._seen
        }
        self._seen.update(fresh)
        ahead = ReadAhead(self._store, map(_path, fresh), {})
        for child, inside in fresh.items():
            self.nodes += 1
            below: Node | None = None
            with self._findings.looking_at("node", _path(child), needed_by=f"version {version} (by way of {path})"):
                where, crc = target(child)
                below, _ = node_file.decode(ahead.get(where), where, crc=crc)
                _check_place(below, node.level, inside)
                self._nodes.keep(child, below)
            if below is not None:
                self._check_rows(_path(child), dict(zip(below.keys, below.values, strict=True)))
                self._check_rows(_path(child), {key: message[0] for key, message in below.buffer.items()})
                self._descend(below, _path(child), inside, version)

    def _check_rows(self, path: str, found: Mapping[bytes, bytes | None]) -> None:
        for key, value in found.items():
            if value is None:
                continue
            with self._findings.looking_at("row", f"{path}#{key.decode(errors='replace')}"):
                if definitions.reference(value) is None:
                    _decode(key, value)
                else:
                    self._stowed.append((key, value, path))

    def _check_stowed(self, tree: Tree | None) -> None:
        """Look into the files that rows stand in, if the rows count in `tree`; all of them if that cannot be read.

        Of a row that a message further up has replaced, the file goes when the versions do in which it counted.
        """
        for key, value, path in self._stowed:
            where = definitions.reference(value)
            if where is not None and (tree is None or tree.get(key) == value):
                with self._findings.looking_at("row", _path(where), needed_by=path):
                    _decode(key, fetch(self._existing(where), where))
        self._stowed = []

    def check_objects(self, root: Root, tree: Tree) -> None:
        """That names, ids and namespaces of a version fit together, and that it knows the transactions it decided."""
        with self._findings.looking_at("tree", root.name):
            for record in root.transactions:
                if tree.get(transaction_key(record.id)) is None:
                    self._findings.add(
                        "transaction.unknown", root.name, f"{record.id} is not in the tree it was put in"
                    )
            ids = {}
            for key, value in tree.scan_prefix(ID):
                ids[key] = rows.decode(definitions.resolve(self._store, value), ObjectNameRow).key
            for key, value in tree.scan_prefix(TABLE):
                self._check_relation(root, tree, key, definitions.resolve(self._store, value), ids)
            for key, name in ids.items():
                self._findings.add(
                    "object.lost", root.name, f"the id {key[4:].decode()} leads to {name!r}, where no such table stands"
                )

    def _check_relation(self, root: Root, tree: Tree, key: bytes, value: bytes, ids: dict[bytes, bytes]) -> None:
        name = name_of(key)
        if len(name) > 1 and tree.get(namespace_key(name[:-1])) is None:
            self._findings.add("object.homeless", root.name, f"{text(name)} stands in a namespace that does not exist")
        if rows.kind_of(value) is TableRow:
            row = rows.decode(value, TableRow)
            if ids.pop(id_key(row.id), None) != key:
                self._findings.add(
                    "object.unknown", root.name, f"the id of {text(name)}, {row.id}, does not lead to it"
                )


def _check_place(node: Node, above: int, inside: tuple[bytes | None, bytes | None]) -> None:
    low, high = inside
    if node.level != above - 1:
        raise ValueError(f"a node of level {node.level} stands below one of level {above}")
    for key in (*node.keys, *node.buffer):
        if (low is not None and key <= low) or (high is not None and key >= high):
            raise ValueError(f"the key {key!r} does not belong between {low!r} and {high!r}")


def _decode(key: bytes, value: bytes) -> None:
    expected = _EXPECTED.get(key[:4])
    kind = rows.kind_of(value)
    if expected is not None and kind not in expected:
        raise ValueError(f"{key!r} has a {kind.__name__} behind it")
    rows.decode(value, kind)


def _path(pointer: Pointer) -> str:
    return pointer.rpartition("#")[0] or pointer
