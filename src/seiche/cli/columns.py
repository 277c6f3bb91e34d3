"""Columns of a table, written in a line: `id:int64!,name:string,tags:list<string>,vector:float32[8]`."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["parse_columns"]

_REMEDY = "Write columns as name:type with commas between; types are Arrow's, such as int64, string, timestamp[us]."
_LIST = re.compile(r"list<(.+)>")
_FIXED = re.compile(r"(.+)\[(\d+)\]")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SHOWN = 60
_OPEN, _CLOSED = "<([", ">)]"


def parse_columns(text: str) -> "pa.Schema":
    """The columns that a line names. A type that ends in `!` has no nulls; `float32[8]` is a vector of eight."""
    import pyarrow as pa

    fields = []
    for one in _split(text):
        name, mark, kind = one.partition(":")
        name, kind = name.strip(), kind.strip()
        if not name or not mark:
            raise InvalidInput(f"{one!r} is not a column", remedy=_REMEDY)
        try:
            fields.append(pa.field(name, _type(kind.removesuffix("!"), one), nullable=not kind.endswith("!")))
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{one!r} is not valid Unicode", remedy="Write it in UTF-8.") from error
    return pa.schema(fields)


def _begun(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are not inside brackets."""
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character in _OPEN) - (character in _CLOSED)
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _type(kind: str, where: str) -> "pa.DataType":
    import pyarrow as pa

    try:
        if found := _LIST.fullmatch(kind):
            return pa.list_(_type(found[1], where))
        if found := _FIXED.fullmatch(kind):
            return pa.list_(_type(found[1], where), int(found[2]))
        if found := _DECIMAL.fullmatch(kind):
            return pa.decimal128(int(found[1]), int(found[2]))
        return pa.type_for_alias(kind)
    except (ValueError, OverflowError, RecursionError) as error:  # unknown, too large, too deep
        raise InvalidInput(f"{_begun(where)!r} has no type that is known", remedy=_REMEDY) from error
