"""With which options an index was made, read from its files."""

from typing import Any
from uuid import UUID

import lance  # noqa: F401 - before its parts, which do not wait until another thread has imported all of it
from lance.file import LanceFileReader

from seiche.table.bases import base_stores
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations.coverage import reads_addresses
from seiche.table.snapshot import Snapshot

__all__ = ["settings_of"]

# What native code calls the options in the file of a zone map or Bloom filter.
_OPTIONS = {
    b"rows_per_zone": ("rows_per_zone", int),
    b"bloomfilter_item": ("number_of_items", int),
    b"bloomfilter_probability": ("probability", float),
}


def settings_of(segment: IndexMetadata, snapshot: Snapshot) -> dict[str, Any]:
    """The options of a zone map or Bloom filter; nothing for other kinds, which do not write theirs down.

    Native code tells them only of segments that still speak for some row.
    """
    if not reads_addresses(segment):
        return {}
    store = snapshot.store
    if segment.HasField("base_id"):
        store = base_stores(snapshot.manifest, store, snapshot.runtime)[segment.base_id]
    place = f"_indices/{UUID(bytes=segment.uuid.uuid)}"
    known: dict[bytes, bytes] = {}
    for file in segment.files:
        uri, options = store.native_uri(f"{place}/{file.path}"), dict(store.native_options) or None
        known |= LanceFileReader(uri, storage_options=options).metadata().schema.metadata or {}
    return {name: kind(known[key]) for key, (name, kind) in _OPTIONS.items() if key in known}
