"""The columns that a reader of a table's history shows, found again in versions in which they had other names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seiche.errors import InvalidInput
from seiche.table.format.fields import column_ids
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
        return cls(manifest.version, column_ids(manifest.header.fields))

    def within(self, manifest: Manifest, wanted: Sequence[str], follows: Callable[[int, int], bool]) -> dict[str, str]:
        """What each of the columns `wanted` is called in another version. One that was not there yet is left out.

        A column is known by its id: its name may have gone to another one since. But ids say nothing across an
        overwrite, which counts them anew (`follows` tells of two versions whether there is none between), nor if the
        column got another one with its type: then it is known by its name, unless that is of another column.
        `InvalidInput` for one that is there no more: nulls in its place would be taken for values.
        """
        there = column_ids(manifest.header.fields)
        wanted = [name for name in wanted if name in self.ids]
        same = all(there.get(name) == self.ids[name] for name in wanted)
        known_by_id = not same and follows(*sorted((manifest.version, self.version)))
        names = {number: name for name, number in there.items()} if known_by_id else {}
        others = set(self.ids.values()) if known_by_id else set()
        found: dict[str, str] = {}
        for name in wanted:
            if self.ids[name] in names:
                found[name] = names[self.ids[name]]
            elif name in there and there[name] not in others:
                found[name] = name
            elif manifest.version > self.version:
                raise InvalidInput(
                    f"version {manifest.version} of the table has no column {name!r} any more",
                    remedy="Start the query again: it takes the columns that the table has then.",
                    column=name,
                    version=manifest.version,
                )
        return found
