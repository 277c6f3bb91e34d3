"""Files of comma-separated values: how they are read, and as what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.cli.csv_quotes import require_closed
from seiche.cli.folders import open_files
from seiche.cli.whole_numbers import FIRST_ROUNDED, require_whole_csv
from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from pyarrow.csv import ParseOptions, ReadOptions

__all__ = ["RECODE", "csv_batches", "delimiter_of", "open_csv_files"]

RECODE = "Recode it first, as by: iconv -f latin1 -t utf-8 OLD > NEW."
# So much of a file is read in one go. A line may be as long, and the first such portion tells the types.
_PORTION = 8 << 20
# What stands between values, and how it is typed.
_TYPED = {",": "','", ";": "';'", "\t": r"'\t'", "|": "'|'"}
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_CODE = r"^\s*[+-]?0[\dxX]"
_SHOWN = 30
_QUOTED = re.compile('"[^"]*"')
_AS_TEXT = "If it is right, make the table with --schema, where it is a text, and then use 'seiche append'."


def delimiter_of(path: Path, files: Sequence[str], given: str | None) -> str:
    """What stands between the values of CSV files: what was given, or a comma, or in files of that name a tab.

    `InvalidInput` if that cannot be. Otherwise each line would be taken for one long value, in silence.
    """
    if given is not None:
        made = given.replace(r"\t", "\t")
        if len(made) != 1 or not made.isascii() or made in '"\r\n\0':
            raise InvalidInput(
                f"{given!r} cannot stand between values", remedy=r"Give one character, as in ';' or '\t'."
            )
        return made
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    for file in files:
        heading = _QUOTED.sub("", _heading(file))
        if usual not in heading and (other := next((one for one in _TYPED if one in heading), None)):
            raise InvalidInput(
                f"the values in {path} seem to have {_TYPED[other]} between them, not {_TYPED[usual]}",
                remedy=f"Say --delimiter {_TYPED[other]}; or --delimiter {_TYPED[usual]}, if it has one column.",
            )
    return usual


def _heading(file: str) -> str:
    """The first line that is not empty: those before it are passed over by Arrow, too."""
    with Path(file).open(encoding="utf-8", errors="replace") as lines:
        return next((line for line in iter(partial(lines.readline, _PORTION), "") if line != "\n"), "")


def open_csv_files(path: Path, files: Sequence[str], into: pa.Schema | None, delimiter: str) -> pyarrow.dataset.Dataset:
    """The rows of CSV files. What `into` has is read as that, and everything else as what it looks like."""
    import pyarrow as pa
    import pyarrow.dataset
    from pyarrow.csv import ConvertOptions

    reading, parsing = _options(delimiter)

    def read_as(types: dict[str, pa.DataType]) -> pyarrow.dataset.Dataset:
        # NaN is a float to whoever writes it; to Arrow it is one of the words for a value that is missing.
        missing = [word for word in ConvertOptions().null_values if word.lower() not in {"nan", "-nan"}]
        format = pyarrow.dataset.CsvFileFormat(
            read_options=reading,
            parse_options=parsing,
            convert_options=ConvertOptions(null_values=missing, column_types=types),
        )
        return open_files(path, files, format)

    if into is not None:
        # Of a short float Arrow would make infinity where the number is too large for it.
        floats = {field.name: pa.float64() for field in into if pa.types.is_floating(field.type)}
        return read_as(floats | {field.name: field.type for field in into if _is_written_out(field.type)})
    found = read_as({})
    if unread := [field.name for field in found.schema if pa.types.is_binary(field.type)]:
        raise InvalidInput(f"column {unread[0]!r} of {path} is not UTF-8", remedy=RECODE)
    # Of what looks empty, by the words that CSVs have for that, nothing tells the type: it is taken as it stands.
    unclear = {field.name for field in found.schema if pa.types.is_null(field.type)}
    if whole := [field.name for field in found.schema if pa.types.is_integer(field.type)]:
        unclear |= _codes(_first_portions(files, whole, delimiter))
    return read_as(dict.fromkeys(unclear, pa.string())) if unclear else found


def _codes(blocks: Iterable[pa.RecordBatch]) -> set[str]:
    """The columns that have digits which no whole number would keep, such as 007 or 0x1F: those are texts."""
    import pyarrow.compute as pc

    return {
        name
        for block in blocks
        for name, column in zip(block.schema.names, block.columns, strict=True)
        if pc.any(pc.match_substring_regex(column, _CODE)).as_py()
    }


def _options(delimiter: str) -> tuple[ReadOptions, ParseOptions]:
    """A value in quotes may have several lines. Unless told so, Arrow cuts a large file in the middle of one."""
    from pyarrow.csv import ParseOptions, ReadOptions

    return ReadOptions(block_size=_PORTION), ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _texts(file: str, columns: Sequence[str], delimiter: str) -> Iterator[pa.RecordBatch]:
    """What stands in columns of a file, as it stands there."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, open_csv

    reading, parsing = _options(delimiter)
    texts = ConvertOptions(include_columns=columns, column_types=dict.fromkeys(columns, pa.string()))
    texts.include_missing_columns = True
    with open_csv(file, reading, parsing, texts) as reader:
        yield from reader


def _first_portions(files: Sequence[str], columns: Sequence[str], delimiter: str) -> Iterator[pa.RecordBatch]:
    """What stands in columns of each file, as far as it was looked at to tell their types."""
    for file in files:
        yield from islice(_texts(file, columns, delimiter), 1)


def csv_batches(
    path: Path, files: Sequence[str], rows: pyarrow.dataset.Dataset, delimiter: str, *, guessed: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of CSV files; `InvalidInput` if one ends amid a value, has a number that is too large for a float, or
    digits that would be lost in a column whose type is `guessed`.

    Arrow makes infinity of such a number, as of the word, and rounds whole numbers that stand beside fractions. Which
    it was can be seen in the file, so where there is a large float it is looked into once more.
    """
    import pyarrow as pa

    require_closed(path, files, *_options(delimiter))
    if guessed and (whole := [field.name for field in rows.schema if pa.types.is_integer(field.type)]):
        _require_no_codes(path, files, whole, delimiter)
    seen: set[str] = set()
    for batch in rows.to_batches():
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if field.type == "double" and field.name not in seen and _has_large(column, guessed=guessed):
                seen.add(field.name)
                _require_kept(path, files, field.name, delimiter, guessed=guessed)
        yield batch


def _has_large(column: pa.Array, *, guessed: bool) -> bool:
    import pyarrow.compute as pc

    large = pc.greater_equal(pc.abs(column), FIRST_ROUNDED) if guessed else pc.is_inf(column)
    return bool(pc.any(large).as_py())


def _require_no_codes(path: Path, files: Sequence[str], columns: Sequence[str], delimiter: str) -> None:
    """`InvalidInput` if columns, which the first portions say are of whole numbers, have digits such as 007 later."""
    for file in files:
        if Path(file).stat().st_size <= _PORTION:
            continue
        if codes := _codes(islice(_texts(file, columns, delimiter), 1, None)):
            raise InvalidInput(
                f"column {min(codes)!r} of {path} begins with whole numbers, and has digits later that none would keep,"
                " such as those of 007",
                remedy=_AS_TEXT,
                column=min(codes),
            )


def _require_kept(path: Path, files: Sequence[str], column: str, delimiter: str, *, guessed: bool) -> None:
    """`InvalidInput` if a column of floats has an infinite number that is written in digits, or, where that they are
    floats is only `guessed`, a whole number that is rounded.
    """
    import pyarrow.compute as pc

    for file in files:
        for block in _texts(file, [column], delimiter):
            texts = pc.utf8_trim_whitespace(block[column])
            digits = texts.filter(pc.match_substring_regex(texts, _NUMBER))
            large = digits.filter(pc.is_inf(digits.cast("double")))
            if len(large):
                raise InvalidInput(
                    f"column {column!r} of {path} has the number {large[0].as_py()[:_SHOWN]}, which no float can hold",
                    remedy=_AS_TEXT,
                )
            if guessed:
                require_whole_csv(path, column, texts)


def _is_written_out(kind: pa.DataType) -> bool:
    """Whether a text says exactly which value of this type it is, or else is refused."""
    import pyarrow.types as kinds

    plain = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_boolean(kind) or kinds.is_integer(kind)
    number = kinds.is_decimal128(kind)
    return bool(plain or number or kinds.is_date(kind) or kinds.is_time(kind) or kinds.is_timestamp(kind))
