"""What checks make of the values that Spark finds."""

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import DataType, DateType, DecimalType, DoubleType, StructType, TimestampType

from seiche.spark.pipeline.checking import Checker
from seiche.spark.pipeline.definition import Check, Place
from seiche.spark.pipeline.plan import tables_read
from seiche.spark.pipeline.shorthands import drift, foreign_key, fresh, not_null, row_count, unique

CHECK = Check("it", "SELECT max(x) FROM s.t", None)
NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


class Answer:
    """Frames that give one value to whatever is asked."""

    def __init__(self, value: Any, kind: DataType) -> None:
        self._value = value
        self.schema = StructType().add("x", kind)
        self.columns = ["x"]
        self.sparkSession = SimpleNamespace(conf=SimpleNamespace(get=lambda _: "UTC"))

    def count(self, _: Check) -> None:
        return None

    def query(self, *_: Any) -> "Answer":
        return self

    def limit(self, _: int) -> "Answer":
        return self

    def collect(self) -> list[tuple[Any]]:
        return [(self._value,)]


def checker(now: Answer, before: Answer | None = None) -> Checker:
    return Checker(now, lambda _: before)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(("now", "passed"), [("150.00", True), ("150.01", False), ("50.00", True), ("49.99", False)])
def test_a_sum_of_money_may_drift(now: str, passed: bool) -> None:
    """Sums of decimals are decimals, which Python does not multiply with other numbers."""
    money = DecimalType(10, 2)
    checked = checker(Answer(Decimal(now), money), Answer(Decimal("100.00"), money))
    found = checked.evaluate(drift("s.t", 0.5, "sum(x)"))
    assert (found.passed, found.expected) == (passed, "within 0.5 of 100.00")
    plain = checker(Answer(float(now), DoubleType()), Answer(100.0, DoubleType()))
    assert plain.evaluate(drift("s.t", 0.5, "sum(x)")).passed == passed


@pytest.mark.parametrize(
    ("found", "low", "high", "passed"),
    [
        ("0.95", None, 0.95, True),
        ("0.96", None, 0.95, False),
        ("0.1", 0.1, None, True),
        ("0.09", 0.1, None, False),
        ("0.3", 0.3, 0.3, True),
        ("7", 7, 7, True),
    ],
)
def test_a_bound_of_a_decimal_is_what_is_written(
    found: str, low: float | None, high: float | None, passed: bool
) -> None:
    """As a float 0.95 is a little less, and 0.1 a little more: the value itself would be out of bounds."""
    checked = checker(Answer(Decimal(found), DecimalType(10, 2)))
    assert checked.evaluate(replace(CHECK, at_least=low, at_most=high)).passed is passed


@pytest.mark.parametrize(("now", "was"), [(Decimal(110), 100.0), (110.0, Decimal(100)), (Decimal(110), 100)])
def test_what_became_a_decimal_may_drift(now: Any, was: Any) -> None:
    checked = checker(Answer(now, DoubleType()), Answer(was, DoubleType()))
    assert checked.evaluate(drift("s.t", 0.1, "sum(x)")).passed
    assert not checked.evaluate(drift("s.t", 0.09, "sum(x)")).passed


def test_days_and_times_are_told_and_expected_as_sql_shows_them() -> None:
    here = datetime.fromtimestamp(NOON.timestamp())  # noqa: DTZ006 - as Spark gives it
    at = checker(Answer(here, TimestampType()))
    assert at.evaluate(replace(CHECK, expect="2030-01-31 12:00:00")).passed
    wrong = at.evaluate(replace(CHECK, expect="2030-01-31", rows="SELECT x FROM s.t"))
    assert (wrong.passed, wrong.found) == (False, "2030-01-31 12:00:00")
    assert wrong.rows == ({"x": datetime(2030, 1, 31, 12)},)  # noqa: DTZ001 - without a zone, as in SQL
    day = checker(Answer(date(2030, 1, 31), DateType()))
    assert day.evaluate(replace(CHECK, expect="2030-01-31")).passed
    assert not day.evaluate(replace(CHECK, expect="2030-02-01")).passed


@pytest.mark.parametrize(
    "check",
    [
        row_count("my-shop.2030", at_least=1),
        not_null("my-shop.2030", "id"),
        unique("my-shop.2030", "id"),
        foreign_key("my-shop.2030", "id", "my-shop.2030"),
        fresh("my-shop.2030", "at", "1d"),
        drift("my-shop.2030", 0.5),
        row_count("`my-shop`.`2030`", at_least=1),
    ],
    ids=lambda check: check.name,
)
def test_a_table_may_have_a_name_that_stands_in_quotes_in_queries(check: Check) -> None:
    """A step that makes such a table needs no quotes; the check of it was called a query that is not understood."""
    for sql in filter(None, (check.sql, check.rows)):
        assert tables_read(sql, Place(), what="it") == {"my-shop.2030"}
