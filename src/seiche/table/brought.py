"""The files that an operation brings to a table. Readers would stumble over one that is not there."""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from seiche.table import footprint
from seiche.table.format import deletions
from seiche.table.format.index_details import content_file
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

__all__ = ["UUID_BYTES", "added", "brought", "changed", "files_of", "index_files", "indices"]

UUID_BYTES: Final = 16


def brought(operation: Operation, base: Manifest | None) -> Iterator[str]:
    """What it names and the table does not, as paths in the table. What only adds rows needs no `base`, which is the
    table as it was when the operation was made.
    """
    for fragment in added(operation):
        yield from files_of(fragment, DataFragment())
    for fragment in changed(operation):
        known = None if base is None else base.fragments.get(fragment.id)
        yield from files_of(fragment, known or DataFragment())
    for index in indices(operation):
        if not index.HasField("base_id") and len(index.uuid.uuid) == UUID_BYTES:
            yield from index_files(index)


def files_of(fragment: DataFragment, old: DataFragment) -> Iterator[str]:
    """Files that the fragment names and an older form of it does not, in the table's own directory."""
    known = {one.path for one in old.files}
    for one in fragment.files:
        if one.path not in known and not one.HasField("base_id"):
            yield f"data/{one.path}"
    mask = fragment.deletion_file
    if fragment.HasField("deletion_file") and mask != old.deletion_file and not mask.HasField("base_id"):
        yield deletions.path(fragment.id, mask)


def index_files(index: IndexMetadata) -> Iterator[str]:
    """The files of an index segment, or of an index that leads others on, in the table's own directory."""
    content = content_file(index)
    for path in (*(one.path for one in index.files), *(() if content is None else (content,))):
        yield f"_indices/{UUID(bytes=index.uuid.uuid)}/{path}"


def added(operation: Operation) -> Sequence[DataFragment]:
    """Fragments whose ids are given when it is committed."""
    return operation.fragments if isinstance(operation, Overwrite) else footprint.new_fragments(operation)


def changed(operation: Operation) -> Sequence[DataFragment]:
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


def indices(operation: Operation) -> Sequence[IndexMetadata]:
    """Segments of indices that are new."""
    match operation:
        case CreateIndex():
            return operation.new_indices
        case Rewrite():
            return [IndexMetadata(uuid=one.new_id, files=one.new_index_files) for one in operation.rewritten_indices]
    return ()
