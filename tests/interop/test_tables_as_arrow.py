"""A table is rows for whatever takes Arrow: other libraries, and verbs of other tables."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.table.verbs.table import TableVerbs

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS: list[dict[str, object]] = [{"id": 1, "name": "one"}, {"id": 2, "name": None}]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(seiche.store.open_store(tmp_path / "lake", durability="os"))
    made.create_namespace("shop")
    made.create_table("shop.lance", SCHEMA).append(ROWS)
    made.create_table("shop.iceberg", SCHEMA, format="iceberg")
    return made


def check(given: TableVerbs, rows: list[dict[str, object]]) -> None:
    assert pa.table(given).to_pylist() == rows
    assert pl.DataFrame(given).to_dicts() == rows
    found = duckdb.sql("SELECT * FROM given ORDER BY id")
    assert [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()] == rows


def test_arrow_polars_and_duckdb_take_tables_of_all_kinds(lake: Lake, tmp_path: Path) -> None:
    first, second = lake.table("shop.lance"), lake.table("shop.iceberg")
    third = seiche.Table.create(str(tmp_path / "plain"), SCHEMA)
    second.append(first)
    third.append(second)
    for one in (first, second, third, seiche.open(lake.uri, version=lake.version).table("shop.lance")):
        check(one, ROWS)


def test_in_a_transaction_a_table_is_what_that_sees(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.update("shop.lance", {"id": "id + 10"})
        tx.append("shop.iceberg", tx.table("shop.lance"))
        lake.table("shop.lance").append([{"id": 3}])
        check(tx.table("shop.iceberg"), [{"id": 11, "name": "one"}, {"id": 12, "name": None}])
    assert sorted(lake.table("shop.lance").to_arrow()["id"].to_pylist()) == [3, 11, 12]
