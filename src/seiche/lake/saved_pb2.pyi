from seiche.lake import format_pb2 as _format_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SavedTransaction(_message.Message):
    __slots__ = ("id", "base_version", "isolation", "expires_at_millis", "properties", "stream", "edits", "rows", "reads", "ranges", "names", "oldest_version", "digest")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EDITS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    id: str
    base_version: int
    isolation: _format_pb2.Isolation
    expires_at_millis: int
    properties: _containers.ScalarMap[str, str]
    stream: SavedStream
    edits: _containers.RepeatedCompositeFieldContainer[SavedEdit]
    rows: _containers.RepeatedCompositeFieldContainer[SavedRow]
    reads: _containers.RepeatedCompositeFieldContainer[SavedRead]
    ranges: _containers.RepeatedCompositeFieldContainer[SavedRange]
    names: _containers.RepeatedCompositeFieldContainer[SavedName]
    oldest_version: int
    digest: bytes
    def __init__(self, id: _Optional[str] = ..., base_version: _Optional[int] = ..., isolation: _Optional[_Union[_format_pb2.Isolation, str]] = ..., expires_at_millis: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., stream: _Optional[_Union[SavedStream, _Mapping]] = ..., edits: _Optional[_Iterable[_Union[SavedEdit, _Mapping]]] = ..., rows: _Optional[_Iterable[_Union[SavedRow, _Mapping]]] = ..., reads: _Optional[_Iterable[_Union[SavedRead, _Mapping]]] = ..., ranges: _Optional[_Iterable[_Union[SavedRange, _Mapping]]] = ..., names: _Optional[_Iterable[_Union[SavedName, _Mapping]]] = ..., oldest_version: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class SavedStream(_message.Message):
    __slots__ = ("stream", "epoch", "owner")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    stream: str
    epoch: int
    owner: str
    def __init__(self, stream: _Optional[str] = ..., epoch: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class SavedEdit(_message.Message):
    __slots__ = ("row", "key", "found_key", "properties", "removed_properties", "read", "stable_row_ids", "statements", "iceberg", "iceberg_origin")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ROW_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    FOUND_KEY_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    READ_FIELD_NUMBER: _ClassVar[int]
    STABLE_ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_ORIGIN_FIELD_NUMBER: _ClassVar[int]
    row: bytes
    key: bytes
    found_key: bytes
    properties: _containers.ScalarMap[str, str]
    removed_properties: _containers.RepeatedScalarFieldContainer[str]
    read: bool
    stable_row_ids: bool
    statements: _containers.RepeatedCompositeFieldContainer[SavedStatement]
    iceberg: _containers.RepeatedCompositeFieldContainer[SavedIcebergStep]
    iceberg_origin: str
    def __init__(self, row: _Optional[bytes] = ..., key: _Optional[bytes] = ..., found_key: _Optional[bytes] = ..., properties: _Optional[_Mapping[str, str]] = ..., removed_properties: _Optional[_Iterable[str]] = ..., read: bool = ..., stable_row_ids: bool = ..., statements: _Optional[_Iterable[_Union[SavedStatement, _Mapping]]] = ..., iceberg: _Optional[_Iterable[_Union[SavedIcebergStep, _Mapping]]] = ..., iceberg_origin: _Optional[str] = ...) -> None: ...

class SavedIcebergStep(_message.Message):
    __slots__ = ("requirements", "updates", "exclusive")
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    requirements: str
    updates: str
    exclusive: bool
    def __init__(self, requirements: _Optional[str] = ..., updates: _Optional[str] = ..., exclusive: bool = ...) -> None: ...

class SavedStatement(_message.Message):
    __slots__ = ("transaction", "affected_rows", "rows", "files", "bytes", "frag_reuse_index")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    AFFECTED_ROWS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FRAG_REUSE_INDEX_FIELD_NUMBER: _ClassVar[int]
    transaction: bytes
    affected_rows: bytes
    rows: int
    files: int
    bytes: int
    frag_reuse_index: bytes
    def __init__(self, transaction: _Optional[bytes] = ..., affected_rows: _Optional[bytes] = ..., rows: _Optional[int] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., frag_reuse_index: _Optional[bytes] = ...) -> None: ...

class SavedRow(_message.Message):
    __slots__ = ("key", "wanted")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    wanted: bytes
    def __init__(self, key: _Optional[bytes] = ..., wanted: _Optional[bytes] = ...) -> None: ...

class SavedRead(_message.Message):
    __slots__ = ("key", "aspect", "structural")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ASPECT_FIELD_NUMBER: _ClassVar[int]
    STRUCTURAL_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    aspect: str
    structural: bool
    def __init__(self, key: _Optional[bytes] = ..., aspect: _Optional[str] = ..., structural: bool = ...) -> None: ...

class SavedRange(_message.Message):
    __slots__ = ("start", "stop", "structural")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STRUCTURAL_FIELD_NUMBER: _ClassVar[int]
    start: bytes
    stop: bytes
    structural: bool
    def __init__(self, start: _Optional[bytes] = ..., stop: _Optional[bytes] = ..., structural: bool = ...) -> None: ...

class SavedName(_message.Message):
    __slots__ = ("key", "id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    id: str
    def __init__(self, key: _Optional[bytes] = ..., id: _Optional[str] = ...) -> None: ...
