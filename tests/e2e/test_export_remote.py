"""Exports from and to a real object store."""

from pathlib import Path

import lance
import pytest

import seiche
from seiche import AlreadyExists
from tests.servers import S3Server
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.iceberg_deletes import delete_by_position


def test_from_s3_to_disk_and_back(seaweedfs: S3Server, tmp_path: Path) -> None:
    options = seaweedfs.options
    lake = seiche.create(seaweedfs.uri(), **options)
    lake.create_namespace("shop")
    lake.create_table("shop.a", SCHEMA)
    lake.table("shop.a").append(rows(*range(100)))
    lake.tag("first")
    lake.table("shop.a").delete("id < 50")
    lake.export("disk", str(tmp_path / "copy"))
    copy = seiche.open(str(tmp_path / "copy"))
    assert (ids(copy, "shop.a"), copy.fsck(deep=True).problems) == (list(range(50, 100)), ())

    back = seaweedfs.uri()
    copy.export("s3", back, **options)
    again = seiche.open(back, **options)
    assert (again.version, ids(again, "shop.a")) == (copy.version - 2, list(range(50, 100)))
    assert ids(seiche.open(back, version="first", **options), "shop.a") == list(range(100))
    plain = lance.dataset(f"{back}/{again.table('shop.a').row.location}", storage_options=options)
    assert plain.count_rows() == 50
    again.table("shop.a").append(rows(1))
    assert again.fsck().ok
    with pytest.raises(AlreadyExists, match="not empty"):
        lake.export("other", back, **options)


def test_what_is_shared_is_read_in_the_same_bucket(seaweedfs: S3Server) -> None:
    options = seaweedfs.options
    lake = seiche.create(seaweedfs.uri(), **options)
    lake.create_namespace("shop")
    lake.create_table("shop.a", SCHEMA)
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    with lake.transaction() as tx:
        tx.append("shop.a", rows(1, 2))
        tx.append("shop.i", rows(1, 2, 3))
    delete_by_position(lake, "shop.i", 3)
    target = seaweedfs.uri()
    lake.export("links", target, mode="minimal", **options)
    lake.table("shop.a").delete("true")
    lake.table("shop.i").delete("id = 1")
    copy = seiche.open(target, **options)
    assert (ids(copy, "shop.a"), ids(copy, "shop.i")) == ([1, 2], [1, 2])
    whole = seaweedfs.uri()
    lake.export("whole", whole, "links", **options)
    again = seiche.open(whole, **options)
    assert (ids(again, "shop.a"), ids(again, "shop.i"), again.fsck(deep=True).problems) == ([1, 2], [1, 2], ())
