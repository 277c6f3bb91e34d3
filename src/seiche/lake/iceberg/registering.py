"""Tables of the lake from Iceberg metadata that exists."""

import json
from collections.abc import Collection
from typing import Final

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput, NotFound, PermissionDenied
from seiche.lake.care.problems import Findings
from seiche.lake.iceberg.checking import IcebergCheck
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.metadata import Metadata, decode
from seiche.lake.iceberg.new_files import misnoted
from seiche.lake.iceberg.places import address, new_location, path_of, table_id_in
from seiche.lake.iceberg.work import IcebergWork
from seiche.lake.objects.names import Name
from seiche.lake.objects.rows import IcebergMetadata, TableRow
from seiche.lake.state import State
from seiche.lake.tree.root import millis

__all__ = ["moved_in", "read_at", "registered"]

_FULL: Final = "Give the full address of a .metadata.json file."
# An address that leads into a place of a lake is looked for in this one, wherever it was written.
_OTHERS: Final = (
    "It was cleared away, or is that of another lake, which keeps its files to itself: "
    '`lake.register_table(name, address, type="external", format="iceberg")` reads it there.'
)


def registered(
    name: Name, metadata_location: str, state: State, runtime: Runtime
) -> tuple[TableRow, IcebergWork | None, Collection[str]]:
    """The row of a table that begins with the metadata at this address, the work that it takes, and the files of the
    lake that become part of it.

    Metadata in the place of a table of the lake that was dropped is taken as it is: there is no work, and the place is
    to be claimed. Whoever had it meanwhile may have written there, and flushed nothing. Any other table gets a place in
    the lake: its new files go there, and so does a copy of its metadata. Files that it has elsewhere stay where they
    are, and are not the lake's to clean up; `PermissionDenied` if they are where nothing may be opened.
    """
    metadata = read_at(metadata_location, state)
    for snapshot in metadata.snapshots:
        if path_of(state.store, snapshot.manifest_list) is None:
            state.outside.check(snapshot.manifest_list)
    _check_deletions(metadata, metadata_location, state)
    row = TableRow(
        id=str(runtime.uuid()),
        format="iceberg",
        location="",
        created_at_millis=millis(runtime.clock.now()),
    )
    path, place = path_of(state.store, metadata_location), path_of(state.store, metadata.location.rstrip("/"))
    if path is not None and place is not None and path.startswith(f"{place}/metadata/"):
        _check_place(place, state)
        current = IcebergMetadata(location=path, uuid=str(metadata.table_uuid))
        found = _at(row, place, current)
        return found, None, _checked_files(found, state)
    place = new_location(name, row.id)
    moved = moved_in(metadata, place, state)
    return (
        _at(row, place, None),
        IcebergWork(None, moved, origin=metadata_location),
        _lent_files(metadata, place, state),
    )


def read_at(metadata_location: str, state: State) -> Metadata:
    """The metadata at any address; `NotFound` if there is none, `InvalidInput` if a lake can have no such table.

    Of a file that is something else nothing is told: whoever asks need not be allowed to read it.
    """
    try:
        with LakeFileIO(state.store, outside=state.outside).new_input(metadata_location).open() as stream:
            data = stream.read()
        try:
            return decode(data, metadata_location)
        except Corrupt as error:
            if not _is_metadata(data):
                raise ValueError("the file is something else") from None
            raise InvalidInput(
                f"the Iceberg metadata at {metadata_location} cannot be read here: it has a type or a format version "
                "that PyIceberg does not know, or is damaged",
                remedy="Copy its rows into a new table, with an engine that reads it.",
                location=metadata_location,
            ) from error
    except (OSError, ValueError) as error:
        raise NotFound(
            f"there is no Iceberg metadata at {metadata_location}: {error}",
            remedy=_FULL if path_of(state.store, metadata_location) is None else _OTHERS,
            location=metadata_location,
        ) from error


def _check_deletions(metadata: Metadata, metadata_location: str, state: State) -> None:
    why = misnoted(metadata, LakeFileIO(state.store, outside=state.outside))
    if why:
        raise InvalidInput(
            f"the table at {metadata_location} cannot be taken: {why}",
            remedy="Copy its rows into a new table with the engine that deleted them: CREATE TABLE ... AS SELECT ...",
            location=metadata_location,
        )


def _is_metadata(data: bytes) -> bool:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"format-version", "location", "last-column-id"} <= found.keys()


def moved_in(metadata: Metadata, place: str, state: State) -> Metadata:
    """The metadata of a table whose new files go to another place."""
    where = {name: value for name, value in metadata.properties.items() if not _is_place(name)}
    found: Metadata = metadata.model_copy(update={"location": address(state.store, place), "properties": where})
    return found


def _is_place(name: str) -> bool:
    """Whether a property says where engines put the files of a table: they go to its new place."""
    return name.startswith("write.") and name.endswith((".path", "location-provider.impl"))


def _check_place(place: str, state: State) -> None:
    try:
        table_id_in(state.store, place)
    except InvalidInput as error:
        raise InvalidInput(
            f"{place} is not the place of a table of the lake",
            remedy="Register metadata of a table that the lake had, or of one that lies outside of it.",
            location=place,
        ) from error


def _checked_files(row: TableRow, state: State) -> Collection[str]:
    """The files that metadata in a place of the lake leads to. It is refused if a clean-up has taken one, as it may
    with those of a dropped table.

    Nobody could read the table, nor know what it needs.
    """
    check = IcebergCheck(state.store, row.location, Findings(), outside=state.outside)
    check.add(row)
    check.check()
    return _sound(check)


def _lent_files(metadata: Metadata, place: str, state: State) -> Collection[str]:
    """The same of metadata from elsewhere, which may be a copy that leads to files of tables of the lake."""
    if all(path_of(state.store, one.manifest_list) is None for one in metadata.snapshots):
        return ()
    check = IcebergCheck(state.store, place, Findings(), outside=state.outside)
    check.follow(metadata, "the table")
    return _sound(check)


def _sound(check: IcebergCheck) -> Collection[str]:
    for one in check.findings.problems:
        if one.kind.endswith(".unreadable"):
            raise PermissionDenied(one.message, remedy=one.remedy, location=one.path)
        if not one.kind.startswith("statistics."):
            raise InvalidInput(
                f"the metadata leads to {one.path}, which is missing or damaged",
                remedy="Register newer metadata of the table, or bring its files back with `lake.trash()` if they are"
                " there.",
                path=one.path,
            )
    return check.found


def _at(row: TableRow, place: str, current: IcebergMetadata | None) -> TableRow:
    return TableRow(
        id=row.id,
        format="iceberg",
        location=place,
        iceberg=current,
        table_version=0 if current is None else 1,
        logical_version=0 if current is None else 1,
        created_at_millis=row.created_at_millis,
    )
