"""CreateIndex: index segments come, and others go."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import IndexMetadata
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["CreateIndex"]


@dataclass(frozen=True, slots=True)
class CreateIndex(Values):
    """Removes index segments by their ids and adds new ones. With nothing new, it drops an index."""

    name: ClassVar[str] = "CreateIndex"
    field_name: ClassVar[str] = "create_index"

    new_indices: tuple[IndexMetadata, ...] = ()
    removed_indices: tuple[IndexMetadata, ...] = ()

    def to_proto(self) -> pb.CreateIndex:
        message = pb.CreateIndex(new_indices=self.new_indices, removed_indices=self.removed_indices)
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.CreateIndex) -> Self:
        return cls(tuple(message.new_indices), tuple(message.removed_indices), unknown=unknown_fields(message))
