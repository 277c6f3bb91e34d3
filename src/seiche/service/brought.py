"""Whether a client may name the files that an operation of Lance brings."""

from seiche.store.paths import valid
from seiche.table.brought import UUID_BYTES, added, changed, index_files, indices
from seiche.table.operations import Operation

__all__ = ["stays_inside"]


def stays_inside(operation: Operation) -> bool:
    """Whether all files that it names can only be in the table's own directory, or below one of its bases."""
    fragments = (*added(operation), *changed(operation))
    return all(valid(file.path) for fragment in fragments for file in fragment.files) and all(
        len(index.uuid.uuid) == UUID_BYTES and all(map(valid, index_files(index))) for index in indices(operation)
    )
