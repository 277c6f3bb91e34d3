"""What callers give, looked at before anything is done with it: a wrong type is said in words of the call."""

import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

from seiche.errors import InvalidInput

__all__ = ["a_flag", "a_function", "an_address", "made", "names", "number", "several", "text", "texts", "wrong"]

T = TypeVar("T")

_LONGEST = 60


def wrong(what: str, value: object, remedy: str) -> InvalidInput:
    """The error about a value that is not of the type that it must be."""
    shown = repr(value)
    shown = f"{shown[:_LONGEST]}..." if len(shown) > _LONGEST else shown
    kind = "" if value is None else f", which is of type {type(value).__name__}"
    return InvalidInput(f"{what} cannot be {shown}{kind}", remedy=remedy)


def text(value: object, what: str, remedy: str = "Give a text.") -> str:
    """A text that can be stored: one that came of bytes which were none may not be."""
    if not isinstance(value, str):
        raise wrong(what, value, remedy)
    if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
        raise wrong(what, value, "Give a text: this one cannot be written as UTF-8.")
    return value


def an_address(value: object, remedy: str) -> str:
    """An address: a text, or a path as `pathlib` makes it."""
    made = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(made, str):
        raise wrong("an address", made, remedy)
    return made


def a_flag(value: object, what: str) -> bool:
    """Yes or no. The text "false", which came out of a file of settings, is no no; nor is a setting that is missing."""
    if not isinstance(value, bool):
        raise wrong(what, value, "Give True or False.")
    return value


def a_function(value: object, what: str, remedy: str) -> None:
    """Something that can be called, or `None`."""
    if value is not None and not callable(value):
        raise wrong(what, value, remedy)


def number(value: object, what: str, remedy: str) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(what, value, remedy)
    return value


def several(value: Iterable[T], what: str, remedy: str) -> Iterable[T]:
    """Whatever can be gone through and is no text."""
    given: object = value
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise wrong(what, value, remedy)
    return value


def made(value: object, kind: type[T], what: str, remedy: str) -> T:
    """A value of a type that nobody makes by hand: it comes from another call."""
    if not isinstance(value, kind):
        raise wrong(what, value, remedy)
    return value


def names(value: str | Iterable[str], what: str, remedy: str) -> list[str]:
    """Texts: one, or several in whatever they come."""
    if isinstance(value, str):
        return [value]
    return [text(one, f"one of {what}", remedy) for one in several(value, what, remedy)]


def texts(value: object, what: str, remedy: str) -> dict[str, str]:
    """Texts by name; none for `None`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(what, value, remedy)
    for name, one in value.items():
        text(name, f"a name in {what}", remedy)
        text(one, f"{name!r} in {what}", remedy)
    return dict(value)
