"""A shop in a lake, and SQL on it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest

from seiche import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from seiche.spark.lake import SparkLake

# Executes a statement, and gives the rows of its result as tuples.
Sql: TypeAlias = Callable[[str], list[tuple[Any, ...]]]

ORDERS = pa.schema([("id", pa.int64()), ("sku", pa.string()), ("n", pa.int32()), ("price", pa.float64())])


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """Version 2 of the lake has the tables, version 3 has rows."""
    with lake.transaction() as tx:
        tx.create_table("shop.orders", ORDERS)
        tx.create_table("shop.stock", pa.schema([pa.field("sku", pa.string(), nullable=False), ("left", pa.int32())]))
    with lake.transaction() as tx:
        rows = {"id": [1, 2, 3], "sku": ["a", "b", None], "n": [1, 2, 3], "price": [0.5, 1.5, None]}
        tx.append("shop.orders", pa.table(rows, ORDERS))
        tx.append("shop.stock", pa.table({"sku": ["a", "b"], "left": pa.array([10, 20], pa.int32())}))
    return lake


@pytest.fixture
def on_spark(shop: Lake, spark: "SparkSession") -> "SparkLake":
    """The shop with a session of its own on the shared Spark."""
    made: SparkLake = shop.spark(spark)
    return made


@pytest.fixture
def sql(on_spark: "SparkLake") -> Sql:
    return lambda statement: [tuple(row) for row in on_spark.sql(statement).collect()]
