import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RK_UNSPECIFIED: _ClassVar[ResourceKind]
    RK_TABLE: _ClassVar[ResourceKind]
    RK_CONNECTOR: _ClassVar[ResourceKind]
    RK_TRANSACTION: _ClassVar[ResourceKind]

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MC_UNSPECIFIED: _ClassVar[ErrorCode]
    MC_PERMISSION_DENIED: _ClassVar[ErrorCode]
    MC_NOT_FOUND: _ClassVar[ErrorCode]
    MC_PRECONDITION_FAILED: _ClassVar[ErrorCode]
    MC_INVALID_ARGUMENT: _ClassVar[ErrorCode]
    MC_CONFLICT: _ClassVar[ErrorCode]
    MC_RATE_LIMITED: _ClassVar[ErrorCode]
    MC_SNAPSHOT_EXPIRED: _ClassVar[ErrorCode]
    MC_UNAUTHENTICATED: _ClassVar[ErrorCode]
    MC_INTERNAL: _ClassVar[ErrorCode]
    MC_UNAVAILABLE: _ClassVar[ErrorCode]
    MC_TIMEOUT: _ClassVar[ErrorCode]
    MC_CANCELLED: _ClassVar[ErrorCode]
    MC_ABORT_RETRYABLE: _ClassVar[ErrorCode]
RK_UNSPECIFIED: ResourceKind
RK_TABLE: ResourceKind
RK_CONNECTOR: ResourceKind
RK_TRANSACTION: ResourceKind
MC_UNSPECIFIED: ErrorCode
MC_PERMISSION_DENIED: ErrorCode
MC_NOT_FOUND: ErrorCode
MC_PRECONDITION_FAILED: ErrorCode
MC_INVALID_ARGUMENT: ErrorCode
MC_CONFLICT: ErrorCode
MC_RATE_LIMITED: ErrorCode
MC_SNAPSHOT_EXPIRED: ErrorCode
MC_UNAUTHENTICATED: ErrorCode
MC_INTERNAL: ErrorCode
MC_UNAVAILABLE: ErrorCode
MC_TIMEOUT: ErrorCode
MC_CANCELLED: ErrorCode
MC_ABORT_RETRYABLE: ErrorCode

class ResourceId(_message.Message):
    __slots__ = ("account_id", "id", "kind")
    ACCOUNT_ID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    account_id: str
    id: str
    kind: ResourceKind
    def __init__(self, account_id: _Optional[str] = ..., id: _Optional[str] = ..., kind: _Optional[_Union[ResourceKind, str]] = ...) -> None: ...

class Precondition(_message.Message):
    __slots__ = ("expected_version", "expected_etag")
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_ETAG_FIELD_NUMBER: _ClassVar[int]
    expected_version: int
    expected_etag: str
    def __init__(self, expected_version: _Optional[int] = ..., expected_etag: _Optional[str] = ...) -> None: ...

class IdempotencyKey(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("resource_id", "display_name", "description", "catalog_id", "namespace_id", "created_at", "schema_json", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CATALOG_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    resource_id: ResourceId
    display_name: str
    description: str
    catalog_id: ResourceId
    namespace_id: ResourceId
    created_at: _timestamp_pb2.Timestamp
    schema_json: str
    properties: _containers.ScalarMap[str, str]
    def __init__(self, resource_id: _Optional[_Union[ResourceId, _Mapping]] = ..., display_name: _Optional[str] = ..., description: _Optional[str] = ..., catalog_id: _Optional[_Union[ResourceId, _Mapping]] = ..., namespace_id: _Optional[_Union[ResourceId, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., schema_json: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "params", "context", "message_key", "correlation_id")
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ContextEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_KEY_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_ID_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    params: _containers.ScalarMap[str, str]
    context: _containers.ScalarMap[str, str]
    message_key: str
    correlation_id: str
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ..., params: _Optional[_Mapping[str, str]] = ..., context: _Optional[_Mapping[str, str]] = ..., message_key: _Optional[str] = ..., correlation_id: _Optional[str] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("code", "message", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[_any_pb2.Any]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[_any_pb2.Any, _Mapping]]] = ...) -> None: ...
