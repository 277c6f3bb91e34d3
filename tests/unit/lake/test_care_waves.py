"""Care for many tables on storage far away: it waits for several at once, and does not hold all of them in memory."""

from collections.abc import Callable
from pathlib import Path

import pytest

import seiche
from seiche import Lake
from seiche.core.runtime import SYSTEM
from seiche.lake.care.path_set import PathSet
from seiche.lake.care.portions import portions
from seiche.lake.export.iceberg import IcebergCopy
from seiche.store import open_store
from seiche.table.versions.naming import Naming
from seiche.testing import CountingStore
from tests.unit.lake.conftest import SCHEMA, ids, rows


def far_lake(folder: Path, lance: int, iceberg: int = 0) -> Lake:
    """Tables with a row each that was written twice, on storage far away."""
    lake = seiche.create(CountingStore(open_store(str(folder), durability="os"), far=True))
    lake.create_namespace("shop")
    names = [f"shop.t{number}" for number in range(lance)], [f"shop.i{number}" for number in range(iceberg)]
    with lake.transaction() as tx:
        for name in names[0]:
            tx.create_table(name, SCHEMA)
        for name in names[1]:
            tx.create_table(name, SCHEMA, format="iceberg")
    for value in (1, 2):
        with lake.transaction() as tx:
            for name in (*names[0], *names[1]):
                tx.table(name).overwrite(rows(value))
    return lake


def waves(lake: Lake, act: Callable[[Lake], object]) -> int:
    store = lake.store
    assert isinstance(store, CountingStore)
    store.reset()
    act(lake)
    return store.waves


def test_care_of_thirty_tables_waits_little_longer_than_of_three(tmp_path: Path) -> None:
    few, many = far_lake(tmp_path / "few", 3, 1), far_lake(tmp_path / "many", 30, 4)

    def longer(act: Callable[[Lake], object]) -> int:
        return waves(many, act) - waves(few, act)

    assert longer(lambda lake: lake.gc(grace=0)) <= 12
    assert longer(lambda lake: lake.fsck()) <= 12
    assert longer(lambda lake: lake.health()) <= 12
    for lake in (few, many):
        lake.expire(older_than=0, keep=1)
    assert longer(lambda lake: lake.gc(dry_run=False, grace=0)) <= 12
    assert [ids(many, name) for name in ("shop.t0", "shop.t29", "shop.i0", "shop.i3")] == [[2]] * 4
    assert (many.fsck().problems, len(list(many.trash()))) == ((), 1)


def test_manifests_of_a_table_go_oldest_first_also_beside_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = far_lake(tmp_path / "lake", 4)
    lake.expire(older_than=0, keep=1)
    gone: list[str] = []
    delete = lake.store.delete

    def noted(path: str) -> None:
        gone.append(path)
        delete(path)

    monkeypatch.setattr(lake.store, "delete", noted)
    lake.gc(dry_run=False, grace=0, window=0)
    location = lake.table("shop.t2").row.location
    of_one = [path.removeprefix(f"{location}/") for path in gone if path.startswith(f"{location}/")]
    assert of_one[:2] == [Naming.V2.path(1), Naming.V2.path(2)]
    assert len(of_one) > 2
    first = next(number for number, path in enumerate(gone) if "/_versions/" not in path)
    assert not [path for path in gone[first:] if "/_versions/" in path], "what they name goes after all of them"


def test_what_is_wrong_with_several_tables_is_found_and_mended(tmp_path: Path) -> None:
    lake = far_lake(tmp_path / "lake", 5)
    names = [f"{lake.table(f'shop.t{number}').row.location}/{Naming.V2.path(3)}" for number in (1, 3)]
    for path in names:
        lake.store.delete(path)
    found = lake.fsck(repair=True)
    assert sorted((one.kind, one.path, one.repaired) for one in found.problems) == sorted(
        ("published.missing", path, True) for path in names
    )
    assert (found.tables, lake.fsck().problems) == (5, ())


def test_a_table_that_cannot_be_looked_into_keeps_only_itself_from_being_cleared(tmp_path: Path) -> None:
    lake = far_lake(tmp_path / "lake", 5)
    row = lake.table("shop.t2").row
    assert row.manifest is not None
    lake.expire(older_than=0, keep=1)
    lake.store.put(f"{row.location}/{Naming.V2.path(3)}", b"nothing")
    lake.store.put(f"{row.location}/{row.manifest.path}", b"nothing")
    plan = lake.gc(grace=0)
    assert list(plan.closed) == [row.location]
    assert {one.path.split("/")[2][:2] for one in plan.unneeded if one.path.startswith("tables/")} == {
        "t0", "t1", "t3", "t4",
    }  # fmt: skip


def test_no_more_is_read_at_once_than_memory_allows() -> None:
    mebi = 1 << 20
    assert [len(some) for some in portions((number, 0) for number in range(70))] == [32, 32, 6]
    assert [len(some) for some in portions((number, 20 * mebi) for number in range(7))] == [3, 3, 1]
    assert list(portions([("a", 100 * mebi), ("b", 1), ("c", 90 * mebi)])) == [["a"], ["b"], ["c"]]
    assert list(portions([])) == []


def test_a_path_set_takes_in_another() -> None:
    one, other = PathSet(), PathSet()
    for number in range(1 << 17):
        other.add(f"settled/{number}")
    other.add("fresh")
    one.add("mine")
    one.update(other)
    one.add("later")
    assert all(path in one for path in ("mine", "later", "fresh", "settled/0", f"settled/{(1 << 17) - 1}"))
    assert (len(one), "none" in one) == ((1 << 17) + 3, False)


def test_an_export_reads_the_versions_since_its_oldest_tag_side_by_side(tmp_path: Path) -> None:
    lake = far_lake(tmp_path / "lake", 1)

    def exported(name: str) -> int:
        return waves(lake, lambda lake: lake.export(name, str(tmp_path / name)))

    lake.tag("early")
    few = exported("few")
    for number in range(25):
        lake.create_namespace(f"n{number}")
    assert exported("many") - few <= 10
    copy = seiche.open(str(tmp_path / "many"), durability="os")
    assert (ids(copy, "shop.t0"), list(copy.tags()), copy.fsck().problems) == ([2], ["early"], ())


def test_fsck_reads_the_nodes_of_a_tree_side_by_side(tmp_path: Path) -> None:
    lake = far_lake(tmp_path / "lake", 1)
    few = waves(lake, lambda lake: lake.fsck())
    with lake.transaction() as tx:
        for number in range(1200):
            tx.create_namespace(f"shop.n{number}")
    lake.create_namespace("last")
    assert waves(lake, lambda lake: lake.fsck()) <= few + 6
    assert lake.fsck().nodes >= 10


@pytest.mark.parametrize("look", ["gc", "fsck", "health", "diff"])
def test_the_metadata_of_an_iceberg_table_is_read_side_by_side(tmp_path: Path, look: str) -> None:
    lake = far_lake(tmp_path / "lake", 0, 1)
    asked: dict[str, Callable[[Lake], object]] = {
        "gc": lambda lake: lake.gc(),
        "fsck": lambda lake: lake.fsck(),
        "health": lambda lake: lake.health(),
        "diff": lambda lake: lake.diff(1, lake.version),
    }
    few = waves(lake, asked[look])
    for number in range(10):
        lake.table("shop.i0").append(rows(number))
    assert waves(lake, asked[look]) <= few + 3
    assert len(lake.table("shop.i0").to_iceberg().snapshots()) > 10


def test_what_an_export_takes_of_an_iceberg_table_is_read_side_by_side_and_once(tmp_path: Path) -> None:
    lake = far_lake(tmp_path / "lake", 0, 1)
    store = lake.store
    assert isinstance(store, CountingStore)
    kept = [lake.table("shop.i0").row]
    for number in range(8):
        lake.table("shop.i0").append(rows(number))
        kept.append(lake.table("shop.i0").row)
    copy = IcebergCopy(store, kept[0].location, SYSTEM)
    for row in (kept[0], kept[5], kept[-1]):
        copy.add(row)
    store.reset()
    found = copy.settle(open_store(str(tmp_path / "copy")), "")
    assert len([one for one in found if one.path.endswith(".avro")]) >= 18
    # Metadata with what it names beside, three times; lists, manifests, and how long these become.
    assert (store.waves <= 3 * 2 + 3, store.counts["get"] <= 3 + 3 * 11) == (True, True), store.counts
