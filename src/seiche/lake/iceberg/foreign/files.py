"""Files of Iceberg tables that are not the lake's own: where they are, and how they are reached.

They are read as others left them. Nothing is ever deleted: what PyIceberg takes for the remains of a failed commit may
be what the table's owner has just made current.
"""

from typing import Any

from pyiceberg.io import FileIO, InputFile, OutputFile

from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.outside import Outside, plain_address
from seiche.lake.read_only import refuse_writing
from seiche.store.base import Store
from seiche.store.paths import valid

__all__ = ["ConfinedFileIO", "GuardedFileIO", "PlaceFileIO"]


class PlaceFileIO(LakeFileIO):
    """Files below one place, through a store that is rooted there; what lies elsewhere, as PyIceberg would."""

    def __init__(self, store: Store, place: str, outside: Outside) -> None:
        super().__init__(store, outside=outside)
        self._place = plain_address(place).rstrip("/") + "/"

    def _path(self, location: str) -> str | None:
        plain = plain_address(location)
        inside = plain.removeprefix(self._place)
        return inside if inside != plain and valid(inside) else None


class GuardedFileIO(FileIO):
    """The files of a table as its source gives them; `read_only` for tables that are only read."""

    def __init__(self, inner: FileIO, table: str, *, read_only: bool) -> None:
        super().__init__(dict(inner.properties))
        self._inner = inner
        self._table = table
        self._read_only = read_only

    def new_input(self, location: str) -> InputFile:
        return self._inner.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        if self._read_only:
            refuse_writing(self._table)
        return self._inner.new_output(location)

    def delete(self, location: Any) -> None:
        """Leave the file where it is."""


class ConfinedFileIO(FileIO):
    """Files as PyIceberg would open them, if they are not `outside` of what may be opened."""

    def __init__(self, inner: FileIO, outside: Outside) -> None:
        super().__init__(dict(inner.properties))
        self._inner = inner
        self._outside = outside

    def new_input(self, location: str) -> InputFile:
        self._outside.check(location)
        return self._inner.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        self._outside.check(location)
        return self._inner.new_output(location)

    def delete(self, location: Any) -> None:
        """Leave the file where it is."""
