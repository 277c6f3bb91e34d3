"""Rows that are too large for the tree stand in files of their own; the tree then holds a reference."""

import zlib
from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt
from seiche.lake.format_pb2 import FileRef
from seiche.lake.objects.rows import FORMAT, REFERENCE
from seiche.lake.tree.names import file_word, optimised
from seiche.lake.tree.pointer import Pointer, fetch, pointer
from seiche.store.base import Store

__all__ = ["reference", "resolve", "stow"]

MOST_BYTES: Final = 4096


def stow(
    value: bytes, kind: str, name: Sequence[str], runtime: Runtime, *, most_bytes: int = MOST_BYTES
) -> tuple[bytes, dict[str, bytes]]:
    """What to put into the tree for `value`, and the files to be written before: none if the value is small.

    `kind` and `name` only make the file's name readable.
    """
    if len(value) <= most_bytes:
        return value, {}
    path = optimised("-".join((kind, *map(file_word, name[-2:]), f"{runtime.uuid()}.binpb")))
    message = FileRef(path=path, size=len(value), crc=zlib.crc32(value))
    return REFERENCE + bytes([FORMAT]) + value[:1] + message.SerializeToString(deterministic=True), {path: value}


def reference(value: bytes) -> Pointer | None:
    """The file that a value of the tree refers to, or None if the value stands for itself."""
    if not value.startswith(REFERENCE):
        return None
    try:
        message = FileRef.FromString(value[3:])
    except DecodeError as error:
        raise Corrupt("a reference to a definition file cannot be read", remedy="Run `seiche fsck`.") from error
    return pointer(message.path, message.crc)


def resolve(store: Store, value: bytes) -> bytes:
    """The row that a value of the tree stands for, read from its file if it is a reference."""
    where = reference(value)
    return value if where is None else fetch(store, where)
