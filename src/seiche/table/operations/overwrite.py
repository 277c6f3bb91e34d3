"""Overwrite: other rows under another schema. Also what creates a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import BasePath, DataFragment, Field
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.bases import add_bases
from seiche.table.operations.context import Build
from seiche.table.operations.fields import check_fit, check_schema
from seiche.table.operations.files import written_version
from seiche.table.operations.numbering import add_new

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

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        check_schema(self.schema, manifest.header.fields)
        header = manifest.copy_header()
        del header.fields[:]
        header.fields.extend(self.schema)
        header.schema_metadata.clear()
        header.schema_metadata.update(self.schema_metadata)
        header.config.update(self.config_upsert_values)
        add_bases(header, self.initial_bases)
        if self.fragments:
            # Nothing of the old data stays, so the new data decides in which version of the format the table goes on.
            header.data_format.version = written_version(self.fragments) or header.data_format.version
        check_fit(self.fragments, Manifest(header, Fragments()), Build(build.version))
        new = add_new(self.fragments, header, manifest, build.version)
        return Manifest(header, Fragments(new))

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
