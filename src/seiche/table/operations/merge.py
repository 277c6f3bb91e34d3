"""Merge: the fragments and the schema as they shall be, all of them. Adding and casting columns are this."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import DataFragment, Field
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["Merge"]


@dataclass(frozen=True, slots=True)
class Merge(Values):
    """Replaces the whole list of fragments, whose ids must exist, and the schema."""

    name: ClassVar[str] = "Merge"
    field_name: ClassVar[str] = "merge"

    fragments: tuple[DataFragment, ...] = ()
    schema: tuple[Field, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    # A promise of the writer: no column became non-nullable, so rows that others append meanwhile still fit.
    preserves_nullability: bool = False

    def to_proto(self) -> pb.Merge:
        message = pb.Merge(
            fragments=self.fragments,
            schema=self.schema,
            schema_metadata=self.schema_metadata,
            preserves_nullability=self.preserves_nullability,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Merge) -> Self:
        return cls(
            tuple(message.fragments),
            tuple(message.schema),
            dict(message.schema_metadata),
            message.preserves_nullability,
            unknown=unknown_fields(message),
        )
