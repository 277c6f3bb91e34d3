"""A store in a dictionary: small, quick and the same at every run."""

from bisect import bisect_right, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from threading import Lock

from seiche.core.runtime import SYSTEM, Runtime
from seiche.errors import AlreadyExists, NotFound
from seiche.store.base import Data, Done, Item, ObjectInfo, Store
from seiche.store.files import joined
from seiche.store.paths import check, check_directory, check_range, check_start_after, join, parent

__all__ = ["DictStore"]


class DictStore(Store):
    """Keeps every promise of a store at the least cost, for simulations of millions of steps.

    Nothing in it depends on chance, threads or the machine: storage time is the runtime's clock. "Processes" of a
    simulation share one object. Native readers cannot see its files; `memory://` is for them.
    """

    def __init__(self, name: str = "test", *, runtime: Runtime = SYSTEM) -> None:
        self._name = name
        self._clock = runtime.clock
        self._files: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._names: dict[str, list[str]] = {}
        self._writes = 0
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"DictStore({self._name!r}, {len(self._files)} files)"

    @property
    def uri(self) -> str:
        return f"dict://{self._name}"

    def native_uri(self, path: str = "") -> str:
        return join(self.uri, check_directory(path))

    def get(self, path: str) -> bytes:
        return self._find(path)[0]

    def get_range(self, path: str, start: int, length: int) -> bytes:
        start, length = check_range(path, start, length)
        data = self._find(path)[0]
        begin = start if start >= 0 else max(0, len(data) + start)
        return data[begin : begin + length]

    def head(self, path: str) -> ObjectInfo:
        return self._find(path)[1]

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        self._write(path, joined(data), replace=True)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self._write(path, joined(data), replace=False)

    def copy(self, source: str, target: str) -> None:
        check(target)
        self._write(target, self.get(source), replace=True)

    def copy_if_absent(self, source: str, target: str) -> None:
        check(target)
        self._write(target, self.get(source), replace=False)

    def rename_if_absent(self, source: str, target: str) -> None:
        self.copy_if_absent(source, target)
        self.delete(source)

    def delete(self, path: str) -> None:
        with self._lock:
            if self._files.pop(check(path), None) is None:
                return
            directory = parent(path)
            names = self._names[directory]
            del names[bisect_right(names, path) - 1]
            if not names:
                del self._names[directory]

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        check_start_after(check_directory(prefix), start_after)
        return self._listed(prefix, start_after, recursive)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        # One after the other, so that a run is the same each time.
        return [work(item) for item in items]

    def state(self) -> Hashable:
        """All that is in it, and what time it is: what comes next is the same on two stores whose states are equal."""
        return self._clock.now(), frozenset((path, data, info.modified) for path, (data, info) in self._files.items())

    def _find(self, path: str) -> tuple[bytes, ObjectInfo]:
        found = self._files.get(check(path))
        if found is None:
            raise NotFound(f"{path}: no such file", path=path)
        return found

    def _write(self, path: str, data: bytes, *, replace: bool) -> None:
        with self._lock:
            known = check(path) in self._files
            if known and not replace:
                raise AlreadyExists(f"{path}: exists already", path=path)
            if not known:
                insort(self._names.setdefault(parent(path), []), path)
            self._writes += 1
            self._files[path] = (data, ObjectInfo(path, len(data), self._clock.now(), f"{self._writes:x}"))

    def _listed(self, prefix: str, start_after: str, recursive: bool) -> Iterator[ObjectInfo]:
        with self._lock:
            names = self._names.get(prefix, [])
            found = names[bisect_right(names, start_after) :]
            if recursive:
                below = prefix + "/" if prefix else ""
                for directory in sorted(self._names):
                    if directory != prefix and directory.startswith(below):
                        found.extend(self._names[directory])
        for path in found:
            entry = self._files.get(path)
            if entry is not None:
                yield entry[1]
