"""DataReplacement: columns of some fragments get a new file."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["DataReplacement", "DataReplacementGroup"]

DataReplacementGroup = pb.DataReplacement.Group


@dataclass(frozen=True, slots=True)
class DataReplacement(Values):
    """Puts one new file into each of the fragments named; it takes over its fields from the files that had them."""

    name: ClassVar[str] = "DataReplacement"
    field_name: ClassVar[str] = "data_replacement"

    replacements: tuple[DataReplacementGroup, ...] = ()

    def to_proto(self) -> pb.DataReplacement:
        return with_unknown(pb.DataReplacement(replacements=self.replacements), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.DataReplacement) -> Self:
        return cls(tuple(message.replacements), unknown=unknown_fields(message))
