"""Quotes of CSV files that are opened and never closed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    from pyarrow.csv import ParseOptions, ReadOptions

__all__ = ["require_closed"]

_PORTION = 8 << 20
_SHOWN = 30


def require_closed(path: Path, files: Sequence[str], reading: ReadOptions, parsing: ParseOptions) -> None:
    """`InvalidInput` if a file ends inside of a value in quotes, as one does that came only in part.

    Arrow takes all that stands behind the quote for the value, whatever rows there were.
    """
    for file in files:
        if _quotes(file) % 2 and _ends_inside(file, last := _last_value(file, reading, parsing)):
            raise InvalidInput(
                f"{path} ends inside of a value whose quotes were opened and not closed: {last[:_SHOWN]!r}",
                remedy="Check whether the file is complete; a quote that is part of a value is written twice.",
            )


def _quotes(file: str) -> int:
    with Path(file).open("rb") as opened:
        return sum(portion.count(b'"') for portion in iter(partial(opened.read, _PORTION), b""))


def _last_value(file: str, reading: ReadOptions, parsing: ParseOptions) -> str:
    """The last value of the last row, as a text."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, open_csv

    with open_csv(file, reading, parsing) as reader:
        name = reader.schema.names[-1]
    convert = ConvertOptions(include_columns=[name], column_types={name: pa.string()})
    last = ""
    with open_csv(file, reading, parsing, convert) as reader:
        for batch in reader:
            if batch.num_rows:
                last = batch.column(0)[-1].as_py()
    return last


def _ends_inside(file: str, last: str) -> bool:
    """Whether the file ends with a quote and then the value, with nothing to close it."""
    written = b'"' + last.replace('"', '""').encode()
    with Path(file).open("rb") as opened:
        opened.seek(max(0, Path(file).stat().st_size - len(written) - 1))
        end = opened.read()
    if last.strip('"'):
        return end.endswith(written)
    # Nothing but quotes, or nothing at all: closed, there is one more of them than the opening one and those inside.
    return end.endswith(written) and not end.endswith(b'"' + written)
