"""A store whose power can fail: what was not flushed is gone then, or torn."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from seiche.core.runtime import SYSTEM, Runtime
from seiche.store.base import Data
from seiche.testing.dict_store import DictStore

__all__ = ["Loss", "VolatileStore"]

# What is left of a file that was not flushed: nothing, its name without bytes, or a part of its bytes.
Loss: TypeAlias = Literal["gone", "empty", "torn"]


class VolatileStore(DictStore):
    """Promises what a local disk does: what was written with `durable`, or flushed since, survives a power failure."""

    def __init__(self, name: str = "test", *, runtime: Runtime = SYSTEM) -> None:
        super().__init__(name, runtime=runtime)
        self._at_risk: set[str] = set()

    @property
    def at_risk(self) -> frozenset[str]:
        """The files that a power failure would take or tear now."""
        return frozenset(self._at_risk)

    def put(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put(path, data, durable=durable)
        self._wrote(path, durable)

    def put_if_absent(self, path: str, data: Data, *, durable: bool = True) -> None:
        super().put_if_absent(path, data, durable=durable)
        self._wrote(path, durable)

    def flush(self, paths: Iterable[str]) -> int:
        flushed = list(paths)
        for path in flushed:
            self.head(path)  # of a missing file, `NotFound`
        self._at_risk.difference_update(flushed)
        return len(flushed)

    def delete(self, path: str) -> None:
        super().delete(path)
        self._at_risk.discard(path)

    def fail(self, loss: Loss) -> int:
        """Let the power fail; returns how many files were hit. All processes are dead after that."""
        hit = sorted(self._at_risk)
        for path in hit:
            data = self.get(path)
            self.delete(path)
            if loss != "gone":
                super().put(path, data[: len(data) // 2] if loss == "torn" else b"")
        return len(hit)

    def _wrote(self, path: str, durable: bool) -> None:
        (self._at_risk.discard if durable else self._at_risk.add)(path)
