"""The files that an operation of Lance brings to a table. Readers would stumble over one that is not there."""

from collections.abc import Iterator, Sequence

from seiche.lake.engines.native_manifest import files_of, index_files
from seiche.store.paths import valid
from seiche.table import footprint
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, IndexMetadata
from seiche.table.operations import (
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Rewrite,
    Update,
)

__all__ = ["brought", "stays_inside"]

_UUID_BYTES = 16


def brought(operation: Operation, base: Manifest | None) -> Iterator[str]:
    """What it names and the table does not, as paths in the table. What only adds rows needs no `base`, which is the
    table as it was when the operation was made.
    """
    for fragment in _added(operation):
        yield from files_of(fragment, DataFragment())
    for fragment in _changed(operation):
        known = None if base is None else base.fragments.get(fragment.id)
        yield from files_of(fragment, known or DataFragment())
    for index in _indices(operation):
        if not index.HasField("base_id"):
            yield from index_files(index)


def stays_inside(operation: Operation) -> bool:
    """Whether all files that it names can only be in the table's own directory, or below one of its bases."""
    fragments = (*_added(operation), *_changed(operation))
    indices = _indices(operation)
    return all(valid(file.path) for fragment in fragments for file in fragment.files) and all(
        len(index.uuid.uuid) == _UUID_BYTES and all(map(valid, index_files(index))) for index in indices
    )


def _added(operation: Operation) -> Sequence[DataFragment]:
    """Fragments whose ids are given when it is committed."""
    return operation.fragments if isinstance(operation, Overwrite) else footprint.new_fragments(operation)


def _changed(operation: Operation) -> Sequence[DataFragment]:
    """Fragments that have their ids."""
    match operation:
        case Delete() | Update():
            return operation.updated_fragments
        case Merge():
            return operation.fragments
        case Rewrite():
            return [fragment for group in operation.groups for fragment in group.new_fragments]
        case DataReplacement():
            return [DataFragment(id=one.fragment_id, files=[one.new_file]) for one in operation.replacements]
    return ()


def _indices(operation: Operation) -> Sequence[IndexMetadata]:
    match operation:
        case CreateIndex():
            return operation.new_indices
        case Rewrite():
            return [IndexMetadata(uuid=one.new_id, files=one.new_index_files) for one in operation.rewritten_indices]
    return ()
