"""UpdateBases: further directories in which files of the table may live."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import BasePath
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.bases import add_bases
from seiche.table.operations.context import Build

__all__ = ["UpdateBases"]


@dataclass(frozen=True, slots=True)
class UpdateBases(Values):
    """Adds base paths; one whose id is 0 is given an id when the manifest is built."""

    name: ClassVar[str] = "UpdateBases"
    field_name: ClassVar[str] = "update_bases"

    new_bases: tuple[BasePath, ...] = ()

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        header = manifest.copy_header()
        add_bases(header, self.new_bases)
        return Manifest(header, manifest.fragments, manifest.index_section)

    def to_proto(self) -> pb.UpdateBases:
        return with_unknown(pb.UpdateBases(new_bases=self.new_bases), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.UpdateBases) -> Self:
        return cls(tuple(message.new_bases), unknown=unknown_fields(message))
