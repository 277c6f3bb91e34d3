"""Partitions of Iceberg tables: each row that is written is in one of them, whatever its value."""

import math
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, MonthTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField

from seiche import Lake

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
