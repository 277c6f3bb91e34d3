"""The format as documented: a reader written from docs/format.md alone opens the fixture lakes, and so does ours."""

import json
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc

from seiche.lake.objects import definitions, keys, rows
from seiche.lake.tree import definition, transactions
from seiche.lake.tree.latest import latest_root, read_root
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.tree import Tree
from seiche.store import open_store

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "lake").glob("format-*"))


class Reader:
    """A lake in forty lines: pyarrow, and nothing of Seiche."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake

    def version(self, version: int) -> dict[bytes, bytes] | None:
        """All items of a version, or None if it has expired."""
        system, node = self.node("_" + f"{version:032b}"[::-1] + ".ipc")
        assert system[b"version"] == b"%d" % version
        return None if b"expired" in system else self.items(node)

    def latest(self) -> int:
        """Counting up from the hint."""
        version = int((self.lake / "_latest_hint").read_text())
        while (self.lake / ("_" + f"{version + 1:032b}"[::-1] + ".ipc")).exists():
            version += 1
        return version

    def node(self, path: str, crc: int | None = None) -> tuple[dict[bytes, bytes], list[tuple[object, ...]]]:
        """The system rows, and the rows from the leftmost child on."""
        data = (self.lake / path).read_bytes()
        seal = len(data) - 10 - int.from_bytes(data[-10:-6], "little") - 16
        stored = int.from_bytes(data[seal + 8 : seal + 12], "little")
        assert data[seal : seal + 8] == b"SEICHECK"
        assert stored == zlib.crc32(data[: seal + 8] + data[seal + 12 :])
        assert crc is None or crc == stored
        table = ipc.open_file(pa.py_buffer(data)).read_all()
        cells = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        start = next(number for number, row in enumerate(cells) if row[0] is None and row[1] is None)
        return {row[0]: row[1] for row in cells[:start]}, cells[start:]

    def items(self, cells: list[tuple[object, ...]]) -> dict[bytes, bytes]:
        """What the children say, overridden by the key table, overridden by the messages in order."""
        found: dict[bytes, bytes] = {}
        for _, _, child, txn in cells:
            if child is not None and txn is None:
                path, _, crc = str(child).rpartition("#")
                found |= self.items(self.node(path, int(crc, 16))[1])
        for key, value, _, txn in cells:
            if key is not None and txn is None:
                found[key] = value  # type: ignore[index, assignment]
        for key, value, _, txn in cells:
            if txn is not None and value is None:
                found.pop(key, None)  # type: ignore[call-overload]
            elif txn is not None:
                found[key] = value  # type: ignore[index, assignment]
        return found


def expected(lake: Path) -> list[dict[bytes, bytes] | None]:
    """What each version must hold."""
    return [
        None if items is None else {bytes.fromhex(key): bytes.fromhex(value) for key, value in items.items()}
        for items in json.loads((lake / "expected.json").read_text())
    ]


@pytest.fixture(params=FIXTURES, ids=lambda path: path.name)
def lake(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_there_is_a_fixture_of_every_format() -> None:
    assert [path.name for path in FIXTURES] == ["format-1"]


def test_a_reader_written_from_the_documentation_reads_every_version(lake: Path) -> None:
    reader, versions = Reader(lake), expected(lake)
    assert reader.latest() == len(versions) - 1 == 9
    assert [reader.version(version) for version in range(len(versions))] == versions


def test_our_reader_reads_the_same(lake: Path) -> None:
    store = open_store(lake)
    latest = latest_root(store)
    versions = expected(lake)
    assert latest.version == len(versions) - 1
    for version, items in enumerate(versions):
        root = read_root(store, version)
        shape = definition.load(store, root.definition).shape
        assert (root.expired_at_millis is None) == (items is not None)
        if items is not None:
            tree = Tree(root.node, Nodes(store), shape)
            assert list(tree.scan()) == sorted(items.items())
            assert all(tree.get(key) == value for key, value in items.items())


def test_the_fixture_shows_everything_that_the_format_has(lake: Path) -> None:
    store = open_store(lake)
    roots = [read_root(store, version) for version in range(10)]
    assert [root.expired_at_millis is None for root in roots] == [False] * 2 + [True] * 8
    assert [len(root.transactions) for root in roots] == [0, 1, 4, 4, 4, 1, 1, 1, 1, 1]
    assert max(root.node.level for root in roots) == 3
    assert any(value is None for value, _ in roots[5].node.buffer.values())
    assert (roots[8].rollback_from, roots[8].rollback_to) == (7, 4)
    assert (roots[8].min_base, roots[9].min_base) == (0, 2)
    side_file = roots[7].transactions_file
    assert side_file is not None
    assert [len(record.keys or ()) for record in transactions.load(store, side_file)] == [3]
    assert definition.load(store, roots[8].definition).minimum_versions_to_keep == 3
    assert definition.load(store, roots[9].definition).minimum_versions_to_keep == 5
    items = expected(lake)[7]
    assert items is not None
    large = items[keys.namespace_key(("große",))]
    assert len(rows.decode(definitions.resolve(store, large), rows.NamespaceRow).properties) == 50
    kinds = {rows.kind_of(value).__name__ for value in items.values()}
    assert kinds == {
        "NamespaceRow", "TableRow", "ViewRow", "ObjectNameRow", "TransactionRow", "TagRow", "StreamRow",
    }  # fmt: skip
    table = rows.decode(items[keys.table_key(("shop", "lance"))], rows.TableRow)
    assert table.manifest is not None
    assert table.manifest.sha256 == bytes(range(32))


def test_every_file_of_the_fixture_is_reached_from_some_version(lake: Path) -> None:
    store = open_store(lake)
    reached = {"_latest_hint", "expected.json"}
    for version in range(10):
        root = read_root(store, version)
        pointers = {root.definition, root.transactions_file or root.definition}
        if root.expired_at_millis is None:
            tree = Tree(root.node, Nodes(store), definition.load(store, root.definition).shape)
            values = [value for _, value in tree.scan()]
            pointers |= {pointer for value in values if (pointer := definitions.reference(value)) is not None}
            pointers |= set(tree.walk())
        reached |= {root.name, *(pointer.rpartition("#")[0] for pointer in pointers)}
    assert {info.path for info in store.list()} == reached
