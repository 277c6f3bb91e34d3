"""Columns by which rows were written, and whether those that a table has now can show them."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import DecimalType, IcebergType, PrimitiveType

from seiche.errors import Corrupt, InvalidInput
from seiche.lake.iceberg.appends import Appends, CannotMove
from seiche.lake.iceberg.metadata import Metadata
from seiche.lake.iceberg.work import Step

__all__ = ["check_columns", "retyped", "unfit"]


def unfit(before: Schema, schema: Schema) -> str:
    """Why rows written by the schema `before` may not be rows of the other; empty if they are."""
    return lacking(before, schema) or retyped(before, schema)


def lacking(before: Schema, schema: Schema) -> str:
    """Which column has to have a value that rows written by the schema `before` need not have; empty if there is none.

    What is inside of a new column is missing with it.
    """
    if before.schema_id == schema.schema_id:
        return ""
    had = before._lazy_id_to_field
    for number, column in schema._lazy_id_to_field.items():
        parent = schema._lazy_id_to_parent.get(number)
        could_be_null = had[number].optional if number in had else parent is None or parent in had
        if column.required and column.initial_default is None and could_be_null:
            return f"column {schema.find_column_name(number)!r} cannot be null any more, as its rows may be"
    return ""


def retyped(before: Schema, schema: Schema) -> str:
    """Which column has a type now by which rows written by the schema `before` cannot be read, or not by all: PyIceberg
    lets a decimal have more places, where Java would show another number. Empty if there is none.
    """
    had = before._lazy_id_to_field
    for number, column in schema._lazy_id_to_field.items():
        if number in had and not _is_readable(had[number].field_type, column.field_type):
            name = schema.find_column_name(number)
            return f"column {name!r} has rows of type {had[number].field_type}, not {column.field_type}"
    return ""


def _is_readable(written: IcebergType, wanted: IcebergType) -> bool:
    """Whether values of one type can be read as those of another; what is inside of either is another column."""
    if not (isinstance(written, PrimitiveType) and isinstance(wanted, PrimitiveType)):
        return type(written) is type(wanted)
    if isinstance(written, DecimalType) and isinstance(wanted, DecimalType) and written.scale != wanted.scale:
        return False
    try:
        return written == wanted or promote(written, wanted) is not None
    except ResolveError:
        return False


def check_columns(table: str, step: Step, before: Metadata | None, after: Metadata, appends: Appends) -> None:
    """Refuse rows that were written by other columns than the table has after the step, and cannot be shown by them.

    Not by a conflict: engines answer that by sending the same files again, as if they were written by the new columns.
    """
    added = [one.snapshot.snapshot_id for one in step.updates if isinstance(one, AddSnapshotUpdate)]
    with suppress(CannotMove, Corrupt):  # whose files cannot be read is refused for that
        why = _missing(added, before, after, appends) or _mistyped(added, before, after, appends)
        if why:
            raise InvalidInput(
                f"{table}: the rows were written when it had other columns: {why}",
                remedy="Nothing was committed. Load the table again, and write the rows by the columns it has now.",
                table=table,
            )


def _missing(added: Collection[int], before: Metadata | None, after: Metadata, appends: Appends) -> str:
    """Which column new rows may lack. A step may change the columns as well, before or after its rows: who lets a
    column be required together with them insists on it.
    """
    for snapshot in map(after.snapshot_by_id, added if before is not None else ()):
        for written in () if snapshot is None else _columns_of(snapshot, after, appends):
            why = before is not None and lacking(written, before.schema()) and lacking(written, after.schema())
            if why:
                return why
    return ""


def _columns_of(snapshot: Any, metadata: Metadata, appends: Appends) -> Iterator[Schema]:
    """The columns that rows were written by: as the snapshot says, and where it matters as its manifests do.

    Engines that lost against others say what is current when they send the same files again: the manifests are older.
    """
    yield from (one for one in metadata.schemas if one.schema_id == snapshot.schema_id)
    if any(lacking(one, metadata.schema()) for one in metadata.schemas):
        yield from appends.columns(snapshot, [snapshot.snapshot_id])


def _mistyped(added: Collection[int], before: Metadata | None, after: Metadata, appends: Appends) -> str:
    """Which column current rows have in another type: new ones, and all of them if the step has changed a type."""
    schema, snapshot = after.schema(), after.current_snapshot()
    if snapshot is None or snapshot.snapshot_id not in added:
        return ""
    if not any(retyped(one, schema) for one in after.schemas):
        return ""
    changed = "" if before is None else retyped(before.schema(), schema)
    if changed and any(one.added_snapshot_id in added and one.has_existing_files() for one in appends.listed(snapshot)):
        return changed  # older rows, in a manifest that was written anew: it does not say by which columns they were
    found = (retyped(one, schema) for one in appends.columns(snapshot, None if changed else added))
    return next(filter(None, found), "")
