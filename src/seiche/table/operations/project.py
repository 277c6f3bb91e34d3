"""Project: another schema over the same files. Dropping and renaming columns are this."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import Field
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.columns import check_new_schema, without_dead_files
from seiche.table.operations.context import Build
from seiche.table.operations.coverage import on_fields_of

__all__ = ["Project"]


@dataclass(frozen=True, slots=True)
class Project(Values):
    """Replaces the schema; no data file is touched, the columns left out stay in them."""

    name: ClassVar[str] = "Project"
    field_name: ClassVar[str] = "project"

    schema: tuple[Field, ...] = ()
    # A promise of the writer: no column became non-nullable, so rows that others append meanwhile still fit.
    preserves_nullability: bool = False

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        check_new_schema(self.schema, manifest)
        header = manifest.copy_header()
        del header.fields[:]
        header.fields.extend(self.schema)
        fragments = without_dead_files(manifest.fragments, manifest.header.fields, self.schema)
        return Manifest(header, fragments, on_fields_of(manifest.indices, self.schema))

    def to_proto(self) -> pb.Project:
        message = pb.Project(schema=self.schema, preserves_nullability=self.preserves_nullability)
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Project) -> Self:
        return cls(tuple(message.schema), message.preserves_nullability, unknown=unknown_fields(message))
