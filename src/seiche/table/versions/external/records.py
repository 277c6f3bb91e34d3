"""What a manifest store remembers about a version, and what the path in it means."""

import re
from dataclasses import dataclass

from seiche.errors import Corrupt
from seiche.table.versions.naming import Naming, parse

__all__ = ["ManifestRecord", "Place", "place_of"]

_STAGED = re.compile(r"(?P<name>[^/]+)-[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class ManifestRecord:
    """Which file is the manifest of a version: its full path, `{base_uri}/_versions/{name}`, and its size in bytes.

    `e_tag` is kept for those who write it; nothing relies on it, because a copy has another one than its source.
    """

    version: int
    path: str
    size: int
    e_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The two names of one manifest below the table's root: where it is by the record, and where it belongs."""

    recorded: str
    final: str
    naming: Naming

    @property
    def is_staged(self) -> bool:
        """Whether the record still names the private file of the writer."""
        return self.recorded != self.final


def place_of(record: ManifestRecord, base_uri: str) -> Place:
    """Where the manifest is; `Corrupt` if the path is not one that a commit to this table could have recorded."""
    below, name = record.path.removeprefix(base_uri), record.path.rpartition("/")[2]
    staged = _STAGED.fullmatch(name)
    final = staged["name"] if staged else name
    named = parse(final)
    if named is None or named[1] != record.version or below != f"/_versions/{name}":
        raise Corrupt(
            f"the manifest store says that version {record.version} of {base_uri} is at {record.path!r}, which is no"
            " name of a manifest of that version",
            remedy="Somebody else writes to the manifest store, or the table was moved. Correct or remove the record.",
            path=record.path,
            version=record.version,
        )
    return Place(below[1:], f"_versions/{final}", named[0])
