"""Conditions on Iceberg tables that PyIceberg understands and cannot put to Arrow by itself."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import TableUpdate
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform, VoidTransform
from pyiceberg.types import DecimalType, IntegerType, ListType, MapType, NestedField, StringType, StructType, UUIDType

from seiche import InvalidInput, Lake

UPDATES: TypeAdapter[Any] = TypeAdapter(TableUpdate)


def same_rows(lake: Lake, condition: str, wanted: list[int]) -> None:
    """Who asks, updates or deletes by the condition means these rows, of the four that the table has."""
    assert sorted(lake.table("shop.i").to_arrow(filter=condition)["id"].to_pylist()) == wanted, condition
    tx = lake.transaction()
    inside = tx.table("shop.i")
    assert inside.update({"id": "id"}, condition).rows == len(wanted), condition
    assert inside.delete(condition).rows == len(wanted), condition
    assert sorted(inside.to_arrow()["id"].to_pylist()) == [one for one in (1, 2, 3, 4) if one not in wanted], condition
    tx.rollback()


def uuid(number: int) -> UUID:
    return UUID(int=number << 100)


def same_scan(lake: Lake, condition: str, wanted: list[int]) -> None:
    """PyIceberg's own scan finds them as well, whichever columns it is to show."""
    for shown in (("*",), ("id",)):
        scan = lake.table("shop.i").to_iceberg().scan(row_filter=condition, selected_fields=shown)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == wanted, condition
        assert scan.count() == len(wanted), condition


@pytest.mark.parametrize("column", ["u", "s.u"])
def test_uuids_are_compared(lake: Lake, column: str) -> None:
    inside = StructType(NestedField(4, "u", UUIDType()))
    columns = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "u", UUIDType()), NestedField(3, "s", inside))
    table = lake.create_table("shop.i", columns, format="iceberg")
    values = pa.array([uuid(1).bytes, uuid(2).bytes, uuid(3).bytes, None], pa.uuid())
    nested = pa.StructArray.from_arrays([values], names=["u"], mask=pa.array([False, False, False, True]))
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "u": values, "s": nested})
    table.append(rows)
    for condition, wanted in {
        f"{column} = '{uuid(2)}'": [2],
        f"{column} != '{uuid(2)}'": [1, 3],
        f"{column} < '{uuid(2)}' OR id = 4": [1, 4],
        f"NOT {column} <= '{uuid(2)}'": [3],
        f"{column} IN ('{uuid(1)}', '{uuid(3)}')": [1, 3],
        f"{column} NOT IN ('{uuid(1)}', '{uuid(3)}')": [2],
        f"{column} IS NULL": [4],
    }.items():
        same_rows(lake, condition, wanted)
        same_scan(lake, condition, wanted)


def test_uuids_of_partitions_are_compared(lake: Lake) -> None:
    """PyIceberg took none of them for the one that was asked for: nothing was read or updated, and all deleted."""
    columns = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "u", UUIDType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "by_u"))
    table = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    table.append([{"id": n, "u": uuid(n) if n < 4 else None} for n in (1, 2, 3, 4)])
    for condition, wanted in {
        f"u = '{uuid(2)}'": [2],
        f"u != '{uuid(2)}'": [1, 3],
        f"u > '{uuid(2)}' OR id = 4": [3, 4],
        f"u IN ('{uuid(1)}', '{uuid(3)}')": [1, 3],
        "u IS NULL": [4],
    }.items():
        same_rows(lake, condition, wanted)
        same_scan(lake, condition, wanted)
        if "id" not in condition and "!=" not in condition:
            planned = lake.table("shop.i").to_iceberg().scan(row_filter=condition).plan_files()
            assert len(list(planned)) == len(wanted), "other partitions are not read"


def test_fields_of_a_column_can_be_chosen_where_uuids_are_compared(lake: Lake) -> None:
    inside = StructType(NestedField(4, "a", IntegerType()), NestedField(5, "b", IntegerType()))
    columns = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "u", UUIDType()), NestedField(3, "s", inside))
    table = lake.create_table("shop.i", columns, format="iceberg")
    table.append([{"id": 1, "u": uuid(1), "s": {"a": 1, "b": 2}}, {"id": 2, "u": uuid(2), "s": None}])
    found = table.to_arrow(columns=["s.b", "id"], filter=f"u >= '{uuid(1)}'")
    assert found.sort_by("id").to_pylist() == [{"id": 1, "s": {"b": 2}}, {"id": 2, "s": None}]
    assert table.to_arrow(columns=["id"], filter=f"u = '{uuid(7)}'").schema.names == ["id"]


def test_uuids_inside_of_columns_are_written_counted_and_read_also_where_there_are_no_rows(lake: Lake) -> None:
    inside = StructType(NestedField(4, "u", UUIDType(), required=True), NestedField(5, "n", IntegerType()))
    listed, named = ListType(6, UUIDType()), MapType(8, StringType(), 9, UUIDType())
    fields = (("id", IntegerType()), ("s", inside), ("l", listed), ("m", named))
    columns = Schema(*(NestedField(number, name, kind) for number, (name, kind) in enumerate(fields, 1)))
    table = lake.create_table("shop.i", columns, format="iceberg")
    assert table.to_arrow().num_rows == 0
    whole = {"id": 1, "s": {"u": uuid(1), "n": 1}, "l": [uuid(2)], "m": [("a", uuid(3))]}
    assert table.append([whole, {"id": 2}]).rows == 2
    assert table.to_arrow(filter="id = 1").to_pylist() == [whole]
    assert table.to_arrow(filter="id = 2").to_pylist() == [{"id": 2, "s": None, "l": None, "m": None}]
    for condition in ("id = 7", "s.n = 7"):
        assert table.to_arrow(filter=condition).num_rows == 0
        assert table.count_rows(condition) == 0
        assert table.to_iceberg().scan(row_filter=condition).count() == 0


@pytest.mark.parametrize("column", ["l", "m", "younger"])
def test_lists_and_maps_are_asked_whether_they_are_null(lake: Lake, column: str) -> None:
    """They were found by deletes and updates only; a read said that PyIceberg cannot read the table."""
    kinds = {"l": pa.list_(pa.struct([("a", pa.list_(pa.int32()))])), "m": pa.map_(pa.string(), pa.int32())}
    table = lake.create_table("shop.i", pa.schema([("id", pa.int32()), *kinds.items()]), format="iceberg")
    table.append([{"id": 1, "l": [{"a": [1]}], "m": [("a", 1)]}, {"id": 2, "l": [], "m": []}, {"id": 3}, {"id": 4}])
    if column == "younger":
        with table.to_iceberg().update_schema() as change:
            change.add_column("younger", ListType(9, IntegerType()))
    there = [] if column == "younger" else [1, 2]
    same_rows(lake, f"{column} IS NOT NULL", there)
    same_rows(lake, f"{column} IS NULL", [one for one in (1, 2, 3, 4) if one not in there])
    same_rows(lake, f"{column} IS NULL AND id != 3", [one for one in (1, 2, 4) if one not in there])
    assert table.to_iceberg().scan(f"{column} IS NOT NULL", selected_fields=("id",)).count() == len(there)


@pytest.mark.parametrize("column", ["x.y", "s.p.q"])
def test_columns_with_dots_in_their_names_are_asked(lake: Lake, column: str) -> None:
    """PyIceberg looked for a column inside of `x`, and a sound table was called damaged."""
    inside = pa.struct([("p.q", pa.int32())])
    columns = pa.schema([("id", pa.int32()), ("x.y", pa.int32()), ("s", inside)])
    table = lake.create_table("shop.i", columns, format="iceberg")
    rows = [{"id": n, "x.y": n, "s": {"p.q": n}} for n in (1, 2, 3)] + [{"id": 4, "x.y": None, "s": None}]
    table.append(rows)
    same_rows(lake, f"{column} > 1", [2, 3])
    same_rows(lake, f"{column} IS NULL OR {column} IN (1)", [1, 4])


def test_columns_inside_of_others_are_compared(lake: Lake) -> None:
    columns = pa.schema([("id", pa.int32()), ("s", pa.struct([("p", pa.int32())]))])
    table = lake.create_table("shop.i", columns, format="iceberg")
    table.append([{"id": n, "s": {"p": n}} for n in (1, 2, 3)] + [{"id": 4, "s": None}])
    for condition, wanted in {"s.p != 1": [2, 3], "s.p NOT IN (1, 7)": [2, 3], "s.p < 9": [1, 2, 3]}.items():
        same_rows(lake, condition, wanted)


def test_older_rows_are_found_by_the_values_that_younger_columns_begin_with(lake: Lake) -> None:
    columns = pa.schema([("id", pa.int32()), ("s", pa.struct([("p", pa.int32())]))])
    table = lake.create_table("shop.i", columns, format="iceberg")
    table.append([{"id": 1, "s": {"p": 1}}, {"id": 2, "s": None}])
    begin = {
        "date": "2020-01-02",
        "time": "22:31:08",
        "timestamp": "2017-11-16T22:31:08.000001",
        "timestamptz": "2017-11-16T22:31:08+00:00",
        "uuid": str(uuid(5)),
        "string": "x",
        "decimal(9,2)": "14.20",
        "long": 7,
        "boolean": True,
    }
    fields: list[dict[str, Any]] = [
        {"id": 10 + at, "name": f"c{at}", "type": kind, "required": False, "initial-default": value}
        for at, (kind, value) in enumerate(begin.items())
    ]
    p: dict[str, Any] = {"id": 3, "name": "p", "type": "int", "required": False}
    inside = {"type": "struct", "fields": [p, {**p, "id": 30, "name": "q", "initial-default": 8}]}
    first = [{**p, "id": 1, "name": "id"}, {**p, "id": 2, "name": "s", "type": inside}]
    schema = {"type": "struct", "schema-id": 1, "fields": [*first, *fields]}
    with lake.transaction() as tx:
        updates = [
            {"action": "upgrade-format-version", "format-version": 3},
            {"action": "add-schema", "schema": schema},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        tx.commit_iceberg("shop.i", [], [UPDATES.validate_python(one) for one in updates])
    for at, value in enumerate(begin.values()):
        written = repr(value) if isinstance(value, str) and not value.startswith("14") else str(value).lower()
        for condition, wanted in (
            (f"c{at} = {written}", [1, 2]),
            (f"c{at} != {written}", []),
            (f"c{at} IS NULL", []),
            (f"c{at} = {written} AND id = 2", [2]),
        ):
            assert sorted(table.to_arrow(filter=condition)["id"].to_pylist()) == wanted, condition
    # What is inside of a null has no value.
    for condition, wanted in (("s.q = 8", [1]), ("s.q IS NULL", [2]), ("s.q != 8", []), ("s.p = 1", [1])):
        assert table.to_arrow(filter=condition)["id"].to_pylist() == wanted, condition


@pytest.mark.parametrize(
    "condition", ["id = 1.5", "id > 1.5", "NOT id < 2.5", "n = 2.5", "id IN ('1.5', '2')", "id BETWEEN 1.5 AND 3"]
)
def test_whole_numbers_are_not_compared_with_a_fraction_that_was_rounded(lake: Lake, condition: str) -> None:
    """PyIceberg asks for the next whole number instead: a delete took rows that nobody meant."""
    columns = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    table: Any = lake.create_table("shop.i", columns, format="iceberg")
    table.append([{"id": one, "n": one} for one in (1, 2, 3, 4)])
    asked: list[Callable[[], Any]] = [
        lambda: table.to_arrow(filter=condition),
        lambda: table.count_rows(condition),
        lambda: table.delete(condition),
        lambda: table.update({"n": "0"}, where=condition),
        lambda: table.overwrite([{"id": 9}], where=condition),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput, match=r"is not a whole number, and all values of (id|n) are"):
            ask()
    with pytest.raises(ValueError, match="is not a whole number"):
        table.to_iceberg().delete(condition)
    with pytest.raises(ValueError, match="is not a whole number"):
        table.to_iceberg().scan(row_filter=condition).to_arrow()
    assert table.to_arrow()["n"].to_pylist() == [1, 2, 3, 4]


def test_whole_numbers_are_compared_with_whole_numbers_however_these_are_written(lake: Lake) -> None:
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("x", pa.float64())]), format="iceberg")
    table.append([{"id": one, "x": one / 2} for one in (1, 2, 3, 4)])
    for condition, wanted in {"id = 2.0": [2], "id >= '3'": [3, 4], "x = 1.5": [3], "x > 1.5": [4]}.items():
        same_rows(lake, condition, wanted)


@pytest.mark.parametrize("transform", [None, IdentityTransform(), BucketTransform(4), VoidTransform()])
def test_what_must_have_a_value_inside_of_a_null_has_none(lake: Lake, transform: Any) -> None:
    """PyIceberg goes by the field alone: `s.x IS NOT NULL` deleted all rows. And a row without `s` was in no partition
    that could be written: the table was told to be damaged.
    """
    inside = StructType(NestedField(3, "x", IntegerType(), required=True))
    columns = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "s", inside))
    spec = None if transform is None else PartitionSpec(PartitionField(3, 1000, transform, "by_x"))
    table = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    table.append([{"id": 1, "s": None}, *({"id": one, "s": {"x": one}} for one in (2, 3, 4))])
    for condition, wanted in {
        "s.x IS NULL": [1],
        "s.x IS NOT NULL": [2, 3, 4],
        "NOT s.x IS NULL AND id < 4": [2, 3],
        "s.x != 2": [3, 4],
        "s.x NOT IN (2, 3)": [4],
        "s IS NULL OR s.x = 3": [1, 3],
    }.items():
        same_rows(lake, condition, wanted)
        same_scan(lake, condition, wanted)


@pytest.mark.parametrize("transform", [None, IdentityTransform(), BucketTransform(4), TruncateTransform(50)])
def test_decimals_are_compared_with_numbers_however_these_are_written(lake: Lake, transform: Any) -> None:
    """PyIceberg takes those only that have as many places: `p = 1.1` was refused, and `p < 1e9` a damaged file."""
    columns = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "p", DecimalType(9, 2)))
    spec = None if transform is None else PartitionSpec(PartitionField(2, 1000, transform, "by_p"))
    table = lake.create_table("shop.i", columns, format="iceberg", partition_spec=spec)
    table.append([{"id": n, "p": Decimal(value)} for n, value in enumerate(("1.10", "2.00", "-3.05", "9999999.99"), 1)])
    for condition, wanted in {
        "p = 1.1": [1],
        "p = 1.100": [1],
        "p = '1.1'": [1],
        "p != 1.1": [2, 3, 4],
        "p IN (1.1, 2)": [1, 2],
        "p NOT IN (2, 1.1, 1e9)": [3, 4],
        "p BETWEEN -3.1 AND 1.5": [1, 3],
        "p < 1e9": [1, 2, 3, 4],
        "p >= 12345678901": [],
        "p > -1e7 AND p <= 9999999.99": [1, 2, 3, 4],
        "p = 2e0": [2],
    }.items():
        same_rows(lake, condition, wanted)
    for condition in ("p >= 1.105", "p != 1.105", "p IN (1.1, 1.105)", "p = 'NaN'", "p = 'x'", "p = '1.105'"):
        for ask in (table.count_rows, table.delete):
            with pytest.raises(
                InvalidInput, match=r"cannot be asked of its columns: .*(1\.105 has more|'x' is not|'NaN' is no)"
            ):
                ask(condition)


def test_floats_are_compared_as_floats(lake: Lake) -> None:
    """No float equals the double 1.1: nothing was found by it, and 1.1 was greater than 1.1."""
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("f", pa.float32())]), format="iceberg")
    table.append([{"id": n, "f": value} for n, value in enumerate((1.1, 2.0, 0.3, -0.1), 1)])
    for condition, wanted in {
        "f = 1.1": [1],
        "f IN (1.1, 2)": [1, 2],
        "f > 1.1": [2],
        "f <= 0.3": [3, 4],
        "f != -0.1": [1, 2, 3],
        "f < 1e300": [1, 2, 3, 4],
    }.items():
        same_rows(lake, condition, wanted)


@pytest.mark.parametrize("column", ["f", "g", "s.f"])
def test_zero_is_one_value_and_not_a_number_is_found_beside_equal_ones(lake: Lake, column: str) -> None:
    """Of a list Arrow took one of the two zeros: NOT IN (0.0) deleted the rows with the other. And it left out groups
    of rows whose least and greatest value are the one that is asked about.
    """
    inside = pa.struct([("f", pa.float64())])
    columns = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("g", pa.float64()), ("s", inside)])
    table = lake.create_table("shop.i", columns, format="iceberg")
    for rows in (((1, 0.0), (2, -0.0)), ((3, 1.5), (4, float("nan")))):
        table.append([{"id": number, "f": one, "g": one, "s": {"f": one}} for number, one in rows])
    for condition, wanted in {
        f"{column} = 0": [1, 2],
        f"{column} IN (0.0, 7.0)": [1, 2],
        f"{column} IN (-0.0, 1.5)": [1, 2, 3],
        f"{column} NOT IN (0.0, 7.0)": [3, 4],
        f"{column} != 1.5": [1, 2, 4],
        f"{column} IS NAN": [4],
        f"NOT {column} >= 1.5": [1, 2, 4],
    }.items():
        same_rows(lake, condition, wanted)
        same_scan(lake, condition, wanted)


def test_numbers_beyond_the_columns_own_stand_for_nothing_else_in_a_list(lake: Lake) -> None:
    """The largest number of all was not found beside one that is larger."""
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("n", pa.int32())]), format="iceberg")
    table.append([{"id": n, "n": value} for n, value in enumerate((2147483647, -2147483648, 0, None), 1)])
    for condition, wanted in {
        "n IN (2147483647, 9999999999)": [1],
        "n IN (9999999999, -9999999999)": [],
        "n NOT IN (2147483647, 9999999999, 7)": [2, 3],
        "n NOT IN (9999999999, -9999999999)": [1, 2, 3],
        "n IN (0, -9999999999, -2147483648)": [2, 3],
    }.items():
        same_rows(lake, condition, wanted)


def test_times_are_compared_however_they_are_written(lake: Lake) -> None:
    kinds = {"id": pa.int64(), "t": pa.timestamp("us"), "z": pa.timestamp("us", "UTC")}
    table = lake.create_table("shop.i", pa.schema(list(kinds.items())), format="iceberg")
    days = (datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC))
    times = [days[0], days[0].replace(hour=10, minute=30), days[1].replace(hour=1, minute=2, second=3, microsecond=456)]
    table.append([{"id": n, "t": one.replace(tzinfo=None), "z": one} for n, one in enumerate(times, 1)] + [{"id": 4}])
    for condition, wanted in {
        "t = '2030-01-01'": [1],
        "t > date '2030-01-01'": [2, 3],
        "t >= timestamp '2030-01-02'": [3],
        "t = timestamp '2030-01-01 10:30'": [2],
        "t = '2030-01-02 01:02:03.000456000'": [3],
        "z = timestamp '2030-01-01 10:30:00Z'": [2],
        "z > '2030-01-01T12:30+02:00'": [3],
    }.items():
        same_rows(lake, condition, wanted)
    for condition in ("t = '2030-01-01T00:00:00Z'", "z = '2030-01-01'", "t = '2030-01-01 1'", "t = '2030-13-01'"):
        with pytest.raises(InvalidInput, match="cannot be asked of its columns"):
            table.count_rows(condition)


def test_an_empty_text_is_no_condition(lake: Lake) -> None:
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64())]), format="iceberg")
    for ask in (lambda: table.to_arrow(filter=""), lambda: table.count_rows(" ")):
        with pytest.raises(InvalidInput, match="is not a condition"):
            ask()


@pytest.mark.parametrize(
    "condition", ["v LIKE 'a_%'", "v NOT LIKE 'a_b'", r"v LIKE 'a\_%'", "id = 1 OR NOT v like 'a__'"]
)
def test_like_takes_no_underscore_for_itself(lake: Lake, condition: str) -> None:
    """It stands for any character, and PyIceberg looks for an underscore: NOT LIKE deleted rows that were to stay."""
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("v", pa.string())]), format="iceberg")
    table.append([{"id": 1, "v": "a_b"}, {"id": 2, "v": "abb"}])
    for ask in (lambda: table.to_arrow(filter=condition), lambda: table.delete(condition)):
        with pytest.raises(InvalidInput, match="of LIKE only % at the end is understood"):
            ask()
    with pytest.raises(ValueError, match="of LIKE only % at the end is understood"):
        table.to_iceberg().delete(condition)
    assert table.to_arrow()["id"].to_pylist() == [1, 2]


def test_like_finds_texts_that_begin_so(lake: Lake) -> None:
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("v", pa.string())]), format="iceberg")
    table.append([{"id": 1, "v": "a_b"}, {"id": 2, "v": "a%b"}, {"id": 3, "v": "ba"}, {"id": 4, "v": None}])
    for condition, wanted in {
        "v LIKE 'a%'": [1, 2],
        "v NOT LIKE 'a%'": [3],
        r"v LIKE 'a\%%'": [2],
        "v LIKE 'ba'": [3],
        "v = 'a_b'": [1],
    }.items():
        same_rows(lake, condition, wanted)


def test_names_days_and_times_are_written_as_on_lance_tables(lake: Lake) -> None:
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("a b", pa.string()), ("x.y", pa.int64())]
    columns += [("d", pa.date32()), ("t", pa.timestamp("us")), ("z", pa.timestamp("us", "UTC"))]
    table = lake.create_table("shop.i", pa.schema(columns), format="iceberg")
    late = datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC)
    table.append([{"id": 1, "a b": "`d`", "x.y": 1, "d": late.date(), "t": late.replace(tzinfo=None), "z": late}])
    table.append([{"id": number, "a b": "date '1'"} for number in (2, 3, 4)])
    for condition, wanted in {
        "`a b` = '`d`'": [1],
        "`a b` = 'date ''1'''": [2, 3, 4],
        '`x.y` = 1 AND "a b" IS NOT NULL': [1],
        "d = date '2030-12-31'": [1],
        "`d` < DATE '2030-12-31' OR `id` = 4": [4],
        "t >= timestamp '2030-12-31 23:59:59'": [1],
        "z = TIMESTAMP'2031-01-01 01:59:59+02:00'": [1],
    }.items():
        same_rows(lake, condition, wanted)


def test_numbers_are_written_as_python_writes_them(lake: Lake) -> None:
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("1e5", pa.float64())]), format="iceberg")
    table.append([{"id": one, "1e5": value} for one, value in enumerate((1e-07, -2.5e300, 0.5, 1e22), start=1)])
    for condition, wanted in {
        f"`1e5` = {1e-07!r}": [1],
        f"`1e5` <= {-2.5e300!r} OR `1e5` > 1E21": [2, 4],
        '"1e5" IN (1e-07, 5.e-1)': [1, 3],
        "id >= 3e0": [3, 4],
    }.items():
        same_rows(lake, condition, wanted)


@pytest.mark.parametrize("condition", ["id + 1 > 2", "upper(v) = 'A'", "id = 1 AND", "id = 1; id", "id = `v", "v = 'a"])
def test_what_is_not_understood_is_refused_in_a_line(lake: Lake, condition: str) -> None:
    """PyIceberg's own words are its whole grammar, two thousand characters of it."""
    table = lake.create_table("shop.i", pa.schema([("id", pa.int64()), ("v", pa.string())]), format="iceberg")
    with pytest.raises(InvalidInput, match="is not a condition that PyIceberg understands") as refused:
        table.to_arrow(filter=condition)
    assert len(str(refused.value)) < 300
    assert condition in str(refused.value).replace("\\'", "'")


def test_a_name_with_a_backslash_is_not_taken_for_one_with_a_quote(lake: Lake) -> None:
    table = lake.create_table("shop.named", [{'a"b': 1, "a\\b": 2}], format="iceberg")
    assert table.count_rows('`a"b` = 1') == 1
    with pytest.raises(InvalidInput, match="no way to name the column"):
        table.delete("`a\\b` = 1")
    assert table.count_rows() == 1
