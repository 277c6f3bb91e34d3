"""Files whose rows commands take."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seiche.cli.arrow_streams import is_stream, stream_batches, stream_columns
from seiche.cli.csv_files import RECODE, csv_batches, delimiter_of, open_csv_files
from seiche.cli.folders import files_of, open_files
from seiche.cli.json_lines import json_batches, json_columns
from seiche.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

__all__ = ["FileRows", "open_file"]

_FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".jsonl": "json",
    ".json": "json",
}
_TEXTS = ("csv", "json")
# So much of a file tells whether it is a text: wherever it begins not to be one, it was said to be broken there.
_LOOKED_AT = 16 << 20
_NO_NAME = "Name it in the first line. If it is the index that pandas writes: `frame.to_csv(path, index=False)`."
_ONE_EACH = 'Check the file: it must have one object in each line, as in {"id": 1}.'
_GUESSED = (
    "If the file is right, its first rows do not tell the types of its columns: say them with 'seiche create-table"
    " --schema', then add the file with 'seiche append'."
)


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a file. `schema` is what they come as; it may be `guessed` by the first of them."""

    path: Path
    format: str
    read: Callable[[], Iterable[pa.RecordBatch]]
    schema: pa.Schema
    guessed: bool = False

    def batches(self, progress: Callable[[str, int], None]) -> Iterator[pa.RecordBatch]:
        """Its rows, of which `progress` hears how many were taken; `InvalidInput` when it turns out to be broken."""
        taken = 0
        with _readable(self.path, self.format, guessed=self.guessed):
            for batch in self.read():
                yield batch if batch.schema.equals(self.schema) else _under(batch, self.schema)
                taken += batch.num_rows
                progress("rows", taken)


def open_file(path: Path, into: pa.Schema | None = None, *, delimiter: str | None = None) -> FileRows:
    """The rows of a file, of a kind that its name tells. Nothing is read yet but its columns.

    `delimiter` stands between the values of a CSV, if that is no comma.

    What stands in a CSV has no type of its own, and in JSON there are few. `into` are the columns of the table that it
    is meant for, and tell what it is: otherwise all digits would be numbers, of a column with nothing but `NA` in it
    nothing would be left, and no number of JSON would ever be a short one.
    """
    from seiche.table.format.schema import check_names

    format = _FORMATS.get(path.suffix.lower())
    if format is None:
        known = ", ".join(_FORMATS)
        raise InvalidInput(f"{path} is no file of a known kind", remedy=f"Its name must end in one of {known}.")
    if delimiter is not None and format != "csv":
        raise InvalidInput(f"{path} is no CSV, which has delimiters", remedy="Leave --delimiter out.")
    if not path.exists():
        raise NotFound(f"there is no file {path}", remedy="Check its name, and the folder you are in.")
    with _readable(path, format):
        rows = _opened(path, format, into, delimiter)
        try:
            check_names(rows.schema)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error.message}", remedy=RECODE) from error
    if format == "csv" and "" in rows.schema.names:
        raise InvalidInput(f"a column of {path} has no name", remedy=_NO_NAME)
    return rows


def _opened(path: Path, format: str, into: pa.Schema | None, delimiter: str | None) -> FileRows:
    files = files_of(path, format)
    if format == "json":
        columns = json_columns(path, files, into)
        return FileRows(path, format, partial(json_batches, files, columns), _meant(columns, into))
    if format == "csv":
        between = delimiter_of(path, files, delimiter)
        found = open_csv_files(path, files, into, between)
        guessed = into is None
        read = partial(csv_batches, path, files, found, between, guessed=guessed)
        return FileRows(path, format, read, _meant(found.schema, into), guessed=guessed)
    if format == "ipc" and path.is_file() and is_stream(path):
        return FileRows(path, format, partial(stream_batches, path), stream_columns(path))
    found = open_files(path, files, format)
    return FileRows(path, format, found.to_batches, found.schema)


def _meant(read: pa.Schema, into: pa.Schema | None) -> pa.Schema:
    """The columns of a file of texts, as far as the table's columns say more about them than could be read."""
    import pyarrow as pa

    if into is None:
        return read

    known = set(into.names)

    def field(one: pa.Field) -> pa.Field:
        return one.with_type(_meant_type(one.type, into.field(one.name).type)) if one.name in known else one

    return pa.schema([field(one) for one in read])


def _meant_type(read: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    import pyarrow as pa
    import pyarrow.types as kinds

    from seiche.table.data.fitting import is_list

    if kinds.is_float64(read) and kinds.is_floating(wanted):
        return wanted
    if kinds.is_string(read) and (kinds.is_date(wanted) or kinds.is_time(wanted)):
        return wanted
    if kinds.is_list(read) and is_list(wanted):
        return pa.list_(_meant_type(read.value_type, wanted.value_type))
    if kinds.is_struct(read) and kinds.is_struct(wanted):
        inside = {field.name: field.type for field in wanted}
        return pa.struct([one.with_type(_meant_type(one.type, inside.get(one.name, one.type))) for one in read])
    return read


def _under(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [_as(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    from seiche.table.data.values import shortened

    if kinds.is_time(kind) and kinds.is_string(column.type):  # Arrow makes no time of day of a text, but of a time
        return pc.binary_join_element_wise("1970-01-01T", column, "").cast(pa.timestamp(kind.unit)).cast(kind)
    return shortened(column, kind)


@contextmanager
def _readable(path: Path, format: str, *, guessed: bool = False) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if format in _TEXTS and not _is_text(path):
            raise InvalidInput(f"{path} is not UTF-8", remedy=RECODE) from error
        remedy = _ONE_EACH if format == "json" else _GUESSED if guessed else "Check the file."
        raise InvalidInput(f"{path} cannot be read: {error}", remedy=remedy) from error
    except UnicodeDecodeError as error:  # the name of a column
        raise InvalidInput(f"{path} is not UTF-8", remedy=RECODE) from error
    except RecursionError as error:  # JSON of a thousand levels
        raise InvalidInput(f"a column of {path} is nested too deep", remedy="Flatten it, or make it a text.") from error


def _is_text(path: Path) -> bool:
    """Whether a file is UTF-8, as far as one looks; a folder is said to be."""
    if not path.is_file():
        return True
    with path.open("rb") as opened:
        try:
            getincrementaldecoder("utf-8")().decode(opened.read(_LOOKED_AT))
        except UnicodeDecodeError:
            return False
    return True
