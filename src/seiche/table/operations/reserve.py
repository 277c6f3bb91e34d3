"""ReserveFragments: ids set aside for a Rewrite to come."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["ReserveFragments"]


@dataclass(frozen=True, slots=True)
class ReserveFragments(Values):
    """Raises the counter of fragment ids by `num_fragments`: the ids passed over belong to whoever reserved them."""

    name: ClassVar[str] = "ReserveFragments"
    field_name: ClassVar[str] = "reserve_fragments"

    num_fragments: int = 0

    def to_proto(self) -> pb.ReserveFragments:
        return with_unknown(pb.ReserveFragments(num_fragments=self.num_fragments), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.ReserveFragments) -> Self:
        return cls(message.num_fragments, unknown=unknown_fields(message))
