"""A store on disk that knows what would outlast a power failure."""

from collections.abc import Iterable
from pathlib import Path

from seiche.store.base import Data
from seiche.store.local import LocalStore

__all__ = ["Disk"]


class Disk(LocalStore):
    """A disk that flushes, as it is by default, and knows what it has flushed."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.flushed: set[str] = set()

    def flush(self, paths: Iterable[str]) -> int:
        files = list(paths)
        done = super().flush(files)
        self.flushed.update(files)
        return done

    def put_last(self, path: str, data: Data, files: Iterable[str]) -> None:
        named = list(files)
        super().put_last(path, data, named)
        self.flushed.update(named)

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put(path, data, durable=durable)
        self.flushed.update([path] if durable else ())

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put_if_absent(path, data, durable=durable)
        self.flushed.update([path] if durable else ())
