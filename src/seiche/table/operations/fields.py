"""Fields of a schema: how they hang together, and whether data written for one schema fits another."""

from collections.abc import Iterable, Mapping, Sequence

from seiche.errors import InvalidInput, RetryableConflict
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.operations.context import Build, Schema
from seiche.table.operations.files import check_apart, check_files
from seiche.table.operations.readable import check_readable

__all__ = ["check_fit", "check_same_meaning", "check_schema", "missing_fields", "related"]


def check_schema(schema: Schema, before: Schema) -> None:
    """Refuse a schema that no reader could make sense of: `InvalidInput`. `before` is what the table has."""
    seen: set[int] = set()
    names: set[tuple[int, str]] = set()
    for field in schema:
        if field.id < 0 or field.id in seen:
            raise InvalidInput(
                f"field {field.name!r} has the id {field.id}, which is negative or taken",
                remedy="Number fields from 0 on, each once; a new one gets the next above all that ever were.",
                field=field.id,
            )
        if field.parent_id != -1 and field.parent_id not in seen:
            raise InvalidInput(
                f"field {field.name!r} comes before its parent {field.parent_id}, or that is missing",
                remedy="List fields depth first, parents before their children.",
                field=field.id,
            )
        if not field.name and field.parent_id == -1:
            raise InvalidInput(
                f"column {field.id} has no name, and could not be read by any", remedy="Give it one.", field=field.id
            )
        if (field.parent_id, field.name) in names:
            raise InvalidInput(
                f"two columns, or two fields of one column, are named {field.name!r}",
                remedy="Give each a name of its own.",
                field=field.id,
            )
        seen.add(field.id)
        names.add((field.parent_id, field.name))
    check_readable(schema, before)


def related(schema: Schema, ids: Iterable[int]) -> set[int]:
    """These fields, all that are inside them and all that they are inside of: whatever a change of them touches."""
    touched = set(ids)
    return _inside(schema, touched) | _around(schema, touched)


def check_fit(fragments: Iterable[DataFragment], manifest: Manifest, build: Build) -> None:
    """New data must be readable, and mean today what it meant when it was written.

    A field id that stands for another name or type by now is a `RetryableConflict`: ids are reused after a rewrite, so
    the values would appear in a column they were not written for. So is a column that became mandatory and that the
    data lacks. A column that was merely dropped does no harm. Data that never fitted is `InvalidInput`.
    """
    header = manifest.header
    now: Schema = header.fields
    then = now if build.read_schema is None else build.schema_read(manifest)
    changed = then is not now and then != now
    known, mandatory = manifest.field_ids
    if changed:
        known = frozenset(field.id for field in then)
    for fragment in fragments:
        present = check_files(fragment, header)
        check_apart(fragment, present)
        if not present <= known:
            raise InvalidInput(
                f"new data has the fields {sorted(present - known)}, which the schema it was written for does not have",
                remedy=f"That has {sorted(known)}. Write the data for this table, or add the columns to it first.",
                fields=sorted(present - known),
            )
        if changed:
            check_same_meaning(present, then, now)
        if not mandatory <= present and (missing := missing_fields(present, now)):
            raise _lacking(missing, then, changed=changed)


def missing_fields(present: set[int], schema: Schema) -> list[Field]:
    """Fields that must have values, and of which data with the columns `present` has nothing."""
    missing = [field for field in schema if not field.nullable and field.id not in present]
    if not missing:
        return []
    # Data has a nested field if it has anything inside it, or one column for all of an outer field. What is inside of
    # something absent is not missing: it is null with it, and whether that is allowed is asked of the outer field.
    covered = _inside(schema, present) | _around(schema, present) | {-1}
    return [field for field in missing if field.id not in covered and field.parent_id in covered]


def check_same_meaning(ids: Iterable[int], then: Schema, now: Schema, *, values: bool = True) -> None:
    """`RetryableConflict` unless each field that still exists has the same name, type and place as before.

    With `values`, new ones are about to come, and so it must not have become mandatory either.
    """
    before, after = _by_id(then), _by_id(now)
    for one in sorted(_inside(then, ids)):
        old, new = before.get(one), after.get(one)
        while old is not None and new is not None:
            if (old.name, old.logical_type, old.parent_id) != (new.name, new.logical_type, new.parent_id):
                raise RetryableConflict(
                    f"field {one} was {_described(old)} when the data was written, and is {_described(new)} now.",
                    fields=[one],
                )
            if values and old.nullable and not new.nullable:
                raise RetryableConflict(
                    f"field {one}, {_described(new)}, must not be null any more, and the data may have nulls in it.",
                    fields=[one],
                )
            old, new = before.get(old.parent_id), after.get(new.parent_id)


def _inside(schema: Schema, ids: Iterable[int]) -> set[int]:
    """These fields and all that are inside them."""
    inside = set(ids)
    for field in schema:
        if field.parent_id in inside:  # parents come first, so this reaches any depth
            inside.add(field.id)
    return inside


def _around(schema: Schema, ids: Iterable[int]) -> set[int]:
    """These fields and all that they are inside of."""
    parents = {field.id: field.parent_id for field in schema}
    around = set(ids)
    for one in tuple(around):
        parent = parents.get(one, -1)
        while parent != -1 and parent not in around:
            around.add(parent)
            parent = parents.get(parent, -1)
    return around


def _lacking(missing: Sequence[Field], then: Schema, *, changed: bool) -> InvalidInput | RetryableConflict:
    names = ", ".join(repr(field.name) for field in missing)
    ids = [field.id for field in missing]
    mandatory_before = {field.id for field in then if not field.nullable}
    if changed and not mandatory_before.issuperset(ids):
        return RetryableConflict(
            f"the table has got columns that must not be null, and new data lacks {names}.", fields=ids
        )
    return InvalidInput(
        f"new data lacks columns that must not be null: {names}",
        remedy="Give values for them, or allow nulls: `alter_columns({'path': ..., 'nullable': True})`.",
        fields=ids,
    )


def _by_id(schema: Schema) -> Mapping[int, Field]:
    return {field.id: field for field in schema}


def _described(field: Field) -> str:
    return f"{field.name!r} of type {field.logical_type}"
