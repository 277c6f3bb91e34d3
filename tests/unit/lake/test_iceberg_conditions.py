"""Conditions on Iceberg tables: rows that are read, deleted and updated are the same ones, nulls or not."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DoubleType, LongType, NestedField, StringType

from seiche import InvalidInput, Lake
from seiche.lake.transaction import Transaction
from tests.unit.lake.iceberg_deletes import delete_by_equality, delete_by_position

NAN = float("nan")
COLUMNS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "a", LongType()),
    NestedField(3, "f", DoubleType()),
    NestedField(4, "s", StringType()),
    NestedField(5, "b", BooleanType()),
)
ROWS: list[dict[str, Any]] = [
    {"id": 0, "a": 1, "f": 1.0, "s": "x", "b": True},
    {"id": 1, "a": None, "f": 2.5, "s": "xy", "b": None},
    {"id": 2, "a": 2, "f": NAN, "s": None, "b": False},
    {"id": 3, "a": None, "f": None, "s": "", "b": None},
    {"id": 4, "a": 3, "f": 2.5, "s": "x", "b": True},
    {"id": 5, "a": 2, "f": NAN, "s": None, "b": None},
]
# As in SQL: with null nothing compares. Not a number is different from everything, and neither less nor more.
HOLDS = {
    "b != true": {2},
    "b != false": {0, 4},
    "a = 1 OR b = true": {0, 4},
    "a >= 3 OR f IS NOT NULL": {0, 1, 2, 4, 5},
    "a IS NULL OR s = 'x'": {0, 1, 3, 4},
    "a IS NOT NULL AND NOT (b = false OR s = 'x')": set(),
    "b = false OR b IS NOT NULL OR s IS NOT NULL": {0, 1, 2, 3, 4},
    "NOT (a > 1)": {0},
    "NOT (a IS NULL) AND NOT (a IN (1, 3))": {2, 5},
    "s <= 'x'": {0, 3, 4},
    "s NOT IN ('xy', 'y')": {0, 3, 4},
    "s LIKE 'x%' OR a < 0": {0, 1, 4},
    "s NOT LIKE 'x%'": {3},
    "f >= 1.0": {0, 1, 4},
    "f < 9.0 OR b = false": {0, 1, 2, 4},
    "f IS NULL OR a = 2": {2, 3, 5},
    "f != 2.5": {0, 2, 5},
    "NOT (f <= 1.0)": {1, 2, 4, 5},
    "f IS NAN": {2, 5},
    "f IS NOT NAN": {0, 1, 4},
}
# One file for each row is told by its statistics, one for all by its rows, and one of a partition by both.
LAYOUTS = ("together", "each alone", "s")


@pytest.fixture(params=LAYOUTS)
def made(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    partition = [one for one in COLUMNS.fields if one.name == request.param]
    spec = PartitionSpec(*(PartitionField(one.field_id, 1000, IdentityTransform(), "part") for one in partition))
    lake.create_table("shop.i", COLUMNS, format="iceberg", partition_spec=spec)
    table = lake.table("shop.i")
    for part in [[one] for one in ROWS] if request.param == "each alone" else [ROWS]:
        table.append(pa.Table.from_pylist(part, COLUMNS.as_arrow()))
    return lake


def ids(lake: Lake | Transaction, condition: str | None = None) -> list[int]:
    return sorted(lake.table("shop.i").to_arrow(filter=condition)["id"].to_pylist())


def test_what_is_read_deleted_and_updated_is_the_same(made: Lake) -> None:
    for condition, held in HOLDS.items():
        assert ids(made, condition) == sorted(held), condition
        tx = made.transaction()
        assert tx.table("shop.i").delete(condition).rows == len(held) or not held, condition
        assert ids(tx) == sorted(set(range(6)) - held), condition
        tx = made.transaction()
        tx.table("shop.i").update({"a": "77"}, condition)
        assert ids(tx) == list(range(6)), condition
        assert ids(tx, "a = 77") == sorted(held), condition


def test_a_handle_of_pyiceberg_deletes_what_it_reads(made: Lake) -> None:
    handle = made.table("shop.i").to_iceberg()
    for condition, held in HOLDS.items():
        assert sorted(handle.scan(condition).to_arrow()["id"].to_pylist()) == sorted(held), condition
        assert handle.scan(condition).count() == len(held), condition
    handle.delete("b != true")
    assert ids(made) == [0, 1, 3, 4, 5]


def test_an_update_finds_not_a_number_among_equal_values(lake: Lake) -> None:
    """Arrow takes a part of a file whose smallest and largest values are equal for a part that has no others."""
    lake.create_table("shop.i", COLUMNS, format="iceberg")
    equal: list[dict[str, Any]] = [{"id": number, "f": value} for number, value in enumerate([2.5, NAN, 2.5])]
    lake.table("shop.i").append(equal)
    assert lake.table("shop.i").update({"a": "1"}, "f != 2.5").rows == 1
    assert ids(lake) == [0, 1, 2]
    assert ids(lake, "a = 1") == [1]


def test_rows_that_were_deleted_by_position_are_not_deleted_again(lake: Lake) -> None:
    lake.create_table("shop.i", COLUMNS, format="iceberg")
    for start in (0, 3, 6):
        lake.table("shop.i").append([{"id": number} for number in range(start, start + 3)])
    for number in (1, 3, 4, 5, 8):
        delete_by_position(lake, "shop.i", number)
    assert ids(lake) == [0, 2, 6, 7]
    assert lake.table("shop.i").delete("id = 2").rows == 1, "one file is written anew"
    assert lake.table("shop.i").delete("id > 2 AND id < 6").rows == 0, "one has none left"
    assert lake.table("shop.i").delete("true").rows == 3
    assert ids(lake) == []


CHANGES: dict[str, Callable[[Any, pa.Table], Any]] = {
    "delete": lambda table, _: table.delete("id = 5"),
    "update": lambda table, _: table.update({"a": "1"}, "id = 5"),
    "overwrite": lambda table, new: table.overwrite(new, where="id = 5"),
    "merge": lambda table, new: table.merge(new, "id").when_matched_update_all().execute(),
    "delete of PyIceberg": lambda table, _: table.to_iceberg().delete("id = 5"),
    "upsert of PyIceberg": lambda table, new: table.to_iceberg().upsert(new, ["id"]),
}


@pytest.mark.parametrize("verb", CHANGES)
def test_rows_that_were_deleted_by_value_do_not_come_back_when_others_are_changed(lake: Lake, verb: str) -> None:
    """PyIceberg cannot find them: it may not write their file anew, even for a row that was not deleted."""
    lake.create_table("shop.i", COLUMNS, format="iceberg")
    table = lake.table("shop.i")
    table.append([{"id": number} for number in range(6)])
    delete_by_equality(lake, "shop.i", 1)
    version, new = lake.version, pa.Table.from_pylist([{"id": 5, "a": 1}], COLUMNS.as_arrow())
    with pytest.raises((InvalidInput, ValueError), match="equality deletes"):
        CHANGES[verb](table, new)
    assert lake.version == version
    table.overwrite(new)
    assert ids(lake) == [5], "what replaces all rows needs none of them"


def test_a_count_that_has_rows_which_were_deleted_by_value_says_so(lake: Lake) -> None:
    """Which of the rows of a file those are, PyIceberg cannot find out."""
    lake.create_table("shop.i", COLUMNS, format="iceberg")
    table = lake.table("shop.i")
    table.append([{"id": number} for number in range(6)])
    delete_by_equality(lake, "shop.i", 1)
    done = table.delete("true")
    assert (done.rows, done.notes["counted"]) == (6, "with rows that were deleted by value before")
    assert ids(lake) == []
    table.append([{"id": 7}])
    assert "counted" not in table.delete("true").notes
