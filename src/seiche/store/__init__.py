"""Storage: bytes under names, with one atomic verb that everything else rests on."""

from seiche.store.base import ObjectInfo, Store
from seiche.store.opening import open_store

__all__ = ["ObjectInfo", "Store", "open_store"]
