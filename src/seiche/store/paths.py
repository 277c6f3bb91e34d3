"""Which paths may reach storage."""

import re

from seiche.errors import InvalidInput

__all__ = ["check", "join"]

# Parts of at least one character, none of them control characters or backslashes, none of them `.` or `..`.
_SAFE = re.compile(r"(?:(?!\.{1,2}(?:/|\Z))[^/\\\x00-\x1f\x7f]+/)*(?!\.{1,2}\Z)[^/\\\x00-\x1f\x7f]+")


def check(path: str) -> str:
    """Return `path` unchanged if it is relative, literal and cannot leave the store's root; else raise `InvalidInput`."""
    if _SAFE.fullmatch(path) is None:
        raise InvalidInput(
            f"{path!r} is not a path inside a store",
            remedy="Use a relative path whose parts are separated by single slashes, without '.', '..', backslashes or control characters.",
            path=path,
        )
    return path


def join(*parts: str) -> str:
    """Put path parts together, leaving out empty ones."""
    return "/".join(part for part in parts if part)
