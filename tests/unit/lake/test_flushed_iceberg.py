"""What a commit to an Iceberg table names is on disk before its root is, also if somebody else wrote it."""

import pyarrow.parquet as pq
import pytest

import seiche
from seiche import Lake
from seiche.lake.care.path_set import PathSet
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.reach import IcebergReach
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.disk import Disk


@pytest.fixture
def lake(disk: Disk) -> Lake:
    made = seiche.open(disk)
    made.create_namespace("shop")
    made.create_table("shop.i", SCHEMA, format="iceberg")
    made.table("shop.i").append(rows(1))
    return made


def at_risk(lake: Lake, disk: Disk) -> list[str]:
    """The files of the table that a power failure could take."""
    row, needed = lake.table("shop.i").row, PathSet()
    assert row.iceberg is not None
    IcebergReach(disk, needed).add_metadata(row.iceberg.location)
    files = [info.path for info in disk.list(row.location) if info.path in needed]
    assert files
    return [path for path in files if path not in disk.flushed]


@pytest.mark.parametrize("together", [False, True], ids=["by itself", "in a transaction"])
def test_files_that_somebody_put_into_the_table_last_once_they_are_added(
    lake: Lake, disk: Disk, *, together: bool
) -> None:
    place = path_of(disk, lake.table("shop.i").metadata.location)  # type: ignore[attr-defined]
    added = disk.native_uri(f"{place}/data/theirs.parquet")
    pq.write_table(rows(2), added)
    with lake.transaction() as tx:
        table = (tx if together else lake).table("shop.i").to_iceberg()
        table.append(rows(3))
        table.add_files([f"file://{added}"])
    assert ids(lake, "shop.i") == [1, 2, 3]
    assert at_risk(lake, disk) == []


def test_what_another_catalog_wrote_lasts_once_the_table_is_back(lake: Lake, disk: Disk) -> None:
    with lake.transaction() as tx:
        where = tx.unregister_iceberg("shop.i").metadata_location
    # Other catalogs write as they like, and flush nothing.
    disk.flushed.clear()
    with lake.transaction() as tx:
        tx.register_iceberg("shop.i", where)
    assert ids(lake, "shop.i") == [1]
    assert at_risk(lake, disk) == []
