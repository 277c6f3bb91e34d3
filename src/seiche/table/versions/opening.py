"""From an address to the one who decides a table's versions."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from seiche.core.runtime import Runtime
from seiche.errors import InvalidInput
from seiche.store import open_store
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.table.versions.base import Versions
from seiche.table.versions.external import ManifestStore, external_versions, split_address
from seiche.table.versions.naming import Naming
from seiche.table.versions.stored import PutVersions, RenameVersions

__all__ = ["open_versions", "within"]


def open_versions(
    uri: str | PathLike[str] | Store,
    *,
    naming: Naming | None = None,
    manifest_store: str | ManifestStore | None = None,
    runtime: Runtime,
    options: Mapping[str, Any],
) -> Versions:
    """Who decides the versions of the table at `uri`: its storage, or the manifest store that is named.

    The address of a table on S3 that DynamoDB decides (`s3+ddb://`) names both. `naming` is for a table that is about
    to be made.
    """
    if isinstance(uri, Store):
        return _versions(uri, naming, manifest_store, runtime)
    address, named = split_address(uri)
    if named is not None and manifest_store is not None:
        raise InvalidInput(f"{uri} names a manifest store, and another one is given", remedy="Leave one of them out.")
    store = open_store(address, runtime=runtime, **options)
    return _versions(store, naming, named if manifest_store is None else manifest_store, runtime)


def within(versions: Versions, prefix: str, runtime: Runtime) -> Versions:
    """Who decides the versions of a table inside another one's directory: a branch."""
    store = below(versions.store, prefix)
    return _versions(store, None, getattr(versions, "manifest_store", None), runtime)


def _versions(
    store: Store, naming: Naming | None, manifest_store: str | ManifestStore | None, runtime: Runtime
) -> Versions:
    if manifest_store is not None:
        return external_versions(store, manifest_store, naming, runtime)
    if store.uri.startswith("hdfs://"):
        return RenameVersions(store, naming=naming, runtime=runtime)
    return PutVersions(store, naming=naming, runtime=runtime)
