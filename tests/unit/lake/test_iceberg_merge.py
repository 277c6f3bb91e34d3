"""Merging rows into Iceberg tables by key: keys are equal as in merges into Lance tables, and no row is lost."""

import datetime as dt
import decimal
import math
import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from seiche import InvalidInput, Lake
from seiche.lake.handles import LakeTable
from seiche.table.change import Result

NAN = float("nan")
NOON = dt.datetime.fromisoformat("2024-02-29T12:00:00")
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "double": (pa.float64(), [0.0, NAN, math.inf, -math.inf, 1.5]),
    "float": (pa.float32(), [0.0, NAN, math.inf, -math.inf, 1.5]),
    "integer": (pa.int32(), [0, -1, 2**31 - 1]),
    "text": (pa.string(), ["", "a", "a" * 40]),
    "truth": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(12, 2), [decimal.Decimal("0.00"), decimal.Decimal("-1.10")]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "time": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "moment": (pa.timestamp("us"), [NOON, dt.datetime.fromisoformat("1969-12-31T23:59:59.999999")]),
    "moment in a zone": (
        pa.timestamp("us", "UTC"),
        [NOON.replace(tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
    "fixed": (pa.binary(4), [b"\0\0\0\0", b"\xff\xff\xff\xff"]),
    "bytes": (pa.binary(), [b"", b"\xff" * 20]),
}


def made(lake: Lake, **columns: pa.DataType) -> LakeTable:
    return lake.create_table("shop.i", pa.schema(list(columns.items())), format="iceberg")


def upsert(table: LakeTable, rows: list[dict[str, Any]], *on: str) -> Result:
    return table.merge(rows, list(on)).when_matched_update_all().when_not_matched_insert_all().execute()


def shown(table: LakeTable) -> list[str]:
    return sorted(repr(tuple(one.values())) for one in table.to_arrow().to_pylist())


@pytest.mark.parametrize("kind", KEYS)
def test_rows_are_found_by_keys_of_every_type(lake: Lake, kind: str) -> None:
    arrow, values = KEYS[kind]
    table = made(lake, k=arrow, v=pa.int64())
    first, last = values[0], values[-1]
    upsert(table, [{"k": one, "v": 1} for one in values[:-1]], "k")
    table.append([{"k": None, "v": 0}])
    done = upsert(table, [{"k": first, "v": 2}, {"k": last, "v": 2}], "k")
    after = {str(one): 1 for one in values[:-1]} | {str(first): 2, str(last): 2, "None": 0}
    assert {str(one["k"]): one["v"] for one in table.to_arrow().to_pylist()} == after
    assert table.to_arrow().num_rows == len(after)
    assert done.rows == 2


def test_the_two_zeros_are_one_key(lake: Lake) -> None:
    table = made(lake, k=pa.float64(), v=pa.int64())
    table.append([{"k": 0.0, "v": 1}, {"k": 2.0, "v": 1}])
    done = upsert(table, [{"k": -0.0, "v": 5}], "k")
    assert (done.notes["updated"], done.notes["inserted"]) == (1, 0)
    assert shown(table) == ["(-0.0, 5)", "(2.0, 1)"]
    with pytest.raises(InvalidInput, match="2 rows of the data have the key"):
        upsert(table, [{"k": 0.0, "v": 1}, {"k": -0.0, "v": 2}], "k")
    assert shown(table) == ["(-0.0, 5)", "(2.0, 1)"]


def test_a_value_that_only_differs_in_its_sign_is_updated(lake: Lake) -> None:
    table = made(lake, k=pa.int64(), v=pa.float64(), many=pa.list_(pa.float64()))
    table.append([{"k": 1, "v": 0.0, "many": [0.0, NAN]}])
    assert upsert(table, [{"k": 1, "v": -0.0, "many": [0.0, NAN]}], "k").rows == 1
    assert upsert(table, [{"k": 1, "v": -0.0, "many": [-0.0, NAN]}], "k").rows == 1
    assert shown(table) == ["(1, -0.0, [-0.0, nan])"]
    assert not upsert(table, [{"k": 1, "v": -0.0, "many": [-0.0, NAN]}], "k").changed


@pytest.mark.parametrize("together", [True, False])
def test_all_rows_of_a_key_are_updated_in_whatever_files_they_are(lake: Lake, together: bool) -> None:
    """One of them may have the new values already."""
    table = made(lake, k=pa.int64(), v=pa.int64())
    rows = [{"k": 1, "v": 1}, {"k": 1, "v": 2}, {"k": 2, "v": 1}]
    for part in [rows] if together else [[one] for one in rows]:
        table.append(part)
    done = upsert(table, [{"k": 1, "v": 1}], "k")
    assert shown(table) == ["(1, 1)", "(1, 1)", "(2, 1)"]
    assert (done.rows, done.notes["updated"]) == (1, 1)


def test_keys_of_several_columns_and_many_of_them(lake: Lake) -> None:
    table = made(lake, a=pa.int64(), b=pa.string(), v=pa.int64())
    rows = [{"a": number // 10, "b": str(number % 10), "v": 0} for number in range(3000)]
    table.append(rows)
    table.append([{"a": None, "b": "0", "v": 7}, {"a": 0, "b": None, "v": 7}])
    more = [{"a": number // 10, "b": str(number % 10), "v": 1} for number in range(1000, 4000)]
    done = upsert(table, more, "a", "b")
    assert (done.notes["updated"], done.notes["inserted"], done.rows) == (2000, 1000, 3000)
    found = table.to_arrow()
    assert found.num_rows == 4002
    assert sorted(found["v"].to_pylist()) == [0] * 1000 + [1] * 3000 + [7] * 2


def test_a_merge_is_one_snapshot_and_one_that_only_adds_is_an_append(lake: Lake) -> None:
    table: Any = made(lake, k=pa.int64(), v=pa.int64())
    upsert(table, [{"k": 1, "v": 1}], "k")
    upsert(table, [{"k": 1, "v": 2}, {"k": 2, "v": 2}], "k")
    assert [one.summary.operation.value for one in table.metadata.snapshots] == ["append", "overwrite"]
    assert not upsert(table, [], "k").changed


def test_what_cannot_be_a_key_is_refused(lake: Lake) -> None:
    table = made(lake, k=pa.struct([("x", pa.int64())]), v=pa.int64())
    table.append([{"k": {"x": 1}, "v": 1}])
    with pytest.raises(InvalidInput, match="cannot be a key"):
        upsert(table, [{"k": {"x": 1}, "v": 2}], "k")
    for keys in ([], ["v", "v"]):
        with pytest.raises(InvalidInput):
            upsert(table, [{"k": {"x": 1}, "v": 2}], *keys)
    assert shown(table) == ["({'x': 1}, 1)"]


def test_a_merge_after_a_change_of_columns(lake: Lake) -> None:
    table: Any = made(lake, k=pa.int64(), v=pa.int64())
    table.append([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
    with table.to_iceberg().update_schema() as change:
        change.add_column("w", LongType())
        change.rename_column("v", "u")
    upsert(table, [{"k": 2, "u": 3, "w": 4}], "k")
    assert shown(table) == ["(1, 1, None)", "(2, 3, 4)"]


@pytest.mark.parametrize("form", ["dictionaries", "Arrow", "generator"])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
def test_columns_that_are_not_given_keep_their_values_as_in_lance_tables(lake: Lake, form: str, inside: bool) -> None:
    """They were set to null, in every row that was met."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.string())])
    data = [{"k": 1, "v": "new"}, {"k": 3, "v": "three"}]
    for format_ in ("iceberg", "lance"):
        table = lake.create_table(f"shop.{format_}", schema, format=format_)
        table.append([{"k": 1, "v": "old", "w": "stays"}, {"k": 2, "v": "two", "w": "stays, too"}])
        forms = {"dictionaries": data, "Arrow": pa.Table.from_pylist(data), "generator": (one for one in data)}
        with lake.transaction() as tx:
            target: Any = tx.table(f"shop.{format_}") if inside else table
            done = target.merge(forms[form], on="k").when_matched_update_all().when_not_matched_insert_all().execute()
        assert (done.notes["updated"], done.notes["inserted"]) == (1, 1)
        assert table.to_arrow().sort_by("k").to_pylist() == [
            {"k": 1, "v": "new", "w": "stays"},
            {"k": 2, "v": "two", "w": "stays, too"},
            {"k": 3, "v": "three", "w": None},
        ]


def test_a_merge_that_gives_nothing_new_changes_nothing(lake: Lake) -> None:
    table = made(lake, k=pa.int64(), v=pa.string(), w=pa.string())
    table.append([{"k": 1, "v": "a", "w": "b"}])
    for same in ([{"k": 1}], [{"k": 1, "w": "b"}], []):
        assert not upsert(table, same, "k").changed
    assert upsert(table, [{"k": 1, "w": None}], "k").changed
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": "a", "w": None}]
    with pytest.raises(InvalidInput, match="merged by 'k' do not have it"):
        upsert(table, [{"v": "z"}], "k")
