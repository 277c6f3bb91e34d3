"""UpdateConfig: settings and metadata change, the data does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.errors import Corrupt
from seiche.table.format import transaction_pb2 as pb
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["UpdateConfig", "UpdateMap"]

_OLD_FORM = ("upsert_values", "delete_keys", "schema_metadata", "field_metadata")


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


@dataclass(frozen=True, slots=True)
class UpdateConfig(Values):
    """Changes the table's configuration, its metadata, that of the schema, and that of fields by their ids."""

    name: ClassVar[str] = "UpdateConfig"
    field_name: ClassVar[str] = "update_config"

    config_updates: UpdateMap | None = None
    table_metadata_updates: UpdateMap | None = None
    schema_metadata_updates: UpdateMap | None = None
    field_metadata_updates: Mapping[int, UpdateMap] = field(default_factory=dict)

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
            raise Corrupt(f"an UpdateConfig has fields of the older form beside {', '.join(mixed)}")
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
