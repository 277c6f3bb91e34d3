"""Places that were given out for tables which nobody has made yet."""

from threading import Lock
from typing import Final

from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow

__all__ = ["Declared"]

# Of one name. Whoever asks for more without making the table has given up on the first ones.
_MOST: Final = 16
# Names. A server keeps them for whoever asks, and most of those that are this far back will never be made.
_MOST_NAMES: Final = 10_000


class Declared:
    """Several clients may be about to make the same table, each in a place of its own: who commits first makes it.

    Of names that are declared and never made, only the last ones are kept.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._places: dict[Name, tuple[TableRow, ...]] = {}

    def add(self, name: Name, row: TableRow) -> None:
        with self._lock:  # of two at once neither may lose its place: it could not make its table any more
            self._places[name] = (*self._places.pop(name, ()), row)[-_MOST:]
            if len(self._places) > _MOST_NAMES:
                del self._places[next(iter(self._places))]

    def of(self, name: Name) -> tuple[TableRow, ...]:
        """All places for tables of this name, the newest last."""
        return self._places.get(name, ())

    def forget(self, name: Name) -> None:
        """The table is made."""
        with self._lock:
            self._places.pop(name, None)
