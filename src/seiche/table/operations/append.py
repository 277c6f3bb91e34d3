"""Append: new rows, and nothing else changes."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.context import Build
from seiche.table.operations.fields import check_fit
from seiche.table.operations.numbering import add_new

__all__ = ["Append"]


@dataclass(frozen=True, slots=True)
class Append(Values):
    """Adds fragments. Their ids are given when the manifest is built; what stands in `id` is ignored."""

    name: ClassVar[str] = "Append"
    field_name: ClassVar[str] = "append"

    fragments: tuple[DataFragment, ...] = ()

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        check_fit(self.fragments, manifest, build)
        header = manifest.copy_header()
        new = add_new(self.fragments, header, manifest, build.version)
        extended = manifest.fragments.extended(new)
        return Manifest(header, extended, manifest.index_section, field_ids=manifest.field_ids)

    def to_proto(self) -> pb.Append:
        return with_unknown(pb.Append(fragments=self.fragments), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Append) -> Self:
        return cls(tuple(message.fragments), unknown=unknown_fields(message))
