"""Rows of the tree: what stands behind its keys, as frozen values.

A row's bytes are one byte for its kind, one for the version of that kind's format, and a protobuf message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar, cast

from google.protobuf.message import DecodeError

from seiche.errors import Corrupt
from seiche.lake import format_pb2 as pb
from seiche.lake.objects.part import Part

__all__ = [
    "FORMAT",
    "REFERENCE",
    "ExportRow",
    "IcebergMetadata",
    "Manifest",
    "NamespaceRow",
    "ObjectNameRow",
    "RetentionRow",
    "Row",
    "StreamRow",
    "TableRow",
    "TableType",
    "TagRow",
    "TransactionRow",
    "TrashRow",
    "ViewRow",
    "decode",
    "encode",
    "encode_table",
    "kind_of",
]

TableType: TypeAlias = Literal["managed", "external", "federated"]

FORMAT: Final = 1
REFERENCE: Final = b"@"
_FORMAT: Final = bytes([FORMAT])


def _no_text() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Row(Part):
    """Anything that stands behind a key."""

    KIND: ClassVar[bytes]


@dataclass(frozen=True, kw_only=True)
class NamespaceRow(Row):
    """A namespace. `pointer_version` is raised once by each commit that changes the row, as in tables and views."""

    KIND = b"N"
    MESSAGE = pb.Namespace

    id: str
    pointer_version: int = 1
    properties: Mapping[str, str] = field(default_factory=_no_text)
    created_at_millis: int = 0


@dataclass(frozen=True, kw_only=True)
class Manifest(Part):
    """A Lance manifest that the lake decided on, by everything that tells it from a foreign one."""

    MESSAGE = pb.Manifest

    path: str
    transaction: str
    sha256: bytes
    size: int
    naming: str = "V2"


@dataclass(frozen=True, kw_only=True)
class IcebergMetadata(Part):
    """The Iceberg metadata file that is current."""

    MESSAGE = pb.IcebergMetadata

    location: str
    previous_location: str = ""
    uuid: str = ""


@dataclass(frozen=True, kw_only=True)
class TableRow(Row):
    """A table. Its id is for life, its name is the key it stands under.

    `table_version` is the table's own version, `logical_version` is raised by changes of content only. A managed
    table's `location` is relative to the lake, so that a lake can be copied; any other's is a URI.
    """

    KIND = b"T"
    MESSAGE = pb.Table
    NESTED: ClassVar = {"manifest": Manifest, "iceberg": IcebergMetadata, "earlier": Manifest}
    CHOICES: ClassVar = {"type": ("managed", "external", "federated")}

    id: str
    type: TableType = "managed"
    format: str = "lance"
    location: str
    pointer_version: int = 1
    table_version: int = 0
    logical_version: int = 0
    manifest: Manifest | None = None
    iceberg: IcebergMetadata | None = None
    properties: Mapping[str, str] = field(default_factory=_no_text)
    created_at_millis: int = 0
    source: Mapping[str, str] = field(default_factory=_no_text)
    # Manifests of versions that the same root made before that of `manifest`, ascending.
    earlier: tuple[Manifest, ...] = ()

    def is_own(self, format: str) -> bool:
        """Whether it is a table of this format that the lake itself keeps: one whose versions it decides."""
        return self.type == "managed" and self.format == format


@dataclass(frozen=True, kw_only=True)
class ViewRow(Row):
    """A view: Iceberg view metadata, or plain SQL with its dialect."""

    KIND = b"V"
    MESSAGE = pb.View

    id: str
    pointer_version: int = 1
    metadata_location: str = ""
    sql: str = ""
    dialect: str = ""
    properties: Mapping[str, str] = field(default_factory=_no_text)
    created_at_millis: int = 0
    default_namespace: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ObjectNameRow(Row):
    """Behind an object's id: the key that it stands under now."""

    KIND = b"D"
    MESSAGE = pb.ObjectName

    key: bytes


@dataclass(frozen=True, kw_only=True)
class TransactionRow(Row):
    """Behind a transaction's id: the version that decided it, and how."""

    KIND = b"E"
    MESSAGE = pb.TransactionOutcome
    CHOICES: ClassVar = {"outcome": ("committed", "aborted")}

    version: int
    outcome: Literal["committed", "aborted"] = "committed"
    decided_at_millis: int = 0
    properties: Mapping[str, str] = field(default_factory=_no_text)


@dataclass(frozen=True, kw_only=True)
class StreamRow(Row):
    """Behind a stream's name: the last epoch that was committed, by which run, where."""

    KIND = b"F"
    MESSAGE = pb.StreamEpoch

    owner: str
    epoch: int
    version: int
    transaction: str
    # Earlier owners, the latest last: whoever comes back as one of them is refused.
    retired: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TagRow(Row):
    """Behind a tag's name: the version it stands for, which is kept as long as the tag is."""

    KIND = b"G"
    MESSAGE = pb.Tag

    version: int
    created_at_millis: int = 0
    properties: Mapping[str, str] = field(default_factory=_no_text)


@dataclass(frozen=True, kw_only=True)
class ExportRow(Row):
    """Behind an export's name: what was exported, where to, how completely."""

    KIND = b"H"
    MESSAGE = pb.Export

    version: int
    location: str
    mode: str
    created_at_millis: int = 0
    properties: Mapping[str, str] = field(default_factory=_no_text)


@dataclass(frozen=True, kw_only=True)
class TrashRow(Row):
    """Something dropped: where its files are, and its last row, so that it can be brought back while they exist."""

    KIND = b"I"
    MESSAGE = pb.Trash

    location: str
    dropped_in_version: int
    dropped_at_millis: int = 0
    key: bytes = b""
    row: bytes = b""


@dataclass(frozen=True, kw_only=True)
class RetentionRow(Row):
    """A rule about what is kept."""

    KIND = b"J"
    MESSAGE = pb.Retention

    maximum_age_millis: int
    properties: Mapping[str, str] = field(default_factory=_no_text)


_KINDS: Final[Mapping[bytes, type[Row]]] = {row.KIND: row for row in Row.__subclasses__()}

R = TypeVar("R", bound=Row)


def encode(row: Row) -> bytes:
    """The bytes of a row."""
    return row.KIND + _FORMAT + row.to_message().SerializeToString(deterministic=True)


def encode_table(row: "TableRow") -> bytes:
    """The bytes of a table's row, which the next commit to the table need not decode."""
    value = encode(row)
    if len(_encoded) >= _MOST_ENCODED:
        _encoded.clear()
    _encoded[value] = row
    return value


def kind_of(value: bytes) -> type[Row]:
    """What kind of row `value` is, without reading the rest of it; a reference to a file says what is in the file."""
    row = _KINDS.get(value[2:3] if value.startswith(REFERENCE) else value[:1])
    if row is None:
        raise _unreadable(value, "its kind is unknown")
    return row


def decode(value: bytes, expected: type[R]) -> R:
    """The row in `value`; `Corrupt` if it is another kind than `expected` or cannot be read by this release."""
    known = _encoded.get(value)
    if isinstance(known, expected):
        return known
    return cast(R, _decoded(value, cast(Any, expected)))


@lru_cache(maxsize=4096)
def _decoded(value: bytes, expected: type[Row]) -> Row:
    if value.startswith(REFERENCE):
        raise _unreadable(value, "it is a reference to a definition file, which has to be read first")
    row = kind_of(value)
    if not issubclass(row, expected):
        raise _unreadable(value, f"it is a {row.__name__}, not a {expected.__name__}")
    if len(value) < 2 or value[1] > FORMAT:
        raise _unreadable(value, f"its format {value[1:2].hex()} is newer than {FORMAT}")
    try:
        return row.from_message(row.MESSAGE.FromString(value[2:]))
    except (DecodeError, LookupError) as error:
        raise _unreadable(value, str(error)) from error


def _unreadable(value: bytes, why: str) -> Corrupt:
    return Corrupt(
        f"a row of {len(value)} bytes cannot be read: {why}",
        remedy="Use a newer release if one wrote this lake; otherwise run `seiche fsck`.",
    )


_MOST_ENCODED: Final = 1024
_encoded: Final[dict[bytes, Row]] = {}
