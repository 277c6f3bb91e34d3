"""The messages of the catalog protocol have its numbers and types, so that its clients can be used unchanged."""

import pytest
from google.protobuf.descriptor import FieldDescriptor

from seiche.service import common_pb2
from seiche.service import transactions_pb2 as pb

KINDS = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_ENUM: "enum",
}
# number name type, as the protocol has them; `?` is optional, `*` repeated.
MESSAGES = {
    "Transaction": "1 tx_id string, 2 account_id string, 3 state enum, 4 created_at Timestamp, 5 updated_at Timestamp,"
    " 6 expires_at Timestamp, 99 properties PropertiesEntry*",
    "BeginTransactionRequest": "1 ttl Duration, 2 idempotency IdempotencyKey, 99 properties PropertiesEntry*",
    "BeginTransactionResponse": "1 transaction Transaction",
    "PrepareTransactionRequest": "1 tx_id string, 2 changes TxChange*, 3 idempotency IdempotencyKey",
    "PrepareTransactionResponse": "1 transaction Transaction",
    "CommitTransactionRequest": "1 tx_id string, 2 idempotency IdempotencyKey",
    "CommitTransactionResponse": "1 transaction Transaction",
    "AbortTransactionRequest": "1 tx_id string, 2 reason string",
    "AbortTransactionResponse": "1 transaction Transaction",
    "GetTransactionRequest": "1 tx_id string",
    "GetTransactionResponse": "1 transaction Transaction",
    "ReserveTransactionTableIdRequest": "1 tx_id string, 2 table_fq string",
    "ReserveTransactionTableIdResponse": "1 table_id ResourceId",
    "TxChange": "1 table_id ResourceId, 2 table_fq string, 10 payload bytes, 11 intended_blob_uri string,"
    " 12 table Table, 20 precondition Precondition, 30 target_pointer_key string?",
    "TransactionIntent": "1 tx_id string, 2 account_id string, 3 target_pointer_key string, 4 blob_uri string,"
    " 5 expected_version int64?, 6 created_at Timestamp, 7 expected_owned_name_pointer_key string?,"
    " 20 apply_error_code string?, 21 apply_error_message string?, 22 apply_error_expected_version int64?,"
    " 23 apply_error_actual_version int64?, 24 apply_error_conflict_owner string?, 25 apply_error_at Timestamp",
    "ResourceId": "1 account_id string, 2 id string, 3 kind enum",
    "Precondition": "1 expected_version int64?, 2 expected_etag string",
    "IdempotencyKey": "1 key string",
    "Table": "1 resource_id ResourceId, 2 display_name string, 3 description string, 4 catalog_id ResourceId,"
    " 5 namespace_id ResourceId, 6 created_at Timestamp, 7 schema_json string, 99 properties PropertiesEntry*",
    "Error": "1 code enum, 2 message string, 3 params ParamsEntry*, 4 context ContextEntry*, 5 message_key string,"
    " 6 correlation_id string",
}


def described(field: FieldDescriptor) -> str:
    inner, oneof = field.message_type, field.containing_oneof
    kind = KINDS[field.type] if inner is None else inner.name
    optional = inner is None and oneof is not None and oneof.name == f"_{field.name}"
    return f"{field.number} {field.name} {kind}{'*' if field.is_repeated else ''}{'?' if optional else ''}"


@pytest.mark.parametrize("name", MESSAGES)
def test_numbers_and_types(name: str) -> None:
    message = getattr(pb, name, None) or getattr(common_pb2, name)
    fields = sorted(message.DESCRIPTOR.fields, key=lambda field: field.number)
    assert ", ".join(map(described, fields)) == MESSAGES[name]


def test_states() -> None:
    assert dict(pb.TransactionState.items()) == {
        "TS_UNSPECIFIED": 0, "TS_OPEN": 1, "TS_PREPARED": 2, "TS_ABORTED": 4, "TS_APPLY_FAILED_CONFLICT": 5,
        "TS_APPLIED": 7, "TS_APPLY_FAILED_RETRYABLE": 8,
    }  # fmt: skip


def test_codes() -> None:
    names = "UNSPECIFIED PERMISSION_DENIED NOT_FOUND PRECONDITION_FAILED INVALID_ARGUMENT CONFLICT RATE_LIMITED"
    names += " SNAPSHOT_EXPIRED UNAUTHENTICATED INTERNAL UNAVAILABLE TIMEOUT CANCELLED ABORT_RETRYABLE"
    assert dict(common_pb2.ErrorCode.items()) == {f"MC_{name}": code for code, name in enumerate(names.split())}
