"""Copying a file from disk to disk, and proving it.

The bytes do not pass through this process on their way: the system copies them, and shares blocks where it can. Then
the original and the copy are read side by side, compared, and hashed once. That proves as much as hashing each of them.
"""

import hashlib
from typing import Final

from seiche.errors import Corrupt
from seiche.store.local import LocalStore
from seiche.store.os_errors import translate

__all__ = ["copy_on_disk"]

_STEP: Final = 1 << 20


def copy_on_disk(source: LocalStore, path: str, target: LocalStore, to: str) -> tuple[int, str]:
    """Copy a file; returns its size and its SHA-256. `Corrupt` if the copy is not what the original is."""
    target.copy_from(source, path, to)
    try:
        return _compared(source.native_uri(path), target.native_uri(to))
    except ValueError as error:
        raise Corrupt(f"{to} arrived at {target.uri} as something else than was sent", path=to) from error
    except OSError as error:
        raise translate(error, to) from error


def _compared(one: str, other: str) -> tuple[int, str]:
    """Size and hash of two files that are the same; `ValueError` if they are not."""
    digest, size = hashlib.sha256(), 0
    with open(one, "rb", buffering=0) as original, open(other, "rb", buffering=0) as copy:
        while data := original.read(_STEP):
            if copy.read(len(data)) != data:
                raise ValueError(f"they differ between {size} and {size + len(data)}")
            digest.update(data)
            size += len(data)
        if copy.read(1):
            raise ValueError(f"the copy goes on after {size}")
    return size, digest.hexdigest()
