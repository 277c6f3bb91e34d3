"""What Spark does to a lake through the Iceberg REST catalog, run by an environment of its own (`make interop-jvm`).

python spark_client.py URL JARS
Prints one line of JSON: what it saw. It knows nothing of Seiche.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def session(url: str, jars: str) -> Any:
    catalog = "spark.sql.catalog.lake"
    settings = {
        "spark.jars": jars,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "rest",
        f"{catalog}.uri": url,
        f"{catalog}.warehouse": "lake",
        f"{catalog}.header.X-Iceberg-Access-Delegation": "vended-credentials",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder: Any = SparkSession.builder
    builder = builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows(spark: Any, query: str) -> list[list[Any]]:
    return [list(row) for row in spark.sql(query).collect()]


def life(spark: Any) -> dict[str, Any]:
    """A table from its making to its compaction."""
    saw: dict[str, Any] = {}
    spark.sql("CREATE NAMESPACE lake.db")
    spark.sql(
        "CREATE TABLE lake.db.t (id BIGINT, v STRING) USING iceberg PARTITIONED BY (v)"
        " TBLPROPERTIES ('seiche.partition-statistics' = 'true')"
    )
    spark.sql("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    spark.sql("INSERT INTO lake.db.t VALUES (4, 'c')")
    snapshots = [row[0] for row in rows(spark, "SELECT snapshot_id FROM lake.db.t.snapshots ORDER BY committed_at")]
    spark.sql("CREATE TABLE lake.db.news USING iceberg AS SELECT 2L AS id, 'z' AS v UNION ALL SELECT 9L, 'n'")
    spark.sql(
        "MERGE INTO lake.db.t USING lake.db.news ON t.id = news.id"
        " WHEN MATCHED THEN UPDATE SET v = news.v WHEN NOT MATCHED THEN INSERT *"
    )
    saw["merged"] = rows(spark, "SELECT * FROM lake.db.t ORDER BY id")
    saw["first"] = rows(spark, f"SELECT * FROM lake.db.t VERSION AS OF {snapshots[0]} ORDER BY id")
    spark.sql("CREATE OR REPLACE TABLE lake.db.news USING iceberg AS SELECT id, v, true AS old FROM lake.db.news")
    saw["replaced"] = rows(spark, "SELECT * FROM lake.db.news ORDER BY id")
    spark.sql("REPLACE TABLE lake.db.news (id BIGINT) USING iceberg")
    saw["emptied"] = rows(spark, "SELECT * FROM lake.db.news")
    spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    spark.sql("UPDATE lake.db.t SET v = 'u' WHERE id = 3")
    spark.sql("ALTER TABLE lake.db.t ADD COLUMN more INT")
    spark.sql(f"ALTER TABLE lake.db.t CREATE TAG start AS OF VERSION {snapshots[0]}")
    saw["tagged"] = rows(spark, "SELECT count(*) FROM lake.db.t VERSION AS OF 'start'")
    spark.sql("CALL lake.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    saw["last"] = rows(spark, "SELECT * FROM lake.db.t ORDER BY id")
    spark.sql("CREATE VIEW lake.db.few AS SELECT id FROM lake.db.t WHERE id < 4")
    saw["view"] = rows(spark, "SELECT * FROM lake.db.few ORDER BY id")
    spark.sql("CALL lake.system.compute_partition_stats(table => 'db.t')")
    saw["tables"] = sorted(row[1] for row in rows(spark, "SHOW TABLES IN lake.db"))
    return saw


def together(spark: Any, url: str) -> dict[str, Any]:
    """Rows of two tables become visible by one commit of Java's REST client, or none of them does."""
    for name in ("one", "two"):
        spark.sql(f"CREATE TABLE lake.db.{name} (id BIGINT) USING iceberg")
        spark.sql(f"INSERT INTO lake.db.{name} VALUES (1)")
        spark.sql(f"ALTER TABLE lake.db.{name} CREATE BRANCH staged")
        spark.sql(f"INSERT INTO lake.db.{name}.branch_staged VALUES (2)")
    java = spark.sparkContext._jvm
    catalog = java.org.apache.iceberg.rest.RESTCatalog()
    catalog.initialize("java", java.java.util.HashMap({"uri": url, "warehouse": "lake"}))
    names = [java.org.apache.iceberg.catalog.TableIdentifier.parse(f"db.{name}") for name in ("one", "two")]
    commits = [moved(java, catalog, name) for name in names]
    catalog.commitTransaction(commits)
    saw: dict[str, Any] = {"visible": [counted(spark, name) for name in ("one", "two")]}
    for name in ("one", "two"):
        spark.sql(f"INSERT INTO lake.db.{name}.branch_staged VALUES (3)")
    commits = [moved(java, catalog, name) for name in names]
    spark.sql("INSERT INTO lake.db.two VALUES (7)")
    try:
        catalog.commitTransaction(commits)
    except Exception as refused:
        saw["refused"] = str(getattr(refused, "java_exception", refused)).split(":")[0]
    spark.sql("REFRESH TABLE lake.db.one")
    spark.sql("REFRESH TABLE lake.db.two")
    saw["after"] = [counted(spark, name) for name in ("one", "two")]
    return saw


def moved(java: Any, catalog: Any, name: Any) -> Any:
    """A commit that makes `main` what `staged` is."""
    table = catalog.loadTable(name)
    begun = table.newTransaction()
    staged = table.refs().get("staged").snapshotId()
    begun.manageSnapshots().replaceBranch("main", staged).commit()
    changed = begun.table().operations().current()
    return java.org.apache.iceberg.catalog.TableCommit.create(name, table.operations().current(), changed)


def counted(spark: Any, name: str) -> int:
    spark.sql(f"REFRESH TABLE lake.db.{name}")
    return int(spark.sql(f"SELECT count(*) FROM lake.db.{name}").collect()[0][0])


def main() -> None:
    url, jars = sys.argv[1:3]
    spark = session(url, jars)
    try:
        print(json.dumps({**life(spark), **together(spark, url)}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
