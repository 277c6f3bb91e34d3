"""The transaction message: bare in its own file, or inline in the manifest file."""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.table.format.transaction_pb2 import Transaction
from seiche.table.format.unknown import own_unknown_fields
from seiche.table.format.varint import varint

__all__ = ["UnknownOperation", "decode", "file_path", "set_unknown_operation", "unknown_operation"]

# Numbers below belong to the transaction itself, from here on each is an operation.
_FIRST_OPERATION = 100
_LENGTH_DELIMITED = 2


class UnknownOperation(NamedTuple):
    """An operation of a newer writer: its number in the message, and its bytes."""

    number: int
    payload: bytes


def file_path(read_version: int, uuid: str) -> str:
    """Where the transaction file lies, relative to the root of the table."""
    return f"_transactions/{file_name(read_version, uuid)}"


def file_name(read_version: int, uuid: str) -> str:
    """What a manifest calls its transaction file."""
    return f"{read_version}-{uuid}.txn"


def decode(data: bytes, *, path: str) -> Transaction:
    """Read a transaction file; anything else than one Transaction message is `Corrupt`."""
    try:
        return Transaction.FromString(data)
    except DecodeError as error:
        raise Corrupt(
            f"{path}: the transaction cannot be decoded: {error}",
            remedy="The file is damaged or was cut short. The manifest of the version holds a second copy.",
            path=path,
            offset=0,
        ) from error


def unknown_operation(transaction: Transaction) -> UnknownOperation | None:
    """The operation, if a newer writer made it and our definitions do not name it.

    Where one stands beside an operation that we know, the unknown one counts: to take the known one for the whole truth
    would be to guess.
    """
    found = None
    for number, _, value in own_unknown_fields(transaction):
        if number >= _FIRST_OPERATION and isinstance(value, bytes):
            found = UnknownOperation(number, value)
    return found


def set_unknown_operation(transaction: Transaction, operation: UnknownOperation) -> None:
    """Put the operation into a transaction that has none, byte for byte as it was."""
    tag = varint(operation.number << 3 | _LENGTH_DELIMITED)
    transaction.MergeFromString(tag + varint(len(operation.payload)) + operation.payload)
