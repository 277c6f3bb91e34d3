"""The columns that a reader of a table's history shows, found again in versions in which they had other names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from seiche.errors import InvalidInput
from seiche.table.data.columns.past import PastColumns, from_the_top, ids_before
from seiche.table.footprint import path_of
from seiche.table.format.fields import column_ids
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, and the fields inside of them, as they were called in one version, with the ids that they
    keep when they are renamed.
    """

    version: int
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, manifest: Manifest) -> "Columns":
        """Those of a version, by which all others are read."""
        return cls(manifest.version, tuple(manifest.header.fields))

    @property
    def names(self) -> list[str]:
        return list(column_ids(self.fields))

    def within(self, manifest: Manifest, wanted: Sequence[str], follows: Callable[[int, int], bool]) -> PastColumns:
        """What the columns `wanted` are called in another version, with all that is inside of them. What was not there
        yet is left out.

        A column is known by its id: its name may have gone to another one since. But ids say nothing across an
        overwrite, which counts them anew (`follows` tells of two versions whether there is none between), nor if the
        column got another one with its type: then it is known by its name, unless that is of another column.
        `InvalidInput` for one that is there no more: nulls in its place would be taken for values.
        """
        there = tuple(manifest.header.fields)
        shown = _within(self.fields, wanted)
        if shown == _within(there, wanted):
            return PastColumns(there, {number: name for number, (_, name) in shown.items()})
        anew = not follows(*sorted((manifest.version, self.version)))
        then = ids_before(self.fields, there, anew=anew)
        gone = next((one for one in shown if one not in then), None)
        if gone is not None and manifest.version > self.version:
            column = ".".join(path_of(gone, {one.id: one for one in self.fields}))
            raise InvalidInput(
                f"version {manifest.version} of the table has no column {column!r} any more",
                remedy="Start the query again: it takes the columns that the table has then.",
                column=column,
                version=manifest.version,
            )
        return PastColumns(there, {then[number]: name for number, (_, name) in shown.items() if number in then})


def _within(fields: Iterable[Field], wanted: Sequence[str]) -> Mapping[int, tuple[int, str]]:
    """The fields of the wanted columns, nested ones too: the id of each with its parent's id and its name."""
    found: dict[int, tuple[int, str]] = {}
    for one in from_the_top(fields):
        if one.name in wanted if one.parent_id == -1 else one.parent_id in found:
            found[one.id] = (one.parent_id, one.name)
    return found
