"""Texts of JSON that native code would store as something else.

It reads more than JSON, and keeps less: not a number becomes null, and so do numbers beyond a float; a whole number of
more than 64 bits becomes the float beside it; half of a surrogate pair becomes its own spelling. All in silence.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from seiche.errors import InvalidInput

__all__ = ["check_json"]

# What to look for. Whatever has it, be it in a text inside of the JSON, is read once more by rules without exceptions.
_SUSPICIOUS: Final = (
    r"^\s*$"
    r"|(?i:(?:^|[\[,:\s])[+-]?(?:nan|inf))"
    r"|[0-9]{19}"
    r"|[eE][+-]?[0-9]{3}"
    r"|\[\s*,"
    r"|,\s*[,\]}]"
    r"|\\u[dD][89a-fA-F]"
)
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_SHOWN: Final = 60


def check_json(values: pa.Array, name: str) -> None:
    """`InvalidInput` if there are texts in columns of JSON, or inside of this one, that would be stored as others."""
    for texts in _texts_in(values):
        for text in texts.filter(pc.match_substring_regex(texts, _SUSPICIOUS)).to_pylist():
            try:
                _read(text)
            except (ValueError, RecursionError) as error:
                shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
                raise InvalidInput(
                    f"column {name!r} has {shown!r}, which cannot be kept as JSON: {error}",
                    remedy="Give JSON with whole numbers of at most 64 bits and finite floats, or a column of texts.",
                    column=name,
                ) from error


def _texts_in(values: pa.Array) -> Iterator[pa.Array]:
    """The texts of each column of JSON in there, without the null ones."""
    kind = values.type
    if isinstance(kind, pa.JsonType):
        yield values.storage.drop_null()
    elif isinstance(values, pa.StructArray):
        for number in range(kind.num_fields):
            yield from _texts_in(values.field(number))
    elif isinstance(values, pa.MapArray):
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        yield from _texts_in(values.items.slice(begin, end - begin))
    elif isinstance(values, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray) and _has_json(kind):
        yield from _texts_in(values.flatten())


def _has_json(kind: pa.DataType) -> bool:
    inside = (kind.field(number).type for number in range(kind.num_fields))
    return isinstance(kind, pa.JsonType) or any(map(_has_json, inside))


def _read(text: str) -> None:
    """`ValueError` if it is no JSON, or JSON of which something would change."""
    read = json.loads(text, parse_constant=_no_number, parse_int=_whole, parse_float=_float)
    json.dumps(read, ensure_ascii=False).encode()  # half of a pair cannot be


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _whole(digits: str) -> Any:
    if not _LEAST <= (number := int(digits)) <= _MOST:
        raise ValueError(f"{digits} has more than 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")) or (number == 0 and digits.lower().partition("e")[0].strip("-0.")):
        raise ValueError(f"{digits} is beyond a float")
    return number
