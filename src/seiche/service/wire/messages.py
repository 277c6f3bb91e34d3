"""Between messages and values."""

from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from seiche.service import definitions, failures
from seiche.service import transactions_pb2 as pb
from seiche.service.changes import Change
from seiche.service.commit.tickets import Decided
from seiche.service.properties import FAILURE_NAMES, LAKE_VERSION
from seiche.service.refusals import refused
from seiche.service.state.records import Record
from seiche.service.states import State

__all__ = ["change", "executed", "transaction", "ttl"]

# Conflicts with what others have done, not with what was asked for.
_WORTH_PLANNING_ANEW: Final = frozenset({"EXPECTED_VERSION_MISMATCH", "RETRYABLE_CONFLICT"})


def ttl(request: pb.BeginTransactionRequest | pb.ExecuteTransactionRequest) -> float | None:
    """How many seconds a transaction shall live, if its request says so."""
    return request.ttl.seconds + request.ttl.nanos / 1e9 if request.HasField("ttl") else None


def change(message: pb.TxChange) -> Change:
    """One change of a request."""
    table = None
    payload = message.WhichOneof("change_payload")
    if payload == "table":
        table = definitions.read(message.table.SerializeToString(deterministic=True))
    expected = None
    if message.HasField("precondition"):
        if message.precondition.expected_etag:
            raise refused("preconditions on an etag are not supported", "precondition.etag")
        if message.precondition.HasField("expected_version"):
            expected = message.precondition.expected_version
    table_id = message.table_id if message.WhichOneof("resource_ref") == "table_id" else None
    if table_id is not None and table_id.kind not in (0, 4):
        raise refused("the target is not a table", "target.kind")
    return Change(
        table_id="" if table_id is None else table_id.id,
        table_account="" if table_id is None else table_id.account_id,
        table_name=message.table_fq,
        target_key=message.target_pointer_key,
        payload=message.payload if payload == "payload" else None,
        blob_uri=message.intended_blob_uri if payload == "intended_blob_uri" else None,
        table=table,
        expected_version=expected,
    )


def transaction(record: Record) -> pb.Transaction:
    """A transaction as clients see it."""
    message = pb.Transaction()
    _tell(record, message)
    return message


def executed(decided: Decided) -> pb.ExecuteTransactionResponse:
    """The answer to a transaction in one call."""
    response = pb.ExecuteTransactionResponse(version=decided.record.lake_version)
    _tell(decided.record, response.transaction)
    for one in decided.tables:
        response.tables.add(table_id=one.table, table_version=one.table_version, pointer_version=one.pointer_version)
    if decided.failure is not None:
        failures.write(decided.failure, response.failure)
    return response


def _tell(record: Record, message: pb.Transaction) -> None:
    """Write a transaction into a message, field by field: messages within messages are copied if they are given."""
    message.tx_id = record.id
    message.account_id = record.account
    message.state = int(record.state)  # type: ignore[assignment]
    _set_time(message.created_at, record.created)
    _set_time(message.updated_at, record.updated)
    _set_time(message.expires_at, record.expires)
    properties = message.properties
    for name, value in record.properties.items():
        properties[name] = value
    if record.error_code:
        for prefix in FAILURE_NAMES:
            properties.update({f"{prefix}{name}": value for name, value in _failure(record).items()})
    if record.lake_version:
        properties[LAKE_VERSION] = str(record.lake_version)


def _failure(record: Record) -> dict[str, str]:
    """Why a transaction was not applied, and whether the same may be applied later, or planned anew."""
    conflict = record.state is State.APPLY_FAILED_CONFLICT
    retryable = not conflict or record.error_code in _WORTH_PLANNING_ANEW
    return {
        "status": "CONFLICT" if conflict else "RETRYABLE",
        "code": record.error_code,
        "message": record.error_message,
        "retryable": "true" if retryable else "false",
    }


def _set_time(message: Timestamp, moment: int) -> None:
    message.seconds, millis = divmod(moment, 1000)
    message.nanos = millis * 1_000_000
