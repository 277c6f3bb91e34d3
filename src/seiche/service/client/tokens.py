"""What a client shows to be let in: a token, or what gives the one that is good now."""

from collections.abc import Callable
from typing import TypeAlias

from seiche.errors import InvalidInput, PermissionDenied

__all__ = ["Token", "checked", "shown"]

Token: TypeAlias = str | Callable[[], str]


def checked(token: Token) -> Token:
    """The token, if it can be one. One that is asked for is looked at when it comes."""
    return token if callable(token) else _text(token)


def shown(token: Token) -> str:
    """The token to be sent now. `PermissionDenied` if there is none to be had, and nothing was sent."""
    if not callable(token):
        return token
    try:
        given = token()
    except Exception as error:
        # An error of the lake, whatever it is: who has sent something before must still hear that it is not known what
        # became of that.
        raise PermissionDenied(
            f"there is no token: {type(error).__name__}: {error}", remedy="See to what is given as `token=`."
        ) from error
    return _text(given)


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise InvalidInput(
            f"a token is a text, not {type(given).__name__}",
            remedy="Leave it out if there is none; one that changes is given as a function that returns it.",
        )
    if not (given.isascii() and given.isprintable()):
        raise InvalidInput(
            "the token has a line break, another control character or one beyond ASCII, which cannot be sent",
            remedy="If it was read from a file, take the end of the line off: `.strip()`.",
        )
    return given
