"""Values that a column cannot hold whole are refused, whatever they come in, by tables of both formats."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from seiche import InvalidInput, Lake
from seiche.lake.handles import LakeTable

DAY = date(2024, 2, 29)
MIDNIGHT, NOON = datetime.combine(DAY, time()), datetime.combine(DAY, time(12))
DAYS = pa.date32()


@pytest.fixture(params=["lance", "iceberg"])
def table_of(request: pytest.FixtureRequest, lake: Lake) -> Any:
    """Makes a table with one column `v` of a type."""

    def made(kind: pa.DataType) -> LakeTable:
        return lake.create_table("shop.kept", pa.schema([("v", kind)]), format=request.param)

    return made


def dicts(*values: Any) -> list[dict[str, Any]]:
    return [{"v": value} for value in values]


def frame(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"v": values})


TOO_MUCH = {
    "an hour of the day": (dicts(NOON), DAYS),
    "an hour beside days": (dicts(DAY, NOON), DAYS),
    "the zone of a day": (dicts(MIDNIGHT.replace(tzinfo=UTC)), DAYS),
    "an hour in a list": (dicts([NOON]), pa.list_(DAYS)),
    "an hour in a struct": (dicts({"x": 0.5, "day": NOON}), pa.struct([("x", pa.float64()), ("day", DAYS)])),
    "an hour in a map": (dicts({"a": NOON}), pa.map_(pa.string(), DAYS)),
    "no time in a struct": (dicts({"x": 0.5, "day": pd.NaT}), pa.struct([("x", pa.float64()), ("day", DAYS)])),
    "an hour in a frame": (frame(pd.to_datetime([NOON])), DAYS),
    "an hour in an array": ({"v": np.array([NOON], "datetime64[us]")}, DAYS),
    "an hour in a category": (frame(pd.Series(pd.to_datetime([NOON])).astype("category")), DAYS),
    "an hour as Arrow": (pa.table({"v": [NOON]}), DAYS),
    "an hour in a list as Arrow": (pa.table({"v": [[NOON]]}), pa.list_(DAYS)),
    "a zone in a frame": (frame(pd.to_datetime([MIDNIGHT]).tz_localize("Europe/Berlin")), DAYS),
    "the day of a time": (frame(pd.to_datetime([NOON])), pa.time64("us")),
    "a time as a number": (frame(pd.to_datetime([NOON])), pa.int64()),
    "a time as a number in Arrow": (pa.table({"v": [NOON]}), pa.int64()),
    "a duration as a number": (frame(pd.to_timedelta(["1s"])), pa.int64()),
    "a fraction as a time": (dicts(5.5), pa.timestamp("us")),
    "a number as yes or no": (frame([5]), pa.bool_()),
    "a number as yes or no in Arrow": (pa.table({"v": [5]}), pa.bool_()),
    "a large number": (frame([1e300]), pa.float32()),
    "a large number in an array": ({"v": np.array([1e300])}, pa.float32()),
    "a large number in Arrow": (pa.table({"v": [1e300]}), pa.float32()),
    "a large number in a map": (dicts({"a": 1e300}), pa.map_(pa.string(), pa.float32())),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_nothing_of_a_value_is_cut_off_in_silence(table_of: Any, case: str) -> None:
    given, kind = TOO_MUCH[case]
    table = table_of(kind)
    with pytest.raises(InvalidInput, match="'v'"):
        table.append(given)
    assert table.count_rows() == 0


FITTING = {
    "midnight is its day": (dicts(MIDNIGHT, DAY, None), DAYS, [DAY, DAY, None]),
    "midnight in a frame": (frame(pd.to_datetime([MIDNIGHT, None])), DAYS, [DAY, None]),
    "midnight in a list": (dicts([MIDNIGHT, None]), pa.list_(DAYS), [[DAY, None]]),
    "no day is null": (dicts(pd.NaT, DAY), DAYS, [None, DAY]),
    "no time is null": (dicts(pd.NaT, NOON), pa.timestamp("us"), [None, NOON]),
    "nought and one": (frame([0, 1]), pa.bool_(), [False, True]),
    "infinity is itself": (frame([np.inf, 0.5, None]), pa.float32(), [np.inf, 0.5, None]),
    "whole floats with gaps": (frame([1.0, None]), pa.int64(), [1, None]),
    "days in an array": ({"v": np.array([DAY], "datetime64[D]")}, pa.timestamp("us"), [MIDNIGHT]),
}


@pytest.mark.parametrize("case", FITTING)
def test_values_that_fit_are_what_they_were(table_of: Any, case: str) -> None:
    given, kind, expected = FITTING[case]
    table = table_of(kind)
    table.append(given)
    assert table.to_arrow()["v"].to_pylist() == expected


def test_a_time_that_is_none_is_null_among_durations(lake: Lake) -> None:
    table = lake.create_table("shop.kept", pa.schema([("v", pa.duration("us"))]))
    table.append(dicts(pd.NaT, timedelta(seconds=1)))
    assert table.to_arrow()["v"].to_pylist() == [None, timedelta(seconds=1)]


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["a", "b"])], ids=["Categorical", "Enum"])
def test_categories_of_polars_are_texts(table_of: Any, kind: Any) -> None:
    table = table_of(pa.string())
    table.append(pl.DataFrame({"v": ["a", None, "b"]}, schema={"v": kind}))
    table.append(pl.DataFrame({"v": []}, schema={"v": kind}))
    assert table.to_arrow()["v"].to_pylist() == ["a", None, "b"]
    table.merge(pl.DataFrame({"v": ["b", "c"]}).cast(pl.Categorical), on="v").when_not_matched_insert_all().execute()
    assert sorted(filter(None, table.to_arrow()["v"].to_pylist())) == ["a", "b", "c"]


def test_a_number_that_an_expression_gives_is_not_made_infinite_in_a_shorter_column(table_of: Any) -> None:
    table = table_of(pa.float32())
    table.append(dicts(1.5))
    for expression in ("1e300", "v * cast(1e300 as double)"):
        with pytest.raises(InvalidInput, match="'v' of type float: a number is too large"):
            table.update({"v": expression})
    assert table.to_arrow()["v"].to_pylist() == [1.5]
    table.update({"v": "1e300 * 1e300"})
    assert table.to_arrow()["v"].to_pylist() == [np.inf]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_a_text_is_not_made_infinite_unless_it_says_so(lake: Lake, kind: pa.DataType) -> None:
    rows = pa.table({"s": ["1e400"], "v": pa.array([1.5], kind)})
    table = lake.create_table("shop.texts", rows)
    iceberg = lake.create_table("shop.more", pa.schema([("v", kind)]), format="iceberg")
    attempts: list[Callable[[], Any]] = [
        lambda: table.update({"v": "s"}),
        lambda: table.alter_columns({"path": "s", "data_type": kind}),
        lambda: iceberg.append(pa.table({"v": ["1e400"]})),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match="a number is too large"):
            attempt()
    assert table.to_arrow() == rows
    table.update({"s": "'-inf'"})
    table.update({"v": "s"})
    table.alter_columns({"path": "s", "data_type": kind})
    iceberg.append(pa.table({"v": ["Infinity"]}))
    table.append(pa.table({"v": pa.array([np.inf], kind).dictionary_encode()}))
    assert table.to_arrow().to_pylist() == [{"s": -np.inf, "v": -np.inf}, {"s": None, "v": np.inf}]
    assert iceberg.to_arrow()["v"].to_pylist() == [np.inf]


def test_what_is_no_mapping_cannot_be_set(table_of: Any) -> None:
    table = table_of(pa.int64())
    with pytest.raises(InvalidInput, match="what is set cannot be"):
        table.update(["v"])


def test_what_was_written_is_told_in_bytes(table_of: Any) -> None:
    table = table_of(pa.int64())
    for done in (table.append(dicts(*range(100))), table.update({"v": "v + 1"}), table.overwrite(dicts(1))):
        assert done.files == 1
        assert 100 < done.bytes < 100_000


CASTS = {
    "a large number": (pa.float64(), 1e300, pa.float32()),
    "an hour of the day": (pa.timestamp("us"), NOON, DAYS),
    "the zone of a day": (pa.timestamp("us", "UTC"), MIDNIGHT, DAYS),
    "the day of a time": (pa.timestamp("us"), NOON, pa.time64("us")),
    "a number as yes or no": (pa.int64(), 5, pa.bool_()),
    "an hour in a list": (pa.list_(pa.timestamp("us")), [NOON], pa.list_(DAYS)),
}


@pytest.mark.parametrize("case", CASTS)
def test_a_column_becomes_no_type_that_cannot_hold_its_values(lake: Lake, case: str) -> None:
    kind, value, wanted = CASTS[case]
    table = lake.create_table("shop.kept", pa.schema([("v", kind)]))
    table.append(dicts(value))
    before = table.to_arrow()
    with pytest.raises(InvalidInput, match="'v' do not fit the type"):
        table.alter_columns({"path": "v", "data_type": wanted})
    assert table.to_arrow() == before


def test_a_column_becomes_a_type_that_holds_its_values(lake: Lake) -> None:
    table = lake.create_table(
        "shop.kept", pa.schema([("v", pa.timestamp("us")), ("f", pa.float64()), ("n", pa.int8())])
    )
    table.append([{"v": MIDNIGHT, "f": np.inf, "n": 1}, {"f": 0.1, "n": 0}, {}])
    table.alter_columns(
        {"path": "v", "data_type": DAYS},
        {"path": "f", "data_type": pa.float32()},
        {"path": "n", "data_type": pa.bool_()},
    )
    assert table.to_arrow()["v"].to_pylist() == [DAY, None, None]
    assert table.to_arrow()["f"].to_pylist() == [np.inf, pytest.approx(0.1), None]
    assert table.to_arrow()["n"].to_pylist() == [True, False, None]


def test_times_are_counted_if_the_column_is_to_hold_numbers(lake: Lake) -> None:
    table = lake.create_table("shop.kept", pa.schema([("v", pa.timestamp("s"))]))
    table.append(dicts(MIDNIGHT, None))
    table.alter_columns({"path": "v", "data_type": pa.int64()})
    assert table.to_arrow()["v"].to_pylist() == [1_709_164_800, None]


def test_what_a_function_gives_for_a_new_column_is_kept_whole(lake: Lake) -> None:
    table = lake.create_table("shop.kept", pa.schema([("v", pa.int64())]))
    table.append(dicts(1))
    days = pa.schema([("day", DAYS)])
    with pytest.raises(InvalidInput, match="does not fit its columns"):
        table.add_columns(lambda rows: pa.table({"day": [NOON] * rows.num_rows}), schema=days)
    table.add_columns(lambda rows: pa.table({"day": [MIDNIGHT] * rows.num_rows}), schema=days)
    assert table.to_arrow()["day"].to_pylist() == [DAY]


def test_a_type_that_is_found_in_the_values_holds_all_of_them(lake: Lake) -> None:
    table = lake.create_table("shop.kept", pa.schema([("v", pa.int64())]))
    with pytest.raises(InvalidInput, match="2024-02-29 12:00:00 is not a day"):
        table.overwrite(dicts(DAY, NOON))
    table.overwrite(dicts(DAY, MIDNIGHT))
    assert table.to_arrow()["v"].to_pylist() == [DAY, DAY]


def test_columns_to_read_come_in_a_list(table_of: Any) -> None:
    table = table_of(pa.int64())
    for wrong in (5, True, object()):
        with pytest.raises(InvalidInput, match="columns cannot be"):
            table.to_arrow(columns=wrong)
    assert table.to_arrow(columns={"v"}).column_names == ["v"]


@pytest.mark.parametrize("kind", ["lance", "iceberg"])
def test_columns_come_in_the_order_in_which_they_are_asked_for_and_in_whatever_form(lake: Lake, kind: str) -> None:
    table = lake.create_table("shop.kept", pa.schema([("a", pa.int64()), ("b", pa.int64())]), format=kind)
    table.append([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    for asked in (["b", "a"], ("b", "a"), iter(["b", "a"]), {"b": 0, "a": 0}):
        found = table.to_arrow(columns=asked, filter="a > 1")  # type: ignore[arg-type]
        assert [*found.to_pylist()[0].items()] == [("b", 4), ("a", 3)]
    nothing = table.to_arrow(columns=[])
    assert (nothing.column_names, nothing.num_rows) == ([], 2)


def test_a_field_inside_of_a_column_of_an_iceberg_table_comes_in_its_place(lake: Lake) -> None:
    inside = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    schema = pa.schema([("a", pa.int64()), ("s", inside), ("s.t", pa.int64())])
    table = lake.create_table("shop.kept", schema, format="iceberg")
    table.append([{"a": 1, "s": {"x": 2, "y": 3}, "s.t": 4}])
    assert table.to_arrow(columns=["s.t", "s.y", "a"]).to_pylist() == [{"s.t": 4, "s": {"y": 3}, "a": 1}]
