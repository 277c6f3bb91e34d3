"""A change of schema, checked against the columns that the data files hold."""

from collections.abc import Iterable, Sequence

from seiche.errors import InvalidInput
from seiche.table.format.fields import is_packed
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.operations.context import Schema
from seiche.table.operations.fields import check_schema, missing_fields
from seiche.table.operations.files import live_fields, settle

__all__ = ["check_merged_schema", "check_new_schema", "without_dead_files"]


def check_new_schema(schema: Schema, manifest: Manifest) -> None:
    """Refuse a schema that cannot be laid over the files as they are: `InvalidInput`."""
    check_schema(schema, manifest.header.fields)
    before = {field.id: field for field in manifest.header.fields}
    new = [field for field in schema if field.id not in before]
    for field in schema:
        old = before.get(field.id)
        if old is not None and (old.logical_type, old.parent_id) != (field.logical_type, field.parent_id):
            raise _other_type(old, field)
    if len(manifest.fragments):
        _check_packed(manifest.header.fields, schema)
    if not new or not len(manifest.fragments):
        return
    stored = {one for fragment in manifest.fragments for one in live_fields(fragment)}
    for field in new:
        if field.id in stored:
            raise _used_before(field)
    if missing := [field for field in missing_fields(stored, schema) if field in new]:
        raise _no_values(missing)


def check_merged_schema(schema: Schema, fragments: Iterable[DataFragment], manifest: Manifest) -> None:
    """Refuse a schema under which old files would be read as something else than was written: `InvalidInput`."""
    before = {field.id: field for field in manifest.header.fields}
    if len(manifest.fragments):
        _check_packed(manifest.header.fields, schema)
    # Fields under whose ids an old file may hold something that this schema takes for something else.
    retyped = {field.id: field for field in schema if field.id in before and not _same_type(before[field.id], field)}
    new = {field.id: field for field in schema if field.id not in before}
    mandatory = [field for field in schema if field.id in new or before[field.id].nullable]
    for fragment in fragments:
        now = manifest.fragments.get(fragment.id)
        old_files = set() if now is None else {file.path for file in now.files}
        carried = {one for file in fragment.files if file.path in old_files for one in file.fields}
        if wrong := carried & retyped.keys():
            raise _other_type(before[min(wrong)], retyped[min(wrong)])
        if wrong := carried & new.keys():
            raise _used_before(new[min(wrong)])
        if any(not field.nullable for field in mandatory):
            lacking = {field.id for field in missing_fields(live_fields(fragment), schema)}
            if missing := [field for field in mandatory if field.id in lacking]:
                raise _no_values(missing)


def without_dead_files(fragments: Fragments, before: Schema, after: Schema) -> Fragments:
    """Without the files of which no column is left in the schema; those of a mere renaming are not even looked at.

    `InvalidInput` if of some rows no file would be left: native code does not read such a fragment as nulls, but fails,
    and with it every scan of the table.
    """
    kept = {field.id for field in after}
    if kept.issuperset(field.id for field in before):
        return fragments
    changes: dict[int, DataFragment | None] = {}
    for fragment in fragments:
        if any(kept.isdisjoint(file.fields) for file in fragment.files):
            made = DataFragment()
            made.CopyFrom(fragment)
            settle(made, kept)
            if not made.files:
                raise _nothing_left(after, fragment.id)
            changes[fragment.id] = made
    return fragments.replaced(changes)


def _check_packed(before: Sequence[Field], after: Schema) -> None:
    """Refuse other fields inside of a packed struct: its values lie together in the files, and readers would take those
    of one field for those of another.
    """
    packed = {field.id: field.name for field in before if is_packed(field)}
    if not packed:
        return
    for outer in packed.keys() & {field.id for field in after}:
        had, has = ([field.id for field in fields if field.parent_id == outer] for fields in (before, after))
        if had != has:
            raise InvalidInput(
                f"the values of {packed[outer]!r} are stored packed together, so its fields stay as they are",
                remedy="Add a column with the fields that you want, and drop this one as a whole.",
                field=outer,
            )


def _same_type(one: Field, other: Field) -> bool:
    return (one.logical_type, one.parent_id) == (other.logical_type, other.parent_id)


def _other_type(old: Field, new: Field) -> InvalidInput:
    return InvalidInput(
        f"field {old.id} is {old.name!r} of type {old.logical_type}, it cannot become {new.name!r} of type"
        f" {new.logical_type} over the same data",
        remedy="Write the column anew under a new field id.",
        field=old.id,
    )


def _used_before(field: Field) -> InvalidInput:
    return InvalidInput(
        f"the new field {field.name!r} has the id {field.id}, under which data files still hold a dropped column",
        remedy="Give it an id above all that the schema and the data files have.",
        field=field.id,
    )


def _nothing_left(schema: Schema, fragment: int) -> InvalidInput:
    names = ", ".join(repr(field.name) for field in schema if field.parent_id == -1)
    return InvalidInput(
        f"the rows of fragment {fragment} would be left without any value: they were never given one for {names}",
        remedy="Give one of these columns a value first (an update to NULL will do), or delete those rows.",
        fragment=fragment,
    )


def _no_values(fields: list[Field]) -> InvalidInput:
    names = ", ".join(repr(field.name) for field in fields)
    return InvalidInput(
        f"columns that must not be null have no values in some fragment: {names}",
        remedy="Add them as nullable ones, or commit a Merge whose fragments all have values for them.",
    )
