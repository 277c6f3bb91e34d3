"""Other directories, reached the way a store that is at hand is reached."""

from typing import Any
from urllib.parse import unquote

from seiche.core.runtime import SYSTEM, Runtime
from seiche.store.base import Store
from seiche.store.local import LocalStore
from seiche.store.opening import open_store
from seiche.store.prefix import PrefixStore, below

__all__ = ["open_beside"]


def open_beside(store: Store, address: str, *, runtime: Runtime = SYSTEM) -> Store:
    """The store at `address`, as native readers write it (`native_uri`), with the credentials and settings of `store`.

    What lies inside the store that is at hand is reached through it, whatever kind of store that is.
    """
    carrier = store.inner if isinstance(store, PrefixStore) else store
    home, wanted = carrier.native_uri().rstrip("/"), address.rstrip("/")
    if wanted == home:
        return carrier
    if wanted.startswith(home + "/"):
        inside = wanted[len(home) + 1 :]
        # Addresses with a scheme are read as URLs by native libraries, paths are not.
        return below(carrier, unquote(inside) if "://" in home else inside)
    if isinstance(carrier, LocalStore) and ("://" not in address or address.startswith("file://")):
        return open_store(address, durability=carrier.durability, runtime=runtime)
    options: dict[str, Any] = dict(carrier.native_options)
    return open_store(address, runtime=runtime, **options)
