"""Times and lengths of time as users write them."""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from seiche.errors import InvalidInput

__all__ = ["LONGEST", "Duration", "duration", "in_words", "moment", "of_millis"]

# A timedelta, a number of seconds, or a number with a unit such as "7d", "36h", "90s".
Duration: TypeAlias = timedelta | int | float | str

# What is longer is as good as for ever, and counts as this: with more, a calendar has no date to come out at.
LONGEST: Final = timedelta(days=365_000)

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", re.ASCII)


def duration(value: Duration, name: str) -> timedelta:
    """The length of time that `value` stands for; `InvalidInput`, which calls it `name`, if it stands for none."""
    try:
        if isinstance(value, str):
            number, unit = _parts(value)
            length = timedelta(**{_UNITS[unit]: number})
        elif isinstance(value, timedelta):
            length = value
        elif isinstance(value, bool) or not math.isfinite(value):
            raise ValueError
        else:
            length = timedelta(seconds=value)
        if length < timedelta(0):
            raise ValueError
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(
            f"{name} cannot be {value!r}",
            remedy='Give a timedelta, a number of seconds, or a text such as "7d", "36h", "90m" or "30s".',
        ) from error
    return min(length, LONGEST)


def of_millis(count: int) -> timedelta:
    """A length of time that is stored as a number, which may be any."""
    return timedelta(milliseconds=min(count, LONGEST // timedelta(milliseconds=1)))


def moment(text: str) -> datetime:
    """A time in ISO form; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(f"{text!r} is not a time", remedy="Write it as 2030-12-31T23:59:59+01:00.") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def in_words(length: timedelta) -> str:
    """A length of time for people, in the largest unit that gives a whole number: `7 days`, `36 hours`."""
    seconds = length.total_seconds()
    sizes = {"day": 86400, "hour": 3600, "minute": 60}
    unit = next((unit for unit, size in sizes.items() if seconds >= size and seconds % size == 0), "second")
    count = seconds / sizes.get(unit, 1)
    return f"{count:g} {unit}{'' if count == 1 else 's'}"


def _parts(text: str) -> tuple[float, str]:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(found[1]), found[2]
