"""`spark.read.format("seiche")` and `df.write.format("seiche")`."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import LongType, StructField, StructType

from seiche.errors import IncompatibleConflict, InvalidInput, NotFound, RetryableConflict, SeicheError
from seiche.spark import source
from seiche.spark.options import Options
from seiche.spark.scanning import scans
from seiche.spark.source import SeicheSource, TableReader
from seiche.spark.table_writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string())])


@pytest.fixture
def options(lake: Any) -> dict[str, str]:
    """Those of a table with three fragments of ten rows: versions 3, 4 and 5 of the lake."""
    lake.create_table("shop.t", SCHEMA)
    for start in (0, 10, 20):
        rows = [{"id": one, "x": one / 2, "s": f"row {one}"} for one in range(start, start + 10)]
        lake.table("shop.t").append(rows)
    return {"lake": lake.uri, "table": "shop.t"}


def read(spark: "SparkSession", options: dict[str, str], **more: object) -> "DataFrame":
    return spark.read.format("seiche").options(**options, **{k: str(v) for k, v in more.items()}).load()


def ids(frame: "DataFrame") -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_versions_are_those_of_the_lake(spark: "SparkSession", lake: Any, options: dict[str, str]) -> None:
    newest = lake.version
    lake.tag("twenty", newest - 1)
    assert ids(read(spark, options)) == list(range(30))
    assert ids(read(spark, options, version=newest - 2)) == list(range(10))
    assert ids(read(spark, options, version="twenty")) == list(range(20))
    assert ids(read(spark, options, as_of="2200-01-01")) == list(range(30))


def test_columns_filters_and_partitions(spark: "SparkSession", options: dict[str, str]) -> None:
    frame = read(spark, options, columns="s, id", filter="id >= 5", partitions=3)
    assert frame.columns == ["s", "id"]
    assert frame.rdd.getNumPartitions() == 3
    assert ids(frame) == list(range(5, 30))
    assert read(spark, options, columns='["x"]').columns == ["x"]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("id > 25", range(26, 30)),
        ("id = 7", [7]),
        ("id in (1, 2, 99)", [1, 2]),
        ("not id >= 3", [0, 1, 2]),
        ("s = 'row 4'", [4]),
        ("s = 'it''s'", []),
        ("s like 'row 2%'", [2, *range(20, 30)]),
        ("x is not null and id <= 1", [0, 1]),
        ("id + 1 = 5", [4]),
        ("x = 1.5", [3]),
        ("id > -9223372036854775807 - 1", range(30)),
    ],
)
def test_conditions_on_a_frame_hold(
    spark: "SparkSession", options: dict[str, str], condition: str, wanted: Any
) -> None:
    assert ids(read(spark, options).where(condition)) == list(wanted)


@pytest.mark.parametrize("pushing", ["false", "true"])
def test_what_was_asked_of_a_frame_before_or_beside_changes_no_answer(
    spark: "SparkSession", options: dict[str, str], pushing: str
) -> None:
    """Spark keeps what it planned with filters that a source has taken, and reads it for other queries of the frame."""
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushing)
    try:
        frame = read(spark, options)
        assert ids(frame.where("id > 25")) == [26, 27, 28, 29]
        assert (frame.count(), ids(frame.where("id = 1 OR id = 2"))) == (30, [1, 2])
        few, others = read(spark, options).where("id < 2"), frame.where("id >= 28")
        assert ids(few.union(frame)) == sorted([0, 1, *range(30)])
        assert ids(frame.where("id < 2").union(others)) == [0, 1, 28, 29]
        assert frame.where("id < 5").alias("a").join(frame.alias("b"), "id", "right").count() == 30
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", str(before))


def test_a_frame_stays_at_the_version_it_was_planned_on(
    spark: "SparkSession", lake: Any, options: dict[str, str]
) -> None:
    frame = lake.spark(spark).read("shop.t")
    lake.table("shop.t").delete("id < 20")
    lake.table("shop.t").compact()
    assert ids(frame) == list(range(30))
    assert ids(read(spark, options)) == list(range(20, 30))


def test_a_large_table_is_not_taken_for_a_small_one(spark: "SparkSession", lake: Any) -> None:
    """Else Spark would bring all of it to the driver, to send it to everywhere from there."""
    schema = pa.schema([("id", pa.int64())])
    lake.create_table("shop.large", schema)
    lake.table("shop.large").append(pa.table({"id": range(2_000_000)}, schema=schema), max_rows_per_file=500_000)
    large, small = lake.spark(spark).read("shop.large"), lake.spark(spark).read("shop.large", filter="id < 0")
    assert large.selectExpr("sum(id)", "count(id)").collect() == [(1_999_999_000_000, 2_000_000)]
    assert small.count() == 0
    lake.create_table("shop.small", schema)
    lake.table("shop.small").append([{"id": 7}])
    few = lake.spark(spark).read("shop.small")
    joined = {name: large.join(other, "id") for name, other in (("large", spark.range(4_000_000)), ("few", few))}
    plans = {name: str(frame._jdf.queryExecution().sparkPlan()) for name, frame in joined.items()}
    assert "Broadcast" not in plans["large"]
    assert "BuildRight" in plans["few"]
    assert joined["few"].count() == 1


def test_append_and_overwrite(spark: "SparkSession", lake: Any, options: dict[str, str]) -> None:
    more = spark.range(30, 40).selectExpr("cast(id as string) as s", "id")
    more.write.format("seiche").options(**options).mode("append").save()
    found = lake.table("shop.t").to_arrow()
    assert sorted(found["id"].to_pylist()) == list(range(40))
    assert found["x"].null_count == 10
    more.write.format("seiche").options(**options).mode("overwrite").save()
    assert lake.table("shop.t").schema == SCHEMA
    assert sorted(lake.table("shop.t").to_arrow()["id"].to_pylist()) == list(range(30, 40))
    more.write.format("seiche").options(**options, overwrite_schema="true").mode("overwrite").save()
    assert lake.table("shop.t").schema.names == ["s", "id"]


def test_a_write_is_one_version_of_the_lake(spark: "SparkSession", lake: Any, options: dict[str, str]) -> None:
    before = lake.version
    spark.range(1000).repartition(7).write.format("seiche").options(**options).mode("append").save()
    assert lake.version == before + 1
    assert lake.table("shop.t").to_arrow().num_rows == 1030


def test_no_rows_and_empty_partitions(spark: "SparkSession", lake: Any, options: dict[str, str]) -> None:
    none = spark.range(10).where("id > 100")
    none.write.format("seiche").options(**options).mode("append").save()
    with lake.transaction(spark=spark) as tx:
        assert not tx.append("shop.t", none).changed
        assert tx.append("shop.t", spark.range(3).repartition(8)).rows == 3
        tx.overwrite("shop.t", none)
        assert tx.count("shop.t") == 0
        assert tx.read("shop.t").collect() == []
    assert read(spark, options).collect() == []


@pytest.mark.soak
def test_rows_of_a_megabyte(spark: "SparkSession", lake: Any, effort: Any) -> None:
    """They are many batches, both ways: all at once would be more than the 800 MB of this Spark, and in the long form
    more than an array can hold. So Spark's own limit stays as it is, though it slows down every other write.
    """
    count, size = effort(60, 2000), 1 << 20
    lake.create_table("shop.wide", pa.schema([("id", pa.int64()), ("bytes", pa.binary())]))
    options = {"lake": lake.uri, "table": "shop.wide"}
    random = f"unhex(repeat(md5(cast(id as string)), {size // 16}))"
    spark.range(0, count, 1, effort(1, 2)).selectExpr("id", f"{random} AS bytes").write.format("seiche").options(
        **options
    ).mode("append").save()
    sums = "count(distinct md5(bytes))", "sum(length(bytes))"
    for frame in (read(spark, options), lake.spark(spark).read("shop.wide")):
        assert [tuple(row) for row in frame.selectExpr(*sums).collect()] == [(count, count * size)]
    (task, *_) = scans(lake.transaction().table("shop.wide")._snapshot(), parts=1)[0]
    assert max(batch.nbytes for batch in task.read()) < 40 * size
    assert spark.conf.get("spark.sql.execution.arrow.maxBytesPerBatch") == f"{64 << 20}b"


def test_a_thousand_columns(spark: "SparkSession", lake: Any) -> None:
    names = [f"c{number}" for number in range(1000)]
    lake.create_table("shop.wide", pa.schema([(name, pa.int32()) for name in names]))
    frame = spark.range(5).selectExpr(*(f"cast(id * {n} as int) as {name}" for n, name in enumerate(names)))
    with lake.transaction(spark=spark) as tx:
        tx.append("shop.wide", frame)
        tx.update("shop.wide", {"c7": "c8"}, "c1 = 2")
        (some,) = tx.read("shop.wide", columns=["c7", "c999"], filter="c1 = 2").collect()
    (row,) = read(spark, {"lake": lake.uri, "table": "shop.wide"}).where("c1 = 2").collect()
    assert tuple(some) == (16, 1998)
    assert list(row) == [16 if number == 7 else 2 * number for number in range(1000)]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tabel": "x"}, "'tabel' is unknown"),
        ({"versionAsOf": "1"}, "It is called `version` here"),
        ({"replaceWhere": "id = 1"}, r"`tx\.delete\(table, where\)`"),
        ({"version": "9999"}, "9999"),
        ({"filter": "nothing = 1"}, "the filter is refused"),
        ({"columns": "id,nope"}, r"shop\.t has no column 'nope'\n  It has id, x, s"),
        ({"columns": '["id", "id"]'}, "names a column twice"),
        ({"columns": "[id"}, "no list in JSON"),
        ({"partitions": "none"}, "positive number"),
        ({"partitions": "0"}, "positive number"),
        ({"partitions": "²"}, "positive number"),
        ({"version": "²"}, "²"),
        ({"changes": "true"}, r"'changes' is not for this\n  It is for `spark\.readStream`"),
        ({"starting_version": "3"}, "'starting_version' is not for this"),
    ],
)
def test_bad_options_are_named(options: dict[str, str], more: dict[str, str], message: str) -> None:
    def planned(source: SeicheSource) -> object:
        return source.reader(source.schema()).partitions()

    with pytest.raises(SeicheError, match=message):
        planned(SeicheSource({**options, **more}))


def test_options_of_the_store_are_handed_on() -> None:
    given = {"Lake": "s3://b/lake", "table": "shop.t", "storage.AWS_Endpoint": "e", "durability": "os"}
    assert Options.of(given).storage == {"aws_endpoint": "e", "durability": "os"}


def test_an_old_version_is_not_written_to(options: dict[str, str]) -> None:
    for point in ({"version": "3"}, {"as_of": "2030-01-31"}):
        with pytest.raises(InvalidInput, match="an old version cannot be written to"):
            SeicheSource({**options, **point}).writer(StructType([]), overwrite=False)


@pytest.mark.parametrize("more", [{"filter": "id = 1"}, {"columns": "id"}], ids=str)
@pytest.mark.parametrize("overwrite", [False, True])
def test_options_for_reading_are_refused_by_a_write(
    options: dict[str, str], more: dict[str, str], overwrite: bool
) -> None:
    """Who overwrites with a filter means a part of the table, and would lose all of it."""
    with pytest.raises(InvalidInput, match="is not for this\n  It is for reading"):
        SeicheSource({**options, **more}).writer(StructType([StructField("id", LongType())]), overwrite=overwrite)


def test_options_for_reading_are_refused_by_a_stream(options: dict[str, str]) -> None:
    columns = StructType([StructField("id", LongType())])
    for more, said in (
        ({"filter": "id = 1"}, r"'filter' is not for this\n  Choose rows of the stream with `.where"),
        ({"version": "3"}, "'version' is not for this\n  Give `starting_version`"),
        ({"as_of": "2030-01-31"}, "'as_of' is not for this\n  Give `starting_version`"),
    ):
        with pytest.raises(InvalidInput, match=said):
            SeicheSource({**options, **more}).streamReader(columns)


def test_a_stream_of_changes_has_the_columns_that_are_asked_for(options: dict[str, str]) -> None:
    shown = SeicheSource({**options, "columns": "s,id", "changes": "true"}).schema()
    assert shown.names == ["s", "id", "_change_type", "_commit_version"]


def test_a_frame_with_two_columns_of_one_name_makes_no_table(options: dict[str, str]) -> None:
    for second in ("id", "ID"):
        columns = StructType([StructField("id", LongType()), StructField(second, LongType())])
        with pytest.raises(InvalidInput, match="two columns are called 'id'"):
            SeicheSource({**options, "overwrite_schema": "true"}).writer(columns, overwrite=True)


def test_a_write_makes_no_table(options: dict[str, str]) -> None:
    with pytest.raises(NotFound, match=r"shop\.none does not exist.*\n  A write makes no table"):
        SeicheSource({**options, "table": "shop.none"}).writer(StructType([]), overwrite=False)


def test_errors_reach_whoever_asked_spark(spark: "SparkSession", options: dict[str, str]) -> None:
    with pytest.raises(Exception, match="'tabel' is unknown"):
        read(spark, options, tabel="x")


def test_columns_that_do_not_fit_are_refused_before_anything_runs(
    spark: "SparkSession", lake: Any, options: dict[str, str]
) -> None:
    before = lake.version
    for frame in (spark.range(3).selectExpr("id", "1 as y"), spark.range(3).selectExpr("'a' as id")):
        with pytest.raises(Exception, match=r"the table has no column 'y'|column 'id' has the type int64"):
            frame.write.format("seiche").options(**options).mode("append").save()
    assert lake.version == before


def failing(folder: str, attempts: int, batches: Any) -> Any:
    """Give the rows on; the first attempts of the first task die then, when the writer behind has them all."""
    yield from batches
    context = TaskContext.get()
    assert context is not None
    if context.partitionId() == 0 and context.attemptNumber() < attempts:
        Path(folder, f"failed {context.attemptNumber()}").touch()
        raise RuntimeError("planted")


def test_a_task_that_is_run_again_counts_once(
    spark: "SparkSession", lake: Any, options: dict[str, str], tmp_path: Path
) -> None:
    frame = spark.range(1000).repartition(3).mapInArrow(partial(failing, str(tmp_path), 1), "id long")
    frame.write.format("seiche").options(**options).mode("append").save()
    assert sorted(one.name for one in tmp_path.glob("failed*")) == ["failed 0"]
    assert lake.table("shop.t").to_arrow().num_rows == 1030


def test_an_aborted_job_commits_nothing(
    spark: "SparkSession", lake: Any, options: dict[str, str], tmp_path: Path
) -> None:
    before = lake.version
    frame = spark.range(1000).repartition(3).mapInArrow(partial(failing, str(tmp_path), 9), "id long")
    with pytest.raises(Exception, match="planted"):
        frame.write.format("seiche").options(**options).mode("append").save()
    assert sorted(one.name for one in tmp_path.glob("failed*")) == ["failed 0", "failed 1"]
    assert lake.version == before


@pytest.fixture
def writer(options: dict[str, str]) -> TableWriter:
    return TableWriter(Options.of(options), StructType([StructField("id", LongType())]), overwrite=False)


BATCH = pa.RecordBatch.from_arrays([pa.array(range(5), pa.int64())], names=["id"])


def test_a_commit_that_is_asked_for_twice_happens_once(lake: Any, writer: TableWriter) -> None:
    """Spark's driver may call it again when an answer is lost; and tasks that ran twice leave files behind."""
    writer.write(iter([BATCH]))  # an attempt whose result nobody takes
    message = writer.write(iter([BATCH]))
    writer.commit([message, None])
    writer.abort([message])
    writer.commit([message, None])
    assert lake.table("shop.t").to_arrow().num_rows == 35


def test_what_a_clean_up_may_have_taken_is_not_committed(lake: Any, writer: TableWriter) -> None:
    """Files of a job that is still running are named by no version: only the version it began at protects them."""
    message = writer.write(iter([BATCH]))
    for _ in range(2):
        lake.gc(dry_run=False, grace=0, window=0)
    with pytest.raises(RetryableConflict):
        writer.commit([message])
    assert lake.table("shop.t").to_arrow().num_rows == 30
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["lance", "iceberg"])
def test_what_was_written_for_a_table_is_not_committed_to_another_of_its_name(
    lake: Any, options: dict[str, str], kind: str, overwrite: bool
) -> None:
    """The files lie with the table that there was; the one that has its name now does not have them."""
    columns = lake.table("shop.t").schema
    lake.drop_table("shop.t")
    lake.create_table("shop.t", columns, format=kind)
    writer = TableWriter(Options.of(options), StructType([StructField("id", LongType())]), overwrite=overwrite)
    message = writer.write(iter([BATCH]))
    lake.drop_table("shop.t")
    lake.create_table("shop.t", columns, format=kind).append([{"id": 99}])
    with pytest.raises(IncompatibleConflict, match="made anew"):
        writer.commit([message])
    assert lake.table("shop.t").to_arrow()["id"].to_pylist() == [99]


def test_what_was_written_for_other_columns_is_not_committed(lake: Any, options: dict[str, str]) -> None:
    """New columns under the ids of old ones would show the values of those."""
    writer = TableWriter(Options.of(options), StructType([StructField("id", LongType())]), overwrite=False)
    message = writer.write(iter([BATCH]))
    lake.table("shop.t").overwrite(pa.table({"price": pa.array([1])}), schema=pa.schema([("price", pa.int64())]))
    with pytest.raises(InvalidInput, match="columns of the table have changed"):
        writer.commit([message])
    assert lake.table("shop.t").to_arrow().to_pylist() == [{"price": 1}]


def test_an_overwrite_does_not_take_back_what_others_did_to_the_columns(lake: Any, options: dict[str, str]) -> None:
    """Unless it is to replace them too."""
    columns = StructType([StructField("id", LongType())])
    writer = TableWriter(Options.of(options), columns, overwrite=True)
    message = writer.write(iter([BATCH]))
    lake.table("shop.t").add_columns({"more": "id * 2"})
    with pytest.raises(InvalidInput, match="columns of the table have changed"):
        writer.commit([message])
    assert lake.table("shop.t").schema.names == ["id", "x", "s", "more"]
    assert lake.table("shop.t").to_arrow().num_rows == 30
    for given, names in ((options, ["id", "x", "s", "more"]), ({**options, "overwrite_schema": "true"}, ["id"])):
        writer = TableWriter(Options.of(given), columns, overwrite=True)
        message = writer.write(iter([BATCH]))
        lake.table("shop.t").append([{"id": 99}])  # rows of others are what an overwrite replaces
        writer.commit([message])
        assert lake.table("shop.t").schema.names == names
        assert lake.table("shop.t").to_arrow()["id"].to_pylist() == list(range(5))


@pytest.mark.parametrize("lease", [None, "1h"])
def test_a_lease_holds_the_version_that_is_read(lake: Any, options: dict[str, str], lease: str | None) -> None:
    """From when the read is planned, in a process that ends at once, for as long as was said."""
    version = lake.version
    given = options if lease is None else {**options, "lease": lease}
    reader = TableReader(Options.of(given), StructType([StructField("id", LongType())]))
    tasks = reader.partitions()
    lake.table("shop.t").delete("id >= 0")
    lake.table("shop.t").append([{"id": 99}])
    lake.expire(older_than=0, keep=1)
    assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 30
    if lease is None:
        with pytest.raises(NotFound):
            lake.states.at(version)
    else:
        assert lake.states.at(version).version == version


def test_spark_finds_the_format_by_itself() -> None:
    import pyspark_seiche

    assert pyspark_seiche.DefaultSource is source.SeicheSource


@pytest.mark.parametrize("overwrite", [False, True])
def test_rows_without_columns_are_refused(lake: Any, options: dict[str, str], overwrite: bool) -> None:
    for more in ({}, {"overwrite_schema": "true"}):
        with pytest.raises(InvalidInput, match="the rows have no columns"):
            TableWriter(Options.of(options | more), StructType(), overwrite=overwrite)
    assert lake.table("shop.t").count_rows() == 30


def test_a_read_of_no_columns_is_refused(lake: Any) -> None:
    """Spark would count no rows."""
    with pytest.raises(InvalidInput, match="a column at least"):
        SeicheSource({"lake": lake.uri, "table": "shop.t"}).reader(StructType([]))


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_a_schema_that_is_given_may_allow_nulls_and_nothing_else(spark: "SparkSession", lake: Any, format: str) -> None:
    """A column without nulls could not be read so at all, and what was wrong was said in Spark's words."""
    inside = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64()), pa.field("s", inside, False)])
    lake.create_table("shop.strict", columns, format=format)
    lake.table("shop.strict").append(pa.Table.from_pylist([{"id": 1, "n": None, "s": {"a": 2}}], columns))
    options = {"lake": lake.uri, "table": "shop.strict"}
    read = spark.read.format("seiche").options(**options).schema("s STRUCT<a: INT>, id BIGINT").load()
    assert [row.asDict(recursive=True) for row in read.collect()] == [{"s": {"a": 2}, "id": 1}]
    for given, said in {
        "id INT": "column 'id' of shop.strict was to be read as int, and is bigint not null",
        "n BIGINT NOT NULL": "column 'n' of shop.strict was to be read as bigint not null, and is bigint",
        "s STRUCT<b: INT>": "column 's' of shop.strict was to be read as struct<b:int>, and is struct<a:int> not null",
    }.items():
        asked: Any = StructType.fromDDL(given)
        reader: Any = SeicheSource(options).reader(asked)
        with pytest.raises(InvalidInput, match=re.escape(said)):
            reader.partitions()
