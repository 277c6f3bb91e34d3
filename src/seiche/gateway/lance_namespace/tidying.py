"""Clearing desks of what is old."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from seiche.store.base import ObjectInfo, Store
from seiche.table.format import file
from seiche.table.reachable import Reach
from seiche.table.versions.naming import parse

__all__ = ["tidied"]

# Branches and tags, what was shown of them, whose versions are there, and what was set aside: none of it can be made
# again.
_KEPT: Final = ("_refs/", "_shown/", "_lines/", "_foreign/")


def tidied(desk: Store, files: list[ObjectInfo], before: datetime) -> int:
    """Clear a desk of `files` that were put on it before a time; returns how many went.

    Of each line, the table and its branches, versions go from the oldest, so that no gap comes between those that stay;
    then files that none of these names.
    """
    old = {info.path.partition("/")[2]: info.modified < before for info in files}
    lines: dict[str, list[tuple[int, str]]] = {}
    for path in old:
        line, inside, name = path.rpartition("_versions/")
        found = parse(name) if inside else None
        if found is not None:
            lines.setdefault(line, []).append((found[1], path))
    gone: list[str] = []
    staying: list[str] = []
    for versions in lines.values():
        listed = [path for _, path in sorted(versions)]
        kept = next((at for at, path in enumerate(listed) if not old[path]), len(listed))
        gone += listed[:kept]
        staying += listed[kept:]
    # By their names alone, also those that lie on the desk of another line: names are unique.
    named = Reach()
    for path in staying:
        named.add_manifest(file.decode(desk.get(path), path=path).manifest)
    decided = {*gone, *staying}
    gone += [
        path
        for path, is_old in old.items()
        if is_old and path not in decided and not path.startswith(_KEPT) and not any(map(named.holds, _ends(path)))
    ]
    for path in gone:
        desk.delete(path)
    return len(gone)


def _ends(path: str) -> Iterator[str]:
    """A path as it may be named from the root of a line."""
    yield path
    parts = path.split("/")
    yield from ("/".join(parts[at:]) for at in range(1, len(parts)))
