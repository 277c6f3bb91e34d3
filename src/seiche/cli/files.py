"""Files whose rows commands take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seiche.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.dataset

__all__ = ["file_batches", "open_file"]

_FORMATS = {".parquet": "parquet", ".csv": "csv", ".arrow": "ipc", ".feather": "ipc", ".jsonl": "json", ".json": "json"}


def open_file(path: Path, into: pa.Schema | None = None) -> pyarrow.dataset.Dataset:
    """The rows of a file, of a kind that its name tells. Nothing is read yet but its columns.

    What stands in a CSV has no type of its own. `into` are the columns of the table that it is meant for, and tell what
    it is: otherwise `007` would be a number, and of a column with nothing but `NA` in it nothing would be left.
    """
    import pyarrow.dataset

    format = _FORMATS.get(path.suffix.lower())
    if format is None:
        known = ", ".join(_FORMATS)
        raise InvalidInput(f"{path} is no file of a known kind", remedy=f"Its name must end in one of {known}.")
    if not path.exists():
        raise NotFound(f"there is no file {path}", remedy="Check its name, and the folder you are in.")
    with _readable(path):
        if format == "csv":
            return _open_csv(path, into)
        found = pyarrow.dataset.dataset(path, format=format)
        if format == "json" and into is not None:
            return pyarrow.dataset.dataset(path, format=format, schema=_with_texts(found.schema, into))
        return found


def _open_csv(path: Path, into: pa.Schema | None) -> pyarrow.dataset.Dataset:
    import pyarrow as pa
    import pyarrow.dataset
    from pyarrow.csv import ConvertOptions

    def read_as(types: dict[str, pa.DataType]) -> pyarrow.dataset.Dataset:
        format = pyarrow.dataset.CsvFileFormat(convert_options=ConvertOptions(column_types=types))
        return pyarrow.dataset.dataset(path, format=format)

    if into is not None:
        return read_as({field.name: field.type for field in into if _is_written_out(field.type)})
    found = read_as({})
    # Of what looks empty, by the words that CSVs have for that, nothing tells the type: it is taken as it stands.
    unclear = {field.name: pa.string() for field in found.schema if pa.types.is_null(field.type)}
    return read_as(unclear) if unclear else found


def _is_written_out(kind: pa.DataType) -> bool:
    """Whether a text says exactly which value of this type it is, or else is refused."""
    import pyarrow.types as kinds

    plain = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_boolean(kind) or kinds.is_integer(kind)
    number = kinds.is_float64(kind) or kinds.is_decimal128(kind)
    return bool(plain or number or kinds.is_date(kind) or kinds.is_time(kind) or kinds.is_timestamp(kind))


def _with_texts(found: pa.Schema, into: pa.Schema) -> pa.Schema:
    """The columns of a file of JSON, in which what looks like a time stays the text that it is."""
    import pyarrow as pa

    for index, field in enumerate(found):
        if pa.types.is_timestamp(field.type) and field.name in into.names:
            wanted = into.field(field.name).type
            if pa.types.is_string(wanted) or pa.types.is_large_string(wanted):
                found = found.set(index, field.with_type(wanted))
    return found


def file_batches(
    rows: pyarrow.dataset.Dataset, path: Path, progress: Callable[[str, int], None]
) -> Iterator[pa.RecordBatch]:
    """Its rows, of which `progress` hears how many were taken; `InvalidInput` when it turns out to be broken."""
    taken = 0
    with _readable(path):
        for batch in rows.to_batches():
            yield batch
            taken += batch.num_rows
            progress("rows", taken)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", remedy="Check the file.") from error
