"""The versions that a lake has given up, as its tree says.

An expiry decides in a root: from then on the versions that it names are not to be needed again, whatever still stands
in storage. Turning their roots into tombstones comes after, and may come late. That is how an expiry and everything
that makes an old version needed again (a tag, an export, a rollback, a reader's lease) meet: whoever comes second finds
the other in the newest root.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from seiche.errors import Corrupt
from seiche.lake.care.ranges import NONE, Ranges
from seiche.lake.objects import rows
from seiche.lake.objects.keys import retention_key
from seiche.lake.objects.rows import RetentionRow
from seiche.lake.state import State

__all__ = ["GIVEN_UP", "GivenUp"]

# The row of the tree that says so.
GIVEN_UP = retention_key("given_up")


@dataclass(frozen=True, slots=True)
class GivenUp:
    """`versions` are decided. Of these, `tombstones` are known to be tombstones: nobody has to look at them again.

    In a lake that began as an export, the versions below `first` have never been there, not even as tombstones.
    """

    versions: Ranges = NONE
    tombstones: Ranges = NONE
    first: int = 0

    @classmethod
    def of(cls, state: State) -> "GivenUp":
        """What a version of the lake says about versions that were given up."""
        value = state.get(GIVEN_UP)
        if value is None:
            return cls()
        row = rows.decode(value, RetentionRow)
        try:
            tombstones = Ranges.parse(row.properties.get("tombstones", ""))
            first = int(row.properties.get("first", "0"))
            return cls(Ranges.parse(row.properties.get("versions", "")) | tombstones, tombstones, first)
        except ValueError as error:
            raise Corrupt(f"what the lake says about expired versions cannot be read: {error}") from error

    @property
    def unburied(self) -> list[int]:
        """Versions of which it is not known that they are tombstones by now."""
        return list(self.versions - self.tombstones)

    def row(self) -> Mapping[bytes, bytes]:
        """As it stands in the tree."""
        properties = {"versions": str(self.versions), "tombstones": str(self.tombstones)}
        if self.first:
            properties["first"] = str(self.first)
        return {GIVEN_UP: rows.encode(RetentionRow(maximum_age_millis=0, properties=properties))}
