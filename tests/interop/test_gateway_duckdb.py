"""DuckDB 1.5 with its own extensions, as they are, through both gateways of a lake."""

import importlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pytest
from lance.namespace import RestNamespace

import seiche
from seiche import InvalidInput, Lake, Unavailable
from seiche.gateway.iceberg_rest import commits
from seiche.gateway.iceberg_rest.commits import Commits
from seiche.gateway.lance_namespace.namespace import DeskNamespace
from seiche.lake.iceberg import new_files
from seiche.store import open_store
from seiche.table.format import file
from seiche.table.format.flags import SEICHE_FENCE
from tests.gateway_server import Gateways, gateways
from tests.servers import S3Server


def extension(name: str) -> str:
    module = importlib.import_module(f"duckdb_extension_{name}")
    return str(next(Path(str(module.__file__)).parent.rglob("*.duckdb_extension")))


def iceberg(servers: Gateways) -> Any:
    connection = duckdb.connect()
    for name in ("httpfs", "avro", "iceberg"):
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute(f"ATTACH 'lake' AS ice (TYPE ICEBERG, ENDPOINT '{servers.iceberg}', AUTHORIZATION_TYPE 'none')")
    return connection


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("s")
    return made


@pytest.fixture
def servers(lake: Lake) -> Iterator[Gateways]:
    with gateways(lake) as made:
        yield made


def rows(lake: Lake, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lake.table(table).to_arrow().to_pylist())


def life(servers: Gateways) -> None:
    lake, sql = servers.lake, iceberg(servers)
    sql.execute("CREATE SCHEMA ice.x")
    sql.execute("CREATE TABLE ice.s.t (id INTEGER, v VARCHAR)")
    sql.execute("CREATE TABLE ice.s.u (id INTEGER, v VARCHAR)")
    sql.execute("INSERT INTO ice.s.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    sql.execute("UPDATE ice.s.t SET v = 'z' WHERE id = 2")
    sql.execute("DELETE FROM ice.s.t WHERE id = 3")
    assert sql.execute("SELECT * FROM ice.s.t ORDER BY id").fetchall() == [(1, "a"), (2, "z")]
    assert rows(lake, "s.t") == [(1, "a"), (2, "z")]
    before = lake.version
    sql.execute("BEGIN")
    sql.execute("INSERT INTO ice.s.t VALUES (10, 'x')")
    sql.execute("INSERT INTO ice.s.u VALUES (10, 'x')")
    assert lake.version == before
    sql.execute("COMMIT")
    assert lake.version == before + 1, "two tables, one version of the lake"
    assert rows(lake, "s.u") == [(10, "x")]
    sql.execute("BEGIN")
    sql.execute("INSERT INTO ice.s.t VALUES (11, 'y')")
    sql.execute("ROLLBACK")
    sql.execute("CREATE TABLE ice.s.made AS SELECT 1 AS a, 2 AS b")
    sql.execute("ALTER TABLE ice.s.made ADD COLUMN c VARCHAR")
    assert rows(lake, "s.made") == [(1, 2, None)]
    sql.execute("DROP TABLE ice.s.made")
    sql.execute("DROP SCHEMA ice.x")
    assert rows(lake, "s.t") == [(1, "a"), (2, "z"), (10, "x")]
    assert lake.fsck().problems == ()


def test_tables_live_through_sql(servers: Gateways) -> None:
    life(servers)


@pytest.mark.slow
def test_tables_live_through_sql_in_a_bucket(seaweedfs: S3Server) -> None:
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    lake.create_namespace("s")
    with gateways(lake) as servers:
        life(servers)


def test_tables_of_version_three(servers: Gateways) -> None:
    sql = iceberg(servers)
    sql.execute("CREATE TABLE ice.s.t (id INTEGER) WITH ('format-version' = '3')")
    sql.execute("INSERT INTO ice.s.t VALUES (1), (2)")
    sql.execute("INSERT INTO ice.s.t VALUES (3)")
    sql.execute("DELETE FROM ice.s.t WHERE id = 1")
    assert sql.execute("SELECT * FROM ice.s.t ORDER BY id").fetchall() == [(2,), (3,)]
    metadata = servers.ask("GET", "/v1/lake/namespaces/s/tables/t").json["metadata"]
    assert (metadata["format-version"], metadata["next-row-id"]) == (3, 3)


@pytest.mark.parametrize("inserts", [1, 2])
def test_rows_of_a_table_that_was_raised_to_version_three_have_ids_of_their_own(
    servers: Gateways, inserts: int
) -> None:
    """It gives ids to those that are there, and counts only the new ones, also in a transaction of several inserts."""
    sql = iceberg(servers)
    sql.execute("CREATE TABLE ice.s.t (id INTEGER) WITH ('format-version' = '2')")
    sql.execute("INSERT INTO ice.s.t VALUES (1), (2), (3)")
    body = {"requirements": [], "updates": [{"action": "upgrade-format-version", "format-version": 3}]}
    assert servers.ask("POST", "/v1/lake/namespaces/s/tables/t", body).status == 200
    sql.execute("BEGIN")
    for number in range(inserts):
        sql.execute(f"INSERT INTO ice.s.t VALUES ({4 + number})")
    sql.execute("COMMIT")
    sql.execute("INSERT INTO ice.s.t VALUES (9)")
    metadata = servers.ask("GET", "/v1/lake/namespaces/s/tables/t").json["metadata"]
    last = next(one for one in metadata["snapshots"] if one["snapshot-id"] == metadata["current-snapshot-id"])
    assert (last["first-row-id"], metadata["next-row-id"]) == (3 + inserts, 4 + inserts)


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_a_rollback_took_back_are_gone_for_it_too(servers: Gateways, version: int) -> None:
    """It shows the newest snapshot of a table that has no current one."""
    sql = iceberg(servers)
    sql.execute(f"CREATE TABLE ice.s.t (id INTEGER) WITH ('format-version' = '{version}')")
    empty = servers.lake.version
    sql.execute("INSERT INTO ice.s.t VALUES (1), (2)")
    servers.lake.rollback(to=empty)
    assert sql.execute("SELECT * FROM ice.s.t").fetchall() == rows(servers.lake, "s.t") == []
    sql.execute("INSERT INTO ice.s.t VALUES (3)")
    assert sql.execute("SELECT * FROM ice.s.t").fetchall() == rows(servers.lake, "s.t") == [(3,)]


def test_a_table_is_altered_after_a_rollback_took_a_column_back(servers: Gateways) -> None:
    """It numbers a schema by the current one, and refuses to send what has the number of another."""
    sql, lake = iceberg(servers), servers.lake
    sql.execute("CREATE TABLE ice.s.t (id INTEGER)")
    sql.execute("INSERT INTO ice.s.t VALUES (1)")
    before = lake.version
    sql.execute("ALTER TABLE ice.s.t ADD COLUMN a INTEGER")
    sql.execute("INSERT INTO ice.s.t VALUES (2, 20)")
    for _ in range(2):
        lake.rollback(to=before)
        sql.execute("ALTER TABLE ice.s.t ADD COLUMN b INTEGER")
        sql.execute("INSERT INTO ice.s.t VALUES (3, 30)")
        assert rows(lake, "s.t") == [(1, None), (3, 30)]
    assert lake.table("s.t").to_arrow().column_names == ["id", "b"]


@pytest.mark.parametrize("version", [2, 3])
def test_rows_of_a_table_that_was_replaced_by_an_empty_one_are_gone_for_it_too(servers: Gateways, version: int) -> None:
    """As above: `CREATE OR REPLACE TABLE` of Spark and Trino takes the main branch away, and keeps the snapshots."""
    sql = iceberg(servers)
    sql.execute(f"CREATE TABLE ice.s.t (id INTEGER) WITH ('format-version' = '{version}')")
    sql.execute("INSERT INTO ice.s.t VALUES (1), (2)")
    (before,) = servers.lake.table("s.t").metadata.snapshots  # type: ignore[attr-defined]
    body = {"requirements": [], "updates": [{"action": "remove-snapshot-ref", "ref-name": "main"}]}
    assert servers.ask("POST", "/v1/lake/namespaces/s/tables/t", body).status == 200
    assert sql.execute("SELECT * FROM ice.s.t").fetchall() == rows(servers.lake, "s.t") == []
    past = servers.lake.table("s.t").to_iceberg().scan(snapshot_id=before.snapshot_id)
    assert past.to_arrow().num_rows == 2
    sql.execute("INSERT INTO ice.s.t VALUES (3)")
    assert sql.execute("SELECT * FROM ice.s.t").fetchall() == rows(servers.lake, "s.t") == [(3,)]
    assert servers.lake.fsck().problems == ()


def test_a_transaction_over_two_tables_fails_as_a_whole(servers: Gateways) -> None:
    sql, lake = iceberg(servers), servers.lake
    for table in ("t", "u"):
        sql.execute(f"CREATE TABLE ice.s.{table} (id INTEGER)")
    sql.execute("BEGIN")
    sql.execute("INSERT INTO ice.s.t VALUES (1)")
    sql.execute("INSERT INTO ice.s.u VALUES (1)")
    lake.table("s.u").append(pa.table({"id": pa.array([2], pa.int32())}))
    with pytest.raises(duckdb.Error, match="main"):
        sql.execute("COMMIT")
    assert (rows(lake, "s.t"), rows(lake, "s.u")) == ([], [(2,)])


@pytest.mark.parametrize("kind", ["answer", "server"])
def test_an_answer_that_is_lost_does_not_lose_or_double_rows(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """DuckDB sends a commit again after a 500 or 503. What it wrote must be there once, and its files must be too."""
    sql = iceberg(servers)
    sql.execute("CREATE TABLE ice.s.t (id INTEGER)")
    plain = Commits.commit
    lost: list[Any] = []

    def lose(self: Commits, changes: Any, key: str | None) -> Any:
        made = plain(self, changes, key)
        if not lost:
            lost.append(changes)
            raise Unavailable("the answer is lost") if kind == "answer" else RuntimeError("the server died")
        return made

    monkeypatch.setattr(commits.Commits, "commit", lose)
    sql.execute("INSERT INTO ice.s.t VALUES (1), (2)")
    assert lost
    assert rows(servers.lake, "s.t") == [(1,), (2,)]
    assert sql.execute("SELECT count(*) FROM ice.s.t").fetchall() == [(2,)]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("back", [False, True])
def test_rows_that_only_it_would_know_as_deleted_are_not_deleted(servers: Gateways, version: int, back: bool) -> None:
    """It notes deletions of rows from before a change of partitions under the new ones: others showed the rows."""
    sql = iceberg(servers)
    sql.execute(f"CREATE TABLE ice.s.t (id INTEGER, v VARCHAR) WITH ('format-version'='{version}')")
    sql.execute("INSERT INTO ice.s.t VALUES (1, 'a'), (2, 'a')")
    sql.execute("ALTER TABLE ice.s.t SET PARTITIONED BY (v)")
    sql.execute("INSERT INTO ice.s.t VALUES (3, 'b'), (4, 'b')")
    if back:
        sql.execute("ALTER TABLE ice.s.t RESET PARTITIONED BY")
    for statement in (f"DELETE FROM ice.s.t WHERE id = {3 if back else 1}", "UPDATE ice.s.t SET v = 'z' WHERE id < 5"):
        with pytest.raises(duckdb.Error, match="most engines would not find the deletion"):
            sql.execute(statement)
    sql.execute("INSERT INTO ice.s.t VALUES (5, 'c')")
    assert [row[0] for row in rows(servers.lake, "s.t")] == [1, 2, 3, 4, 5]
    if not back:  # else it has other partitions in mind for every row
        sql.execute("DELETE FROM ice.s.t WHERE id = 5")
        assert [row[0] for row in rows(servers.lake, "s.t")] == [1, 2, 3, 4]
    assert sql.execute("SELECT count(*) FROM ice.s.t").fetchall() == [(5 if back else 4,)]


def test_a_table_with_rows_that_only_it_knows_as_deleted_is_not_taken(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another catalog lets it make one: the rows were back once it was registered."""
    sql, lake = iceberg(servers), servers.lake
    sql.execute("CREATE TABLE ice.s.t (id INTEGER, v VARCHAR)")
    sql.execute("INSERT INTO ice.s.t VALUES (1, 'a'), (2, 'a')")
    sql.execute("ALTER TABLE ice.s.t SET PARTITIONED BY (v)")
    sound = lake.table("s.t").metadata_location  # type: ignore[attr-defined]
    with monkeypatch.context() as anywhere:
        anywhere.setattr(new_files, "_misnoted", lambda *_: "")
        sql.execute("INSERT INTO ice.s.t VALUES (3, 'b')")
        sql.execute("DELETE FROM ice.s.t WHERE id = 1")
    where = lake.table("s.t").metadata_location  # type: ignore[attr-defined]
    lake.drop_table("s.t")
    with pytest.raises(InvalidInput, match="most engines would not find the deletion"):
        lake.run(lambda tx: tx.register_iceberg("s.u", where))
    lake.run(lambda tx: tx.register_iceberg("s.u", sound))
    assert rows(lake, "s.u") == [(1, "a"), (2, "a")]


def test_tables_of_the_other_format_are_listed_and_refused(servers: Gateways) -> None:
    servers.lake.create_table("s.lance", pa.schema([("i", pa.int64())]))
    sql = iceberg(servers)
    sql.execute("CREATE TABLE ice.s.t (id INTEGER)")
    listed = {row[2] for row in sql.execute("SHOW ALL TABLES").fetchall()}
    assert listed == {"lance", "t"}
    with pytest.raises(duckdb.Error, match="Lance Namespace protocol"):
        sql.execute("SELECT * FROM ice.s.lance")
    identifiers = servers.ask("GET", "/v1/lake/namespaces/s/tables").json["identifiers"]
    assert {one["name"]: one["format"] for one in identifiers} == {"lance": "lance", "t": "iceberg"}


def attached(servers: Gateways) -> Any:
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension('lance')}'")
    connection.execute(f"ATTACH 's' AS ln (TYPE LANCE, ENDPOINT '{servers.lance}')")
    return connection


def test_its_lance_extension_reads_and_may_not_write(servers: Gateways) -> None:
    """It is built on a release of Lance that passes servers by when it writes; it is not told the way."""
    lake = servers.lake
    table = lake.create_table("s.t", pa.schema([("i", pa.int64())]))
    table.append(pa.table({"i": [1, 2]}))
    assert attached(servers).execute("SELECT * FROM ln.main.t ORDER BY i").fetchall() == [(1,), (2,)]
    table.append(pa.table({"i": [3]}))
    connection = attached(servers)
    assert connection.execute("SELECT count(*) FROM ln.main.t").fetchall() == [(3,)]
    before = lake.version
    for statement in (
        "INSERT INTO ln.main.t VALUES (4)",
        "DELETE FROM ln.main.t WHERE i = 2",
        "UPDATE ln.main.t SET i = 9 WHERE i = 1",
        "TRUNCATE ln.main.t",
    ):
        with pytest.raises(duckdb.Error, match="scheme: 'seiche'"):
            connection.execute(statement)
    assert attached(servers).execute("SELECT * FROM ln.main.t ORDER BY i").fetchall() == [(1,), (2,), (3,)]
    for statement in ("CREATE TABLE ln.main.x (i BIGINT)", "CREATE TABLE ln.main.y AS SELECT 1::BIGINT AS i"):
        with pytest.raises(duckdb.Error, match="declare_table"):
            connection.execute(statement)
    assert (rows(lake, "s.t"), lake.version) == ([(1,), (2,), (3,)], before)
    assert lake.tables("s") == [("s", "t")], "no table is made that nobody finds"
    assert lake.fsck().problems == ()


def test_a_desk_is_closed_to_it_and_open_to_releases_that_commit_through_the_server(servers: Gateways) -> None:
    """The extension has Lance 6. The flag that keeps it out is known to Lance 11 and newer; LanceDB comes with 13."""
    servers.lake.create_table("s.t", pa.schema([("i", pa.int64())]))
    desk = Path(servers.ask("POST", "/v1/table/s%24t/describe", {}, lance=True).json["location"])
    (shown,) = (desk / "_versions").iterdir()
    header = file.decode(shown.read_bytes(), path=str(shown)).manifest.header
    assert (header.reader_feature_flags, header.writer_feature_flags) == (16, 16 | 128)
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension('lance')}'")
    (desk.parent / "t.lance").symlink_to(desk)
    connection.execute(f"ATTACH '{desk.parent}' AS past (TYPE LANCE)")
    with pytest.raises(duckdb.Error, match="cannot be written"):
        connection.execute("INSERT INTO past.main.t VALUES (1)")
    names = RestNamespace(uri=servers.lance)  # type: ignore[no-untyped-call]
    commit = lance.dataset(namespace_client=names, table_id=["s", "t"])
    commit.insert(pa.table({"i": [1]}))
    assert rows(servers.lake, "s.t") == [(1,)]
    table = seiche.Table.open(servers.lake.table("s.t").uri)
    assert table.manifest.header.writer_feature_flags == SEICHE_FENCE, "the lake does not keep it"


def test_what_its_lance_extension_alters_is_a_commit_of_the_lake(
    servers: Gateways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its statements that write, only this one comes through the server: what others do meanwhile is not lost."""
    lake = servers.lake
    table = lake.create_table("s.t", pa.schema([("i", pa.int64())]))
    table.append(pa.table({"i": [1, 2]}))
    for statement, names in (
        ("ALTER TABLE ln.main.t ADD COLUMN j BIGINT", ["i", "j"]),
        ("ALTER TABLE ln.main.t RENAME COLUMN i TO k", ["k", "j"]),
        ("ALTER TABLE ln.main.t DROP COLUMN j", ["k"]),
    ):
        before = lake.version
        attached(servers).execute(statement)
        assert (lake.version, lake.table("s.t").schema.names) == (before + 1, names)
    assert attached(servers).execute("SELECT k FROM ln.main.t ORDER BY k").fetchall() == [(1,), (2,)]
    create, faster = DeskNamespace._create_all, [3]

    def late(self: DeskNamespace, entries: Any) -> Any:
        while faster:
            lake.table("s.t").append(pa.table({"k": [faster.pop()]}))
        return create(self, entries)

    monkeypatch.setattr(DeskNamespace, "_create_all", late)
    with suppress(duckdb.Error):
        attached(servers).execute("ALTER TABLE ln.main.t ADD COLUMN l BIGINT")
    assert sorted(lake.table("s.t").to_arrow()["k"].to_pylist()) == [1, 2, 3]
    assert lake.fsck().problems == ()
