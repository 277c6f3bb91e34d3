"""The manifest file: index section, transaction and manifest behind one another, and a footer that finds them.

    [u32 length | IndexSection]   only if there are indices
    [u32 length | Transaction]    the transaction that made this version
    [u32 length | Manifest]
    [u64 offset of the manifest's length][u16 major][u16 minor]["LANC"]

All numbers are little-endian.
"""

import struct
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.table.format import manifest_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.transaction_pb2 import Transaction

__all__ = ["ManifestFile", "decode", "decode_transaction", "encode"]

FOOTER_SIZE = 16

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<QHH4s")
_MAJOR, _MINOR, _MAGIC = 0, 2, b"LANC"
_DELETION_FILES = 1


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a manifest file holds: a version, and the transaction that made it if the writer put it there."""

    manifest: Manifest
    transaction: Transaction | None


def encode(manifest: Manifest, transaction: bytes) -> list[bytes]:
    """The file as buffers to be written one behind the other; the bytes of old fragments are passed on, not copied."""
    index_section = manifest.index_section
    header = manifest.copy_header()
    header.ClearField("old_transaction_section")
    sections: list[bytes] = []
    offset = 0
    if index_section:
        header.index_section = 0
        sections += [_LENGTH.pack(len(index_section)), index_section]
        offset = 4 + len(index_section)
    else:
        header.ClearField("index_section")
    header.transaction_section = offset
    sections += [_LENGTH.pack(len(transaction)), transaction]
    offset += 4 + len(transaction)
    encoded = header.SerializeToString()
    pieces = manifest.fragments.pieces
    size = len(encoded) + sum(map(len, pieces))
    start = b"".join([*sections, _LENGTH.pack(size), encoded])
    return [start, *pieces, _FOOTER.pack(offset, _MAJOR, _MINOR, _MAGIC)]


def decode(data: bytes, *, path: str) -> ManifestFile:
    """Read a whole manifest file; anything that breaks the layout is `Corrupt`, named with `path` and the offset."""
    header_bytes = _section(data, _manifest_offset(data, len(data), path), "manifest", path)
    try:
        header = pb.Manifest.FromString(header_bytes)
        encoded = pb.EncodedFragments.FromString(header_bytes)
    except DecodeError as error:
        raise _broken(path, "the manifest message cannot be decoded", len(data), str(error)) from error
    encoded.DiscardUnknownFields()
    header.ClearField("fragments")
    fragments = Fragments.from_encoded(encoded, has_deletions=bool(header.reader_feature_flags & _DELETION_FILES))
    index_section = b""
    if header.HasField("index_section"):
        index_section = bytes(_section(data, header.index_section, "index section", path))
    return ManifestFile(Manifest(header, fragments, index_section), decode_transaction(header, data, path=path))


def decode_transaction(header: pb.Manifest, data: bytes, *, path: str) -> Transaction | None:
    """The inline transaction, if the manifest points to one."""
    if header.HasField("transaction_section"):
        offset = header.transaction_section
    elif header.HasField("old_transaction_section"):
        offset = header.old_transaction_section
    else:
        return None
    try:
        return Transaction.FromString(_section(data, offset, "transaction", path))
    except DecodeError as error:
        raise _broken(path, "the inline transaction cannot be decoded", offset, str(error)) from error


def _manifest_offset(data: bytes, size: int, path: str) -> int:
    if len(data) < FOOTER_SIZE:
        raise _broken(path, f"only {len(data)} bytes, a manifest file has at least {FOOTER_SIZE}", 0)
    offset, _, _, magic = _FOOTER.unpack_from(data, len(data) - FOOTER_SIZE)
    if magic != _MAGIC:
        raise _broken(path, f"ends in {magic!r} instead of {_MAGIC!r}", size - 4)
    return int(offset)


def _section(data: bytes, offset: int, what: str, path: str) -> memoryview:
    end = len(data) - FOOTER_SIZE
    if offset + 4 > end:
        raise _broken(path, f"the {what} would begin outside the file of {len(data)} bytes", offset)
    (length,) = _LENGTH.unpack_from(data, offset)
    if offset + 4 + length > end:
        raise _broken(path, f"the {what} claims {length} bytes, more than the file has left", offset)
    return memoryview(data)[offset + 4 : offset + 4 + length]


def _broken(path: str, what: str, offset: int, detail: str = "") -> Corrupt:
    return Corrupt(
        f"{path}: {what} (at byte {offset})" + (f": {detail}" if detail else ""),
        remedy="The file is damaged or was cut short. Restore it from a copy, or open an older version.",
        path=path,
        offset=offset,
    )
