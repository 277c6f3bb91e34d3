"""What an operation touches: fragments, fields, keys, base paths. Conflicts are where two footprints meet."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from seiche.table.format.index_details import FRAGMENT_REUSE, SINGLETONS
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import BasePath, DataFragment, Field, IndexMetadata
from seiche.table.operations import (
    REWRITE_COLUMNS,
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Project,
    Rewrite,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
)
from seiche.table.operations.files import changed_fields

__all__ = [
    "KeySet",
    "bases",
    "cells",
    "changes_schema_metadata",
    "data_fields",
    "drops",
    "fragments",
    "keys",
    "new_fragments",
    "of_name",
    "ordinary",
    "path_of",
    "removed_fragments",
    "required",
    "rewritten_fields",
    "schema",
    "updated_fragments",
]


def fragments(operation: Operation) -> frozenset[int]:
    """The ids of existing fragments that the operation changes or takes away."""
    match operation:
        case Append():
            return frozenset()
        case Delete() | Update():
            return frozenset(one.id for one in operation.updated_fragments) | removed_fragments(operation)
        case Rewrite():
            return frozenset(old.id for group in operation.groups for old in group.old_fragments)
        case DataReplacement():
            return frozenset(one.fragment_id for one in operation.replacements)
        case Merge():
            return frozenset(one.id for one in operation.fragments)
    return frozenset()


def removed_fragments(operation: Operation) -> frozenset[int]:
    """The ids of fragments that a Delete or Update leaves no row of."""
    match operation:
        case Delete():
            return frozenset(operation.deleted_fragment_ids)
        case Update():
            return frozenset(operation.removed_fragment_ids)
    return frozenset()


def updated_fragments(operation: Operation) -> dict[int, DataFragment]:
    """The fragments that a Delete or Update changes, as they shall be."""
    return {one.id: one for one in operation.updated_fragments} if isinstance(operation, Delete | Update) else {}


def new_fragments(operation: Operation) -> tuple[DataFragment, ...]:
    """The fragments with rows that were not in the table, or not with these values."""
    match operation:
        case Append():
            return operation.fragments
        case Update():
            return operation.new_fragments
    return ()


def data_fields(operation: Operation) -> frozenset[int]:
    """The fields that a DataReplacement, or an Update in columns mode, says it gives other values in fragments that
    stay.
    """
    match operation:
        case DataReplacement():
            return frozenset(one for group in operation.replacements for one in group.new_file.fields if one >= 0)
        case Update():
            return frozenset(operation.fields_modified)
    return frozenset()


def rewritten_fields(operation: Operation, before: Manifest) -> frozenset[int]:
    """`data_fields`, and those that an Update does not name, though it has them read from other files than `before`.

    Of a fragment that `before` does not have that cannot be seen; an Update in columns mode that names no field may
    have written any.
    """
    said = data_fields(operation)
    seen: set[int] = set()
    for one in updated_fragments(operation).values():
        read = before.fragments.get(one.id)
        if read is not None:
            seen |= changed_fields(read, one)
        elif isinstance(operation, Update) and operation.update_mode == REWRITE_COLUMNS and not said:
            seen |= {field.id for field in before.header.fields}
    return said | seen


def schema(operation: Operation) -> tuple[Field, ...]:
    """The schema that a Project or Merge leaves behind."""
    return operation.schema if isinstance(operation, Project | Merge) else ()


def bases(operation: Operation) -> tuple[BasePath, ...]:
    """The base paths that the operation adds."""
    match operation:
        case UpdateBases():
            return operation.new_bases
        case Overwrite():
            return operation.initial_bases
    return ()


def ordinary(indices: Iterable[IndexMetadata]) -> tuple[IndexMetadata, ...]:
    """The indices on columns."""
    return tuple(one for one in indices if one.name not in SINGLETONS)


def of_name(operation: Operation, name: str) -> IndexMetadata | None:
    """The entry under this name that a CreateIndex writes; for a Rewrite, its fragment-reuse index."""
    if isinstance(operation, Rewrite):
        return operation.frag_reuse_index if name == FRAGMENT_REUSE else None
    if not isinstance(operation, CreateIndex):
        return None
    return next((one for one in operation.new_indices if one.name == name), None)


def drops(operation: Operation, name: str) -> bool:
    """Whether a CreateIndex removes the index of this name and puts nothing in its place."""
    removed = operation.removed_indices if isinstance(operation, CreateIndex) else ()
    return any(one.name == name for one in removed) and of_name(operation, name) is None


@dataclass(frozen=True, slots=True)
class KeySet:
    """Keys of string maps that an operation sets or deletes: those named, and all of maps replaced as a whole."""

    named: frozenset[tuple[str, str]] = frozenset()
    whole: frozenset[str] = field(default_factory=frozenset)

    def __and__(self, other: "KeySet") -> frozenset[str]:
        """What both change, as `map.key`; `map.*` where a map that one of them changes is replaced by the other."""
        shared = {f"{place}.{key}" for place, key in self.named & other.named}
        for one, two in ((self, other), (other, self)):
            touched = {place for place, _ in two.named} | two.whole
            shared |= {f"{place}.*" for place in one.whole & touched}
        return frozenset(shared)


def keys(operation: Operation) -> KeySet:
    """The keys of configuration and metadata that an UpdateConfig or Overwrite changes."""
    if isinstance(operation, Overwrite):
        return KeySet(frozenset(("config", key) for key in operation.config_upsert_values))
    if not isinstance(operation, UpdateConfig):
        return KeySet()
    maps = dict(_maps(operation))
    return KeySet(
        frozenset((place, key) for place, update in maps.items() for key in update.entries),
        frozenset(place for place, update in maps.items() if update.replace),
    )


def changes_schema_metadata(operation: Operation) -> bool:
    """Whether an UpdateConfig changes metadata of the schema or of fields."""
    if not isinstance(operation, UpdateConfig):
        return False
    places = dict(_maps(operation))
    return any(update.entries or update.replace for place, update in places.items() if place.startswith(_SCHEMA_PLACES))


_SCHEMA_PLACES = ("schema metadata", "field ")


def _maps(operation: UpdateConfig) -> Iterator[tuple[str, UpdateMap]]:
    if operation.config_updates is not None:
        yield "config", operation.config_updates
    if operation.table_metadata_updates is not None:
        yield "table metadata", operation.table_metadata_updates
    if operation.schema_metadata_updates is not None:
        yield "schema metadata", operation.schema_metadata_updates
    for field_id, update in operation.field_metadata_updates.items():
        yield f"field {field_id}", update


def path_of(field_id: int, fields: Mapping[int, Field]) -> tuple[str, ...]:
    """The names that lead to a field from the top of the schema."""
    path: list[str] = []
    while (one := fields.get(field_id)) is not None and len(path) < len(fields):
        path.append(one.name)
        field_id = one.parent_id
    return tuple(reversed(path))


def required(before: Mapping[int, Field], after: Mapping[int, Field]) -> frozenset[int]:
    """The fields of `after` that files made under `before` may lack a value for, though they must have one.

    They are not nullable, and were nullable or not there before. A new field inside a new struct that may itself be
    null is none of them: the struct is null in those files.
    """
    return frozenset(
        one.id
        for one in after.values()
        if not one.nullable
        and (before[one.id].nullable if one.id in before else not _in_new_nullable(one, before, after))
    )


def _in_new_nullable(field: Field, before: Mapping[int, Field], after: Mapping[int, Field]) -> bool:
    for _ in after:
        parent = after.get(field.parent_id)
        if parent is None or parent.id in before:
            return False
        if parent.nullable:
            return True
        field = parent
    return False


def cells(operation: Operation) -> frozenset[tuple[int, int]]:
    """The columns that it replaces, as fragments and fields."""
    groups = operation.replacements if isinstance(operation, DataReplacement) else ()
    return frozenset((one.fragment_id, field_id) for one in groups for field_id in one.new_file.fields if field_id >= 0)
