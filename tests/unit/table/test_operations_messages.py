"""Operations and transactions as messages: nothing is lost on the way, also of what we do not understand."""

import pickle

import pytest
from google.protobuf.any_pb2 import Any

from seiche.errors import Corrupt
from seiche.table.format import transaction_pb2 as pb
from seiche.table.format.manifest_pb2 import UUID, BasePath, DataFragment
from seiche.table.operations import (
    OPERATIONS,
    REWRITE_COLUMNS,
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    DataReplacementGroup,
    Delete,
    KeyExistenceFilter,
    Merge,
    MergedGeneration,
    Opaque,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    RewrittenIndex,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMap,
    UpdateMemWalState,
)
from seiche.table.transaction import Transaction, plain_operation
from tests.messages import SCHEMA, data_file, fragment, index

SHARD = UUID(uuid=bytes(range(16)))
BASE = BasePath(id=1, name="one", is_dataset_root=True, path="/one")
FULL: list[Operation] = [
    Append((fragment(1), fragment(2, deleted=3))),
    Delete((fragment(1, deleted=3),), (4, 5), "a > 3"),
    Overwrite((fragment(),), SCHEMA, {"k": b"\xff"}, {"key": "value"}, (BASE,)),
    CreateIndex((index(1, "i", [0], [1]),), (index(2, "i", [0], [0]),)),
    Rewrite(
        (RewriteGroup(old_fragments=[fragment(1)], new_fragments=[fragment(2)]),),
        (RewrittenIndex(old_id=SHARD, new_id=SHARD, new_index_details=Any(type_url="/x"), new_index_version=2),),
    ),
    Merge((fragment(1),), SCHEMA, {"k": b"v"}, True),
    Project(SCHEMA, True),
    Restore(7),
    ReserveFragments(8),
    Clone(False, "main", 4, "/source", "branch"),
    Update(
        (1,),
        (fragment(2, deleted=1),),
        (fragment(),),
        (0, 1),
        (MergedGeneration(shard=SHARD, generation=4),),
        (1,),
        REWRITE_COLUMNS,
        KeyExistenceFilter(field_ids=[0], exact=KeyExistenceFilter.ExactKeySet(key_hashes=[5])),
        {2: b"old"},
        {2: b"new"},
    ),
    UpdateConfig(
        UpdateMap({"a": "1", "b": None}), UpdateMap({}, replace=True), UpdateMap({"c": ""}), {3: UpdateMap({"d": "4"})}
    ),
    DataReplacement((DataReplacementGroup(fragment_id=1, new_file=data_file("x", [1])),)),
    UpdateMemWalState((MergedGeneration(shard=SHARD, generation=4),)),
    UpdateBases((BASE,)),
]


def round_trip(operation: Operation) -> Operation:
    return Transaction.decode(Transaction(3, "u", operation).encode()).operation


def test_the_operations_are_those_of_the_specification() -> None:
    assert [operation.name for operation in OPERATIONS] == [
        "Append", "Delete", "Overwrite", "CreateIndex", "Rewrite", "Merge", "Project", "Restore", "ReserveFragments",
        "Clone", "Update", "UpdateConfig", "DataReplacement", "UpdateMemWalState", "UpdateBases",
    ]  # fmt: skip
    members = pb.Transaction.DESCRIPTOR.oneofs_by_name["operation"].fields
    assert {operation.field_name for operation in OPERATIONS} == {member.name for member in members}
    assert [type(operation) for operation in FULL] == list(OPERATIONS)


@pytest.mark.parametrize("operation", FULL, ids=lambda operation: operation.name)
def test_an_operation_comes_back_as_it_went(operation: Operation) -> None:
    assert round_trip(operation) == operation
    assert pickle.loads(pickle.dumps(operation)) == operation


@pytest.mark.parametrize("operation", FULL, ids=lambda operation: operation.name)
def test_no_field_of_the_message_is_forgotten(operation: Operation) -> None:
    assert not isinstance(operation, Opaque)
    old_form = {"old_fragments", "new_fragments", "upsert_values", "delete_keys", "schema_metadata", "field_metadata"}
    message = operation.to_proto()
    unset = {one.name for one in message.DESCRIPTOR.fields} - {one.name for one, _ in message.ListFields()}
    has_old_form = isinstance(operation, Rewrite | UpdateConfig)
    assert unset <= (old_form if has_old_form else {"is_shallow"})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_without_anything_in_it_comes_back(operation: type[Append]) -> None:
    assert round_trip(operation()) == operation()


def test_members_given_as_lists_are_immutable_afterwards() -> None:
    given = [fragment(1)]
    operation = Append(given)  # type: ignore[arg-type]
    given.clear()
    assert operation == Append((fragment(1),))
    values = {"k": "v"}
    config = Overwrite(config_upsert_values=values)
    values.clear()
    assert config.config_upsert_values == {"k": "v"}


@pytest.mark.parametrize("operation", [*FULL, Opaque(115, b"\x0a\x01x")], ids=lambda operation: operation.name)
def test_fields_of_a_newer_writer_survive_at_every_depth(operation: Operation) -> None:
    newer = b"\x92\x3f\x03abc"  # field 1010
    message = Transaction(3, "u", operation).to_proto()
    stored = message.SerializeToString() + b"\x98\x06\x01"  # field 99, a number
    if not isinstance(operation, Opaque):
        name = operation.field_name
        getattr(message, name).MergeFromString(newer)
        stored = message.SerializeToString() + b"\x98\x06\x01"
    read = Transaction.decode(stored)
    assert read.unknown == b"\x98\x06\x01"
    if not isinstance(read.operation, Opaque):
        assert read.operation.unknown == newer
    assert pb.Transaction.FromString(read.encode()) == pb.Transaction.FromString(stored)
    assert Transaction.decode(read.encode()) == read


def test_fields_of_a_newer_writer_in_a_fragment_survive() -> None:
    newer = DataFragment.FromString(fragment(1).SerializeToString() + b"\x92\x3f\x03abc")
    read = round_trip(Append((newer,)))
    assert isinstance(read, Append)
    assert read.fragments[0].SerializeToString().endswith(b"\x92\x3f\x03abc")


@pytest.mark.parametrize("number", [115, 117, 536_870_911])
def test_an_operation_of_a_newer_writer_is_kept_byte_for_byte(number: int) -> None:
    operation = Opaque(
        number, b"\x0a\x03\x00\x01\x02\xf8\x01\x80\x00"
    )  # with a number that takes more bytes than needed
    assert round_trip(operation) == operation
    assert operation.name == ("DataOverlay" if number == 115 else f"operation {number}")


def test_an_unknown_operation_beside_a_known_one_counts() -> None:
    known = Transaction(3, "u", Append((fragment(1),))).encode()
    both = known + Transaction(3, "u", Opaque(117, b"x")).encode()
    read = Transaction.decode(both)
    assert read.operation == Opaque(117, b"x")
    assert pb.Transaction.FromString(read.encode()).append.fragments[0].id == 1


def test_the_kind_of_an_operation_is_told_only_where_nothing_else_can_be_meant() -> None:
    """Who goes by the kind alone must not take an unknown operation for the known one that stands beside it."""
    plain = Transaction(3, "u", Append((fragment(1),))).to_proto()
    assert plain_operation(plain) is Append
    with_unknown = pb.Transaction.FromString(
        plain.SerializeToString() + Transaction(3, "u", Opaque(117, b"x")).encode()
    )
    with_blob = pb.Transaction.FromString(plain.SerializeToString())
    with_blob.blob_append.fragments.append(fragment(2))
    for message in (with_unknown, with_blob, pb.Transaction(read_version=3, uuid="u")):
        assert plain_operation(message) is None


@pytest.mark.parametrize(("name", "number"), [("blob_append", 200), ("blob_overwrite", 202)])
def test_operations_on_the_second_table_of_older_writers(name: str, number: int) -> None:
    message = pb.Transaction(read_version=3, uuid="u", append=Append((fragment(1),)).to_proto())
    getattr(message, name).fragments.append(fragment(2))
    read = Transaction.from_proto(message)
    assert isinstance(read.operation, Opaque)
    assert (read.operation.name, read.operation.field_number) == (name, number)
    assert read.to_proto() == message
    assert Transaction.decode(read.encode()) == read


def test_a_flat_rewrite_is_read_as_one_group_and_written_as_one() -> None:
    message = pb.Rewrite(old_fragments=[fragment(1), fragment(2)], new_fragments=[fragment()])
    read = Rewrite.from_proto(message)
    assert read.flat
    assert read.groups == (RewriteGroup(old_fragments=[fragment(1), fragment(2)], new_fragments=[fragment()]),)
    written = read.to_proto()
    assert not written.old_fragments
    assert not written.new_fragments
    assert not Rewrite.from_proto(written).flat
    with pytest.raises(Corrupt, match="both"):
        Rewrite.from_proto(pb.Rewrite(old_fragments=[fragment(1)], groups=[RewriteGroup()]))


def test_a_rewrite_does_not_store_its_reuse_entry() -> None:
    assert round_trip(Rewrite(frag_reuse_index=index(1, "__lance_frag_reuse", [], []))) == Rewrite()


def test_the_older_form_of_update_config_is_read_into_the_newer() -> None:
    old = pb.UpdateConfig(
        upsert_values={"a": "1"},
        delete_keys=["b"],
        schema_metadata={"c": "2"},
        field_metadata={3: pb.UpdateConfig.FieldMetadataUpdate(metadata={"d": "4"})},
    )
    assert UpdateConfig.from_proto(old) == UpdateConfig(
        UpdateMap({"a": "1", "b": None}),
        None,
        UpdateMap({"c": "2"}, replace=True),  # the old form always replaced the whole map
        {3: UpdateMap({"d": "4"}, replace=True)},
    )
    assert UpdateConfig.from_proto(pb.UpdateConfig(delete_keys=["b"])) == UpdateConfig(UpdateMap({"b": None}))
    old.config_updates.replace = True
    with pytest.raises(Corrupt, match="config_updates"):
        UpdateConfig.from_proto(old)


def test_a_transaction_comes_back_as_it_went() -> None:
    transaction = Transaction(12, "abc", Restore(3), "tag", {"k": "v", "__lance_commit_message": "why"})
    assert Transaction.decode(transaction.encode()) == transaction
    assert transaction.file_name == "12-abc.txn"


def test_equal_transactions_have_equal_bytes() -> None:
    keys = [f"key {number}" for number in range(50)]
    one = Transaction(1, "u", Restore(3), properties=dict.fromkeys(keys, "v"))
    other = Transaction(1, "u", Restore(3), properties=dict.fromkeys(reversed(keys), "v"))
    assert one == other
    assert one.encode() == other.encode()


@pytest.mark.parametrize(
    "data", [b"", b"\x08\x01", b"garbage", b"\xff" * 30, Transaction(1, "u", FULL[0]).encode()[:-1]]
)
def test_what_is_not_a_transaction_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"_transactions/1-u\.txn") as caught:
        Transaction.decode(data, path="_transactions/1-u.txn")
    assert caught.value.path == "_transactions/1-u.txn"
