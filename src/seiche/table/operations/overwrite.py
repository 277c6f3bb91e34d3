"""Overwrite: other rows under another schema. Also what creates a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import BasePath, DataFragment, Field
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["Overwrite"]


@dataclass(frozen=True, slots=True)
class Overwrite(Values):
    """Replaces schema, schema metadata and all fragments; their ids are given when the manifest is built.

    The table's configuration and metadata stay, with `config_upsert_values` laid over the configuration.
    """

    name: ClassVar[str] = "Overwrite"
    field_name: ClassVar[str] = "overwrite"

    fragments: tuple[DataFragment, ...] = ()
    schema: tuple[Field, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    config_upsert_values: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()

    def to_proto(self) -> pb.Overwrite:
        message = pb.Overwrite(
            fragments=self.fragments,
            schema=self.schema,
            schema_metadata=self.schema_metadata,
            config_upsert_values=self.config_upsert_values,
            initial_bases=self.initial_bases,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Overwrite) -> Self:
        return cls(
            tuple(message.fragments),
            tuple(message.schema),
            dict(message.schema_metadata),
            dict(message.config_upsert_values),
            tuple(message.initial_bases),
            unknown=unknown_fields(message),
        )
