"""Names as Spark reads them, and those that are ours while it changes rows."""

from collections import Counter
from collections.abc import Iterable, Sequence

from seiche.errors import InvalidInput

__all__ = ["quoted", "refuse_ours", "said_twice"]


def quoted(name: str) -> str:
    """A name as it stands in Spark's SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def said_twice(names: Sequence[str]) -> str | None:
    """The first name that another one is, too, if there is any. Capitals do not count, as in queries."""
    times = Counter(name.lower() for name in names)
    return next((name for name in names if times[name.lower()] > 1), None)


def refuse_ours(names: Iterable[str], ours: Iterable[str], whose: str) -> None:
    """`InvalidInput` for a column that is called as one of `ours`, which are put beside it: Spark could not tell them
    apart, or would take ours for it. Those that end in an underscore go on with anything. Capitals do not count, as in
    queries.
    """
    whole = set(ours)
    begun = tuple(one for one in whole if one.endswith("_"))
    odd = next((name for name in names if name.lower() in whole or name.lower().startswith(begun)), None)
    if odd is not None:
        raise InvalidInput(
            f"column {odd!r} of {whose} has a name that Seiche gives to what it knows of a row while Spark changes it",
            remedy="Rename it.",
            column=odd,
        )
