"""Files in a directory of this machine."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVarTuple

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import InvalidInput, NotFound, Unavailable
from seiche.store import listing
from seiche.store.base import Chunks, Data, Done, Item, ObjectInfo, Store
from seiche.store.directories import Directories
from seiche.store.files import copy_all, read_all, write_all
from seiche.store.flushed import FlushedFiles
from seiche.store.os_errors import lost, no_file, taken, translate, unreadable
from seiche.store.page_cache import LargeFiles, is_large
from seiche.store.paths import as_uri_path, check, check_directory, check_range, check_start_after, parent
from seiche.store.staging import Staging, Undecided
from seiche.store.turns import Turn, Turns

__all__ = ["Durability", "LocalStore"]

# "fsync": what a returned write wrote survives a power failure. "os": it survives the death of the process.
Durability: TypeAlias = Literal["fsync", "os"]

Arguments = TypeVarTuple("Arguments")

# Notes are padded to this size: a shorter one then covers a longer one.
_NOTE_SIZE = 64

# To a file it makes no difference that nobody waits; a pipe under its name would be waited for without end.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NOTING = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK

# So many bytes are read without asking first how long the file is.
_SHORT = 4096

# Requests to flush that are under way at once. More of them wait for each other, and for the interpreter: 20 files and
# their directories took 3.0 ms with 8, 3.5 with 32, 3.9 with 4.
_AT_ONCE = 8

# So few are done in turn: of a file and its directory the second finds done what the first made the disk write, and to
# hand them to threads takes longer than that.
_FEW = 2

# How often a directory may vanish between making it and writing into it.
_PATIENCE = 100


class LocalStore(Store):
    """A store in a directory, which any number of processes may use at the same time.

    A name appears by `link(2)`, which never replaces, when all bytes are in the file, and with `durability="fsync"`
    when they are on the disk. Directories are made when the first file goes into them and are left when the last one
    goes. Symbolic links to directories inside the store are not followed by listings. A deletion may be undone by a
    power failure: nothing depends on it.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, durability: Durability = "fsync", runtime: Runtime = SYSTEM
    ) -> None:
        if durability not in ("fsync", "os"):
            raise InvalidInput(f"durability {durability!r} is unknown", remedy='Use "fsync" or "os".')
        try:
            self._root = os.path.abspath(os.fspath(root))
        except FileNotFoundError as error:
            raise NotFound(
                f"{os.fspath(root)}: the working directory, where that would be, was removed",
                remedy="Go to a directory that is there, or give the whole path.",
            ) from error
        try:
            os.fsencode(self._root)
        except UnicodeEncodeError as error:
            raise InvalidInput(
                f"{self._root!a} is not a path of this system: {error.reason} at character {error.start}",
                remedy="Give a path as the system has it; `os.fsdecode` makes a text of its bytes.",
            ) from error
        self._base = self._root.rstrip("/") + "/"
        self._uri = "file://" + as_uri_path(self._root)
        self._fsync = durability == "fsync"
        self._runtime = runtime
        self._staging = Staging(runtime)
        self._large = LargeFiles()
        self._directories = Directories(self._root, flush=self._fsync)
        self._turns = Turns(self._root, runtime)
        self._flushed = FlushedFiles(runtime)
        # Files whose bytes the disk did not take. It says so once: to flush them again would seem to succeed.
        self._lost: dict[str, OSError] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._root, durability=self.durability, runtime=self._runtime), ()

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def durability(self) -> Durability:
        """What a returned write survives."""
        return "fsync" if self._fsync else "os"

    lists_in_one_request = True

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return Turn(self._turns, meanwhile)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        # Side by side, waits for the disk overlap; without any, threads only get into each other's way.
        return super().in_parallel(work, items) if self._fsync else [work(item) for item in items]

    def native_uri(self, path: str = "") -> str:
        return self._base + check(path) if path else self._root

    def get(self, path: str) -> bytes:
        return self._read(path, 0, None)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        start, length = check_range(path, start, length)
        return self._read(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        try:
            status = os.stat(self._base + check(path))
        except OSError as error:
            raise unreadable(error, path) from error
        return listing.described(path, _file(status, path))

    def find(self, path: str) -> ObjectInfo | None:
        # Looking for it first takes a third of the time that it takes to make an error.
        return super().find(path) if self.exists(path) else None

    def exists(self, path: str) -> bool:
        # The same as asking for the head, without making an error first: every commit looks for a name that is free.
        try:
            return stat.S_ISREG(os.stat(self._base + check(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise translate(error, path) from error

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        sync = self._fsync and durable
        self._write(path, sync, self._staging.replace, write_all, data, sync)

    def note(self, path: str, data: bytes) -> None:
        # In place: on ext4 every replaced file leaves a freed inode behind that creations have to step over for
        # seconds, and the rename waits for the disk. Measured: a commit took 390 microseconds instead of 56.
        self._write(path, False, _note, data)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        sync = self._fsync and durable
        if is_large(data):
            self._write(path, sync, self._staging.create, self._large.fill, data, sync)
            self._large.written(self._base + path)
        else:
            self._write(path, sync, self._staging.create, write_all, data, sync)

    def put_last(self, path: str, data: Data, files: Iterable[str]) -> None:
        named = list(files)
        if not self._fsync or not named:
            super().put_last(path, data, named)
            return

        def fill(fd: int, data: Data) -> None:
            write_all(fd, data)
            # All at once, and before there is a name that leads to any of it.
            self._at_once([partial(os.fsync, fd), *self._flushes(named)])

        self._write(path, True, self._staging.create, fill, data, False)

    def put_own(self, path: str, data: Data) -> None:
        if is_large(data):
            self.put_if_absent(path, data, durable=False)
        else:
            self._write(path, False, self._staging.create_in_sight, write_all, data)

    def put_many(self, files: Mapping[str, Data], *, durable: bool = True) -> None:
        if self._fsync and durable:
            super().put_many(files)
            return
        put = self.put_if_absent if durable else self.put_own
        for path, data in files.items():  # nothing is waited for: threads would only get into each other's way
            put(path, data)

    def copy(self, source: str, target: str) -> None:
        check(target)
        with self._opened(source) as (old, _):
            self._write(target, self._fsync, self._staging.replace, copy_all, old, self._fsync)

    def put_stream(self, path: str, chunks: Chunks) -> None:
        self._write(path, self._fsync, self._staging.replace, _write_chunks, chunks, self._fsync)

    def copy_from(self, source: Store, path: str, target: str) -> None:
        check(target)
        origin, inside = source.origin(path)
        if not isinstance(origin, LocalStore):
            super().copy_from(origin, inside, target)
            return
        with origin._opened(inside) as (old, _):
            self._write(target, self._fsync, self._staging.replace, copy_all, old, self._fsync)

    def copy_if_absent(self, source: str, target: str) -> None:
        check(target)
        # A second link to the same file would be quicker. But then the copy had the storage time of its source, and a
        # foreign program that writes in place would change both.
        with self._opened(source) as (old, _):
            self._write(target, self._fsync, self._staging.create, copy_all, old, self._fsync)

    def rename_if_absent(self, source: str, target: str) -> None:
        check(target)
        if self._fsync:
            self._flush_bytes(source)  # somebody else may have written it, and native writers do not flush
        else:
            with self._opened(source):
                pass  # it is a file
        old = self._base + source
        with suppress(OSError):  # another user's file keeps its time; of anything else the rename tells
            os.utime(old)

        def rename(new: str, _: bool) -> None:
            try:
                self._staging.rename(old, new)
            except FileNotFoundError as error:
                if not os.path.lexists(old):  # somebody else has moved it meanwhile
                    raise NotFound(f"{source}: no such file", path=source) from error
                raise

        self._write(target, self._fsync, rename)
        with suppress(OSError):
            os.unlink(old)

    def delete(self, path: str) -> None:
        try:
            os.unlink(self._base + check(path))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        except OSError as error:
            raise translate(error, path) from error

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        after = check_start_after(check_directory(prefix), start_after)
        return listing.files(self._base, prefix, after, recursive=recursive)

    def names(self, prefix: str = "") -> Iterator[str]:
        return iter(listing.names(self._base, check_directory(prefix)))

    def folders(self, prefix: str = "") -> Sequence[str]:
        return listing.folders(self._base, check_directory(prefix))

    def flush(self, paths: Iterable[str]) -> int:
        if not self._fsync:
            return 0
        known = self._flushed
        files = [path for path in paths if not known.last(self._base + path)]
        states = [(self._base + path, known.seen(self._base + path)) for path in files]
        self._at_once(self._flushes(files))
        for path, state in states:
            if state is not None:
                known.note(path, state)
        return len(files)

    def _flushes(self, files: Sequence[str]) -> Sequence[Callable[[], None]]:
        """What flushes bytes and names, in whatever order: what one makes the disk write, most others find done."""
        names = {parent(path): path for path in files}.values()
        return [
            *(partial(self._flush_bytes, path) for path in files),
            *(partial(self._flush_names, path) for path in names),
        ]

    def _at_once(self, requests: Sequence[Callable[[], None]]) -> None:
        if len(requests) <= _FEW:
            _in_turn(requests)
            return
        self.in_parallel(_in_turn, [requests[first::_AT_ONCE] for first in range(min(_AT_ONCE, len(requests)))])

    def _flush_bytes(self, path: str) -> None:
        with self._opened(path) as (fd, _):
            try:
                os.fsync(fd)
            except OSError as error:
                self._lost[path] = error
        if path in self._lost:
            raise lost(self._lost[path], path)

    def _flush_names(self, path: str) -> None:
        """Flush the names in the directory of `path`."""
        try:
            self._directories.settle(os.path.dirname(self._base + path))
        except OSError as error:
            raise translate(error, path) from error

    def sweep(self, older_than: timedelta) -> int:
        removed = 0
        oldest = (self._runtime.clock.now() - older_than).timestamp()
        for temporary in listing.leftovers(self._root):
            try:
                if os.stat(temporary).st_mtime < oldest:
                    os.unlink(temporary)
                    removed += 1
            except FileNotFoundError:
                continue  # its writer is done
            except OSError as error:
                raise translate(error, temporary) from error
        return removed

    def prune(self, prefix: str = "") -> int:
        return self._directories.prune(self._base + check_directory(prefix))

    def _read(self, path: str, start: int, length: int | None) -> bytes:
        """A part of a file, or all of it. Without `_opened`, which takes as long as the reading."""
        try:
            fd = os.open(self._base + check(path), _READING)
            try:
                if length is not None and length <= _SHORT and start >= 0:
                    return read_all(fd, start, length)
                size = _file(os.fstat(fd), path).st_size
                begin = min(start, size) if start >= 0 else max(0, size + start)
                left = max(0, size - begin)
                return read_all(fd, begin, left if length is None else min(length, left))
            finally:
                os.close(fd)
        except OSError as error:
            raise unreadable(error, path) from error

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        try:
            fd = os.open(self._base + check(path), _READING)
            try:
                yield fd, _file(os.fstat(fd), path)
            finally:
                os.close(fd)
        except OSError as error:
            raise unreadable(error, path) from error

    def _write(
        self, path: str, sync: bool, give: Callable[[str, bool, *Arguments], None], *arguments: *Arguments
    ) -> None:
        """Let `give` give the name `path` to a file, in a new directory if need be, and settle that name if `sync`.

        `give` gets the full path, whether its first attempt found no directory, and the `arguments`.
        """
        target = self._base + check(path)
        try:
            try:
                give(target, False, *arguments)
            except FileNotFoundError:
                # Rarely the case, so it is cheaper to fail first than to look first.
                self._write_in_new(path, target, give, *arguments)
        except FileExistsError as error:
            raise taken(target, path) from error
        except Undecided as error:
            raise translate(error.cause, path, took_effect=True) from error
        except OSError as error:
            raise translate(error, path) from error
        if sync:
            try:
                self._directories.settle(_directory(target))
            except OSError as error:
                raise translate(error, path, took_effect=True) from error

    def _write_in_new(
        self, path: str, target: str, give: Callable[[str, bool, *Arguments], None], *arguments: *Arguments
    ) -> None:
        """The same where there is no directory, or was none. What lies above it may vanish too while it is made."""
        for _ in range(_PATIENCE):
            with suppress(FileNotFoundError):
                self._directories.make(_directory(target))
                give(target, True, *arguments)
                return
        raise Unavailable(f"{path}: its directory vanishes as often as it is made", path=path)


def _in_turn(requests: Iterable[Callable[[], None]]) -> None:
    for request in requests:
        request()


def _write_chunks(fd: int, chunks: Chunks) -> None:
    for chunk in chunks():
        write_all(fd, chunk)


def _directory(target: str) -> str:
    return target[: target.rindex("/")] or "/"


def _note(target: str, _: bool, data: bytes) -> None:
    fd = os.open(target, _NOTING, 0o666)
    try:
        os.pwrite(fd, data.ljust(_NOTE_SIZE), 0)
    finally:
        os.close(fd)


def _file(status: os.stat_result, path: str) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        raise no_file(path)
    return status
