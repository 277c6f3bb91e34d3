"""The transaction message: operations of newer writers are found and kept byte for byte."""

from pathlib import Path

import pytest

from seiche.errors import Corrupt
from seiche.table.format import transactions
from seiche.table.format.transaction_pb2 import Append, Overwrite, Transaction, UpdateBases
from seiche.table.format.transactions import UnknownOperation
from seiche.table.format.unknown import unknown_fields

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lance"
PAYLOADS = [b"", b"\x08\x01", b"\x0a\x03abc", bytes(range(256)) * 3]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("number", [115, 116, 199, 201, 203, 5000, 2**29 - 1])
def test_an_operation_of_a_newer_writer_survives_unchanged(number: int, payload: bytes) -> None:
    transaction = Transaction(read_version=7, uuid="u", properties={"a": "b"})
    transactions.set_unknown_operation(transaction, UnknownOperation(number, payload))
    stored = transaction.SerializeToString()
    read = transactions.decode(stored, path="x.txn")
    assert transactions.unknown_operation(read) == UnknownOperation(number, payload)
    assert read.SerializeToString() == stored
    again = Transaction(read_version=7, uuid="u", properties={"a": "b"})
    transactions.set_unknown_operation(again, UnknownOperation(number, payload))
    assert again.SerializeToString() == stored


@pytest.mark.parametrize(
    "known",
    [
        Transaction(),
        Transaction(append=Append()),
        Transaction(update_bases=UpdateBases()),
        Transaction(blob_append=Append()),
        Transaction(blob_overwrite=Overwrite()),
    ],
)
def test_a_known_operation_is_not_taken_for_one_of_a_newer_writer(known: Transaction) -> None:
    assert transactions.unknown_operation(Transaction.FromString(known.SerializeToString())) is None


def test_an_unknown_operation_beside_a_known_one_counts() -> None:
    transaction = Transaction(append=Append())
    transactions.set_unknown_operation(transaction, UnknownOperation(116, b"x"))
    assert transactions.unknown_operation(transaction) == UnknownOperation(116, b"x")


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


def test_damage_anywhere_is_corrupt_or_still_a_transaction() -> None:
    smallest = min(FIXTURES.rglob("*.txn"), key=lambda path: path.stat().st_size)
    data = smallest.read_bytes()
    refused = 0
    for at in range(len(data)):
        for damaged in [data[:at], *(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for bit in range(8))]:
            try:
                assert str(transactions.decode(damaged, path="x.txn")) is not None
            except Corrupt:
                refused += 1
    assert refused > len(data)


@pytest.mark.parametrize("name", ["blob_append", "blob_overwrite"])
def test_operations_on_the_table_of_large_values_round_trip(name: str) -> None:
    transaction = Transaction(read_version=3, uuid="u", append=Append())
    fragments = getattr(transaction, name).fragments
    fragments.add(id=4, physical_rows=9).files.add(path="x.lance")
    stored = transaction.SerializeToString()
    read = transactions.decode(stored, path="x.txn")
    assert read == transaction
    assert read.WhichOneof("blob_operation") == name
    assert read.SerializeToString() == stored
    assert list(unknown_fields(read)) == []
    # Numbers as in the published definition: 200 and 202.
    assert bytes([0xC2 if name == "blob_append" else 0xD2, 0x0C]) in stored


def test_the_name_of_the_file() -> None:
    assert transactions.file_path(4, "abc") == "_transactions/4-abc.txn"
