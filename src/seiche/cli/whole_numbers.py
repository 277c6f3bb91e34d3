"""Whole numbers of more than 64 bits in files of texts. Arrow takes them for floats, and drops digits in silence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["require_whole_csv", "require_whole_json"]

_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
# Of 19 digits most are still in reach. What is in quotes is found too, and looked at once more.
_LONG = re.compile(rb"\d{20}|9[2-9]\d{17}")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def require_whole_csv(path: Path, blocks: Iterable[pa.RecordBatch]) -> None:
    """`InvalidInput` if one of the columns, which Arrow calls floats, has nothing but whole numbers, and loses digits.

    What it calls them by is the first block of a file, given as texts: more need not be looked at.
    """
    for block in blocks:
        for column in block.columns:
            _require_whole(path, column)


def _require_whole(path: Path, column: pa.Array) -> None:
    texts = [text for text in column.to_pylist() if text]
    if all(map(_WHOLE.fullmatch, texts)):
        for text in texts:
            _require_digits(path, text)


def require_whole_json(path: Path, lines: Iterable[bytes]) -> None:
    """`InvalidInput` if there is a whole number that loses digits."""
    for line in lines:
        if _LONG.search(line):
            for found in _TOKEN.finditer(line):
                text = found[0].decode("ascii", "replace")
                if _WHOLE.fullmatch(text):
                    _require_digits(path, text)


def _require_digits(path: Path, text: str) -> None:
    number = Decimal(text.strip())
    if not _LOWEST <= number <= _HIGHEST and Decimal(repr(float(number))) != number:
        raise InvalidInput(
            f"{path} has the whole number {number}, of which a float would keep only the first digits",
            remedy="Make the table with --schema and a type that holds it, such as id:uint64 or id:decimal(38,0), and"
            " then use 'seiche append'.",
        )
