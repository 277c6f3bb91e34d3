"""Which paths, and parts of files, may reach storage."""

import re
from urllib.parse import quote

from seiche.core.given import number, wrong
from seiche.errors import InvalidInput

__all__ = [
    "TEMPORARY",
    "as_uri_path",
    "check",
    "check_directory",
    "check_new_place",
    "check_range",
    "check_start_after",
    "join",
    "parent",
    "valid",
]

# How the temporary files of the local and HDFS stores begin. Nobody else may use it: such files are never listed and
# old ones are swept. It starts with a dot and has no digits in front: nobody takes one for a manifest or a data file.
TEMPORARY = ".seiche-tmp-"

# Parts of at least one character, none of them control characters, backslashes or lone surrogates (which no storage can
# encode), none of them `.` or `..`, none of them a temporary file's.
_PART = r"(?!\.{1,2}(?:/|\Z)|" + re.escape(TEMPORARY) + r")[^/\\\x00-\x1f\x7f-\x9f\ud800-\udfff]+"
_UNREADABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SAFE = re.compile(rf"{_PART}(?:/{_PART})*")
_REMEDY = (
    "Use a relative path whose parts are separated by single slashes, without '.', '..', backslashes, control"
    f" characters or names that begin with {TEMPORARY!r}."
)

_NUMBERS = "Give whole numbers; a first byte below zero counts from the end of the file."
# What no file has more bytes than.
_LONGEST = 1 << 62


def valid(path: str) -> bool:
    """Whether `path` is relative, literal and cannot leave the store's root."""
    return _SAFE.fullmatch(path) is not None


def check(path: str) -> str:
    """Return `path` if it is relative, literal and cannot leave the store's root; else raise `InvalidInput`."""
    try:
        safe = _SAFE.fullmatch(path)
    except TypeError as error:
        raise wrong("a path inside a store", path, "Give a text.") from error
    if safe is None:
        raise InvalidInput(f"{path!r} is not a path inside a store", remedy=_REMEDY, path=path)
    return path


def check_directory(path: str) -> str:
    """As `check`, but the empty path, which stands for the root of the store, is good too."""
    return path if path == "" else check(path)


def check_new_place(address: str) -> None:
    """`InvalidInput` if something new could be written at this address of native code, and never be read from there.

    A local store may have any folder for its root, and those that have such a name already can be opened still.
    """
    found = _UNREADABLE.search(address)
    if found is not None:
        what = "bytes that are not UTF-8" if found[0] >= "\ud800" else "a control character"
        raise InvalidInput(
            f"{address!r} has {what} in it, and Lance reads nothing in such a place",
            remedy="Choose a folder whose path is UTF-8, without tabs, line breaks and other control characters.",
            path=address,
        )


def check_range(path: str, start: int, length: int) -> tuple[int, int]:
    """A part of the file at `path`, within what files can have; `InvalidInput` if it cannot be one."""
    if type(start) is type(length) is int and -_LONGEST <= start <= _LONGEST and 0 <= length <= _LONGEST:
        return start, length  # as always: every commit reads such parts
    number(start, "the first byte of a part", _NUMBERS)
    if number(length, "the length of a part", _NUMBERS) < 0:
        raise InvalidInput(f"{path}: cannot read {length} bytes", remedy=_NUMBERS, path=path)
    return max(-_LONGEST, min(start, _LONGEST)), min(length, _LONGEST)


def check_start_after(prefix: str, start_after: str) -> str:
    """Return the last part of `start_after`, which must be empty or the path of a file directly in `prefix`."""
    if start_after == "":
        return ""
    if parent(check(start_after)) != prefix:
        raise InvalidInput(
            f"start_after {start_after!r} does not lie directly in the listed directory {prefix!r}",
            remedy="Order is promised within one directory only: list the directory that the file is in.",
            path=start_after,
        )
    return start_after.rpartition("/")[2]


def parent(path: str) -> str:
    """The directory that `path` lies in; empty for the root of the store."""
    return path.rpartition("/")[0]


def join(*parts: str) -> str:
    """Put path parts together, leaving out empty ones."""
    return "/".join(part for part in parts if part)


def as_uri_path(path: str) -> str:
    """The path as it stands in a URI: what is special there is percent-encoded."""
    return quote(path, safe="/:@!$&'()*+,;=~", errors="surrogateescape")
