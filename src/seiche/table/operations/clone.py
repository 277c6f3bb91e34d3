"""Clone: a new table, or a branch, that begins as a copy of another."""

from dataclasses import dataclass
from typing import ClassVar, Self

from seiche.table.format import transaction_pb2 as pb
from seiche.table.operations.base import Values, unknown_fields, with_unknown

__all__ = ["Clone"]


@dataclass(frozen=True, slots=True)
class Clone(Values):
    """The first version of a new root, made of version `ref_version` of the table at `ref_path`.

    Shallow: its files stay where they are and are referred to. Deep: they have been copied to the new root before.
    """

    name: ClassVar[str] = "Clone"
    field_name: ClassVar[str] = "clone"

    is_shallow: bool = True
    # The branch or tag of the source by which it was named.
    ref_name: str | None = None
    ref_version: int = 0
    ref_path: str = ""
    # Set when the new root is a branch of the source.
    branch_name: str | None = None

    def to_proto(self) -> pb.Clone:
        message = pb.Clone(
            is_shallow=self.is_shallow,
            ref_name=self.ref_name,
            ref_version=self.ref_version,
            ref_path=self.ref_path,
            branch_name=self.branch_name,
        )
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Clone) -> Self:
        return cls(
            message.is_shallow,
            message.ref_name if message.HasField("ref_name") else None,
            message.ref_version,
            message.ref_path,
            message.branch_name if message.HasField("branch_name") else None,
            unknown=unknown_fields(message),
        )
