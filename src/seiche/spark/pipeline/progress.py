"""How a run tells what it is doing."""

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["Progress", "unheard"]

# Called with a source, step or check and what happens to it: "running", "failed", or what came of it.
Progress: TypeAlias = Callable[[str, str], None]


def unheard(_what: str, _state: str) -> None:
    """For whoever does not want to know."""
