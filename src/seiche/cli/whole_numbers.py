"""Whole numbers that a column of floats would round. Arrow makes one of whole numbers that stand beside fractions, or
have more than 64 bits, and drops their last digits in silence.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FIRST_ROUNDED", "has_floats", "require_whole_csv", "require_whole_json"]

# Below it, a float is every whole number.
FIRST_ROUNDED = float(1 << 53)
_LONG_TEXT = r"^\s*[+-]?\d{16,}\s*$"
# Not the digits behind a point, of which most floats have as many. What is in quotes is found too, and looked at again.
_LONG = re.compile(rb"(?<![\d.])\d{16}")
_SPACE = re.compile(r"\s*")
_SHOWN = 60


def require_whole_csv(path: Path, name: str, texts: pa.Array) -> None:
    """`InvalidInput` if `texts`, of a column that is read as floats, have a whole number that loses digits."""
    import pyarrow.compute as pc

    for text in texts.filter(pc.match_substring_regex(texts, _LONG_TEXT)).to_pylist():
        _require_digits(path, name, Decimal(text.strip()))


def has_floats(kind: pa.DataType) -> bool:
    """Whether a column that JSON was found to have is of floats, or has such inside."""
    import pyarrow.types as kinds

    return bool(kinds.is_floating(kind)) or any(has_floats(kind.field(at).type) for at in range(kind.num_fields))


def require_whole_json(path: Path, block: bytes, columns: pa.Schema) -> None:
    """`InvalidInput` if objects have a whole number, where `columns` has floats, that loses digits."""
    if not _LONG.search(block):
        return
    floats = {field.name: field.type for field in columns if has_floats(field.type)}
    # Numbers are kept as they are written, and so tell what they were.
    decoder = json.JSONDecoder(parse_int=Decimal, strict=False)
    text = block.decode("utf-8-sig", "replace")
    at = _after_space(text, 0)
    while at < len(text):
        try:
            row, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise InvalidInput(
                f"{path} cannot be read: {error}", remedy='Write one object in each line, as in {"id": 1}.'
            ) from error
        for name, kind in floats.items():
            _require_inside(path, name, row.get(name), kind)
        at = _after_space(text, at)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _require_inside(path: Path, name: str, value: Any, kind: pa.DataType) -> None:
    if isinstance(value, Decimal):
        if not kind.num_fields:
            _require_digits(path, name, value)
    elif isinstance(value, list):
        for one in value:
            _require_inside(path, name, one, kind.value_type)
    elif isinstance(value, dict):
        for field in kind:
            if has_floats(field.type):
                _require_inside(path, name, value.get(field.name), field.type)


def _require_digits(path: Path, name: str, number: Decimal) -> None:
    if Decimal(repr(float(number))) != number:
        raise InvalidInput(
            f"column {name!r} of {path} has the whole number {str(number)[:_SHOWN]}, of which a float would keep only"
            " the first digits; with the other numbers of the column, it is one of floats",
            remedy="Make the table with --schema and a type that holds all of them, such as uint64 or decimal(38,2)"
            " (float64, if they may be rounded), and then use 'seiche append'.",
            column=name,
        )
