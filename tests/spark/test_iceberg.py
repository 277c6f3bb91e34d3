"""Iceberg tables of a lake, by the same means as all others."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seiche
from seiche.errors import InvalidInput, NotFound, RetryableConflict
from seiche.spark.options import Options
from seiche.spark.table_writer import TableWriter

pytest.importorskip("pyiceberg")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(9, 2))])


@pytest.fixture
def facts(lake: Any) -> str:
    lake.create_table("shop.facts", SCHEMA, format="iceberg")
    lake.create_table("shop.t", SCHEMA)
    return "shop.facts"


def ids(lake: Any, name: str) -> list[int]:
    return sorted(lake.table(name).to_arrow()["id"].to_pylist())


def test_append_read_and_overwrite_together_with_a_lance_table(spark: "SparkSession", lake: Any, facts: str) -> None:
    rows = spark.range(100).selectExpr("id", "concat('n', id) as s", "cast(id / 4 as decimal(9, 2)) as d")
    before = lake.version
    with lake.transaction(spark=spark) as tx:
        assert tx.append(facts, rows.repartition(3)).rows == 100
        tx.append("shop.t", tx.read(facts, columns=["id", "d"], filter="id >= 90"))
        assert tx.count(facts) == 100
    assert lake.version == before + 1
    assert ids(lake, facts) == list(range(100))
    assert ids(lake, "shop.t") == list(range(90, 100))
    with lake.transaction(spark=spark) as tx:
        tx.overwrite(facts, rows.where("id < 5"))
        tx.delete(facts, "id = 3")
    assert ids(lake, facts) == [0, 1, 2, 4]
    assert sorted(map(tuple, lake.spark(spark).read(facts).collect()))[1] == sorted(map(tuple, rows.collect()))[1]


def test_the_same_format_name(spark: "SparkSession", lake: Any, facts: str) -> None:
    options = {"lake": lake.uri, "table": facts}
    rows = spark.range(20).selectExpr("id", "'x' as s")
    rows.write.format("seiche").options(**options).mode("append").save()
    version = lake.version
    rows.where("id < 3").write.format("seiche").options(**options).mode("append").save()
    read = spark.read.format("seiche").options(**options)
    assert read.load().where("id < 3").count() == 6
    assert read.option("version", version).load().count() == 20
    rows.where("id > 17").write.format("seiche").options(**options).mode("overwrite").save()
    assert ids(lake, facts) == [18, 19]
    assert lake.fsck().problems == ()


def test_values_that_pyiceberg_has_no_place_for_are_refused_in_our_words(spark: "SparkSession", lake: Any) -> None:
    lake.create_table("shop.days", pa.schema([("id", pa.int64()), ("day", pa.date32())]), format="iceberg")
    late = spark.range(1).selectExpr("id", "date_from_unix_date(4000000) as day")  # after the year 9999
    with pytest.raises(InvalidInput, match=r"shop\.days: PyIceberg cannot do this write"):
        lake.run(lambda tx: tx.append("shop.days", late), spark=spark)
    lake.table("shop.days").append([{"id": 0, "day": date(2030, 1, 1)}])
    with pytest.raises(InvalidInput, match=r"shop\.days: PyIceberg cannot do this write"):
        lake.run(lambda tx: tx.update("shop.days", {"day": "date_from_unix_date(4000000)"}), spark=spark)
    assert lake.table("shop.days").to_arrow().to_pylist() == [{"id": 0, "day": date(2030, 1, 1)}]


def test_a_file_that_is_gone_is_told_as_without_spark(spark: "SparkSession", lake: Any, facts: str) -> None:
    lake.table(facts).append(pa.table({"id": [1, 2], "s": ["a", "b"], "d": [None, None]}, schema=SCHEMA))
    for one in files(lake, facts):
        Path(one.removeprefix("file://")).unlink()
    for verb in (
        lambda tx: tx.delete(facts, "id = 1"),
        lambda tx: tx.append("shop.t", tx.read(facts)),
    ):
        with pytest.raises(NotFound, match="is not there any more"):
            lake.run(verb, spark=spark)


def test_a_table_that_may_only_be_read_gets_no_file(spark: "SparkSession", lake: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    other = seiche.create(str(tmp_path / "other"))
    other.create_namespace("shop")
    other.create_table("shop.t", rows.schema, format="iceberg").append(rows)
    lake.register_table("shop.ice", other.table("shop.t").to_iceberg().metadata_location, format="iceberg")
    lake.register_table("shop.lance", seiche.Table.create(str(tmp_path / "t.lance"), rows.schema).uri)
    before = sorted(tmp_path.rglob("*"))
    for name in ("shop.ice", "shop.lance"):
        with pytest.raises(InvalidInput, match="only be read"):
            lake.run(lambda tx, name=name: tx.append(name, spark.range(3)), spark=spark)
        with pytest.raises(InvalidInput, match="only be read"):
            TableWriter(Options.of({"lake": lake.uri, "table": name}), spark.range(3).schema, overwrite=False)
    assert sorted(tmp_path.rglob("*")) == before


def files(lake: Any, name: str) -> set[str]:
    return {one.file.file_path for one in lake.table(name).to_iceberg().scan().plan_files()}


def rows_of(lake: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lake.table(name).to_arrow().to_pylist())


@pytest.fixture
def filled(lake: Any, facts: str) -> str:
    """Four data files of ten rows."""
    for start in range(0, 40, 10):
        numbers = range(start, start + 10)
        data = {"id": numbers, "s": [None if one % 4 == 0 else f"n{one}" for one in numbers], "d": [None] * 10}
        lake.table(facts).append(pa.table(data, SCHEMA))
    return facts


def test_update_and_delete_write_only_the_files_that_have_such_rows(
    spark: "SparkSession", lake: Any, filled: str
) -> None:
    from pyspark.sql import functions as fn

    before, version = files(lake, filled), lake.version
    with lake.transaction(spark=spark) as tx:
        done = tx.update(filled, {"s": "concat(s, '!')", "d": "id / 4"}, "id between 12 and 14")
        assert (done.rows, done.files) == (3, 1)
        assert tx.delete(filled, "s is null and id < 20").rows == 5  # one of those was updated, and still is
        assert not tx.delete(filled, "id > 100").changed
        assert tx.read(filled).count() == 35
    assert lake.version == version + 1
    assert len(files(lake, filled) & before) == 2
    assert rows_of(lake, filled)[6:10] == [
        (9, "n9", None),
        (10, "n10", None),
        (11, "n11", None),
        (13, "n13!", Decimal("3.25")),
    ]
    with lake.transaction(spark=spark) as tx:
        assert tx.delete(filled, fn.col("id") >= 0).rows == 35
    assert rows_of(lake, filled) == []
    assert lake.fsck().problems == ()


def test_merge_with_all_clauses(spark: "SparkSession", lake: Any, filled: str) -> None:
    data = spark.range(35, 45).selectExpr("id", "concat('m', id) as s", "id % 3 = 0 as gone")
    with lake.transaction(spark=spark) as tx:
        done = (
            tx.merge(filled, data, on="id")
            .when_matched_delete("source.gone")
            .when_matched_update({"s": "concat_ws('/', target.s, source.s)"})
            .when_not_matched_insert({"id": "source.id", "d": "1.5"}, condition="not source.gone")
            .when_not_matched_by_source_delete("target.id between 3 and 5")
            .execute()
        )
    assert {key: done.notes[key] for key in ("inserted", "updated", "deleted")} == {
        "inserted": 4,
        "updated": 3,
        "deleted": 5,
    }
    kept = [(one, None if one % 4 == 0 else f"n{one}", None) for one in range(35) if one not in (3, 4, 5)]
    changed = [(35, "n35/m35", None), (37, "n37/m37", None), (38, "n38/m38", None)]
    added = [(one, None, Decimal("1.50")) for one in (40, 41, 43, 44)]
    assert rows_of(lake, filled) == [*kept, *changed, *added]


@pytest.mark.parametrize("name", ["a.b", "a`b", "`", "*", "ünï", "{x}"])
def test_columns_of_any_name(spark: "SparkSession", lake: Any, name: str) -> None:
    """Names that Spark reads as something else unless they are quoted, as columns, as keys and in SQL."""
    lake.create_table("shop.odd", pa.schema([("id", pa.int64()), (name, pa.string())]), format="iceberg")
    said = "`" + name.replace("`", "``") + "`"
    sql = lake.spark(spark).sql
    sql("INSERT INTO shop.odd VALUES (1, 'x'), (2, NULL), (3, 'z')")
    sql(f"UPDATE shop.odd SET {said} = concat({said}, '!') WHERE {said} IS NOT NULL")
    sql(f"DELETE FROM shop.odd WHERE {said} = 'z!'")
    sql(
        f"MERGE INTO shop.odd t USING (SELECT 1L AS id, 'm' AS {said} UNION ALL SELECT 9L, 'n') s ON t.id = s.id"
        f" WHEN MATCHED THEN UPDATE SET {said} = concat(t.{said}, s.{said})"
        f" WHEN NOT MATCHED THEN INSERT (id, {said}) VALUES (s.id, s.{said})"
        f" WHEN NOT MATCHED BY SOURCE AND t.{said} IS NULL THEN UPDATE SET {said} = 'was null'"
    )
    with lake.transaction(spark=spark) as tx:
        data = spark.sql(f"SELECT 'n' AS {said}, 10L AS id UNION ALL SELECT 'new', 11L")
        tx.merge("shop.odd", data, on=name).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_of(lake, "shop.odd") == [(1, "x!m"), (2, "was null"), (10, "n"), (11, "new")]


def test_two_rows_for_one_row_and_two_merges_at_once_are_refused(spark: "SparkSession", lake: Any, facts: str) -> None:
    twice = spark.sql("SELECT 1L AS id, 'a' AS s UNION ALL SELECT 1L, 'b'")

    def merge(tx: Any, data: Any) -> Any:
        return tx.merge(facts, data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()

    with pytest.raises(InvalidInput, match="both would be inserted"), lake.transaction(spark=spark) as tx:
        merge(tx, twice)
    one, other = lake.transaction(spark=spark), lake.transaction(spark=spark)
    # Into an empty table: neither may be taken for an append, or the key would be there twice.
    assert merge(one, twice.limit(1)).notes["inserted"] == 1
    assert merge(other, twice.limit(1)).notes["inserted"] == 1
    one.commit()
    with pytest.raises(RetryableConflict):
        other.commit()
    assert ids(lake, facts) == [1]
    with pytest.raises(InvalidInput, match="match the same row"), lake.transaction(spark=spark) as tx:
        merge(tx, twice)


def test_partitions_and_required_columns_stay(spark: "SparkSession", lake: Any) -> None:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StringType

    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "kind", StringType()),
        NestedField(3, "v", ListType(4, IntegerType())),
    )
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="kind"))
    lake.create_table("shop.parts", schema, format="iceberg", partition_spec=spec)
    with lake.transaction(spark=spark) as tx:
        tx.append("shop.parts", spark.sql("SELECT id, concat('k', id % 2) AS kind, array(int(id)) AS v FROM range(6)"))
        tx.update("shop.parts", {"kind": "'k9'", "v": "array(7, 8)"}, "id > 3")
    assert rows_of(lake, "shop.parts") == [
        (0, "k0", [0]),
        (1, "k1", [1]),
        (2, "k0", [2]),
        (3, "k1", [3]),
        (4, "k9", [7, 8]),
        (5, "k9", [7, 8]),
    ]
    table = lake.table("shop.parts").to_iceberg()
    assert {one.file.partition[0] for one in table.scan(row_filter="kind = 'k9'").plan_files()} == {"k9"}
    with pytest.raises(InvalidInput), lake.transaction(spark=spark) as tx:
        tx.update("shop.parts", {"id": "null"}, "id = 1")


def test_null_lists_of_structs_stay_null(spark: "SparkSession", lake: Any) -> None:
    """Workers hold PyIceberg to it, too: without that they come back empty."""
    kind = pa.list_(pa.struct([("x", pa.int32())]))
    lake.create_table("shop.points", pa.schema([("id", pa.int64()), ("v", kind)]), format="iceberg")
    rows = spark.range(2).selectExpr("id", "if(id = 0, null, array(named_struct('x', 1))) as v")
    with lake.transaction(spark=spark) as tx:
        tx.append("shop.points", rows)
    assert lake.spark(spark).read("shop.points").orderBy("id").first().v is None
    assert lake.table("shop.points").to_arrow().sort_by("id")["v"].to_pylist() == [None, [{"x": 1}]]
