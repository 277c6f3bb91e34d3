"""Names as Spark reads them."""

from collections import Counter
from collections.abc import Sequence

__all__ = ["quoted", "said_twice"]


def quoted(name: str) -> str:
    """A name as it stands in Spark's SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def said_twice(names: Sequence[str]) -> str | None:
    """The first name that another one is, too, if there is any. Capitals do not count, as in queries."""
    times = Counter(name.lower() for name in names)
    return next((name for name in names if times[name.lower()] > 1), None)
