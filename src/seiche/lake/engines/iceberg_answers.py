"""How the lake says no to PyIceberg: in PyIceberg's own errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ValidationException,
)

from seiche.errors import AlreadyExists, CommitUnknown, ConflictError, NotFound, SeicheError

__all__ = ["About", "answering", "unwrapped"]

About: TypeAlias = Literal["namespace", "table", "view"]

_MISSING: dict[About, type[Exception]] = {
    "namespace": NoSuchNamespaceError,
    "table": NoSuchTableError,
    "view": NoSuchViewError,
}


@contextmanager
def answering(about: About, *, exclusive: bool = False) -> Iterator[None]:
    """Turn an error of ours into the one that PyIceberg has for it; ours stays its cause.

    After a conflict PyIceberg sends the same files again. What was worked out from the table's rows (`exclusive`) must
    not be sent again like that, so it is refused by another kind of error.
    """
    try:
        yield
    except SeicheError as error:
        raise _refused(error, about, exclusive) from error


@contextmanager
def unwrapped() -> Iterator[None]:
    """The way back: whoever called a verb of ours, and PyIceberg only in passing, gets our error."""
    try:
        yield
    except Exception as error:
        if isinstance(error.__cause__, SeicheError) and not isinstance(error, SeicheError):
            raise error.__cause__ from None
        raise


def _refused(error: SeicheError, about: About, exclusive: bool) -> Exception:
    if isinstance(error, NotFound):
        if "location" in error.details:  # a file, which other catalogs look for without a word of theirs
            return FileNotFoundError(str(error))
        # A table can also be missing because its namespace is.
        missing: About = "namespace" if about == "table" and "table" not in error.details else about
        return _MISSING[missing](str(error))
    if isinstance(error, AlreadyExists):
        return (NamespaceAlreadyExistsError if about == "namespace" else TableAlreadyExistsError)(str(error))
    if isinstance(error, ConflictError):
        return (ValidationException if exclusive else CommitFailedException)(str(error))
    if isinstance(error, CommitUnknown):
        return CommitStateUnknownException(str(error))
    return error
