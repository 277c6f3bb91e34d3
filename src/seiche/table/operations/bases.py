"""Base paths: directories other than the table's own in which its files may live."""

from collections.abc import Iterable

from seiche.errors import InvalidInput
from seiche.table.format.manifest_pb2 import BasePath, Manifest

__all__ = ["add_bases", "unused_base_id"]


def unused_base_id(bases: Iterable[BasePath]) -> int:
    """An id that none of them has, and that files which name none cannot be taken for."""
    return max((base.id for base in bases), default=0) + 1


def add_bases(header: Manifest, new: Iterable[BasePath]) -> None:
    """Add base paths; one with the id 0 gets the next free one.

    A name or path that is there already, or an id that stands for another path, is `InvalidInput`: files that name the
    id would suddenly be looked for somewhere else.
    """
    for base in new:
        if not base.path:
            raise InvalidInput(
                f"the base path {base.name or base.id!r} has no path",
                remedy="Give the address of its directory, for instance 's3://bucket/more'.",
                base=base.name or base.id,
            )
        for known in header.base_paths:
            same_name = base.HasField("name") and known.HasField("name") and base.name == known.name
            if same_name or base.path == known.path or (base.id and base.id == known.id):
                raise InvalidInput(
                    f"the table has a base path with the same id, name or path already: {known.id} {known.name!r}"
                    f" {known.path!r}, next to {base.id} {base.name!r} {base.path!r}",
                    remedy="Use the one that is there, or give the new one another id, name and path.",
                    base=known.id,
                )
        added = BasePath()
        added.CopyFrom(base)
        added.id = base.id or unused_base_id(header.base_paths)
        header.base_paths.append(added)
