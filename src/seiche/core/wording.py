"""Saying what to do in the words of whoever is told: remedies are written for programs in Python."""

import re
from collections.abc import Iterable, Mapping

__all__ = ["reworded"]


def reworded(remedy: str, calls: Mapping[str, str], said: Iterable[tuple[re.Pattern[str], str]]) -> str:
    """The remedy with other words for what it quotes of Python (`calls`), and for whatever else is `said` in it."""
    for call, instead in calls.items():
        remedy = remedy.replace(f"`{call}`", instead)
    for words, instead in said:
        remedy = words.sub(instead, remedy)
    return remedy
