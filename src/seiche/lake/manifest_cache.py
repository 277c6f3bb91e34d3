"""Manifests of tables that were read or made a moment ago."""

from collections import OrderedDict
from threading import Lock
from typing import Final

from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.table.format import file
from seiche.table.format.file import ManifestFile

__all__ = ["ManifestCache"]

CACHE_BYTES: Final = 64 << 20


class ManifestCache:
    """The most recently used manifests that rows of a lake name, found by their hash. Safe to share between threads.

    Whoever commits to a table twice in a row needs not read what he just wrote.
    """

    def __init__(self, capacity: int = CACHE_BYTES) -> None:
        self._capacity = capacity
        self._size = 0
        self._held: OrderedDict[bytes, ManifestFile | bytes] = OrderedDict()
        self._sizes: dict[bytes, int] = {}
        self._lock = Lock()

    def recall(self, ref: ManifestRef) -> ManifestFile | None:
        """The manifest that a row names, if it is held."""
        with self._lock:
            held = self._held.get(ref.sha256)
            if held is None:
                return None
            self._held.move_to_end(ref.sha256)
        if isinstance(held, bytes):
            # Most of what is made here is never asked for again, so it is decoded only now.
            held = file.decode(held, path=ref.path)
            with self._lock:
                if ref.sha256 in self._held:
                    self._held[ref.sha256] = held
        return held

    def keep(self, ref: ManifestRef, manifest: ManifestFile | bytes) -> None:
        """Remember a manifest that was just read or written."""
        with self._lock:
            if ref.sha256 in self._held:
                return
            self._held[ref.sha256] = manifest
            self._sizes[ref.sha256] = ref.size
            self._size += ref.size
            while self._size > self._capacity:
                oldest, _ = self._held.popitem(last=False)
                self._size -= self._sizes.pop(oldest)
