"""Between messages and values."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from seiche.service import definitions
from seiche.service import transactions_pb2 as pb
from seiche.service.changes import Change
from seiche.service.core import RESERVED
from seiche.service.refusals import refused
from seiche.service.state.records import Record
from seiche.service.tickets import Decided

__all__ = ["change", "executed", "seconds", "transaction"]

# What the service adds to the properties of a transaction, for clients that look at them.
_FAILURE = "seiche.transaction.apply-failure-"
_VERSION = "seiche.transaction.lake-version"
_HIDDEN = RESERVED


def seconds(message: Duration | None) -> float | None:
    """The length of time in a message; `None` if there is none."""
    return None if message is None else message.seconds + message.nanos / 1e9


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
    by_id = message.WhichOneof("resource_ref") == "table_id"
    if by_id and message.table_id.kind not in (0, 4):
        raise refused("the target is not a table", "target.kind")
    return Change(
        table_id=message.table_id.id if by_id else "",
        table_account=message.table_id.account_id if by_id else "",
        table_name=message.table_fq,
        target_key=message.target_pointer_key,
        payload=message.payload if payload == "payload" else None,
        blob_uri=message.intended_blob_uri if payload == "intended_blob_uri" else None,
        table=table,
        expected_version=expected,
    )


def transaction(record: Record) -> pb.Transaction:
    """A transaction as clients see it."""
    properties = dict(record.properties)
    if record.error_code:
        properties[f"{_FAILURE}code"] = record.error_code
        properties[f"{_FAILURE}message"] = record.error_message
    if record.lake_version:
        properties[_VERSION] = str(record.lake_version)
    return pb.Transaction(
        tx_id=record.id,
        account_id=record.account,
        state=int(record.state),  # type: ignore[arg-type]
        created_at=_time(record.created),
        updated_at=_time(record.updated),
        expires_at=_time(record.expires),
        properties=properties,
    )


def executed(decided: Decided) -> pb.ExecuteTransactionResponse:
    """The answer to a transaction in one call."""
    response = pb.ExecuteTransactionResponse(
        transaction=transaction(decided.record), version=decided.record.lake_version
    )
    for one in decided.tables:
        response.tables.add(table_id=one.table, table_version=one.table_version, pointer_version=one.pointer_version)
    return response


def _time(moment: int) -> Timestamp:
    return Timestamp(seconds=moment // 1000, nanos=moment % 1000 * 1_000_000)
