"""Files of comma-separated values: how they are read, and as what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.cli.folders import open_files
from seiche.cli.whole_numbers import require_whole_csv
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from pyarrow.csv import ParseOptions, ReadOptions

__all__ = ["RECODE", "open_csv_files"]

RECODE = "Recode it first, as by: iconv -f latin1 -t utf-8 OLD > NEW."
# So much of a file is read in one go. A line may be as long, and the first such portion tells the types.
_PORTION = 8 << 20


def open_csv_files(path: Path, files: Sequence[str], into: pa.Schema | None) -> pyarrow.dataset.Dataset:
    """The rows of CSV files. What `into` has is read as that, and everything else as what it looks like."""
    import pyarrow as pa
    import pyarrow.dataset
    from pyarrow.csv import ConvertOptions

    reading, parsing = _options()

    def read_as(types: dict[str, pa.DataType]) -> pyarrow.dataset.Dataset:
        format = pyarrow.dataset.CsvFileFormat(
            read_options=reading, parse_options=parsing, convert_options=ConvertOptions(column_types=types)
        )
        return open_files(path, format)

    if into is not None:
        # Of a short float Arrow would make infinity where the number is too large for it.
        floats = {field.name: pa.float64() for field in into if pa.types.is_floating(field.type)}
        return read_as(floats | {field.name: field.type for field in into if _is_written_out(field.type)})
    found = read_as({})
    if unread := [field.name for field in found.schema if pa.types.is_binary(field.type)]:
        raise InvalidInput(f"column {unread[0]!r} of {path} is not UTF-8", remedy=RECODE)
    if numbers := [field.name for field in found.schema if pa.types.is_floating(field.type)]:
        require_whole_csv(path, _first_portions(files, numbers))
    # Of what looks empty, by the words that CSVs have for that, nothing tells the type: it is taken as it stands.
    unclear = {field.name: pa.string() for field in found.schema if pa.types.is_null(field.type)}
    return read_as(unclear) if unclear else found


def _options() -> tuple[ReadOptions, ParseOptions]:
    """A value in quotes may have several lines. Unless told so, Arrow cuts a large file in the middle of one."""
    from pyarrow.csv import ParseOptions, ReadOptions

    return ReadOptions(block_size=_PORTION), ParseOptions(newlines_in_values=True)


def _first_portions(files: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """What stands in columns of each file, as far as it was looked at to tell their types."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, open_csv

    reading, parsing = _options()
    texts = ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string()))
    texts.include_missing_columns = True
    for file in files:
        with open_csv(file, reading, parsing, texts) as reader:
            if (block := next(iter(reader), None)) is not None:
                yield block


def _is_written_out(kind: pa.DataType) -> bool:
    """Whether a text says exactly which value of this type it is, or else is refused."""
    import pyarrow.types as kinds

    plain = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_boolean(kind) or kinds.is_integer(kind)
    number = kinds.is_decimal128(kind)
    return bool(plain or number or kinds.is_date(kind) or kinds.is_time(kind) or kinds.is_timestamp(kind))
