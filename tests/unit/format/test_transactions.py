"""The transaction message: operations of newer writers are found and kept byte for byte."""

import pytest

from seiche.errors import Corrupt
from seiche.table.format import transactions
from seiche.table.format.transaction_pb2 import Append, Overwrite, Transaction, UpdateBases
from seiche.table.format.transactions import UnknownOperation
from seiche.table.format.unknown import unknown_fields

PAYLOADS = [b"", b"\x08\x01", b"\x0a\x03abc", bytes(range(256)) * 3]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("number", [115, 116, 199, 201, 203, 5000, 2**29 - 1])
def test_an_operation_of_a_newer_writer_survives_unchanged(number: int, payload: bytes) -> None:
    transaction = Transaction(read_version=7, uuid="u", properties={"a": "b"})
    transactions.set_unknown_operation(transaction, UnknownOperation(number, payload))
    stored = transaction.SerializeToString()
    read = transactions.decode(stored, path="x.txn")
    assert transactions.unknown_operation(read) == UnknownOperation(number, payload)
    assert transactions.operation_field(read) == number
    assert read.SerializeToString() == stored
    again = Transaction(read_version=7, uuid="u", properties={"a": "b"})
    transactions.set_unknown_operation(again, UnknownOperation(number, payload))
    assert again.SerializeToString() == stored


def test_known_operations_have_their_numbers() -> None:
    assert transactions.operation_field(Transaction()) is None
    assert transactions.operation_field(Transaction(append=Append())) == 100
    assert transactions.operation_field(Transaction(update_bases=UpdateBases())) == 114
    assert transactions.operation_field(Transaction(blob_append=Append())) == 200
    assert transactions.operation_field(Transaction(blob_overwrite=Overwrite())) == 202
    assert transactions.unknown_operation(Transaction(append=Append())) is None


def test_an_unknown_operation_beside_a_known_one_counts() -> None:
    transaction = Transaction(append=Append())
    transactions.set_unknown_operation(transaction, UnknownOperation(116, b"x"))
    assert transactions.operation_field(transaction) == 116


def test_an_unknown_property_of_the_transaction_is_no_operation() -> None:
    transaction = Transaction.FromString(Transaction(append=Append()).SerializeToString() + b"\x2a\x01x\x98\x06\x01")
    assert [field.number for field in unknown_fields(transaction)] == [5, 99]
    assert transactions.unknown_operation(transaction) is None


def test_unknown_fields_are_found_at_every_depth() -> None:
    stored = Transaction()
    fragment = stored.append.fragments.add(id=1)
    fragment.files.add(path="a").MergeFromString(b"\xf8\x07\x01")
    stored.update_config.field_metadata_updates[3].MergeFromString(b"\xf8\x07\x01")
    found = [(field.path, field.number) for field in unknown_fields(stored)]
    assert found == [("update_config.field_metadata_updates", 127)]
    stored.append.fragments.add(id=1).files.add(path="a").MergeFromString(b"\xf8\x07\x01")
    assert [(field.path, field.number) for field in unknown_fields(stored)] == [("append.fragments.files", 127)]


@pytest.mark.parametrize("data", [b"\xff", b"\x12\x05ab", b"\xa2\x06\x7f"])
def test_damage_is_corrupt_and_names_the_file(data: bytes) -> None:
    with pytest.raises(Corrupt) as caught:
        transactions.decode(data, path="_transactions/3-x.txn")
    assert caught.value.path == "_transactions/3-x.txn"
    assert "_transactions/3-x.txn" in str(caught.value)


def test_the_name_of_the_file() -> None:
    assert transactions.file_path(4, "abc") == "_transactions/4-abc.txn"
