"""Affected rows: which rows of which fragments a Delete or Update takes out of their place.

pylance hands them from the operation to the commit in memory and forgets them. Here they can be stored with the
pending transaction, so that another process can finish the commit; and they can be found out again, from the deletion
vectors at the read version and in the transaction.
"""

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyroaring import BitMap

from seiche.errors import Corrupt
from seiche.table.format import roaring
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.transaction import Transaction

__all__ = [
    "FILE_PROPERTY",
    "ROWS_PROPERTY",
    "AffectedRows",
    "Packed",
    "all_newly_deleted",
    "as_rows",
    "decode",
    "encode",
    "newly_deleted",
    "pack",
    "unpack",
    "without_rows",
]

AffectedRows = Mapping[int, BitMap]

ROWS_PROPERTY = "seiche.affected_rows"
FILE_PROPERTY = "seiche.affected_rows_file"

# Whoever looks at a pending transaction reads its properties: more than this goes into a file.
_LARGEST_PROPERTY = 4096
# In front of each fragment's bitmap: the fragment's id and the length of the bitmap.
_HEAD = struct.Struct("<QI")


@dataclass(frozen=True, slots=True)
class Packed:
    """Affected rows as they are stored: properties for the transaction, and files to be written before it."""

    properties: Mapping[str, str]
    files: Mapping[str, bytes] = field(default_factory=dict)


def newly_deleted(before: DataFragment, after: DataFragment, deletions: DeletionFiles) -> BitMap:
    """The rows that the deletion file of `after` has and that of `before` has not."""
    if after.deletion_file == before.deletion_file:
        return BitMap()
    return deletions.read(after) - deletions.read(before)


def all_newly_deleted(
    changed: Iterable[tuple[DataFragment, DataFragment]], deletions: DeletionFiles
) -> dict[int, BitMap]:
    """The same of several fragments, each as it was and as it is, by their ids; read side by side."""
    pairs = list(changed)
    found = deletions.store.in_parallel(lambda pair: newly_deleted(*pair, deletions), pairs)
    return {after.id: rows for (_, after), rows in zip(pairs, found, strict=True)}


def pack(rows: AffectedRows, *, uuid: str, largest_property: int = _LARGEST_PROPERTY) -> Packed:
    """How to store the rows with the transaction of this uuid: in a property if they are few, else in a side file."""
    data = encode(rows)
    if len(data) * 4 // 3 <= largest_property:
        return Packed({ROWS_PROPERTY: base64.b64encode(data).decode("ascii")})
    path = f"_transactions/{uuid}.rows"
    return Packed({FILE_PROPERTY: path}, {path: data})


def unpack(properties: Mapping[str, str], files: Mapping[str, bytes] | None = None) -> dict[int, BitMap] | None:
    """The rows that `pack` stored; `None` if there are none, or they are in a file that was not given."""
    if (text := properties.get(ROWS_PROPERTY)) is not None:
        try:
            return decode(base64.b64decode(text, validate=True), what=f"property {ROWS_PROPERTY}")
        except binascii.Error as error:
            raise _broken(f"property {ROWS_PROPERTY}", str(error)) from error
    path = properties.get(FILE_PROPERTY)
    if path is None or files is None or path not in files:
        return None
    return decode(files[path], what=path)


def without_rows(transaction: Transaction) -> Transaction:
    """The transaction as it is committed: by then the rows are in its deletion vectors."""
    kept = {key: value for key, value in transaction.properties.items() if key not in {ROWS_PROPERTY, FILE_PROPERTY}}
    return transaction if len(kept) == len(transaction.properties) else replace(transaction, properties=kept)


def encode(rows: AffectedRows) -> bytes:
    """Equal rows give equal bytes."""
    parts: list[bytes] = []
    for fragment_id, offsets in sorted(rows.items()):
        bitmap = roaring.encode(offsets)
        parts += (_HEAD.pack(fragment_id, len(bitmap)), bitmap)
    return b"".join(parts)


def decode(data: bytes, *, what: str = "affected rows") -> dict[int, BitMap]:
    """Read what `encode` made; anything else is `Corrupt`."""
    rows: dict[int, BitMap] = {}
    at = 0
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise _broken(what, f"cut short at byte {at}")
        fragment_id, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + length > len(data) or fragment_id in rows:
            raise _broken(what, f"the rows of fragment {fragment_id} are cut short or come twice, at byte {at}")
        rows[fragment_id] = roaring.decode(data[at : at + length], what=f"{what}, fragment {fragment_id}")
        at += length
    return rows


def as_rows(rows: Mapping[int, Iterable[int]]) -> dict[int, BitMap]:
    """Affected rows from any collections of offsets; those that are Roaring bitmaps already are taken as they are."""
    return {fragment: offsets if isinstance(offsets, BitMap) else BitMap(offsets) for fragment, offsets in rows.items()}


def _broken(what: str, problem: str) -> Corrupt:
    return Corrupt(
        f"{what}: {problem}",
        remedy="The pending transaction is damaged. Run the operation again.",
        path=what,
    )
