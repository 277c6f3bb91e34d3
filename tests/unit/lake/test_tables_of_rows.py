"""Tables that are made of rows: they have the columns of the rows, and the rows, from their first version on."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import seiche
from seiche.errors import AlreadyExists, InvalidInput, RetryableConflict
from seiche.lake.iceberg import sources

ROWS = [{"id": 1, "sku": "a"}, {"id": 2, "sku": None}]


@pytest.fixture
def lake(tmp_path: Path) -> seiche.Lake:
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    lake.create_namespace("shop")
    return lake


GIVEN: dict[str, Callable[[], Any]] = {
    "dictionaries": lambda: ROWS,
    "columns": lambda: {"id": [1, 2], "sku": ["a", None]},
    "Arrow": lambda: pa.Table.from_pylist(ROWS),
    "pandas": lambda: pd.DataFrame(ROWS),
    "Polars": lambda: pl.DataFrame(ROWS),
    "a generator": lambda: (row for row in ROWS),
    "a reader": lambda: pa.Table.from_pylist(ROWS).to_reader(),
}


@pytest.mark.parametrize("format", ["lance", "iceberg"])
@pytest.mark.parametrize("given", GIVEN)
def test_a_table_is_made_of_rows(lake: seiche.Lake, given: str, format: str) -> None:
    before = lake.version
    made = lake.create_table("shop.orders", GIVEN[given](), format=format)
    assert made.to_arrow().to_pylist() == ROWS
    assert made.schema.names == ["id", "sku"]
    assert lake.version == before + 1


def test_its_first_version_has_them(lake: seiche.Lake) -> None:
    assert lake.create_table("shop.orders", ROWS).version == 1


def test_of_no_rows_it_is_empty_and_has_their_columns(lake: seiche.Lake) -> None:
    made = lake.create_table("shop.orders", pa.Table.from_pylist(ROWS).slice(0, 0))
    assert (made.count_rows(), made.schema.names) == (0, ["id", "sku"])


def test_other_statements_of_the_transaction_see_them(lake: seiche.Lake) -> None:
    with lake.transaction() as tx:
        tx.create_table("shop.orders", ROWS)
        tx.update("shop.orders", {"sku": "'b'"}, where="sku IS NULL")
    assert lake.table("shop.orders").to_arrow().column("sku").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_rows_that_cannot_be_read_make_no_table(lake: seiche.Lake, format: str) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist(ROWS)
        raise OSError("the line is dead")

    with lake.transaction() as tx:
        with pytest.raises(OSError, match="the line is dead"):
            tx.create_table("shop.orders", broken(), format=format)
        assert tx.tables() == []
        tx.create_table("shop.others", ROWS)
    assert lake.tables() == [("shop", "others")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "a table cannot be made of None"),
        (5, "a table cannot be made of 5"),
        ("id int", "rows cannot be taken from a str"),
        ([{"id": None}], "it is not known of which type column 'id' shall be"),
    ],
    ids=["nothing", "number", "text", "nulls"],
)
def test_what_has_no_columns_makes_no_table(lake: seiche.Lake, given: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        lake.create_table("shop.orders", given)
    assert lake.tables() == []


def test_a_name_that_is_taken_keeps_its_rows(lake: seiche.Lake) -> None:
    lake.create_table("shop.orders", ROWS)
    with pytest.raises(AlreadyExists):
        lake.create_table("shop.orders", [{"other": 1}])
    assert lake.table("shop.orders").to_arrow().to_pylist() == ROWS


def lose_once(lake: seiche.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commit from now on loses to another one."""
    lost = iter([True])
    commit = type(lake.transaction()).commit

    def losing(self: Any) -> Any:
        if next(lost, False):
            raise RetryableConflict("somebody else was first", version=1)
        return commit(self)

    monkeypatch.setattr(type(lake.transaction()), "commit", losing)


def test_rows_in_memory_are_written_again_after_a_conflict(lake: seiche.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_once(lake, monkeypatch)
    assert lake.create_table("shop.orders", ROWS).to_arrow().to_pylist() == ROWS


def test_a_stream_that_has_been_read_makes_no_empty_table(lake: seiche.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_once(lake, monkeypatch)
    with pytest.raises(RetryableConflict, match="a stream that has been read"):
        lake.create_table("shop.orders", (row for row in ROWS))
    assert lake.tables() == []


def test_rows_are_asked_for_the_names_of_their_columns_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each column: Arrow makes the whole list each time, and 4,000 columns took half a minute to append."""
    asked: list[str] = []

    class Counted:
        def __init__(self, rows: pa.Table) -> None:
            self.rows = rows
            self.num_rows = rows.num_rows

        def __getitem__(self, name: str) -> pa.ChunkedArray:
            return self.rows[name]

        @property
        def column_names(self) -> list[str]:
            asked.append("names")
            names: list[str] = self.rows.column_names
            return names

    wide = pa.table({f"c{number}": [number] for number in range(100)})
    monkeypatch.setattr(sources, "_table", lambda data, schema: Counted(data))
    assert sources.as_arrow(wide, wide.schema) == wide
    assert 0 < len(asked) < 5
