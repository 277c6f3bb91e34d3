"""A session: every kind of statement, transactions, time travel, and what is read for a query."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from seiche import AlreadyExists, InvalidInput, Lake, NotFound, RetryableConflict, SeicheError
from seiche.spark.lake import SparkLake
from seiche.spark.transaction import SparkTransaction
from seiche.spark.zones import collected
from tests.spark.sql.conftest import Sql


def rows(lake: Lake, table: str = "shop.orders") -> list[tuple[Any, ...]]:
    """What another process would see."""
    found = lake.table(table).to_arrow().to_pylist()
    return sorted((tuple(one.values()) for one in found), key=repr)


FIRST = [(1, "a", 1, 0.5), (2, "b", 2, 1.5), (3, None, 3, None)]


class TestStatements:
    def test_the_table_that_is_changed_by_its_whole_name(self, shop: Lake, sql: Sql) -> None:
        sql("UPDATE shop.orders SET price = shop.orders.n + orders.n WHERE shop.orders.id = 1")
        sql("UPDATE shop.orders SET price = transform(array(10), k -> k + shop.orders.n)[0] WHERE orders.id = 2")
        sql("UPDATE shop.orders SET price = (SELECT max(left) FROM shop.stock) + shop.orders.n WHERE id = 3")
        assert rows(shop) == [(1, "a", 1, 2.0), (2, "b", 2, 12.0), (3, None, 3, 23.0)]
        sql("DELETE FROM shop.orders WHERE exists(array(2), n -> n = shop.orders.n)")
        assert [row[0] for row in rows(shop)] == [1, 3]
        with pytest.raises(InvalidInput, match=r"shop\.orders\.n is not clear"):
            sql("UPDATE shop.orders SET price = transform(array(10), orders -> shop.orders.n)[0]")

    def test_the_tables_of_a_merge_by_their_whole_names(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE TABLE shop.new AS SELECT id + 1 AS id, n * 10 AS n, named_struct('x', 7) AS s FROM shop.orders")
        sql(
            "MERGE INTO shop.orders USING shop.new ON shop.orders.id = shop.new.id "
            "WHEN MATCHED AND shop.orders.n < new.n THEN UPDATE SET shop.orders.n = orders.n + shop.new.s.x "
            "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (shop.new.id, shop.new.n)"
        )
        sql("UPDATE shop.orders SET shop.orders.price = 0 WHERE id = 3")
        assert [row[:3:2] for row in rows(shop)] == [(1, 1), (2, 9), (3, 10), (4, 30)]
        with pytest.raises(InvalidInput, match=r"`shop`\.`new`\.`id`"):
            sql("MERGE INTO shop.orders USING shop.new AS s ON orders.id = shop.new.id WHEN MATCHED THEN DELETE")

    def test_a_table_that_lies_deep_by_its_whole_name(self, shop: Lake, sql: Sql) -> None:
        """What follows four words is a field of a struct to the parser."""
        for depth in ("a", "a.b", "a.b.c"):
            sql(f"CREATE NAMESPACE {depth}")
        sql("CREATE TABLE a.b.c.d AS SELECT id, n, named_struct('x', n) AS s FROM shop.orders")
        sql("UPDATE a.b.c.d SET n = a.b.c.d.s.x + 10 WHERE a.b.c.d.id = 1")
        sql("DELETE FROM a.b.c.d WHERE a.b.c.d.id = 3")
        sql(
            "MERGE INTO a.b.c.d USING shop.orders ON a.b.c.d.id = shop.orders.id "
            "WHEN MATCHED AND a.b.c.d.n = 2 THEN UPDATE SET id = shop.orders.id, n = a.b.c.d.n + 20 "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (shop.orders.id)"
        )
        assert [row[:2] for row in rows(shop, "a.b.c.d")] == [(1, 11), (2, 22), (3, None)]

    def test_clauses_of_a_merge_are_worked_out_of_the_rows_that_they_are_for(self, shop: Lake, sql: Sql) -> None:
        sql(
            "MERGE INTO shop.orders t "
            "USING (SELECT * FROM VALUES (1, 'x'), (7, 'x'), (8, '8'), (9, 'y') AS v(id, sku)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET sku = s.sku "
            "WHEN NOT MATCHED AND s.sku = 'x' THEN INSERT (id, n) VALUES (s.id, -1) "
            "WHEN NOT MATCHED AND id <> 9 AND CAST(s.sku AS INT) > 0 "
            "THEN INSERT (id, n) VALUES (s.id, CAST(sku AS INT)) "
            "WHEN NOT MATCHED BY SOURCE AND id = 2 THEN DELETE "
            "WHEN NOT MATCHED BY SOURCE AND 1 / (t.id - 1) > 0 THEN UPDATE SET n = 10 / (id - 2)"
        )
        assert rows(shop) == [(1, "x", 1, 0.5), (3, None, 10, None), (7, None, -1, None), (8, None, 8, None)]

    def test_double_quotes_that_are_those_of_names(self, sql: Sql, on_spark: SparkLake) -> None:
        assert sql('SELECT id, sku FROM shop.orders WHERE sku = "a"') == [(1, "a")]
        on_spark.session.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
        try:
            with pytest.raises(InvalidInput, match='"sku" is a name to Spark'):
                sql('SELECT id, sku FROM shop.orders WHERE sku = "sku"')  # all rows that have one
            assert sql("SELECT id FROM shop.orders WHERE sku = 'a'") == [(1,)]
        finally:
            on_spark.session.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")

    def test_parameters_of_functions_and_columns_of_the_same_name(self, shop: Lake, sql: Sql) -> None:
        sql("UPDATE shop.orders SET price = transform(array(10), n -> n + orders.n)[0] WHERE id < 3")
        assert rows(shop)[:2] == [(1, "a", 1, 11.0), (2, "b", 2, 12.0)]
        assert sql("DELETE FROM shop.orders AS o WHERE exists(array(2), n -> n = o.n)") == [(1, 0, 0, 1)]
        assert [row[0] for row in rows(shop)] == [1, 3]
        merged = "UPDATE SET price = transform(array(7), N -> n + 1)[0]"
        sql(f"MERGE INTO shop.orders o USING (SELECT 1L AS id) s ON o.id = s.id WHEN MATCHED THEN {merged}")
        assert rows(shop)[0] == (1, "a", 1, 8.0)

    def test_changes(self, shop: Lake, sql: Sql) -> None:
        assert sql("INSERT INTO shop.orders (sku, ID) VALUES ('z', 4)") == [(1, 1, 0, 0)]
        assert rows(shop) == [*FIRST, (4, "z", None, None)]
        assert sql("UPDATE shop.orders AS o SET n = o.n + 0.9, PRICE = id WHERE o.id < 3") == [(2, 0, 2, 0)]
        assert rows(shop)[:2] == [(1, "a", 1, 1.0), (2, "b", 2, 2.0)]
        assert sql("DELETE FROM shop.orders WHERE orders.sku IS NULL OR id = 4") == [(2, 0, 0, 2)]
        assert rows(shop) == [(1, "a", 1, 1.0), (2, "b", 2, 2.0)]
        assert sql("INSERT OVERWRITE shop.orders BY NAME SELECT 9L AS id, 'q' AS sku") == [(1, 1, 0, 0)]
        assert rows(shop) == [(9, "q", None, None)]
        assert sql("TRUNCATE TABLE shop.orders") == [(1, 0, 0, 1)]
        assert rows(shop) == []
        assert shop.version == 8

    def test_any_condition_says_which_rows(self, shop: Lake, sql: Sql) -> None:
        """Also one with queries, and with columns of the changed table inside them."""
        correlated = "EXISTS (SELECT 1 FROM shop.stock WHERE stock.sku = o.sku AND left > 10)"
        assert sql(f"UPDATE shop.orders o SET n = (SELECT max(left) FROM shop.stock) WHERE {correlated}") == [
            (1, 0, 1, 0)
        ]
        assert rows(shop) == [FIRST[0], (2, "b", 20, 1.5), FIRST[2]]
        assert sql("DELETE FROM shop.orders WHERE sku IN (SELECT sku FROM shop.stock WHERE left < 15)") == [
            (1, 0, 0, 1)
        ]
        assert rows(shop) == [(2, "b", 20, 1.5), FIRST[2]]

    def test_columns_of_an_iceberg_table(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE TABLE shop.i (id INT NOT NULL, v STRING, f FLOAT) USING iceberg")
        sql("INSERT INTO shop.i VALUES (1, 'a', 1.5)")
        sql("ALTER TABLE shop.i ADD COLUMNS (w ARRAY<INT> COMMENT 'whole', x STRUCT<y: DECIMAL(9, 2)>)")
        sql("ALTER TABLE shop.i RENAME COLUMN V TO name")
        sql("ALTER TABLE shop.i ALTER COLUMN id TYPE BIGINT")
        sql("ALTER TABLE shop.i ALTER COLUMN id DROP NOT NULL")
        sql("ALTER TABLE shop.i DROP COLUMN IF EXISTS f, nope")
        sql("INSERT INTO shop.i VALUES (NULL, 'b', array(1), named_struct('y', 2.5BD))")
        assert [one[:2] for one in sql("DESCRIBE shop.i")] == [
            ("id", "bigint"),
            ("name", "string"),
            ("w", "array<int>"),
            ("x", "struct<y:decimal(9,2)>"),
        ]
        assert rows(shop, "shop.i") == [(1, "a", None, None), (None, "b", [1], {"y": Decimal("2.50")})]

    def test_columns_of_an_iceberg_table_in_a_transaction(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE TABLE shop.i (id INT) USING iceberg")
        for end, left in (("ROLLBACK", ["id"]), ("COMMIT", ["id", "n"])):
            sql("BEGIN")
            sql("ALTER TABLE shop.i ADD COLUMN n INT")
            sql("INSERT INTO shop.i VALUES (1, 2)")
            assert sql("SELECT n FROM shop.i") == [(2,)]
            sql(end)
            assert shop.table("shop.i").schema.names == left

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("ADD COLUMN ID INT", "there is a column 'ID' already"),
            ("ADD COLUMN v VARIANT", "VARIANT"),
            ("ADD COLUMN d INTERVAL DAY TO SECOND", "duration"),
            ("ALTER COLUMN v TYPE INT", "string -> int"),
            ("ALTER COLUMN v SET NOT NULL", "optional -> required"),
            ("RENAME COLUMN v TO Id", "there is a column 'Id' already"),
            ("DROP COLUMN id, v", "a table cannot be without columns"),
        ],
    )
    def test_what_columns_of_an_iceberg_table_cannot_become(self, shop: Lake, sql: Sql, change: str, said: str) -> None:
        sql("CREATE TABLE shop.i (id INT, v STRING) USING iceberg")
        before = shop.version
        with pytest.raises(InvalidInput) as caught:
            sql(f"ALTER TABLE shop.i {change}")
        assert said in str(caught.value)
        assert caught.value.remedy
        assert shop.version == before

    @pytest.mark.parametrize("using", ["", " USING iceberg"])
    def test_columns_differ_in_more_than_capitals(self, shop: Lake, sql: Sql, using: str) -> None:
        """Otherwise no statement could name either of them any more."""
        sql(f"CREATE TABLE shop.t (id INT, v STRING){using}")
        before = shop.version
        for change in ("ADD COLUMN ID INT", "ADD COLUMNS (w INT, W INT)", "RENAME COLUMN v TO Id"):
            with pytest.raises(InvalidInput, match=r"there (is a column 'I[Dd]' already|are two columns 'W')"):
                sql(f"ALTER TABLE shop.t {change}")
        assert shop.version == before
        sql("ALTER TABLE shop.t RENAME COLUMN id TO ID")
        assert shop.table("shop.t").schema.names == ["ID", "v"]

    def test_definitions_of_tables(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE TABLE shop.t (id BIGINT NOT NULL, v STRING COMMENT 'text') TBLPROPERTIES ('owner' = 'me')")
        assert shop.table("shop.t").schema.field("id").nullable is False
        assert sql("DESCRIBE shop.t") == [("id", "bigint", None), ("v", "string", "text")]
        with pytest.raises(AlreadyExists):
            sql("CREATE TABLE shop.t (x INT)")
        assert sql("CREATE TABLE IF NOT EXISTS shop.t (x INT)") == [(0,)]
        sql("ALTER TABLE shop.t ADD COLUMNS (w INT, x INT)")
        sql("ALTER TABLE shop.t RENAME COLUMN w TO y")
        sql("ALTER TABLE shop.t DROP COLUMN X")
        sql("ALTER TABLE shop.t ALTER COLUMN y TYPE BIGINT")
        sql("ALTER TABLE shop.t ALTER COLUMN id DROP NOT NULL")
        sql("ALTER TABLE shop.t SET TBLPROPERTIES ('owner' = 'you', 'a' = 'b')")
        sql("ALTER TABLE shop.t UNSET TBLPROPERTIES ('a')")
        sql("ALTER TABLE shop.t RENAME TO shop.u")
        assert sql("SHOW TBLPROPERTIES shop.u") == [("owner", "you")]
        assert sql("SHOW COLUMNS IN shop.u") == [("id",), ("v",), ("y",)]
        (statement,) = sql("SHOW CREATE TABLE shop.u")[0]
        sql("DROP TABLE shop.u")
        sql(statement)
        expected = pa.schema([("id", pa.int64()), ("v", pa.string()), ("y", pa.int64())])
        assert shop.table("shop.u").schema.remove_metadata().equals(expected)
        sql("CREATE TABLE shop.w LIKE shop.stock")
        assert shop.table("shop.w").schema == shop.table("shop.stock").schema
        sql("DROP TABLE IF EXISTS shop.nothing")
        with pytest.raises(NotFound):
            sql("DROP TABLE shop.nothing")

    @pytest.mark.parametrize("using", ["", " USING iceberg"])
    def test_a_definition_that_is_shown_makes_the_same_table(self, shop: Lake, sql: Sql, using: str) -> None:
        nested = "STRUCT<`Aa`: INT, `b c` STRING, l: ARRAY<STRUCT<Dd: DATE>>>"
        sql(
            f"CREATE TABLE shop.t (`Id` BIGINT NOT NULL COMMENT 'the \\'key\\'', s {nested}, m MAP<STRING, INT>){using}"
        )
        (statement,) = sql("SHOW CREATE TABLE shop.t")[0]
        described, form = sql("DESCRIBE shop.t"), shop.table("shop.t").row.format
        sql("DROP TABLE shop.t")
        sql(statement)
        assert sql("DESCRIBE shop.t") == described
        assert shop.table("shop.t").row.format == form
        assert "struct<Aa:int,b c:string,l:array<struct<Dd:date>>>" in {row[1] for row in described}

    def test_types_that_arrow_calls_otherwise(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE TABLE shop.t (v VARIANT, i INTERVAL DAY TO SECOND)")
        sql("INSERT INTO shop.t VALUES (parse_json('{\"a\": 7}'), INTERVAL '1' DAY), (NULL, NULL)")
        assert sql("DESCRIBE shop.t") == [("v", "variant", None), ("i", "interval day to second", None)]
        read = "SELECT variant_get(v, '$.a', 'int'), i FROM shop.t ORDER BY i NULLS LAST"
        assert sql(read) == [(7, timedelta(days=1)), (None, None)]

    def test_a_variant_is_not_kept_as_something_else(self, shop: Lake, sql: Sql) -> None:
        for made in ("(x ARRAY<VARIANT>) USING iceberg", "USING iceberg AS SELECT parse_json('1') AS x"):
            with pytest.raises(InvalidInput, match="column 'x' has a VARIANT, which Iceberg tables here have not"):
                sql(f"CREATE TABLE shop.t {made}")

    def test_a_column_that_no_table_keeps(self, shop: Lake, sql: Sql) -> None:
        for value, type_ in (("INTERVAL '1' YEAR", "interval year"), ("array()", "array<void>")):
            with pytest.raises(InvalidInput, match=f"column 'x' is of type {type_}, which no table can keep"):
                sql(f"CREATE TABLE shop.t AS SELECT {value} AS x")

    def test_a_table_made_of_a_query(self, shop: Lake, sql: Sql) -> None:
        made = "CREATE TABLE shop.big AS SELECT sku, sum(n) AS total FROM shop.orders GROUP BY sku"
        assert sql(made) == [(3,)]
        assert rows(shop, "shop.big") == [("a", 1), ("b", 2), (None, 3)]
        # Of itself, too; and if it fails, the old one is still there.
        assert sql("CREATE OR REPLACE TABLE shop.big AS SELECT total + 1 AS t FROM shop.big") == [(3,)]
        assert rows(shop, "shop.big") == [(2,), (3,), (4,)]
        with pytest.raises(InvalidInput):
            sql("CREATE OR REPLACE TABLE shop.big AS SELECT 1 / (t - t) AS z FROM shop.big")
        with pytest.raises(InvalidInput, match="two columns"):
            sql("CREATE OR REPLACE TABLE shop.big AS SELECT 1 AS a, 2 AS A")
        with pytest.raises(InvalidInput, match="no type"):
            sql("CREATE OR REPLACE TABLE shop.big AS SELECT NULL AS a")
        assert rows(shop, "shop.big") == [(2,), (3,), (4,)]

    def test_namespaces(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE NAMESPACE eu COMMENT 'over there'")
        sql("CREATE SCHEMA eu.north WITH PROPERTIES ('k' = 'v')")
        assert sql("CREATE DATABASE IF NOT EXISTS eu") == [(0,)]
        sql("ALTER NAMESPACE eu.north SET PROPERTIES ('k' = 'w')")
        assert sql("SHOW NAMESPACES") == [("eu",), ("shop",)]
        assert sql("SHOW NAMESPACES IN eu") == [("eu.north",)]
        assert ("k", "w") in sql("DESCRIBE NAMESPACE eu.north")
        sql("CREATE TABLE eu.north.t (id INT)")
        assert sql("SHOW TABLES") == [("eu.north", "t", False), ("shop", "orders", False), ("shop", "stock", False)]
        sql("USE eu.north")
        sql("INSERT INTO t VALUES (1)")
        assert sql("SELECT * FROM t") == [(1,)]
        assert sql("SHOW TABLES") == [("eu.north", "t", False)]
        with pytest.raises(NotFound):
            sql("USE nowhere")
        with pytest.raises(InvalidInput, match="not empty"):
            sql("DROP NAMESPACE eu")
        sql("DROP NAMESPACE eu CASCADE")
        sql("DROP NAMESPACE IF EXISTS eu")
        assert shop.namespaces() == [("shop",)]

    def test_views(self, shop: Lake, sql: Sql, on_spark: SparkLake) -> None:
        sql("USE shop")
        sql("CREATE VIEW cheap AS SELECT id, price FROM orders WHERE price < 1")
        sql("CREATE VIEW shop.named (a, b) AS SELECT * FROM shop.cheap")
        sql("USE shop")
        assert sql("SELECT * FROM shop.named n JOIN shop.cheap ON n.a = cheap.id") == [(1, 0.5, 1, 0.5)]
        sql("UPDATE orders SET price = 0.25 WHERE id = 2")
        assert sql("SELECT count(*) FROM shop.named") == [(2,)]
        assert sql("SELECT count(*) FROM shop.named VERSION AS OF 5") == [(1,)]
        assert sql("DESCRIBE shop.named") == [("a", "bigint", None), ("b", "double", None)]
        assert sql("SHOW VIEWS") == [("shop", "cheap", False), ("shop", "named", False)]
        with pytest.raises(InvalidInput, match="is a view"):
            sql("DELETE FROM shop.cheap")
        sql("ALTER VIEW shop.cheap AS SELECT id, price FROM shop.orders")
        assert sql("SELECT count(*) FROM named") == [(3,)]
        sql("CREATE OR REPLACE VIEW shop.cheap AS SELECT a AS id, b AS price FROM shop.named")
        with pytest.raises(InvalidInput, match="looks at itself"):
            sql("SELECT * FROM named")
        sql("DROP VIEW named")
        on_spark.session.range(1).createOrReplaceTempView("spark_only")
        with pytest.raises(InvalidInput, match="spark_only is not in the lake"):
            sql("CREATE VIEW shop.v AS SELECT * FROM spark_only")

    def test_views_of_spark_can_be_read_and_merged(self, shop: Lake, sql: Sql, on_spark: SparkLake) -> None:
        on_spark.session.sql("SELECT 'a' AS sku, 5 AS n").createOrReplaceTempView("arrived")
        on = "ON stock.sku = arrived.sku"
        sql(f"MERGE INTO shop.stock USING arrived {on} WHEN MATCHED THEN UPDATE SET left = left + n")
        assert rows(shop, "shop.stock") == [("a", 15), ("b", 20)]
        with pytest.raises(InvalidInput, match="has no versions"):
            sql("SELECT * FROM arrived VERSION AS OF 1")

    def test_looking_around(self, shop: Lake, sql: Sql) -> None:
        shop.tag("nightly")
        assert sql("SHOW TABLES IN shop LIKE '*ORD*'") == [("shop", "orders", False)]
        assert [row[:2] for row in sql("SHOW TAGS")] == [("nightly", 3)]
        assert [row[0] for row in sql("SHOW VERSIONS")] == [4, 3, 2, 1, 0]
        assert [row[0] for row in sql("DESCRIBE HISTORY shop.orders")] == [3, 2]
        assert sql("DESCRIBE QUERY SELECT 1 AS one") == [("one", "int", None)]
        facts: dict[str, str] = dict(row[:2] for row in sql("DESCRIBE EXTENDED shop.orders"))
        assert facts["name"] == "shop.orders"
        assert facts["format"] == "lance"

    def test_care(self, shop: Lake, sql: Sql, tmp_path: Path) -> None:
        for _ in range(2):
            shop.table("shop.stock").append(pa.table({"sku": ["c"], "left": pa.array([1], pa.int32())}))
        assert sql("OPTIMIZE shop.stock")[0][0] is True
        assert sql("CALL seiche.compact('shop.stock')")[0][0] is False
        assert sql("CALL seiche.create_index('shop.stock', column => 'sku', name => 'by_sku')")[0][0] is True
        assert sql("CALL seiche.tag('before')") == [("before", shop.version - 1)]
        sql("DELETE FROM shop.stock")
        assert sql("CALL seiche.rollback(to => 'before')") == [(shop.version,)]
        assert len(rows(shop, "shop.stock")) == 4
        assert sql("CALL seiche.fsck()") == []
        assert sql("VACUUM DRY RUN")[0][0] is False
        assert sql("VACUUM shop.stock")[0][0] is True
        assert sql("CALL seiche.gc(dry_run => true)")[0][0] is False
        assert sql("CALL seiche.expire(older_than => '0s', keep => 2)")[0][0] is True
        assert sql(f"CALL seiche.export('copy', 'file://{tmp_path}/copy')")[0][0] == "copy"
        assert sql("CALL seiche.untag('before')") == [("before",)]
        for wrong, named in {
            "CALL seiche.nothing()": "seiche.nothing",
            "CALL seiche.tag()": "needs name",
            "CALL seiche.tag('a', 1, 2)": "no room",
            "CALL seiche.tag('a', nam => 1)": "no argument nam",
            "CALL seiche.tag('a', name => 'b')": "given twice",
            "CALL seiche.compact('shop.stock', 'many')": "target_rows_per_fragment",
        }.items():
            with pytest.raises(InvalidInput, match=named):
                sql(wrong)

    def test_values_are_stored_as_sql_says(self, shop: Lake, sql: Sql) -> None:
        for wrong, named in {
            "INSERT INTO shop.orders SELECT 1, 'a'": "takes 4 columns",
            "INSERT INTO shop.orders (id, nope) VALUES (1, 2)": "no column 'nope'",
            "INSERT INTO shop.orders (id, ID) VALUES (1, 2)": "named twice",
            "INSERT INTO shop.orders (id) VALUES ('7')": "bigint, and cannot take string",
            "INSERT INTO shop.orders (n) VALUES (3000000000)": "OVERFLOW",
            "INSERT INTO shop.stock (left) VALUES (1)": "needs a value for sku",
            "INSERT INTO shop.orders BY NAME SELECT 1 AS nope": "no column 'nope'",
            "UPDATE shop.orders SET id = 'x'": "bigint, and cannot take string",
            "UPDATE shop.orders SET nope = 1": "no column 'nope'",
            "UPDATE shop.orders SET n = nope": "nope",
            "DELETE FROM shop.orders WHERE nope": "nope",
            "SELECT nope FROM shop.orders": "nope",
            "SELECT * FROM shop.nothing": "shop.nothing",
            "SELECT * FROM nothing": "nothing has no namespace",
            "SELECT * FROM parquet.`/etc/passwd`": "cannot be a name",
        }.items():
            with pytest.raises((InvalidInput, NotFound), match=named):
                sql(wrong)
        assert rows(shop) == FIRST
        assert shop.version == 3

    def test_nothing_is_stored_where_numbers_would_be_cut_off(self, shop: Lake, sql: Sql, on_spark: SparkLake) -> None:
        on_spark.session.conf.set("spark.sql.ansi.enabled", "false")
        try:
            for statement in (
                "INSERT INTO shop.orders (n) VALUES (3000000000)",
                "UPDATE shop.orders SET n = 3000000000",
            ):
                with pytest.raises(InvalidInput, match="changed silently"):
                    sql(statement)
        finally:
            on_spark.session.conf.unset("spark.sql.ansi.enabled")
        assert rows(shop) == FIRST

    def test_iceberg_tables(self, shop: Lake, sql: Sql) -> None:
        sql("CREATE TABLE shop.facts (id BIGINT, s STRING) USING iceberg")
        assert sql("INSERT INTO shop.facts VALUES (1, 'a'), (2, 'b'), (3, NULL)") == [(3, 3, 0, 0)]
        assert sql("SELECT id FROM shop.facts WHERE s IS NULL OR id = 1 ORDER BY id") == [(1,), (3,)]
        assert sql("SELECT count(*) FROM shop.facts") == [(3,)]
        assert sql("INSERT OVERWRITE shop.facts SELECT id, sku FROM shop.orders WHERE id > 1") == [(2, 2, 0, 0)]
        assert rows(shop, "shop.facts") == [(2, "b"), (3, None)]
        assert sql("SELECT count(*) FROM shop.facts VERSION AS OF 5") == [(3,)]
        assert sql("UPDATE shop.facts SET s = concat(s, '!') WHERE id < 3") == [(1, 0, 1, 0)]
        merge = "MERGE INTO shop.facts t USING shop.orders s ON t.id = s.id WHEN MATCHED AND s.id = 3 THEN DELETE"
        assert sql(f"{merge} WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, s.sku)") == [(2, 1, 0, 1)]
        assert rows(shop, "shop.facts") == [(1, "a"), (2, "b!")]
        assert sql("UPDATE shop.facts SET s = (SELECT max(sku) FROM shop.stock) WHERE id = 1") == [(1, 0, 1, 0)]
        assert sql("DELETE FROM shop.facts WHERE id IN (SELECT n FROM shop.orders WHERE n = 2)") == [(1, 0, 0, 1)]
        assert rows(shop, "shop.facts") == [(1, "b")]


class TestTransactions:
    def test_nothing_is_seen_before_the_commit(self, shop: Lake, sql: Sql) -> None:
        ((_, version),) = sql("BEGIN")
        assert version == 3
        sql("INSERT INTO shop.orders (id) VALUES (4)")
        sql("UPDATE shop.stock SET left = left - 1 WHERE sku = 'a'")
        sql("CREATE VIEW shop.v AS SELECT count(*) AS c FROM shop.orders")
        assert sql("SELECT count(*) FROM shop.orders") == [(4,)]
        assert sql("SELECT * FROM shop.v") == [(4,)]
        assert rows(shop) == FIRST
        assert shop.version == 3
        assert sql("COMMIT") == [(4,)]
        assert rows(shop) == [*FIRST, (4, None, None, None)]
        assert rows(shop, "shop.stock") == [("a", 9), ("b", 20)]
        assert sql("SELECT * FROM shop.v") == [(4,)]

    def test_rollback_forgets(self, shop: Lake, sql: Sql) -> None:
        sql("BEGIN")
        sql("DELETE FROM shop.orders")
        sql("DROP TABLE shop.stock")
        sql("CREATE NAMESPACE eu")
        assert sql("SELECT count(*) FROM shop.orders") == [(0,)]
        assert sql("ROLLBACK") == [(3,)]
        assert rows(shop) == FIRST
        assert sql("SELECT count(*) FROM shop.stock") == [(2,)]
        assert shop.version == 3

    def test_it_sees_one_version_whatever_others_commit(self, shop: Lake, sql: Sql) -> None:
        sql("BEGIN")
        shop.table("shop.orders").delete("id = 1")
        assert sql("SELECT count(*) FROM shop.orders") == [(3,)]
        assert sql("SELECT count(*) FROM shop.orders VERSION AS OF 4") == [(2,)]
        sql("ROLLBACK")
        assert sql("SELECT count(*) FROM shop.orders") == [(2,)]

    def test_properties_that_were_shown_were_read(self, shop: Lake, sql: Sql) -> None:
        sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert sql("SHOW TBLPROPERTIES shop.stock") == []
        sql("INSERT INTO shop.orders (id) VALUES (4)")
        shop.run(lambda tx: tx.set_properties("shop.stock", {"closed": "yes"}))
        with pytest.raises(RetryableConflict, match=r"shop\.stock was read"):
            sql("COMMIT")
        assert rows(shop) == FIRST

    def test_a_refused_statement_leaves_it_usable(self, shop: Lake, sql: Sql) -> None:
        twice = "SELECT explode(array('a', 'a')) AS sku"
        sql("BEGIN")
        sql("INSERT INTO shop.orders (id) VALUES (4)")
        for wrong in (
            "START TRANSACTION",
            "BEGIN",
            "SAVEPOINT a",
            "SELECT * FROM shop.orders@v1",
            "SELECT nope FROM shop.orders",
            "INSERT INTO shop.orders SELECT 1",
            "INSERT INTO shop.orders (id) SELECT 1 / (id - id) FROM shop.orders",
            "CREATE OR REPLACE TABLE shop.orders AS SELECT 1 / (id - id) AS z FROM shop.orders",
            "CREATE TABLE shop.orders (id INT)",
            "DROP TABLE shop.nothing",
            "DROP NAMESPACE shop",
            "CALL seiche.tag('x')",
            "CALL seiche.rollback(0)",
            "VACUUM",
            f"MERGE INTO shop.stock t USING ({twice}) s ON t.sku = s.sku WHEN MATCHED THEN DELETE",
        ):
            with pytest.raises(SeicheError):
                sql(wrong)
        assert sql("SELECT count(*) FROM shop.orders") == [(4,)]
        sql("INSERT INTO shop.orders (id) VALUES (5)")
        assert sql("COMMIT") == [(4,)]
        assert [row[0] for row in rows(shop)] == [1, 2, 3, 4, 5]
        assert rows(shop, "shop.stock") == [("a", 10), ("b", 20)]

    def test_a_conflict_ends_it(self, shop: Lake, sql: Sql) -> None:
        sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert sql("SELECT count(*) FROM shop.stock") == [(2,)]
        sql("INSERT INTO shop.orders (id) VALUES (4)")
        shop.table("shop.stock").delete("sku = 'a'")
        with pytest.raises(RetryableConflict):
            sql("COMMIT")
        with pytest.raises(InvalidInput, match="no transaction is open"):
            sql("ROLLBACK")
        assert rows(shop) == FIRST
        sql("INSERT INTO shop.orders (id) VALUES (4)")
        assert len(rows(shop)) == 4

    def test_a_statement_of_its_own_is_run_again_after_a_conflict(
        self, shop: Lake, sql: Sql, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        update = SparkTransaction.update
        others = iter([{"left": "left + 100"}])

        def late(self: SparkTransaction, *given: Any, **options: Any) -> Any:
            done = update(self, *given, **options)
            for change in others:
                shop.table("shop.stock").update(change, where="sku = 'a'")
            return done

        monkeypatch.setattr(SparkTransaction, "update", late)
        sql("UPDATE shop.stock SET left = left + 1")
        assert rows(shop, "shop.stock") == [("a", 111), ("b", 21)]


class TestTimeTravel:
    @pytest.fixture
    def history(self, shop: Lake) -> datetime:
        """When there were three rows, at version 3, which is `full`; now there are none."""
        shop.tag("full")
        before = shop.log()[0].time
        # Storage may count time in steps that several commits fit into.
        ticks = count()
        while shop.log()[0].time == before:
            shop.tag(f"tick-{next(ticks)}")
        shop.table("shop.orders").delete("true")
        return before

    def test_all_forms(self, history: datetime, sql: Sql) -> None:
        zoned = (history + timedelta(hours=5, minutes=30)).replace(tzinfo=None).isoformat() + "+05:30"
        plain = history.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
        for clause in (
            "VERSION AS OF 3",
            "VERSION AS OF 'full'",
            "FOR VERSION AS OF 3",
            "FOR SYSTEM_VERSION AS OF 3",
            "FOR SYSTEM_VERSION AS OF 'full'",
            f"TIMESTAMP AS OF '{plain}'",
            f"TIMESTAMP AS OF '{zoned}'",
            f"FOR TIMESTAMP AS OF TIMESTAMP '{plain}'",
            f"FOR SYSTEM_TIME AS OF '{plain}'",
            f"FOR SYSTEM_TIME AS OF '{zoned}'",
        ):
            assert sql(f"SELECT count(*) FROM shop.orders {clause}") == [(3,)], clause
        assert sql("SELECT count(*) FROM shop.orders") == [(0,)]
        for clause in ("VERSION AS OF 99", "VERSION AS OF 'nope'", "TIMESTAMP AS OF '1999-01-01'"):
            with pytest.raises(NotFound):
                sql(f"SELECT count(*) FROM shop.orders {clause}")

    @pytest.mark.parametrize("zone", ["Asia/Kolkata", "+05:30", "GMT+05:30", "IST"])
    def test_a_time_without_a_zone_is_one_of_the_session(
        self, history: datetime, sql: Sql, on_spark: SparkLake, zone: str
    ) -> None:
        plain = (history + timedelta(hours=5, minutes=30)).replace(tzinfo=None).isoformat(" ")
        session = on_spark.session
        session.conf.set("spark.sql.session.timeZone", zone)
        try:
            assert sql(f"SELECT count(*) FROM shop.orders TIMESTAMP AS OF '{plain}'") == [(3,)]
            ((shown,),) = collected(session.sql("SELECT TIMESTAMP '2030-01-02 03:04:05.5'"))
        finally:
            session.conf.set("spark.sql.session.timeZone", "UTC")
        assert str(shown).startswith("2030-01-02 03:04:05.5")

    def test_then_and_now_in_one_query(self, history: datetime, sql: Sql) -> None:
        found = sql(
            "SELECT a.id, b.id FROM shop.orders VERSION AS OF 'full' a LEFT JOIN shop.orders b ON a.id = b.id"
            " WHERE a.id > 1 ORDER BY 1"
        )
        assert found == [(2, None), (3, None)]
        assert sql("INSERT INTO shop.orders SELECT * FROM shop.orders VERSION AS OF 'full'") == [(3, 3, 0, 0)]
        assert sql("SELECT count(*) FROM shop.orders") == [(3,)]


class Read:
    """Notes what is read of tables."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, list[str] | None, str | None, int]] = []
        read = SparkTransaction.read

        def noted(tx: SparkTransaction, table: Any, columns: Any = None, filter: Any = None, **options: Any) -> Any:
            self.calls.append((".".join(table), columns, filter, tx.base))
            self.then()
            return read(tx, table, columns, filter, **options)

        monkeypatch.setattr(SparkTransaction, "read", noted)

    def then(self) -> None:
        """What happens when something is read."""


class TestWhatIsRead:
    def test_columns_and_filters_are_pruned(self, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
        read = Read(monkeypatch)
        assert sql("SELECT sum(price) FROM shop.orders WHERE id < 3 AND length(sku) = 1") == [(2.0,)]
        assert read.calls == [("shop.orders", ["id", "sku", "price"], "`id` < 3", 3)]

    def test_a_bare_count_reads_nothing(self, shop: Lake, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
        read = Read(monkeypatch)
        shop.table("shop.orders").delete("id = 2")
        assert sql("SELECT count(*) FROM shop.orders") == [(2,)]
        assert sql("SELECT count(*) AS n FROM shop.orders VERSION AS OF 3") == [(3,)]
        assert read.calls == []

    def test_all_tables_of_a_query_at_one_version(self, shop: Lake, sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
        read = Read(monkeypatch)
        once = iter(["true"])

        def others() -> None:
            for everything in once:
                with shop.transaction() as tx:
                    tx.delete("shop.orders", everything)
                    tx.delete("shop.stock", everything)

        monkeypatch.setattr(read, "then", others)
        found = sql("SELECT (SELECT count(id) FROM shop.orders), (SELECT count(sku) FROM shop.stock)")
        assert found == [(3, 2)]
        assert shop.version == 4
        assert {call[3] for call in read.calls} == {3}

    def test_a_result_stays_what_it_was(self, shop: Lake, on_spark: SparkLake) -> None:
        frame = on_spark.sql("SELECT id FROM shop.orders ORDER BY id")
        shop.table("shop.orders").delete("true")
        assert [row.id for row in frame.collect()] == [1, 2, 3]
        assert [row.id for row in frame.where("id > 1").collect()] == [2, 3]
        left = on_spark.session.sql("SHOW TABLES").collect()
        assert not [one.tableName for one in left if one.tableName.startswith("_pyspark")]
