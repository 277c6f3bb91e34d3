"""The one protocol that everything above speaks to storage with."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from threading import local
from typing import Any, TypeAlias, TypeVar

from seiche.core.threads import handed_out
from seiche.errors import NotFound, Unavailable

__all__ = ["Buffer", "Chunks", "Data", "Done", "Item", "ObjectInfo", "Store"]

# Requests under way at once, for all stores of a process. Starting threads anew for each batch costs more than the
# batch itself where storage is quick.
_PARALLEL = 32
_THREADS = "seiche-store"
# Threads of one pool must not wait for others of it: they might all be waiting. So what is done side by side inside of
# what is done side by side has a pool of its own, and inside of that it goes in turn.
_POOLS = 2
_working = local()

Item = TypeVar("Item")
Done = TypeVar("Done")

Buffer: TypeAlias = bytes | bytearray | memoryview

# What can be written: one buffer, or several that are written one behind the other without being joined first.
Data: TypeAlias = Buffer | Sequence[Buffer]

# A file that is made while it is written, piece by piece; called again if the writing has to begin anew.
Chunks: TypeAlias = Callable[[], Iterator[Buffer]]

_CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What storage itself knows about a file. `modified` is the storage's own time, timezone-aware."""

    path: str
    size: int
    modified: datetime
    etag: str | None = None


class Store(ABC):
    """Files under one root, named by relative paths with `/` between their parts.

    What every implementation promises, and the contract suite checks:

    - a file that exists is whole: no reader ever sees part of a write;
    - of any number of writers that create the same name with `put_if_absent`, `copy_if_absent` or `rename_if_absent`,
      exactly one returns and the others get `AlreadyExists`;
    - what a returned write wrote is seen by every read and listing that starts later;
    - a write that may or may not have taken effect raises `CommitUnknown`, never `AlreadyExists` or `Unavailable`.

    Paths are literal and checked before any I/O (`seiche.store.paths.check`); a bad one is `InvalidInput`. A missing
    file is `NotFound`. `durable=False` lets a store skip the flush to disk for files that can be lost without harm, as
    hints can.
    """

    @property
    @abstractmethod
    def uri(self) -> str:
        """The address this store was opened with, without credentials."""

    @abstractmethod
    def get(self, path: str) -> bytes:
        """The whole file."""

    @abstractmethod
    def get_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`, fewer if the file ends before; a negative `start` counts from the end."""

    @abstractmethod
    def head(self, path: str) -> ObjectInfo:
        """Size, etag and storage time of a file."""

    @abstractmethod
    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        """Write or overwrite, atomically.

        Only for hints, tombstones and reference files: nothing else is ever overwritten.
        """

    def note(self, path: str, data: bytes) -> None:
        """Leave a small note that readers must survive missing, old or torn: a hint. May pad it with blanks at the end.

        A hint is written at every commit. Replacing a file each time is slow on some file systems, so a store may write
        it in place, which is the one exception to "a file that exists is whole".
        """
        self.put(path, data, durable=False)

    @abstractmethod
    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        """Create the file, or raise `AlreadyExists` and leave what is there untouched."""

    def put_last(self, path: str, data: Data, files: Iterable[str]) -> None:
        """`put_if_absent` of a file that names others: the name appears when those last, flushed if need be (`flush`).

        A store may flush them and the bytes of the new file at the same time: the disk is waited for once. If one of
        them is missing, or cannot be flushed, there is no new file.
        """
        self.flush(files)
        self.put_if_absent(path, data)

    def put_own(self, path: str, data: Data) -> None:
        """Create a file that need not last yet, under a name that nobody but the caller knows before this returns: one
        that holds an id made for it.

        Nobody can be looking, so a store may show the file before all of it is there. If the writer dies meanwhile,
        part of it stays, under a name that nobody will ever ask for.
        """
        self.put_if_absent(path, data, durable=False)

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy within the store, overwriting; doing it twice is the same as once."""

    @abstractmethod
    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy within the store, or raise `AlreadyExists` if the target is taken."""

    @abstractmethod
    def rename_if_absent(self, source: str, target: str) -> None:
        """Move within the store, or raise `AlreadyExists` if the target is taken.

        Creating the target decides; the source may linger after a crash. What was moved has the time of the move, where
        a store can tell that.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove the file; removing what is not there is not an error."""

    @abstractmethod
    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        """The files below the directory `prefix` (`""` for all), lazily; only those directly in it if not `recursive`.

        Files of one directory come in ascending order of their names' bytes relative to each other; nothing is promised
        about the order between directories. `start_after` is the full path of a file directly in `prefix`; files of
        that directory up to and including it are left out. It need not exist.
        """

    def names(self, prefix: str = "") -> Iterator[str]:
        """The names of the files directly in the directory `prefix`, ascending, lazily: for those who want to know
        nothing else about them, which some stores would have to find out for each.
        """
        start = len(prefix) + 1 if prefix else 0
        return (name for info in self.list(prefix) if "/" not in (name := info.path[start:]))

    def folders(self, prefix: str = "") -> "Sequence[str] | None":
        """The directories directly in `prefix`, by their full paths; `None` if the store cannot say so cheaply.

        With `list` of each of them, and of the files directly in `prefix`, everything below it is found.
        """
        return None

    @abstractmethod
    def native_uri(self, path: str = "") -> str:
        """The address under which native readers and writers (pylance, PyIceberg) find `path`."""

    @property
    def native_options(self) -> Mapping[str, str]:
        """What native readers and writers need besides the address: endpoint, credentials."""
        return {}

    @property
    def lists_in_one_request(self) -> bool:
        """Whether listing a directory costs about as much as one read, however many files it has."""
        return False

    def put_stream(self, path: str, chunks: Chunks) -> None:
        """Write or overwrite, atomically, what comes in pieces; most stores hold only a few of them in memory."""
        self.put(path, list(chunks()))

    def copy_from(self, source: "Store", path: str, target: str) -> None:
        """Copy a file of another store, overwriting; past this process where both allow it, else in pieces.

        Doing it twice is the same as once.
        """
        origin, inside = source.origin(path)
        if origin is self:
            self.copy(inside, target)
        else:
            self.put_stream(target, lambda: origin.chunks(inside))

    def origin(self, path: str) -> "tuple[Store, str]":
        """The store that really holds the file, and what it is called there."""
        return self, path

    def chunks(self, path: str, size: int = _CHUNK) -> Iterator[bytes]:
        """The whole file in pieces."""
        length = self.head(path).size
        for start in range(0, length, size):
            wanted = min(size, length - start)
            chunk = self.get_range(path, start, wanted)
            if len(chunk) != wanted:
                # Whoever copies it would take part of the file for all of it.
                raise Unavailable(f"{path}: {start + len(chunk):,} bytes are there of {length:,}", path=path)
            yield chunk

    def get_listed(self, info: ObjectInfo) -> bytes:
        """The whole file that a listing told of; `Unavailable` if part of it was read as if that were all.

        For files that could be understood without their end, and decide what is removed.
        """
        data = self.get(info.path)
        if len(data) != info.size and len(data) != (size := self.head(info.path).size):
            raise Unavailable(f"{info.path}: {len(data):,} bytes were read of {size:,}", path=info.path)
        return data

    def exists(self, path: str) -> bool:
        """Whether the file is there now."""
        try:
            self.head(path)
        except NotFound:
            return False
        return True

    def find(self, path: str) -> ObjectInfo | None:
        """As `head`, of a file that is mostly not there: `None` then. Every commit looks for a root that is newer."""
        try:
            return self.head(path)
        except NotFound:
            return None

    def flush(self, paths: Iterable[str]) -> int:
        """Return when files that were written without `durable`, or by somebody else, last as well as any; how many
        needed it.

        Native writers of data files do not flush: without this, a power failure could leave a commit without its rows.
        And the disk is waited for once if many files are written first and then flushed together. `Corrupt` if the
        bytes of one could not be written, and so are lost: it must be made anew, under another name.
        """
        return 0

    def sweep(self, older_than: timedelta) -> int:
        """Remove temporary files that writers left when they died, if older than that; returns how many.

        No verb shows such files. A writer that is alive but slower than that starts over: nothing is lost.
        """
        return 0

    def prune(self, prefix: str = "") -> int:
        """Remove the directory `prefix` and those below it that hold no files, if a store has such; returns how many.

        Writers may go on meanwhile: who needs a directory makes it again.
        """
        return 0

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        """One writer at a time inside the block, where a store can arrange that; yields whether one had to wait.

        Only to save work that would be for nothing: safety must not depend on it, since whoever waits too long goes on
        without. `meanwhile` is called now and then while one waits: for work that needs no turn. What it raises ends
        the waiting.
        """
        return nullcontext(False)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        """`work` done to all items, several at a time where that helps; the results in order.

        The first error is raised when all have ended.
        """
        wanted = tuple(items)
        inside = getattr(_working, "inside", 0)
        if len(wanted) < 2 or inside == _POOLS:
            return [work(item) for item in wanted]
        pool = _pool(os.getpid(), inside)
        pending = handed_out(pool, work, wanted[1:])
        try:
            # The caller does one itself, instead of waking a thread and sleeping until it is done.
            first = work(wanted[0])
        finally:
            wait(pending)
        return [first, *(done.result() for done in pending)]

    def together(self, *acts: Callable[[], Any]) -> Sequence[Any]:
        """Do different things side by side where each waits for a network, else in this order; the results.

        Errors are as with `in_parallel`.
        """
        if self.lists_in_one_request:  # a disk of this machine, which answers sooner than a thread begins
            return [act() for act in acts]
        return self.in_parallel(lambda act: act(), acts)

    def get_many(self, paths: Iterable[str]) -> Sequence[bytes]:
        """The files in the order asked for, read in parallel."""
        return self.in_parallel(self.get, paths)

    def put_many(self, files: Mapping[str, Data], *, durable: bool = True) -> None:
        """Write all files, new names only, in parallel: as `put_if_absent`, or as `put_own` if not `durable`."""
        put = self.put_if_absent if durable else self.put_own
        self.in_parallel(lambda path: put(path, files[path]), files)


@cache
def _pool(process: int, inside: int) -> ThreadPoolExecutor:  # noqa: ARG001 - what it is cached by
    """The threads of this process that do storage requests side by side, `inside` of how many others. A forked child
    has none of its parent's.
    """
    return ThreadPoolExecutor(
        _PARALLEL, f"{_THREADS}-{inside}", initializer=partial(setattr, _working, "inside", inside + 1)
    )
