"""Files that others wrote, and that become part of an Iceberg table of a lake as they are."""

from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import MonthTransform
from pyiceberg.types import DateType, LongType, NestedField

from seiche import Lake

TEXTS = pa.dictionary(pa.int32(), pa.string())


def add(table: Any, rows: pa.Table, **options: Any) -> None:
    """Write a file beside those of the table, and make it one of them."""
    target = table.to_iceberg()
    where = f"{table.metadata.location}/data/{rows.num_rows}-{table.metadata.last_sequence_number}.parquet"
    with target.io.new_output(where).create() as stream:
        pq.write_table(rows, stream, **options)
    target.add_files([where])


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("x = 'a'", [1]),
        ("x NOT IN ('a')", [0, 2]),
        ("x LIKE 'a%'", [1]),
        ("x NOT LIKE 'a%'", [0, 2]),
        ("x IS NULL OR s.q = 'b'", [2, 3]),
    ],
)
def test_values_in_dictionaries_are_read_and_changed_as_all_others(
    lake: Lake, condition: str, wanted: list[int]
) -> None:
    """As pandas and Polars write categories. Rows of several files were Arrow's own error, and could not be read."""
    inside = pa.struct([("q", pa.string())])
    columns = pa.schema([("id", pa.int64()), ("x", pa.string()), ("s", inside), ("l", pa.list_(pa.string()))])
    table: Any = lake.create_table("shop.i", columns, format="iceberg")
    rows = [{"id": number, "x": one, "s": {"q": one}, "l": [one]} for number, one in enumerate(("q", "a", "b", None))]
    table.append(rows[:1])
    kept = pa.schema([("id", pa.int64()), ("x", TEXTS), ("s", pa.struct([("q", TEXTS)])), ("l", pa.list_(TEXTS))])
    add(table, pa.Table.from_pylist(rows[1:], schema=kept))
    assert table.to_arrow().sort_by("id").to_pylist() == rows
    assert sorted(table.to_arrow(filter=condition)["id"].to_pylist()) == wanted
    assert table.update({"id": "id + 10"}, condition).rows == len(wanted)
    assert table.delete(condition).rows == len(wanted)
    assert table.to_arrow().sort_by("id").to_pylist() == [one for one in rows if one["id"] not in wanted]


JANUARY = [date(2024, 1, 1), date(2024, 1, 9)]


@pytest.mark.parametrize(
    ("days", "options", "taken"),
    [
        (JANUARY, {}, True),
        ([None, None], {}, True),
        ([None, JANUARY[0]], {}, False),
        (JANUARY, {"write_statistics": False}, False),
        ([None, None], {"write_statistics": False}, False),
    ],
    ids=["one month", "nulls", "both", "unknown month", "unknown nulls"],
)
def test_a_file_is_added_only_to_the_partition_of_all_its_rows(
    lake: Lake, days: list[date | None], options: dict[str, Any], taken: bool
) -> None:
    """PyIceberg put nulls into the month of the others, and all into that of null where it knew nothing of them."""
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
    spec = PartitionSpec(PartitionField(2, 1000, MonthTransform(), "month"))
    table: Any = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "day": pa.array(days, pa.date32())})
    if not taken:
        with pytest.raises(ValueError, match="are in one partition by 'month'"):
            add(table, rows, **options)
    else:
        add(table, rows, **options)
        for condition in ("day IS NULL", "day >= '2024-01-01'"):
            found = [one for one, day in zip([1, 2], days, strict=True) if (day is None) == ("NULL" in condition)]
            assert sorted(table.to_arrow(filter=condition)["id"].to_pylist()) == found
    without = pa.table({"id": pa.array([3], pa.int64())})
    add(table, without)
    assert table.to_arrow(filter="day IS NULL AND id = 3").num_rows == 1
