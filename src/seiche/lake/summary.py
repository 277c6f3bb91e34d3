"""A table in figures, for people."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from seiche.lake.history.table_diff import live_rows
from seiche.lake.objects.names import Name, text
from seiche.lake.objects.rows import TableRow
from seiche.lake.state import State
from seiche.lake.versions import LakeVersions
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Column", "TableSummary", "stored_bytes", "summary"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column as Arrow calls it."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class TableSummary:
    """What a version of the lake says about a table. What is in tables that are not the lake's own is not known here:
    they have no figures.

    `bytes` are those of the data files that this version names, as they are stored; `None` if whoever wrote them did
    not note how large they are. Indices, and what only earlier versions need, come on top of it.
    """

    name: str
    id: str
    type: str
    format: str
    location: str
    lake_version: int
    version: int
    properties: dict[str, str]
    config: dict[str, str]
    rows: int | None = None
    bytes: int | None = None
    fragments: int | None = None
    deleted_rows: int | None = None
    columns: tuple[Column, ...] = ()
    indices: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def summary(state: State, name: Name) -> TableSummary:
    """The table of this name; `NotFound` if there is none."""
    row = state.table(name)
    known = TableSummary(
        name=text(name),
        id=row.id,
        type=row.type,
        format=row.format,
        location=row.location,
        lake_version=state.version,
        version=row.table_version,
        properties=dict(row.properties),
        config={},
    )
    if row.type != "managed":
        return known
    if row.format == "iceberg":
        return _iceberg(known, state, row)
    return _counted(known, LakeVersions(state.store, row).read(row.table_version).manifest)


def _counted(known: TableSummary, manifest: Manifest) -> TableSummary:
    from seiche.table.format.schema import to_arrow

    rows = live_rows(manifest)
    return replace(
        known,
        config=dict(manifest.header.config),
        rows=rows,
        bytes=stored_bytes(manifest.fragments),
        fragments=len(manifest.fragments),
        deleted_rows=sum(one.physical_rows for one in manifest.fragments) - rows,
        columns=tuple(map(_column, to_arrow(manifest.header.fields))),
        indices=tuple(dict.fromkeys(one.name for one in manifest.indices)),
    )


def stored_bytes(fragments: Iterable[DataFragment]) -> int | None:
    """How large the data files of fragments are; `None` if that was not noted of one."""
    sizes = [file.file_size_bytes for one in fragments for file in one.files]
    return sum(sizes) if all(sizes) else None


def _iceberg(known: TableSummary, state: State, row: TableRow) -> TableSummary:
    from seiche.lake.iceberg.metadata import load, summary_of

    metadata = load(state, row)
    said = summary_of(metadata)
    # How many rows files of deletions take away, the metadata does not say; nor has it to say anything of rows.
    total = said.get("total-records", 0 if metadata.current_snapshot() is None else None)
    size = said.get("total-files-size", 0 if metadata.current_snapshot() is None else None)
    exact = total is not None and int(said.get("total-delete-files", 0)) == 0
    return replace(
        known,
        config=dict(metadata.properties),
        rows=int(total) if exact else None,
        bytes=None if size is None else int(size),
        columns=tuple(map(_column, metadata.schema().as_arrow())),
    )


def _column(field: "pa.Field") -> Column:
    return Column(field.name, str(field.type), field.nullable)
