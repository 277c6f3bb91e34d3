"""ReserveFragments: ids set aside for a Rewrite to come."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest import Manifest
from seiche.table.operations.base import Values, unknown_fields, with_unknown
from seiche.table.operations.context import Build
from seiche.table.operations.numbering import raise_max_fragment_id

__all__ = ["ReserveFragments"]


@dataclass(frozen=True, slots=True)
class ReserveFragments(Values):
    """Raises the counter of fragment ids by `num_fragments`: the ids passed over belong to whoever reserved them."""

    name: ClassVar[str] = "ReserveFragments"
    field_name: ClassVar[str] = "reserve_fragments"

    num_fragments: int = 0

    def apply(self, manifest: Manifest, build: Build) -> Manifest:
        header = manifest.copy_header()
        # The id 0 is never among the reserved ones: in a transaction it means that there is none yet.
        raise_max_fragment_id(header, max(manifest.max_fragment_id, 0) + self.num_fragments)
        return Manifest(header, manifest.fragments, manifest.index_section)

    def to_proto(self) -> pb.ReserveFragments:
        return with_unknown(pb.ReserveFragments(num_fragments=self.num_fragments), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.ReserveFragments) -> Self:
        return cls(message.num_fragments, unknown=unknown_fields(message))
