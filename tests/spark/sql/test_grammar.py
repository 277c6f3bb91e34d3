"""Every word of a statement is understood, or the statement is refused by the name and the place of the word."""

from typing import Any

import pyarrow as pa
import pytest

from seiche import InvalidInput
from seiche.spark.sql import statements as made
from seiche.spark.sql.grammar import parse

UNDERSTOOD: dict[str, made.Statement] = {
    "BEGIN": made.Begin(),
    "begin transaction": made.Begin(),
    "BEGIN WORK;": made.Begin(),
    "BEGIN ISOLATION LEVEL SERIALIZABLE": made.Begin("serializable"),
    "BEGIN TRANSACTION ISOLATION LEVEL SNAPSHOT": made.Begin("snapshot"),
    "COMMIT": made.Commit(),
    "COMMIT WORK": made.Commit(),
    "ROLLBACK TRANSACTION": made.Rollback(),
    "USE shop": made.Use(("shop",)),
    "USE NAMESPACE shop.eu": made.Use(("shop", "eu")),
    "CREATE NAMESPACE shop": made.CreateNamespace(("shop",)),
    "CREATE SCHEMA IF NOT EXISTS a.b": made.CreateNamespace(("a", "b"), if_not_exists=True),
    "CREATE DATABASE a COMMENT 'x' WITH DBPROPERTIES ('k' = 'v', z.y = 3)": made.CreateNamespace(
        ("a",), properties={"comment": "x", "k": "v", "z.y": "3"}
    ),
    "DROP NAMESPACE IF EXISTS a CASCADE": made.DropNamespace(("a",), if_exists=True, cascade=True),
    "DROP DATABASE a RESTRICT": made.DropNamespace(("a",)),
    "ALTER NAMESPACE a SET PROPERTIES ('k' = 'v')": made.AlterNamespace(("a",), {"k": "v"}),
    "ALTER SCHEMA a UNSET DBPROPERTIES ('k')": made.AlterNamespace(("a",), {"k": None}),
    "CREATE TABLE a.b LIKE c.d": made.CreateTable(("a", "b"), like=("c", "d")),
    "DROP TABLE IF EXISTS `a`.`b.c`": made.DropTable(("a", "b.c"), if_exists=True),
    "DROP VIEW a.v": made.DropView(("a", "v")),
    "ALTER TABLE a.b ADD COLUMN x INT": made.AlterTable(("a", "b"), made.AddColumns((pa.field("x", pa.int32()),))),
    "ALTER TABLE a.b ADD COLUMNS (x INT, y STRING)": made.AlterTable(
        ("a", "b"), made.AddColumns((pa.field("x", pa.int32()), pa.field("y", pa.string())))
    ),
    "ALTER TABLE a.b DROP COLUMNS (x, y)": made.AlterTable(("a", "b"), made.DropColumns(("x", "y"))),
    "ALTER TABLE a.b DROP COLUMN IF EXISTS x": made.AlterTable(("a", "b"), made.DropColumns(("x",), if_exists=True)),
    "ALTER TABLE a.b RENAME COLUMN x TO y": made.AlterTable(("a", "b"), made.RenameColumn("x", "y")),
    "ALTER TABLE a.b RENAME TO a.c": made.AlterTable(("a", "b"), made.RenameTo(("a", "c"))),
    "ALTER TABLE a.b ALTER COLUMN x TYPE BIGINT": made.AlterTable(("a", "b"), made.AlterColumn("x", type=pa.int64())),
    "ALTER TABLE a.b ALTER COLUMN x SET NOT NULL": made.AlterTable(("a", "b"), made.AlterColumn("x", nullable=False)),
    "ALTER TABLE a.b ALTER COLUMN x DROP NOT NULL": made.AlterTable(("a", "b"), made.AlterColumn("x", nullable=True)),
    "ALTER TABLE a.b SET TBLPROPERTIES ('k' = 'v')": made.AlterTable(("a", "b"), made.SetProperties({"k": "v"})),
    "ALTER TABLE a.b UNSET TBLPROPERTIES ('k')": made.AlterTable(("a", "b"), made.SetProperties({"k": None})),
    "DELETE FROM a.b": made.Delete(("a", "b")),
    "DELETE FROM /* -- \\\n */ a.b -- \\ \n-- \\": made.Delete(("a", "b")),
    "TRUNCATE TABLE a.b": made.Delete(("a", "b")),
    "SHOW NAMESPACES": made.Show("namespaces"),
    "SHOW SCHEMAS IN a LIKE 'x*'": made.Show("namespaces", ("a",), "x*"),
    "SHOW TABLES FROM a 'x'": made.Show("tables", ("a",), "x"),
    "SHOW VIEWS": made.Show("views"),
    "SHOW COLUMNS IN a.b": made.Show("columns", ("a", "b")),
    "SHOW TBLPROPERTIES a.b": made.Show("properties", ("a", "b")),
    "SHOW CREATE TABLE a.b": made.Show("create", ("a", "b")),
    "SHOW TAGS": made.Show("tags"),
    "SHOW VERSIONS": made.Show("versions"),
    "DESCRIBE a.b": made.Describe("table", ("a", "b")),
    "DESC TABLE EXTENDED a.b": made.Describe("table", ("a", "b"), extended=True),
    "DESCRIBE NAMESPACE a": made.Describe("namespace", ("a",)),
    "DESCRIBE HISTORY a.b": made.Describe("history", ("a", "b")),
    "OPTIMIZE a.b": made.Optimize(("a", "b")),
    "VACUUM": made.Vacuum(),
    "VACUUM a.b DRY RUN": made.Vacuum(("a", "b"), dry_run=True),
    "CALL seiche.rollback(to => 3)": made.Call("rollback", (), {"to": 3}),
    "CALL seiche.tag('nightly', 7)": made.Call("tag", ("nightly", 7)),
    "CALL seiche.rollback('t', tables => ARRAY('a.b', 'a.c'), dry_run => TRUE)": made.Call(
        "rollback", ("t",), {"tables": ["a.b", "a.c"], "dry_run": True}
    ),
    "CALL seiche.gc()": made.Call("gc"),
}


@pytest.mark.parametrize("sql", UNDERSTOOD)
def test_understood(sql: str) -> None:
    assert parse(sql) == UNDERSTOOD[sql]


@pytest.mark.parametrize(
    "call",
    [
        "get_json_object(a, '$.b[0].c')",
        "get_json_object(a, '$[*].b')",
        "from_utc_timestamp(a, 'UTC')",
        "to_utc_timestamp(a, b)",
    ],
)
def test_functions_that_sqlglot_makes_more_of(call: str) -> None:
    read = parse(f"SELECT {call} FROM a.b")
    assert isinstance(read, made.Select)
    assert [table.name for table in read.query.tables] == [("a", "b")]


def test_types_of_columns() -> None:
    found: Any = parse(
        "CREATE TABLE a.b (id BIGINT NOT NULL COMMENT 'the key', i TINYINT, j SMALLINT, f FLOAT, g DOUBLE, s STRING,"
        " n BINARY, o BOOLEAN, d DATE, t TIMESTAMP, u TIMESTAMP_NTZ, e DECIMAL(10, 2), `odd one` DECIMAL,"
        " l ARRAY<ARRAY<INT>>, m MAP<STRING, ARRAY<DOUBLE>>, r STRUCT<a: INT, b STRING NOT NULL>)"
        " USING seiche COMMENT 'all of them' TBLPROPERTIES ('a' = 'b')"
    )
    utc = pa.timestamp("us", tz="UTC")
    types = [one.type for one in found.columns]
    element = pa.list_(pa.field("element", pa.int32()))
    assert types[:13] == [
        pa.int64(),
        pa.int8(),
        pa.int16(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.date32(),
        utc,
        pa.timestamp("us"),
        pa.decimal128(10, 2),
        pa.decimal128(10, 0),
    ]
    assert types[13] == pa.list_(pa.field("element", element))
    assert types[14] == pa.map_(pa.string(), pa.list_(pa.field("element", pa.float64())))
    assert types[15] == pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string(), nullable=False)])
    assert [one.name for one in found.columns if not one.nullable] == ["id"]
    assert found.columns[0].metadata == {b"comment": b"the key"}
    assert found.properties == {"comment": "all of them", "a": "b"}


def test_types_that_spark_has_and_arrow_calls_otherwise() -> None:
    found: Any = parse("CREATE TABLE a.b (v VARIANT, i INTERVAL DAY TO SECOND, l ARRAY<VARIANT>)")
    types = [one.type for one in found.columns]
    assert types[0].field("metadata").metadata == {b"variant": b"true"}
    assert types[1:] == [pa.duration("us"), pa.list_(pa.field("element", types[0]))]


@pytest.mark.parametrize(
    ("type_", "instead"),
    [
        ("CHAR(5)", "Write STRING."),
        ("TIMESTAMPTZ", "Write TIMESTAMP."),
        ("TIME", "Write STRING, or INTERVAL DAY TO SECOND."),
        ("INTERVAL YEAR TO MONTH", "Write INTERVAL DAY TO SECOND."),
        ("ARRAY", "Write ARRAY<a type>."),
        ("nonsense", "There are BOOLEAN, TINYINT"),
    ],
)
def test_a_type_that_is_not_there_says_what_to_write(type_: str, instead: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(f"CREATE TABLE a.b (c {type_})")
    assert refused.value.remedy.startswith(instead)


# What sqlglot takes for something else than it is (an alias, a rename, another statement) is here in full.
REFUSED: dict[str, tuple[str, int]] = {
    # To Spark the comment goes on: all rows below 9 were deleted, and of a query those were left out.
    "DELETE FROM a.b WHERE x < 9 -- as in C:\\old\\\nAND y = 1": ("the comment ends in a backslash", 28),
    "SELECT x FROM a.b WHERE x < 9 /* -- */ -- \\\nAND y = 1": ("the comment ends in a backslash", 39),
    "START TRANSACTION": ("START", 0),
    "SAVEPOINT a": ("SAVEPOINT", 0),
    "RELEASE SAVEPOINT a": ("RELEASE", 0),
    "ROLLBACK TO SAVEPOINT a": ("TO", 9),
    "ROLLBACK TO a": ("TO", 9),
    "COMMIT AND CHAIN": ("AND", 7),
    "SELECT * FROM shop.t@v3": ("@", 20),
    "SELECT * FROM t@v3": ("@", 15),
    "BEGIN SELECT 1; END": (";", 14),
    "SELECT 1; DROP TABLE a.b": (";", 8),
    "END": ("END", 0),
    "ABORT": ("ABORT", 0),
    "MERGE WITH SCHEMA EVOLUTION INTO a.b t USING c.d s ON t.id = s.id WHEN MATCHED THEN DELETE": ("WITH", 6),
    "REPLACE TABLE a.b AS SELECT 1 AS x": ("REPLACE", 0),
    "RESTORE TABLE a.b TO VERSION AS OF 3": ("RESTORE", 0),
    "ALTER TABLE a.b CHANGE COLUMN x y INT": ("CHANGE", 16),
    "DROP INDEX i ON a.b": ("INDEX", 5),
    "SELECT * INTO c.d FROM a.b": ("Into", 14),
    "SELECT TRANSFORM(x) USING 'cat' FROM a.b": ("QueryTransform", 17),
    "SELECT * FROM IDENTIFIER('a.b')": ("IDENTIFIER", 14),
    "SELECT IDENTIFIER('x') FROM a.b": ("IDENTIFIER", 7),
    "SELECT * FROM a.b |> WHERE x > 1": ("|>", 18),
    "SELECT ? FROM a.b": ("?", 7),
    "SELECT :x FROM a.b": ("Placeholder", 7),
    "SELECT ${x} FROM a.b": ("$", 7),
    "SELECT * FROM a.b FOR UPDATE": ("FOR UPDATE", 18),
    "SELECT * FROM a.b FOR SYSTEM_VERSION AS OF now()": ("SYSTEM_VERSION", 22),
    "SELECT * FROM a.b VERSION AS OF x": ("Version", 32),
    "SELECT * FROM a.b VERSION AS OF -1": ("Version", 18),
    "SELECT * FROM a.b VERSION AS OF 1.5": ("VERSION", 18),
    "SELECT * FROM a.b TIMESTAMP AS OF 5": ("TIMESTAMP", 18),
    "SELECT * FROM (SELECT 1) VERSION AS OF 3": ("VERSION AS OF 3", 25),
    "SELECT FROM WHERE": ("not understood", 12),
    "FROM c.d INSERT INTO a.b SELECT x": ("MultitableInserts", 0),
    "WITH c AS (SELECT 1) INSERT INTO a.b SELECT * FROM c": ("INSERT", 21),
    "INSERT INTO a.b PARTITION (x = 1) SELECT 2": ("PARTITION", 16),
    "INSERT INTO a.b REPLACE WHERE x = 1 SELECT 1": ("REPLACE", 16),
    "INSERT OVERWRITE DIRECTORY '/x' SELECT 1": ("DIRECTORY", 17),
    "INSERT INTO a.b TABLE c.d": ("TABLE", 16),
    "UPDATE a.b SET x = 1 FROM c.d WHERE b.id = d.id": ("FROM", 21),
    "UPDATE a.b SET x = DEFAULT": ("DEFAULT", 19),
    "UPDATE a.b SET x = 1, X = 2": ("X is set twice", 22),
    "UPDATE a.b SET s.f.g = 1": ("s.f.g", 15),
    "DELETE FROM a.b USING c.d WHERE b.x = d.x": ("USING", 16),
    "DELETE FROM a.b WHERE x = 1 y": ("Alias", 22),
    "DELETE FROM a.b WHERE": ("the statement ends too early", 21),
    "MERGE INTO a.b t USING c.d s ON t.id = s.id": ("the statement ends too early", 43),
    "MERGE INTO a.b t USING c.d t ON t.id = t.id WHEN MATCHED THEN DELETE": ("both called t", 29),
    "MERGE INTO a.b t USING c.d s ON t.id = s.id WHEN MATCHED THEN INSERT *": ("this clause", 44),
    "MERGE INTO a.b t USING c.d s ON t.id = s.id WHEN NOT MATCHED THEN DELETE": ("this clause", 44),
    "MERGE INTO a.b t USING c.d s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *": ("source", 44),
    "MERGE INTO a.b t USING c.d s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN MATCHED AND s.x THEN UPDATE SET *": (
        "must be the last",
        0,
    ),
    "CREATE TABLE a.b (id INT) PARTITIONED BY (id)": ("PARTITIONED", 26),
    "CREATE TABLE a.b (id INT DEFAULT 3)": ("DEFAULT", 25),
    "CREATE TABLE a.b (id INT, PRIMARY KEY (id))": ("PRIMARY", 26),
    "CREATE TABLE a.b (s VARCHAR(10))": ("VARCHAR", 20),
    "CREATE TABLE a.b (d DECIMAL(39, 2))": ("DECIMAL(39, 2) is not possible", 28),
    "CREATE TABLE a.b (c CHAR(5))": ("CHAR is not understood: columns of a lake have no such type", 20),
    "CREATE TABLE a.b (c INTERVAL YEAR TO MONTH)": ("INTERVAL is not understood", 20),
    "CREATE TABLE a.b (c ARRAY)": ("ARRAY is not understood", 20),
    "CREATE TABLE a.b (c nonsense)": ("nonsense is not understood", 20),
    "CREATE TABLE a.b (id INT) USING parquet": ("parquet", 32),
    "CREATE TABLE a.b (id INT) AS SELECT 1": ("AS", 26),
    "CREATE EXTERNAL TABLE a.b (id INT)": ("EXTERNAL", 7),
    "CREATE TEMPORARY VIEW v AS SELECT 1": ("TEMPORARY", 7),
    "CREATE FUNCTION f AS 'x'": ("FUNCTION", 7),
    "DROP TABLE a.b PURGE": ("PURGE", 15),
    "ALTER TABLE a.b ADD COLUMN x INT NOT NULL": ("NOT NULL", 41),
    "ALTER TABLE a.b ADD COLUMN x INT AFTER y": ("AFTER", 33),
    "ALTER TABLE a.b ALTER COLUMN x COMMENT 'c'": ("COMMENT", 31),
    "OPTIMIZE a.b ZORDER BY (x)": ("ZORDER", 13),
    "VACUUM a.b RETAIN 0 HOURS": ("RETAIN", 11),
    "CALL spark.tag('x')": ("spark", 5),
    "CALL seiche.tag(name => 'x', 7)": ("7", 29),
    "CALL seiche.tag(1 + 1)": ("+", 18),
    "SHOW FUNCTIONS": ("FUNCTIONS", 5),
    "CACHE TABLE a.b": ("CACHE", 0),
    "EXPLAIN SELECT 1": ("EXPLAIN", 0),
    "SET x = 1": ("SET", 0),
    "GRANT SELECT ON a.b TO c": ("GRANT", 0),
    "TABLE a.b": ("TABLE", 0),
    "LOAD DATA INPATH '/x' INTO TABLE a.b": ("LOAD", 0),
    "COPY INTO a.b FROM '/x'": ("COPY", 0),
    "EXECUTE IMMEDIATE 'SELECT 1'": ("EXECUTE", 0),
    # What is never closed: where it opens, whatever quotes there are inside of others before it.
    "SELECT 'abc": ("what opens here is never closed", 7),
    r"""SELECT 'it\'s', "a 'b", `c'` FROM a.b WHERE d = 'x""": ("what opens here is never closed", 48),
    "SELECT 1 /* 'two'": ("what opens here is never closed", 9),
    "SELECT x'0f', X'0g'": ("X'...' is not made of hexadecimal digits", 14),
}


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_by_name_and_place(sql: str) -> None:
    name, at = REFUSED[sql]
    with pytest.raises(InvalidInput) as refused:
        parse(sql)
    assert name in refused.value.message
    assert refused.value.position == at, refused.value.message
    assert f"line 1, column {at + 1}" in refused.value.message


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- nothing\n", "SELECT 'abc"])
def test_nothing_to_execute(sql: str) -> None:
    with pytest.raises(InvalidInput):
        parse(sql)


def test_the_place_counts_lines() -> None:
    with pytest.raises(InvalidInput, match=r"TO is not understood.*line 3, column 2"):
        parse("/* a\n comment */ ROLLBACK\n TO a")


def test_keywords_in_names_and_texts_are_no_keywords() -> None:
    found: Any = parse("UPDATE `set`.`where` AS `from` SET `when` = 'SET x = 1; WHERE', y = CASE WHEN a THEN b END")
    assert (found.table, found.alias) == (("set", "where"), "from")
    assert [name for name, _ in found.assignments] == ["when", "y"]
    values = [value.text[value.start : value.end] for _, value in found.assignments]
    assert values == ["'SET x = 1; WHERE'", "CASE WHEN a THEN b END"]


def test_a_merge_in_parts() -> None:
    found: Any = parse(
        "MERGE INTO a.b AS t USING (SELECT * FROM c.d WHERE x IN (1, 2)) s"
        " ON t.id = s.id AND CASE WHEN s.x THEN 1 END = 1"
        " WHEN MATCHED AND s.x > 1 THEN UPDATE SET t.x = CASE WHEN s.x = 2 THEN 3 END, y = s.y"
        " WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED BY TARGET AND s.y THEN INSERT (id, x) VALUES (s.id, coalesce(s.x, 1))"
        " WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET x = 0"
    )
    assert (found.table, found.alias, found.source_alias) == (("a", "b"), "t", "s")
    assert [(one.side, one.action, one.condition is None) for one in found.clauses] == [
        ("matched", "update", False),
        ("matched", "delete", True),
        ("not matched", "insert", False),
        ("not matched", "insert", True),
        ("not matched by source", "update", True),
    ]
    assert [name for name, _ in found.clauses[0].assignments] == ["x", "y"]
    assert [value.text[value.start : value.end] for _, value in found.clauses[2].assignments] == [
        "s.id",
        "coalesce(s.x, 1)",
    ]
    assert found.clauses[3].assignments is None


def test_a_statement_that_the_parser_does_not_know_is_refused_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """The parser itself logs a warning, which the command would print besides."""
    with pytest.raises(InvalidInput, match="is not understood"):
        parse("WITH x AS (SELECT 1) GRANT a TO b")
    assert not caplog.records
