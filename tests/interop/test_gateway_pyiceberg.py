"""PyIceberg 0.12, as it is, through the Iceberg REST catalog of a lake."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import exceptions as refusals
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

import seiche
from seiche import Lake
from seiche.store import open_store
from tests.gateway_server import Gateways, gateways
from tests.processes import CONTEXT
from tests.servers import S3Server

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", "c"]})


def catalog(url: str, **options: str) -> RestCatalog:
    return RestCatalog("c", uri=url, warehouse="lake", **options)


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("a")
    return made


@pytest.fixture
def servers(lake: Lake) -> Iterator[Gateways]:
    with gateways(lake) as made:
        yield made


def life(lake: Lake, url: str) -> None:
    """A table from its making to its end, by everything that PyIceberg can do to one."""
    client = catalog(url)
    client.create_namespace(("a", "b"), {"x": "y"})
    table = client.create_table(("a", "b", "t"), ROWS.schema, properties={"p": "q"})
    table.append(ROWS)
    table.append(pa.table({"id": [4, 5], "s": ["d", "e"]}))
    first = table.current_snapshot()
    assert first is not None
    assert ids(table) == [1, 2, 3, 4, 5]
    table.delete("id = 5")
    table.overwrite(pa.table({"id": [40], "s": ["x"]}), overwrite_filter="id = 4")
    assert ids(table) == [1, 2, 3, 40]
    assert sorted(table.scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    result = table.upsert(pa.table({"id": [1, 9], "s": ["q", "r"]}), join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    with table.update_schema() as schema:
        schema.add_column("z", StringType())
        schema.rename_column("s", "text")
    with table.update_spec() as spec:
        spec.add_identity("text")
    table.append(pa.table({"id": [10], "text": ["t"], "z": ["z"]}))
    with table.transaction() as transaction:
        transaction.set_properties({"k": "v"})
        transaction.remove_properties("p")
    assert table.properties == {"k": "v"}
    table.manage_snapshots().create_tag(first.snapshot_id, "start").create_branch(first.snapshot_id, "dev").commit()
    table.manage_snapshots().remove_tag("start").commit()
    assert set(table.refs()) == {"main", "dev"}
    expired = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(expired).commit()
    assert expired not in {one.snapshot_id for one in table.snapshots()}
    left, version = table.snapshots(), lake.version
    table.maintenance.expire_snapshots().older_than(datetime(2020, 1, 1, tzinfo=UTC)).commit()
    assert (client.load_table("a.b.t").snapshots(), lake.version) == (left, version)
    found = lake.table("a.b.t").to_arrow()
    assert sorted(found["id"].to_pylist()) == ids(table) == [1, 2, 3, 9, 10, 40]
    client.rename_table(("a", "b", "t"), ("a", "u"))
    assert client.list_tables("a") == [("a", "u")]
    where = client.load_table("a.u").metadata_location
    client.drop_table("a.u")
    assert not client.table_exists("a.u")
    assert ids(client.register_table("a.back", where)) == [1, 2, 3, 9, 10, 40]
    client.purge_table("a.back")
    client.drop_namespace(("a", "b"))
    assert client.list_tables("a") == []
    assert lake.fsck().problems == ()


def test_the_life_of_a_table(servers: Gateways) -> None:
    life(servers.lake, servers.iceberg)


@pytest.mark.slow
def test_the_life_of_a_table_in_a_bucket_with_nothing_configured_at_the_client(seaweedfs: S3Server) -> None:
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    lake.create_namespace("a")
    with gateways(lake) as servers:
        life(lake, servers.iceberg)
        with catalog(servers.iceberg).create_table_transaction("a.staged", ROWS.schema) as transaction:
            transaction.append(ROWS)
        assert lake.table("a.staged").to_arrow().num_rows == 3
        keys = servers.ask("GET", "/v1/lake/namespaces/a/tables/staged/credentials").json["storage-credentials"]
        assert keys[0]["config"]["s3.secret-access-key"]
        unasked = servers.ask("GET", "/v1/lake/namespaces/a/tables/staged").json
        assert "s3.secret-access-key" not in unasked["config"]
        assert "storage-credentials" not in unasked


def test_tables_that_are_made_with_their_rows(servers: Gateways) -> None:
    client = catalog(servers.iceberg)
    schema = Schema(NestedField(5, "id", LongType(), required=True), NestedField(9, "s", StringType()))
    spec = PartitionSpec(PartitionField(9, 1000, IdentityTransform(), "s"))
    with client.create_table_transaction("a.t", schema, partition_spec=spec, properties={"x": "y"}) as transaction:
        assert not client.table_exists("a.t")
        transaction.append(ROWS.cast(pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])))
    table = client.load_table("a.t")
    assert ids(table) == [1, 2, 3]
    assert table.properties == {"x": "y"}
    assert len(table.spec().fields) == 1
    with pytest.raises(refusals.TableAlreadyExistsError):
        client.create_table_transaction("a.t", schema)


def test_namespaces(servers: Gateways) -> None:
    client = catalog(servers.iceberg, **{"rest-page-size": "2"})
    for name in ("b", "c", "d", "e"):
        client.create_namespace(name)
    client.create_namespace(("b", "x.y"), {"k": "v"})
    assert client.list_namespaces() == [("a",), ("b",), ("c",), ("d",), ("e",)]
    assert client.list_namespaces("b") == [("b", "x.y")]
    assert client.load_namespace_properties(("b", "x.y")) == {"k": "v"}
    changed = client.update_namespace_properties(("b", "x.y"), removals={"k", "gone"}, updates={"n": "w"})
    assert (changed.removed, changed.updated, changed.missing) == (["k"], ["n"], ["gone"])
    assert client.namespace_exists("b")
    assert not client.namespace_exists("z")
    for name in ("t1", "t2", "t3"):
        client.create_table(("a", name), ROWS.schema)
    assert [name for _, name in client.list_tables("a")] == ["t1", "t2", "t3"]
    both = {"removals": ["n"], "updates": {"n": "x"}}
    said = servers.ask("POST", "/v1/lake/namespaces/b/properties", both)
    assert said.error == (422, "UnprocessableEntityException")


def test_names_arrive_as_they_were_sent(servers: Gateways) -> None:
    client = catalog(servers.iceberg)
    for outer in ("per%cent", "a%2Fb", "ü.ö"):
        client.create_namespace((outer,))
        client.create_namespace((outer, "50%ce"))
        assert client.list_namespaces((outer,)) == [(outer, "50%ce")]
        for name in ((outer, "100%41"), (outer, "50%ce", "q+'#?"), (outer, "50%ce", "日本.語")):
            client.create_table(name, ROWS.schema).append(ROWS)
            assert client.load_table(name).scan().to_arrow().num_rows == ROWS.num_rows
            assert servers.lake.table(name).to_arrow().num_rows == ROWS.num_rows
        client.rename_table((outer, "100%41"), (outer, "50%ce", "%25"))
        assert (outer, "50%ce", "%25") in client.list_tables((outer, "50%ce"))


def test_every_refusal_is_the_exception_that_the_client_has_for_it(servers: Gateways) -> None:
    client = catalog(servers.iceberg)
    servers.lake.create_table("a.lance", ROWS.schema)
    table = client.create_table("a.t", ROWS.schema)
    with pytest.raises(refusals.NamespaceAlreadyExistsError):
        client.create_namespace("a")
    with pytest.raises(refusals.NamespaceNotEmptyError):
        client.drop_namespace("a")
    with pytest.raises(refusals.NoSuchNamespaceError):
        client.load_namespace_properties("z")
    with pytest.raises(refusals.NoSuchNamespaceError):
        client.create_table("z.t", ROWS.schema)
    with pytest.raises(refusals.TableAlreadyExistsError):
        client.create_table("a.t", ROWS.schema)
    with pytest.raises(refusals.TableAlreadyExistsError):
        client.create_table("a.lance", ROWS.schema)
    with pytest.raises(refusals.NoSuchTableError):
        client.load_table("a.z")
    with pytest.raises(refusals.NoSuchTableError):
        client.drop_table("a.z")
    with pytest.raises(refusals.BadRequestError, match="Lance Namespace protocol"):
        client.load_table("a.lance")
    with pytest.raises(refusals.RESTError, match="no warehouse"):
        RestCatalog("c", uri=servers.iceberg, warehouse="other")
    assert client.list_tables("a") == [("a", "lance"), ("a", "t")]
    stale = client.load_table("a.t")
    with table.update_schema() as schema:
        schema.add_column("z", StringType())
    with pytest.raises(refusals.CommitFailedException), stale.update_schema() as schema:
        schema.add_column("y", StringType())
    client.drop_table("a.t")
    with pytest.raises(refusals.RESTError, match="no table"):
        table.append(ROWS.append_column("z", pa.array(["x"] * 3)))


def test_a_stale_append_goes_through_by_itself_and_a_stale_overwrite_does_not(servers: Gateways) -> None:
    client = catalog(servers.iceberg, **{"commit.retry.min-wait-ms": "1"})
    table = client.create_table("a.t", ROWS.schema)
    table.append(ROWS)
    one, other = client.load_table("a.t"), client.load_table("a.t")
    table.append(pa.table({"id": [4], "s": ["d"]}))
    one.append(pa.table({"id": [5], "s": ["e"]}))
    assert ids(client.load_table("a.t")) == [1, 2, 3, 4, 5]
    with pytest.raises((refusals.ValidationException, refusals.CommitFailedException)):
        other.overwrite(pa.table({"id": [1], "s": ["z"]}))
    assert ids(client.load_table("a.t")) == [1, 2, 3, 4, 5]


def writes(url: str, barrier: Any, told: Any, first: int, count: int) -> None:
    table = catalog(url).load_table("a.t")
    barrier.wait()
    for number in range(first, first + count):
        table.refresh()
        for _ in range(50):
            try:
                table.append(pa.table({"id": [number], "s": ["x"]}))
                break
            except refusals.CommitFailedException:
                table.refresh()
    told.put(count)


def test_two_writers_race_and_every_row_is_there_once(servers: Gateways) -> None:
    catalog(servers.iceberg).create_table("a.t", ROWS.schema)
    barrier, told = CONTEXT.Barrier(2), CONTEXT.Queue()
    processes = [
        CONTEXT.Process(target=writes, args=(servers.iceberg, barrier, told, first, 5)) for first in (100, 200)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0
    expected = [*range(100, 105), *range(200, 205)]
    assert sorted(servers.lake.table("a.t").to_arrow()["id"].to_pylist()) == expected


def test_a_transaction_makes_tables_and_fills_them(servers: Gateways) -> None:
    """One that a header names, also after the server has forgotten it: what was saved is enough to go on."""
    inside = catalog(servers.iceberg, **{"header.x-seiche-transaction": "monday"})
    before = servers.lake.version
    inside.create_table("a.made", ROWS.schema).append(ROWS)
    with inside.create_table_transaction("a.staged", ROWS.schema) as staged:
        staged.append(ROWS)
    with gateways(servers.lake) as others:
        again = catalog(others.iceberg, **{"header.x-seiche-transaction": "monday"})
        again.load_table("a.made").append(ROWS)
        again.rename_table("a.staged", "a.renamed")
        assert (servers.lake.version, servers.lake.tables("a")) == (before, [])
        headers = {"x-seiche-transaction": "monday"}
        assert others.ask("POST", "/v1/lake/transactions/commit", {"table-changes": []}, headers=headers).status == 204
    assert servers.lake.version == before + 1
    assert ids(catalog(servers.iceberg).load_table("a.made")) == [1, 1, 2, 2, 3, 3]
    assert ids(catalog(servers.iceberg).load_table("a.renamed")) == [1, 2, 3]


def test_views(servers: Gateways, tmp_path: Path) -> None:
    client = catalog(servers.iceberg)
    schema = Schema(NestedField(1, "id", LongType()))
    version = ViewVersion.model_validate(
        {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 1,
            "summary": {},
            "representations": [SQLViewRepresentation(type="sql", sql="select 1 as id", dialect="spark")],
            "default-namespace": ["a"],
        }
    )
    client.create_view("a.v", schema, version)
    assert client.view_exists("a.v")
    assert client.list_views("a") == [("a", "v")]
    assert client.list_tables("a") == []
    view = client.load_view("a.v")
    assert view.current_version().representations[0].root.sql == "select 1 as id"
    with pytest.raises(refusals.ViewAlreadyExistsError):
        client.create_view("a.v", schema, version)
    with pytest.raises(refusals.NoSuchViewError):
        client.load_view("a.w")
    uuid = str(view.metadata.view_uuid)
    replaced = {"version-id": 2, "schema-id": -1, "timestamp-ms": 2, "summary": {}, "default-namespace": ["a"]}
    replaced["representations"] = [{"type": "sql", "sql": "select 2 as id", "dialect": "spark"}]
    body = {
        "requirements": [{"type": "assert-view-uuid", "uuid": uuid}],
        "updates": [
            {"action": "add-schema", "schema": {"type": "struct", "schema-id": 0, "fields": []}},
            {"action": "add-view-version", "view-version": replaced},
            {"action": "set-current-view-version", "view-version-id": -1},
            {"action": "set-properties", "updates": {"comment": "twice"}},
        ],
    }
    assert servers.ask("POST", "/v1/lake/namespaces/a/views/v", body).status == 200
    changed = client.load_view("a.v")
    assert changed.current_version().representations[0].root.sql == "select 2 as id"
    assert len(changed.metadata.versions) == 2
    body["requirements"] = [{"type": "assert-view-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}]
    assert servers.ask("POST", "/v1/lake/namespaces/a/views/v", body).error == (409, "CommitFailedException")
    names = {"source": {"namespace": ["a"], "name": "v"}, "destination": {"namespace": ["a"], "name": "w"}}
    assert servers.ask("POST", "/v1/lake/views/rename", names).status == 204
    client.drop_view("a.w")
    assert client.list_views("a") == []
    elsewhere = tmp_path / "view.metadata.json"
    elsewhere.write_text(changed.metadata.model_dump_json(by_alias=True, exclude_none=True))
    assert client.register_view("a.r", f"file://{elsewhere}").current_version().version_id == 2
    again = {"name": "q", "metadata-location": f"file://{elsewhere}"}
    said = [
        servers.ask("POST", "/v1/lake/namespaces/a/register-view", again, headers={"Idempotency-Key": "0199-5"})
        for _ in range(2)
    ]
    assert [one.status for one in said] == [200, 200], "asked again, after an answer that was lost"
    assert servers.ask("POST", "/v1/lake/namespaces/a/register-view", again).status == 409
    assert client.list_views("a") == [("a", "q"), ("a", "r")]
