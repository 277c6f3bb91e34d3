"""A transaction: an operation, and the version that it was made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from seiche.errors import Corrupt, InvalidInput
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.transactions import UnknownOperation, set_unknown_operation, unknown_operation
from seiche.table.operations import OPERATIONS, Opaque, Operation
from seiche.table.operations.base import unknown_fields, with_unknown
from seiche.table.operations.wire import without_field

__all__ = ["Transaction", "plain_operation"]

_BY_FIELD = {operation.field_name: operation for operation in OPERATIONS}


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one commit does, as it is stored beside the table and inside the manifest that it makes.

    Reading and writing one loses nothing, also when a newer writer made it.
    """

    read_version: int
    uuid: str
    operation: Operation
    tag: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    # Encoded fields of the message that our schema does not have, apart from an opaque operation.
    unknown: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", dict(self.properties))

    @property
    def file_name(self) -> str:
        """The name of the transaction's file in `_transactions/`."""
        return f"{self.read_version}-{self.uuid}.txn"

    def to_proto(self) -> pb.Transaction:
        operation = self.operation
        members: dict[str, Any] = {"read_version": self.read_version, "uuid": self.uuid, "tag": self.tag}
        if self.properties:
            members["properties"] = self.properties
        if isinstance(operation, Opaque):
            message = pb.Transaction(**members)
            set_unknown_operation(message, UnknownOperation(operation.field_number, operation.raw))
        else:
            members[operation.field_name] = operation.to_proto()
            message = pb.Transaction(**members)
        return with_unknown(message, self.unknown)

    @classmethod
    def from_proto(cls, message: pb.Transaction) -> Self:
        """`Corrupt` if there is no operation in it at all."""
        operation, unknown = _operation(message)
        return cls(message.read_version, message.uuid, operation, message.tag, dict(message.properties), unknown)

    def encode(self) -> bytes:
        """The bytes to store. Equal transactions have equal bytes, so an unanswered put can be repeated.

        `InvalidInput` if the operation was made of what the format cannot hold, such as a negative number.
        """
        try:
            return self.to_proto().SerializeToString(deterministic=True)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"the {self.operation.name} cannot be written down: {error}",
                remedy="Make it of numbers, texts and messages as its fields say.",
            ) from error

    @classmethod
    def decode(cls, data: bytes, *, path: str = "transaction") -> Self:
        """Read what `encode`, or another writer, stored at `path`; anything else is `Corrupt`."""
        try:
            message = pb.Transaction.FromString(data)
        except DecodeError as error:
            raise _broken(path, f"not a transaction: {error}") from error
        try:
            return cls.from_proto(message)
        except Corrupt as error:
            raise _broken(path, error.message) from error


def plain_operation(message: pb.Transaction) -> type[Operation] | None:
    """What kind of operation it is, told without decoding it; `None` if there is anything in it that is not known."""
    name = message.WhichOneof("operation")
    if name is None or message.WhichOneof("blob_operation") is not None or len(UnknownFieldSet(message)):
        return None
    return _BY_FIELD[name]


def _operation(message: pb.Transaction) -> tuple[Operation, bytes]:
    """The operation, and the encoded fields that neither it nor the rest of a `Transaction` accounts for."""
    if blob := message.WhichOneof("blob_operation"):
        number = message.DESCRIPTOR.fields_by_name[blob].number
        return Opaque(number, getattr(message, blob).SerializeToString()), _besides(message, blob)
    unknown = unknown_fields(message)
    if unknown and (newer := unknown_operation(message)):
        return Opaque(newer.number, newer.payload), without_field(_besides(message), newer.number)
    name = message.WhichOneof("operation")
    if name is None:
        raise Corrupt(
            "the transaction has no operation", remedy="The message was cut short, or is not a Lance transaction."
        )
    return _BY_FIELD[name].from_proto(getattr(message, name)), unknown


def _besides(message: pb.Transaction, *names: str) -> bytes:
    """All encoded fields but those that a `Transaction` has and those named."""
    rest = pb.Transaction()
    rest.CopyFrom(message)
    for name in ("read_version", "uuid", "tag", "properties", *names):
        rest.ClearField(name)
    return rest.SerializeToString()


def _broken(path: str, what: str) -> Corrupt:
    return Corrupt(
        f"{path}: {what}",
        remedy="The file is damaged or was cut short. Restore it from a copy.",
        path=path,
    )
