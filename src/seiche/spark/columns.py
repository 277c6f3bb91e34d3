"""The columns that a reader of a table's history shows, found again in versions in which they had other names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seiche.errors import InvalidInput
from seiche.table.format.manifest import Manifest

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table as they were called in one version, with the ids that they keep when they are renamed."""

    version: int
    ids: Mapping[str, int]

    @classmethod
    def of(cls, manifest: Manifest) -> "Columns":
        """Those of a version, by which all others are read."""
        return cls(manifest.version, {name: number for number, name in _by_id(manifest).items()})

    def within(self, manifest: Manifest, wanted: Sequence[str], follows: Callable[[int, int], bool]) -> dict[str, str]:
        """What each of the columns `wanted` is called in another version. One that was not there yet is left out.

        `InvalidInput` for one that is there no more: nulls in its place would be taken for values. Ids say nothing
        across an overwrite, which counts them anew; `follows` tells of two versions whether there is none between.
        """
        there = _by_id(manifest)
        present = set(there.values())
        found = {name: name for name in wanted if name in present}
        for name in wanted:
            if name in found or name not in self.ids:
                continue
            other = there.get(self.ids[name])
            if other is not None and other not in self.ids and self._follows(manifest.version, follows):
                found[name] = other
            elif manifest.version > self.version:
                raise InvalidInput(
                    f"version {manifest.version} of the table has no column {name!r} any more",
                    remedy="Start the query again: it takes the columns that the table has then.",
                    column=name,
                    version=manifest.version,
                )
        return found

    def _follows(self, version: int, follows: Callable[[int, int], bool]) -> bool:
        return follows(min(version, self.version), max(version, self.version))


def _by_id(manifest: Manifest) -> dict[int, str]:
    return {field.id: field.name for field in manifest.header.fields if field.parent_id < 0}
