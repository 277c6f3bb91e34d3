"""Files of a lake, as PyIceberg reads and writes them: through the lake's own storage."""

import io
from collections.abc import Callable
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import IO, Any, Final, Self

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io

from seiche.core.insisting import insist
from seiche.core.runtime import SYSTEM
from seiche.errors import NotFound
from seiche.lake.iceberg.avro_decoder import use_bounded_decoder
from seiche.lake.iceberg.avro_readers import keep_readers
from seiche.lake.iceberg.manifests import read_in_full
from seiche.lake.iceberg.places import path_of
from seiche.lake.outside import ANYWHERE, Outside
from seiche.store.base import Store
from seiche.store.local import LocalStore

__all__ = ["LakeFileIO", "Note"]

# Others write the metadata that is read here, and it can be damaged.
use_bounded_decoder()
keep_readers()
read_in_full()

# Told the path of each file that was written and is not flushed yet.
Note = Callable[[str], None]

# Up to this size a file is read at once, or written from memory.
_SMALL: Final = 8 << 20
# Files of these endings are read in parts; all others are metadata, which is read as a whole.
_DATA: Final = (".parquet", ".orc")


class LakeFileIO(FileIO):
    """Reads and writes files in the lake through its store; what lies elsewhere, as PyIceberg itself would, if it is
    not `outside` of what may be opened.

    What is written is seen when it is whole, and reported to `note`: whoever commits it flushes it first. Nothing is
    ever deleted. PyIceberg deletes what it takes for the remains of a failed commit; the lake's clean-up knows better.
    """

    def __init__(
        self,
        store: Store,
        note: Note = lambda _path: None,
        properties: dict[str, str] | None = None,
        outside: Outside = ANYWHERE,
    ) -> None:
        super().__init__(properties or {})
        self._store = store
        self._note = note
        self._outside = outside

    def new_input(self, location: str) -> InputFile:
        path = self._path(location)
        return self._elsewhere(location).new_input(location) if path is None else _Input(location, self._store, path)

    def new_output(self, location: str) -> OutputFile:
        path = self._path(location)
        if path is None:
            return self._elsewhere(location).new_output(location)
        return _Output(location, self._store, path, self._note)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Leave the file where it is: `lake.gc` clears away what no kept version needs."""

    def _path(self, location: str) -> str | None:
        """The path in the store that an address leads to; `None` if it leads elsewhere."""
        return path_of(self._store, location)

    def _elsewhere(self, location: str) -> FileIO:
        self._outside.check(location)
        return load_file_io(self.properties, location)


class _Input(InputFile):
    def __init__(self, location: str, store: Store, path: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path

    def __len__(self) -> int:
        return self._store.head(self._path).size

    def exists(self) -> bool:
        return self._store.exists(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        try:
            stream: InputStream = self._open()
            return stream
        except NotFound as error:
            raise FileNotFoundError(f"{self.location} does not exist") from error

    def _open(self) -> Any:
        if not self._path.endswith(_DATA):
            return io.BytesIO(self._store.get(self._path))
        origin, path = self._store.origin(self._path)
        if isinstance(origin, LocalStore):
            import pyarrow as pa

            return pa.OSFile(origin.native_uri(path))
        size = self._store.head(self._path).size
        if size <= _SMALL:
            return io.BytesIO(self._store.get(self._path))
        return io.BufferedReader(_Ranges(self._store, self._path, size), 1 << 20)


class _Ranges(io.RawIOBase):
    """A large file, read in parts."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._at)
        if wanted <= 0:
            return 0
        data = self._store.get_range(self._path, self._at, wanted)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Output(OutputFile):
    def __init__(self, location: str, store: Store, path: str, note: Note) -> None:
        super().__init__(location)
        self._store = store
        self._path = path
        self._note = note
        self._size: int | None = None

    def __len__(self) -> int:
        return self._store.head(self._path).size if self._size is None else self._size

    def exists(self) -> bool:
        return self._store.exists(self._path)

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store, self._path)

    def create(self, overwrite: bool = False) -> OutputStream:
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} exists")
        return _Stream(self._store, self._path, self._written)

    def _written(self, size: int) -> None:
        self._size = size  # PyIceberg asks for it right away
        self._note(self._path)


class _Stream:
    """Bytes on their way into a file, which appears when this is closed."""

    def __init__(self, store: Store, path: str, written: Callable[[int], None]) -> None:
        self._store = store
        self._path = path
        self._written = written
        self._spool: IO[bytes] = SpooledTemporaryFile(max_size=_SMALL)  # noqa: SIM115 - closed in `close`
        self._failed = False

    @property
    def closed(self) -> bool:
        return self._spool.closed

    def writable(self) -> bool:
        return True

    def write(self, b: bytes) -> int:
        return self._spool.write(b)

    def flush(self) -> None:
        """Only a whole file is ever written."""

    def tell(self) -> int:
        return self._spool.tell()

    def close(self) -> None:
        if self._spool.closed:
            return
        with self._spool as spool:
            if self._failed:
                return
            size = spool.seek(0, io.SEEK_END)
            # An answer that was lost says nothing about the commit, which has not begun.
            insist(lambda: self._put(spool, size), SYSTEM)
        self._written(size)

    def _put(self, spool: IO[bytes], size: int) -> None:
        if size <= _SMALL:
            spool.seek(0)
            self._store.put(self._path, spool.read(), durable=False)
        else:
            self._store.put_stream(self._path, lambda: _pieces(spool))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failed = kind is not None
        self.close()


def _pieces(spool: IO[bytes]) -> Any:
    spool.seek(0)
    return iter(lambda: spool.read(_SMALL), b"")
