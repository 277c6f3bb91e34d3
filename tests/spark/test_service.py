"""The same code on a lake behind a server, which decides what is committed."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seiche

pytest.importorskip("grpc")

from seiche.service.host import Host
from seiche.service.running import Running, running
from seiche.service.state.opening import open_database
from seiche.spark import stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


@pytest.fixture
def server(lake: Any, tmp_path: Path) -> Iterator[Running]:
    for name in ("shop.t", "shop.other"):
        lake.create_table(name, SCHEMA)
    with running(Host({"default": lake}, open_database(f"sqlite://{tmp_path}/state.db"))) as made:
        yield made


@pytest.fixture
def client(server: Running) -> Iterator[Any]:
    with seiche.connect(server.address, durability="os") as made:
        yield made


def assert_decided(server: Running, wanted: int) -> None:
    """So many transactions the server has decided. It counts when it has answered."""
    deadline = time.monotonic() + 10
    figures = server.server.host.services["default"].group.figures
    while figures.decided < wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    assert figures.decided == wanted


def held(lake: Any, name: str = "shop.t") -> list[tuple[int, int]]:
    rows = lake.table(name).to_arrow().to_pylist()
    return sorted((row["id"], row["n"]) for row in rows)


def test_statements_sql_and_care_are_decided_by_the_server(
    spark: "SparkSession", lake: Any, server: Running, client: Any
) -> None:
    rows = spark.range(0, 20, 1, 2).selectExpr("id", "0L as n")
    with client.transaction(spark=spark) as tx:
        tx.append("shop.t", rows)
        tx.delete("shop.t", "id >= 10")
        tx.update("shop.t", {"n": "id * 2"}, "id < 3")
        data = spark.range(9, 11).selectExpr("id", "7L as n")
        tx.merge("shop.t", data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
        tx.append("shop.other", tx.read("shop.t").where("n = 7"))
    assert tx.version == lake.version
    assert_decided(server, 1)
    assert lake.status(tx.id).outcome == "committed"
    assert held(lake) == [(0, 0), (1, 2), (2, 4), *((one, 0) for one in range(3, 9)), (9, 7), (10, 7)]
    assert held(lake, "shop.other") == [(9, 7), (10, 7)]
    db = client.spark(spark)
    for statement in ("BEGIN", "DELETE FROM shop.t WHERE id < 9", "DELETE FROM shop.other WHERE id = 9", "COMMIT"):
        db.sql(statement)
    assert_decided(server, 2)
    assert db.sql(f"SELECT count(*) FROM shop.t VERSION AS OF {tx.version}").collect()[0][0] == 11
    assert db.compact("shop.t").changed
    assert (held(lake), held(lake, "shop.other")) == ([(9, 7), (10, 7)], [(10, 7)])
    assert_decided(server, 3)


def test_the_data_source_and_streams_are_decided_by_the_server(
    spark: "SparkSession", lake: Any, server: Running, client: Any, tmp_path: Path
) -> None:
    options = {"lake": server.address, "table": "shop.t", "durability": "os"}
    spark.range(0, 10, 1, 2).selectExpr("id", "0L as n").write.format("seiche").options(**options).mode("append").save()
    assert_decided(server, 1)
    version = lake.version
    frame = spark.read.format("seiche").options(**options).load()
    assert frame.where("id > 6").count() == 3
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "1.json").write_text('{"id": 10, "n": 1}\n')
    feed = spark.readStream.schema("id long, n long").json(str(tmp_path / "feed"))

    def load(tx: Any, batch: "DataFrame") -> None:
        tx.append("shop.t", batch)
        tx.append("shop.other", batch)

    writer = feed.writeStream.foreachBatch(stream.sink(client, load))
    writer.option("checkpointLocation", str(tmp_path / "point")).trigger(availableNow=True).start().awaitTermination()
    assert_decided(server, 2)
    assert held(lake, "shop.other") == [(10, 1)]
    assert spark.read.format("seiche").options(**options, version=str(version)).load().count() == 10
    assert len(held(lake)) == 11
