"""Node files: round trips, what plain Arrow sees, and every kind of damage."""

import zlib
from contextlib import suppress
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from seiche.errors import Corrupt
from seiche.lake.tree import node_file
from seiche.lake.tree.node import Message, Node
from seiche.lake.tree.nodes import Nodes
from seiche.lake.tree.pointer import pointer
from seiche.testing import DictStore

Keys = st.binary(min_size=1, max_size=12)
Buffers = st.dictionaries(Keys, st.tuples(st.none() | st.binary(max_size=20), st.text(min_size=1, max_size=36)))
SystemRows = st.dictionaries(st.text(min_size=1, max_size=5).map("x".__add__), st.binary(max_size=9))


@st.composite
def some_nodes(draw: st.DrawFn) -> Node:
    table = draw(st.dictionaries(Keys, st.binary(max_size=20), max_size=10))
    keys = tuple(sorted(table))
    level = draw(st.integers(0, 5))
    children = tuple(pointer(f"a/b-{number}.ipc", number) for number in range(len(keys) + 1)) if level else ()
    return Node(level, keys, tuple(table[key] for key in keys), children, draw(Buffers))


def small() -> Node:
    buffer: dict[bytes, Message] = {b"k2": (b"new", "t1"), b"k9": (None, "t2")}
    return Node(1, (b"k1", b"k3"), (b"one", b"three"), ("a#00000001", "b#00000002", "c#00000003"), buffer)


@settings(max_examples=200, deadline=None)
@given(some_nodes(), SystemRows, st.integers(3, 130))
def test_a_node_reads_back_as_it_was_written(node: Node, system: dict[str, bytes], order: int) -> None:
    data = node_file.encode(node, system, order)
    assert node_file.decode(data, "x.ipc") == (node, system)
    assert node_file.decode(data, "x.ipc", crc=node_file.checksum(data)) == (node, system)
    assert (
        len(data)
        <= node.size + sum(len(name.encode()) + len(value) + 18 for name, value in system.items()) + 17 * order
    )


@settings(max_examples=150, deadline=None)
@given(some_nodes(), st.lists(st.tuples(Buffers, st.booleans()), max_size=6), st.integers(3, 20))
def test_a_node_that_was_made_from_others_is_spelled_like_a_new_one(
    first: Node, news: list[tuple[dict[bytes, Message], bool]], order: int
) -> None:
    """Whether or not those before it were written: what they left behind is what is built upon."""
    node = first
    node_file.encode(node, {}, order)
    for messages, written in news:
        node = node.buffering([(key, value, txn) for key, (value, txn) in messages.items()])
        if written:
            before = node_file.encode(node, {"a": b"b"}, order)
            node_file.encode(node.buffering([(b"beside", b"x", "t")]), {}, order)
            assert node_file.encode(node, {"a": b"b"}, order) == before
    assert node_file.decode(node_file.encode(node, {}, order), "x")[0] == node


def test_large_nodes_are_compressed_and_small_ones_are_what_arrow_would_write() -> None:
    def file(count: int) -> bytes:
        node = Node(buffer={b"%d" % number: (b"v" * 100, f"t{number}") for number in range(count)})
        return node_file.encode(node, {}, 8)

    assert len(file(2000)) < 2000 * 100 < len(file(1000)) * 2 < len(file(100)) * 20
    table = ipc.open_file(pa.py_buffer(file(100))).read_all()
    table.validate(full=True)
    assert [column.null_count for column in table.columns] == [8, 8, 110, 10]


def test_plain_arrow_reads_the_three_sections() -> None:
    table = ipc.open_file(pa.py_buffer(node_file.encode(small(), {"hello": b"world"}, 5))).read_all()
    assert table.schema.names == ["key", "value", "pnode", "txn"]
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == [
        (b"n_keys", b"2", None, None),
        (b"level", b"1", None, None),
        (b"hello", b"world", None, None),
        (None, None, "a#00000001", None),
        (b"k1", b"one", "b#00000002", None),
        (b"k3", b"three", "c#00000003", None),
        (None, None, None, None),
        (None, None, None, None),
        (b"k2", b"new", None, "t1"),
        (b"k9", None, None, "t2"),
    ]


def test_a_node_written_under_another_order_is_still_read() -> None:
    assert node_file.decode(node_file.encode(small(), {}, 128), "x")[0] == small()
    assert node_file.decode(node_file.encode(small(), {}, 3), "x")[0] == small()


def test_of_several_messages_about_a_key_the_last_counts() -> None:
    data = written([(b"n_keys", b"0"), (b"level", b"0")], [], [(b"k", b"old", "t1"), (b"k", None, "t2")])
    assert node_file.decode(data, "x")[0].buffer == {b"k": (None, "t2")}


def test_compression_is_the_writers_choice() -> None:
    for compression in (None, "lz4", "zstd"):
        data = written([(b"n_keys", b"0"), (b"level", b"0")], [], [(b"k", b"v", "t")], compression=compression)
        assert node_file.decode(data, "x")[0].buffer == {b"k": (b"v", "t")}


def test_every_flipped_byte_and_every_missing_end_is_noticed() -> None:
    data = node_file.encode(small(), {}, 8)
    for position in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] ^= mask
            with pytest.raises(Corrupt, match=r"x\.ipc is not a sound node file"):
                node_file.decode(bytes(damaged), "x.ipc")
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            node_file.decode(data[:length], "x.ipc")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_under_a_correct_checksum_is_an_error_of_ours_at_worst(data: st.DataObject) -> None:
    """A checksum made for wrong bytes cannot come from a disk; the reader still must not crash or hang on them."""
    sound = node_file.encode(small(), {}, 8)
    seal = sound.index(b"SEICHECK")
    body = bytearray(sound)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(8, len(body) - 11).filter(lambda at: not seal <= at < seal + 16))
        body[position] = data.draw(st.integers(0, 255))
    crc = zlib.crc32(body[seal + 12 :], zlib.crc32(body[: seal + 8]))
    body[seal + 8 : seal + 12] = crc.to_bytes(4, "little")
    with suppress(Corrupt):
        node, _ = node_file.decode(bytes(body), "x.ipc")
        assert list(node.keys) == sorted(set(node.keys))


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"ARROW1\0\0" * 10, b"\0" * 100, b"hello world" * 20])
def test_other_files_are_not_nodes(data: bytes) -> None:
    with pytest.raises(Corrupt):
        node_file.decode(data, "x")


def test_an_arrow_file_without_our_checksum_is_refused() -> None:
    sealed = node_file.encode(small(), {}, 8)
    seal = sealed.index(b"SEICHECK")
    with pytest.raises(Corrupt, match="no checksum"):
        node_file.decode(sealed[:seal] + sealed[seal + 16 :], "x")


Table = list[tuple[bytes | None, bytes | None, str | None]]


@pytest.mark.parametrize(
    ("system", "table", "why"),
    [
        ([(b"level", b"0")], [], "n_keys"),
        ([(b"n_keys", b"0")], [], "level"),
        ([(b"n_keys", b"2"), (b"level", b"0")], [(b"a", b"1", None)], "the 2 keys"),
        ([(b"n_keys", b"1"), (b"level", b"0")], [(b"a", b"1", None), (b"b", b"2", None)], "the 1 keys"),
        ([(b"n_keys", b"-1"), (b"level", b"0")], [], "the -1 keys"),
        ([(b"n_keys", b"2"), (b"level", b"0")], [(b"b", b"1", None), (b"a", b"2", None)], "ascending"),
        ([(b"n_keys", b"2"), (b"level", b"0")], [(b"a", b"1", None), (b"a", b"2", None)], "ascending"),
        ([(b"n_keys", b"1"), (b"level", b"0")], [(b"a", None, None)], "three sections"),
        ([(b"n_keys", b"1"), (b"level", b"1")], [(b"a", b"1", "p#00000000")], "1 children"),
        ([(b"n_keys", b"1"), (b"level", b"0")], [(b"a", b"1", "p#00000000")], "1 children"),
        ([(b"n_keys", b"x"), (b"level", b"0")], [], "invalid literal"),
    ],
)
def test_rows_that_break_the_layout_are_noticed(system: list[tuple[bytes, bytes]], table: Table, why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        node_file.decode(written(system, table, []), "x")


def test_another_schema_is_refused() -> None:
    batch = pa.record_batch({"key": [b"k"], "value": [b"v"]})
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(Corrupt, match="its columns are"):
        node_file.decode(node_file._sealed(sink.getvalue().to_pybytes()), "x")


def test_a_child_that_was_swapped_for_another_is_noticed() -> None:
    store = DictStore()
    data = node_file.encode(small(), {}, 8)
    other = node_file.encode(Node(), {}, 8)
    store.put("n.ipc", other)
    with pytest.raises(Corrupt, match="but its parent node names"):
        Nodes(store).load(pointer("n.ipc", node_file.checksum(data)))
    assert Nodes(store).load(pointer("n.ipc", node_file.checksum(other))) == Node()


def test_a_missing_child_is_damage_and_not_an_empty_answer() -> None:
    with pytest.raises(Corrupt, match="a node of the tree is missing"):
        Nodes(DictStore()).load(pointer("n.ipc", 1))
    with pytest.raises(Corrupt, match="is not a pointer"):
        Nodes(DictStore()).load("nonsense")
    with pytest.raises(Corrupt, match="is not a pointer"):
        Nodes(DictStore()).load("n.ipc#zzzzzzzz")


def written(
    system: list[tuple[bytes, bytes]],
    table: Table,
    buffer: list[tuple[bytes, bytes | None, str]],
    compression: str | None = "lz4",
) -> bytes:
    """A node file with these rows, right or wrong."""
    rows: list[tuple[bytes | None, bytes | None, str | None, str | None]] = [
        *((key, value, None, None) for key, value in system),
        (None, None, None, None),
        *((key, value, child, None) for key, value, child in table),
        *((key, value, None, txn) for key, value, txn in buffer),
    ]
    columns = [
        pa.array(list(column), field.type)
        for column, field in zip(zip(*rows, strict=True), node_file.SCHEMA, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, node_file.SCHEMA, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(pa.record_batch(columns, schema=node_file.SCHEMA))
    return node_file._sealed(sink.getvalue().to_pybytes())


def test_other_arrow_readers_do_not_mind_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "node.ipc"
    path.write_bytes(node_file.encode(small(), {}, 4))
    assert polars.read_ipc(path)["key"].to_list()[-1] == b"k9"
