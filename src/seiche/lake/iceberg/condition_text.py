"""Conditions on Iceberg tables as users write them, which is as on Lance tables.

PyIceberg reads a small part of SQL in a spelling of its own: names in double quotes, days and times as texts, numbers
without exponents. The spelling that all other tables have, names in backticks, `date '2030-12-31'` and 1e-07, as Python
writes small numbers, becomes that before it is read.
"""

import re
from decimal import Decimal
from typing import Any, Final

from seiche.errors import InvalidInput

__all__ = ["EVERYTHING", "condition"]

EVERYTHING: Final = "true"
_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?"
# A text, a name in double quotes, a name in backticks, what says that a text is a day or a time, a list of numbers, or
# a number with an exponent. The first two are found as PyIceberg finds them, and stay: what is inside of them is
# nobody's spelling.
_PIECE: Final = re.compile(
    r"""(?P<stays>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"""|`(?P<name>[^`]+)`"""
    r"""|\b(?P<kind>date|timestamp)\s*'(?P<time>[^'\\]*)'"""
    # A list of numbers, of which some may be whole.
    rf"""|(?P<in>\bin\s*\()(?P<list>\s*{_NUMBER}\s*(?:,\s*{_NUMBER}\s*)*)\)"""
    # No float has a larger one, and written out it would be as many digits.
    r"""|(?<![\w.])(?P<number>(?:\d+\.?\d*|\.\d+)e[+-]?\d{1,3})(?![\w.])""",
    re.IGNORECASE | re.DOTALL,
)


def condition(given: str) -> Any:
    """A condition as PyIceberg has it; `InvalidInput` if it cannot be read."""
    from pyiceberg.expressions import AlwaysTrue, parser
    from pyparsing import ParseBaseException

    from seiche.lake.iceberg.asking import ask_what_is_meant

    ask_what_is_meant()
    if not isinstance(given, str):
        raise InvalidInput(f"a condition is text, not {given!r}", remedy='Write one, such as "id = 3".')
    if given.strip().lower() == EVERYTHING:
        return AlwaysTrue()
    read = _PIECE.sub(_spelled, given)
    try:
        return parser.parse(read)
    except ParseBaseException as error:
        # Its own message is the whole grammar; where it stopped is told only if that is not the beginning.
        where = f", from {read[error.loc :]!r} on" if error.loc else ""
        raise _refused(given, where) from error
    except ValueError as error:
        raise _refused(given, f": {error}") from error


def _spelled(piece: re.Match[str]) -> str:
    if name := piece["name"]:
        if "\\" in name:  # which stands for a quote there: another column would be asked for
            raise _refused(piece.string, f": it has no way to name the column {name!r}")
        # A dot is no part of a name in quotes there; the parts on both its sides are joined again when it is looked up.
        return ".".join('"' + part.replace('"', "\\") + '"' for part in name.split("."))
    if piece["kind"]:
        return "'" + piece["time"].strip().replace(" ", "T", 1) + "'"
    if piece["list"]:
        return piece["in"] + ", ".join(_alike(piece["list"].split(","))) + ")"
    if piece["number"]:
        return _plain(piece["number"])
    return piece["stays"]


def _alike(numbers: list[str]) -> list[str]:
    """Either whole numbers or such as have a point: PyIceberg takes no others together."""
    written = [_plain(one.strip()) for one in numbers]
    fractions = any("." in one for one in written)
    return [one if not fractions or "." in one else f"{one}.0" for one in written]


def _plain(number: str) -> str:
    return f"{Decimal(number):f}"


def _refused(given: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{given!r} is not a condition that PyIceberg understands{why}",
        remedy="Compare columns with values, such as `id = 3 AND name IS NOT NULL`, without functions and arithmetic. "
        "SQL and Spark take any condition.",
    )
