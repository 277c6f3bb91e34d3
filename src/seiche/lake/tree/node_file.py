"""Node files: an Arrow IPC file with one record batch of four columns in three sections, and a checksum.

The checksum stands between Arrow's end-of-stream mark and its footer, where no Arrow reader looks. It is verified
before Arrow sees a single byte: a damaged length inside an Arrow file can ask for any amount of memory.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter, lt
from typing import Any, Final

import pyarrow as pa
from pyarrow import ipc

from seiche.errors import Corrupt
from seiche.lake.tree.node import Node

__all__ = ["SCHEMA", "checksum", "decode", "encode"]

SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("pnode", pa.utf8()),
        pa.field("txn", pa.utf8()),
    ]
)

# LZ4 halves a root in a tenth of a millisecond; ZSTD saves a quarter more and takes twice as long on the commit path.
_WRITE: Final = ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ: Final = ipc.IpcReadOptions(use_threads=False)

# What comes of reading wrong bytes, from Arrow (OSError too: "invalid flatbuffers message") and from the code below.
_DAMAGE: Final = (
    pa.ArrowException,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    struct.error,
    OverflowError,
    MemoryError,
)

# Of a message.
_VALUE: Final = itemgetter(0)
_TXN: Final = itemgetter(1)

_MAGIC: Final = b"ARROW1"
_MARK: Final = b"SEICHECK"
_SEAL: Final = struct.Struct("<8sII")  # mark, checksum, zero
_TAIL: Final = struct.Struct("<i6s")  # length of Arrow's footer, magic


def encode(node: Node, system: Mapping[str, bytes], order: int) -> bytes:
    """The bytes of a node file; `system` are rows besides those that every node has (`n_keys`, `level`)."""
    rows = {"n_keys": b"%d" % len(node.keys), "level": b"%d" % node.level, **system}
    before = [None] * len(rows)
    # The format gives the key table exactly `order` rows: the leftmost child's, then keys, then empty ones.
    padding = [None] * max(0, order - 1 - len(node.keys))
    messages = node.buffer.values()
    children = node.children or [None] * (len(node.keys) + 1)
    columns = (
        [*(name.encode() for name in rows), None, *node.keys, *padding, *node.buffer],
        [*rows.values(), None, *node.values, *padding, *map(_VALUE, messages)],
        [*before, *children, *padding, *([None] * len(messages))],
        [*before, *([None] * (len(node.keys) + 1)), *padding, *map(_TXN, messages)],
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, SCHEMA, options=_WRITE) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=SCHEMA))
    return _sealed(sink.getvalue().to_pybytes())


def checksum(data: bytes) -> int:
    """The checksum that a whole node file carries."""
    crc: int = _SEAL.unpack_from(data, _seal_offset(data))[1]
    return crc


def decode(data: bytes, path: str, *, crc: int | None = None) -> tuple[Node, dict[str, bytes]]:
    """The node and its system rows; `Corrupt` if the file is damaged, or not the one that its parent names by `crc`."""
    try:
        found = _verified(data)
        if crc is not None and found != crc:
            raise ValueError(f"its checksum is {found:08x}, but its parent node names {crc:08x}")
        return _parsed(data)
    except _DAMAGE as error:
        raise Corrupt(
            f"{path} is not a sound node file: {error}",
            remedy="Restore this file from a copy of the lake; `seiche fsck` names every version that needs it.",
            path=path,
        ) from error


def _sealed(data: bytes) -> bytes:
    length, _ = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    footer = len(data) - _TAIL.size - length
    mark = data[:footer] + _MARK
    end = bytes(4) + data[footer:]
    return b"".join((mark, zlib.crc32(end, zlib.crc32(mark)).to_bytes(4, "little"), end))


def _seal_offset(data: bytes) -> int:
    length, magic = _TAIL.unpack_from(data, len(data) - _TAIL.size)
    offset: int = len(data) - _TAIL.size - length - _SEAL.size
    if magic != _MAGIC or not data.startswith(_MAGIC) or length < 0 or offset < len(_MAGIC):
        raise ValueError("it does not begin and end as an Arrow file does")
    return offset


def _verified(data: bytes) -> int:
    if len(data) < len(_MAGIC) + _SEAL.size + _TAIL.size:
        raise ValueError(f"it has only {len(data)} bytes")
    offset = _seal_offset(data)
    mark, crc, _ = _SEAL.unpack_from(data, offset)
    if mark != _MARK:
        raise ValueError("it has no checksum")
    view = memoryview(data)
    found = zlib.crc32(view[offset + 12 :], zlib.crc32(view[: offset + 8]))
    if found != crc:
        raise ValueError(f"its content has the checksum {found:08x}, but it says {crc:08x}")
    return found


def _parsed(data: bytes) -> tuple[Node, dict[str, bytes]]:
    reader = ipc.open_file(pa.py_buffer(data), options=_READ)
    if not reader.schema.equals(SCHEMA):
        raise ValueError(f"its columns are {', '.join(map(str, reader.schema))}")
    if reader.num_record_batches != 1:
        raise ValueError(f"it has {reader.num_record_batches} record batches instead of one")
    keys, values, pnodes, txns = map(_cells, reader.get_batch(0).columns)
    table = keys.index(None)
    end = next((row for row in range(table, len(txns)) if txns[row] is not None), len(txns))
    system = {key.decode(): value for key, value in zip(keys[:table], values[:table], strict=True)}
    # Empty rows only ever stand behind the keys: they fill the table up to the order that the tree had then.
    count = int(system["n_keys"])
    last = table + 1 + count
    if (
        count < 0
        or last > end
        or any(cell is not None for column in (keys, values, pnodes) for cell in column[last:end])
    ):
        raise ValueError(f"its key table does not have the {count} keys that it says")
    node = Node(
        int(system.pop("level")),
        tuple(keys[table + 1 : last]),
        tuple(values[table + 1 : last]),
        tuple(pointer.decode() for pointer in pnodes[table:last] if pointer is not None),
        dict(zip(keys[end:], zip(values[end:], map(bytes.decode, txns[end:]), strict=True), strict=True)),
    )
    del system["n_keys"]
    _check(node, values[table], pnodes[end:])
    return node, system


def _check(node: Node, corner: bytes | None, strays: Sequence[bytes | None]) -> None:
    if corner is not None or None in node.keys or None in node.values or None in node.buffer or any(strays):
        raise ValueError("its rows are not in the three sections of a node")
    if not all(map(lt, node.keys, node.keys[1:])):
        raise ValueError("its keys are not in ascending order")
    if len(node.children) != (len(node.keys) + 1 if node.level else 0):
        raise ValueError(f"a node of level {node.level} with {len(node.keys)} keys has {len(node.children)} children")


def _cells(column: Any) -> list[Any]:
    """The cells of a column as bytes or None, cut out of its buffers: ten times as fast as Arrow's own conversion."""
    count = len(column)
    validity, offsets, content = column.buffers()
    if count == 0:
        return []
    data = b"" if content is None else content.to_pybytes()
    bounds = memoryview(offsets).cast("i")[: count + 1].tolist()
    if len(bounds) != count + 1 or bounds[-1] > len(data):
        raise ValueError("a column's offsets do not fit its content")
    cells = [data[start:stop] for start, stop in pairwise(bounds)]
    if validity is None or not column.null_count:
        return cells
    bits = int.from_bytes(validity.to_pybytes(), "little")
    return [cell if bit == "1" else None for cell, bit in zip(cells, f"{bits:0{count}b}"[::-1], strict=False)]
