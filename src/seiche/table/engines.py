"""Engines of higher layers that prepare verbs for rows that are not in this process, such as a Spark data frame."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from seiche.errors import InvalidInput

__all__ = ["GROUP", "engine", "engine_for"]

# Entry points by which an engine makes itself known: modules, under the name that is asked for.
GROUP = "seiche.engines"


@cache
def engine(name: str) -> Any:
    """The engine of this name; `InvalidInput` if none is installed."""
    for found in entry_points(group=GROUP, name=name):
        return found.load()
    raise InvalidInput(
        f"there is no engine {name!r} installed",
        remedy=f'Install it with pip install "seiche[{name}]".',
        engine=name,
    )


def engine_for(rows: Any) -> Any | None:
    """The engine that must do the work because the rows are its own; `None` for rows that can be read here.

    A data frame of Spark is told by what it can do, not by its type: there are several kinds, and to import them would
    take seconds.
    """
    is_spark = hasattr(rows, "mapInArrow") and type(rows).__module__.partition(".")[0] == "pyspark"
    return engine("spark") if is_spark else None
