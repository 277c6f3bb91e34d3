"""Lengths of time as users write them."""

from datetime import UTC, datetime, timedelta

import pytest

from seiche.core.durations import Duration, duration, in_words, of_millis
from seiche.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (timedelta(hours=2), 7200),
        (90, 90),
        (1.5, 1.5),
        (0, 0),
        ("7d", 7 * 86400),
        ("36h", 36 * 3600),
        (" 90 m ", 5400),
        ("30s", 30),
        ("2w", 14 * 86400),
        ("0.5h", 1800),
    ],
)
def test_what_is_understood(given: timedelta | float | str, seconds: float) -> None:
    assert duration(given, "older_than") == timedelta(seconds=seconds)


@pytest.mark.parametrize("given", [timedelta.max, "1000000d", 10**12])
def test_what_is_as_good_as_for_ever_still_leads_to_a_date(given: timedelta | float | str) -> None:
    long = duration(given, "older_than")
    assert long > timedelta(days=300_000)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert now - long < now < now + long
    assert of_millis(2**63) == long


@pytest.mark.parametrize(
    "given", ["", "7", "d", "7 days", "-1d", "1d2h", "٧d", -1, timedelta(-1), float("nan"), float("inf"), 1e300, True]
)
def test_what_is_not(given: timedelta | float | str) -> None:
    with pytest.raises(InvalidInput, match="grace cannot be"):
        duration(given, "grace")
    with pytest.raises(InvalidInput):
        duration(None, "grace")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("7d", "7 days"),
        ("1d", "1 day"),
        ("36h", "36 hours"),
        ("90m", "90 minutes"),
        ("1.5s", "1.5 seconds"),
        (0, "0 seconds"),
    ],
)
def test_in_words(given: Duration, said: str) -> None:
    assert in_words(duration(given, "x")) == said
