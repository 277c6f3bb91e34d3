"""SQL that callers give, as native code must be given it."""

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from seiche.errors import InvalidInput
from seiche.table.data.native_errors import native_message, without_panics

__all__ = [
    "LITERALS",
    "REFUSALS",
    "USE_STATISTICS",
    "Shape",
    "check_quotes",
    "closed",
    "complaint",
    "is_refused",
    "quoted",
]

Shape: TypeAlias = Callable[[str], str]

# Files of the first format have statistics, by which native code takes a null for whatever all other texts of a page
# are: conditions on these are wrong with them. Later formats have none.
USE_STATISTICS: Final = False

# What native code raises for SQL that does not parse, or that names what is not there.
REFUSALS = (ValueError, KeyError, TypeError)

# What those miss who know databases that make days of texts by themselves.
LITERALS = "Days and times are written as date '2030-12-31' and timestamp '2030-12-31 23:59:59'."

_PLAIN_NAME = re.compile(r"`[^`]*`|\w+")
# Parentheses, and whatever they mean nothing in: texts, names in quotes, comments.
_MARKS = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[()]", re.DOTALL)
# The lowest number of 64 bits. Native code reads its digits before the minus sign, and they are too many for a number.
_LOWEST = re.compile(rf"{_MARKS.pattern}|(?P<lowest>-\s*9223372036854775808(?![\w.]))", re.DOTALL)
_CAST = "CAST('-9223372036854775808' AS BIGINT)"
_MORE = "there is more behind its end, such as a second expression, a LIMIT or a parenthesis too many"


def quoted(column: str) -> str:
    """The name of a column as it stands in SQL."""
    if "`" in column:
        raise InvalidInput(
            f"column {column!r} has a backtick in its name, which cannot stand in SQL",
            remedy="Rename the column first.",
            column=column,
        )
    return f"`{column}`"


def check_quotes(sql: str, names: Callable[[], Iterable[str]]) -> None:
    """`InvalidInput` if a column stands in double quotes, as it may in other databases. Here that is a text: a delete
    where `"name" != 'a'` would take every row.
    """
    if '"' not in sql:
        return
    known = {name.lower() for name in names()}
    for mark in _MARKS.findall(sql):
        if mark.startswith('"') and mark[1:-1].lower() in known:
            raise InvalidInput(
                f"{mark} in {sql!r} is a text, and there is a column of that name",
                remedy=f"Write `{mark[1:-1]}` for the column, '{mark[1:-1]}' for the text.",
            )


def closed(sql: str) -> str:
    """One expression that means the same and ends where the text does; `ValueError` if it ends before.

    Native code parses an expression and does not look at what follows it: `id > 3 LIMIT 1` would delete all rows behind
    3. In parentheses, what follows is in the way.
    """
    if _PLAIN_NAME.fullmatch(sql):
        return sql
    depth = 0
    for mark in _MARKS.findall(sql):
        depth += (mark == "(") - (mark == ")")
        if depth < 0:
            raise ValueError(_MORE)
    readable = _LOWEST.sub(lambda found: _CAST if found["lowest"] else found[0], sql)
    return f"({readable}\n)"  # a comment at the end ends with its line


def complaint(error: Exception, plan: Callable[[Shape], object]) -> str:
    """What is wrong where native code refused something; `plan` plans it with the SQL in another shape."""
    if not is_refused(plan):
        return native_message(error)  # the SQL is good: it was refused for what it was to work on
    return _refusal(plan, str) or _MORE


def is_refused(plan: Callable[[Shape], object]) -> bool:
    """Whether it is the SQL that native code does not get along with, before it has read anything."""
    return _refusal(plan, closed) is not None


def _refusal(plan: Callable[[Shape], object], shape: Shape) -> str | None:
    try:
        with without_panics():
            plan(shape)
    except (*REFUSALS, OSError) as error:
        return native_message(error)
    return None
