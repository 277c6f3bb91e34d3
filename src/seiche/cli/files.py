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


def open_file(path: Path) -> pyarrow.dataset.Dataset:
    """The rows of a file, of a kind that its name tells. Nothing is read yet but its columns."""
    import pyarrow.dataset

    format = _FORMATS.get(path.suffix.lower())
    if format is None:
        known = ", ".join(_FORMATS)
        raise InvalidInput(f"{path} is no file of a known kind", remedy=f"Its name must end in one of {known}.")
    if not path.exists():
        raise NotFound(f"there is no file {path}", remedy="Check its name, and the folder you are in.")
    with _readable(path):
        return pyarrow.dataset.dataset(path, format=format)


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
