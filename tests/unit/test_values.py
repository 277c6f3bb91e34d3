"""Frozen values that are replaced often."""

from dataclasses import dataclass, field, replace

import pytest

from seiche.core.values import replaced


@dataclass(frozen=True)
class Point:
    """A value with a part that `__init__` makes."""

    x: int
    y: int = 0
    seen: list[int] = field(default_factory=list, init=False, compare=False)


def test_a_value_is_replaced_as_by_the_standard_library_and_the_old_one_stays() -> None:
    old = Point(1, 2)
    made = replaced(old, y=3)
    assert made == replace(old, y=3) == Point(1, 3)
    assert old == Point(1, 2)
    assert made.seen is old.seen
    with pytest.raises(AttributeError):
        made.x = 5  # type: ignore[misc]


def test_what_a_value_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="a Point has no z"):
        replaced(Point(1), z=1)
