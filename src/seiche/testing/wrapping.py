"""A store around another one, through which every call passes one gate."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from seiche.store.base import Chunks, Data, Done, Item, ObjectInfo, Store
from seiche.store.files import buffers

__all__ = ["CONDITIONAL", "READS", "WRITES", "Call", "WrappingStore"]

READS = frozenset({"get", "get_range", "head", "list"})
CONDITIONAL = frozenset({"put_if_absent", "copy_if_absent", "rename_if_absent"})
WRITES = CONDITIONAL | {"put", "copy", "delete"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a store: what was asked, for which path, from which source (of a copy), with how many bytes."""

    verb: str
    path: str
    source: str = ""
    size: int = 0

    def __str__(self) -> str:
        return f"{self.verb} {self.source} {self.path}" if self.source else f"{self.verb} {self.path}"


class WrappingStore(Store):
    """Hands every verb to `inner`, but lets `_call` decide whether, when and with what answer.

    Parallel verbs become one call after the other, so that their order does not depend on threads.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @abstractmethod
    def _call(self, call: Call, act: Callable[[], T]) -> T:
        """Let one request pass, or not. `act` does it."""

    @property
    def inner(self) -> Store:
        """The store behind this one."""
        return self._inner

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def native_options(self) -> Mapping[str, str]:
        return self._inner.native_options

    @property
    def lists_in_one_request(self) -> bool:
        return self._inner.lists_in_one_request

    def native_uri(self, path: str = "") -> str:
        return self._inner.native_uri(path)

    def flush(self, paths: Iterable[str]) -> int:
        return self._inner.flush(paths)

    def sweep(self, older_than: timedelta) -> int:
        return self._inner.sweep(older_than)

    def prune(self, prefix: str = "") -> int:
        return self._inner.prune(prefix)

    def get(self, path: str) -> bytes:
        return self._call(Call("get", path), lambda: self._inner.get(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._call(Call("get_range", path), lambda: self._inner.get_range(path, start, length))

    def head(self, path: str) -> ObjectInfo:
        return self._call(Call("head", path), lambda: self._inner.head(path))

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        self._call(Call("put", path, size=_size(data)), lambda: self._inner.put(path, data, durable=durable))

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        call = Call("put_if_absent", path, size=_size(data))
        self._call(call, lambda: self._inner.put_if_absent(path, data, durable=durable))

    def put_stream(self, path: str, chunks: Chunks) -> None:
        self.put(path, list(chunks()))

    def copy_from(self, source: Store, path: str, target: str) -> None:
        origin, inside = source.origin(path)
        if origin is self:
            self.copy(inside, target)
        else:
            self._call(Call("copy", target, inside), lambda: self._inner.copy_from(origin, inside, target))

    def copy(self, source: str, target: str) -> None:
        self._call(Call("copy", target, source), lambda: self._inner.copy(source, target))

    def copy_if_absent(self, source: str, target: str) -> None:
        self._call(Call("copy_if_absent", target, source), lambda: self._inner.copy_if_absent(source, target))

    def rename_if_absent(self, source: str, target: str) -> None:
        self._call(Call("rename_if_absent", target, source), lambda: self._inner.rename_if_absent(source, target))

    def delete(self, path: str) -> None:
        self._call(Call("delete", path), lambda: self._inner.delete(path))

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        return self._call(
            Call("list", prefix), lambda: self._inner.list(prefix, start_after=start_after, recursive=recursive)
        )

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return self._inner.turn(meanwhile)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        # One after the other, so that a run is the same each time.
        return [work(item) for item in items]


def _size(data: Data) -> int:
    return sum(memoryview(buffer).nbytes for buffer in buffers(data))
