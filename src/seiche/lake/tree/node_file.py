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
from seiche.lake.tree.small_file import Column, SmallFiles
from seiche.lake.tree.spelling import Cells

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

# Larger nodes are compressed, by Arrow. To compress a small one takes longer than to write what it saves. Of a buffer
# all but the newest messages were spelled before: it may be as large as that of a root gets, 128 kB and what is new.
_SMALL: Final = 64 * 1024
_SMALL_BUFFER: Final = 160 * 1024
_FILES: Final = SmallFiles(SCHEMA)

_MAGIC: Final = b"ARROW1"
_MARK: Final = b"SEICHECK"
_ZERO: Final = bytes(4)
_SEAL: Final = struct.Struct("<8sII")  # mark, checksum, zero
_TAIL: Final = struct.Struct("<i6s")  # length of Arrow's footer, magic


def encode(node: Node, system: Mapping[str, bytes], order: int) -> bytes:
    """The bytes of a node file; `system` are rows besides those that every node has (`n_keys`, `level`)."""
    rows = {"n_keys": b"%d" % len(node.keys), "level": b"%d" % node.level, **system}
    # The format gives the key table exactly `order` rows: the leftmost child's, then keys, then empty ones.
    padding = max(0, order - 1 - len(node.keys))
    small = node.table_size <= _SMALL and node.buffer_size <= _SMALL_BUFFER
    return _plain(node, rows, padding) if small else _compressed(node, rows, padding)


def _plain(node: Node, rows: Mapping[str, bytes], padding: int) -> bytes:
    before, keys, spelling = len(rows), len(node.keys), node.spelling
    behind, messages = before + 1 + keys + padding, len(node.buffer)
    if len(spelling) != messages:
        raise Corrupt(f"{len(spelling)} of {messages} messages were spelled", remedy="Nothing was written: a defect.")
    table = (1 << before) - 1 | ((1 << keys) - 1) << (before + 1)
    waiting = ((1 << messages) - 1) << behind
    nothing = Cells(b"", bytes(4 * messages))
    gap, children = (b"",), [child.encode() for child in node.children]
    columns: tuple[Column, ...] = (
        ([*(name.encode() for name in rows), *gap, *node.keys], padding, spelling.keys, table | waiting),
        ([*rows.values(), *gap, *node.values], padding, spelling.values, table | spelling.filled << behind),
        ([*gap * before, *children], behind - before - len(children), nothing, ((1 << len(children)) - 1) << before),
        ((), behind, spelling.txns, waiting),
    )
    return _sealed_parts(*_FILES.encode(columns))


def _compressed(node: Node, rows: Mapping[str, bytes], padding: int) -> bytes:
    before = [None] * len(rows)
    empty = [None] * padding
    messages = node.buffer.values()
    children = node.children or [None] * (len(node.keys) + 1)
    columns = (
        [*(name.encode() for name in rows), None, *node.keys, *empty, *node.buffer],
        [*rows.values(), None, *node.values, *empty, *map(_VALUE, messages)],
        [*before, *children, *empty, *([None] * len(messages))],
        [*before, *([None] * (len(node.keys) + 1)), *empty, *map(_TXN, messages)],
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
    return _sealed_parts([data[:footer]], data[footer:])


def _sealed_parts(before: Sequence[bytes], footer: bytes) -> bytes:
    """A file with its checksum in front of the footer."""
    crc = 0
    for part in (*before, _MARK, _ZERO, footer):
        crc = zlib.crc32(part, crc)
    return b"".join((*before, _MARK, crc.to_bytes(4, "little"), _ZERO, footer))


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
    batch = reader.get_batch(0)
    keys, values, pnodes, txns = map(_Column, batch.columns)
    # System rows are those before the first without a key, which begins the key table; messages have a transaction.
    table, end, rows = keys.first_null(), txns.first(), batch.num_rows
    system = {key.decode(): value for key, value in zip(keys.cells(0, table), values.cells(0, table), strict=True)}
    # Empty rows only ever stand behind the keys: they fill the table up to the order that the tree had then.
    count = int(system["n_keys"])
    last = table + 1 + count
    if count < 0 or last > end or any(column.has_any(last, end) for column in (keys, values, pnodes)):
        raise ValueError(f"its key table does not have the {count} keys that it says")
    if (
        values.has_any(table, table + 1)
        or not all(column.has_all(table + 1, last) for column in (keys, values))
        or not all(column.has_all(end, rows) for column in (keys, txns))
        or pnodes.has_any(end, rows)
    ):
        raise ValueError("its rows are not in the three sections of a node")
    messages = zip(values.cells(end, rows), txns.texts(end, rows), strict=True)
    node = Node(
        int(system.pop("level")),
        tuple(keys.cells(table + 1, last)),
        tuple(values.cells(table + 1, last)),
        tuple(pointer.decode() for pointer in pnodes.cells(table, last) if pointer is not None),
        dict(zip(keys.cells(end, rows), messages, strict=True)),
    )
    del system["n_keys"]
    _check(node)
    return node, system


def _check(node: Node) -> None:
    if not all(map(lt, node.keys, node.keys[1:])):
        raise ValueError("its keys are not in ascending order")
    if len(node.children) != (len(node.keys) + 1 if node.level else 0):
        raise ValueError(f"a node of level {node.level} with {len(node.keys)} keys has {len(node.children)} children")


class _Column:
    """A column of cells, cut out of its buffers where they are wanted: ten times as fast as Arrow's own conversion.

    A root is read whenever somebody else has committed, and half of its cells are known to be empty by where they are.
    """

    __slots__ = ("_bounds", "_count", "_data", "_filled")

    def __init__(self, column: Any) -> None:
        self._count = count = len(column)
        validity, offsets, content = column.buffers()
        self._data = b"" if content is None else content.to_pybytes()
        self._bounds = memoryview(offsets).cast("i")[: count + 1].tolist() if count else [0]
        if len(self._bounds) != count + 1 or self._bounds[-1] > len(self._data):
            raise ValueError("a column's offsets do not fit its content")
        # A bit for each cell that there is, the first one lowest.
        self._filled = (1 << count) - 1
        if validity is not None and column.null_count:
            self._filled &= int.from_bytes(validity.to_pybytes(), "little")

    def first(self) -> int:
        """The place of the first cell that has a value; behind the last one if none has."""
        return (self._filled & -self._filled).bit_length() - 1 if self._filled else self._count

    def first_null(self) -> int:
        """The place of the first cell without a value; `LookupError` if all have one."""
        missing = ~self._filled & ((1 << self._count) - 1)
        if not missing:
            raise LookupError("it has no key table")
        return (missing & -missing).bit_length() - 1

    def has_any(self, start: int, stop: int) -> bool:
        return self._between(start, stop) != 0

    def has_all(self, start: int, stop: int) -> bool:
        return self._between(start, stop) == (1 << (stop - start)) - 1

    def cells(self, start: int, stop: int) -> list[Any]:
        """Cells as bytes, or None."""
        data = self._data
        cells: list[Any] = [data[begin:end] for begin, end in pairwise(self._bounds[start : stop + 1])]
        if not self.has_all(start, stop):
            bits = self._between(start, stop)
            cells = [cell if bits >> index & 1 else None for index, cell in enumerate(cells)]
        return cells

    def texts(self, start: int, stop: int) -> list[str]:
        """Cells as text; all of them must be there."""
        if not self._data.isascii():
            return [cell.decode() for cell in self.cells(start, stop)]
        text = self._data.decode("ascii")
        return [text[begin:end] for begin, end in pairwise(self._bounds[start : stop + 1])]

    def _between(self, start: int, stop: int) -> int:
        return self._filled >> start & (1 << (stop - start)) - 1
