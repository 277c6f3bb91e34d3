"""What native code complains about, as errors of ours: whose fault it was, and what to do."""

import re
from typing import Any

from seiche.errors import NotFound, PermissionDenied, SeicheError, Unavailable

__all__ = ["from_storage", "is_gone", "is_refusal", "native_message", "trouble"]

_GONE = "Not found:"
_FORBIDDEN = "Permission denied"
_REFUSED = "Invalid user input"
_STORAGE = ("LanceError(IO)", _GONE)
_SOURCE_PLACE = re.compile(r",? ?(location: )?/\S+\.rs:\d+(:\d+)?")


def from_storage(error: Exception) -> bool:
    """Whether it is storage that failed, and not what was asked for.

    Native code has one type of error for both where it scans, and only its text says which it was.
    """
    return any(mark in str(error) for mark in _STORAGE)


def is_gone(error: Exception) -> bool:
    """Whether it is about a file that is not there."""
    return _GONE.lower() in str(error).lower()


def is_refusal(error: Exception) -> bool:
    """Whether native code would not take the rows that it was to write."""
    return str(error).startswith(_REFUSED)


def trouble(what: str, error: Exception, **details: Any) -> SeicheError:
    """The error to raise when storage failed in the middle of native work: `what` could not be done.

    A file that is not there, or may not be read, is not there on the next attempt either.
    """
    message = f"{what}: {native_message(error)}"
    if is_gone(error):
        remedy = "The version was cleaned up meanwhile, or the file was removed by hand. Take another version."
        return NotFound(message, remedy=remedy, **details)
    if _FORBIDDEN in message:
        return PermissionDenied(message, remedy="Check the owner and the mode of the file.", **details)
    remedy = "Nothing was changed. Try again; if it stays so, a file may be damaged: `seiche fsck` says which."
    return Unavailable(message, remedy=remedy, **details)


def native_message(error: Exception) -> str:
    """What native code says, without where in its source it said so."""
    return _SOURCE_PLACE.sub("", str(error)).strip()
