"""Altering columns: their names and whether they may be null by schema alone, their types by writing them anew."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from seiche.errors import InvalidInput
from seiche.table.change import Change
from seiche.table.data.columns.add import merged, new_fields
from seiche.table.data.columns.new_files import NewFiles, Part, require_columns_apart, values_key
from seiche.table.data.columns.sources import scanned
from seiche.table.data.conform import check_nulls, founded, without_extension
from seiche.table.data.fitting import left_out
from seiche.table.data.json_texts import check_json
from seiche.table.data.scanning import quoted, scanner
from seiche.table.data.values import check_kept, spelled
from seiche.table.format.deletions import rows_left
from seiche.table.format.fields import path_of
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.format.schema import to_arrow
from seiche.table.operations import Project
from seiche.table.operations.fields import related
from seiche.table.preparing.fields import all_named
from seiche.table.preparing.schema import check_name, indices_on, renamed
from seiche.table.snapshot import Snapshot

__all__ = ["Alteration", "Altering"]

_MEMBERS = ("path", "name", "nullable", "data_type")
_EXTENSION = b"ARROW:extension:"


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to become of one column; `None` where it stays."""

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Alteration":
        """From a mapping as pylance takes it."""
        members: object = given
        if not isinstance(members, Mapping) or "path" not in members:
            raise InvalidInput(
                f"an alteration must say which column it is about, as `path`: {given!r}",
                remedy="For instance {'path': 'price', 'name': 'cost'}; `nullable` and `data_type` can be given too.",
            )
        if unknown := sorted(set(members) - set(_MEMBERS)):
            raise InvalidInput(
                f"a column has no {unknown[0]!r} to alter",
                remedy=f"Give {', '.join(_MEMBERS[1:])}.",
                column=given["path"],
            )
        made = cls(**given)
        if made.name is not None:
            check_name(made.name)
        if made.nullable not in (None, True, False) or not isinstance(made.data_type, pa.DataType | None):
            raise InvalidInput(
                f"column {made.path!r} cannot be altered so: {given!r}",
                remedy="`nullable` is true or false, `data_type` an Arrow type.",
                column=made.path,
            )
        return made


class Altering:
    """Prepares other names, types or nullability. Casts write new files, and drop the indices of their columns."""

    def __init__(self, alterations: Sequence[Alteration]) -> None:
        self._alterations = alterations
        self._files = NewFiles()

    def forget(self) -> None:
        """Cast anew."""
        self._files = NewFiles()

    def __call__(self, snapshot: Snapshot) -> Change | None:
        fields = snapshot.manifest.header.fields
        found = all_named(fields, [one.path for one in self._alterations])
        wanted = {field.id: one for field, one in zip(found, self._alterations, strict=True)}
        if len(wanted) < len(self._alterations):
            paths = [one.path for one in self._alterations]
            raise InvalidInput(
                f"a column is altered twice: {', '.join(paths)}",
                remedy="Say all of it in one alteration: {'path': ..., 'name': ..., 'data_type': ...}.",
                columns=paths,
            )
        casts = {field.id: wanted[field.id] for field in fields if _is_cast(field, wanted.get(field.id), snapshot)}
        tightened = [field for field in fields if field.nullable and _nullable(wanted, field) is False]
        for field in tightened:
            _require_no_nulls(snapshot, field)
        schema = _altered(fields, wanted)
        if not casts:
            same = list(schema) == list(fields)
            return None if same else Change(Project(schema, preserves_nullability=not tightened))
        return self._cast(snapshot, schema, casts, preserves_nullability=not tightened)

    def _cast(
        self,
        snapshot: Snapshot,
        schema: Sequence[Field],
        casts: Mapping[int, Alteration],
        *,
        preserves_nullability: bool,
    ) -> Change:
        """Write the columns under their new types and ids, and put these in place of the old ones."""
        manifest = snapshot.manifest
        require_columns_apart(manifest.header)
        self._files.depend_on(manifest.header.fields)
        old = {field.id: field.name for field in manifest.header.fields if field.id in casts}
        columns = [_new_column(snapshot, old[one.id], one, casts[one.id]) for one in schema if one.id in casts]
        fields = new_fields(pa.schema(columns), manifest)
        # As the table will have them: of a vector, for example, Lance does not know that no item may be null.
        new_schema = to_arrow(fields)

        def values(fragment: DataFragment) -> Iterator[Part]:
            read = {name: quoted(name) for name in old.values()}
            for offsets, arrays in scanned(snapshot, fragment, read, "the cast"):
                yield offsets, [_converted(one, field) for one, field in zip(arrays, new_schema, strict=True)]

        fragments = manifest.fragments.decoded()
        files = self._files.write(snapshot, fragments, fields, new_schema, values, values_key, parallel=True)
        operation = merged(manifest, files, _in_place(schema, fields, casts), nullable=preserves_nullability)
        written = [file for each in files.values() for file in each]
        notes: dict[str, object] = {"cast": ", ".join(old.values())}
        if indices := indices_on(related(manifest.header.fields, casts), manifest):
            notes["indices_dropped"] = indices
        return Change(
            operation,
            rows=sum(map(rows_left, fragments)),
            files=len(written),
            bytes=sum(file.file_size_bytes for file in written),
            notes=notes,
        )


def _is_cast(field: Field, alteration: Alteration | None, snapshot: Snapshot) -> bool:
    if alteration is None or alteration.data_type is None:
        return False
    if field.parent_id != -1:
        raise InvalidInput(
            f"{alteration.path!r} is inside of a column, and only whole columns can be cast",
            remedy="Add a column with the values as they shall be, and drop the old one.",
            column=alteration.path,
        )
    now = snapshot.schema.field(field.name).type
    if now == alteration.data_type:
        return False
    if lost := left_out(now, alteration.data_type):
        raise InvalidInput(
            f"column {field.name!r} of type {now} cannot become {alteration.data_type}, which has no {lost!r}",
            remedy="Rename or drop fields by their paths, with `rename_columns` and `drop_columns`.",
            column=field.name,
        )
    try:
        spelled(without_extension(pa.array([], now)), alteration.data_type).cast(alteration.data_type)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"column {field.name!r} of type {now} cannot become {alteration.data_type}: {error}",
            remedy="Add a column of that type, computed by SQL or by a function, and drop this one.",
            column=field.name,
        ) from error
    return True


def _nullable(wanted: Mapping[int, Alteration], field: Field) -> bool | None:
    return wanted[field.id].nullable if field.id in wanted else None


def _altered(fields: Sequence[Field], wanted: Mapping[int, Alteration]) -> tuple[Field, ...]:
    """The fields under their new names, and null or not as wanted; types are not looked at."""
    made = []
    for field in renamed(fields, {one: alteration.name for one, alteration in wanted.items() if alteration.name}):
        nullable = _nullable(wanted, field)
        if nullable is None or nullable == field.nullable:
            made.append(field)
        else:
            copy = Field()
            copy.CopyFrom(field)
            copy.nullable = nullable
            made.append(copy)
    return tuple(made)


def _require_no_nulls(snapshot: Snapshot, field: Field) -> None:
    """`InvalidInput` if there is a null where none may be any more. What is inside of a null struct does not count."""
    fields = {one.id: one for one in snapshot.manifest.header.fields}
    names, above = [field.name], field.parent_id
    while above != -1:
        names.insert(0, fields[above].name)
        above = fields[above].parent_id
    path = [quoted(name) for name in names]
    present = [f"{'.'.join(path[:depth])} IS NOT NULL" for depth in range(1, len(path))]
    where = " AND ".join([*present, f"{'.'.join(path)} IS NULL"])
    found = scanner(snapshot.dataset, columns=[], where=where, what="the search for nulls", with_row_id=True, limit=1)
    if found.to_table().num_rows:
        column = path_of(snapshot.manifest.header.fields, field.id)
        raise InvalidInput(
            f"column {column!r} has nulls, so it cannot be made to have none",
            remedy="Give these rows a value first.",
            column=column,
        )


def _new_column(snapshot: Snapshot, name: str, field: Field, alteration: Alteration) -> pa.Field:
    old = snapshot.schema.field(name)
    metadata = {key: value for key, value in (old.metadata or {}).items() if not key.startswith(_EXTENSION)}
    return pa.field(field.name, alteration.data_type, nullable=field.nullable, metadata=metadata or None)


def _converted(values: pa.Array, field: pa.Field) -> pa.Array:
    try:
        given = founded(without_extension(values))
        made = spelled(given, field.type).cast(field.type)
        check_kept(given, made, counted=True)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(
            f"values of column {field.name!r} do not fit the type {field.type}: {error}",
            remedy="Change these values first, or choose a type that holds them.",
            column=field.name,
        ) from error
    check_json(made, field.name)
    check_nulls(made, field)
    return made


def _in_place(schema: Sequence[Field], new: Sequence[Field], casts: Mapping[int, Alteration]) -> list[Field]:
    """The schema with the new fields where the columns were that they replace."""
    by_column: list[list[Field]] = []
    for field in new:
        if field.parent_id == -1:
            by_column.append([])
        by_column[-1].append(field)
    made: list[Field] = []
    gone = set(casts)
    replacements = iter(by_column)
    for field in schema:
        if field.id in casts:
            made += next(replacements)
        elif field.parent_id in gone:
            gone.add(field.id)
        else:
            made.append(field)
    return made
