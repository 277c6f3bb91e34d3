"""Names of namespaces, tables and views.

A name never becomes a path: files are named by ids. It is checked all the same so that no tool downstream, which may
build a path, a line or a key from it, can be led astray.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from seiche.core import given
from seiche.errors import InvalidInput

__all__ = ["Name", "check_name", "parts", "tables_named", "text"]

# The parts of a name, outermost namespace first.
Name: TypeAlias = tuple[str, ...]

MOST_BYTES: Final = 100
MOST_DEPTH: Final = 16

# Checked as UTF-8 bytes: control characters, blank and delete; both slashes; C1 controls (C2 80..9F); U+2028 and
# U+2029.
_FORBIDDEN: Final = re.compile(rb"[\x00-\x20\x7f/\\]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")


def check_name(part: str, *, what: str = "name") -> str:
    """Return `part` unchanged if it may name something; else raise `InvalidInput` that says why not."""
    if not isinstance(part, str):
        raise given.wrong(f"a {what}", part, "Give a text.")
    try:
        data = part.encode()
    except UnicodeEncodeError as error:
        raise _refused(part, what, "it is not valid Unicode") from error
    if not data:
        raise _refused(part, what, "it is empty")
    if len(data) > MOST_BYTES:
        raise _refused(part, what, f"it has {len(data)} bytes, more than {MOST_BYTES}")
    if part in {".", ".."}:
        raise _refused(part, what, "it means a directory")
    found = _FORBIDDEN.search(data)
    if found is not None:
        raise _refused(part, what, f"it contains {found[0].decode()!r}")
    return part


def parts(name: str | Sequence[str], *, what: str = "name") -> Name:
    """The checked parts of `"ns1.ns2.table"` or of a sequence of parts; only the latter may have dots inside a part."""
    if isinstance(name, str):
        return _split(name, what)
    return _checked(_given(name, what), what)


@lru_cache(maxsize=1024)
def _split(name: str, what: str) -> Name:
    return _checked(tuple(name.split(".")), what)


@lru_cache(maxsize=4096)
def _checked(split: Name, what: str) -> Name:
    if not split:
        raise InvalidInput(f"a {what} needs at least one part", remedy="Name it, for instance 'shop.orders'.")
    if len(split) > MOST_DEPTH + 1:
        raise InvalidInput(
            f"{what} {text(split)!r} has {len(split)} parts; at most {MOST_DEPTH} namespaces may be nested",
            remedy="Use fewer levels.",
        )
    return tuple(check_name(part, what=what) for part in split)


def _given(name: object, what: str) -> Name:
    if not isinstance(name, Sequence) or not all(isinstance(part, str) for part in name):
        raise InvalidInput(f"{name!r} is not the name of a {what}", remedy="Give 'shop.orders', or a tuple of parts.")
    return tuple(name)


def tables_named(given_names: str | Iterable[str | Sequence[str]]) -> tuple[Name, ...]:
    """The checked parts of several names of tables, or of a single one."""
    several = [given_names] if isinstance(given_names, str) else given_names
    remedy = "Give a list, as in ['shop.orders', 'shop.stock']."
    return tuple(parts(one, what="table") for one in given.several(several, "tables", remedy))


def text(name: Sequence[str]) -> str:
    """The name for people: parts with dots between; a part that has a dot itself is put in quotes."""
    return ".".join(f'"{part}"' if "." in part else part for part in name)


def _refused(part: str, what: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{part!r} cannot be a {what}: {why}",
        remedy="Use 1 to 100 bytes of UTF-8 without control characters, blanks and slashes.",
        name=part,
    )
