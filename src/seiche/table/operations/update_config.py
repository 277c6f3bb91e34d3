"""UpdateConfig: settings and metadata change, the data does not."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeVar

from seiche.errors import Corrupt, InvalidInput, RetryableConflict
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.fields import PACKED
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.context import Build

__all__ = ["UpdateConfig", "UpdateMap"]

V = TypeVar("V")

_OLD_FORM = ("upsert_values", "delete_keys", "schema_metadata", "field_metadata")

# Metadata of a field by which it is declared part of a key that nobody enforces.
_PRIMARY = "lance-schema:unenforced-primary-key"
_PRIMARY_POSITION = f"{_PRIMARY}:position"
_PRIMARY_KEY = frozenset({_PRIMARY, _PRIMARY_POSITION})
_CLUSTERING_POSITION = "lance-schema:unenforced-clustering-key:position"

# Metadata by which readers know how the values of a field lie in its files.
_LAYOUT = ("lance-encoding:blob", *PACKED)
_EXTENSION = "ARROW:extension:name"
# Names of extensions that mean another layout, or are refused for another type; others say nothing to readers.
_KNOWN = (b"lance.", b"arrow.")


@dataclass(frozen=True, slots=True)
class UpdateMap:
    """Changes to a map of strings: a key with a value is set, a key with `None` deleted.

    With `replace`, the entries are the whole new map.
    """

    entries: Mapping[str, str | None] = field(default_factory=dict)
    replace: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", dict(self.entries))

    def to_proto(self) -> pb.UpdateMap:
        entries = [pb.UpdateMap.Entry(key=key, value=value) for key, value in self.entries.items()]
        return pb.UpdateMap(entries=entries, replace=self.replace)

    @classmethod
    def from_proto(cls, message: pb.UpdateMap) -> Self:
        entries = {entry.key: entry.value if entry.HasField("value") else None for entry in message.entries}
        return cls(entries, message.replace)

    def change(self, values: MutableMapping[str, str]) -> None:
        """Make the changes to a map of strings."""
        self._change(values, str)

    def change_bytes(self, values: MutableMapping[str, bytes]) -> None:
        """Make the changes to a map whose values are stored as bytes."""
        self._change(values, str.encode)

    def _change(self, values: MutableMapping[str, V], stored: Callable[[str], V]) -> None:
        if self.replace:
            values.clear()
        for key, value in self.entries.items():
            if value is not None:
                values[key] = stored(value)
            elif key in values:
                del values[key]


@dataclass(frozen=True, slots=True)
class UpdateConfig(Values):
    """Changes the table's configuration, its metadata, that of the schema, and that of fields by their ids."""

    name: ClassVar[str] = "UpdateConfig"
    field_name: ClassVar[str] = "update_config"

    config_updates: UpdateMap | None = None
    table_metadata_updates: UpdateMap | None = None
    schema_metadata_updates: UpdateMap | None = None
    field_metadata_updates: Mapping[int, UpdateMap] = field(default_factory=dict)

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        header = manifest.copy_header()
        if self.config_updates is not None:
            self.config_updates.change(header.config)
        if self.table_metadata_updates is not None:
            self.table_metadata_updates.change(header.table_metadata)
        if self.schema_metadata_updates is not None:
            self.schema_metadata_updates.change_bytes(header.schema_metadata)
        fields = {field.id: field for field in header.fields}
        had_key = any(field.unenforced_primary_key for field in header.fields)
        for field_id, update in self.field_metadata_updates.items():
            if field_id not in fields:
                raise _unknown_field(field_id, manifest, build)
            if had_key and not _PRIMARY_KEY.isdisjoint(update.entries):
                key = ", ".join(repr(field.name) for field in header.fields if field.unenforced_primary_key)
                raise InvalidInput(
                    f"the table has a primary key, {key}, which cannot be changed any more",
                    remedy="Write the rows into a new table whose schema declares the other key.",
                    field=field_id,
                )
            before = dict(fields[field_id].metadata)
            update.change_bytes(fields[field_id].metadata)
            _read_keys(fields[field_id], update)
            if len(manifest.fragments):
                _check_layout(fields[field_id], before)
        return Manifest(header, manifest.fragments, manifest.index_section)

    def to_proto(self) -> pb.UpdateConfig:
        message = pb.UpdateConfig(
            config_updates=_encoded(self.config_updates),
            table_metadata_updates=_encoded(self.table_metadata_updates),
            schema_metadata_updates=_encoded(self.schema_metadata_updates),
            field_metadata_updates={key: update.to_proto() for key, update in self.field_metadata_updates.items()},
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.UpdateConfig) -> Self:
        if any(getattr(message, name) for name in _OLD_FORM):
            return cls._from_old_form(message)
        return cls(
            _decoded(message, "config_updates"),
            _decoded(message, "table_metadata_updates"),
            _decoded(message, "schema_metadata_updates"),
            {key: UpdateMap.from_proto(update) for key, update in message.field_metadata_updates.items()},
            unknown=unknown_fields(message),
        )

    @classmethod
    def _from_old_form(cls, message: pb.UpdateConfig) -> Self:
        """The form before UpdateMap: configuration was always changed key by key, metadata replaced as a whole."""
        new_form = (descriptor.name for descriptor, _ in message.ListFields() if descriptor.name not in _OLD_FORM)
        if mixed := sorted(new_form):
            raise Corrupt(
                f"an UpdateConfig has fields of the older form beside {', '.join(mixed)}",
                remedy=f"The writer must say it in one of the two; {', '.join(_OLD_FORM)} are the older one.",
            )
        config: dict[str, str | None] = {**message.upsert_values, **dict.fromkeys(message.delete_keys)}
        return cls(
            UpdateMap(config) if config else None,
            None,
            UpdateMap(dict(message.schema_metadata), replace=True) if message.schema_metadata else None,
            {key: UpdateMap(dict(old.metadata), replace=True) for key, old in message.field_metadata.items()},
            unknown=unknown_fields(message),
        )


def _encoded(update: UpdateMap | None) -> pb.UpdateMap | None:
    return None if update is None else update.to_proto()


def _decoded(message: pb.UpdateConfig, name: str) -> UpdateMap | None:
    return UpdateMap.from_proto(getattr(message, name)) if message.HasField(name) else None


def _unknown_field(field_id: int, manifest: Manifest, build: Build) -> InvalidInput | RetryableConflict:
    if any(field.id == field_id for field in build.schema_read(manifest)):
        return RetryableConflict(f"field {field_id} does not exist any more", fields=[field_id])
    return InvalidInput(
        f"there is no field {field_id}",
        remedy=f"The fields are {', '.join(f'{one.id} ({one.name})' for one in manifest.header.fields)}.",
        fields=[field_id],
    )


def _check_layout(field: Field, before: Mapping[str, bytes]) -> None:
    """Refuse metadata under which the values that are stored would be taken for something else, or for nulls."""
    after = field.metadata
    other = [key for key in _LAYOUT if before.get(key) != after.get(key)]
    names = before.get(_EXTENSION, b""), after.get(_EXTENSION, b"")
    if names[0] != names[1] and any(name.startswith(_KNOWN) for name in names):
        other.append(_EXTENSION)
    if other:
        raise InvalidInput(
            f"{', '.join(other)} of field {field.name!r} says how its values are stored, and they are already",
            remedy="Add a column that has the metadata from the beginning, fill it, and drop this one; with"
            " `replace`, give what the field has of it, too.",
            field=field.id,
            keys=other,
        )


def _read_keys(field: Field, update: UpdateMap) -> None:
    """Bring the marks of a field in line with the metadata keys that stand for them; readers look at both."""
    if not update.replace and (_PRIMARY_KEY | {_CLUSTERING_POSITION}).isdisjoint(update.entries):
        return
    marked = field.metadata.get(_PRIMARY, b"").lower() in {b"true", b"1", b"yes", b"on"}
    position = field.metadata.get(_PRIMARY_POSITION, b"")
    field.unenforced_primary_key = marked or position.isdigit()
    field.unenforced_primary_key_position = int(position) if position.isdigit() else 0
    cluster = field.metadata.get(_CLUSTERING_POSITION, b"")
    field.unenforced_clustering_key = cluster.isdigit()
    field.unenforced_clustering_key_position = int(cluster) if cluster.isdigit() else 0
