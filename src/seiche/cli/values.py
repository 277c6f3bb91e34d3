"""Values of rows, as programs and as people read them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from seiche.cli.output import as_text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

__all__ = ["in_zone", "plain", "shown"]


def plain(value: Any) -> Any:
    """A value as JSON has it: rows and maps are objects, bytes are in hex."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    pairs = value.items() if isinstance(value, Mapping) else _pairs(value)
    if pairs is not None:
        return {key if isinstance(key, str) else as_text(key): plain(one) for key, one in pairs}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [plain(one) for one in value]
    return value.hex() if isinstance(value, bytes | bytearray) else value


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """The entries of a map as Arrow gives it: a list of pairs, unless it is empty."""
    return value if isinstance(value, list) and value and all(type(one) is tuple for one in value) else None


def shown(value: Any) -> str:
    """A value in a cell of a table: what is nested is in JSON, times of a zone are as they are there."""
    if value is None:
        return "NULL"
    made = plain(value)
    if isinstance(made, datetime):
        return str(made.replace(tzinfo=None))
    return json.dumps(made, ensure_ascii=False, default=as_text) if isinstance(made, dict | list) else str(made)


def in_zone(value: Any, kind: "DataType", zone: str) -> Any:
    """A value of Spark with its times in a zone of one's choice.

    Spark gives times of no zone of their own in that of this machine, and does not say so; its SQL takes them for times
    of the session, which may be another.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType, TimestampType

    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return value.astimezone(ZoneInfo(zone))
    if isinstance(kind, ArrayType):
        return [in_zone(one, kind.elementType, zone) for one in value]
    if isinstance(kind, MapType):
        when = isinstance(kind.keyType, TimestampType)  # a key that is nested stays as it is: it must be hashable
        return {
            in_zone(key, kind.keyType, zone) if when else key: in_zone(one, kind.valueType, zone)
            for key, one in value.items()
        }
    if isinstance(kind, StructType):
        return {field.name: in_zone(one, field.dataType, zone) for field, one in zip(kind, value, strict=True)}
    return value
