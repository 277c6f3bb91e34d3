"""A lake through PyIceberg, unmodified: the life of tables in its catalog, on every kind of storage."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import seiche
from seiche import CommitUnknown, Lake
from tests.servers import ACCESS_KEY, REGION, SECRET_KEY, S3Server

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "word", StringType(), required=False),
    identifier_field_ids=[1],
)
ARROW = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("word", pa.string())])
IMPL = "seiche.lake.engines.pyiceberg_catalog.SeicheCatalog"


def rows(*numbers: int, word: str = "w") -> pa.Table:
    return pa.table({"id": list(numbers), "word": [word] * len(numbers)}, schema=ARROW)


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


Open = Callable[[], tuple[Lake, Catalog]]


@pytest.fixture(params=["local", "memory", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Makes a lake, and gives it with a catalog that PyIceberg opened by its own configuration."""
    kind = request.param

    def both() -> tuple[Lake, Catalog]:
        if kind == "s3":
            server: S3Server = request.getfixturevalue("seaweedfs")
            uri = server.uri()
            lake = seiche.create(uri, **server.options)
            configured = {
                "s3.endpoint": server.endpoint,
                "s3.access-key-id": ACCESS_KEY,
                "s3.secret-access-key": SECRET_KEY,
                "s3.region": REGION,
            }
            return lake, load_catalog("s3", **{"py-catalog-impl": IMPL, "lake": uri, **configured})
        uri = str(tmp_path / "a lake") if kind == "local" else f"memory://{tmp_path.name}"
        lake = seiche.create(uri)
        return lake, load_catalog(kind, **{"py-catalog-impl": IMPL, "uri": uri})

    return both


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(str(tmp_path / "lake"), durability="os")
    made.create_namespace("shop")
    return made


def test_the_life_of_a_table(opened: Open) -> None:
    lake, catalog = opened()
    catalog.create_namespace("shop", {"owner": "me"})
    table = catalog.create_table("shop.t", SCHEMA)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.overwrite(rows(10), overwrite_filter="id == 1")
    table.delete("id = 2")
    assert ids(catalog.load_table("shop.t")) == [3, 4, 10]
    result = table.upsert(rows(3, 11, word="new"))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    with table.update_schema() as schema:
        schema.add_column("n", IntegerType())
    with table.update_spec() as spec:
        spec.add_identity("word")
    table.append(rows(12).append_column("n", pa.array([5], pa.int32())))
    found = catalog.load_table("shop.t").scan().to_arrow().sort_by("id").to_pylist()
    assert [one["id"] for one in found] == [3, 4, 10, 11, 12]
    assert [one["word"] for one in found] == ["new", "w", "w", "new", "w"]
    assert [one["n"] for one in found] == [None, None, None, None, 5]
    with table.transaction() as work:
        work.set_properties(a="b")
        work.append(rows(13).append_column("n", pa.array([6], pa.int32())))
    assert table.properties == {"a": "b"}
    assert lake.table("shop.t").to_arrow(filter="id >= 12").num_rows == 2
    assert catalog.rename_table("shop.t", "shop.u").name() == ("shop", "u")
    assert catalog.list_tables("shop") == [("shop", "u")]
    where = catalog.load_table("shop.u").metadata_location
    catalog.drop_table("shop.u")
    assert not catalog.table_exists("shop.u")
    with pytest.raises(FileNotFoundError, match="no Iceberg metadata"):  # as of other catalogs
        catalog.register_table("shop.w", f"{where}.gone")
    again = catalog.register_table("shop.v", where)
    assert ids(again) == [3, 4, 10, 11, 12, 13]
    again.append(rows(14).append_column("n", pa.array([7], pa.int32())))
    assert ids(catalog.load_table("shop.v")) == [3, 4, 10, 11, 12, 13, 14]
    assert lake.fsck().ok


def test_a_plain_reader_finds_the_rows_by_the_metadata_file(tmp_path: Path) -> None:
    lake = seiche.create(str(tmp_path / "lake"))
    lake.create_namespace("shop")
    catalog = lake.iceberg_catalog()
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    table = catalog.create_table("shop.t", SCHEMA, partition_spec=spec)
    table.append(rows(1, 2))
    plain = StaticTable.from_metadata(catalog.load_table("shop.t").metadata_location)
    assert ids(plain) == [1, 2]
    assert plain.metadata.table_uuid == table.metadata.table_uuid


def test_a_plain_reader_finds_the_rows_on_s3(seaweedfs: S3Server) -> None:
    lake = seiche.create(seaweedfs.uri(), **seaweedfs.options)
    lake.create_namespace("shop")
    lake.create_table("shop.t", ARROW, format="iceberg").append(rows(1, 2))
    with lake.transaction() as one, lake.transaction() as other:
        one.append("shop.t", rows(3))
        other.append("shop.t", rows(4))
    plain = StaticTable.from_metadata(
        lake.table("shop.t").to_iceberg().metadata_location,
        {
            "s3.endpoint": seaweedfs.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        },
    )
    assert ids(plain) == [1, 2, 3, 4]


def test_namespaces(opened: Open) -> None:
    _, catalog = opened()
    catalog.create_namespace(("a",), {"x": "1", "y": "2"})
    catalog.create_namespace(("a", "b"))
    catalog.create_namespace_if_not_exists("a")
    assert catalog.list_namespaces() == [("a",)]
    assert catalog.list_namespaces("a") == [("a", "b")]
    assert catalog.load_namespace_properties("a") == {"x": "1", "y": "2"}
    summary = catalog.update_namespace_properties("a", removals={"x", "gone"}, updates={"z": "3"})
    assert (summary.removed, summary.updated, summary.missing) == (["x"], ["z"], ["gone"])
    assert catalog.load_namespace_properties("a") == {"y": "2", "z": "3"}
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("a")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("a")
    for missing in ("nowhere", ("a", "nowhere")):
        with pytest.raises(NoSuchNamespaceError):
            catalog.load_namespace_properties(missing)
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables(missing)
    catalog.create_table(("a", "b", "t"), SCHEMA)
    assert catalog.list_tables(("a", "b")) == [("a", "b", "t")]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(("a", "b", "t"), SCHEMA)
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", SCHEMA)
    catalog.purge_table(("a", "b", "t"))
    catalog.drop_namespace(("a", "b"))
    assert not catalog.namespace_exists(("a", "b"))


def test_lance_tables_and_views_are_none_of_its_tables(lake: Lake) -> None:
    lake.create_table("shop.lance", pa.schema([("id", pa.int64())]))
    lake.run(lambda tx: tx.create_view("shop.view", "SELECT 1"))
    catalog = lake.iceberg_catalog()
    catalog.create_table("shop.t", SCHEMA)
    assert catalog.list_tables("shop") == [("shop", "t")]
    assert catalog.list_views("shop") == [("shop", "view")]
    assert catalog.view_exists("shop.view")
    assert not any(map(catalog.view_exists, ("shop.t", "shop.lance", "shop.none", "nowhere.view", "view")))
    for name in ("shop.lance", "shop.view", "shop.none"):
        with pytest.raises(NoSuchTableError):
            catalog.load_table(name)
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("shop.lance")
    catalog.drop_view("shop.view")
    assert catalog.list_views("shop") == []


def test_a_table_is_created_with_its_rows_or_not_at_all(lake: Lake) -> None:
    catalog = lake.iceberg_catalog()
    before = lake.version
    with catalog.create_table_transaction("shop.t", SCHEMA) as work:
        work.append(rows(1))
        work.update_schema().add_column("n", IntegerType()).commit()
        assert lake.version == before
    assert lake.version == before + 1
    assert ids(catalog.load_table("shop.t")) == [1]

    def interrupted() -> None:
        with catalog.create_table_transaction("shop.u", SCHEMA) as work:
            work.append(rows(1))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert not catalog.table_exists("shop.u")


def test_stale_handles_append_without_losing_anything(lake: Lake) -> None:
    catalog = lake.iceberg_catalog()
    catalog.create_table("shop.t", SCHEMA)
    handles = [catalog.load_table("shop.t") for _ in range(4)]
    for number, table in enumerate(handles):
        table.append(rows(number))
        table.append(rows(number + 10))
    assert ids(catalog.load_table("shop.t")) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_a_stale_delete_is_repeated_by_pyiceberg_and_a_stale_schema_change_fails(lake: Lake) -> None:
    catalog = lake.iceberg_catalog()
    first = catalog.create_table("shop.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    first.append(rows(1, 2))
    stale, other = catalog.load_table("shop.t"), catalog.load_table("shop.t")
    first.delete("id = 1")
    with pytest.raises(ValidationException):
        stale.overwrite(rows(5), overwrite_filter="id = 1")
    first.update_schema().add_column("n", IntegerType()).commit()
    with pytest.raises(CommitFailedException):
        other.update_schema().add_column("m", IntegerType()).commit()
    assert ids(catalog.load_table("shop.t")) == [2]


def test_two_upserts_of_one_key_do_not_both_insert_it(lake: Lake) -> None:
    catalog = lake.iceberg_catalog()
    catalog.create_table("shop.t", SCHEMA).append(rows(1))
    one, other = catalog.load_table("shop.t"), catalog.load_table("shop.t")
    one.upsert(rows(7, word="one"))
    with pytest.raises(ValidationException):
        other.upsert(rows(7, word="other"))
    assert ids(catalog.load_table("shop.t")) == [1, 7]
    other.refresh()
    other.upsert(rows(7, word="other"))
    assert ids(catalog.load_table("shop.t")) == [1, 7]


def test_expiry_of_snapshots_changes_metadata_and_deletes_nothing(lake: Lake) -> None:
    catalog = lake.iceberg_catalog()
    table = catalog.create_table("shop.t", SCHEMA, properties={"write.metadata.delete-after-commit.enabled": "true"})
    table.append(rows(1))
    version = lake.version
    table.overwrite(rows(2))
    before = {info.path for info in lake.store.list()}
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    assert len(catalog.load_table("shop.t").snapshots()) == 1
    assert before <= {info.path for info in lake.store.list()}
    assert ids(seiche.open(lake.store, version=version).table("shop.t").to_iceberg()) == [1]


def test_tags_and_branches(lake: Lake) -> None:
    table = lake.iceberg_catalog().create_table("shop.t", SCHEMA)
    table.append(rows(1))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "gold").create_branch(first.snapshot_id, "dev").commit()
    table.append(rows(2))
    table.append(rows(3), branch="dev")
    assert ids(table) == [1, 2]
    assert sorted(table.scan().use_ref("dev").to_arrow()["id"].to_pylist()) == [1, 3]
    assert table.scan().use_ref("gold").to_arrow()["id"].to_pylist() == [1]
    numbers = [one.sequence_number for one in table.metadata.snapshots]
    assert numbers == [1, 2, 3]


def test_a_branch_and_main_are_appended_to_at_the_same_time(lake: Lake) -> None:
    table = lake.iceberg_catalog().create_table("shop.t", SCHEMA)
    table.append(rows(1))
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "dev").commit()
    tx = lake.transaction()
    tx.table("shop.t").to_iceberg().append(rows(2), branch="dev")
    table.append(rows(3))
    tx.commit()
    table.refresh()
    assert ids(table) == [1, 3]
    assert sorted(table.scan().use_ref("dev").to_arrow()["id"].to_pylist()) == [1, 2]
    assert [one.sequence_number for one in table.metadata.snapshots] == [1, 2, 3]


def test_metadata_from_elsewhere_is_taken_in_and_its_files_stay(lake: Lake, tmp_path: Path) -> None:
    sql = load_catalog("sql", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    sql.create_namespace("n")
    foreign = sql.create_table("n.t", SCHEMA)
    foreign.append(rows(1, 2))
    catalog = lake.iceberg_catalog()
    table = catalog.register_table("shop.t", foreign.metadata_location)
    assert ids(table) == [1, 2]
    table.append(rows(3))
    table.delete("id = 1")
    assert ids(catalog.load_table("shop.t")) == [2, 3]
    assert ids(sql.load_table("n.t")) == [1, 2]
    lake.gc(dry_run=False, grace=0, window=0)
    assert ids(catalog.load_table("shop.t")) == [2, 3]
    assert lake.fsck().ok
    sql.close()


def test_an_unknown_outcome_is_told_as_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.iceberg_catalog().create_table("shop.t", SCHEMA)

    def unknown(*_: object) -> None:
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr("seiche.lake.commit.committer.Committer.commit", unknown)
        with pytest.raises(CommitStateUnknownException):
            table.append(rows(1))


def test_a_commit_that_is_told_twice_is_done_once(lake: Lake) -> None:
    catalog = lake.iceberg_catalog()
    table = catalog.create_table("shop.t", SCHEMA)
    work = table.transaction()
    work.append(rows(1))
    updates, requirements = work._updates, work._requirements
    first = catalog.commit_table(table, requirements, updates)
    again = catalog.commit_table(table, requirements, updates)
    assert first.metadata_location == again.metadata_location
    assert ids(catalog.load_table("shop.t")) == [1]
