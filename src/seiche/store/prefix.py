"""A directory of a store, seen as a store of its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta

from seiche.store import paths
from seiche.store.base import Chunks, Data, Done, Item, ObjectInfo, Store

__all__ = ["PrefixStore", "below"]


def below(store: Store, prefix: str) -> Store:
    """The part of `store` under the directory `prefix`; the store itself if that is empty."""
    if not prefix:
        return store
    if isinstance(store, PrefixStore):
        return PrefixStore(store.inner, paths.join(store.prefix, paths.check(prefix)))
    return PrefixStore(store, paths.check(prefix))


class PrefixStore(Store):
    """Every path is taken relative to `prefix` in `inner`; promises are those of `inner`."""

    def __init__(self, inner: Store, prefix: str) -> None:
        self.inner = inner
        self.prefix = prefix
        self._start = prefix + "/"

    def _full(self, path: str) -> str:
        given: object = path
        return self._start + path if isinstance(given, str) else paths.check(path)

    @property
    def uri(self) -> str:
        return f"{self.inner.uri.rstrip('/')}/{paths.as_uri_path(self.prefix)}"

    def get(self, path: str) -> bytes:
        return self.inner.get(self._full(path))

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.inner.get_range(self._full(path), start, length)

    def head(self, path: str) -> ObjectInfo:
        return self._relative(self.inner.head(self._full(path)))

    def exists(self, path: str) -> bool:
        return self.inner.exists(self._full(path))

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.inner.put(self._full(path), data, durable=durable)

    def note(self, path: str, data: bytes) -> None:
        self.inner.note(self._full(path), data)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.inner.put_if_absent(self._full(path), data, durable=durable)

    def put_own(self, path: str, data: Data) -> None:
        self.inner.put_own(self._full(path), data)

    def put_stream(self, path: str, chunks: Chunks) -> None:
        self.inner.put_stream(self._full(path), chunks)

    def copy_from(self, source: Store, path: str, target: str) -> None:
        self.inner.copy_from(source, path, self._full(target))

    def origin(self, path: str) -> tuple[Store, str]:
        return self.inner.origin(self._full(path))

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(self._full(source), self._full(target))

    def copy_if_absent(self, source: str, target: str) -> None:
        self.inner.copy_if_absent(self._full(source), self._full(target))

    def rename_if_absent(self, source: str, target: str) -> None:
        self.inner.rename_if_absent(self._full(source), self._full(target))

    def delete(self, path: str) -> None:
        self.inner.delete(self._full(path))

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        found = self.inner.list(
            paths.join(self.prefix, prefix),
            start_after=self._full(start_after) if start_after else "",
            recursive=recursive,
        )
        return map(self._relative, found)

    def names(self, prefix: str = "") -> Iterator[str]:
        return self.inner.names(paths.join(self.prefix, prefix))

    def folders(self, prefix: str = "") -> Sequence[str] | None:
        found = self.inner.folders(paths.join(self.prefix, prefix))
        return None if found is None else [one.removeprefix(f"{self.prefix}/") for one in found]

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return self.inner.turn(meanwhile)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        return self.inner.in_parallel(work, items)

    def _relative(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, path=info.path[len(self._start) :])

    def native_uri(self, path: str = "") -> str:
        return self.inner.native_uri(self._full(path) if path else self.prefix)

    def flush(self, paths: Iterable[str]) -> int:
        return self.inner.flush(map(self._full, paths))

    def sweep(self, older_than: timedelta) -> int:
        return self.inner.sweep(older_than)

    def prune(self, prefix: str = "") -> int:
        return self.inner.prune(paths.join(self.prefix, prefix))

    @property
    def native_options(self) -> Mapping[str, str]:
        return self.inner.native_options

    @property
    def lists_in_one_request(self) -> bool:
        return self.inner.lists_in_one_request
