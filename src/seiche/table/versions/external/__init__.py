"""Tables on storage without atomic writes: an external store decides who makes version n.

`external_versions` is the way in; `ManifestStore` is the key-value protocol that another store would implement.
"""

from seiche.table.versions.external.base import ManifestStore
from seiche.table.versions.external.memory import MemoryManifestStore
from seiche.table.versions.external.opening import external_versions, open_manifest_store, split_address
from seiche.table.versions.external.records import ManifestRecord
from seiche.table.versions.external.versions import ExternalVersions

__all__ = [
    "ExternalVersions",
    "ManifestRecord",
    "ManifestStore",
    "MemoryManifestStore",
    "external_versions",
    "open_manifest_store",
    "split_address",
]
