"""A store as it will be once some files are written."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from seiche.store.base import Data, Done, Item, ObjectInfo, Store

__all__ = ["OverlayStore"]


class OverlayStore(Store):
    """`inner`, with `files` that are about to be written and can already be read with `get` and `get_range`.

    For planning on top of what is not durable yet. Writes go to `inner`; listings and `head` show what is there.
    """

    def __init__(self, inner: Store, files: Mapping[str, bytes]) -> None:
        self.inner = inner
        self.files = files

    @property
    def uri(self) -> str:
        return self.inner.uri

    def get(self, path: str) -> bytes:
        planned = self.files.get(path)
        return self.inner.get(path) if planned is None else planned

    def get_range(self, path: str, start: int, length: int) -> bytes:
        planned = self.files.get(path)
        if planned is None:
            return self.inner.get_range(path, start, length)
        begin = start if start >= 0 else max(0, len(planned) + start)
        return planned[begin : begin + length]

    def head(self, path: str) -> ObjectInfo:
        return self.inner.head(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.inner.put(path, data, durable=durable)

    def note(self, path: str, data: bytes) -> None:
        self.inner.note(path, data)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        self.inner.put_if_absent(path, data, durable=durable)

    def copy(self, source: str, target: str) -> None:
        self.inner.copy(source, target)

    def copy_if_absent(self, source: str, target: str) -> None:
        self.inner.copy_if_absent(source, target)

    def rename_if_absent(self, source: str, target: str) -> None:
        self.inner.rename_if_absent(source, target)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        return self.inner.list(prefix, start_after=start_after, recursive=recursive)

    def names(self, prefix: str = "") -> Iterator[str]:
        return self.inner.names(prefix)

    def flush(self, paths: Iterable[str]) -> int:
        return self.inner.flush(paths)

    def native_uri(self, path: str = "") -> str:
        return self.inner.native_uri(path)

    @property
    def native_options(self) -> Mapping[str, str]:
        return self.inner.native_options

    @property
    def lists_in_one_request(self) -> bool:
        return self.inner.lists_in_one_request

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        return self.inner.turn(meanwhile)

    def in_parallel(self, work: Callable[[Item], Done], items: Iterable[Item]) -> Sequence[Done]:
        return self.inner.in_parallel(work, items)
