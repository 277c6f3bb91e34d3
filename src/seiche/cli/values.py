"""Values of rows, as programs and as people read them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from seiche.cli.output import as_text

__all__ = ["plain", "shown"]


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
