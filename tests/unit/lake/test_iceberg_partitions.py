"""Partitions of Iceberg tables: each row that is written is in one of them, whatever its value."""

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from seiche import InvalidInput, Lake

NAN = float("nan")


def shown(table: Any) -> list[str]:
    return sorted(repr(tuple(one.values())) for one in table.to_arrow().to_pylist())


def test_partitions_of_floats_have_each_row_once(lake: Lake) -> None:
    """Nothing equals not a number, and the two zeros equal each other: rows had no place, or two."""
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "f", DoubleType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table: Any = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    values = [NAN, 1.0, NAN, None, math.inf, 0.0, -0.0, 1.0]
    rows = [{"id": number, "f": value} for number, value in enumerate(values)]
    assert table.append(rows).rows == len(rows)
    whole = sorted(repr((one["id"], one["f"])) for one in rows)
    assert shown(table) == whole
    assert sorted(table.to_arrow(filter="f IS NAN")["id"].to_pylist()) == [0, 2]
    assert sorted(table.to_arrow(filter="f = 0.0")["id"].to_pylist()) == [5, 6]
    assert table.to_iceberg().inspect.files().num_rows == 6
    assert table.delete("id = 0").rows == 1
    assert table.update({"id": "id + 100"}, "f IS NAN").rows == 1
    merge = table.merge([{"id": 102, "f": NAN}, {"id": 6, "f": 2.0}, {"id": 9, "f": NAN}], "id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    after = [(1, 1.0), (3, None), (4, math.inf), (5, 0.0), (6, 2.0), (7, 1.0), (9, NAN), (102, NAN)]
    assert shown(table) == sorted(map(repr, after))
    assert table.delete("f IS NAN").rows == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3, 4, 5, 6, 7]


MOMENTS = [datetime.fromisoformat(one) for one in ("1969-12-31T23:59:59.999999", "1970-01-01", "2024-02-29T12:00")]
DAYS = [one.date() for one in MOMENTS]
TIMES, UUIDS = [time(22, 31, 8), time(0)], [UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), UUID(int=2)]
DECIMALS, FIFTIES = [Decimal("-0.01"), Decimal("1.10")], [Decimal("-0.50"), Decimal("1.00")]
# The type of a column, its values, and those of its partitions. Buckets are those of the examples in the specification.
PARTS: dict[str, tuple[Any, list[Any], Any, list[Any]]] = {
    "year of a day": (DateType(), DAYS, YearTransform(), [-1, 0, 54]),
    "month of a day": (DateType(), DAYS, MonthTransform(), [-1, 0, 649]),
    "day": (DateType(), DAYS, DayTransform(), [-1, 0, 19782]),
    "day of a moment": (TimestampType(), MOMENTS, DayTransform(), [-1, 0, 19782]),
    "hour": (TimestampType(), MOMENTS, HourTransform(), [-1, 0, 474780]),
    "bucket of a number": (LongType(), [34, -1], BucketTransform(100), [79, 12]),
    "bucket of a text": (StringType(), ["iceberg", ""], BucketTransform(100), [89, 0]),
    "bucket of a time": (TimeType(), TIMES, BucketTransform(100), [59, 76]),
    "bucket of a uuid": (UUIDType(), UUIDS, BucketTransform(100), [40, 78]),
    "numbers in tens": (LongType(), [-1, 9, 10], TruncateTransform(10), [-10, 0, 10]),
    "first letters": (StringType(), ["a\U0001f9cab", "a", ""], TruncateTransform(2), ["a\U0001f9ca", "a", ""]),
    "decimals in fifties": (DecimalType(9, 2), DECIMALS, TruncateTransform(50), FIFTIES),
}


@pytest.mark.parametrize("part", PARTS)
def test_rows_go_into_partitions_of_all_kinds_also_without_a_native_library(lake: Lake, part: str) -> None:
    """PyIceberg wants one for all but the values themselves; appends to such tables were refused."""
    kind, values, transform, wanted = PARTS[part]
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))
    spec = PartitionSpec(PartitionField(2, 1000, transform, "part"))
    table: Any = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    table.append([{"id": number, "v": value} for number, value in enumerate([*values, None])])
    assert {one.file.partition[0] for one in table.to_iceberg().scan().plan_files()} == {*wanted, None}
    for number, value in enumerate([*values, None]):
        spelled = value.isoformat() if hasattr(value, "isoformat") else value
        condition = "v IS NULL" if value is None else f"v = '{spelled}'"
        if isinstance(value, int | Decimal):
            condition = f"v = {value}"
        assert table.to_arrow(filter=condition)["id"].to_pylist() == [number]
        assert table.update({"id": "id + 10"}, condition).rows == 1
        table.overwrite([{"id": number, "v": value}], where=condition)
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(len(values) + 1))
    assert lake.fsck(deep=True).problems == ()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("part", ["month of a day", "bucket of a uuid", "first letters", "decimals in fifties"])
def test_tables_can_be_changed_that_have_files_in_partitions_of_a_dropped_column(
    lake: Lake, part: str, version: int
) -> None:
    """PyIceberg had no type for such partitions: deletes and updates ended with a TypeError, in version 1 all did."""
    kind, values, transform, _ = PARTS[part]
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind))
    spec = PartitionSpec(PartitionField(2, 1000, transform, "part"))
    table: Any = lake.create_table(
        "shop.i", columns, format="iceberg", partition_spec=spec, properties={"format-version": str(version)}
    )
    table.append(
        [{"id": 1, "v": values[0]}, {"id": 2, "v": values[0]}, {"id": 3, "v": values[1]}, {"id": 4, "v": None}]
    )
    with table.to_iceberg().update_spec() as change:
        change.remove_field("part")
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("v")
    with table.to_iceberg().update_schema() as change:
        change.add_column("v", LongType())
    table.append([{"id": 5, "v": 5}])
    assert table.delete("id = 1").rows == 1
    assert table.update({"v": "id"}, "id = 3").rows == 1
    merge = table.merge([{"id": 2, "v": 2}, {"id": 6, "v": 6}], "id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = StaticTable.from_metadata(table.metadata_location).scan().to_arrow().sort_by("id")
    assert found.to_pylist() == [{"id": one, "v": None if one == 4 else one} for one in (2, 3, 4, 5, 6)]
    assert table.overwrite([{"id": 7}]).rows == 1
    assert table.to_arrow()["id"].to_pylist() == [7]
    assert lake.fsck(deep=True).problems == ()


def test_partitions_and_orders_of_an_arrow_schema_count_its_columns(lake: Lake) -> None:
    """PyIceberg gives such columns ids when it makes the table, and looked for those of the spec before that."""
    columns = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())])), ("day", pa.date32())])
    spec = PartitionSpec(PartitionField(3, 1000, MonthTransform(), "month"))
    order = SortOrder(SortField(1, IdentityTransform()))
    table: Any = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec, sort_order=order)
    schema = table.metadata.schema()
    assert schema.find_column_name(table.metadata.spec().fields[0].source_id) == "day"
    assert schema.find_column_name(table.metadata.sort_order().fields[0].source_id) == "id"
    table.append([{"id": 1, "s": {"a": 1}, "day": date(2024, 1, 9)}, {"id": 2, "day": date(2024, 2, 1)}])
    assert len(list(table.to_iceberg().scan("day < '2024-02-01'").plan_files())) == 1


def test_a_value_without_a_partition_is_refused(lake: Lake) -> None:
    columns = Schema(NestedField(1, "id", LongType()))
    spec = PartitionSpec(PartitionField(1, 1000, TruncateTransform(10), "part"))
    table = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    with pytest.raises(InvalidInput, match=r"by truncate\[10\], is below what long has"):
        table.append([{"id": -(2**63)}])
    assert table.append([{"id": -(2**63) + 8}]).rows == 1


def test_one_column_may_be_in_two_partitions(lake: Lake) -> None:
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", TimestampType()))
    fields: tuple[Any, ...] = (DayTransform(), BucketTransform(4))
    spec = PartitionSpec(*(PartitionField(2, 1000 + at, one, f"part{at}") for at, one in enumerate(fields)))
    table: Any = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    table.append([{"id": number, "v": one} for number, one in enumerate([*MOMENTS, None])])
    assert len(list(table.to_iceberg().scan().plan_files())) == 4
    assert table.to_arrow(filter="v >= '1970-01-01T00:00:00'").num_rows == 2
    assert table.delete("v < '1970-01-01T00:00:00'").rows == 1
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("day > '9999-12-31'", []),
        ("day <= '9999-12-31'", [1]),
        ("day < '0001-01-01'", []),
        ("day >= '0001-01-01'", [1]),
        ("day = '9999-12-31' OR id = 1", [1]),
        ("day != '9999-12-31'", [1]),
    ],
)
def test_a_condition_at_the_end_of_the_calendar_is_answered(
    lake: Lake, condition: str, wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg counts the months of the next day, which Python has no date for."""
    monkeypatch.setattr(MonthTransform, "pyarrow_transform", lambda *_: lambda days: pa.array([648] * len(days)))
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
    spec = PartitionSpec(PartitionField(2, 1000, MonthTransform(), "month"))
    table: Any = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    row = {"id": 1, "day": date(2024, 1, 9)}
    table.append([row])
    assert table.to_arrow(filter=condition)["id"].to_pylist() == wanted
    assert table.update({"id": "1"}, condition).rows == len(wanted)
    table.overwrite([row] * len(wanted), where=condition)
    assert table.to_arrow()["id"].to_pylist() == [1]
    assert table.delete(condition).rows == len(wanted)
    assert table.to_arrow().num_rows == 1 - len(wanted)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_partition_that_was_given_up_is_null_whatever_its_column_must_be(lake: Lake, version: str) -> None:
    """As tables of version 1 keep those that were removed: nothing could be added to them any more."""
    columns = Schema(NestedField(1, "id", IntegerType(), required=True))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "by_id"))
    properties = {"format-version": version}
    table = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec, properties=properties)
    rows = pa.schema([pa.field("id", pa.int32(), nullable=False)])
    table.append(pa.table({"id": pa.array([1, 2], pa.int32())}, schema=rows))
    with table.to_iceberg().update_spec() as spec_of:
        spec_of.remove_field("by_id")
        if version == "2":
            spec_of.add_field("id", VoidTransform(), "nothing")
    table.append(pa.table({"id": pa.array([3, 4], pa.int32())}, schema=rows))
    assert table.delete("id = 3").rows == 1
    assert table.delete("id = 1").rows == 1
    assert sorted(table.to_arrow()["id"].to_pylist()) == [2, 4]
    assert not lake.fsck(deep=True).problems
