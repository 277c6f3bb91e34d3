"""Exports: of every sort of file that a version leads to, and of every way that a table has to share files."""

from pathlib import Path

import pytest

import seiche
from seiche import Lake
from seiche.lake.tree.names import root_name
from seiche.store import open_store
from seiche.store.local import LocalStore
from seiche.testing import CountingStore, SimulatedStore
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.test_export import moved, share
from tests.unit.lake.test_gc import LakeRead

LARGE = {"text": "x" * 10_000}


def exported(lake: Lake, tmp_path: Path) -> Lake:
    """A full export that was moved, the lake that it was made from gone."""
    lake.export("copy", str(tmp_path / "copy"))
    return moved(tmp_path / "copy", lake)


def test_rows_that_are_too_large_for_the_tree_come_along(lake: Lake, tmp_path: Path) -> None:
    """They stand in files of their own, in those of tags too."""
    with lake.transaction() as tx:
        tx.set_properties("shop.a", LARGE)
        tx.alter_namespace("shop", LARGE)
    lake.tag("early")
    with lake.transaction() as tx:
        tx.set_properties("shop.a", {"text": "y" * 10_000})
    copy = exported(lake, tmp_path)
    assert copy.table("shop.a").row.properties == {"text": "y" * 10_000}
    assert seiche.open(copy.uri, version="early").table("shop.a").row.properties == LARGE
    namespace = copy.state().namespace(("shop",))
    assert namespace is not None
    assert namespace.properties == LARGE
    assert copy.fsck(deep=True).problems == ()


@pytest.mark.parametrize("mode", ["full", "some"])
def test_what_versions_share_is_looked_at_once_however_many_there_are(tmp_path: Path, mode: str) -> None:
    """Each row stands in a file of its own here, so reading it counts."""
    store = CountingStore(open_store(str(tmp_path / "lake"), durability="os"))
    lake = seiche.create(store, settings={"row_max_size_bytes": 64})
    lake.create_namespace("shop")
    with lake.transaction() as tx:
        for number in range(20):
            tx.create_table(f"shop.t{number}", SCHEMA)
    tables = None if mode == "full" else ["shop.t1", "shop.t2"]
    cost = []
    for tags in (1, 9):
        for number in range(tags):
            with lake.transaction() as tx:
                tx.set_properties("shop.t1", {"n": f"{tags}-{number}"})
                tx.drop_table(f"shop.t{tags + number + 2}")
            lake.tag(f"tag-{tags}-{number}")
        store.reset()
        lake.export(f"copy-{tags}", str(tmp_path / f"copy-{tags}"), tables=tables)
        cost.append(store.counts["get"])
        copy = seiche.open(tmp_path / f"copy-{tags}")
        assert copy.fsck(deep=True).problems == ()
        assert len(copy.tables()) == (19 - (0 if tags == 1 else 9) if mode == "full" else 2)
        early = seiche.open(copy.uri, version=f"tag-{tags}-0")
        assert early.table("shop.t1").row.properties == {"n": f"{tags}-0"}
        assert len(early.tables()) == (19 - (tags == 9) if mode == "full" else 2)
    fewer, more = cost
    assert more - fewer < 9 * 20, "it was as many as all tables, three times for each tag"


def test_the_change_set_of_a_large_transaction_comes_along(lake: Lake, tmp_path: Path) -> None:
    with lake.transaction() as tx:
        for number in range(400):
            tx.create_namespace(("shop", f"{number:04}{'x' * 80}"))
    assert lake.state().root.transactions_file is not None
    copy = exported(lake, tmp_path)
    (made,) = copy.log()[0].transactions
    assert len(made.objects or ()) == 400
    assert copy.fsck().problems == ()


@pytest.mark.parametrize("shared", [False, True], ids=["own files", "shared files"])
def test_all_versions_that_one_transaction_made_come_along(lake: Lake, tmp_path: Path, *, shared: bool) -> None:
    """An append and an index over it are two versions of the table in one of the lake."""
    lake.table("shop.a").append(rows(1, 2))
    if shared:
        share(lake, "shop.a", "shop.b")
    with lake.transaction() as tx:
        tx.append("shop.b", rows(3))
        tx.table("shop.b").create_index("id")
    assert lake.table("shop.b").row.earlier
    expected, version = ids(lake, "shop.b"), lake.table("shop.b").version
    copy = exported(lake, tmp_path)
    assert copy.fsck(deep=True).problems == ()
    table = copy.table("shop.b")
    assert [one.version for one in table.versions()] == [version - 1, version]
    table.append(rows(4))
    table.restore(version - 1)
    assert ids(copy, "shop.b") == expected


def test_a_dropped_table_with_files_of_others_comes_back_in_the_copy(lake: Lake, tmp_path: Path) -> None:
    """It goes on from the last version that it had, which the copy has with other bytes."""
    lake.table("shop.a").append(rows(1, 2))
    share(lake, "shop.a", "shop.b")
    lake.tag("early")
    lake.table("shop.b").append(rows(3))
    lake.drop_table("shop.b")
    copy = exported(lake, tmp_path)
    copy.rollback("early", tables=["shop.b"])
    assert ids(copy, "shop.b") == [1, 2]
    assert copy.fsck(deep=True).problems == ()


def test_base_paths_may_have_other_numbers_in_other_versions(lake: Lake, tmp_path: Path) -> None:
    for name, number in (("shop.x", 1), ("shop.y", 2)):
        lake.create_table(name, SCHEMA).append(rows(number))
    share(lake, "shop.x", "shop.b")
    lake.tag("early")
    lake.table("shop.b").restore(1)
    share(lake, "shop.y", "shop.b")
    assert [base.id for base in LakeRead(lake, "shop.b").header.base_paths] == [1]
    copy = exported(lake, tmp_path)
    assert (ids(copy, "shop.b"), ids(seiche.open(copy.uri, version="early"), "shop.b")) == ([2], [1])


def test_there_is_never_a_gap_below_the_newest_version_of_a_copy(lake: Lake, tmp_path: Path) -> None:
    """Without hints the latest version is looked for from the oldest on: who found a gap took an old one for it."""
    first = lake.version
    for name in ("one", "two"):
        lake.tag(name)
        lake.table("shop.a").append(rows(1))
    target = SimulatedStore(LocalStore(tmp_path / "copy"))
    lake.export("copy", target)
    names = {root_name(version): version for version in range(lake.version)}
    put = [names[call.path] for call in target.calls if call.verb == "put_if_absent" and call.path in names]
    assert put == list(range(first + 4, first - 1, -1))
