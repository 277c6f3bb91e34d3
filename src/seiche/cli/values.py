"""Values of rows, as programs and as people read them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seiche.cli.output import as_text

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["plain", "rows_of", "shown"]


def rows_of(found: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as values of Python. What Python has no value for, such as a time after the year 9999, is text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two entries of a map with one key, the last is shown
        columns = [[_value(one) for one in column] for column in found.columns]
    return [dict(zip(found.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _value(scalar: pa.Scalar) -> Any:
    import pyarrow as pa

    try:
        return scalar.as_py(maps_as_pydicts="lossy")
    except (ArithmeticError, ValueError, LookupError, TypeError, pa.ArrowException):
        pass  # it, or something inside of it, or a key that Python cannot look up
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(one) for name, one in scalar.items()}
    if isinstance(scalar, pa.MapScalar):
        return [(_value(one[0]), _value(one[1])) for one in scalar.values]
    if isinstance(scalar, pa.ListScalar):
        return [_value(one) for one in scalar.values]
    return _spelled(scalar)


def _spelled(scalar: pa.Scalar) -> str:
    """A time, day or duration that is none in Python: too far away, too fine, or in a zone that nobody knows."""
    import pyarrow as pa

    if getattr(scalar.type, "unit", "") == "ns":  # never far away
        try:
            return str(scalar.cast(pa.string()))
        except pa.ArrowException:
            pass  # a zone that Arrow does not know
    return f"{scalar.value} ({scalar.type})"


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
