"""The test kit, shipped with the package: stores that fail on purpose, count, and never touch a disk."""

from seiche.testing.dict_store import DictStore

__all__ = ["DictStore"]
