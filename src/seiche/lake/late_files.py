"""Files of a transaction's statements, which nobody needs on disk before its commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Final

from seiche.core.runtime import Runtime
from seiche.store.base import Data, ObjectInfo, Store
from seiche.store.paths import check
from seiche.store.prefix import PrefixStore
from seiche.table.format.side_files import put_new

__all__ = ["LateFiles", "LateStore"]

# More than this is written at once: a transaction must not grow with what it writes.
_MOST_HELD: Final = 1 << 20
_DATA: Final = "data/"


class LateFiles:
    """Data files that are flushed, and small ones even written, all together when the transaction is committed.

    So the disk is waited for once, whatever the number of tables. And making a file costs less right after another one:
    between two statements, each would find the processor's memory filled with the other's code. Several threads may run
    statements of one transaction: each file is written once, and whoever asks for it to be written finds it there.
    """

    def __init__(self, store: Store, unflushed: list[str], runtime: Runtime) -> None:
        """`unflushed` are the files that are written, but may not last yet."""
        self._store = store
        self._runtime = runtime
        self._unflushed = unflushed
        self._held: dict[str, Data] = {}
        self._size = 0
        self._lock = Lock()

    def hold(self, path: str, data: Data) -> bool:
        """Keep a file until `write`; `False` if it is not worth while."""
        size = len(data) if isinstance(data, bytes) else _MOST_HELD
        with self._lock:
            if self._size + size > _MOST_HELD or path in self._held:
                return False
            self._held[check(path)] = data
            self._size += size
        return True

    def write(self) -> None:
        """All files are there when this returns. If it fails, what is left is held, and it can be called again."""
        with self._lock:
            if self._held:
                self._store.together(*(partial(self._write, path) for path in self._held))
            self._size = 0

    def left(self) -> Mapping[str, Data]:
        """What is left to the commit, which writes it before its root.

        Only if the store is far away, where it goes side by side with whatever else the commit writes. On a disk it is
        written now, so that it can be flushed while others have their turn.
        """
        if self._store.lists_in_one_request:
            self.write()
        with self._lock:
            left, self._held, self._size = self._held, {}, 0
        return left

    def _write(self, path: str) -> None:
        put_new(self._store, path, self._held[path], self._runtime, durable=False)
        self._unflushed.append(path)
        del self._held[path]

    def note(self, paths: Iterable[str]) -> None:
        """Files that have to be flushed before the commit that names them."""
        self._unflushed += [path for path in paths if path not in self._held]

    def take_over(self, earlier: Sequence["LateFiles"], is_named: Callable[[str], bool]) -> None:
        """Write the files of earlier transactions now, and note those that this one names again for flushing.

        Both were left to commits that did not come about.
        """
        for one in earlier:
            one.write()
        self._unflushed += dict.fromkeys(path for one in earlier for path in one._unflushed if is_named(path))


class LateStore(PrefixStore):
    """The directory of a table, for statements: data files are held, and flushes noted. Who looks finds everything."""

    def __init__(self, inner: Store, prefix: str, files: LateFiles) -> None:
        super().__init__(inner, prefix)
        self._files = files

    def put_own(self, path: str, data: Data) -> None:
        if not (path.startswith(_DATA) and self._files.hold(self._start + path, data)):
            super().put_own(path, data)

    def flush(self, paths: Iterable[str]) -> int:
        self._files.note(self._start + path for path in paths)
        return 0

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self._files.write()
        return super().list(prefix, start_after=start_after, recursive=recursive)

    def names(self, prefix: str = "") -> Iterator[str]:
        self._files.write()
        return super().names(prefix)

    def folders(self, prefix: str = "") -> Sequence[str] | None:
        self._files.write()
        return super().folders(prefix)

    def native_uri(self, path: str = "") -> str:
        self._files.write()
        return super().native_uri(path)

    def _full(self, path: str) -> str:
        self._files.write()
        return super()._full(path)
