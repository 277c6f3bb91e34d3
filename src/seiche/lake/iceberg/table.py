"""An Iceberg table at one version of the lake, or as a transaction sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pyiceberg.io import FileIO

from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.metadata import Metadata, load
from seiche.lake.iceberg.places import address
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State

__all__ = ["IcebergTable", "at_state"]


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """`metadata` is PyIceberg's `TableMetadata`; `metadata_location` is the address of the file that holds it.

    Inside a transaction that has changed the table there is no such file yet: the address is the one of the file that
    it began from, empty for a table that the transaction makes.
    """

    name: Name
    row: TableRow
    metadata: Metadata
    metadata_location: str
    state: State = field(repr=False)
    # How its files are reached, if they are not the lake's own.
    files: FileIO | None = field(default=None, repr=False)

    def io(self, note: Callable[[str], None] = lambda _path: None) -> FileIO:
        """Reads and writes the table's files; `note` is told what was written and has to be flushed."""
        return LakeFileIO(self.state.store, note, outside=self.state.outside) if self.files is None else self.files


def at_state(state: State, name: Name) -> IcebergTable:
    """The table at a version of the lake; `NotFound` if there is none, `InvalidInput` if it is no Iceberg table."""
    from seiche.lake.iceberg.statements import check_iceberg

    row = check_iceberg(state.table(name), name)
    if row.type != "managed":
        from seiche.lake.iceberg.foreign.tables import at_place

        return at_place(state, row, name)
    where = "" if row.iceberg is None else address(state.store, row.iceberg.location)
    return IcebergTable(name, row, load(state, row), where, state)
