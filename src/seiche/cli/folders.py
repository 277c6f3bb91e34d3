"""Folders of files, such as Spark writes, whose rows commands take like those of one file."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import relpath
from pathlib import Path
from typing import TYPE_CHECKING

from seiche.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow.dataset

__all__ = ["files_of", "open_files"]

# In these formats a file of no bytes has no rows, as Spark writes it. In others it is damaged.
_TEXTS = ("csv", "json")


def files_of(path: Path, format: str) -> list[str]:
    """The file itself, or all in a folder; `InvalidInput` if the names of folders below it are part of the rows, or if
    Arrow cannot take the name of one.
    """
    import pyarrow as pa
    import pyarrow.dataset

    try:
        files = list(pyarrow.dataset.dataset(path, format=format, schema=pa.schema([])).files)
    except UnicodeError as error:
        what = "has a file with a name" if path.is_dir() else "is a name"
        raise InvalidInput(f"{str(path)!r} {what} that is not UTF-8", remedy="Give the file another name.") from error
    if path.is_dir():
        for file in files:
            _require_whole_rows(path, Path(relpath(file, path)).parent)
        if format in _TEXTS:
            files = [file for file in files if Path(file).stat().st_size]
    return files


def _require_whole_rows(path: Path, below: Path) -> None:
    """Refuse folders such as `day=1`: their rows do not have the day themselves, and would lose it here."""
    for part in below.parts:
        if "=" in part:
            raise InvalidInput(
                f"the rows in {path} have a column that only the names of folders say, such as {part}",
                remedy="Spark reads those: make the folder a source of a pipeline, for seiche run.",
            )


def open_files(path: Path, files: Sequence[str], format: str | pyarrow.dataset.FileFormat) -> pyarrow.dataset.Dataset:
    """The rows of a file, or of `files` of a folder: every column that one of them has. Arrow by itself takes those of
    the first, and passes over in silence what only others have.
    """
    import pyarrow as pa
    import pyarrow.dataset

    columns = None if files else pa.schema([])
    found = pyarrow.dataset.dataset(list(files), format=format, schema=columns)
    if files and path.is_dir():
        each = [one.physical_schema for one in found.get_fragments()]
        columns = pa.unify_schemas(each, promote_options="permissive")
        found = pyarrow.dataset.dataset(list(files), format=format, schema=columns)
    if not found.schema.names:
        raise InvalidInput(f"{path} has no columns", remedy="Check the file.")
    return found
