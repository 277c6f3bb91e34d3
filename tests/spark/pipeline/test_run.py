"""Runs of pipelines: all tables at once or none, each source row once, nobody's work overwritten unseen."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seiche
from seiche.errors import AlreadyExists, InvalidInput, NotFound
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.lineage import Made, lineage
from seiche.spark.pipeline.records import RUNS, runs
from seiche.spark.pipeline.run import Run, run
from seiche.spark.pipeline.yaml_file import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOP = """\
lake: lake
sources:
  raw: {format: csv, path: "orders/*.csv", schema: "id BIGINT, customer STRING, amount DOUBLE", new: true}
steps:
  - {table: shop.orders, mode: merge, key: id, sql: "SELECT id, customer, amount FROM raw"}
  - table: shop.customers
    mode: overwrite
    sql: SELECT customer, count(*) AS orders, sum(amount) AS spent FROM shop.orders GROUP BY customer
  - {table: shop.seen, mode: append, sql: "SELECT id, amount FROM raw"}
checks:
  - {name: positive, sql: SELECT count(*) FROM shop.orders WHERE amount <= 0, expect: 0}
  - unique: {table: shop.orders, columns: id}
  - foreign_key: {table: shop.orders, columns: customer, references: shop.customers}
"""


class Shop:
    """A folder with a pipeline, files of orders and a lake."""

    def __init__(self, folder: Path, spark: "SparkSession") -> None:
        self.folder = folder
        self.spark = spark
        (folder / "orders").mkdir()
        self.order("first", "1,ann,10.5", "2,bob,3.0", "3,ann,7.25")

    def order(self, name: str, *lines: str) -> None:
        (self.folder / "orders" / f"{name}.csv").write_text("\n".join(lines) + "\n")

    def definition(self, text: str = SHOP) -> Definition:
        (self.folder / "shop.yaml").write_text(text)
        return load(self.folder / "shop.yaml")

    def run(self, text: str = SHOP, **options: Any) -> Run:
        return run(self.definition(text), self.spark, **options)

    @property
    def lake(self) -> seiche.Lake:
        return seiche.open(str(self.folder / "lake"))

    def untouched(self, before: int) -> bool:
        """Whether nothing has changed in the lake since but the record of runs, which a version was made for."""
        changed = {change.name for change in self.lake.diff(before, self.lake.version).objects}
        return changed <= {"seiche", "seiche.runs"} and "seiche.runs" in changed

    def rows(self, table: str, order: str = "id") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.lake.table(table).to_arrow().sort_by(order).to_pylist()
        return found


@pytest.fixture
def shop(tmp_path: Path, spark: "SparkSession") -> Shop:
    return Shop(tmp_path, spark)


def test_everything_is_published_in_one_version(shop: Shop) -> None:
    done = shop.run()
    assert (done.outcome, done.version) == ("published", 1)
    assert shop.rows("shop.orders")[0] == {"id": 1, "customer": "ann", "amount": 10.5}
    assert shop.rows("shop.customers", "customer") == [
        {"customer": "ann", "orders": 2, "spent": 17.75},
        {"customer": "bob", "orders": 1, "spent": 3.0},
    ]
    assert len(shop.rows("shop.seen")) == 3
    (kept,) = runs(shop.lake)
    assert (kept.status, kept.pipeline, kept.read_version) == ("published", "shop", 0)
    assert {step.table: step.rows for step in kept.steps} == {"shop.orders": 3, "shop.customers": 2, "shop.seen": 3}
    assert shop.lake.status(kept.transaction_id).version == 1


def test_only_new_files_are_read(shop: Shop) -> None:
    shop.run()
    shop.order("second", "3,ann,8.0", "4,cid,1.0")
    shop.run()
    shop.run()  # nothing new
    assert [row["id"] for row in shop.rows("shop.seen")] == [1, 2, 3, 3, 4]
    assert {row["id"]: row["amount"] for row in shop.rows("shop.orders")} == {1: 10.5, 2: 3.0, 3: 8.0, 4: 1.0}


def test_the_same_run_twice_is_one(shop: Shop) -> None:
    first = shop.run(run_id="monday")
    shop.order("second", "4,cid,1.0")
    again = shop.run(run_id="monday")
    assert (again.outcome, again.version) == ("published before", first.version)
    assert len(shop.rows("shop.seen")) == 3


def test_the_same_run_twice_is_one_also_when_its_version_has_expired(shop: Shop) -> None:
    twice = """\
lake: lake
steps:
  - {table: shop.seen, mode: append, sql: "SELECT 1 AS id"}
"""
    first = shop.run(twice, run_id="mon'day")
    shop.run(twice, run_id="tuesday")
    shop.lake.expire(older_than=0, keep=1)
    assert shop.lake.status(runs(shop.lake)[-1].transaction_id).outcome == "undecided"  # it is forgotten
    again = shop.run(twice, run_id="mon'day")
    assert (first.outcome, again.outcome, again.version) == ("published", "published before", None)
    assert len(shop.rows("shop.seen")) == 2


def test_the_same_run_that_is_published_and_forgotten_while_another_waits_is_one(shop: Shop) -> None:
    twice = """\
lake: lake
steps:
  - {table: shop.seen, mode: append, sql: "SELECT 1 AS id"}
"""
    definition = shop.definition(twice)

    def late() -> "SparkSession":
        run(definition, shop.spark, run_id="monday")
        shop.lake.table("shop.seen").append([{"id": 2}])
        shop.lake.expire(older_than=0, keep=1)
        return shop.spark

    assert run(definition, late, run_id="monday").outcome == "published before"
    assert [row["id"] for row in shop.rows("shop.seen")] == [1, 2]


def test_a_rejected_run_is_run_again_under_its_id(shop: Shop) -> None:
    rejected = shop.run(SHOP.replace("amount <= 0", "amount > 0"), run_id="monday")
    again = shop.run(run_id="monday")
    assert (rejected.outcome, again.outcome) == ("rejected", "published")


def test_a_failed_check_publishes_nothing_and_names_the_rows(shop: Shop) -> None:
    shop.run()
    before = shop.lake.version
    shop.order("bad", "5,dan,-8.0")
    done = shop.run()
    assert done.outcome == "rejected"
    (failed,) = done.failed_checks
    assert (failed.name, failed.found) == ("positive", 1)
    assert failed.rows == ({"id": 5, "customer": "dan", "amount": -8.0},)
    assert shop.untouched(before)
    shop.order("bad", "5,dan,8.0")  # corrected: the file still counts as new
    assert shop.run().published
    assert [row["id"] for row in shop.rows("shop.seen")] == [1, 2, 3, 5]


def test_a_failing_step_publishes_nothing(shop: Shop) -> None:
    broken = SHOP.replace("SELECT id, amount FROM raw", "SELECT id, amount / raise_error('no') AS amount FROM raw")
    with pytest.raises(InvalidInput, match=r"shop\.yaml:9: step shop\.seen: "):
        shop.run(broken, run_id="broken")
    with pytest.raises(InvalidInput, match=r"step shop\.seen.*no_such_column"):
        shop.run(SHOP.replace("SELECT id, amount FROM raw", "SELECT no_such_column FROM raw"), run_id="missing")
    with pytest.raises(InvalidInput, match=r"shop\.yaml:11: check 'positive': .*no_such_column"):
        shop.run(SHOP.replace("amount <= 0", "no_such_column <= 0"))
    with pytest.raises(InvalidInput, match=r"shop\.yaml:11: check 'positive': .*DIVIDE_BY_ZERO"):
        shop.run(SHOP.replace("amount <= 0", "amount <= 1 / 0"))
    assert shop.untouched(0)
    assert [(one.run_id, one.status) for one in runs(shop.lake)][2:] == [("missing", "failed"), ("broken", "failed")]
    assert "no_such_column" in runs(shop.lake)[2].message
    assert shop.run(run_id="broken").published
    assert lineage(shop.lake, runs(shop.lake)[0])
    assert not lineage(shop.lake, runs(shop.lake)[-1])


def test_what_was_rejected_is_kept_under_a_free_tag_only(shop: Shop) -> None:
    shop.order("bad", "9,ann,-1.0")
    assert shop.run(keep="bad").kept == "bad"
    before = shop.lake.version
    for tag, error in (("bad", AlreadyExists), ("a b", InvalidInput), ("a.b", InvalidInput)):
        with pytest.raises(error):
            run(shop.definition(), _never, keep=tag)
    assert shop.lake.version == before
    assert shop.lake.namespaces() == [("seiche",)]  # where nobody meets it who does not ask for the tag


def test_what_was_rejected_is_kept_whatever_its_tables_are_called(shop: Shop) -> None:
    long = "n" * 60
    tables = ["shop.a_b", "shop_a.b", "shop.a_b_2", f"{long}.{long}_1", f"{long}.{long}_2"]
    steps = "".join(f"  - {{table: {table}, sql: SELECT {index} AS id}}\n" for index, table in enumerate(tables))
    checks = "checks:\n  - {name: never, sql: SELECT 1, expect: 0}\n"
    assert shop.run(f"lake: lake\nsteps:\n{steps}{checks}", keep="look").outcome == "rejected"
    kept = seiche.open(shop.lake.uri, version="look")
    names = kept.tables(("rejected", "look"))
    assert {"shop_a_b", "shop_a_b_2", "shop_a_b_2_2"} < {name[-1] for name in names}
    assert sorted(kept.table(name).to_arrow()["id"].to_pylist() for name in names) == [[0], [1], [2], [3], [4]]


def test_a_namespace_of_the_user_that_has_the_name_of_what_is_kept_stays(shop: Shop) -> None:
    seiche.create(str(shop.folder / "lake")).create_namespace("rejected")
    shop.order("bad", "9,ann,-1.0")
    assert shop.run(keep="bad").kept == "bad"
    assert shop.lake.namespaces("rejected") == []


def test_a_tag_that_somebody_else_was_quicker_to_take_leaves_nothing_behind(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(self: seiche.Lake, tag: str, version: int) -> None:
        raise AlreadyExists(f"there is a tag {tag!r} already")

    shop.order("bad", "9,ann,-1.0")
    monkeypatch.setattr(seiche.Lake, "tag", taken)
    with pytest.raises(AlreadyExists):
        shop.run(keep="bad")
    assert ("rejected",) not in shop.lake.namespaces()


class Killed(BaseException):
    """Nothing is done any more."""


@pytest.mark.parametrize("tagged", [False, True])
def test_what_a_killed_run_left_of_what_was_rejected_is_cleared_by_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, tagged: bool
) -> None:
    def killed(*_: Any) -> None:
        raise Killed

    shop.order("bad", "9,ann,-1.0")
    with monkeypatch.context() as dying:
        dying.setattr(seiche.Lake, "run", killed)
        if not tagged:
            dying.setattr(seiche.Lake, "tag", killed)
        with pytest.raises(Killed):
            shop.run(keep="bad")
    assert shop.lake.tables(("rejected", "bad"))
    again = "worse" if tagged else "bad"
    assert shop.run(keep=again).kept == again
    assert shop.lake.namespaces() == [("seiche",)]
    for tag in {"bad", again} if tagged else {again}:
        kept = seiche.open(shop.lake.uri, version=tag)
        assert kept.table(("rejected", tag, "shop_orders")).to_arrow().num_rows == 4


def _never() -> "SparkSession":
    raise AssertionError("Spark was started")


STEP = "lake: lake\nsteps:\n  - {table: shop.t, %s}\n"
BROKEN = """\
import sys

def raises():
    raise ValueError("mine")

def exits():
    sys.exit(7)
"""


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("python: 'steps.py:raises'", "step shop.t: ValueError: mine (steps.py, line 4)"),
        ("python: 'steps.py:exits'", "step shop.t: SystemExit: 7 (steps.py, line 7)"),
        ("sql: SELECT NULL AS a", "step shop.t: column 'a' has no type"),
        ("sql: 'SELECT 1 AS a, 2 AS A'", "step shop.t: two columns are called 'a'"),
        ("format: iceberg, sql: 'SELECT 1 AS a, 2 AS A'", "step shop.t: two columns are called 'a'"),
        ("mode: replace_where, where: a + 1, sql: SELECT 1 AS a", "`where` of shop.t is int, not a condition"),
        ("sql: SELECT nope(1) AS a", "step shop.t: [UNRESOLVED_ROUTINE]"),
        (
            "sql: SELECT 1 AS a}\nchecks:\n  - {name: c, sql: SELECT 'x', at_least: 1",
            "check 'c' found 'x', which is no",
        ),
        (
            "sql: 'SELECT 1 AS a, 2 AS b'}\nchecks:\n  - {name: c, sql: SELECT count(*) FROM shop.t WHERE nope > 1",
            "Did you mean one of the following? [`a`, `b`]",
        ),
    ],
)
def test_what_fails_is_said_in_words(shop: Shop, step: str, said: str) -> None:
    (shop.folder / "steps.py").write_text(BROKEN)
    with pytest.raises(InvalidInput) as failed:
        shop.run(STEP % step)
    assert said in failed.value.message
    assert "SQLSTATE" not in failed.value.message
    assert runs(shop.lake)[0].message == failed.value.message


@pytest.mark.parametrize("kind", ["lance", "iceberg"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "merge, key: id"])
def test_a_query_that_had_no_nulls_may_have_some_later(shop: Shop, kind: str, mode: str) -> None:
    text = STEP % f"format: {kind}, mode: {mode}, sql: 'SELECT 1 AS id, %s AS n'"
    shop.run(text % "count(*)")
    shop.run(text % "sum(1) FILTER (WHERE false)")
    assert {"id": 1, "n": None} in shop.rows("shop.t")


@pytest.mark.parametrize("kind", ["lance", "iceberg"])
def test_the_query_is_the_table_also_when_its_columns_change(shop: Shop, kind: str) -> None:
    text = STEP % f"format: {kind}, sql: 'SELECT %s'"
    shop.run(text % "1 AS id, 2 AS old, 1 AS kept")
    before = shop.lake.version
    shop.run(text % '3 AS id, "x" AS new, CAST(5 AS TINYINT) AS kept')
    assert sorted(shop.lake.table("shop.t").schema.names) == ["id", "kept", "new"]
    assert shop.rows("shop.t") == [{"id": 3, "kept": 5, "new": "x"}]
    assert shop.lake.version == before + 1
    past = seiche.open(shop.lake.uri, version=before).table("shop.t")
    assert past.to_arrow().to_pylist() == [{"id": 1, "old": 2, "kept": 1}]
    shop.run(text % "7 AS other")
    assert shop.rows("shop.t", "other") == [{"other": 7}]


@pytest.mark.parametrize("kind", ["lance", "iceberg"])
def test_the_query_is_the_table_also_when_its_types_change(shop: Shop, kind: str) -> None:
    text = STEP % f"format: {kind}, sql: 'SELECT %s'"
    shop.run(text % "1 AS id, 2 AS n")
    before = shop.lake.version
    shop.run(text % '3000000000 AS id, "x" AS n')
    assert shop.rows("shop.t") == [{"id": 3_000_000_000, "n": "x"}]
    past = seiche.open(shop.lake.uri, version=before).table("shop.t")
    assert past.to_arrow().to_pylist() == [{"id": 1, "n": 2}]
    assert shop.lake.fsck(deep=True).problems == ()


def test_vectors_are_as_long_as_the_step_says_now(shop: Shop) -> None:
    text = STEP % "sql: 'SELECT %s AS id, array(%s) AS v', vectors: {v: %d}, index: {id: BTREE}"
    shop.run(text % ("1", "1f, 2f", 2))
    shop.run(text % ('"one"', "1f, 2f, 3f", 3))
    assert shop.rows("shop.t") == [{"id": "one", "v": [1.0, 2.0, 3.0]}]
    assert shop.lake.table("shop.t").schema.field("v").type == pa.list_(pa.float32(), 3)
    assert shop.lake.table("shop.t").count_rows("id = 'one'") == 1


@pytest.mark.parametrize("what", ["step", "check"])
def test_double_quotes_that_are_those_of_names_are_refused(shop: Shop, what: str) -> None:
    text = STEP % "sql: 'SELECT %s AS a, 1 AS b'"
    shop.run(text % '"a"')  # a text, as Spark is set by itself
    checked = (text % "1") + "\nchecks:\n  - {name: none, sql: 'SELECT count(*) FROM shop.t WHERE a = \"b\"'}\n"
    shop.spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        with pytest.raises(InvalidInput, match="is a name to Spark"):
            shop.run(text % '"b"' if what == "step" else checked)
    finally:
        shop.spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    assert shop.rows("shop.t", "a") == [{"a": "a", "b": 1}]


def test_a_table_that_is_there_in_another_format(shop: Shop) -> None:
    text = STEP % "sql: SELECT 1 AS a%s"
    shop.run(text % ", format: iceberg")
    shop.run(text % "")  # nothing is said: it stays what it is
    assert shop.lake.table("shop.t").row.format == "iceberg"
    shop.run(text.replace("shop.t", "shop.u") % "")
    with pytest.raises(InvalidInput, match=r"shop\.u is there in the format lance, and the step says iceberg"):
        run(shop.definition(text.replace("shop.t", "shop.u") % ", format: iceberg"), _never)


def test_views_are_named_as_such(shop: Shop) -> None:
    shop.run(STEP % "sql: SELECT 1 AS a")
    shop.lake.spark(shop.spark).sql("CREATE VIEW shop.v AS SELECT * FROM shop.t")
    for step in ("sql: SELECT * FROM shop.v", "sql: SELECT 1 AS a"):
        text = (STEP % step).replace("shop.t", "shop.u" if "shop.v" in step else "shop.v")
        with pytest.raises(InvalidInput, match=r"shop\.v is a view, and a pipeline reads and makes tables"):
            run(shop.definition(text), _never)


def test_mistakes_are_named_before_spark_is_asked(shop: Shop) -> None:
    class Unasked:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"Spark was asked for {name}")

    unasked: Any = Unasked()
    missing = shop.definition(SHOP.replace('FROM raw"}\nchecks', 'FROM shop.nowhere"}\nchecks'))
    with pytest.raises(NotFound, match=r"there is no table shop\.nowhere"):
        run(missing, unasked)
    with pytest.raises(NotFound, match=r"shop\.yaml:3: source raw: there is no"):
        run(shop.definition(SHOP.replace("orders/*.csv", "oders/*.csv")), unasked)


def meddling(meddle: Callable[[], object]) -> Callable[[str, str], None]:
    """Progress that lets somebody else commit once the last step of the first attempt is done."""
    todo = [meddle]

    def progress(what: str, state: str) -> None:
        if what == "shop.customers" and state.endswith("rows") and todo:
            todo.pop()()

    return progress


def test_appends_of_others_are_kept(shop: Shop) -> None:
    """What only appends is rebased; what was computed from the table is computed again."""
    shop.run()
    shop.order("second", "4,cid,1.0")
    late = pa.table({"id": pa.array([9]), "customer": ["eve"], "amount": [5.0]})
    done = shop.run(progress=meddling(lambda: shop.lake.table("shop.orders").append(late)))
    assert (done.outcome, done.attempts) == ("published", 2)
    assert {row["customer"]: row["orders"] for row in shop.rows("shop.customers", "customer")} == {
        "ann": 2,
        "bob": 1,
        "cid": 1,
        "eve": 1,
    }


def test_an_append_to_what_is_only_appended_to_needs_no_second_attempt(shop: Shop) -> None:
    shop.run()
    shop.order("second", "4,cid,1.0")
    late = pa.table({"id": pa.array([9]), "amount": [5.0]})
    done = shop.run(progress=meddling(lambda: shop.lake.table("shop.seen").append(late)))
    assert done.attempts == 1
    assert [row["id"] for row in shop.rows("shop.seen")] == [1, 2, 3, 4, 9]


def test_a_full_refresh_reads_everything_again(shop: Shop) -> None:
    shop.run()
    shop.lake.table("shop.orders").append(pa.table({"id": pa.array([9]), "customer": ["ann"], "amount": [5.0]}))
    shop.run(full_refresh=True)
    assert [row["id"] for row in shop.rows("shop.orders")] == [1, 2, 3]
    assert [row["id"] for row in shop.rows("shop.seen")] == [1, 2, 3]
    shop.run()
    assert [row["id"] for row in shop.rows("shop.seen")] == [1, 2, 3]


def test_a_full_refresh_takes_each_key_once_whatever_it_is_called(shop: Shop) -> None:
    """One that is called as what counts them made every refresh fail, and NaN was no key at all."""
    text = """\
lake: lake
steps: [{table: shop.sizes, mode: merge, key: count, sql: "SELECT * FROM VALUES (1.5D), (2.5D) AS t(count)"}]
"""
    shop.run(text)
    shop.run(text, full_refresh=True)
    assert [row["count"] for row in shop.rows("shop.sizes", "count")] == [1.5, 2.5]
    twice = text.replace("(1.5D)", "(double('NaN')), (double('NaN')), (null), (null)")
    with pytest.raises(InvalidInput, match="two rows have the same count"):
        shop.run(twice, full_refresh=True)


def test_rows_replaced_by_condition(shop: Shop) -> None:
    text = """\
lake: lake
sources: {raw: {format: csv, path: "orders/*.csv", schema: "id BIGINT, customer STRING, amount DOUBLE"}}
steps:
  - table: shop.ann
    mode: replace_where
    where: customer = 'ann' -- hers
    sql: SELECT * FROM raw WHERE customer = 'ann'
"""
    shop.run(text)
    shop.lake.table("shop.ann").append(pa.table({"id": pa.array([9]), "customer": ["bob"], "amount": [5.0]}))
    shop.order("first", "7,ann,1.0")
    shop.run(text)
    assert [row["id"] for row in shop.rows("shop.ann")] == [7, 9]
    with pytest.raises(InvalidInput, match="a row is not among those that are replaced"):
        shop.run(text.replace("raw WHERE customer = 'ann'", "raw").replace("customer = 'ann'", "customer = 'bob'"))


def test_new_rows_of_a_table(shop: Shop) -> None:
    shop.run()
    text = """\
lake: lake
name: later
sources: {added: {table: shop.seen, new: true}}
steps: [{table: shop.copies, mode: append, sql: SELECT * FROM added}]
"""
    shop.run(text)
    seen = shop.lake.table("shop.seen")
    seen.append(pa.table({"id": pa.array([9]), "amount": [5.0]}))
    seen.compact()
    shop.run(text)
    shop.run(text)
    assert [row["id"] for row in shop.rows("shop.copies")] == [1, 2, 3, 9]
    seen.append(pa.table({"id": pa.array([10, 11]), "amount": [6.0, 7.0]}))
    seen.update({"amount": "amount + 1"}, where="id IN (1, 10)")
    seen.delete("id = 11")
    shop.run(text)  # as they are now: what was changed twice comes once, what is gone again does not come
    assert [(row["id"], row["amount"]) for row in shop.rows("shop.copies")][-2:] == [(9, 5.0), (10, 7.0)]
    assert [row["amount"] for row in shop.rows("shop.copies")[:2]] == [10.5, 11.5]
    seen.overwrite(pa.table({"id": pa.array([20]), "amount": [1.0]}))
    shop.run(text)
    assert [row["id"] for row in shop.rows("shop.copies")] == [1, 1, 2, 3, 9, 10, 20]


@pytest.mark.parametrize("stable", [False, True])
def test_rows_that_a_rollback_brings_back_are_not_new_to_a_run_that_had_seen_them(shop: Shop, stable: bool) -> None:
    """What was read of a source goes back with the lake: rows that were deleted, updated or moved after that version
    are in the table as they were read, and were appended once more.
    """
    text = """\
lake: lake
sources: {added: {table: shop.raw, new: true}}
steps: [{table: shop.copies, mode: append, sql: SELECT * FROM added}]
"""
    lake = seiche.create(str(shop.folder / "lake"))
    lake.create_namespace("shop")
    raw = lake.create_table("shop.raw", pa.schema([("id", pa.int64()), ("n", pa.int64())]), stable_row_ids=stable)
    for number in range(4):
        raw.append([{"id": number, "n": 0}])
    shop.run(text)
    seen = shop.lake.version
    raw.append([{"id": 4, "n": 0}])
    between = lake.version
    raw.delete("id = 0")
    raw.update({"n": "n + 1"}, where="id = 1")
    raw.compact()
    raw.append([{"id": 5, "n": 0}])
    lake.rollback(between)
    raw.append([{"id": 6, "n": 0}])
    shop.run(text)
    assert [row["id"] for row in shop.rows("shop.copies")] == [0, 1, 2, 3, 4, 6]
    shop.lake.rollback(seen)
    raw.append([{"id": 7, "n": 0}])
    shop.run(text)
    assert [row["id"] for row in shop.rows("shop.copies")] == [0, 1, 2, 3, 7]
    raw.delete("id = 2")
    shop.run(text)
    shop.lake.rollback(between, tables=["shop.raw"])  # not what was read of it: 2 comes back to it, and 4
    shop.run(text)
    assert [row["id"] for row in shop.rows("shop.copies")] == [0, 1, 2, 2, 3, 4, 7]


def test_steps_and_sources_in_python(shop: Shop) -> None:
    from seiche.spark.pipeline import Pipeline

    pipeline = Pipeline("in-python", str(shop.folder / "lake"))

    @pipeline.source()
    def numbers(spark: Any) -> Any:
        return spark.range(10)

    @pipeline.step("shop.squares")
    def squares(numbers: Any) -> Any:
        return numbers.selectExpr("id", "id * id AS square")

    pipeline.step("shop.total", sql="SELECT sum(square) AS total FROM shop.squares")
    pipeline.check("all", "SELECT count(*) FROM shop.squares", expect=10)
    assert pipeline.run(shop.spark).published
    assert shop.rows("shop.total", "total") == [{"total": 285}]


def test_vectors_with_an_index(shop: Shop) -> None:
    text = """\
lake: lake
sources: {raw: {format: csv, path: "orders/*.csv", schema: "id BIGINT, customer STRING, amount DOUBLE"}}
steps:
  - table: shop.points
    sql: SELECT id, array(CAST(amount AS FLOAT), CAST(id AS FLOAT)) AS point FROM raw
    vectors: {point: 2}
    index: {id: BTREE}
"""
    shop.run(text)
    shop.run(text)
    table = shop.lake.table("shop.points")
    assert table.to_arrow().schema.field("point").type == pa.list_(pa.float32(), 2)
    nearest = table.to_lance().to_table(nearest={"column": "point", "q": [3.0, 2.0], "k": 1})
    assert nearest["id"].to_pylist() == [2]
    assert [index.name for index in table.to_lance().describe_indices()] == ["id_idx"]


def test_drift_is_measured_against_the_version_before(shop: Shop) -> None:
    text = SHOP + "  - drift: {table: shop.orders, at_most: 0.5}\n"
    assert shop.run(text).published  # there was nothing to compare with
    shop.order("second", *(f"{number},ann,1.0" for number in range(10, 13)))
    rejected = shop.run(text)
    assert [check.name for check in rejected.failed_checks] == ["shop.orders: count(*) drifts at most 0.5"]
    (shop.folder / "orders" / "second.csv").unlink()
    shop.order("third", "4,ann,1.0")
    assert shop.run(text).published


@pytest.mark.parametrize("kind", ["lance", "iceberg"])
def test_a_column_that_was_not_there_has_not_drifted(shop: Shop, kind: str) -> None:
    """Nothing could ever be published with it: the version before the run would have lacked the column for good."""
    text = """\
lake: lake
steps: [{table: shop.orders, format: %s, sql: "SELECT 1 AS id, %d AS Amount"}]
checks: [{drift: {table: shop.orders, measure: sum(amount), at_most: 0.5}}]
"""
    assert shop.run(text.replace("%d AS Amount", "2 AS n").replace("sum(amount)", "sum(n)") % kind).published
    assert shop.run(text % (kind, 10)).published
    assert not shop.run(text % (kind, 20)).published
    assert shop.run(text % (kind, 15)).published


def test_runs_do_not_fail_each_other_by_their_records(shop: Shop) -> None:
    """Each run adds a row to one table; pipelines are serializable, and that must not make them repeat their work."""
    shop.run()
    shop.order("second", "4,cid,1.0")
    other = replace(shop.definition(SHOP.replace("shop.", "mine.")), name="other")
    done = shop.run(progress=meddling(lambda: _ran(run(other, shop.spark))))
    assert done.attempts == 1
    assert shop.lake.table(RUNS).to_arrow().num_rows == 3


def test_which_version_made_which(shop: Shop) -> None:
    shop.run(run_id="one")
    shop.run(
        """\
lake: lake
name: later
steps: [{table: shop.rich, sql: SELECT customer FROM shop.customers WHERE spent > 5}]
""",
        run_id="two",
    )
    lake = shop.lake
    two, one = (lineage(lake, run) for run in runs(lake))
    assert {made.table: dict(made.inputs) for made in one} == {
        "shop.orders": {"raw": None},
        "shop.seen": {"raw": None},
        "shop.customers": {"shop.orders": lake.table("shop.orders").version},
    }
    assert two == [Made("shop.rich", lake.table("shop.rich").version, {"shop.customers": one[2].version})]


@pytest.mark.parametrize(
    ("at", "fresh"),
    [
        ("TIMESTAMP '2001-01-01'", False),
        ("current_timestamp()", True),
        ("CAST(current_timestamp() AS TIMESTAMP_NTZ)", True),
        ("date_add(current_date(), 1)", True),
        ("DATE '2001-01-01'", False),
    ],
)
def test_freshness(shop: Shop, at: str, fresh: bool) -> None:
    text = SHOP.replace("SELECT id, amount FROM raw", f"SELECT id, {at} AS at FROM raw")
    assert shop.run(text + "  - fresh: {table: shop.seen, column: at, within: 1h}\n").published is fresh


def test_values_that_do_not_fit(shop: Shop) -> None:
    shop.run()
    before = shop.lake.version
    with pytest.raises(InvalidInput, match=r"shop\.yaml:9: step shop\.seen: .*amount"):
        shop.run(SHOP.replace("SELECT id, amount FROM raw", "SELECT id, 'much' AS amount FROM raw"))
    assert shop.untouched(before)


def test_iceberg_tables_in_every_mode(shop: Shop) -> None:
    """As Lance tables: rows are added, replaced by key and replaced by condition."""
    text = """\
lake: lake
sources: {raw: {format: csv, path: "orders/*.csv", schema: "id BIGINT, customer STRING, amount DOUBLE", new: true}}
steps:
  - {table: shop.added, format: iceberg, mode: append, sql: SELECT * FROM raw}
  - {table: shop.merged, format: iceberg, mode: merge, key: id, sql: SELECT * FROM raw}
  - table: shop.ann
    format: iceberg
    mode: replace_where
    where: customer = 'ann'
    sql: SELECT * FROM raw WHERE customer = 'ann'
checks:
  - unique: {table: shop.merged, columns: id}
"""
    assert shop.run(text).published
    shop.order("second", "3,ann,8.0", "4,cid,1.0")
    assert shop.run(text).published
    assert [row["id"] for row in shop.rows("shop.added")] == [1, 2, 3, 3, 4]
    assert {row["id"]: row["amount"] for row in shop.rows("shop.merged")} == {1: 10.5, 2: 3.0, 3: 8.0, 4: 1.0}
    assert [(row["id"], row["amount"]) for row in shop.rows("shop.ann")] == [(3, 8.0)]
    before = shop.lake.version
    shop.order("third", "4,cid,1.0", "4,cid,2.0")
    with pytest.raises(InvalidInput, match=r"step shop\.merged: two rows"):
        shop.run(text)
    assert shop.untouched(before)
    assert shop.lake.table("shop.merged").row.format == "iceberg"


@pytest.mark.slow
@pytest.mark.soak
def test_two_pipelines_and_a_compaction(shop: Shop, effort: Callable[[int, int], int]) -> None:
    """Both go on while files come in, and the checks hold in every version that they make together."""
    shop.run()
    both = replace(shop.definition(SHOP.replace("shop.seen", "shop.seen_too")), name="both")
    until = time.monotonic() + effort(0, 120)
    done: Counter[str] = Counter()
    files = count(1)
    stop = Event()

    def publish(definition: Definition) -> None:
        while time.monotonic() < until or done[definition.name] < 2:
            number = next(files)
            lines = [f"{number * 10 + one},customer-{one % 3},{one + 1}.0" for one in range(10)]
            (shop.folder / f"{number}.part").write_text("\n".join(lines))
            (shop.folder / f"{number}.part").rename(shop.folder / "orders" / f"{number:05}.csv")
            done[definition.name] += run(definition, shop.spark, attempts=100).published

    def compact() -> None:
        while not stop.wait(0.3):
            with suppress(seiche.ConflictError):
                done["compactions"] += shop.lake.table("shop.orders").compact().changed

    first = shop.lake.version
    with ThreadPoolExecutor(3) as pool:
        compacting = pool.submit(compact)
        for one in [pool.submit(publish, one) for one in (shop.definition(), both)]:
            one.result()
        stop.set()
        compacting.result()
    assert run(both, shop.spark).published
    assert shop.run().published
    assert done["compactions"] >= 1
    # Neither starves: who has lost twice is let through.
    assert 8 * min(done["shop"], done["both"]) >= max(done["shop"], done["both"])
    for version in range(first, shop.lake.version + 1):
        then = seiche.open(shop.lake.store, version=version)
        orders = then.table("shop.orders").to_arrow()
        counts = {row["customer"]: row["orders"] for row in then.table("shop.customers").to_arrow().to_pylist()}
        assert Counter(orders["customer"].to_pylist()) == counts
        assert len(set(orders["id"].to_pylist())) == orders.num_rows
        assert min(orders["amount"].to_pylist()) > 0
    every = [1, 2, 3, *range(10, next(files) * 10)]
    for table in ("shop.orders", "shop.seen", "shop.seen_too"):
        assert [row["id"] for row in shop.rows(table)] == every
    print(f"{dict(done)} in {shop.lake.version - first} versions, {len(every)} rows")


def _ran(done: Run) -> None:
    assert done.published
