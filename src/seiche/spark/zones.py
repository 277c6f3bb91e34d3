"""Times that Spark hands to Python, in the zone in which its SQL speaks of them."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["collected", "in_zone", "of_session"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def of_session(time: datetime, session: "SparkSession") -> datetime:
    """A time without a zone as one of the session's, which Spark is asked for: it has zones that Python has not."""
    (row,) = session.sql(f"SELECT unix_micros(TIMESTAMP_LTZ '{time}')").collect()
    return _EPOCH + timedelta(microseconds=row[0])


def collected(frame: "DataFrame") -> list[list[Any]]:
    """The rows of a frame; times have the zone of the session, and what is nested is in dictionaries and lists.

    If there are times or days that Python has not, after the year 9999 or before the first, or if it does not know the
    zone, such as +02:00, all in their columns are texts of Spark's.
    """
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    try:
        kinds = [field.dataType for field in frame.schema]
        return [[in_zone(one, kind, zone) for one, kind in zip(row, kinds, strict=True)] for row in frame.collect()]
    except (KeyError, OverflowError, ValueError):
        return [list(row) for row in _with_texts(frame).collect()]


def _with_texts(frame: "DataFrame") -> "DataFrame":
    """The same with texts in all columns that have times or days, or have them inside."""
    numbered = frame.toDF(*map(str, range(len(frame.columns))))  # two columns may have one name
    columns = [numbered[name] for name in numbered.columns]
    kinds = [field.dataType.simpleString() for field in frame.schema]
    return numbered.select(
        *(
            one.cast("string") if any(what in kind for what in ("date", "timestamp")) else one
            for one, kind in zip(columns, kinds, strict=True)
        )
    )


def in_zone(value: Any, kind: "DataType", zone: str) -> Any:
    """A value of Spark with its times in a zone of one's choice.

    Spark gives times of no zone of their own in that of this machine, and does not say so; its SQL takes them for times
    of the session, which may be another.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType, TimestampType

    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return value.astimezone(ZoneInfo(zone))
    if isinstance(kind, ArrayType):
        return [in_zone(one, kind.elementType, zone) for one in value]
    if isinstance(kind, MapType):
        when = isinstance(kind.keyType, TimestampType)  # a key that is nested stays as it is: it must be hashable
        return {
            in_zone(key, kind.keyType, zone) if when else key: in_zone(one, kind.valueType, zone)
            for key, one in value.items()
        }
    if isinstance(kind, StructType):
        return {field.name: in_zone(one, field.dataType, zone) for field, one in zip(kind, value, strict=True)}
    return value
