from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Isolation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SNAPSHOT: _ClassVar[Isolation]
    SERIALIZABLE: _ClassVar[Isolation]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMITTED: _ClassVar[Outcome]
    ABORTED: _ClassVar[Outcome]

class TableType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MANAGED: _ClassVar[TableType]
    EXTERNAL: _ClassVar[TableType]
    FEDERATED: _ClassVar[TableType]
SNAPSHOT: Isolation
SERIALIZABLE: Isolation
COMMITTED: Outcome
ABORTED: Outcome
MANAGED: TableType
EXTERNAL: TableType
FEDERATED: TableType

class LakehouseDef(_message.Message):
    __slots__ = ("major_version", "order", "namespace_name_max_size_bytes", "table_name_max_size_bytes", "file_path_max_size_bytes", "node_file_max_size_bytes", "properties", "maximum_version_age_millis", "minimum_versions_to_keep", "maximum_version_age_millis_overrides", "exported_snapshots", "id", "root_name_width", "root_buffer_max_size_bytes", "row_max_size_bytes", "namespace_depth_max", "table_formats")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class MaximumVersionAgeMillisOverridesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class ExportedSnapshotsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MAJOR_VERSION_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_NAME_MAX_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAME_MAX_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILE_PATH_MAX_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    NODE_FILE_MAX_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_VERSION_AGE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_VERSIONS_TO_KEEP_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_VERSION_AGE_MILLIS_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    EXPORTED_SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_NAME_WIDTH_FIELD_NUMBER: _ClassVar[int]
    ROOT_BUFFER_MAX_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROW_MAX_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_DEPTH_MAX_FIELD_NUMBER: _ClassVar[int]
    TABLE_FORMATS_FIELD_NUMBER: _ClassVar[int]
    major_version: int
    order: int
    namespace_name_max_size_bytes: int
    table_name_max_size_bytes: int
    file_path_max_size_bytes: int
    node_file_max_size_bytes: int
    properties: _containers.ScalarMap[str, str]
    maximum_version_age_millis: int
    minimum_versions_to_keep: int
    maximum_version_age_millis_overrides: _containers.ScalarMap[int, int]
    exported_snapshots: _containers.ScalarMap[str, str]
    id: str
    root_name_width: int
    root_buffer_max_size_bytes: int
    row_max_size_bytes: int
    namespace_depth_max: int
    table_formats: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, major_version: _Optional[int] = ..., order: _Optional[int] = ..., namespace_name_max_size_bytes: _Optional[int] = ..., table_name_max_size_bytes: _Optional[int] = ..., file_path_max_size_bytes: _Optional[int] = ..., node_file_max_size_bytes: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., maximum_version_age_millis: _Optional[int] = ..., minimum_versions_to_keep: _Optional[int] = ..., maximum_version_age_millis_overrides: _Optional[_Mapping[int, int]] = ..., exported_snapshots: _Optional[_Mapping[str, str]] = ..., id: _Optional[str] = ..., root_name_width: _Optional[int] = ..., root_buffer_max_size_bytes: _Optional[int] = ..., row_max_size_bytes: _Optional[int] = ..., namespace_depth_max: _Optional[int] = ..., table_formats: _Optional[_Iterable[str]] = ...) -> None: ...

class Transaction(_message.Message):
    __slots__ = ("id", "base_version", "isolation", "outcome", "keys", "properties")
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
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    id: str
    base_version: int
    isolation: Isolation
    outcome: Outcome
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    properties: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., base_version: _Optional[int] = ..., isolation: _Optional[_Union[Isolation, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., keys: _Optional[_Iterable[bytes]] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Transactions(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[Transaction]
    def __init__(self, transactions: _Optional[_Iterable[_Union[Transaction, _Mapping]]] = ...) -> None: ...

class FileRef(_message.Message):
    __slots__ = ("path", "size", "crc")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    crc: int
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ..., crc: _Optional[int] = ...) -> None: ...

class Namespace(_message.Message):
    __slots__ = ("id", "pointer_version", "properties", "created_at_millis")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    POINTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    id: str
    pointer_version: int
    properties: _containers.ScalarMap[str, str]
    created_at_millis: int
    def __init__(self, id: _Optional[str] = ..., pointer_version: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., created_at_millis: _Optional[int] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("path", "transaction", "sha256", "size", "naming")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    NAMING_FIELD_NUMBER: _ClassVar[int]
    path: str
    transaction: str
    sha256: bytes
    size: int
    naming: str
    def __init__(self, path: _Optional[str] = ..., transaction: _Optional[str] = ..., sha256: _Optional[bytes] = ..., size: _Optional[int] = ..., naming: _Optional[str] = ...) -> None: ...

class IcebergMetadata(_message.Message):
    __slots__ = ("location", "previous_location", "uuid")
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_LOCATION_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    location: str
    previous_location: str
    uuid: str
    def __init__(self, location: _Optional[str] = ..., previous_location: _Optional[str] = ..., uuid: _Optional[str] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("id", "type", "format", "location", "pointer_version", "table_version", "logical_version", "manifest", "iceberg", "properties", "created_at_millis", "source", "earlier")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SourceEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    POINTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOGICAL_VERSION_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    ICEBERG_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: TableType
    format: str
    location: str
    pointer_version: int
    table_version: int
    logical_version: int
    manifest: Manifest
    iceberg: IcebergMetadata
    properties: _containers.ScalarMap[str, str]
    created_at_millis: int
    source: _containers.ScalarMap[str, str]
    earlier: _containers.RepeatedCompositeFieldContainer[Manifest]
    def __init__(self, id: _Optional[str] = ..., type: _Optional[_Union[TableType, str]] = ..., format: _Optional[str] = ..., location: _Optional[str] = ..., pointer_version: _Optional[int] = ..., table_version: _Optional[int] = ..., logical_version: _Optional[int] = ..., manifest: _Optional[_Union[Manifest, _Mapping]] = ..., iceberg: _Optional[_Union[IcebergMetadata, _Mapping]] = ..., properties: _Optional[_Mapping[str, str]] = ..., created_at_millis: _Optional[int] = ..., source: _Optional[_Mapping[str, str]] = ..., earlier: _Optional[_Iterable[_Union[Manifest, _Mapping]]] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("id", "pointer_version", "metadata_location", "sql", "dialect", "properties", "created_at_millis", "default_namespace")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    POINTER_VERSION_FIELD_NUMBER: _ClassVar[int]
    METADATA_LOCATION_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    id: str
    pointer_version: int
    metadata_location: str
    sql: str
    dialect: str
    properties: _containers.ScalarMap[str, str]
    created_at_millis: int
    default_namespace: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., pointer_version: _Optional[int] = ..., metadata_location: _Optional[str] = ..., sql: _Optional[str] = ..., dialect: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., created_at_millis: _Optional[int] = ..., default_namespace: _Optional[_Iterable[str]] = ...) -> None: ...

class ObjectName(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    def __init__(self, key: _Optional[bytes] = ...) -> None: ...

class TransactionOutcome(_message.Message):
    __slots__ = ("version", "outcome", "decided_at_millis", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    version: int
    outcome: Outcome
    decided_at_millis: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, version: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., decided_at_millis: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class StreamEpoch(_message.Message):
    __slots__ = ("owner", "epoch", "version", "transaction", "retired")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    owner: str
    epoch: int
    version: int
    transaction: str
    retired: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, owner: _Optional[str] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ..., transaction: _Optional[str] = ..., retired: _Optional[_Iterable[str]] = ...) -> None: ...

class Tag(_message.Message):
    __slots__ = ("version", "created_at_millis", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    version: int
    created_at_millis: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, version: _Optional[int] = ..., created_at_millis: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Export(_message.Message):
    __slots__ = ("version", "location", "mode", "created_at_millis", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    version: int
    location: str
    mode: str
    created_at_millis: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, version: _Optional[int] = ..., location: _Optional[str] = ..., mode: _Optional[str] = ..., created_at_millis: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Trash(_message.Message):
    __slots__ = ("location", "dropped_in_version", "dropped_at_millis", "key", "row")
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    DROPPED_IN_VERSION_FIELD_NUMBER: _ClassVar[int]
    DROPPED_AT_MILLIS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    location: str
    dropped_in_version: int
    dropped_at_millis: int
    key: bytes
    row: bytes
    def __init__(self, location: _Optional[str] = ..., dropped_in_version: _Optional[int] = ..., dropped_at_millis: _Optional[int] = ..., key: _Optional[bytes] = ..., row: _Optional[bytes] = ...) -> None: ...

class Retention(_message.Message):
    __slots__ = ("maximum_age_millis", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MAXIMUM_AGE_MILLIS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    maximum_age_millis: int
    properties: _containers.ScalarMap[str, str]
    def __init__(self, maximum_age_millis: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...
