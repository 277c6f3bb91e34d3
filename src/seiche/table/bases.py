"""Directories other than the table's own in which files of the table lie."""

from seiche.core.runtime import Runtime
from seiche.store.base import Store
from seiche.store.beside import open_beside
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest import Manifest

__all__ = ["base_stores", "deletion_files"]


def base_stores(manifest: Manifest, store: Store, runtime: Runtime) -> dict[int, Store]:
    """The base paths of a version by their ids, as stores, reached as the table's own store is."""
    paths = manifest.header.base_paths
    return {base.id: open_beside(store, base.path, runtime=runtime) for base in paths} if paths else {}


def deletion_files(manifest: Manifest, store: Store, runtime: Runtime) -> DeletionFiles:
    """The deletion vectors of a version, wherever they lie."""
    return DeletionFiles(store, runtime, bases=base_stores(manifest, store, runtime))
