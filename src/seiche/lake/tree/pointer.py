"""Pointers to immutable files of the lake: the path, and the checksum that the file must have."""

import zlib
from typing import TypeAlias

from seiche.errors import Corrupt, NotFound
from seiche.store.base import Store

__all__ = ["Pointer", "fetch", "pointer", "target"]

# `<path>#<8 hex digits>`: a file that was swapped for another is noticed. Kept as text until the file is read; most
# children of a node never are.
Pointer: TypeAlias = str


def pointer(path: str, crc: int) -> Pointer:
    """What is stored about a file at `path` with this checksum."""
    return f"{path}#{crc:08x}"


def target(pointer: Pointer) -> tuple[str, int]:
    """The path and the checksum that a pointer stands for."""
    path, mark, crc = pointer.rpartition("#")
    try:
        if mark and path and len(crc) == 8:
            return path, int(crc, 16)
    except ValueError:
        pass
    raise Corrupt(
        f"{pointer!r} is not a pointer to a file of the lake",
        remedy="Restore the file that holds it from a copy of the lake; `seiche fsck` names it.",
    )


def fetch(store: Store, pointer: Pointer) -> bytes:
    """The bytes that a pointer means; `Corrupt` if the file is missing or another. Not for nodes: they check
    themselves.
    """
    path, crc = target(pointer)
    remedy = "Restore this file from a copy of the lake, or open another version."
    try:
        data = store.get(path)
    except NotFound as error:
        raise Corrupt(f"{path} is missing, but the lake needs it", remedy=remedy, path=path) from error
    if zlib.crc32(data) != crc:
        raise Corrupt(
            f"{path} has the checksum {zlib.crc32(data):08x}, but the lake expects {crc:08x}", remedy=remedy, path=path
        )
    return data
