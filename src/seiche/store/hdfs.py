"""Files in HDFS, through pyarrow and the library that comes with Hadoop."""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, TypeAlias

from pyarrow import fs

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, CommitUnknown, InvalidInput, NotFound, SeicheError, Unavailable
from seiche.store.base import Buffer, Chunks, Data, ObjectInfo, Store
from seiche.store.files import buffers
from seiche.store.os_errors import translate
from seiche.store.paths import (
    TEMPORARY,
    as_uri_path,
    check,
    check_directory,
    check_range,
    check_start_after,
    join,
    parent,
    valid,
)

__all__ = ["HdfsStore", "Rename", "hdfs_connection"]

# Gives a file another name unless that is taken; False if it was refused.
Rename: TypeAlias = Callable[[str, str], bool]
Connection: TypeAlias = tuple[fs.FileSystem, Rename]

_INSTALL = (
    "Install Hadoop's client with its native library, and set JAVA_HOME, HADOOP_HOME and"
    " CLASSPATH=$(hadoop classpath --glob)."
)


class HdfsStore(Store):
    """A store in a directory of HDFS. New names appear by a rename that the NameNode refuses if they are taken.

    Two promises are weaker than elsewhere. `put` and `copy` over an existing file leave a moment in which there is
    none, because the library has no rename that replaces. And a returned write is in the memory of as many DataNodes as
    the file has replicas, not on their disks.
    """

    def __init__(self, uri: str, root: str, connect: Callable[[], Connection], *, runtime: Runtime = SYSTEM) -> None:
        self._uri = uri.rstrip("/")
        self._base = root.rstrip("/") + "/"
        self._connect = connect
        self._runtime = runtime

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(HdfsStore, self._uri, self._base, self._connect, runtime=self._runtime), ()

    def __repr__(self) -> str:
        return f"HdfsStore({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    @cached_property
    def _connection(self) -> Connection:
        try:
            return self._connect()
        except OSError as error:
            reason = str(error).partition("\n")[0]
            raise Unavailable(f"{self._uri}: cannot connect: {reason}", remedy=_INSTALL, uri=self._uri) from error

    @property
    def _fs(self) -> fs.FileSystem:
        return self._connection[0]

    def native_uri(self, path: str = "") -> str:
        return join(self._uri, as_uri_path(check_directory(path)))

    def get(self, path: str) -> bytes:
        with self._asking(path), self._fs.open_input_file(self._file(path)) as file:
            return bytes(file.read())

    def get_range(self, path: str, start: int, length: int) -> bytes:
        start, length = check_range(path, start, length)
        with self._asking(path), self._fs.open_input_file(self._file(path)) as file:
            size = file.size()
            begin = start if start >= 0 else max(0, size + start)
            return bytes(file.read_at(min(length, size - begin), begin)) if begin < size else b""

    def head(self, path: str) -> ObjectInfo:
        with self._asking(path):
            return self._info(self._fs.get_file_info(self._file(path)))

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        with self._asking(path, writing=True), self._staged(path, data) as temporary:
            self._fs.move(temporary, self._base + path)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        with self._asking(path, writing=True), self._staged(path, data) as temporary:
            self._rename(temporary, path)

    def put_stream(self, path: str, chunks: Chunks) -> None:
        with self._asking(path, writing=True), self._staged(path, chunks()) as temporary:
            self._fs.move(temporary, self._base + path)

    def copy(self, source: str, target: str) -> None:
        check(target)
        self.put_stream(target, lambda: self.chunks(source))

    def copy_if_absent(self, source: str, target: str) -> None:
        check(target)
        self.put_if_absent(target, self.get(source))

    def rename_if_absent(self, source: str, target: str) -> None:
        check(target)
        with self._asking(source):
            old = self._file(source)
        if source == target:
            raise AlreadyExists(f"{target}: exists already", path=target)
        with self._asking(target, writing=True):
            self._fs.create_dir(parent(self._base + target), recursive=True)
            self._rename(old, target)

    def delete(self, path: str) -> None:
        with self._asking(path), suppress(NotFound, FileNotFoundError):
            self._fs.delete_file(self._file(path))

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        check_start_after(check_directory(prefix), start_after)
        return self._files(prefix, start_after, recursive)

    def sweep(self, older_than: timedelta) -> int:
        oldest, removed = self._runtime.clock.now() - older_than, 0
        with self._asking(""):
            for info in self._fs.get_file_info(fs.FileSelector(self._base, recursive=True, allow_not_found=True)):
                if info.is_file and info.base_name.startswith(TEMPORARY) and info.mtime < oldest:
                    self._fs.delete_file(info.path)
                    removed += 1
        return removed

    def _file(self, path: str) -> str:
        """The full path of an existing file."""
        full = self._base + check(path)
        if not self._fs.get_file_info(full).is_file:
            raise NotFound(f"{path}: no such file", path=path)
        return full

    def _info(self, info: fs.FileInfo) -> ObjectInfo:
        return ObjectInfo(info.path[len(self._base) :], info.size, info.mtime)

    @contextmanager
    def _asking(self, path: str, *, writing: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translate(error, path, took_effect=writing and error.errno is None) from error

    @contextmanager
    def _staged(self, path: str, data: Data | Iterator[Buffer]) -> Iterator[str]:
        """A temporary file with the content, beside its final place; removed in the end if it is still there."""
        target = self._base + check(path)
        if self._fs.get_file_info(target).type == fs.FileType.Directory:
            # A rename would move the file into it.
            raise InvalidInput(f"{path}: is a directory", remedy="Choose a name that is not a directory.", path=path)
        temporary = f"{parent(target)}/{TEMPORARY}{self._runtime.u64():016x}"
        self._fs.create_dir(parent(target), recursive=True)
        try:
            with self._fs.open_output_stream(temporary) as stream:
                for buffer in data if isinstance(data, Iterator) else buffers(data):
                    stream.write(memoryview(buffer).cast("B"))
            yield temporary
        finally:
            with suppress(OSError):
                if self._fs.get_file_info(temporary).is_file:
                    self._fs.delete_file(temporary)

    def _rename(self, source: str, path: str) -> None:
        if not self._connection[1](source, self._base + path):
            raise self._refusal(source, path)

    def _refusal(self, source: str, path: str) -> SeicheError:
        """Why a rename failed. Nobody else knows the name of the source: as long as that is there, nothing happened."""
        old, new = self._fs.get_file_info([source, self._base + path])
        if not old.is_file:
            return CommitUnknown(f"{path}: HDFS did not say whether it was written", path=path)
        if new.is_file:
            return AlreadyExists(f"{path}: exists already", path=path)
        return Unavailable(f"{path}: HDFS refused the rename", path=path)

    def _files(self, prefix: str, start_after: str, recursive: bool) -> Iterator[ObjectInfo]:
        selector = fs.FileSelector((self._base + prefix).rstrip("/"), recursive=recursive, allow_not_found=True)
        with self._asking(prefix):
            found = self._fs.get_file_info(selector) if self._is_directory(prefix) else []
        for info in sorted((self._info(info) for info in found if info.is_file), key=lambda info: info.path):
            if valid(info.path) and (parent(info.path) != prefix or info.path > start_after):
                yield info

    def _is_directory(self, prefix: str) -> bool:
        return bool(self._fs.get_file_info((self._base + prefix).rstrip("/")).type == fs.FileType.Directory)


def hdfs_connection(host: str, port: int, options: Mapping[str, Any]) -> Connection:
    """Connect to the NameNode twice: for everything, and for the one call that pyarrow does not offer.

    pyarrow's own `move` deletes an existing target and renames again: with it every writer would win.
    """
    filesystem = fs.HadoopFileSystem(host, port, **options)
    return filesystem, _libhdfs_rename(host, port, options.get("user"), options.get("kerb_ticket"))


def _libhdfs_rename(host: str, port: int, user: str | None, ticket: str | None) -> Rename:
    folder = os.environ.get("ARROW_LIBHDFS_DIR") or os.path.join(os.environ.get("HADOOP_HOME", ""), "lib", "native")
    library = ctypes.CDLL(os.path.join(folder, "libhdfs.so"))
    library.hdfsNewBuilder.restype = ctypes.c_void_p
    library.hdfsBuilderConnect.restype = ctypes.c_void_p
    builder = ctypes.c_void_p(library.hdfsNewBuilder())
    library.hdfsBuilderSetNameNode(builder, os.fsencode(host))
    library.hdfsBuilderSetNameNodePort(builder, ctypes.c_uint16(port))
    if user is not None:
        library.hdfsBuilderSetUserName(builder, os.fsencode(user))
    if ticket is not None:
        library.hdfsBuilderSetKerbTicketCachePath(builder, os.fsencode(ticket))
    address: int | None = library.hdfsBuilderConnect(builder)
    if address is None:
        raise OSError(f"libhdfs cannot connect to {host}:{port}")
    connected = ctypes.c_void_p(address)
    return lambda source, target: bool(library.hdfsRename(connected, os.fsencode(source), os.fsencode(target)) == 0)
