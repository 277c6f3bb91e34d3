"""The whole of it: a lake with everything in it, exported, moved, the original deleted."""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import StaticTable

import seiche
from seiche import Lake, NotFound
from seiche.store import open_store
from seiche.store.base import Store
from seiche.testing import SimulatedStore, Stopped
from seiche.testing.wrapping import WRITES
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.iceberg_deletes import delete_by_position
from tests.unit.lake.test_export import share

EXPECTED = {"shop.a": [*range(10, 100)], "shop.b": [*range(100)], "shop.i": [2, 4, 7]}


@pytest.fixture
def everything(lake: Lake) -> Lake:
    """Lance with an index, deletions and files of another table as a clone has; Iceberg with position deletes; tags."""
    lake.table("shop.a").append(rows(*range(100)))
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    lake.table("shop.i").append(rows(1, 2, 3))
    lake.tag("early")
    with lake.transaction() as tx:
        tx.delete("shop.a", "id < 10")
        tx.append("shop.i", rows(4, 5))
    lake.table("shop.a").create_index("id", "BTREE")
    delete_by_position(lake, "shop.i", 3)
    lake.table("shop.i").append(rows(6, 7))
    delete_by_position(lake, "shop.i", 5)
    delete_by_position(lake, "shop.i", 6)
    lake.table("shop.i").delete("id = 1")
    share(lake, "shop.a", "shop.b")
    return lake


def check(place: str, *, plain_iceberg: bool) -> None:
    """Everything reads: as a lake, by pylance and PyIceberg alone, and by PyIceberg with the lake as its catalog."""
    copy = seiche.open(place)
    assert {name: ids(copy, name) for name in EXPECTED} == EXPECTED
    early = seiche.open(place, version="early")
    assert (ids(early, "shop.a"), ids(early, "shop.i")) == ([*range(100)], [1, 2, 3])
    for name in ("shop.a", "shop.b"):
        dataset = lance.dataset(f"{place}/{copy.table(name).row.location}")
        assert sorted(dataset.to_table()["id"].to_pylist()) == EXPECTED[name]
    indexed = lance.dataset(f"{place}/{copy.table('shop.a').row.location}")
    assert [one.name for one in indexed.describe_indices()] == ["id_idx"]
    assert "ScalarIndexQuery" in indexed.scanner(filter="id = 42").explain_plan()
    assert indexed.to_table(filter="id = 42")["id"].to_pylist() == [42]
    kind = "seiche.lake.engines.pyiceberg_catalog.SeicheCatalog"
    table = load_catalog("copy", **{"py-catalog-impl": kind, "lake": place}).load_table("shop.i")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == EXPECTED["shop.i"]
    if plain_iceberg:
        for old, expected in ((copy, EXPECTED["shop.i"]), (early, [1, 2, 3])):
            where = f"{place}/{old.table('shop.i').row.iceberg.location}"  # type: ignore[union-attr]
            found = StaticTable.from_metadata(where).scan().to_arrow()
            assert sorted(found["id"].to_pylist()) == expected
    assert copy.fsck(deep=True).problems == ()
    assert copy.gc().unneeded == ()


def test_a_full_export_of_everything_moved_elsewhere_the_original_deleted(everything: Lake, tmp_path: Path) -> None:
    """Both ways to move it: told before, then plain Iceberg engines read it there; and not."""
    final = str(tmp_path / "final")
    everything.export("planned", str(tmp_path / "copy"), address=final)
    everything.export("unplanned", str(tmp_path / "other"), everything.exports()["planned"].version)
    shutil.rmtree(everything.store.native_uri())
    check(str(tmp_path / "other"), plain_iceberg=True)
    shutil.move(tmp_path / "copy", final)
    shutil.move(tmp_path / "other", tmp_path / "moved")
    check(final, plain_iceberg=True)
    check(str(tmp_path / "moved"), plain_iceberg=False)


@pytest.mark.soak
def test_the_same_interrupted_after_any_write(
    everything: Lake, tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    """At the target there is no lake or a whole one, and the same call finishes it; what it needs is never lost."""
    version = everything.version
    home = everything.store.native_uri()
    rehearsal = SimulatedStore(local(tmp_path / "rehearsal"))
    everything.export("x", rehearsal, version)
    writes = [number for number, call in enumerate(rehearsal.calls, 1) if call.verb in WRITES]
    lakes = 0
    chosen = writes[:: effort(16, 1)]
    for number in chosen:
        place = tmp_path / f"copy-{number}"
        lake = seiche.open(str(shutil.copytree(str(home), tmp_path / f"lake-{number}")))
        lake.unexport("x")
        with pytest.raises(Stopped):
            lake.export("x", SimulatedStore(local(place), plan={number: "stop_after"}), version)
        lakes += is_lake(place)
        lake.untag("early")
        lake.expire(older_than=0, keep=1)
        lake.gc(dry_run=False, grace=0, window=0)
        lake.export("x", local(place), version)
        shutil.rmtree(lake.store.native_uri())
        check(str(place), plain_iceberg=True)
        shutil.rmtree(place)
    assert len(writes) >= 60
    assert 0 < lakes < len(chosen)


def local(place: Path) -> Store:
    return open_store(str(place), durability="os")


def is_lake(place: Path) -> bool:
    try:
        seiche.open(str(place))
    except NotFound:
        return False
    return True
