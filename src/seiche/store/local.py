"""Files in a directory of this machine."""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Literal, TypeAlias

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, InvalidInput, NotFound, SeicheError, Unavailable
from seiche.store.base import Chunks, Data, Done, Item, ObjectInfo, Store
from seiche.store.files import copy_all, fsync_directory, read_all, write_all
from seiche.store.os_errors import translate
from seiche.store.page_cache import LargeFiles, is_large
from seiche.store.paths import TEMPORARY, as_uri_path, check, check_directory, check_start_after, join, parent, valid
from seiche.store.staging import Fill, Staging, Undecided
from seiche.store.turns import Turns

__all__ = ["Durability", "LocalStore"]

# "fsync": what a returned write wrote survives a power failure. "os": it survives the death of the process.
Durability: TypeAlias = Literal["fsync", "os"]

# Of files and of directories. (Inside the class `list` is a verb.)
_Names: TypeAlias = tuple[list[str], list[str]]

# Notes are padded to this size: a shorter one then covers a longer one.
_NOTE_SIZE = 64

_READING = os.O_RDONLY | os.O_CLOEXEC
_NOTING = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Of how many directories it is remembered that they last: a lake spreads its nodes over a million.
_MOST_SETTLED = 10_000

# Requests to flush that are under way at once. More of them wait for each other, and for the interpreter: 20 files and
# their directories took 3.0 ms with 8, 3.5 with 32, 3.9 with 4.
_AT_ONCE = 8

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
        self._root = os.path.abspath(os.fspath(root))
        self._base = self._root.rstrip("/") + "/"
        self._uri = "file://" + as_uri_path(self._root)
        self._fsync = durability == "fsync"
        self._clock = runtime.clock
        self._staging = Staging(runtime)
        self._large = LargeFiles()
        self._settled: set[str] = set()
        self._turns = Turns(self._root, runtime)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    @property
    def durability(self) -> Durability:
        """What a returned write survives."""
        return "fsync" if self._fsync else "os"

    @property
    def lists_in_one_request(self) -> bool:
        return True

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return self._turns.one(meanwhile)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        # Side by side, waits for the disk overlap; without any, threads only get into each other's way.
        return super().in_parallel(work, items) if self._fsync else [work(item) for item in items]

    def native_uri(self, path: str = "") -> str:
        return self._base + check(path) if path else self._root

    def get(self, path: str) -> bytes:
        return self._read(path, 0, None)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        if length < 0:
            raise InvalidInput(f"{path}: cannot read {length} bytes", path=path)
        return self._read(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        try:
            status = os.stat(self._base + check(path))
        except OSError as error:
            raise _unreadable(error, path) from error
        return _info(path, _file(status, path))

    def exists(self, path: str) -> bool:
        # The same as asking for the head, without making an error first: every commit looks for a name that is free.
        try:
            return stat.S_ISREG(os.stat(self._base + check(path)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise translate(error, path) from error

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        self._replace(path, lambda fd: write_all(fd, data), self._fsync and durable)

    def note(self, path: str, data: bytes) -> None:
        # In place: on ext4 every replaced file leaves a freed inode behind that creations have to step over for
        # seconds, and the rename waits for the disk. Measured: a commit took 390 microseconds instead of 56.
        try:
            _note(self._base + check(path), data)
        except OSError:  # most likely there is no directory yet
            self._write(path, lambda target, _: _note(target, data), False)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        sync = self._fsync and durable
        if is_large(data):
            self._create(path, lambda fd: self._large.fill(fd, data), sync)
            self._large.written(self._base + path)
        elif not self._create_quickly(path, data, sync):
            self._create(path, lambda fd: write_all(fd, data), sync)

    def put_many(self, files: Mapping[str, Data], *, durable: bool = True) -> None:
        if self._fsync and durable:
            super().put_many(files)
            return
        for path, data in files.items():  # nothing is waited for: threads would only get into each other's way
            self.put_if_absent(path, data, durable=False)

    def copy(self, source: str, target: str) -> None:
        with self._opened(source) as (old, _):
            self._replace(target, lambda fd: copy_all(old, fd), self._fsync)

    def put_stream(self, path: str, chunks: Chunks) -> None:
        def fill(fd: int) -> None:
            for chunk in chunks():
                write_all(fd, chunk)

        self._replace(path, fill, self._fsync)

    def copy_from(self, source: Store, path: str, target: str) -> None:
        origin, inside = source.origin(path)
        if not isinstance(origin, LocalStore):
            super().copy_from(origin, inside, target)
            return
        with origin._opened(inside) as (old, _):
            self._replace(target, lambda fd: copy_all(old, fd), self._fsync)

    def copy_if_absent(self, source: str, target: str) -> None:
        # A second link to the same file would be quicker. But then the copy had the storage time of its source, and a
        # foreign program that writes in place would change both.
        with self._opened(source) as (old, _):
            self._create(target, lambda fd: copy_all(old, fd), self._fsync)

    def rename_if_absent(self, source: str, target: str) -> None:
        with self._opened(source) as (fd, _):
            if self._fsync:
                os.fsync(fd)  # somebody else may have written it, and native writers do not
        old = self._base + source

        def rename(new: str, _: bool) -> None:
            try:
                self._staging.rename(old, new)
            except FileNotFoundError as error:
                if not os.path.lexists(old):  # somebody else has moved it meanwhile
                    raise NotFound(f"{source}: no such file", path=source) from error
                raise

        self._write(target, rename, self._fsync)
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
        return self._files(prefix, after, recursive)

    def folders(self, prefix: str = "") -> Sequence[str]:
        try:
            with os.scandir(self._base + check_directory(prefix)) as entries:
                names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise translate(error, prefix) from error
        return sorted(join(prefix, name) for name in names)

    def flush(self, paths: Iterable[str]) -> int:
        if not self._fsync:
            return 0
        files = list(paths)
        # Names and bytes at once, in whatever order: what one request makes the disk write, most others find done.
        requests = [partial(self._flush_bytes, path) for path in files]
        requests += [partial(self._flush_names, path) for path in {parent(path): path for path in files}.values()]
        self.in_parallel(_in_turn, [requests[first::_AT_ONCE] for first in range(min(_AT_ONCE, len(requests)))])
        return len(files)

    def _flush_bytes(self, path: str) -> None:
        with self._opened(path) as (fd, _):
            os.fsync(fd)

    def _flush_names(self, path: str) -> None:
        """Flush the names in the directory of `path`."""
        try:
            self._settle(os.path.dirname(self._base + path))
        except OSError as error:
            raise translate(error, path) from error

    def sweep(self, older_than: timedelta) -> int:
        removed = 0
        oldest = (self._clock.now() - older_than).timestamp()
        for directory, _, names in os.walk(self._root):
            for name in names:
                if not name.startswith(TEMPORARY):
                    continue
                try:
                    if os.stat(f"{directory}/{name}").st_mtime < oldest:
                        os.unlink(f"{directory}/{name}")
                        removed += 1
                except FileNotFoundError:
                    continue  # its writer is done
                except OSError as error:
                    raise translate(error, f"{directory}/{name}") from error
        return removed

    def prune(self, prefix: str = "") -> int:
        removed = 0
        for directory, _, _ in os.walk(self._base + check_directory(prefix), topdown=False):
            if len(directory) > len(self._base):
                with suppress(OSError):  # there are files in it
                    os.rmdir(directory)
                    removed += 1
                    self._settled.discard(directory)
        return removed

    def _read(self, path: str, start: int, length: int | None) -> bytes:
        """A part of a file, or all of it. Without `_opened`, which takes as long as the reading."""
        try:
            fd = os.open(self._base + check(path), _READING)
            try:
                size = _file(os.fstat(fd), path).st_size
                begin = start if start >= 0 else max(0, size + start)
                left = max(0, size - begin)
                return read_all(fd, begin, left if length is None else min(length, left))
            finally:
                os.close(fd)
        except OSError as error:
            raise _unreadable(error, path) from error

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        try:
            fd = os.open(self._base + check(path), _READING)
            try:
                yield fd, _file(os.fstat(fd), path)
            finally:
                os.close(fd)
        except OSError as error:
            raise _unreadable(error, path) from error

    def _replace(self, path: str, fill: Fill, sync: bool) -> None:
        self._write(path, lambda target, _: self._staging.replace(target, fill, sync=sync), sync)

    def _create(self, path: str, fill: Fill, sync: bool) -> None:
        # In the second attempt the file gets a temporary name, because a directory with a file in it is not removed.
        self._write(path, lambda target, again: self._staging.create(target, fill, sync=sync, named=again), sync)

    def _create_quickly(self, path: str, data: Data, sync: bool) -> bool:
        """`_create` for a small file in a directory that exists, in a third of the calls: every commit comes by here.

        False, and nothing done, whenever something is not as usual.
        """
        target = self._base + check(path)
        directory = target[: target.rindex("/")]
        try:
            if not self._staging.create_quickly(directory, target, data, sync=sync):
                return False
        except FileExistsError as error:
            raise _taken(target, path) from error
        except Undecided as error:
            raise translate(error.cause, path, took_effect=True) from error
        except OSError:
            return False  # the long way meets it again, if it lasts
        if sync:
            self._settle_for(directory, path)
        return True

    def _write(self, path: str, give: Callable[[str, bool], None], sync: bool) -> None:
        """Let `give` give the name `path` to a file, in a new directory if need be, and settle that name if `sync`.

        `give` gets the full path, and whether its first attempt found no directory.
        """
        target = self._base + check(path)
        directory = target[: target.rindex("/")] or "/"
        try:
            for attempt in range(_PATIENCE):
                try:
                    give(target, attempt > 0)
                    break
                except FileNotFoundError:
                    # Rarely the case, so it is cheaper to fail first than to look first. What lies above the directory
                    # may vanish too while it is made.
                    with suppress(FileNotFoundError):
                        self._make_directory(directory)
            else:
                raise Unavailable(f"{path}: its directory vanishes as often as it is made", path=path)
        except FileExistsError as error:
            raise _taken(target, path) from error
        except Undecided as error:
            raise translate(error.cause, path, took_effect=True) from error
        except OSError as error:
            raise translate(error, path) from error
        if sync:
            self._settle_for(directory, path)

    def _settle_for(self, directory: str, path: str) -> None:
        """`_settle` after `path` has got its name."""
        try:
            self._settle(directory)
        except OSError as error:
            raise translate(error, path, took_effect=True) from error

    def _make_directory(self, directory: str) -> None:
        with suppress(FileExistsError):
            try:
                os.mkdir(directory)
            except FileNotFoundError:
                self._make_directory(os.path.dirname(directory))
                os.mkdir(directory)
            self._settled.discard(directory)
            if self._fsync and not directory.startswith(self._base):
                fsync_directory(os.path.dirname(directory))

    def _settle(self, directory: str) -> None:
        """Flush the names in `directory`, and once per store those of the directories above it.

        They are flushed even if somebody else made them, who may not have come to it yet.
        """
        fsync_directory(directory)
        if len(self._settled) > _MOST_SETTLED:
            self._settled.clear()
        while directory not in self._settled and len(directory) >= len(self._root):
            above = os.path.dirname(directory)
            with suppress(PermissionError):  # what lies above the root may not be ours to open
                fsync_directory(above)
            self._settled.add(directory)  # not before it is so: other threads rely on it
            directory = above

    def _files(self, prefix: str, after: str, recursive: bool) -> Iterator[ObjectInfo]:
        pending = [prefix]
        while pending:
            prefix = pending.pop()
            names, directories = self._scan(prefix)
            for name in names:
                if name > after:
                    info = self._listed(join(prefix, name))
                    if info is not None:
                        yield info
            after = ""
            if recursive:
                pending.extend(join(prefix, name) for name in reversed(directories))

    def _scan(self, prefix: str) -> _Names:
        """The names in a directory of files and of directories, in order, without those that no verb takes."""
        names: list[str] = []
        directories: list[str] = []
        try:
            with os.scandir(self._base + prefix) as entries:
                for entry in entries:
                    if valid(entry.name):
                        (directories if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        except OSError as error:
            raise translate(error, prefix or self._root) from error
        names.sort()
        directories.sort()
        return names, directories

    def _listed(self, path: str) -> ObjectInfo | None:
        try:
            status = os.stat(self._base + path)
        except FileNotFoundError:
            return None  # deleted since the directory was read
        except OSError as error:
            raise translate(error, path) from error
        return _info(path, status) if stat.S_ISREG(status.st_mode) else None


def _in_turn(requests: Iterable[Callable[[], None]]) -> None:
    for request in requests:
        request()


def _note(target: str, data: bytes) -> None:
    fd = os.open(target, _NOTING, 0o666)
    try:
        os.pwrite(fd, data.ljust(_NOTE_SIZE), 0)
    finally:
        os.close(fd)


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    modified = _EPOCH + timedelta(microseconds=status.st_mtime_ns // 1000)  # exact, which floats are not
    return ObjectInfo(path, status.st_size, modified, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")


def _file(status: os.stat_result, path: str) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        raise NotFound(f"{path}: is a directory or a device, not a file", path=path)
    return status


def _unreadable(error: OSError, path: str) -> SeicheError:
    """What a failed read means: where a file stands in the way, the file below it does not exist."""
    if error.errno == errno.ENOTDIR:
        return NotFound(f"{path}: no such file", path=path)
    return translate(error, path)


def _taken(target: str, path: str) -> SeicheError:
    if os.path.isdir(target):
        return InvalidInput(f"{path}: is a directory", remedy="Choose a name that is not a directory.", path=path)
    return AlreadyExists(f"{path}: exists already", path=path)
