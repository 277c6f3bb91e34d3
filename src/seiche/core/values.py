"""Frozen values that are replaced often."""

from typing import Any, TypeVar

__all__ = ["replaced"]

V = TypeVar("V")


def replaced(value: V, **changes: Any) -> V:
    """`dataclasses.replace` in a fifth of the time, for values without slots: every commit replaces several per table.

    Everything else is taken over as it is, also what `__init__` would make anew, and `__post_init__` does not run.
    """
    held = value.__dict__
    if not changes.keys() <= held.keys():
        raise TypeError(f"a {type(value).__name__} has no {', '.join(sorted(changes.keys() - held.keys()))}")
    made = object.__new__(type(value))
    made.__dict__.update(held, **changes)
    return made
