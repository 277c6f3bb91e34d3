"""Small Arrow files of one batch, put together without Arrow.

Arrow takes three times as long for a small batch, and six when a server has done something else since the last one.
What stands around the columns is the same in all files of a schema but for some numbers: it is taken once from a file
that Arrow has written, and the numbers are put in their places.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import ipc

from seiche.lake.tree.spelling import Cells, shifted

__all__ = ["Column", "SmallFiles"]

_MAGIC: Final = b"ARROW1\0\0"
_MESSAGE: Final = struct.Struct("<Ii")  # mark, length of what follows
_MARK: Final = 0xFFFFFFFF
_END: Final = _MESSAGE.pack(_MARK, 0)
_TAIL: Final = struct.Struct("<i6s")  # length of the footer, magic


# A column of bytes or texts: cells that are spelled here, empty where there is none; how many empty ones follow; those
# behind them, which were spelled before; and a bit for each that there is, the first one lowest.
Column: TypeAlias = tuple[Sequence[bytes], int, Cells, int]


class SmallFiles:
    """Files of one schema, whose columns are all binary or text."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def encode(self, columns: Iterable[Column]) -> tuple[list[bytes], bytes]:
        """A file with one batch of these columns, uncompressed: its parts, and the last of them, which is the footer.

        They are not joined here, because whoever has something to put between them would have to do it again.
        """
        nodes: list[int] = []
        buffers: list[int] = []
        body: list[bytes] = []
        rows = size = 0
        for cells, empty, behind, filled in columns:
            rows = len(cells) + empty + len(behind.ends) // 4
            nodes += rows, rows - filled.bit_count()
            offsets = array("i", accumulate(map(len, cells), initial=0))
            last = offsets[-1]
            ends = shifted(behind.ends, last) if last else behind.ends
            for parts in (
                (filled.to_bytes((rows + 7) // 8, "little"),),
                (offsets.tobytes() + offsets[-1:].tobytes() * empty, ends),
                (b"".join(cells), behind.content),
            ):
                length = sum(map(len, parts))
                rest = -length % 8
                buffers += size, length
                body += parts
                if rest:
                    body.append(bytes(rest))
                size += length + rest
        frame = self._frame
        return [*frame.head(rows, nodes, buffers, size), *body, _END], frame.foot(size)

    @cached_property
    def _frame(self) -> "_Frame":
        return _Frame.of(self._schema)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What stands before and behind the columns, and where in it which numbers are."""

    before: bytes
    batch: bytes
    footer: bytes
    rows: int
    nodes: int
    buffers: int
    size: int
    block: int

    def head(self, rows: int, nodes: Sequence[int], buffers: Sequence[int], size: int) -> tuple[bytes, bytes]:
        made = bytearray(self.batch)
        struct.pack_into("<q", made, self.rows, rows)
        struct.pack_into(f"<{len(nodes)}q", made, self.nodes, *nodes)
        struct.pack_into(f"<{len(buffers)}q", made, self.buffers, *buffers)
        struct.pack_into("<q", made, self.size, size)
        return self.before, bytes(made)

    def foot(self, size: int) -> bytes:
        made = bytearray(self.footer)
        struct.pack_into("<q", made, self.block + 16, size)  # behind where the batch begins, and how long its head is
        return bytes(made)

    @classmethod
    def of(cls, schema: pa.Schema) -> "_Frame":
        # One row with something in each column: what is zero has no place in the file.
        arrays = [pa.array([b"x", None], pa.binary()).cast(field.type) for field in schema]
        sink = pa.BufferOutputStream()
        with ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.record_batch(arrays, schema=schema))
        data = sink.getvalue().to_pybytes()
        start = len(_MAGIC) + _length(data, len(_MAGIC))
        end = start + _length(data, start)
        tail = len(data) - _TAIL.size
        footer = data[tail - _TAIL.unpack_from(data, tail)[0] :]
        batch = data[start:end]
        message = _followed(batch, _MESSAGE.size)
        content = _followed(batch, _place(batch, message, 2))
        return cls(
            before=data[:start],
            batch=batch,
            footer=footer,
            rows=_place(batch, content, 0),
            nodes=_followed(batch, _place(batch, content, 1)) + 4,
            buffers=_followed(batch, _place(batch, content, 2)) + 4,
            size=_place(batch, message, 3),
            block=_followed(footer, _place(footer, _followed(footer, 0), 3)) + 4,
        )


def _length(data: bytes, at: int) -> int:
    """How long the head of a message is."""
    length: int = _MESSAGE.unpack_from(data, at)[1]
    return _MESSAGE.size + length


def _followed(data: bytes, at: int) -> int:
    """Where a table or vector begins, by the place that refers to it."""
    return at + _number("<I", data, at)


def _place(data: bytes, table: int, field: int) -> int:
    """Where a field of a table stands."""
    shape = table - _number("<i", data, table)
    return table + _number("<H", data, shape + 4 + 2 * field)


def _number(kind: str, data: bytes, at: int) -> int:
    found: tuple[Any, ...] = struct.unpack_from(kind, data, at)
    return int(found[0])
