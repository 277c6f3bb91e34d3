"""Storage: bytes under names, with one atomic verb that everything else rests on."""

from seiche.store.base import ObjectInfo, Store
from seiche.store.opening import open_store
from seiche.store.probing import ProbeReport, ProbeRow, probe

__all__ = ["ObjectInfo", "ProbeReport", "ProbeRow", "Store", "open_store", "probe"]
