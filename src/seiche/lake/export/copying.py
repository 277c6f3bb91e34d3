"""Copying the files of an export, so that it can be gone on with after a crash, and proving that they arrived.

Each file is hashed as it is read. The hashes are written down portion by portion; who goes on with an export copies
only what is not written down. Every file is read back from the target and compared with the whole list, which stays
with the copy: at the end, or from disk to disk when it is made (`on_disk`).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, TypeVar

from seiche.core.insisting import insist
from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, NotFound
from seiche.lake.care.layout import EXPORTED
from seiche.lake.care.listing import pack, unpack
from seiche.lake.export.items import Item
from seiche.lake.export.on_disk import copy_on_disk
from seiche.store.base import Buffer, Store
from seiche.store.local import LocalStore

__all__ = [
    "FOLDER",
    "LIST",
    "Carrier",
    "Hashed",
    "Progress",
    "Threads",
    "copy_files",
    "copy_item",
    "forget_parts",
    "hashed",
    "read_back",
    "read_list",
    "verify",
    "write_list",
]

FOLDER: Final = EXPORTED
LIST: Final = f"{FOLDER}/files"
_PARTS: Final = f"{FOLDER}/copied"
_AT_ONCE: Final = 128
# From this size on it pays to hash several files at a time, also where writing them does not.
_LARGE: Final = 1 << 18

# Told of what is being done, and how much of it is done.
Progress: TypeAlias = Callable[[str, int], None]
Done = TypeVar("Done")
T = TypeVar("T", Item, "Hashed")


@dataclass(frozen=True, slots=True)
class Hashed:
    """A file of an export, as it must be. `proved` says that the copy was read back and compared when it was made."""

    path: str
    size: int
    sha256: str
    proved: bool = field(default=False, compare=False)


class Carrier(Protocol):
    """Who moves the bytes of an export: threads of this process, or others elsewhere."""

    @property
    def at_once(self) -> int:
        """How many files to give it at a time. What was copied is written down after each time."""

    def copy(self, items: Sequence[Item], target: Store, runtime: Runtime) -> Sequence[Hashed]:
        """Bring files to the target, in any order; what each of them is."""

    def read(self, files: Sequence[Hashed], target: Store, runtime: Runtime) -> Sequence[Hashed | None]:
        """Read files of the target, in the order given: what each of them is, `None` if it is not there."""


class Threads:
    """The usual carrier: several files at a time, through this process."""

    at_once = _AT_ONCE

    def copy(self, items: Sequence[Item], target: Store, runtime: Runtime) -> Sequence[Hashed]:
        return _in_parallel(lambda one: copy_item(one, target, runtime), items, target)

    def read(self, files: Sequence[Hashed], target: Store, runtime: Runtime) -> Sequence[Hashed | None]:
        return _in_parallel(lambda one: read_back(one, target, runtime), files, target)


def copy_files(
    items: Sequence[Item], target: Store, runtime: Runtime, progress: Progress, carrier: Carrier | None = None
) -> list[Hashed]:
    """Bring all files to the target, several at a time; returns what each of them is."""
    done = {one.path: one for one in _written_down(target) if _stands(target, one)}
    missing = [one for one in items if one.path not in done]
    count = len(items) - len(missing)
    carrier = carrier or Threads()
    for first in range(0, len(missing), carrier.at_once):
        some = missing[first : first + carrier.at_once]
        found = carrier.copy(some, target, runtime)
        part = f"{_PARTS}/{runtime.uuid()}"
        insist(lambda: target.put(part, _packed(found)), runtime)  # noqa: B023 - called at once
        done.update((one.path, one) for one in found)
        count += len(some)
        progress("copying files", count)
    return [done[path] for path in sorted(done)]


def write_list(files: Iterable[Hashed], target: Store, runtime: Runtime) -> None:
    """Leave the list of all files, by which the copy can be proved."""
    insist(lambda: target.put(LIST, _packed(files)), runtime)


def read_list(target: Store) -> list[Hashed]:
    """The files that an export consisted of when it was made; `NotFound` if there is no such list."""
    return _unpacked(target.get(LIST), LIST)


def verify(
    files: Sequence[Hashed], target: Store, runtime: Runtime, progress: Progress, carrier: Carrier | None = None
) -> None:
    """Read back all files that were not yet; `Corrupt` with the first that is not what it must be. It is removed, to be
    copied again.
    """
    carrier = carrier or Threads()
    left = [one for one in files if not one.proved]
    for first in range(0, len(left), carrier.at_once):
        some = left[first : first + carrier.at_once]
        for wanted, found in zip(some, carrier.read(some, target, runtime), strict=True):
            if found != wanted:
                target.delete(wanted.path)
                raise Corrupt(
                    f"{wanted.path} arrived at {target.uri} as something else than was sent",
                    remedy="Run the export again; if it happens again, that storage loses or changes bytes.",
                    path=wanted.path,
                )
        progress("verifying files", len(files) - len(left) + first + len(some))


def forget_parts(target: Store) -> None:
    """The list has everything that was written down on the way."""
    for info in list(target.list(_PARTS)):
        target.delete(info.path)
    target.prune(_PARTS)


def hashed(item: Item) -> Hashed:
    """What a file must be, without copying it."""
    digest, size = hashlib.sha256(), 0
    for chunk in item.chunks():
        digest.update(chunk)
        size += len(chunk)
    return Hashed(item.path, size, digest.hexdigest())


def copy_item(item: Item, target: Store, runtime: Runtime) -> Hashed:
    """Copy a file, however often it takes; what it is."""
    return insist(lambda: _copy(item, target), runtime)


def _in_parallel(work: Callable[[T], Done], items: Sequence[T], target: Store) -> Sequence[Done]:
    if isinstance(target, LocalStore) and sum(one.size for one in items) >= len(items) * _LARGE:
        return Store.in_parallel(target, work, items)
    return target.in_parallel(work, items)


def _copy(item: Item, target: Store) -> Hashed:
    store, path = item.source or (None, "")
    if isinstance(store, LocalStore) and isinstance(target, LocalStore):
        return Hashed(item.path, *copy_on_disk(store, path, target, item.path), proved=True)
    sent: list[Hashed] = []

    def chunks() -> Iterator[Buffer]:
        digest, size = hashlib.sha256(), 0
        for chunk in item.chunks():
            digest.update(chunk)
            size += len(chunk)
            yield chunk
        sent.append(Hashed(item.path, size, digest.hexdigest()))

    target.put_stream(item.path, chunks)
    return sent[-1]


def read_back(one: Hashed, target: Store, runtime: Runtime) -> Hashed | None:
    """What a file of the target is; `None` if it is not there."""
    try:
        return insist(lambda: hashed(Item(one.path, lambda: target.chunks(one.path))), runtime)
    except NotFound:
        return None


def _stands(target: Store, one: Hashed) -> bool:
    try:
        return target.head(one.path).size == one.size
    except NotFound:
        return False


def _written_down(target: Store) -> Iterator[Hashed]:
    for info in list(target.list(_PARTS)):
        try:
            yield from _unpacked(target.get(info.path), info.path)
        except Corrupt:
            continue  # copied again


def _packed(files: Iterable[Hashed]) -> bytes:
    return pack("export", [(one.path, str(one.size), one.sha256) for one in files])


def _unpacked(data: bytes, path: str) -> list[Hashed]:
    try:
        return [Hashed(name, int(size), digest) for name, size, digest in unpack(data, path)[1]]
    except ValueError as error:
        raise Corrupt(f"{path} is not the list of an export: {error}", path=path) from error
