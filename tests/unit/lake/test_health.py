"""What will hurt before it does."""

import pytest

from seiche import Lake
from seiche.lake.care import health as health_module
from seiche.lake.care.health import Health, TableHealth
from seiche.lake.versions import LakeVersions
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import IndexMetadata
from tests.unit.lake.conftest import rows


def figures(found: Health, table: str) -> TableHealth:
    (one,) = (one for one in found.tables if one.table == table)
    return one


def advice(found: Health) -> dict[str, str]:
    return {one.finding: one.command for one in found.advice}


def test_figures_of_a_lake(lake: Lake) -> None:
    table = lake.table("shop.a")
    for number in range(4):
        table.append(rows(*range(number * 10, number * 10 + 10)))
    table.create_index("id", "BTREE")
    table.append(rows(100, 101, 102))
    table.delete("id IN (3, 13)")
    found = lake.health()
    one = figures(found, "shop.a")
    assert (one.fragments, one.small_fragments, one.rows, one.deleted) == (5, 5, 41, 2)
    assert (one.indices, one.unindexed) == (1, 3)
    assert one.version == table.version
    assert one.manifest_bytes > 500
    assert figures(found, "shop.b").rows == 0
    assert (found.version, found.versions, found.expired) == (lake.version, lake.version + 1, 0)
    assert 0 < found.buffer < 0.2
    assert (found.orphans, found.trash, found.leases, found.saved) == (0, 0, 0, 0)
    assert found.advice == ()
    assert found.as_dict()["version"] == lake.version


def test_an_index_that_does_not_say_what_it_covers_is_no_damage(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(1, 2))
    table.create_index("id", "BTREE")
    manifest = LakeVersions(lake.store, table.row).read(table.row.table_version).manifest
    silent = IndexMetadata()
    silent.CopyFrom(manifest.indices[0])
    silent.ClearField("fragment_bitmap")
    one = health_module._table("shop.a", table.row, Manifest(manifest.header, manifest.fragments, [silent]))
    assert (one.indices, one.unindexed, one.rows) == (1, 0, 2)


def test_every_finding_has_a_command(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_SMALL_FRAGMENTS": 2, "_MANIFEST_BYTES": 10, "_VERSIONS": 5, "_PINNED": 3}.items():
        monkeypatch.setattr(health_module, name, value)
    table = lake.table("shop.a")
    lake.tag("early", 2)
    table.append(rows(1))
    table.create_index("id", "BTREE")
    for number in range(3):
        table.append(rows(number + 10, number + 20))
    table.delete("id IN (10, 21)")
    tx = lake.transaction()
    tx.table("shop.b").append(rows(*range(1000)))
    tx.save()
    lost = lake.transaction()
    lost.table("shop.b").append(rows(*range(5000)))
    lost.late.write()
    found = lake.health()
    said = advice(found)
    compact = f"seiche table compact {lake.uri} shop.a"
    assert said["4 of 4 fragments are small"] == compact
    assert said["2 of 7 rows are deleted"] == compact
    assert compact in [command for finding, command in said.items() if "manifest" in finding]
    assert said["4 of 5 rows are not in an index that the table has"] == "lake.table('shop.a').optimize_indices()"
    assert f"seiche expire {lake.uri}" in said.values()
    assert f"seiche untag {lake.uri} NAME" in said.values()
    assert f"seiche gc {lake.uri} --run" in said.values()
    assert "lake.settle(id)" in said.values()
    assert found.orphans == 1


def test_orphans_are_looked_for_only_if_asked(lake: Lake) -> None:
    lost = lake.transaction()
    lost.table("shop.b").append(rows(1))
    lost.late.write()
    assert lake.health().orphans == 1
    assert (lake.health(orphans=False).orphans, lake.health(orphans=False).orphan_bytes) == (None, None)


def test_what_is_expired_and_in_the_trash_shows(lake: Lake) -> None:
    for number in range(3):
        lake.table("shop.a").overwrite(rows(number))
    lake.expire(older_than=0, keep=1)
    moved = lake.gc(dry_run=False, grace=0).moved
    found = lake.health()
    assert found.trash == len(moved)
    assert found.trash_bytes == sum(one.size for one in moved)
    assert found.expired == 6
    assert found.versions == 3


def test_a_damaged_table_does_not_stop_it(lake: Lake) -> None:
    lake.table("shop.a").append(rows(1))
    row = lake.table("shop.a").row
    assert row.manifest is not None
    lake.store.put(f"{row.location}/{row.manifest.path}", b"torn")
    other = type(lake)(type(lake.states)(lake.store, lake.states.runtime))
    assert [one.table for one in other.health().tables] == ["shop.b"]
