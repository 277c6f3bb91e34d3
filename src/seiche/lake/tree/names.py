"""Names of files in a lake: roots by their version, everything else spread over directories by a hash."""

import re
from typing import Final

from seiche.errors import InvalidInput

__all__ = [
    "HINT",
    "HINT_FALLBACK",
    "OLDEST",
    "WIDTH",
    "file_word",
    "murmur3_32",
    "optimised",
    "root_name",
    "root_version",
]

WIDTH: Final = 32
"""Binary digits in the name of a root; names grow by this many when a version no longer fits."""

HINT: Final = "_latest_hint"
HINT_FALLBACK: Final = "_latest_hint.txt"
OLDEST: Final = "_oldest"

_ROOT = re.compile(r"_([01]+)\.ipc")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


def root_name(version: int) -> str:
    """The one name under which this version's root may stand.

    Low bits come first, so that neighbouring versions fall into different partitions of an object store.
    """
    if version < 0:
        raise InvalidInput(f"{version} is not a lake version", remedy="Versions count up from 0.", version=version)
    digits = f"{version:0{_width(version)}b}"
    return f"_{digits[::-1]}.ipc"


def root_version(name: str) -> int | None:
    """The version whose root has this name, or None if no root may be called so.

    Strict about the width: if two spellings of one version were legal, two writers could both create it.
    """
    match = _ROOT.fullmatch(name)
    if match is None:
        return None
    digits = match[1]
    version = int(digits[::-1], 2)
    return version if len(digits) == _width(version) else None


def _width(version: int) -> int:
    return WIDTH * max(1, -(-version.bit_length() // WIDTH))


def optimised(name: str) -> str:
    """Where a file of this name is put: under directories made of its hash, so that no prefix of the store runs hot.

    Only for naming new files. Paths that are stored somewhere are used as they stand and never computed again.
    """
    bits = f"{murmur3_32(name.encode()) & 0xFFFFF:020b}"
    return f"{bits[:4]}/{bits[4:8]}/{bits[8:12]}/{bits[12:]}-{name.replace('/', '-')}"


def file_word(name: str) -> str:
    """An object's name as a harmless part of a file name, for people who look at a listing; nothing ever reads it back.

    Everything but ASCII letters, digits and `_` becomes `~`, and long names are cut: what makes the file's name
    unique is the id behind it.
    """
    return _UNSAFE.sub("~", name)[:40]


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """MurmurHash3, x86 variant, 32 bits."""
    h = seed
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        h ^= _scramble(int.from_bytes(data[i : i + 4], "little"))
        h = (h << 13 | h >> 19) & 0xFFFFFFFF
        h = (h * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= _scramble(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16


def _scramble(block: int) -> int:
    k = block * 0xCC9E2D51 & 0xFFFFFFFF
    return (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
