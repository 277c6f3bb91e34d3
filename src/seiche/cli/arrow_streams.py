"""Files in the format in which Arrow sends rows, which many name like those in its format for files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_stream", "stream_batches", "stream_columns"]

# What every message begins with; a file in the format for files begins with its name.
_CONTINUATION: Final = b"\xff\xff\xff\xff"


def is_stream(path: Path) -> bool:
    """Whether it begins as a stream does. Datasets of Arrow read the format for files only."""
    with path.open("rb") as file:
        return file.read(len(_CONTINUATION)) == _CONTINUATION


def stream_columns(path: Path) -> pa.Schema:
    """The columns that a stream begins with; its rows are not read."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        columns = reader.schema
    if not columns.names:
        raise InvalidInput(f"{path} has no columns", remedy="Check the file.")
    return columns


def stream_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a stream, one batch in memory at a time."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield from reader
