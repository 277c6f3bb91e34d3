"""Finding fields in the schema of a table, which is a list of fields depth first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from seiche.errors import NotFound
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field

__all__ = [
    "BLOB",
    "PACKED",
    "SYSTEM_COLUMNS",
    "children",
    "column_ids",
    "field_ids",
    "find",
    "find_all",
    "has_blobs",
    "is_packed",
    "max_field_id",
    "path_of",
]

# The type of columns of which large values are in files of their own.
BLOB: Final = "lance.blob.v2"

# Metadata, in the older and the newer spelling, of structs that are stored as one.
PACKED: Final = ("packed", "lance-encoding:packed")

# What every row has without a column of its own. Beside a column of that name, native code cannot read the table.
SYSTEM_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)


def has_blobs(fields: Iterable[Field]) -> bool:
    """Whether there is a column of blobs, at whatever depth."""
    return any(field.extension_name == BLOB for field in fields)


def is_packed(field: Field) -> bool:
    """Whether it is a struct whose values lie together in the files, and not each field's by themselves."""
    return any(field.metadata.get(key, b"").lower() == b"true" for key in PACKED)


def field_ids(fields: Iterable[Field]) -> set[int]:
    """All ids."""
    return {field.id for field in fields}


def max_field_id(manifest: Manifest) -> int:
    """The largest id that the schema or any data file has ever used, -1 if none: the next field gets one above it.

    Data files count, because a column that was dropped still has its values there: a new column under the old id would
    show them.
    """
    largest = max((field.id for field in manifest.header.fields), default=-1)
    for fragment in manifest.fragments:
        for file in fragment.files:
            largest = max(largest, *file.fields) if file.fields else largest
    if manifest.header.max_allocated_field_id:
        largest = max(largest, manifest.header.max_allocated_field_id)
    return largest


def column_ids(fields: Iterable[Field]) -> dict[str, int]:
    """The ids of the columns by their names, without the fields inside them."""
    return {field.name: field.id for field in fields if field.parent_id == -1}


def children(fields: Iterable[Field], parent: int) -> list[Field]:
    """The fields directly inside the one with the id `parent`."""
    return [field for field in fields if field.parent_id == parent]


def find(fields: Sequence[Field], path: str | Sequence[str]) -> Field:
    """The field at a path of names, as parts or with dots between them; `NotFound` if there is none.

    A name that has a dot itself goes in back quotes: ``a.`b.c` ``.
    """
    return find_all(fields, [path])[0]


def find_all(fields: Sequence[Field], paths: Iterable[str | Sequence[str]]) -> list[Field]:
    """The fields at these paths. All fields are looked at once, however many paths there are."""
    places: dict[tuple[int, str], Field] = {}
    for field in fields:
        places.setdefault((field.parent_id, field.name), field)
    return [_found(places, path) for path in paths]


def _found(places: Mapping[tuple[int, str], Field], path: str | Sequence[str]) -> Field:
    parts = _split(path) if isinstance(path, str) else list(path)
    parent, found = -1, None
    for part in parts:
        found = places.get((parent, part))
        if found is None:
            known = sorted(name for above, name in places if above == parent)
            raise NotFound(
                f"there is no column {path!r}: {part!r} is not among {known}",
                remedy="Names are case-sensitive; dots lead into structs, and a name with a dot goes in back quotes.",
                column=path,
            )
        parent = found.id
    if found is None:
        raise NotFound("an empty path names no column", remedy="Give the name of a column, as text.", column=path)
    return found


def path_of(fields: Sequence[Field], field_id: int) -> str:
    """The names from the column down to the field, with dots between them."""
    by_id = {field.id: field for field in fields}
    names: list[str] = []
    while field_id in by_id and len(names) <= len(by_id):
        field = by_id[field_id]
        names.append(f"`{field.name}`" if "." in field.name else field.name)
        field_id = field.parent_id
    return ".".join(reversed(names))


def _split(path: str) -> list[str]:
    parts, quoted = [""], False
    for char in path:
        if char == "`":
            quoted = not quoted
        elif char == "." and not quoted:
            parts.append("")
        else:
            parts[-1] += char
    return parts
