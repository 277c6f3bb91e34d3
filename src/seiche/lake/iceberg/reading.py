"""Errors of reading and changing an Iceberg table, as those of the lake: PyIceberg and Arrow raise their own."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from typing import Final

import pyarrow as pa
from pyiceberg.exceptions import NotInstalledError, ResolveError

from seiche.errors import Corrupt, InvalidInput, NotFound, Unavailable

__all__ = ["changing", "check_writable_version", "files_of", "reading"]

# What decoders raise, besides other errors of values, where bytes are not what they were.
_LOST: Final = (
    LookupError,
    TypeError,
    AssertionError,
    EOFError,
    SystemError,
    UnicodeDecodeError,
    JSONDecodeError,
    zlib.error,
)
# The newest version of the format whose manifests PyIceberg writes.
_WRITTEN: Final = 2
_DAMAGED: Final = "Run `seiche fsck --deep`, which names what is damaged, and restore that from a copy of the lake."


@contextmanager
def files_of(table: str) -> Iterator[None]:
    """Around whatever reads files of a version: one that is gone, that is damaged, or that does not fit the columns, is
    an error of ours.
    """
    try:
        yield
    except ResolveError as error:
        raise InvalidInput(
            f"{table}: older rows cannot be read by the columns that it has now: {error}",
            remedy="Let the column be null again: `to_iceberg().update_schema()` has `make_column_optional(name)`.",
            table=table,
        ) from error
    except FileNotFoundError as error:
        raise NotFound(
            f"{table}: a file is not there any more: {error}",
            remedy="The version was cleaned up meanwhile, or the file was removed by hand. Take another version.",
            table=table,
        ) from error
    except _LOST as error:
        said = f"{table}: PyIceberg cannot make sense of a file: {type(error).__name__}: {error}"
        raise Corrupt(said, remedy=_DAMAGED, table=table) from error


@contextmanager
def reading(table: str) -> Iterator[None]:
    """Around what only reads rows: nothing that a caller gave can be the reason, once his condition was looked at."""
    try:
        with files_of(table):
            yield
    except (NotImplementedError, NotInstalledError) as error:
        raise _beyond(table, error) from error
    except OSError as error:  # a disk or a network that fails, or a page that ends too early: nobody can tell
        raise Unavailable(
            f"{table}: a file could not be read: {error}",
            remedy="Try again. If it stays so, `seiche fsck --deep` says whether it is damaged.",
            table=table,
        ) from error
    except pa.ArrowInvalid as error:
        raise Corrupt(f"{table}: a file cannot be read: {error}", remedy=_DAMAGED, table=table) from error
    except (ValueError, OverflowError) as error:
        raise _beyond(table, error) from error


@contextmanager
def changing(table: str, verb: str) -> Iterator[None]:
    """Around what PyIceberg makes of rows or conditions that a caller gave: what it does not take is `InvalidInput`."""
    try:
        yield
    except (ValueError, OverflowError, NotImplementedError, NotInstalledError, pa.ArrowException) as error:
        raise InvalidInput(f"{table}: PyIceberg cannot do this {verb}: {error}", table=table) from error


def check_writable_version(table: str, version: int) -> None:
    """`InvalidInput` for a table of a format that PyIceberg only reads, before any data is written for it."""
    if version > _WRITTEN:
        raise InvalidInput(
            f"{table} has format version {version} of Iceberg, of which PyIceberg writes no rows",
            remedy="Change its rows with an engine that does, such as DuckDB or Spark with Iceberg's own library, "
            "through `seiche serve --iceberg-port`; or keep them in a table of version 2.",
            table=table,
        )


def _beyond(table: str, error: Exception) -> InvalidInput:
    return InvalidInput(
        f"{table}: PyIceberg cannot read it: {error}",
        remedy="Read it with another engine; `seiche fsck` says whether it is damaged.",
        table=table,
    )
