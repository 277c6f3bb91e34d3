"""What lies in the directory of a table's versions: manifests, and what is on the way to becoming one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from seiche.store.base import ObjectInfo, Store
from seiche.table.versions.naming import DETACHED, parse

__all__ = ["VersionFolder"]

_FOLDER = "_versions"
_DETACHED_NAME = re.compile(r"d(\d{1,20})\.manifest")
# A manifest that waits under a private name for its claim, and a temporary file of pylance on local disks.
_STAGED_NAME = re.compile(r"([^/-]+\.manifest)-[0-9a-fA-F-]{32,36}")
_TEMPORARY_NAME = re.compile(r"[^/#]+\.manifest#\d+")


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """The files in it, by what they are, at one moment. Files of no known kind are left out."""

    manifests: dict[int, ObjectInfo]
    detached: dict[int, ObjectInfo]
    # With the version that each is meant for.
    staged: dict[str, tuple[int, ObjectInfo]]
    temporary: tuple[ObjectInfo, ...]

    @classmethod
    def of(cls, store: Store) -> "VersionFolder":
        """`store` is rooted at the table."""
        manifests: dict[int, ObjectInfo] = {}
        detached: dict[int, ObjectInfo] = {}
        staged: dict[str, tuple[int, ObjectInfo]] = {}
        temporary: list[ObjectInfo] = []
        for name, info in _listed(store):
            if found := parse(name):
                manifests[found[1]] = info
            elif (known := _DETACHED_NAME.fullmatch(name)) and DETACHED <= int(known[1]) < 1 << 64:
                detached[int(known[1])] = info
            elif (known := _STAGED_NAME.fullmatch(name)) and (found := parse(known[1])):
                staged[info.path] = (found[1], info)
            elif _TEMPORARY_NAME.fullmatch(name):
                temporary.append(info)
        return cls(manifests, detached, staged, tuple(temporary))


def _listed(store: Store) -> Iterator[tuple[str, ObjectInfo]]:
    for info in store.list(_FOLDER, recursive=False):
        yield info.path.rpartition("/")[2], info
