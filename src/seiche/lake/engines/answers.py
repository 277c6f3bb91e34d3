"""How a namespace takes its requests, and how it says no."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import lance_namespace as lance

from seiche.errors import (
    AlreadyExists,
    CommitUnknown,
    ConflictError,
    Corrupt,
    InvalidInput,
    NotFound,
    PermissionDenied,
    SeicheError,
    Unavailable,
)

__all__ = ["About", "answering", "asked", "refused"]

About: TypeAlias = Literal["namespace", "table", "version"]

# The errors of the namespace interface for those of ours; what was not found, or exists, depends on what it is about.
_NOT_FOUND: Final[dict[About, type[Exception]]] = {
    "namespace": lance.NamespaceNotFoundError,
    "table": lance.TableNotFoundError,
    "version": lance.TableVersionNotFoundError,
}
_EXISTS: Final[dict[About, type[Exception]]] = {
    "namespace": lance.NamespaceAlreadyExistsError,
    "table": lance.TableAlreadyExistsError,
    "version": lance.ConcurrentModificationError,
}
_OTHERS: Final[tuple[tuple[type[SeicheError], type[Exception]], ...]] = (
    (ConflictError, lance.ConcurrentModificationError),
    (CommitUnknown, lance.InternalError),
    (InvalidInput, lance.InvalidInputError),
    (Corrupt, lance.InvalidTableStateError),
    (PermissionDenied, lance.PermissionDeniedError),
    (Unavailable, lance.ServiceUnavailableError),
)


def asked(request: Any, name: str) -> Any:
    """A part of a request, `None` if it is not given.

    Requests are models when they come from Python, and dictionaries when native code makes them.
    """
    return request.get(name) if isinstance(request, dict) else getattr(request, name, None)


@contextmanager
def answering(about: About) -> Iterator[None]:
    """Let an error of ours leave as the interface has it; ours stays its cause."""
    try:
        yield
    except SeicheError as error:
        raise refused(error, about) from error


def refused(error: SeicheError, about: About) -> Exception:
    """The error of the namespace interface that says the same."""
    if isinstance(error, NotFound):
        # A table can also be missing because its namespace is.
        missing: About = "namespace" if about == "table" and "table" not in error.details else about
        return _NOT_FOUND[missing](str(error))
    if isinstance(error, AlreadyExists):
        return _EXISTS[about](str(error))
    for ours, theirs in _OTHERS:
        if isinstance(error, ours):
            return theirs(str(error))
    return lance.InternalError(str(error))
