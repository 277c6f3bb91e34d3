"""Every type of Spark, and every type of Arrow that Spark can show, through a table and back."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as fn
from pyspark.sql import types as t

from seiche.errors import InvalidInput
from seiche.spark.types import arrow_schema, as_shown, columns_for, shown, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WALL = datetime(2026, 2, 3, 4, 5, 6, 7)  # noqa: DTZ001 - a time without a zone is meant
NOON = datetime(2026, 2, 3, 12, 30, 1, 234567, tzinfo=UTC)

# Spark's type and two values of it; a third row is null.
SPARK_TYPES: list[tuple[str, t.DataType, list[Any]]] = [
    ("byte", t.ByteType(), [1, -128]),
    ("short", t.ShortType(), [1, -32768]),
    ("int", t.IntegerType(), [1, -(2**31)]),
    ("long", t.LongType(), [1, -(2**63)]),
    ("float", t.FloatType(), [1.5, -0.25]),
    ("double", t.DoubleType(), [1.1, float("inf")]),
    ("string", t.StringType(), ["", "grüße \U0001f30a"]),
    ("binary", t.BinaryType(), [bytearray(b""), bytearray(b"\x00\xff")]),
    ("bool", t.BooleanType(), [True, False]),
    ("date", t.DateType(), [date(1970, 1, 1), date(2026, 2, 3)]),
    ("timestamp", t.TimestampType(), [NOON, datetime(1969, 12, 31, 23, 59, tzinfo=UTC)]),
    ("timestamp_ntz", t.TimestampNTZType(), [WALL, WALL.replace(year=1900)]),
    ("decimal", t.DecimalType(10, 2), [Decimal("12.34"), Decimal("-0.01")]),
    ("wide_decimal", t.DecimalType(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal(0)]),
    ("interval", t.DayTimeIntervalType(), [timedelta(days=1, microseconds=1), timedelta(0)]),
    ("time", t.TimeType(), [time(1, 2, 3, 456789), time(0)]),
    ("floats", t.ArrayType(t.FloatType()), [[1.0, None], []]),
    ("ints", t.ArrayType(t.IntegerType()), [[1, 2], [3]]),
    ("struct", t.StructType().add("a", t.IntegerType()).add("b", t.StringType()), [(1, "x"), (None, "")]),
    ("map", t.MapType(t.StringType(), t.LongType()), [{"a": 1, "b": None}, {}]),
    ("structs", t.ArrayType(t.StructType([t.StructField("a", t.LongType())])), [[(1,), (None,)], []]),
    ("nested", t.StructType().add("l", t.ArrayType(t.DecimalType(9, 3))), [([Decimal("1.250"), None],), (None,)]),
    ("decimals", t.MapType(t.StringType(), t.DecimalType(20, 4)), [{"x": Decimal("2.5000")}, {}]),
]  # fmt: skip


VARIANT = """CASE WHEN long = 1 THEN parse_json('{"a": null, "b": [1, 2.5, "x"]}') END"""


def schema_of(cases: list[tuple[str, t.DataType, list[Any]]]) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind, _ in cases])


def test_every_type_of_spark_comes_back(spark: "SparkSession", lake: Any) -> None:
    schema = schema_of(SPARK_TYPES).add("nothing", t.NullType())
    rows = [(*(values[row] for _, _, values in SPARK_TYPES), None) for row in range(2)]
    rows.append((None,) * len(schema))
    frame = spark.createDataFrame(rows, schema).withColumn("variant", fn.expr(VARIANT))
    schema.add("variant", t.VariantType())
    lake.create_table("shop.t", arrow_schema(schema))
    with lake.transaction(spark=spark) as tx:
        tx.append("shop.t", frame)
    options = {"lake": lake.uri, "table": "shop.t"}
    frame.write.format("seiche").options(**options).mode("append").save()
    wanted = sorted(map(str, frame.collect()))
    source = spark.read.format("seiche").options(**options).load()
    assert source.schema == schema
    assert sorted(map(str, source.collect())) == sorted(wanted * 2)
    frame_read = lake.spark(spark).read("shop.t")
    assert frame_read.schema == schema
    assert sorted(map(str, frame_read.collect())) == sorted(wanted * 2)
    found = frame_read.selectExpr("variant_get(variant, '$.b[1]', 'double') as b").distinct().collect()
    assert {row["b"] for row in found} == {2.5, None}


ARROW_TYPES: list[tuple[str, pa.DataType, list[Any], Any]] = [
    ("uint8", pa.uint8(), [255], 255),
    ("uint16", pa.uint16(), [65535], 65535),
    ("uint32", pa.uint32(), [2**32 - 1], 2**32 - 1),
    ("uint64", pa.uint64(), [2**64 - 1], Decimal(2**64 - 1)),
    ("half", pa.float16(), [1.5], 1.5),
    ("text", pa.large_string(), ["x"], "x"),
    ("bytes", pa.large_binary(), [b"x"], bytearray(b"x")),
    ("fixed", pa.binary(3), [b"abc"], bytearray(b"abc")),
    ("vector", pa.list_(pa.float32(), 2), [[1.0, 2.0]], [1.0, 2.0]),
    ("list", pa.large_list(pa.int32()), [[1]], [1]),
    ("category", pa.dictionary(pa.int32(), pa.string()), ["c"], "c"),
    ("millis", pa.timestamp("ms", "UTC"), [NOON.replace(microsecond=0)], NOON.replace(microsecond=0, tzinfo=None)),
    ("nanos", pa.timestamp("ns"), [WALL], WALL),
    ("day", pa.date64(), [date(2026, 1, 1)], date(2026, 1, 1)),
    ("seconds", pa.time32("s"), [time(1, 2, 3)], time(1, 2, 3)),
    ("length", pa.duration("s"), [timedelta(seconds=3)], timedelta(seconds=3)),
]


def test_types_that_spark_does_not_have_are_shown_and_written_back(spark: "SparkSession", lake: Any) -> None:
    schema = pa.schema([(name, kind) for name, kind, _, _ in ARROW_TYPES])
    table = pa.table([pa.array(values, kind) for _, kind, values, _ in ARROW_TYPES], schema=schema)
    lake.create_table("shop.t", schema)
    lake.table("shop.t").append(table)
    frame = lake.spark(spark).read("shop.t")
    (row,) = frame.collect()
    assert {name: row[name] for name in schema.names} == {name: shown for name, _, _, shown in ARROW_TYPES}
    with lake.transaction(spark=spark) as tx:
        tx.append("shop.t", frame)
    stored = lake.table("shop.t").to_arrow()
    assert stored.schema.types == schema.types
    assert stored.slice(0, 1).to_pylist() == stored.slice(1, 1).to_pylist()


def test_times_that_spark_has_not_are_refused_and_never_shown_as_others() -> None:
    """Seconds reach further than Spark's microseconds."""
    for kind in (pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.duration("s"), pa.list_(pa.timestamp("ms"))):
        far = pa.array([2**62], pa.int64())
        column = (
            pa.ListArray.from_arrays([0, 1], far.cast(kind.value_type)) if pa.types.is_list(kind) else far.cast(kind)
        )
        rows = pa.record_batch([column], names=["at"])
        with pytest.raises(InvalidInput, match=r"'at'.*cannot hold") as caught:
            as_shown(rows, shown(rows.schema))
        assert caught.value.details["column"] == "at"
    fine = pa.record_batch([pa.array([1001, None], pa.timestamp("ns"))], names=["at"])
    assert as_shown(fine, shown(fine.schema)).column(0).cast(pa.int64()).to_pylist() == [1, None]


def test_rows_of_arrow_are_merged_with_the_times_that_they_have(spark: "SparkSession", lake: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("wall", pa.timestamp("ns")), ("at", pa.timestamp("us", "UTC"))])
    lake.create_table("shop.t", schema)
    rows = pa.table(
        [pa.array([1]), pa.array([WALL], schema.types[1]), pa.array([NOON], schema.types[2])], schema=schema
    )
    with lake.transaction(spark=spark) as tx:
        tx.merge("shop.t", rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
        finer = rows.set_column(1, "wall", pa.array([1001], schema.types[1]))
        with pytest.raises(InvalidInput, match=r"'wall'.*lose data"):
            tx.merge("shop.t", finer, on="id")
    assert lake.table("shop.t").to_arrow() == rows


def test_columns_that_do_not_change_never_pass_through_spark(spark: "SparkSession", lake: Any) -> None:
    """Nanoseconds would be lost on the way."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("ns")), ("v", pa.list_(pa.float32(), 2))])
    lake.create_table("shop.t", schema)
    rows = {
        "id": [1, 2, 3],
        "at": pa.array([1, 2, 3], pa.int64()).cast(pa.timestamp("ns")),
        "v": [[1, 2], [3, 4], None],
    }
    lake.table("shop.t").append(pa.table(rows, schema=schema))
    with lake.transaction(spark=spark) as tx:
        tx.update("shop.t", {"id": "id + 10"}, "id > 1")
        data = spark.createDataFrame([(12, 20)], "id long, new long")
        tx.merge("shop.t", data, on="id").when_matched_update({"v": "array(float(source.new), 0f)"}).execute()
    found = lake.table("shop.t").to_arrow().sort_by("id")
    assert found["at"].cast(pa.int64()).to_pylist() == [1, 2, 3]
    assert found["v"].to_pylist() == [[1, 2], [20, 0], None]


def test_blobs_are_binary_and_are_read_changed_and_written_as_such(spark: "SparkSession", lake: Any) -> None:
    import lance

    lake.create_table(
        "shop.t", pa.schema([pa.field("id", pa.int64()), pa.field("n", pa.int64()), lance.blob_field("b")])
    )
    values: dict[int, bytes | None] = {1: b"small", 2: b"m" * 100_000, 3: None, 4: b"l" * 5_000_000, 5: b""}
    lake.table("shop.t").append([{"id": one, "n": 0, "b": value} for one, value in values.items()])

    def kept() -> dict[int, bytes | None]:
        rows = lake.table("shop.t").to_lance().scanner(blob_handling="all_binary").to_table().to_pylist()
        return {row["id"]: row["b"] for row in rows}

    def shown(where: str = "true") -> dict[int, bytes | None]:
        rows = lake.spark(spark).sql(f"SELECT id, b FROM shop.t WHERE {where}").collect()
        return {row["id"]: None if row["b"] is None else bytes(row["b"]) for row in rows}

    sql = lake.spark(spark).sql
    assert shown() == kept() == values
    sql("UPDATE shop.t SET n = 1 WHERE id IN (2, 3, 4)")
    assert shown() == kept() == values
    new = spark.createDataFrame(
        [(2, 7, bytearray(b"x" * 70_000)), (6, 7, bytearray(b"new"))], "id long, n long, b binary"
    )
    new.createOrReplaceTempView("new_blobs")
    upsert = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    sql(f"MERGE INTO shop.t t USING new_blobs s ON t.id = s.id {upsert}")
    values |= {2: b"x" * 70_000, 6: b"new"}
    assert shown() == kept() == values
    sql("INSERT INTO shop.t SELECT id + 10, n, b FROM shop.t WHERE id IN (3, 4)")
    values |= {13: None, 14: values[4]}
    assert shown("id > 3") == {one: value for one, value in values.items() if one > 3}
    assert kept() == values
    sql("CREATE TABLE shop.copy AS SELECT * FROM shop.t")
    assert {row["id"]: row["b"] for row in lake.table("shop.copy").to_arrow().to_pylist()} == values


@pytest.mark.parametrize(
    ("kind", "shown", "value"),
    [
        (pa.uint8(), "short", 256),
        (pa.uint32(), "short", -1),
        (pa.int8(), "short", 1),
        (pa.float16(), "float", 70_000.0),
        (pa.list_(pa.float32(), 2), "array<float>", [1.0]),
        (pa.list_(pa.float16(), 2), "array<float>", [1.0, 70_000.0]),
    ],
)
def test_values_that_do_not_fit_are_refused(
    spark: "SparkSession", lake: Any, kind: pa.DataType, shown: str, value: Any
) -> None:
    lake.create_table("shop.t", pa.schema([("x", kind)]))
    frame = spark.createDataFrame([(value,)], f"x {shown}")
    with pytest.raises(InvalidInput), lake.transaction(spark=spark) as tx:
        tx.append("shop.t", frame)
    assert lake.table("shop.t").to_arrow().num_rows == 0


def test_a_table_that_is_made_for_a_query_takes_nulls_everywhere() -> None:
    """Lists that are collected, and structs of counts, have none at first: the next run of a pipeline was refused."""
    struct = t.StructType([t.StructField("n", t.LongType(), nullable=False)])
    lists = t.ArrayType(struct, containsNull=False)
    maps = t.MapType(t.StringType(), lists, valueContainsNull=False)
    made = columns_for(t.StructType([t.StructField("m", maps, nullable=False), t.StructField("v", t.VariantType())]))
    inside = made.field("m").type.item_field
    assert made.field("m").nullable
    assert inside.nullable
    assert inside.type.value_field.nullable
    assert inside.type.value_type.field("n").nullable
    assert not made.field("m").type.key_field.nullable
    # Of a variant both parts are always there.
    assert made.field("v").type == arrow_schema(t.StructType([t.StructField("v", t.VariantType())])).field("v").type


def test_a_table_that_is_made_for_a_query_does_not_lose_a_collation_in_silence() -> None:
    text = t.StringType("UTF8_LCASE")
    inside = t.ArrayType(t.MapType(t.StringType(), t.StructType([t.StructField("s", text)])))
    for kind in (text, inside):
        with pytest.raises(InvalidInput, match="column 'x' has the collation UTF8_LCASE, which no table keeps"):
            columns_for(t.StructType([t.StructField("n", t.StringType()), t.StructField("x", kind)]))


def test_a_type_without_a_counterpart_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"'deep\.x' is of type decimal256"):
        spark_schema(pa.schema([("deep", pa.struct([("x", pa.decimal256(50, 2))]))]))
