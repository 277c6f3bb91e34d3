"""Avro files written anew with some of their values changed, and everything else as it was.

Iceberg's manifests name files by address, and an export has other addresses. PyIceberg's models would do for tables
that PyIceberg wrote; what other engines put in beside would be lost. So the file is taken by its own schema.
"""

import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeAlias

from seiche.errors import Corrupt, InvalidInput

__all__ = ["Record", "rewritten"]

Record: TypeAlias = dict[str, Any]
Schema: TypeAlias = Any

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
# Deflate without a header or checksum, as zlib is told to read and write it.
_BARE: Final = -15
_FIXED: Final = {"float": "<f", "double": "<d"}
_PLAIN: Final = ("null", "boolean", "int", "long", "enum", "float", "double", "bytes", "string")
_COMPOSED: Final = ("fixed", "record", "array", "map")


def rewritten(data: bytes, change: Callable[[Record], Record], path: str) -> bytes:
    """The file with `change` made to each of its records; `Corrupt` if it is no Avro file."""
    try:
        return _rewritten(_Reader(data), change, path)
    except (IndexError, struct.error, zlib.error, ValueError, KeyError, TypeError) as error:
        raise Corrupt(
            f"{path} is not an Avro file that can be read: {error!r}",
            remedy="Restore it from a copy of the lake, or leave the table out.",
            path=path,
        ) from error


def _rewritten(reader: "_Reader", change: Callable[[Record], Record], path: str) -> bytes:
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin like one")
    header = dict(reader.entries(reader.bytes))
    sync = reader.take(_SYNC)
    codec = header.get("avro.codec", b"null").decode()
    if codec not in ("null", "deflate"):
        raise InvalidInput(
            f"{path} is compressed with {codec}, which is not known here",
            remedy="Rewrite the table's manifests first, or leave the table out of the export.",
            path=path,
        )
    names: dict[str, Schema] = {}
    schema = _named(json.loads(header["avro.schema"]), names)
    out = bytearray(_MAGIC)
    writer = _Writer(out, names)
    writer.long(len(header))
    for name, value in header.items():
        writer.bytes(name.encode())
        writer.bytes(value)
    writer.long(0)
    out += sync
    while not reader.ended:
        count, block = reader.long(), reader.bytes()
        inside = _Reader(_unpacked(block, codec), names)
        made = bytearray()
        for _ in range(count):
            _Writer(made, names).value(schema, change(inside.value(schema)))
        if reader.take(_SYNC) != sync:
            raise ValueError("a block does not end as it must")
        writer.long(count)
        writer.bytes(_packed(bytes(made), codec))
        out += sync
    return bytes(out)


def _unpacked(block: bytes, codec: str) -> bytes:
    return zlib.decompress(block, _BARE) if codec == "deflate" else block


def _packed(block: bytes, codec: str) -> bytes:
    if codec != "deflate":
        return block
    packer = zlib.compressobj(9, zlib.DEFLATED, _BARE)
    return packer.compress(block) + packer.flush()


def _named(schema: Schema, names: dict[str, Schema]) -> Schema:
    """The schema, with all types in it that have a name taken down: they may be used again by that."""
    if isinstance(schema, list):
        return [_named(one, names) for one in schema]
    if isinstance(schema, dict):
        kind = schema["type"]
        if kind in ("record", "fixed", "enum"):
            names[schema["name"]] = schema
        for field in schema.get("fields", ()):
            _named(field["type"], names)
        for inner in ("items", "values"):
            if inner in schema:
                _named(schema[inner], names)
    return schema


class _Reader:
    """Values from bytes, by their schema. What a union holds is a pair: which of its types, and the value."""

    def __init__(self, data: bytes, names: dict[str, Schema] | None = None) -> None:
        self._data = data
        self._at = 0
        self._names = names or {}

    @property
    def ended(self) -> bool:
        return self._at >= len(self._data)

    def take(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._data):
            raise ValueError("it ends too soon")
        found = self._data[self._at : self._at + length]
        self._at += length
        return found

    def long(self) -> int:
        shift = found = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7

    def bytes(self) -> bytes:
        return self.take(self.long())

    def entries(self, value: Callable[[], Any]) -> Iterator[tuple[str, Any]]:
        """The entries of a map."""
        for _ in self._blocks():
            yield self.bytes().decode(), value()

    def value(self, schema: Schema) -> Any:
        if isinstance(schema, list):
            which = self.long()
            return which, self.value(schema[which])
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _COMPOSED:
            return self._composed(kind, schema)
        if kind in _PLAIN:
            return self._plain(kind)
        return self.value(self._names[kind] if isinstance(kind, str) else kind)

    def _plain(self, kind: str) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self.take(1)
            case "int" | "long" | "enum":
                return self.long()
            case "float" | "double":
                return struct.unpack(_FIXED[kind], self.take(struct.calcsize(_FIXED[kind])))[0]
        return self.bytes().decode() if kind == "string" else self.bytes()

    def _composed(self, kind: str, schema: Schema) -> Any:
        match kind:
            case "fixed":
                return self.take(schema["size"])
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
            case "array":
                return [self.value(schema["items"]) for _ in self._blocks()]
        return dict(self.entries(lambda: self.value(schema["values"])))

    def _blocks(self) -> Iterator[None]:
        while count := self.long():
            if count < 0:
                self.long()
            for _ in range(abs(count)):
                yield


class _Writer:
    """Writes what `_Reader` reads."""

    def __init__(self, out: bytearray, names: dict[str, Schema]) -> None:
        self._out = out
        self._names = names

    def long(self, value: int) -> None:
        left = (value << 1) ^ (value >> 63)
        while left & ~0x7F:
            self._out.append(left & 0x7F | 0x80)
            left >>= 7
        self._out.append(left)

    def bytes(self, value: bytes) -> None:
        self.long(len(value))
        self._out += value

    def value(self, schema: Schema, value: Any) -> None:
        if isinstance(schema, list):
            self.long(value[0])
            self.value(schema[value[0]], value[1])
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in _COMPOSED:
            self._composed(kind, schema, value)
        elif kind in _PLAIN:
            self._plain(kind, value)
        else:
            self.value(self._names[kind] if isinstance(kind, str) else kind, value)

    def _plain(self, kind: str, value: Any) -> None:
        match kind:
            case "null":
                pass
            case "boolean":
                self._out += value
            case "int" | "long" | "enum":
                self.long(value)
            case "float" | "double":
                self._out += struct.pack(_FIXED[kind], value)
            case _:
                self.bytes(value.encode() if kind == "string" else value)

    def _composed(self, kind: str, schema: Schema, value: Any) -> None:
        match kind:
            case "fixed":
                self._out += value
            case "record":
                for field in schema["fields"]:
                    self.value(field["type"], value[field["name"]])
            case "array":
                self._block(value, lambda one: self.value(schema["items"], one))
            case _:
                self._block(value.items(), lambda one: self._entry(schema["values"], *one))

    def _entry(self, schema: Schema, name: str, value: Any) -> None:
        self.bytes(name.encode())
        self.value(schema, value)

    def _block(self, values: Collection[Any], write: Callable[[Any], None]) -> None:
        """Items in one block, and the mark that no further one follows."""
        if values:
            self.long(len(values))
            for one in values:
                write(one)
        self.long(0)
