"""The manifest file: index section, transaction and manifest behind one another, and a footer that finds them.

    [u32 length | IndexSection]   only if there are indices
    [u32 length | Transaction]    the transaction that made this version
    [u32 length | Manifest]
    [u64 offset of the manifest's length][u16 major][u16 minor]["LANC"]

All numbers are little-endian.
"""

import struct
from dataclasses import dataclass
from typing import cast

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.store.base import Buffer, Store
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.flags import DELETION_FILES
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.splitting import check_entries, split
from seiche.table.format.transaction_pb2 import Transaction

__all__ = ["ManifestFile", "as_stored", "decode", "encode", "read_transaction"]

FOOTER_SIZE = 16

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<QHH4s")
_MAJOR, _MINOR, _MAGIC = 0, 2, b"LANC"

# A file up to this size is read whole by one request; of a larger one the fragments are left where they are.
_READ_WHOLE = 64 * 1024
_LARGEST_SECTION = 4 + (1 << 32)
# How an index section begins. No transaction does, so it can be told which of the two stands alone before a manifest.
_INDEX_SECTION = b"\x0a"
# How a transaction begins that read some version. Neither an index section nor a manifest does: there the first field
# is of another kind. Most transactions stand first in their file, and are not longer than this.
_READ_VERSION = b"\x08"
_READ_FIRST = 4 * 1024


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a manifest file holds: a version, and the transaction that made it if the writer put it there."""

    manifest: Manifest
    transaction: Transaction | None


def encode(manifest: Manifest, transaction: bytes, *, before_14: bool = False) -> list[Buffer]:
    """The file as buffers to be written one behind the other; the bytes of old fragments are passed on, not copied.

    Releases of Lance `before_14` look for the place of the transaction in another field. Where they do not find it they
    want a file of the transaction's own.
    """
    indices, pieces = manifest.index_section, manifest.fragments.pieces
    placed = _placed(manifest)
    if before_14:
        placed = as_stored(manifest).copy_header()
        placed.old_transaction_section = placed.transaction_section
    header = placed.SerializeToString()
    sections = [_LENGTH.pack(len(indices)), indices] if indices else []
    sections += (_LENGTH.pack(len(transaction)), transaction)
    offset = (4 + len(indices) if indices else 0) + 4 + len(transaction)
    size = _LENGTH.pack(len(header) + sum(map(len, pieces)))
    return [b"".join((*sections, size, header)), *pieces, _FOOTER.pack(offset, _MAJOR, _MINOR, _MAGIC)]


def as_stored(manifest: Manifest) -> Manifest:
    """The manifest as it is read back from what `encode` makes of it."""
    header = _placed(manifest)
    if header is manifest.header:
        return manifest
    return Manifest(header, manifest.fragments, manifest.index_section, field_ids=manifest.field_ids)


def _placed(manifest: Manifest) -> pb.Manifest:
    """The header with the places of the sections; not a copy if they are there already, as after most appends."""
    header, indexed = manifest.header, bool(manifest.index_section)
    transaction_section = 4 + len(manifest.index_section) if indexed else 0
    if (
        header.HasField("transaction_section")
        and header.transaction_section == transaction_section
        and header.HasField("index_section") == indexed
        and header.index_section == 0
        and not header.HasField("old_transaction_section")
    ):
        return header
    placed = manifest.copy_header()
    placed.ClearField("old_transaction_section")
    placed.ClearField("index_section")
    if indexed:
        placed.index_section = 0
    placed.transaction_section = transaction_section
    return placed


def decode(data: bytes, *, path: str) -> ManifestFile:
    """Read a whole manifest file; anything that breaks the layout is `Corrupt`, named with `path` and the offset."""
    start = _manifest_offset(data, path)
    message = _section(data, start, "manifest", path)
    try:
        header, stored = split(message)
    except DecodeError as error:
        raise _broken(path, "the manifest message cannot be decoded", start, str(error)) from error
    has_deletions = bool(header.reader_feature_flags & DELETION_FILES)
    fragments = Fragments.from_stored(stored, has_deletions=has_deletions, source=path)
    indices = _index_section(data, header.index_section, path) if header.HasField("index_section") else b""
    manifest = Manifest(header, fragments, indices, source=path)
    return ManifestFile(manifest, _transaction_of(header, data, path))


def read_transaction(store: Store, path: str) -> Transaction | None:
    """The transaction inside a manifest file, `None` if its writer put none there; the fragments are not read.

    Takes one request if the transaction stands first or the file is small, else two or three, whatever the size of its
    manifest. A commit reads those of all versions that others made since: where a request costs little, so shall this.
    """
    size = _READ_FIRST if store.lists_in_one_request else _READ_WHOLE
    head = store.get_range(path, 0, size)
    if head[4:5] == _READ_VERSION and (end := 4 + _LENGTH.unpack_from(head)[0]) <= len(head):
        return _parse_transaction(head[4:end], 0, path)
    whole = len(head) < size
    end = _manifest_offset(head if whole else store.get_range(path, -FOOTER_SIZE, FOOTER_SIZE), path)
    start = _last_section(head, end)
    if start is not None:
        section = head[start:end] if end <= len(head) else store.get_range(path, start, end - start)
        if len(section) >= 4 and _LENGTH.unpack_from(section)[0] == len(section) - 4 == end - start - 4:
            alone = start == 0 and section[4:5] == _INDEX_SECTION
            return None if alone else _parse_transaction(section[4:], start, path)
    # No sections, or a layout that we have not seen: the manifest itself says where its transaction is.
    return decode(head if whole else store.get(path), path=path).transaction


def _last_section(head: bytes, end: int) -> int | None:
    """Where the last of the one or two sections before byte `end` should begin; `None` if there cannot be any."""
    if not 4 <= end <= 2 * _LARGEST_SECTION:
        return None
    (first,) = _LENGTH.unpack_from(head)
    if 4 + first == end:
        return 0
    return 4 + first if 4 + first + 4 <= end else None


def _index_section(data: bytes, offset: int, path: str) -> bytes:
    section = _section(data, offset, "index section", path)
    try:
        check_entries(section)
    except DecodeError as error:
        raise _broken(path, "the index section cannot be decoded", offset, str(error)) from error
    return bytes(section)


def _transaction_of(header: pb.Manifest, data: bytes, path: str) -> Transaction | None:
    if header.HasField("transaction_section"):
        offset = header.transaction_section
    elif header.HasField("old_transaction_section"):
        offset = header.old_transaction_section
    else:
        return None
    return _parse_transaction(_section(data, offset, "transaction", path), offset, path)


def _parse_transaction(encoded: bytes, offset: int, path: str) -> Transaction:
    try:
        return Transaction.FromString(encoded)
    except DecodeError as error:
        raise _broken(path, "the inline transaction cannot be decoded", offset, str(error)) from error


def _manifest_offset(data: bytes, path: str) -> int:
    if len(data) < FOOTER_SIZE:
        raise _broken(path, f"only {len(data)} bytes, a manifest file has at least {FOOTER_SIZE}", 0)
    offset, _, _, magic = _FOOTER.unpack_from(data, len(data) - FOOTER_SIZE)
    if magic != _MAGIC:
        raise _broken(path, f"ends in {magic!r} instead of {_MAGIC!r}", len(data) - 4)
    return int(offset)


def _section(data: bytes, offset: int, what: str, path: str) -> bytes:
    end = len(data) - FOOTER_SIZE
    if offset + 4 > end:
        raise _broken(path, f"the {what} would begin outside the file of {len(data)} bytes", offset)
    (length,) = _LENGTH.unpack_from(data, offset)
    if offset + 4 + length > end:
        raise _broken(path, f"the {what} claims {length} bytes, more than the file has left", offset)
    # A view, to copy nothing: protobuf takes any buffer, only its type stubs ask for bytes.
    return cast(bytes, memoryview(data)[offset + 4 : offset + 4 + length])


def _broken(path: str, what: str, offset: int, detail: str = "") -> Corrupt:
    return Corrupt(
        f"{path}: {what} (at byte {offset})" + (f": {detail}" if detail else ""),
        remedy="The file is damaged or was cut short. Restore it from a copy, or open an older version.",
        path=path,
        offset=offset,
    )
