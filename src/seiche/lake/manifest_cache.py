"""Manifests of tables that were read or made a moment ago."""

from collections import OrderedDict
from threading import Lock
from typing import Final, TypeAlias

from seiche.core.forked import renew_in_children
from seiche.lake.objects.rows import Manifest as ManifestRef
from seiche.table.format import file
from seiche.table.format.file import ManifestFile
from seiche.table.format.manifest import Manifest
from seiche.table.format.transaction_pb2 import Transaction

__all__ = ["CACHE_BYTES", "Built", "ManifestCache"]

CACHE_BYTES: Final = 32 << 20

# A version that was built here, and the transaction that makes it as it is stored.
Built: TypeAlias = tuple[Manifest, bytes]
# A manifest as it was read, made or is stored.
Held: TypeAlias = ManifestFile | Built | bytes


class ManifestCache:
    """The most recently used manifests that rows of a lake name, found by their hash. Safe to share between threads.

    Whoever commits to a table twice in a row need not read again what was just written.
    """

    def __init__(self, capacity: int = CACHE_BYTES) -> None:
        self._capacity = capacity
        self._size = 0
        self._held: OrderedDict[bytes, Held] = OrderedDict()
        self._sizes: dict[bytes, int] = {}
        self._lock = Lock()
        # The keys of the tables that were last changed here in one transaction.
        self.together: frozenset[bytes] = frozenset()
        renew_in_children(self)

    def forked(self) -> None:
        if self._lock.locked():  # by a thread that was in the middle of changing it
            self._held, self._sizes, self._size = OrderedDict(), {}, 0
        self._lock = Lock()

    @property
    def cached_bytes(self) -> int:
        """The size of the files of the manifests that are held."""
        return self._size

    def holds(self, ref: ManifestRef) -> bool:
        """Whether the manifest that a row names is held."""
        return ref.sha256 in self._held

    def manifest(self, ref: ManifestRef) -> Manifest | None:
        """The manifest that a row names, if it is held; without its transaction, which not everybody needs."""
        held = self._find(ref)
        if isinstance(held, tuple):
            return file.as_stored(held[0])
        read = self.recall(ref) if isinstance(held, bytes) else held
        return None if read is None else read.manifest

    def recall(self, ref: ManifestRef) -> ManifestFile | None:
        """The file of the manifest that a row names, if it is held."""
        held = self._find(ref)
        if held is None:
            return None
        if not isinstance(held, ManifestFile):
            # Most of what is made here is never asked for again, so it is decoded only now.
            held = file.decode(held, path=ref.path) if isinstance(held, bytes) else _decoded(*held)
            with self._lock:
                if ref.sha256 in self._held:
                    self._held[ref.sha256] = held
        return held

    def keep(self, ref: ManifestRef, manifest: Held) -> None:
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

    def _find(self, ref: ManifestRef) -> Held | None:
        with self._lock:
            held = self._held.get(ref.sha256)
            if held is not None:
                self._held.move_to_end(ref.sha256)
            return held


def _decoded(manifest: Manifest, transaction: bytes) -> ManifestFile:
    return ManifestFile(file.as_stored(manifest), Transaction.FromString(transaction))
