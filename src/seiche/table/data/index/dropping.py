"""Dropping an index as a change of the table."""

from seiche.errors import NotFound
from seiche.table.change import Change
from seiche.table.format.manifest import Manifest
from seiche.table.operations import CreateIndex
from seiche.table.operations.coverage import is_system
from seiche.table.snapshot import Snapshot

__all__ = ["DroppingIndex", "unknown_index"]


class DroppingIndex:
    """Prepares the removal of an index."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, snapshot: Snapshot) -> Change:
        gone = tuple(one for one in snapshot.manifest.indices if one.name == self._name and not is_system(one))
        if not gone:
            raise unknown_index(self._name, snapshot.manifest)
        return Change(CreateIndex(removed_indices=gone), notes={"segments": len(gone)})


def unknown_index(name: str, manifest: Manifest) -> NotFound:
    known = sorted({one.name for one in manifest.indices if not is_system(one)})
    return NotFound(
        f"there is no index {name!r}", remedy=f"The table has {', '.join(known) or 'none'}.", index=name, known=known
    )
