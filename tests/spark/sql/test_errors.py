"""What a wrong statement is told: in words of the statement and the table, and nothing is done."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from seiche import InvalidInput, Lake, RetryableConflict, SeicheError
from tests.spark.sql.conftest import Sql

if TYPE_CHECKING:
    from seiche.spark.lake import SparkLake

# Names of ours, and how Spark and Java speak among themselves.
OURS = re.compile(r"_rowaddr|_seiche|`source`|`target`|SQLSTATE|org\.apache|Traceback|pos \d|<Token")
MERGE = "MERGE INTO shop.stock t USING shop.orders o ON"
WRONG = {
    "DELETE FROM shop.orders WHERE nope = 1": "[`id`, `n`, `sku`, `price`]",
    "DELETE FROM shop.orders o WHERE orders.id = 1": "`orders`.`id` cannot be resolved",
    "DELETE FROM shop.orders WHERE nope IN (SELECT sku FROM shop.stock)": "`nope`",
    "DELETE FROM shop.orders WHERE _rowaddr = 1": "no column '_rowaddr'",
    "DELETE FROM shop.orders WHERE id IN (SELECT _seiche_group FROM shop.stock)": "no column '_seiche_group'",
    "DELETE FROM shop.orders o WHERE hash(*) = (SELECT max(hash(o.*)) FROM shop.stock)": "* is not understood in a",
    "UPDATE shop.stock s SET left = (SELECT hash(s.*))": "* is not understood in a condition or a value",
    "UPDATE shop.stock SET left = nope": "one of the following? [",
    "UPDATE shop.stock SET left = 1 WHERE nope": "one of the following? [",
    "UPDATE shop.stock SET left = (SELECT n FROM shop.orders)": "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    f"{MERGE} t.nope > o.id WHEN MATCHED THEN DELETE": "`t`.`nope`",
    f"{MERGE} t.sku = o.nope WHEN MATCHED THEN DELETE": "`o`.`nope`",
    f"{MERGE} t.sku = o.sku WHEN NOT MATCHED BY SOURCE AND o.id = 1 THEN DELETE": "`o`.`id`",
    f"{MERGE} t.sku = o.sku WHEN MATCHED THEN UPDATE SET left = t._rowaddr": "no column '_rowaddr'",
    f"{MERGE} t.sku = o.sku WHEN MATCHED THEN UPDATE SET left = hash(t.*)": "a * in a condition or a value of a change",
    f"{MERGE} t.sku = o.sku WHEN MATCHED THEN INSERT *": "this clause of the merge can only UPDATE or DELETE",
    f"{MERGE} t.sku = o.sku WHEN NOT MATCHED THEN DELETE": "this clause of the merge can only INSERT",
    "SELECT nope FROM shop.orders": "[`id`, `n`, `sku`, `price`]",
    "SELECT id FROM WHERE": "Expected table name but got WHERE, at line 1, column 16",
    "SELECT id FROM": "Expected table name but got the end, at line 1, column 11",
    "SELECT id frm orders WHERE id": "orders was not expected, at line 1, column 15",
    "SELECT 1 WHERE id = = 2": "something is missing at =, at line 1, column 21",
    "SELECT id FROM shop.orders VERSION AS OF -1": "A version is a whole number or the name of a tag",
    "SELECT id FROM shop.orders TIMESTAMP AS OF now()": "a time a text in quotes",
    "CALL seiche.fsck(repair => 'no')": "repair cannot be 'no'\n  It is true or false",
    "CALL seiche.rollback(2, dry_run => 'false')": "dry_run cannot be 'false'",
    "CREATE TABLE shop.t (id INT) USING parquet": "parquet is no format of tables in a lake",
}


def test_it_is_said_in_words_of_the_user(shop: Lake, sql: Sql, capfd: pytest.CaptureFixture[str]) -> None:
    for statement, said in WRONG.items():
        with pytest.raises(InvalidInput) as caught:
            sql(statement)
        assert said in str(caught.value), statement
        assert not OURS.search(str(caught.value).replace(said, "")), statement
    assert "exception" not in capfd.readouterr().err, "Spark does not print it as well"
    assert shop.version == 3


# What to do about a mistake, as somebody who writes SQL can do it.
REMEDIES = {
    "CREATE TABLE nope.t (id INT)": "CREATE NAMESPACE makes one.",
    "DROP TABLE shop.nope": "SHOW TABLES IN namespace lists what there is",
    "SELECT id FROM shop.orders VERSION AS OF 'nope'": "SHOW TAGS lists those that exist.",
    "SELECT id FROM shop.orders VERSION AS OF 99": "Take one that SHOW VERSIONS lists.",
    "CALL seiche.rollback(2, expected_version => 1)": "`seiche diff LAKE 1 3`",
    "CALL seiche.expire(older_than => 'xx')": 'Write it as "7d"',
    "CALL seiche.export('e', 'copy', mode => 'partial')": "tables => array(",
    "CALL seiche.compact('shop.orders', 0)": "target_rows_per_fragment => 100000",
}


def test_what_to_do_is_said_in_sql(shop: Lake, sql: Sql) -> None:
    for statement, said in REMEDIES.items():
        with pytest.raises(SeicheError) as caught:
            sql(statement)
        assert said in caught.value.remedy, statement
        assert not re.search(r"lake\.\w+\(|\w=", caught.value.remedy), statement
    assert shop.version == 3


def test_a_conflict_says_what_to_do_in_sql(shop: Lake, sql: Sql) -> None:
    sql("BEGIN")
    sql("DELETE FROM shop.orders WHERE id = 1")
    shop.drop_table("shop.orders")
    with pytest.raises(RetryableConflict) as caught:
        sql("COMMIT")
    assert "lake.run" not in caught.value.remedy


def test_statements_of_a_transaction_too(on_spark: "SparkLake") -> None:
    with on_spark.transaction() as tx:
        rows = on_spark.session.range(1).selectExpr("'a' AS sku", "1 AS n")
        merge = tx.merge("shop.stock", rows, on="sku")
        statements: list[Callable[[], object]] = [
            lambda: tx.delete("shop.orders", "nope = 1"),
            lambda: tx.update("shop.orders", {"n": "nope"}, "id = 1"),
            merge.when_not_matched_by_source_update({"left": "nope"}).execute,
        ]
        for wrong in statements:
            with pytest.raises(AnalysisException, match=r"`nope`.*`sku`") as caught:
                wrong()
            assert not re.search("_rowaddr|_seiche", str(caught.value).partition("\n")[0])
