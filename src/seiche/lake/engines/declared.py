"""Places that were given out for tables which nobody has made yet."""

from typing import Final

from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow

__all__ = ["Declared"]

# Of one name. Whoever asks for more without making the table has given up on the first ones.
_MOST: Final = 16


class Declared:
    """Several clients may be about to make the same table, each in a place of its own: who commits first makes it."""

    def __init__(self) -> None:
        self._places: dict[Name, tuple[TableRow, ...]] = {}

    def add(self, name: Name, row: TableRow) -> None:
        self._places[name] = (*self.of(name), row)[-_MOST:]

    def of(self, name: Name) -> tuple[TableRow, ...]:
        """All places for tables of this name, the newest last."""
        return self._places.get(name, ())

    def forget(self, name: Name) -> None:
        """The table is made."""
        self._places.pop(name, None)
