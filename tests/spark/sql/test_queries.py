"""Queries: their tables are found, and only the names of tables and the time travel are replaced in the text."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from seiche import InvalidInput
from seiche.spark.sql.pruning import bare_count, needed_columns, pushed_filter
from seiche.spark.sql.queries import Query, parse_expression, parse_query
from seiche.spark.sql.travel import Travel


def parsed(sql: str) -> Query:
    return parse_query(sql, 0, len(sql))


def rewritten(sql: str) -> str:
    return parsed(sql).rewritten(lambda table: f"<{'.'.join(table.name)}>")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM shop.orders", "SELECT * FROM <shop.orders> AS `orders`"),
        ("SELECT o.id FROM shop.orders o", "SELECT o.id FROM <shop.orders> o"),
        ("SELECT shop.orders.id FROM shop.orders", "SELECT orders.id FROM <shop.orders> AS `orders`"),
        ("SELECT shop.orders.* FROM shop.orders", "SELECT orders.* FROM <shop.orders> AS `orders`"),
        # A field of a struct is not a column of a table.
        ("SELECT shop.orders.id FROM a.b shop", "SELECT shop.orders.id FROM <a.b> shop"),
        ("SELECT a.b.c.d.x FROM a.b.c.d x", "SELECT a.b.c.d.x FROM <a.b.c.d> x"),
        # The parser takes only three words before a column for those of a table.
        ("SELECT a.b.c.d.x FROM a.b.c.d", "SELECT d.x FROM <a.b.c.d> AS `d`"),
        ("SELECT a.b.c.d.e.x.f[0].y FROM a.b.c.d.e", "SELECT e.x.f[0].y FROM <a.b.c.d.e> AS `e`"),
        ("SELECT a.b.c.d.* FROM a.b.c.d", "SELECT d.* FROM <a.b.c.d> AS `d`"),
        ("SELECT a.b.c.d.x FROM a.b.c", "SELECT c.d.x FROM <a.b.c> AS `c`"),
        ("SELECT * FROM `a b`.`c.d`", "SELECT * FROM <a b.c.d> AS `c.d`"),
        ("SELECT 1 FROM a.b VERSION AS OF 3 AS x", "SELECT 1 FROM <a.b>  AS x"),
        ("SELECT 1 FROM a.b FOR SYSTEM_VERSION AS OF 'n'", "SELECT 1 FROM <a.b> AS `b` "),
        ("SELECT 1 FROM a.b TABLESAMPLE (3 ROWS)", "SELECT 1 FROM <a.b> TABLESAMPLE (3 ROWS) AS `b`"),
        (
            "SELECT 1 FROM a.b VERSION AS OF 1 TABLESAMPLE (3 PERCENT) REPEATABLE (1) WHERE x",
            "SELECT 1 FROM <a.b>  TABLESAMPLE (3 PERCENT) REPEATABLE (1) AS `b` WHERE x",
        ),
        ("WITH c AS (SELECT * FROM a.b) SELECT * FROM c", "WITH c AS (SELECT * FROM <a.b> AS `b`) SELECT * FROM c"),
        # In its own definition, a name means what it meant before.
        ("WITH c AS (SELECT * FROM c) SELECT * FROM c", "WITH c AS (SELECT * FROM <c> AS `c`) SELECT * FROM c"),
        (
            "SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c), c",
            "SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c), <c> AS `c`",
        ),
        ("SELECT * FROM range(3), explode(array(1))", "SELECT * FROM range(3), explode(array(1))"),
        ("SELECT 'FROM a.b', `a.b` -- FROM a.b\nFROM c.d", "SELECT 'FROM a.b', `a.b` -- FROM a.b\nFROM <c.d> AS `d`"),
        ("SELECT 'ü😀', x FROM a.`ö😀`", "SELECT 'ü😀', x FROM <a.ö😀> AS `ö😀`"),
        (
            "SELECT /*+ BROADCAST(c, d) */ c.x FROM a.b c JOIN a.d ON true",
            "SELECT /*+ BROADCAST(c, d) */ c.x FROM <a.b> c JOIN <a.d> AS `d` ON true",
        ),
        ("SELECT version AS of FROM a.b", "SELECT version AS of FROM <a.b> AS `b`"),
        (
            "SELECT x FROM a.b UNION ALL SELECT y FROM c.d WHERE y IN (SELECT z FROM e.f)",
            "SELECT x FROM <a.b> AS `b` UNION ALL SELECT y FROM <c.d> AS `d` WHERE y IN (SELECT z FROM <e.f> AS `f`)",
        ),
    ],
)
def test_only_names_are_replaced(sql: str, expected: str) -> None:
    assert rewritten(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x.orders.id FROM x.orders, y.orders",
        # Inside, it would become the column of the other one, and the query another query.
        "SELECT 1 FROM x.orders WHERE EXISTS (SELECT 1 FROM y.orders WHERE x.orders.id = y.orders.id)",
        "SELECT 1 FROM x.orders WHERE EXISTS (SELECT 1 FROM y.t AS orders WHERE x.orders.id = orders.id)",
        "SELECT 1 FROM x.orders WHERE EXISTS (SELECT 1 FROM (SELECT 1 AS id) orders WHERE x.orders.id = orders.id)",
        "WITH orders AS (SELECT 1 n) SELECT 1 FROM x.orders WHERE EXISTS (SELECT 1 FROM orders WHERE x.orders.id = n)",
    ],
)
def test_a_column_that_could_become_another_one_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInput, match=r"x\.orders\.id is not clear"):
        rewritten(sql)


def test_braces_are_doubled_on_demand() -> None:
    assert parsed("SELECT '{x}' FROM a.b").rewritten(lambda _: "{t0}", braces=True) == (
        "SELECT '{{x}}' FROM {t0} AS `b`"
    )


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("VERSION AS OF 3", 3),
        ("FOR VERSION AS OF 3", 3),
        ("FOR SYSTEM_VERSION AS OF 3", 3),
        ("SYSTEM_VERSION AS OF '3'", 3),
        ("version as of 'nightly'", "nightly"),
        ("FOR SYSTEM_VERSION AS OF 'nightly'", "nightly"),
        ("TIMESTAMP AS OF '2030-01-02 03:04:05'", datetime(2030, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - of the session's zone
        ("FOR TIMESTAMP AS OF '2030-01-02'", datetime(2030, 1, 2)),  # noqa: DTZ001
        ("FOR SYSTEM_TIME AS OF '2030-01-02T03:04:05Z'", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
        (
            "FOR SYSTEM_TIME AS OF TIMESTAMP '2030-01-02T03:04:05+01:00'",
            datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1))),
        ),
    ],
)
def test_time_travel(clause: str, expected: object) -> None:
    sql = f"SELECT * FROM a.b {clause} WHERE x"
    (table,) = parsed(sql).tables
    assert isinstance(table.travel, Travel)
    assert table.travel.point(sql) == expected


def test_what_is_no_time_is_refused() -> None:
    sql = "SELECT * FROM a.b TIMESTAMP AS OF 'nightly'"
    (table,) = parsed(sql).tables
    assert table.travel is not None
    with pytest.raises(InvalidInput, match="'nightly' is not a time, at line 1, column 19"):
        table.travel.point(sql)


def test_an_expression_has_columns_and_queries() -> None:
    sql = "DELETE FROM a.b WHERE x = 1 AND y IN (SELECT y FROM c.d)"
    found = parse_expression(sql, sql.index("x = 1"), len(sql))
    assert found.rewritten(lambda _: "T") == "x = 1 AND y IN (SELECT y FROM T AS `d`)"


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int8()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("o", pa.bool_()),
        ("t", pa.timestamp("us")),
        ("Total", pa.float64()),
    ]
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT sum(x) FROM a.b WHERE k = 7", ["k", "x"]),
        ("SELECT TOTAL FROM a.b", ["Total"]),
        ("SELECT `id` FROM a.b ORDER BY s", ["id", "s"]),
        ("SELECT 1 FROM a.b", ["o"]),
        ("SELECT count(*) FROM a.b GROUP BY k", ["k"]),
        ("SELECT * FROM a.b", None),
        ("SELECT b.* FROM a.b", None),
        ("SELECT c.* FROM a.b JOIN a.b c USING (id)", ["id"]),
        ("SELECT id FROM (SELECT * FROM a.b)", None),
        ("SELECT * FROM (SELECT id FROM a.b)", ["id"]),
        ("SELECT id FROM a.b NATURAL JOIN c.d", None),
        ("SELECT count(*) FROM (a.b NATURAL JOIN c.d)", None),
        ("SELECT id FROM a.b PIVOT (sum(x) FOR k IN (1, 2))", None),
        ("SELECT u FROM a.b AS q(u, v, w, y, z, aa, bb, cc, dd)", None),
        # What is in brackets has the name that the brackets get, too.
        ("SELECT q.* FROM (a.b) AS q", None),
        ("SELECT q.* FROM ((c.d JOIN a.b ON true)) q", None),
        ("SELECT b.* FROM (a.b) AS q", None),
        ("SELECT e.* FROM (a.b) AS q, a.e", ["o"]),
        ("SELECT u FROM (a.b) AS q(u, v, w, y, z, aa, bb, cc, dd)", None),
        ("SELECT r.* FROM a.b AS q, LATERAL (SELECT q.*) r", None),
        ("SELECT r.* FROM a.b AS q, LATERAL (SELECT q.id) r", ["id"]),
        ("SELECT id FROM a.b WHERE EXISTS (SELECT * FROM a.e)", ["id"]),
        # The inner query must not find its column in the outer one.
        ("SELECT (SELECT max(s) FROM a.b) FROM c.e", ["s"]),
        ("SELECT CASE WHEN k > 1 THEN s END FROM a.b", ["k", "s"]),
        # Spark can be told that this means all columns but one.
        ("SELECT `(id)?+.+` FROM a.b", None),
    ],
)
def test_columns_that_are_needed(sql: str, expected: list[str] | None) -> None:
    query = parsed(sql)
    table = next(one for one in query.tables if one.name == ("a", "b"))
    assert needed_columns(query, table, SCHEMA) == expected


def test_the_star_of_a_table_that_lies_deep_is_one_of_all_its_columns() -> None:
    query = parsed("SELECT r.* FROM a.b.c.d, LATERAL (SELECT a.b.c.d.*) r")
    assert needed_columns(query, query.tables[0], SCHEMA) is None


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("k = 7", "`k` = 7"),
        ("7 < id AND s = 'x'", "`id` > 7 AND `s` = 'x'"),
        ("b.id >= -3", "`id` >= -3"),
        ("id IN (1, 2) OR s IS NULL", "((`id` IN (1, 2)) OR (`s` IS NULL))"),
        ("d BETWEEN DATE '2030-01-01' AND DATE '2030-02-01'", "`d` >= date '2030-01-01' AND `d` <= date '2030-02-01'"),
        ("o = true AND s IS NOT NULL", "`o` = true AND `s` IS NOT NULL"),
        ("x < 1.5", "`x` < 1.5"),
        # A NaN is above everything in Spark, whatever its sign.
        ("x > 1.5", "(`x` > 1.5 OR `x` < -1.7976931348623157e308)"),
        # Not the same in both: left to Spark.
        ("x = 0.0", None),
        ("f = 0.1", None),
        ("k = 300", None),
        ("id = -9223372036854775808", None),
        ("d = CAST('2030-02-31' AS DATE)", None),
        ("d = CAST('2030-2-3 ' AS DATE)", None),
        ("k = 1.5", None),
        ("id = '7'", None),
        ("s = 7", None),
        ("s = 'it''s'", None),
        ("s LIKE 'a%'", None),
        ("id + 1 = 2", None),
        ("t > '2030-01-01'", None),
        ("NOT (k = 7)", None),
        ("k = 7 OR length(s) = 3", None),
        ("id IN (SELECT id FROM c.d)", None),
        ("nope = 3", None),
        ("k = 7 AND length(s) = 3", "`k` = 7"),
    ],
)
def test_conditions_that_the_storage_engine_takes(where: str, expected: str | None) -> None:
    query = parsed(f"SELECT 1 FROM a.b WHERE {where}")
    table = next(one for one in query.tables if one.name == ("a", "b"))
    assert pushed_filter(table, SCHEMA) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1 FROM a.b JOIN c.d ON b.id = d.id WHERE b.k = 1", "`k` = 1"),
        ("SELECT 1 FROM c.d JOIN a.b ON b.id = d.id WHERE b.k = 1", "`k` = 1"),
        ("SELECT 1 FROM a.b LEFT JOIN c.d ON b.id = d.id WHERE b.k = 1", "`k` = 1"),
        # Rows that are missing on the right become nulls that a condition may ask for.
        ("SELECT 1 FROM c.d LEFT JOIN a.b ON b.id = d.id WHERE b.k IS NULL", None),
        ("SELECT 1 FROM a.b FULL JOIN c.d ON b.id = d.id WHERE b.k = 1", None),
        ("SELECT 1 FROM a.b RIGHT JOIN c.d ON b.id = d.id WHERE b.k = 1", None),
        # Whose column it is cannot be said without looking at both.
        ("SELECT 1 FROM a.b JOIN c.d ON b.id = d.id WHERE k = 1", None),
        ("SELECT 1 FROM a.b TABLESAMPLE (5 ROWS) WHERE k = 1", None),
        ("SELECT 1 FROM a.b LATERAL VIEW explode(array(1)) q AS k WHERE b.k = 1", None),
        ("SELECT 1 FROM (SELECT * FROM a.b LIMIT 3) WHERE k = 1", None),
        ("SELECT 1 FROM a.b PIVOT (sum(x) FOR k IN (1)) WHERE k = 1", None),
        ("SELECT 1 FROM a.b HAVING count(*) > 1", None),
    ],
)
def test_conditions_only_of_rows_as_they_are(sql: str, expected: str | None) -> None:
    query = parsed(sql)
    table = next(one for one in query.tables if one.name == ("a", "b"))
    assert pushed_filter(table, SCHEMA) == expected


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT count(*) FROM a.b", "count(1)"),
        ("SELECT COUNT(*) AS n FROM a.b VERSION AS OF 3 x", "n"),
        ("SELECT count(*) FROM a.b WHERE true", None),
        ("SELECT count(*) FROM a.b, c.d", None),
        ("SELECT count(*) FROM a.b LIMIT 0", None),
        ("SELECT DISTINCT count(*) FROM a.b", None),
        ("SELECT count(*) FROM a.b TABLESAMPLE (1 ROWS)", None),
        ("SELECT count(*), 1 FROM a.b", None),
        ("SELECT count(x) FROM a.b", None),
        ("SELECT count(DISTINCT x) FROM a.b", None),
        ("SELECT count(*) + 1 FROM a.b", None),
        ("SELECT count(*) OVER () FROM a.b", None),
        ("SELECT count(*) FILTER (WHERE x) FROM a.b", None),
        ("SELECT count(*) FROM a.b GROUP BY k", None),
        ("SELECT count(*) FROM a.b HAVING count(*) > 5", None),
        ("SELECT count(*) FROM (SELECT * FROM a.b)", None),
        ("WITH c AS (SELECT 1) SELECT count(*) FROM a.b", None),
        ("SELECT count(*) FROM a.b LATERAL VIEW explode(l) AS e", None),
    ],
)
def test_bare_counts(sql: str, name: str | None) -> None:
    found = bare_count(parsed(sql))
    assert (None if found is None else found[1]) == name
