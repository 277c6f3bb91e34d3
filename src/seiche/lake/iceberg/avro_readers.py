"""How Avro files are to be read, worked out once for each kind of file and not for each file.

A manifest has a few entries, behind a description of all their fields. PyIceberg reads that description into models and
works out a reader for them, for each manifest anew: nine tenths of the time that a small one takes, though all of a
table have the same.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from pyiceberg.avro import file as avro_file
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

__all__ = ["keep_readers"]

# A description differs by partition spec and by who wrote it. A long one is not worth its memory.
_KINDS: Final = 128
_LONGEST: Final = 1 << 16


class _Itself:
    """A schema that is the same as another only if it is that one: to compare them takes longer than to read one."""

    __slots__ = ("schema",)

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.schema is other.schema

    def __hash__(self) -> int:
        return id(self.schema)


def keep_readers() -> None:
    """Let PyIceberg work out each reader once, in this process, whoever asks. Readers and schemas keep no state."""
    avro_file.AvroFileHeader.get_schema = _schema  # type: ignore[assignment, method-assign]  # no other way in
    avro_file.resolve_reader = _reader  # type: ignore[attr-defined, assignment]
    avro_file.construct_reader = _plain_reader  # type: ignore[attr-defined, assignment]


def _schema(header: avro_file.AvroFileHeader) -> Schema:
    text = header.meta.get("avro.schema")
    if text is None:
        raise ValueError("No schema found in Avro file headers")
    return _read(text) if len(text) > _LONGEST else _known(text)


def _read(text: str) -> Schema:
    return AvroSchemaConversion().avro_to_iceberg(json.loads(text))


_known = lru_cache(_KINDS)(_read)


def _reader(
    file_schema: Schema, read_schema: Schema, read_types: Mapping[int, Any] = {}, read_enums: Mapping[int, Any] = {}
) -> Reader:
    as_types, as_enums = tuple(read_types.items()), tuple(read_enums.items())
    return _resolved(_Itself(file_schema), _Itself(read_schema), as_types, as_enums)


def _plain_reader(file_schema: Schema, read_types: Mapping[int, Any] = {}) -> Reader:
    return _reader(file_schema, file_schema, read_types)


@lru_cache(_KINDS)
def _resolved(
    file_schema: _Itself, read_schema: _Itself, types: tuple[tuple[int, Any], ...], enums: tuple[tuple[int, Any], ...]
) -> Reader:
    return resolve_reader(file_schema.schema, read_schema.schema, dict(types), dict(enums))
