"""The lake's definition: what was fixed when it was created, and its settings."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from google.protobuf.message import DecodeError

from seiche.core.runtime import Runtime
from seiche.errors import Corrupt, InvalidInput
from seiche.lake.format_pb2 import LakehouseDef
from seiche.lake.tree.draft import Shape
from seiche.lake.tree.names import WIDTH
from seiche.lake.tree.pointer import Pointer, fetch, pointer, target
from seiche.store.base import Store

__all__ = ["MAJOR_VERSION", "LakeDefinition", "load", "stow"]

MAJOR_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDefinition:
    """A lake's definition with every default filled in.

    Name sizes and depth bound the keys of the tree; the order and sizes of nodes may change from one root to the
    next, since old nodes are read whatever their size. Fields of a newer release survive a rewrite (`origin`).
    """

    id: str
    order: int = 128
    namespace_name_max_size_bytes: int = 100
    table_name_max_size_bytes: int = 100
    file_path_max_size_bytes: int = 200
    node_file_max_size_bytes: int = 1 << 20
    root_buffer_max_size_bytes: int = 128 << 10
    row_max_size_bytes: int = 4096
    namespace_depth_max: int = 16
    root_name_width: int = WIDTH
    maximum_version_age_millis: int = 7 * 24 * 3600 * 1000
    minimum_versions_to_keep: int = 3
    properties: Mapping[str, str] = field(default_factory=dict)
    maximum_version_age_millis_overrides: Mapping[int, int] = field(default_factory=dict)
    exported_snapshots: Mapping[str, str] = field(default_factory=dict)
    table_formats: tuple[str, ...] = ("lance", "iceberg")
    origin: bytes = field(default=b"", repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.root_name_width != WIDTH:
            raise InvalidInput(
                f"roots of {self.root_name_width} digits are not supported, only {WIDTH}",
                remedy=f"Create the lake with names of {WIDTH} digits; they grow by themselves.",
            )
        self.shape  # noqa: B018  # refuses limits that cannot work

    @property
    def shape(self) -> Shape:
        """The limits that the tree keeps."""
        return Shape(self.order, self.node_file_max_size_bytes, self.root_buffer_max_size_bytes)

    def encode(self) -> bytes:
        """The bytes of the definition file."""
        message = LakehouseDef.FromString(self.origin)
        message.major_version = MAJOR_VERSION
        for name in _SCALARS:
            setattr(message, name, getattr(self, name))
        for name in _MAPS:
            message.ClearField(name)
            getattr(message, name).update(getattr(self, name))
        message.table_formats[:] = self.table_formats
        return message.SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, data: bytes, path: str) -> "LakeDefinition":
        """The definition in `data`, read from `path`, with defaults for all that it does not say."""
        try:
            message = LakehouseDef.FromString(data)
            if message.major_version > MAJOR_VERSION:
                raise ValueError(f"it needs format {message.major_version}, this release knows {MAJOR_VERSION}")
            given: dict[str, Any] = {
                name: getattr(message, name) for name in _SCALARS if name == "id" or message.HasField(name)
            }
            given |= {name: dict(getattr(message, name)) for name in _MAPS}
            if message.table_formats:
                given["table_formats"] = tuple(message.table_formats)
            return cls(**given, origin=data)
        except (DecodeError, ValueError, InvalidInput) as error:
            raise Corrupt(
                f"{path} is not a lakehouse definition that can be used: {error}",
                remedy="Use a newer release if one wrote this lake; otherwise restore the file from a copy.",
                path=path,
            ) from error


def stow(definition: LakeDefinition, runtime: Runtime) -> tuple[Pointer, dict[str, bytes]]:
    """The pointer for a root to a new file with `definition`, and that file to be written first."""
    data = definition.encode()
    path = f"_lakehouse_def_{runtime.uuid()}.binpb"
    return pointer(path, zlib.crc32(data)), {path: data}


def load(store: Store, where: Pointer) -> LakeDefinition:
    """The definition that a root points to."""
    return LakeDefinition.decode(fetch(store, where), target(where)[0])


_MAPS: Final = ("properties", "maximum_version_age_millis_overrides", "exported_snapshots")
_SCALARS: Final = (
    "id",
    "order",
    "namespace_name_max_size_bytes",
    "table_name_max_size_bytes",
    "file_path_max_size_bytes",
    "node_file_max_size_bytes",
    "root_buffer_max_size_bytes",
    "row_max_size_bytes",
    "namespace_depth_max",
    "root_name_width",
    "maximum_version_age_millis",
    "minimum_versions_to_keep",
)
