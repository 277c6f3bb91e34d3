"""How the manifest of a version is called: the two schemes of the format, and which one a directory uses."""

from collections.abc import Iterable, Iterator
from enum import Enum

from seiche.errors import Corrupt, InvalidInput
from seiche.store.base import Store

__all__ = ["BARRIER", "DETACHED", "Naming", "check_version", "detect", "named", "parse", "refuse_barrier"]

# Versions with this bit are detached: named `d<version>.manifest`, in no line of history, never the latest.
DETACHED = 1 << 63

# What stands in the file that blocks the next V1 version during a migration: no manifest, so nobody takes it for one.
BARRIER = b"seiche: this table is being migrated to V2 names; finish with Table.migrate_naming"

_LARGEST = (1 << 64) - 1
_FOLDER, _SUFFIX = "_versions/", ".manifest"
_V2_LENGTH = 20 + len(_SUFFIX)


class Naming(Enum):
    """V1 counts up; V2 counts down from 2^64 - 1, so that the first name in a listing is the latest version."""

    V1 = "V1"
    V2 = "V2"

    def file_name(self, version: int) -> str:
        """The file name of `version`."""
        return self.path(version).removeprefix(_FOLDER)

    def path(self, version: int) -> str:
        """The path of the manifest of `version`, below the table's root."""
        check_version(version)
        number = f"{_LARGEST - version:020}" if self is Naming.V2 else str(version)
        return f"{_FOLDER}{number}{_SUFFIX}"


def check_version(version: int) -> int:
    """Return `version` if it can be the number of a version in a table's history, else raise `InvalidInput`."""
    given: object = version
    whole = type(given) is int or (hasattr(type(given), "__index__") and not isinstance(given, bool))
    if not whole or not 0 < version < DETACHED:
        raise InvalidInput(
            f"{version!r} is not a version number",
            remedy="Versions are counted from 1; `versions()` lists those that exist.",
            version=version,
        )
    return version


def parse(name: str) -> tuple[Naming, int] | None:
    """Which version a file name stands for; `None` for detached versions and files that are no manifests."""
    digits = name.removesuffix(_SUFFIX)
    if len(digits) == len(name) or not digits.isascii() or not digits.isdigit():
        return None
    if len(name) == _V2_LENGTH:
        version = _LARGEST - int(digits)
        naming = Naming.V2
    else:
        version = int(digits)
        naming = Naming.V1
    return (naming, version) if 0 < version < DETACHED else None


def named(store: Store) -> Iterator[tuple[Naming, int]]:
    """The versions that have a manifest in the folder of the table at `store`, and how each is named."""
    return filter(None, map(parse, store.names("_versions")))


def refuse_barrier(data: bytes, *, path: str, table: str) -> None:
    """`Corrupt` if this is what blocks the next version during a migration, of which the names alone do not tell yet.

    Taken for a manifest it would be a damaged one, and whoever then removed it would let writers go on among renames.
    """
    if data == BARRIER:
        raise Corrupt(
            f"{table} is being migrated to V2 names: {path} keeps writers out meanwhile",
            remedy="If the migration was interrupted, finish it with `Table.migrate_naming(uri)`; else try again when"
            " it is done. Do not remove the file.",
            table=table,
            path=path,
        )


def detect(versions: Iterable[tuple[Naming, int]], *, table: str) -> tuple[Naming, list[int]] | None:
    """The scheme and the versions of a directory, ascending; `None` if it has no manifest.

    A directory that mixes the schemes is refused: two files could then claim to be the same version.
    """
    up: list[int] = []
    down: list[int] = []
    for naming, version in versions:
        (up if naming is Naming.V1 else down).append(version)
    if up and down:
        raise Corrupt(
            f"{table} has manifests under both naming schemes (V1: {_some(up)}; V2: {_some(down)})",
            remedy="If a migration was interrupted, finish it with `Table.migrate_naming(uri)`. Otherwise a foreign"
            " writer left a stray manifest: look at it, then move it out of `_versions`.",
            table=table,
        )
    if not up and not down:
        return None
    return (Naming.V1, sorted(up)) if up else (Naming.V2, sorted(down))


def _some(versions: list[int]) -> str:
    ordered = sorted(versions)
    return ", ".join(map(str, ordered[:3])) + (f" ... {ordered[-1]}" if len(ordered) > 3 else "")
