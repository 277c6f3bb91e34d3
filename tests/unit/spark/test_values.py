"""Values of Spark as `seiche sql` shows them, on a machine whose time is not that of the session."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from seiche.cli.values import plain, shown
from seiche.spark.zones import in_zone

NOON = datetime(2030, 7, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the process takes for its own time."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def as_spark_gives(moment: datetime) -> datetime:
    return datetime.fromtimestamp(moment.timestamp())  # noqa: DTZ006 - that is the point


def test_times_are_those_of_the_session_wherever_they_stand() -> None:
    here = as_spark_gives(NOON)
    assert here.hour == 8
    assert in_zone(here, TimestampType(), "UTC") == NOON
    assert shown(in_zone(here, TimestampType(), "Europe/Berlin")) == "2030-07-31 14:00:00"
    assert in_zone(here, TimestampNTZType(), "UTC") == here, "of no zone"
    assert in_zone(None, TimestampType(), "UTC") is None
    nested = StructType([StructField("at", ArrayType(TimestampType())), StructField("n", IntegerType())])
    told = in_zone({here: Row(at=[here, None], n=1)}, MapType(TimestampType(), nested), "UTC")
    assert told == {NOON: {"at": [NOON, None], "n": 1}}
    keyed = in_zone({Row(n=1): here}, MapType(StructType([nested["n"]]), TimestampType()), "UTC")
    assert plain(keyed) == {"Row(n=1)": NOON}


def test_an_hour_that_comes_twice_is_told_apart() -> None:
    for hour in (5, 6):
        moment = datetime(2030, 11, 3, hour, 30, tzinfo=UTC)
        assert in_zone(as_spark_gives(moment), TimestampType(), "UTC") == moment
