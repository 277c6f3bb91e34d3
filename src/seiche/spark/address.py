"""Where a table is, as a value that can be sent to a worker and opened there."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from seiche.core.runtime import SYSTEM
from seiche.errors import InvalidInput
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.local import Durability, LocalStore
from seiche.store.memory import MemoryStore
from seiche.store.prefix import PrefixStore, below

__all__ = ["Address"]


@dataclass(frozen=True, slots=True)
class Address:
    """A store by its address and options, and a directory in it. Holds credentials if the store was given some."""

    uri: str
    options: tuple[tuple[str, str], ...] = ()
    durability: Durability = "fsync"
    prefix: str = ""

    @classmethod
    def of(cls, store: Store) -> "Address":
        """The address of a store; `InvalidInput` for one that no other process could open."""
        prefix = ""
        if isinstance(store, PrefixStore):
            prefix, store = store.prefix, store.inner
        if isinstance(store, LocalStore):
            # One in memory is a directory of a RAM disk: workers on this machine find it under its path.
            uri = store.native_uri() if isinstance(store, MemoryStore) else store.uri
            return cls(uri, (), store.durability, prefix)
        if "://" not in store.uri or store.uri.startswith("memory:"):
            raise InvalidInput(
                f"{store!r} cannot be opened by Spark's workers", remedy="Keep the lake on disk or in a bucket."
            )
        return cls(store.uri, tuple(sorted(store.native_options.items())), "fsync", prefix)

    def open(self) -> Store:
        """The store, the same one for everybody who asks in this process."""
        return _opened(self)

    @property
    def store_options(self) -> Mapping[str, str]:
        return dict(self.options)


@lru_cache(maxsize=64)
def _opened(address: Address) -> Store:
    store = open_store(address.uri, durability=address.durability, runtime=SYSTEM, **address.store_options)
    return below(store, address.prefix)
