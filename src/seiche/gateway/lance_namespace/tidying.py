"""Clearing desks of what is old."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from seiche.lake.engines.native_manifest import new_files
from seiche.store.base import ObjectInfo, Store
from seiche.table.build import empty
from seiche.table.format import file
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.versions.naming import parse

__all__ = ["tidied"]

# Branches and tags, what was shown of them, and what was set aside: none of it can be made again.
_KEPT: Final = ("_refs/", "_shown/", "_foreign/")


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
    named: set[str] = set()
    for path in staying:
        named.update(_named(file.decode(desk.get(path), path=path).manifest))
    decided = {*gone, *staying}
    gone += [
        path
        for path, is_old in old.items()
        if is_old
        and path not in decided
        and not path.startswith(_KEPT)
        and not any(map(named.__contains__, _ends(path)))
    ]
    for path in gone:
        desk.delete(path)
    return len(gone)


def _named(manifest: Manifest) -> Iterator[str]:
    """Files that a version on a desk names, also those that lie on the desk of another line: names are unique."""
    header = manifest.copy_header()
    fragments = []
    for fragment in manifest.fragments:
        one = type(fragment)()
        one.CopyFrom(fragment)
        for located in (*one.files, one.deletion_file):
            located.ClearField("base_id")
        if not fragment.HasField("deletion_file"):
            one.ClearField("deletion_file")
        fragments.append(one)
    indices = []
    for index in manifest.indices:
        other = type(index)()
        other.CopyFrom(index)
        other.ClearField("base_id")
        indices.append(other)
    yield from new_files(empty(), Manifest(header, Fragments(fragments), indices))


def _ends(path: str) -> Iterator[str]:
    """A path as it may be named from the root of a line."""
    yield path
    parts = path.split("/")
    yield from ("/".join(parts[at:]) for at in range(1, len(parts)))
