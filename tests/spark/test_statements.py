"""Statements that Spark executes, against what plain data frames and Python make of the same rows."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PythonException
from pyspark.sql import functions as fn

from seiche.errors import InvalidInput, NotFound, RetryableConflict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("s", pa.string())])

Row = tuple[int | None, int | None, str | None]
keys = st.one_of(st.none(), st.integers(0, 12))
values = st.tuples(st.one_of(st.none(), st.integers(-5, 5)), st.one_of(st.none(), st.sampled_from(["a", "b", "ü"])))


@st.composite
def tables(draw: st.DrawFn) -> list[list[Row]]:
    """Rows in up to three fragments. Keys are not unique: a table need not keep them so."""
    parts = draw(st.lists(st.lists(st.tuples(keys, values), max_size=6), max_size=3))
    return [[(key, *rest) for key, rest in part] for part in parts]


@st.composite
def sources(draw: st.DrawFn) -> list[Row]:
    """Rows of which no two have the same key."""
    chosen = draw(st.lists(st.tuples(keys, values), max_size=8, unique_by=lambda item: item[0]))
    return [(key, *rest) for key, rest in chosen]


def as_rows(parts: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in parts], schema=SCHEMA)


def held(table: pa.Table) -> list[Row]:
    return ordered([tuple(row.values()) for row in table.select(SCHEMA.names).to_pylist()])


def ordered(rows: Any) -> list[Row]:
    return sorted(rows, key=repr)


def table_with(lake: Any, parts: list[list[Row]], name: str, *, stable: bool) -> str:
    with lake.transaction() as tx:
        tx.create_table(name, SCHEMA, stable_row_ids=stable)
    for part in parts:
        lake.table(name).append(as_rows(part))
    return name


FEW = settings(
    max_examples=int(os.environ.get("SEICHE_SPARK_EXAMPLES", "4")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


class Names:
    """A new name for each example: the lake is shared by all of one test."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"shop.t{self.count}"


def sql_greater(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one > other


def merged(table: list[Row], data: list[Row]) -> tuple[list[Row], dict[str, int]]:
    """What the merge below shall do, row by row."""
    by_key = {row[0]: row for row in data if row[0] is not None}
    found: list[Row] = []
    counts = {"inserted": 0, "updated": 0, "deleted": 0}
    for row in table:
        match = by_key.get(row[0]) if row[0] is not None else None
        if match is not None and match[2] == "b":
            counts["deleted"] += 1
        elif match is not None and sql_greater(match[1], row[1]):
            counts["updated"] += 1
            total = None if match[1] is None or row[1] is None else match[1] + row[1]
            found.append((row[0], total, match[2]))
        elif match is not None:
            counts["updated"] += 1
            found.append(match)
        elif row[2] == "a":
            counts["updated"] += 1
            found.append((row[0], -1, row[2]))
        else:
            found.append(row)
    there = {row[0] for row in table if row[0] is not None}
    for row in data:
        if row[0] not in there and row[2] != "ü":
            counts["inserted"] += 1
            found.append(row if row[2] == "a" else (row[0], 0, None))
    return ordered(found), counts


@pytest.mark.parametrize("stable", [False, True])
def test_merge_with_all_clauses(spark: "SparkSession", lake: Any, stable: bool) -> None:
    names = Names()

    @FEW
    @given(tables(), sources())
    def check(parts: list[list[Row]], data: list[Row]) -> None:
        name = table_with(lake, parts, names.next(), stable=stable)
        frame = spark.createDataFrame(data, "id long, n int, s string")
        with lake.transaction(spark=spark) as tx:
            result = (
                tx.merge(name, frame, on="id")
                .when_matched_delete("source.s = 'b'")
                .when_matched_update({"n": "source.n + target.n", "s": "source.s"}, "source.n > target.n")
                .when_matched_update_all()
                .when_not_matched_insert_all("s = 'a'")
                .when_not_matched_insert({"id": "id", "n": "0"}, "s is null or source.s != 'ü'")
                .when_not_matched_by_source_update({"n": "-1"}, "s = 'a'")
                .execute()
            )
            wanted, counts = merged([row for part in parts for row in part], data)
            assert ordered(map(tuple, tx.read(name).collect())) == wanted
        assert held(lake.table(name).to_arrow()) == wanted
        if any(counts.values()):
            assert {kind: result.notes[kind] for kind in counts} == counts

    check()


@pytest.mark.parametrize("stable", [False, True])
def test_plain_upsert(spark: "SparkSession", lake: Any, stable: bool) -> None:
    """Also of a key that the table has more than once: every row of it is replaced."""
    names = Names()

    @FEW
    @given(tables(), sources())
    def check(parts: list[list[Row]], data: list[Row]) -> None:
        name = table_with(lake, parts, names.next(), stable=stable)
        frame = spark.createDataFrame(data, "id long, n int, s string")
        table = [row for part in parts for row in part]
        by_key: dict[int | None, Row] = {row[0]: row for row in data if row[0] is not None}
        there = {row[0] for row in table if row[0] is not None}
        updated = [by_key.get(row[0], row) for row in table]
        new = [row for row in data if row[0] not in there]
        with lake.transaction(spark=spark) as tx:
            merge = tx.merge(name, frame, on="id").when_matched_update_all().when_not_matched_insert_all()
            notes = merge.execute().notes
        assert held(lake.table(name).to_arrow()) == ordered([*updated, *new])
        if data:
            assert notes["inserted"] == len(new)
            assert notes["updated"] == sum(row[0] in by_key for row in table)

    check()


def test_an_upsert_of_a_key_that_the_table_has_twice(spark: "SparkSession", lake: Any) -> None:
    """Both rows are replaced, wherever they are: in one fragment, or in two that two tasks look through."""
    parts: list[list[Row]] = [
        [(1, 1, "a"), (1, 2, "a"), (2, 0, "a")],
        [(k, 0, "a") for k in range(3, 9)],
        [(2, 1, "b")],
    ]
    name = table_with(lake, parts, "shop.t", stable=False)
    data = spark.createDataFrame([(1, 9, "x"), (2, 9, "x"), (50, 9, "x")], "id long, n int, s string")
    with lake.transaction(spark=spark) as tx:
        merge = tx.merge(name, data, on="id").when_matched_update_all().when_not_matched_insert_all()
        assert merge.execute().notes["updated"] == 4
    kept: list[Row] = [(k, 0, "a") for k in range(3, 9)]
    assert held(lake.table(name).to_arrow()) == ordered([*kept, *([(1, 9, "x"), (2, 9, "x")] * 2), (50, 9, "x")])


def test_delete_and_update_like_plain_frames(spark: "SparkSession", lake: Any) -> None:
    names = Names()

    @FEW
    @given(tables(), st.sampled_from(["n > 0", "s = 'a' or id is null", "id in (1, 2, 3)", "not (n < 0)"]))
    def check(parts: list[list[Row]], condition: str) -> None:
        name = table_with(lake, parts, names.next(), stable=False)
        plain = spark.createDataFrame([row for part in parts for row in part], "id long, n int, s string")
        with lake.transaction(spark=spark) as tx:
            tx.update(name, {"n": "coalesce(n, 0) * 2", "s": fn.concat(fn.col("s"), fn.lit("!"))}, where=condition)
            holds = fn.coalesce(fn.expr(condition), fn.lit(False))
            updated = plain.select(
                "id",
                fn.when(holds, fn.expr("coalesce(n, 0) * 2")).otherwise(fn.col("n")),
                fn.when(holds, fn.concat("s", fn.lit("!"))).otherwise(fn.col("s")),
            ).toDF("id", "n", "s")
            assert ordered(map(tuple, tx.read(name).collect())) == ordered(map(tuple, updated.collect()))
            tx.delete(name, "n >= 4 or n is null")
        left = updated.where("not (n >= 4 or n is null)").collect()
        assert held(lake.table(name).to_arrow()) == ordered(map(tuple, left))

    check()


def test_row_ids_stay_with_their_rows(spark: "SparkSession", lake: Any) -> None:
    name = table_with(
        lake, [[(k, k, "a") for k in range(5)], [(k, k, "b") for k in range(5, 9)]], "shop.t", stable=True
    )

    def ids() -> dict[int, int]:
        found = lake.table(name).to_lance().to_table(columns=["id"], with_row_id=True).to_pydict()
        return dict(zip(found["id"], found["_rowid"], strict=True))

    before = ids()
    data = spark.createDataFrame([(3, 30, "x"), (7, 70, "x"), (20, 1, "x")], "id long, n int, s string")
    with lake.transaction(spark=spark) as tx:
        tx.update(name, {"n": "n + 100"}, "id % 2 = 0")
        tx.merge(name, data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    after = ids()
    assert {key: after[key] for key in before} == before
    assert after[20] not in before.values()


def test_two_rows_of_the_data_for_one_row_are_refused(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [[(1, 1, "a"), (2, 2, "a")]], "shop.t", stable=False)
    version = lake.version
    twice = spark.createDataFrame([(1, 5, "x"), (1, 6, "y")], "id long, n int, s string").repartition(2)
    new = spark.createDataFrame([(9, 5, "x"), (9, 6, "y"), (None, 0, "z"), (None, 0, "z")], twice.schema)
    with pytest.raises(InvalidInput, match="match the same row"), lake.transaction(spark=spark) as tx:
        tx.merge(name, twice, on="id").when_matched_update_all().execute()
    with pytest.raises(InvalidInput, match="the key id=9"), lake.transaction(spark=spark) as tx:
        tx.merge(name, new, on="id").when_not_matched_insert_all().execute()
    for data in (twice, new):
        with pytest.raises(InvalidInput, match="rows of the data have the key"), lake.transaction(spark=spark) as tx:
            tx.merge(name, data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert lake.version == version
    with lake.transaction(spark=spark) as tx:
        # Nobody asked for these to do anything, and nulls are never equal.
        tx.merge(name, twice.union(new.where("id is null")), on="id").when_not_matched_insert_all().execute()
    assert held(lake.table(name).to_arrow()).count((None, 0, "z")) == 2


def test_a_key_that_two_clauses_would_insert_is_refused(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [], "shop.t", stable=False)
    rows = [*((one, 5, "x") for one in range(1, 9)), (1, -1, "y"), (20, -1, "y")]
    data = spark.createDataFrame(rows, "id long, n int, s string")

    def merge(tx: Any, data: Any) -> Any:
        begun = tx.merge(name, data, on="id").when_not_matched_insert_all("n > 0")
        return begun.when_not_matched_insert({"id": "id", "n": "0"}).execute()

    with pytest.raises(InvalidInput, match="the key id=1"), lake.transaction(spark=spark) as tx:
        merge(tx, data)
    with lake.transaction(spark=spark) as tx:
        done = merge(tx, data.where("id > 1 or n > 0"))
    assert done.notes["inserted"] == 9
    assert held(lake.table(name).to_arrow()) == ordered([*rows[:8], (20, 0, None)])


def test_values_are_worked_out_only_of_rows_that_meet_the_condition(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [[(1, 0, "a"), (2, 5, "a")]], "shop.t", stable=False)
    data = spark.createDataFrame([(8, 0, "x"), (9, 2, "x")], "id long, n int, s string")
    with lake.transaction(spark=spark) as tx:
        (
            tx.merge(name, data, on="id")
            .when_not_matched_insert({"id": "id", "n": "10 div n"}, condition="n <> 0")
            .when_not_matched_by_source_update({"n": "10 div n"}, "n <> 0")
            .execute()
        )
    assert held(lake.table(name).to_arrow()) == [(1, 0, "a"), (2, 2, "a"), (9, 5, None)]


def test_a_condition_beside_the_key_and_without_one(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [[(1, 1, "a"), (2, 2, "b")]], "shop.t", stable=False)
    data = spark.createDataFrame([(1, 10, "a"), (2, 20, "z")], "id long, n int, s string")
    with lake.transaction(spark=spark) as tx:
        (
            tx.merge(name, data, on="id", condition="target.s = source.s")
            .when_matched_update({"n": "source.n"})
            .when_not_matched_insert_all()
            .execute()
        )
        gone = tx.merge(name, data.limit(1), condition="target.n < source.n").when_matched_delete().execute()
        assert gone.notes["deleted"] == 1
    assert held(lake.table(name).to_arrow()) == [(1, 10, "a"), (2, 20, "z")]


@pytest.mark.parametrize("condition", [None, "true"])
def test_two_merges_cannot_both_insert_a_key(spark: "SparkSession", lake: Any, condition: str | None) -> None:
    """Neither as a plain upsert nor, with a condition, by a join."""
    name = table_with(lake, [[(1, 1, "a")]], "shop.t", stable=False)
    first, second, third = (lake.transaction(spark=spark) for _ in range(3))
    for tx, key in ((first, 7), (second, 7), (third, 8)):
        data = spark.createDataFrame([(key, 0, "x")], "id long, n int, s string")
        tx.merge(name, data, on="id").when_matched_update_all(condition).when_not_matched_insert_all().execute()
    first.commit()
    with pytest.raises(RetryableConflict):
        second.commit()
    third.commit()
    assert [row[0] for row in held(lake.table(name).to_arrow())] == [1, 7, 8]


def test_what_others_commit_meanwhile_is_kept(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [[(k, k, "a") for k in range(6)]], "shop.t", stable=False)
    tx = lake.transaction(spark=spark)
    tx.update(name, {"n": "0"}, "id = 1")
    tx.delete(name, fn.col("id") == 2)
    lake.table(name).delete("id = 3")
    lake.table(name).append(as_rows([(9, 9, "z")]))
    tx.commit()
    assert [row[:2] for row in held(lake.table(name).to_arrow())] == [(0, 0), (1, 0), (4, 4), (5, 5), (9, 9)]


def test_many_tables_at_once_or_not_at_all(spark: "SparkSession", lake: Any) -> None:
    for name in ("shop.a", "shop.b"):
        table_with(lake, [[(1, 1, "a")]], name, stable=False)
    version = lake.version
    rows = spark.createDataFrame([(5, 5, "x")], "id long, n int, s string")
    tx = lake.transaction(spark=spark)
    tx.append("shop.a", rows)
    tx.delete("shop.b", "true")
    tx.rollback()
    assert lake.version == version
    with lake.transaction(spark=spark, isolation="serializable") as tx:
        tx.append("shop.a", rows)
        tx.delete("shop.b", "true")
        tx.append("shop.b", tx.read("shop.a").where("id > 1"))
    assert lake.version == version + 1
    assert [len(held(lake.table(name).to_arrow())) for name in ("shop.a", "shop.b")] == [2, 1]


def test_frames_go_into_plain_transactions_and_tables(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [], "shop.t", stable=False)
    rows = spark.createDataFrame([(k, k, "x") for k in range(4)], "id long, n int, s string")
    with lake.transaction() as tx:
        tx.append(name, rows)
    lake.table(name).append(rows.where("id = 0"))
    lake.table(name).merge(rows.selectExpr("id + 2 as id", "n", "s"), on="id").when_not_matched_insert_all().execute()
    assert [row[0] for row in held(lake.table(name).to_arrow())] == [0, 0, 1, 2, 3, 4, 5]
    with lake.transaction(spark=spark) as tx:
        tx.merge(name, as_rows([(1, 50, "y")]), on="id").when_matched_update_all().execute()
    assert (1, 50, "y") in held(lake.table(name).to_arrow())


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (lambda tx, df: tx.update("shop.t", {"nope": "1"}), "no column 'nope'"),
        (lambda tx, df: tx.delete("shop.t", " "), "a condition in SQL is needed"),
        (lambda tx, df: tx.merge("shop.t", df, on="id").execute(), "does not say what to do"),
        (lambda tx, df: tx.merge("shop.t", df).when_matched_delete().execute(), "the merge has no key"),
        (lambda tx, df: tx.merge("shop.t", df, on="x").when_matched_delete().execute(), "no column 'x' to merge on"),
        (
            lambda tx, df: tx.merge("shop.t", df, on="id").when_matched_update({"id": "source.id"}).execute(),
            "part of the key",
        ),
        (
            lambda tx, df: tx.merge("shop.t", df, on="id").when_matched_delete().when_matched_update_all().execute(),
            "never reached",
        ),
        (lambda tx, df: tx.append("shop.t", df.selectExpr("id", "1 as more")), "no column 'more'"),
        (lambda tx, df: tx.merge("shop.t", df, on="id", retries=1), "does not know retries"),
    ],
)
def test_what_cannot_be_right_is_refused(spark: "SparkSession", lake: Any, statement: Any, message: str) -> None:
    table_with(lake, [[(1, 1, "a")]], "shop.t", stable=False)
    rows = spark.createDataFrame([(5, 5, "x")], "id long, n int, s string")
    with pytest.raises(InvalidInput, match=message), lake.transaction(spark=spark) as tx:
        statement(tx, rows)


def test_nulls_where_none_may_be_are_refused_as_what_they_are(spark: "SparkSession", lake: Any) -> None:
    lake.create_table("shop.t", pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())]))
    with pytest.raises(InvalidInput, match="'id' must not be null"), lake.transaction(spark=spark) as tx:
        tx.append("shop.t", spark.createDataFrame([(1, 1), (None, 2)], "id long, n long"))
    lake.table("shop.t").append([{"id": 1, "n": 1}])
    with pytest.raises(InvalidInput, match="'id' must not be null"), lake.transaction(spark=spark) as tx:
        tx.update("shop.t", {"id": "cast(null as long)"})


def test_an_index_answers_rightly_after_rows_moved(spark: "SparkSession", lake: Any) -> None:
    name = table_with(lake, [[(k, k % 7, "a") for k in range(200)]], "shop.t", stable=False)
    lake.table(name).create_index("n")
    with lake.transaction(spark=spark) as tx:
        tx.update(name, {"n": "3"}, "id < 50")
        tx.delete(name, "id >= 190")
    wanted = [k for k in range(190) if k < 50 or k % 7 == 3]
    assert sorted(lake.table(name).to_arrow(filter="n = 3")["id"].to_pylist()) == wanted


@pytest.mark.parametrize("table_format", ["lance", "iceberg"])
def test_rows_are_counted_also_where_no_column_is_read(
    spark: "SparkSession", lake: Any, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_table("shop.t", SCHEMA, format=table_format)
    lake.table("shop.t").append(as_rows([(1, 1, "a"), (2, None, None), (3, 3, "b")]))
    found = lake.spark(spark).read("shop.t", columns=[])
    assert (found.columns, found.count(), len(found.collect())) == ([], 3, 3)
    assert lake.spark(spark).read("shop.t", columns=[], filter="id > 1").count() == 2
    # Tables of others may have fragments that do not say how many rows they have.
    monkeypatch.setattr("seiche.spark.transaction.live_rows", lambda _: None)
    assert lake.spark(spark).count("shop.t") == 3
    lake.create_table("shop.none", pa.schema([]), format=table_format)
    assert lake.spark(spark).read("shop.none", columns=[]).count() == 0


@pytest.mark.parametrize("stable", [False, True])
def test_keys_that_spark_cannot_tell_apart_are_not_merged(spark: "SparkSession", lake: Any, stable: bool) -> None:
    """Spark has microseconds. With stable row ids the join is Spark's; without, workers compare the keys themselves."""
    kind = pa.timestamp("ns")
    lake.create_table("shop.t", pa.schema([("at", kind), ("n", pa.int64())]), stable_row_ids=stable)
    lake.table("shop.t").append(pa.table({"at": pa.array([1000, 3000], kind), "n": [1, 3]}))
    data = pa.table({"at": pa.array([1], pa.timestamp("us")), "n": [10]})

    def upsert() -> list[tuple[int, int]]:
        with lake.transaction(spark=spark) as tx:
            tx.merge("shop.t", data, on="at").when_matched_update_all().when_not_matched_insert_all().execute()
        found = lake.table("shop.t").to_arrow()
        return sorted(zip(found["at"].cast(pa.int64()).to_pylist(), found["n"].to_pylist(), strict=True))

    assert upsert() == [(1000, 10), (3000, 3)]
    lake.table("shop.t").append(pa.table({"at": pa.array([1001], kind), "n": [2]}))
    if stable:
        before = lake.version
        with pytest.raises(InvalidInput, match=r"^column 'at'.*cannot hold.*lose data: 1001"):
            upsert()
        assert lake.version == before
    else:
        assert upsert() == [(1000, 10), (1001, 2), (3000, 3)]


@pytest.mark.parametrize("stable", [False, True])
def test_keys_that_are_rounded_when_they_are_stored_are_found_again(
    spark: "SparkSession", lake: Any, stable: bool
) -> None:
    """Spark shows floats of two bytes as such of four, which have more digits. As above, of two ways to do it."""
    lake.create_table("shop.t", pa.schema([("k", pa.float16()), ("n", pa.int64())]), stable_row_ids=stable)
    rows = [(0.1, 1), (float("nan"), 2), (None, 3), (1e-9, 4)]
    for _ in range(2):
        with lake.transaction(spark=spark) as tx:
            merge = tx.merge("shop.t", spark.createDataFrame(rows, "k float, n long"), on="k")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = lake.table("shop.t").to_arrow().to_pylist()
    # What is null is equal to nothing.
    assert sorted(row["n"] for row in found) == [1, 2, 3, 3, 4]
    with lake.transaction(spark=spark) as tx:
        # Of a merge that inserts nothing, longer numbers may be the key.
        merge = tx.merge("shop.t", spark.createDataFrame([(0.1,), (1e300,)], "k double"), on="k")
        assert merge.when_matched_delete().execute().rows == 1
    for wrong, message in (([(0.2, 1), (0.20001, 2)], "have the key"), ([(70_000.0, 1)], "too large")):
        merge = lake.transaction(spark=spark).merge("shop.t", spark.createDataFrame(wrong, "k float, n long"), on="k")
        merge.when_matched_update({"n": "source.n"}).when_not_matched_insert_all()
        with pytest.raises(InvalidInput, match=message):
            merge.execute()


def test_what_is_no_expression_is_refused_before_anything_runs(spark: "SparkSession", lake: Any) -> None:
    lake.create_table("shop.t", SCHEMA)
    no: Any = None
    with lake.transaction(spark=spark) as tx:
        merge = tx.merge("shop.t", as_rows([(1, 1, "a")]), on="id")
        wrong: list[Callable[[], Any]] = [
            lambda: tx.update("shop.t", {"n": 5}),
            lambda: tx.update("shop.t", {"n": no}),
            lambda: tx.update("shop.t", "n = 5"),
            lambda: tx.update("shop.t", {"n": "5"}, 5),
            lambda: tx.delete("shop.t", no),
            lambda: tx.delete("shop.t", 5),
            lambda: tx.merge("shop.t", as_rows([]), condition=5),
            lambda: merge.when_not_matched_insert("id"),
            lambda: merge.when_not_matched_insert({"id": 1}),
            lambda: tx.read("shop.t", columns="n"),
            lambda: tx.read("shop.t", filter=5),
            lambda: lake.spark(spark).sql(5),
        ]
        for one in wrong:
            with pytest.raises(InvalidInput):
                one()


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_columns_that_are_called_as_ours_are_refused_by_name(spark: "SparkSession", lake: Any, format: str) -> None:
    """Spark could not tell them apart, or took ours for them: every row had `true` where the data said something."""
    columns = ["_seiche_group", "_Seiche_Action", "_seiche_actions"]
    lake.create_table("shop.odd", pa.schema([(name, pa.int64()) for name in ("id", *columns)]), format=format)
    lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("n", pa.int64())]), format=format)
    lake.table("shop.odd").append(pa.table({name: [1] for name in ("id", *columns)}))

    def merge(tx: Any, name: str) -> None:
        data = spark.sql(f"SELECT 1L AS id, 7L AS {name}")
        tx.merge("shop.t", data, on="id").when_not_matched_insert({"id": "id", "n": name}).execute()

    with lake.transaction(spark=spark) as tx:
        refused: list[tuple[str, Callable[[], Any]]] = [
            ("_seiche_group", lambda: tx.update("shop.odd", {"id": "_seiche_group + 1"})),
            ("_seiche_group", lambda: tx.delete("shop.odd", "_seiche_group = 1")),
            (
                "_Seiche_Action",
                lambda: (
                    tx.merge("shop.odd", spark.sql("SELECT 1L AS id"), on="id")
                    .when_matched_update({"_seiche_actions": "target._Seiche_Action"})
                    .execute()
                ),
            ),
            *((name, partial(merge, tx, name)) for name in ("_seiche_here", "_seiche_holds_0", "_SEICHE_action")),
        ]
        for name, statement in refused:
            with pytest.raises(InvalidInput, match=f"'{name}' of the") as error:
                statement()
            assert error.value.column == name
        # Others are no concern of ours, nor those that a statement does not speak of.
        tx.update("shop.odd", {"_Seiche_Action": "_seiche_actions + 1"})
        merge(tx, "_seiche_actions")
    assert lake.table("shop.odd").to_arrow().to_pylist() == [
        {"id": 1, "_seiche_group": 1, "_Seiche_Action": 2, "_seiche_actions": 1}
    ]
    assert lake.table("shop.t").to_arrow().to_pylist() == [{"id": 1, "n": 7}]


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_a_star_does_not_stand_for_columns_of_ours(spark: "SparkSession", lake: Any, format: str) -> None:
    """A digest of all columns had the address of the row in it, which is another after each change."""
    lake.create_table("shop.t", pa.schema([("id", pa.int64()), ("v", pa.string())]), format=format)
    lake.table("shop.t").append(pa.table({"id": [1, 2], "v": ["(*", "b"]}))
    data = spark.sql("SELECT 1L AS id, 'c' AS v")
    with lake.transaction(spark=spark) as tx:
        for all_of_it in ("struct(*)", "struct(/* all of it */ *)"):
            with pytest.raises(InvalidInput, match=r"a \* in a condition or a value"):
                tx.update("shop.t", {"v": f"to_json({all_of_it})"})
        with pytest.raises(InvalidInput, match=r"a \* in a condition or a value"):
            tx.update("shop.t", {"v": fn.to_json(fn.struct("*")).alias("v")})
        with pytest.raises(InvalidInput, match=r"a \* in a condition or a value"):
            tx.delete("shop.t", "to_json(struct(*)) LIKE '%rowaddr%'")
        for side in ("", "source.", "target."):
            with pytest.raises(InvalidInput, match=r"a \* in a condition or a value"):
                tx.merge("shop.t", data, on="id").when_matched_update({"v": f"to_json(struct({side}*))"}).execute()
        # What only looks like one is none.
        tx.update("shop.t", {"v": "concat(v, /* so */ '.*')"}, where="v = '(*' AND id*2 = (id)*2")
    assert sorted(row["v"] for row in lake.table("shop.t").to_arrow().to_pylist()) == ["(*.*", "b"]


def test_errors_of_workers_that_read_a_frame_are_raised_as_what_they_are(
    spark: "SparkSession", lake: Any, tmp_path: Path
) -> None:
    """As if the version had been cleaned up. They came as a PythonException of Spark's, with a traceback in it."""
    table_with(lake, [[(1, 1, "a")]], "shop.t", stable=False)
    table_with(lake, [], "shop.other", stable=False)
    frame = lake.spark(spark).read("shop.t")
    for file in tmp_path.rglob("data/*.lance"):
        file.unlink()
    with lake.transaction(spark=spark) as tx:
        failing: list[Callable[[], Any]] = [
            lambda: tx.append("shop.other", frame),
            lambda: tx.merge("shop.other", frame, on="id").when_not_matched_insert_all().execute(),
            lambda: tx.update("shop.t", {"n": "n + 1"}),
        ]
        for statement in failing:
            with pytest.raises(NotFound, match=r"^the table could not be read") as error:
                statement()
            assert "cleaned up" in error.value.remedy
            assert "Traceback" not in str(error.value)
        # What others raise stays what it is.
        with pytest.raises(PythonException, match="ZeroDivisionError"):
            tx.append("shop.other", spark.range(1).select(fn.udf(lambda one: 1 // one, "long")("id").alias("id")))


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_a_table_is_made_of_a_frame(spark: "SparkSession", lake: Any, format: str) -> None:
    frame = spark.sql("SELECT id, CAST(id AS STRING) AS s FROM range(3)")
    with lake.transaction(spark=spark) as tx:
        tx.create_table("shop.made", frame, format=format)
    made = lake.table("shop.made").to_arrow()
    assert sorted(made.to_pylist(), key=lambda row: row["id"]) == [{"id": n, "s": str(n)} for n in range(3)]
    assert made.schema.field("id").nullable
