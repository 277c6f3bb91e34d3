"""Restore: an earlier version again, as a new one."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["Restore"]


@dataclass(frozen=True, slots=True)
class Restore(Values):
    """Makes the table what it was at `version`: rows, schema, indices and configuration. The counters stay ahead."""

    name: ClassVar[str] = "Restore"
    field_name: ClassVar[str] = "restore"

    version: int = 0

    def to_proto(self) -> pb.Restore:
        return with_unknown(pb.Restore(version=self.version), self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Restore) -> Self:
        return cls(message.version, unknown=unknown_fields(message))
