import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from seiche.service import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TransactionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TS_UNSPECIFIED: _ClassVar[TransactionState]
    TS_OPEN: _ClassVar[TransactionState]
    TS_PREPARED: _ClassVar[TransactionState]
    TS_ABORTED: _ClassVar[TransactionState]
    TS_APPLY_FAILED_CONFLICT: _ClassVar[TransactionState]
    TS_APPLIED: _ClassVar[TransactionState]
    TS_APPLY_FAILED_RETRYABLE: _ClassVar[TransactionState]
TS_UNSPECIFIED: TransactionState
TS_OPEN: TransactionState
TS_PREPARED: TransactionState
TS_ABORTED: TransactionState
TS_APPLY_FAILED_CONFLICT: TransactionState
TS_APPLIED: TransactionState
TS_APPLY_FAILED_RETRYABLE: TransactionState

class Transaction(_message.Message):
    __slots__ = ("tx_id", "account_id", "state", "created_at", "updated_at", "expires_at", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    account_id: str
    state: TransactionState
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    expires_at: _timestamp_pb2.Timestamp
    properties: _containers.ScalarMap[str, str]
    def __init__(self, tx_id: _Optional[str] = ..., account_id: _Optional[str] = ..., state: _Optional[_Union[TransactionState, str]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BeginTransactionRequest(_message.Message):
    __slots__ = ("ttl", "idempotency", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TTL_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    ttl: _duration_pb2.Duration
    idempotency: _common_pb2.IdempotencyKey
    properties: _containers.ScalarMap[str, str]
    def __init__(self, ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., idempotency: _Optional[_Union[_common_pb2.IdempotencyKey, _Mapping]] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class BeginTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class TxChange(_message.Message):
    __slots__ = ("table_id", "table_fq", "payload", "intended_blob_uri", "table", "precondition", "target_pointer_key")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FQ_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    INTENDED_BLOB_URI_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    PRECONDITION_FIELD_NUMBER: _ClassVar[int]
    TARGET_POINTER_KEY_FIELD_NUMBER: _ClassVar[int]
    table_id: _common_pb2.ResourceId
    table_fq: str
    payload: bytes
    intended_blob_uri: str
    table: _common_pb2.Table
    precondition: _common_pb2.Precondition
    target_pointer_key: str
    def __init__(self, table_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ..., table_fq: _Optional[str] = ..., payload: _Optional[bytes] = ..., intended_blob_uri: _Optional[str] = ..., table: _Optional[_Union[_common_pb2.Table, _Mapping]] = ..., precondition: _Optional[_Union[_common_pb2.Precondition, _Mapping]] = ..., target_pointer_key: _Optional[str] = ...) -> None: ...

class PrepareTransactionRequest(_message.Message):
    __slots__ = ("tx_id", "changes", "idempotency")
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    changes: _containers.RepeatedCompositeFieldContainer[TxChange]
    idempotency: _common_pb2.IdempotencyKey
    def __init__(self, tx_id: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[TxChange, _Mapping]]] = ..., idempotency: _Optional[_Union[_common_pb2.IdempotencyKey, _Mapping]] = ...) -> None: ...

class PrepareTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class CommitTransactionRequest(_message.Message):
    __slots__ = ("tx_id", "idempotency")
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    idempotency: _common_pb2.IdempotencyKey
    def __init__(self, tx_id: _Optional[str] = ..., idempotency: _Optional[_Union[_common_pb2.IdempotencyKey, _Mapping]] = ...) -> None: ...

class CommitTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class AbortTransactionRequest(_message.Message):
    __slots__ = ("tx_id", "reason")
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    reason: str
    def __init__(self, tx_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AbortTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class GetTransactionRequest(_message.Message):
    __slots__ = ("tx_id",)
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    def __init__(self, tx_id: _Optional[str] = ...) -> None: ...

class GetTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class ReserveTransactionTableIdRequest(_message.Message):
    __slots__ = ("tx_id", "table_fq")
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_FQ_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    table_fq: str
    def __init__(self, tx_id: _Optional[str] = ..., table_fq: _Optional[str] = ...) -> None: ...

class ReserveTransactionTableIdResponse(_message.Message):
    __slots__ = ("table_id",)
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: _common_pb2.ResourceId
    def __init__(self, table_id: _Optional[_Union[_common_pb2.ResourceId, _Mapping]] = ...) -> None: ...

class TransactionIntent(_message.Message):
    __slots__ = ("tx_id", "account_id", "target_pointer_key", "blob_uri", "expected_version", "created_at", "expected_owned_name_pointer_key", "apply_error_code", "apply_error_message", "apply_error_expected_version", "apply_error_actual_version", "apply_error_conflict_owner", "apply_error_at")
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_POINTER_KEY_FIELD_NUMBER: _ClassVar[int]
    BLOB_URI_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OWNED_NAME_POINTER_KEY_FIELD_NUMBER: _ClassVar[int]
    APPLY_ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    APPLY_ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    APPLY_ERROR_EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    APPLY_ERROR_ACTUAL_VERSION_FIELD_NUMBER: _ClassVar[int]
    APPLY_ERROR_CONFLICT_OWNER_FIELD_NUMBER: _ClassVar[int]
    APPLY_ERROR_AT_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    account_id: str
    target_pointer_key: str
    blob_uri: str
    expected_version: int
    created_at: _timestamp_pb2.Timestamp
    expected_owned_name_pointer_key: str
    apply_error_code: str
    apply_error_message: str
    apply_error_expected_version: int
    apply_error_actual_version: int
    apply_error_conflict_owner: str
    apply_error_at: _timestamp_pb2.Timestamp
    def __init__(self, tx_id: _Optional[str] = ..., account_id: _Optional[str] = ..., target_pointer_key: _Optional[str] = ..., blob_uri: _Optional[str] = ..., expected_version: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expected_owned_name_pointer_key: _Optional[str] = ..., apply_error_code: _Optional[str] = ..., apply_error_message: _Optional[str] = ..., apply_error_expected_version: _Optional[int] = ..., apply_error_actual_version: _Optional[int] = ..., apply_error_conflict_owner: _Optional[str] = ..., apply_error_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchTransactionRequest(_message.Message):
    __slots__ = ("tx_id",)
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    tx_id: str
    def __init__(self, tx_id: _Optional[str] = ...) -> None: ...

class WatchTransactionResponse(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ...) -> None: ...

class ExecuteTransactionRequest(_message.Message):
    __slots__ = ("ttl", "idempotency", "changes", "base_version", "tx_id", "properties", "work", "number")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TTL_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    TX_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ttl: _duration_pb2.Duration
    idempotency: _common_pb2.IdempotencyKey
    changes: _containers.RepeatedCompositeFieldContainer[TxChange]
    base_version: int
    tx_id: str
    properties: _containers.ScalarMap[str, str]
    work: bytes
    number: int
    def __init__(self, ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., idempotency: _Optional[_Union[_common_pb2.IdempotencyKey, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[TxChange, _Mapping]]] = ..., base_version: _Optional[int] = ..., tx_id: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., work: _Optional[bytes] = ..., number: _Optional[int] = ...) -> None: ...

class ExecuteTransactionResponse(_message.Message):
    __slots__ = ("transaction", "version", "tables", "status", "number", "failure")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    transaction: Transaction
    version: int
    tables: _containers.RepeatedCompositeFieldContainer[TableOutcome]
    status: _common_pb2.Status
    number: int
    failure: Failure
    def __init__(self, transaction: _Optional[_Union[Transaction, _Mapping]] = ..., version: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableOutcome, _Mapping]]] = ..., status: _Optional[_Union[_common_pb2.Status, _Mapping]] = ..., number: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("kind", "remedy", "details")
    class DetailsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    remedy: str
    details: _containers.ScalarMap[str, str]
    def __init__(self, kind: _Optional[str] = ..., remedy: _Optional[str] = ..., details: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ExecuteTransactionsRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ExecuteTransactionRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[ExecuteTransactionRequest, _Mapping]]] = ...) -> None: ...

class ExecuteTransactionsResponse(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[ExecuteTransactionResponse]
    def __init__(self, responses: _Optional[_Iterable[_Union[ExecuteTransactionResponse, _Mapping]]] = ...) -> None: ...

class TableOutcome(_message.Message):
    __slots__ = ("table_id", "table_version", "pointer_version")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    POINTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    table_version: int
    pointer_version: int
    def __init__(self, table_id: _Optional[str] = ..., table_version: _Optional[int] = ..., pointer_version: _Optional[int] = ...) -> None: ...

class DescribeLakeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeLakeResponse(_message.Message):
    __slots__ = ("uri", "catalog", "version", "account_id", "lake_id")
    URI_FIELD_NUMBER: _ClassVar[int]
    CATALOG_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    LAKE_ID_FIELD_NUMBER: _ClassVar[int]
    uri: str
    catalog: str
    version: int
    account_id: str
    lake_id: str
    def __init__(self, uri: _Optional[str] = ..., catalog: _Optional[str] = ..., version: _Optional[int] = ..., account_id: _Optional[str] = ..., lake_id: _Optional[str] = ...) -> None: ...
