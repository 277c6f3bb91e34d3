"""What native code complains about, as errors of ours: whose fault it was, and what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seiche.core.forked import NativeThreads
from seiche.errors import Corrupt, NotFound, PermissionDenied, SeicheError, Unavailable

__all__ = [
    "CHECK_ACCESS",
    "FREE_SPACE",
    "Panic",
    "check_columns_known",
    "from_storage",
    "is_damage",
    "is_forbidden",
    "is_full",
    "is_gone",
    "is_no_value",
    "is_refusal",
    "is_unsupported",
    "native_message",
    "trouble",
    "without_panics",
]

CHECK_ACCESS = "Check the owner, the mode and the mount of the directory, or the credentials."
FREE_SPACE = "Nothing was changed. Free space or raise the limit, then try again."

_GONE = "Not found:"
_FORBIDDEN = (
    "Permission denied",
    "Read-only file system",
    "lacked the necessary privileges",
    "lacked valid authentication credentials",
)
_FULL = ("No space left on device", "Disk quota exceeded")
_REFUSED = "Invalid user input"
_NO_VALUE = "LanceError(Arrow): Invalid argument"
_UNSUPPORTED = "Not supported"
_PANICKED = "panicked"
_ABORTED = "Task was aborted"
_STORAGE = ("LanceError(IO)", _GONE)
# What it says of bytes that are no data file of Lance's, and of deletion files that delete other rows than the manifest
# says. To it they are input like any other.
_DAMAGED = re.compile(
    r"corrupt file|failed to (decode Protobuf|fill whole buffer)|outside (of )?(file|metadata)|"
    r"not appear to be a Lance file|"
    r"Invalid user input: (Column \d|Global buffer|Invalid direct|Tail read|column metadata)|"
    r"Schema error: Field .* references parent|"
    r"Invalid read of range \S+ for fragment \d+ with|"
    r"more rows than the requested chunk sizes"
)
_SOURCE_PLACE = re.compile(r",? ?(location: )?/\S+\.rs:\d+(:\d+)?")


_threads = NativeThreads("Lance")


class Panic(OSError):
    """Native code came upon something that it took for impossible, and gave up what it was doing."""


@contextmanager
def without_panics() -> Iterator[None]:
    """Around calls of native code: a panic comes out as `Panic`, which can be caught like its other errors.

    As it comes it is no `Exception`: it would pass by everybody who tidies up after errors, and end the program. And
    `InvalidInput` where it would crash or hang: in a process that was forked from one that has used it.
    """
    _threads.check()
    try:
        yield
    except BaseException as error:
        # Each native library has a type of its own for it, which cannot be imported from anywhere. Of one that happens
        # in a thread of its own it only says that nothing will come of it.
        if type(error).__name__ != "PanicException" and str(error) != _ABORTED:
            raise
        raise Panic(f"native code {_PANICKED}: {error}") from error


def check_columns_known(dataset: Any) -> None:
    """`Corrupt` if native code panics at the schema: it does wherever it meets a column of a type it does not know.

    To be asked once something has failed, whatever it seemed to be about.
    """
    try:
        with without_panics():
            _ = dataset.schema
    except Panic as error:
        raise Corrupt(
            f"version {dataset.version} of {dataset.uri} has columns that cannot be read: {native_message(error)}",
            remedy="The manifest is damaged, or a newer writer made it. Open an older version.",
            version=dataset.version,
        ) from error


def from_storage(error: Exception) -> bool:
    """Whether it is storage that failed, or what is stored, and not what was asked for.

    Native code has one type of error for all where it scans, and only its text says which it was.
    """
    return is_panic(error) or is_damage(error) or any(mark in str(error) for mark in _STORAGE)


def is_panic(error: Exception) -> bool:
    """Whether native code gave up; what panics in a thread of its own comes back as an error that says so."""
    return _PANICKED in str(error)


def is_damage(error: Exception) -> bool:
    """Whether it is about the bytes of a file, which are not what they must be."""
    return _DAMAGED.search(str(error)) is not None


def is_gone(error: Exception) -> bool:
    """Whether it is about a file that is not there."""
    return _GONE.lower() in str(error).lower()


def is_forbidden(error: Exception) -> bool:
    """Whether the operating system, or whoever keeps the bucket, does not allow it."""
    return any(mark in str(error) for mark in _FORBIDDEN)


def is_full(error: Exception) -> bool:
    """Whether there is no more room where it writes."""
    return any(mark in str(error) for mark in _FULL)


def is_refusal(error: Exception) -> bool:
    """Whether native code would not take the rows that it was to write."""
    return str(error).startswith(_REFUSED)


def is_no_value(error: Exception) -> bool:
    """Whether one of the values that it was to write is none that the column can have, such as a text that is no
    JSON.
    """
    return _NO_VALUE in str(error)


def is_unsupported(error: Exception) -> bool:
    """Whether it is asked for something that native code does not do, or not with such data."""
    return isinstance(error, NotImplementedError) or str(error).startswith(_UNSUPPORTED)


def trouble(what: str, error: Exception, **details: Any) -> SeicheError:
    """The error to raise when storage failed in the middle of native work: `what` could not be done.

    A file that is not there, or may not be read, is not there on the next attempt either.
    """
    message = f"{what}: {native_message(error)}"
    if is_gone(error):
        remedy = "The version was cleaned up meanwhile, or the file was removed by hand. Take another version."
        return NotFound(message, remedy=remedy, **details)
    if is_forbidden(error):
        return PermissionDenied(message, remedy=CHECK_ACCESS, **details)
    if is_full(error):
        return Unavailable(message, remedy=FREE_SPACE, **details)
    if is_panic(error):
        remedy = (
            "Nothing was changed. Native code failed where it must not: on a damaged file, which `seiche fsck --deep`"
            " finds, or on what it was asked for. Try it in another way, and report it to pylance."
        )
        return SeicheError(message, remedy=remedy, **details)
    if is_damage(error):
        remedy = (
            "A file is damaged, or native code cannot read what it wrote: `seiche fsck --deep` says which file. Put it"
            " back from a copy, or go back to a version that does not need it."
        )
        return Corrupt(message, remedy=remedy, **details)
    remedy = "Nothing was changed. Try again; if it stays so, a file may be damaged: `seiche fsck --deep` says which."
    return Unavailable(message, remedy=remedy, **details)


def native_message(error: Exception) -> str:
    """What native code says, without where in its source it said so."""
    parts = error.args
    # Some sentences come in pieces, of which Python would show a tuple.
    said = "".join(parts) if len(parts) > 1 and all(isinstance(one, str) for one in parts) else str(error)
    return _SOURCE_PLACE.sub("", said).strip()
