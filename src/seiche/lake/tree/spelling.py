"""The messages of a node as they stand in its file, derived from those of the node before.

A commit adds a few messages to hundreds. To spell all of them again takes longer than anything else that a commit does.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from struct import Struct
from typing import Final

import numpy as np

__all__ = ["NOTHING", "Cells", "Spelling", "shifted"]

_WIDE: Final = Struct("=2i")


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of one column: their bytes, one behind the other, and where each ends. A missing one is empty.

    `ends` are 32-bit numbers in the order of this machine, as Arrow has them.
    """

    content: bytes
    ends: bytes

    def changed(self, rows: Mapping[int, bytes], more: Sequence[bytes]) -> "Cells":
        """With other cells in some rows, and more at the end."""
        content, ends = self.content, self.ends
        # A copy of a column is a matter of microseconds: what was spelled before is never changed.
        for row, cell in rows.items():
            start, end = _WIDE.unpack_from(b"\0\0\0\0" + ends[:4] if not row else ends, 4 * max(0, row - 1))
            content = b"".join((content[:start], cell, content[end:]))
            if len(cell) != end - start:
                ends = ends[: 4 * row] + shifted(ends[4 * row :], len(cell) - (end - start))
        if not more:
            return Cells(content, ends)
        added = array("i", islice(accumulate(map(len, more), initial=len(content)), 1, None))
        return Cells(b"".join((content, *more)), ends + added.tobytes())


def shifted(ends: bytes, by: int) -> bytes:
    """Ends of cells before which so many bytes were put in."""
    return (np.frombuffer(ends, np.int32) + np.int32(by)).tobytes()


@dataclass(frozen=True, slots=True)
class Spelling:
    """Messages in the order of their rows: keys, values and transactions. `filled` has a bit for each that has a value,
    the first one lowest; `rows` says where a key stands.
    """

    keys: Cells
    values: Cells
    txns: Cells
    filled: int
    rows: Mapping[bytes, int]

    def __len__(self) -> int:
        return len(self.rows)

    def buffering(self, messages: Mapping[bytes, tuple[bytes | None, str]]) -> "Spelling":
        """With these messages as well, in place of what was said about their keys."""
        rows = dict(self.rows)
        filled = self.filled
        values: dict[int, bytes] = {}
        txns: dict[int, bytes] = {}
        new: list[tuple[bytes, bytes, bytes]] = []
        for key, (value, txn) in messages.items():
            cell, by = b"" if value is None else value, txn.encode()
            row = rows.get(key)
            if row is None:
                row = rows[key] = len(rows)
                new.append((key, cell, by))
            else:
                values[row], txns[row] = cell, by
            filled = filled & ~(1 << row) if value is None else filled | 1 << row
        added = tuple(zip(*new, strict=True)) or ((), (), ())
        return Spelling(
            self.keys.changed({}, added[0]),
            self.values.changed(values, added[1]),
            self.txns.changed(txns, added[2]),
            filled,
            rows,
        )


_NONE: Final = Cells(b"", b"")
# What a buffer without messages is spelled like.
NOTHING: Final = Spelling(_NONE, _NONE, _NONE, 0, {})
