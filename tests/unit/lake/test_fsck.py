"""Damage of every sort: found, named, and nothing that `fsck` stumbles over."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche.core.runtime import SYSTEM
from seiche.errors import Corrupt, NotFound
from seiche.lake.care.fsck import Soundness, check_lake
from seiche.lake.care.layout import NOTED, Sort, place
from seiche.lake.tree.latest import read_root
from seiche.lake.tree.names import root_name, root_version
from seiche.lake.versions import LakeVersions
from seiche.store import open_store
from seiche.store.base import ObjectInfo, Store
from seiche.table.versions.naming import Naming, parse
from tests.unit.lake.conftest import SCHEMA, ids, rows

# So small that there are nodes below the roots, and rows and change sets in files of their own.
SMALL = {"order": 32, "node_file_max_size_bytes": 8192, "root_buffer_max_size_bytes": 1500, "row_max_size_bytes": 300}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with everything in it that can be damaged."""
    folder = tmp_path_factory.mktemp("sound") / "lake"
    lake = seiche.create(open_store(str(folder), durability="os"), settings=SMALL)
    lake.create_namespace("shop", {"note": "n" * 400})
    for name in ("shop.a", "shop.b", "shop.c"):
        lake.create_table(name, SCHEMA)
    with lake.transaction() as tx:
        for number in range(330):
            tx.create_namespace(f"n{number:03}{'x' * 95}")
    lake.table("shop.a").append(rows(*range(100)))
    lake.table("shop.b").append(rows(1, 2, 3))
    lake.table("shop.a").append(rows(*range(100, 300)))
    lake.table("shop.a").delete("id IN (5, 150)")
    lake.table("shop.a").create_index("id", "BTREE")
    lake.tag("before", lake.version)
    lake.drop_table("shop.c")
    waste = lake.transaction()
    waste.table("shop.b").append(rows(10))
    waste.late.write()
    lake.gc(dry_run=False, grace=0)
    tx = lake.transaction()
    tx.table("shop.b").append(rows(9))
    tx.save()
    lake.table("shop.b").append(rows(4))
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "lake")
    return tmp_path / "lake"


def check(folder: Path, *, repair: bool = False, deep: bool = False) -> Soundness:
    store = open_store(str(folder), durability="os")
    return check_lake(store, SYSTEM, repair=repair, deep=deep, progress=lambda _what, _done: None)


def of_sort(folder: Path, sort: Sort, inside: str = "") -> list[Path]:
    """The files of a sort that the lake needs, in order."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    named = [(path, place(str(path.relative_to(folder)))) for path in found]
    return [path for path, one in named if one.sort is sort and inside in str(path)]


def newest(folder: Path) -> int:
    return max(version for path in folder.iterdir() if (version := root_version(path.name)) is not None)


def flip(path: Path, at: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[min(len(data) - 1, int(len(data) * at))] ^= 0x40
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swap(one: Path, other: Path) -> None:
    data = one.read_bytes()
    assert data != other.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def live_nodes(folder: Path) -> list[Path]:
    """Nodes of the newest version."""
    store = open_store(str(folder), durability="os")
    root = read_root(store, newest(folder))
    return [folder / pointer.rpartition("#")[0] for pointer in root.node.children]


def staged(folder: Path, table: str) -> list[Path]:
    """Manifests that the lake decided on, oldest first."""
    return of_sort(folder, Sort.STAGED, f"shop/{table}-")


def published(folder: Path, table: str) -> list[Path]:
    """Manifests under their plain names, oldest first."""
    found = of_sort(folder, Sort.MANIFEST, f"shop/{table}-")
    return sorted(found, key=lambda path: (parse(path.name) or (None, 0))[1])


def row_file(folder: Path) -> Path:
    return of_sort(folder, Sort.ROW)[0]


def data(folder: Path) -> list[Path]:
    return sorted(of_sort(folder, Sort.DATA, "shop/a-"), key=lambda path: path.stat().st_size)


Damage = Callable[[Path], object]

DAMAGE: dict[str, tuple[str, Damage]] = {
    "a root is missing": ("root.missing", lambda at: (at / root_name(3)).unlink()),
    "a root was cut": ("root.damaged", lambda at: cut(at / root_name(3))),
    "a bit of a root was flipped": ("root.damaged", lambda at: flip(at / root_name(3))),
    "two roots were swapped": ("root.damaged", lambda at: swap(at / root_name(3), at / root_name(4))),
    "a root stands under another name too": (
        "root.damaged",
        lambda at: shutil.copy(at / root_name(3), at / root_name(newest(at) + 1)),
    ),
    "the newest root is empty": ("root.damaged", lambda at: (at / root_name(newest(at))).write_bytes(b"")),
    "a node is missing": ("node.missing", lambda at: live_nodes(at)[0].unlink()),
    "a node was cut": ("node.damaged", lambda at: cut(live_nodes(at)[0])),
    "a bit of a node was flipped": ("node.damaged", lambda at: flip(live_nodes(at)[1])),
    "two nodes were swapped": ("node.damaged", lambda at: swap(*live_nodes(at)[:2])),
    "the definition is missing": ("definition.missing", lambda at: of_sort(at, Sort.DEFINITION)[0].unlink()),
    "a bit of the definition was flipped": ("definition.damaged", lambda at: flip(of_sort(at, Sort.DEFINITION)[0])),
    "a row's file is missing": ("row.missing", lambda at: row_file(at).unlink()),
    "a bit of a row's file was flipped": ("row.damaged", lambda at: flip(row_file(at))),
    "change sets are missing": ("changes.missing", lambda at: of_sort(at, Sort.CHANGES)[0].unlink()),
    "change sets were cut": ("changes.damaged", lambda at: cut(of_sort(at, Sort.CHANGES)[0])),
    "a staged manifest is missing": ("manifest.missing", lambda at: staged(at, "a")[-1].unlink()),
    "a staged manifest was cut": ("manifest.damaged", lambda at: cut(staged(at, "a")[-1])),
    "a bit of a staged manifest was flipped": ("manifest.damaged", lambda at: flip(staged(at, "a")[-1])),
    "staged manifests of two tables were swapped": (
        "manifest.damaged",
        lambda at: swap(staged(at, "a")[-1], staged(at, "b")[-1]),
    ),
    "a published manifest is missing": ("published.missing", lambda at: published(at, "a")[1].unlink()),
    "both manifests of a version are missing": (
        "published.missing",
        lambda at: [path.unlink() for path in (staged(at, "a")[1], published(at, "a")[1])],  # type: ignore[func-returns-value]
    ),
    "the newest published manifest is missing": ("published.missing", lambda at: published(at, "a")[-1].unlink()),
    "a published manifest was cut": ("published.damaged", lambda at: cut(published(at, "a")[-1])),
    "the end of a published manifest was flipped": ("published.damaged", lambda at: flip(published(at, "a")[-1], 1.0)),
    "two published manifests were swapped": ("published.foreign", lambda at: swap(*published(at, "a")[1:3])),
    "a published manifest stands under the next name too": (
        "published.foreign",
        lambda at: shutil.copy(published(at, "a")[-1], published(at, "a")[-1].with_name(Naming.V2.file_name(90))),
    ),
    "a data file is missing": ("data.missing", lambda at: data(at)[0].unlink()),
    "a data file was cut": ("data.damaged", lambda at: cut(data(at)[0])),
    "a data file is empty": ("data.damaged", lambda at: data(at)[0].write_bytes(b"")),
    "two data files were swapped": ("data.damaged", lambda at: swap(*data(at)[:2])),
    "the end of a data file was flipped": ("data.damaged", lambda at: flip(data(at)[0], 1.0)),
    "a deletion file is missing": ("deletions.missing", lambda at: of_sort(at, Sort.DELETIONS)[0].unlink()),
    "a deletion file was cut": ("deletions.damaged", lambda at: cut(of_sort(at, Sort.DELETIONS)[0])),
    "a bit of a deletion file was flipped": (
        "deletions.damaged",
        lambda at: flip(of_sort(at, Sort.DELETIONS)[0], 0.99),
    ),
    "an index file is missing": ("index.missing", lambda at: of_sort(at, Sort.INDEX)[0].unlink()),
    "an index file was cut": ("index.damaged", lambda at: cut(of_sort(at, Sort.INDEX)[0])),
    "the hint is nonsense": ("hint.stale", lambda at: (at / "_latest_hint").write_bytes(b"\xff\x00")),
    "the mark of the oldest version is nonsense": ("hint.stale", lambda at: (at / "_oldest").write_bytes(b"-7")),
    "a table's hint is old": (
        "hint.stale",
        lambda at: of_sort(at, Sort.TABLE_HINT, "shop/a-")[0].write_bytes(b'{"version":1}'),
    ),
    "a saved transaction was cut": ("saved.damaged", lambda at: cut(of_sort(at, Sort.SAVED)[0])),
    "the list of the trash was flipped": (
        "trash.damaged",
        lambda at: flip(next(path for path in of_sort(at, Sort.TRASH) if path.name == "list")),
    ),
    "a note of a clean-up was cut": ("note.damaged", lambda at: cut(of_sort(at, Sort.NOTE)[0])),
}
REPAIRED = {
    "a staged manifest is missing",
    "a staged manifest was cut",
    "a bit of a staged manifest was flipped",
    "staged manifests of two tables were swapped",
    "the newest published manifest is missing",
    "a published manifest is missing",
    "a published manifest was cut",
    "the end of a published manifest was flipped",
    "the hint is nonsense",
    "the mark of the oldest version is nonsense",
    "a table's hint is old",
}


def test_a_sound_lake_is_found_sound_and_has_everything_in_it_that_the_damage_needs(sound: Path) -> None:
    found = check(sound, deep=True)
    assert found.problems == ()
    assert found.ok
    assert found.nodes >= 3
    assert found.tables == 3
    assert len(DAMAGE) >= 30


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found_and_named(what: str, folder: Path) -> None:
    kind, damage = DAMAGE[what]
    damage(folder)
    before = snapshot(folder)
    found = check(folder, deep=True)
    assert kind in found.kinds(), found.problems
    for problem in found.problems:
        assert problem.path
        assert problem.message
        assert problem.remedy
        assert not problem.repaired
    assert snapshot(folder) == before, "without repair nothing is written"
    assert found.ok == all(problem.severity == "note" for problem in found.problems)
    mended = check(folder, repair=True, deep=True)
    assert [problem.kind for problem in mended.problems] == [problem.kind for problem in found.problems]
    again = check(folder, deep=True)
    if what in REPAIRED:
        assert again.problems == ()
    else:
        assert kind in again.kinds()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_damage_is_named_leads_to_the_file(folder: Path) -> None:
    broken = data(folder)[0]
    cut(broken)
    (problem,) = check(folder).problems
    assert folder / problem.path == broken
    assert "version" in problem.message


def test_what_a_repair_replaces_is_kept(folder: Path) -> None:
    """What cannot be read may be somebody's commit all the same, written by a later release."""
    path = published(folder, "a")[-1]
    path.write_bytes(b"from the future")
    assert check(folder, repair=True).ok
    (kept,) = path.parent.parent.glob("_damaged/*.manifest")
    assert kept.read_bytes() == b"from the future"
    assert check(folder).problems == ()


def test_a_lost_manifest_is_damage_for_whoever_reads_and_comes_back(folder: Path) -> None:
    lost = staged(folder, "a")[-1]
    before = lost.read_bytes()
    lost.unlink()
    with pytest.raises(Corrupt, match=re.escape(str(lost.relative_to(folder)))) as caught:
        ids(seiche.open(str(folder)), "shop.a")
    assert "fsck --repair" in caught.value.remedy
    (problem,) = check(folder, repair=True).problems
    assert problem.repaired
    assert lost.read_bytes() == before
    assert ids(seiche.open(str(folder)), "shop.a")


def test_a_manifest_that_nothing_gives_back_is_not_made_up(folder: Path) -> None:
    lost, other = staged(folder, "a")[-1], published(folder, "a")[-1]
    lost.unlink()
    shutil.copy(published(folder, "b")[-1], other)
    assert not check(folder, repair=True).ok
    assert not lost.exists()


def test_what_was_cleared_away_under_a_reader_is_no_damage(folder: Path) -> None:
    lake = seiche.open(str(folder), durability="os")
    row = lake.state().table(("shop", "a"))
    lake.table("shop.a").append(rows(2000))
    staged(folder, "a")[-2].unlink()
    with pytest.raises(NotFound):
        LakeVersions(lake.store, row).read(row.table_version)


def test_a_lost_root_is_damage_for_whoever_needs_it(folder: Path) -> None:
    (folder / root_name(3)).unlink()
    lake = seiche.open(str(folder))
    for asked in (lambda: list(lake.log(limit=1000)), lambda: seiche.open(str(folder), version=3)):
        with pytest.raises(Corrupt, match=root_name(3)):
            asked()
    with pytest.raises(NotFound, match="does not exist"):
        seiche.open(str(folder), version=newest(folder) + 1)


def test_a_foreign_commit_is_named_with_its_remedy(folder: Path) -> None:
    DAMAGE["a published manifest stands under the next name too"][1](folder)
    (problem,) = check(folder).problems
    assert "adopt" in problem.remedy


def test_no_lake_at_all(tmp_path: Path) -> None:
    found = check(tmp_path)
    assert found.kinds() == {"root.missing"}
    assert not found.ok


def test_a_lake_of_which_only_one_root_is_left(folder: Path) -> None:
    for path in list(folder.rglob("*")):
        if path.is_file() and path.name != root_name(newest(folder)):
            path.unlink()
    found = check(folder)
    assert {"root.missing", "definition.missing", "node.missing"} <= found.kinds()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_every_file_damaged_at_once_does_not_stop_it(share: float, folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size:
            flip(path, share)
    found = check(folder, repair=True, deep=True)
    assert not found.ok
    assert "root.damaged" in found.kinds()


def test_versions_that_expired_are_nothing_wrong(folder: Path) -> None:
    lake = seiche.open(str(folder), durability="os")
    lake.settle(of_sort(folder, Sort.SAVED)[0].stem)
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0)
    found = lake.fsck(deep=True)
    assert found.problems == ()
    assert found.expired > 5
    assert ids(lake, "shop.b") == [1, 2, 3, 4]


def test_a_large_row_that_was_replaced_may_be_gone(tmp_path: Path) -> None:
    """It stands in a node still, below the message that replaced it, but the file that it was in is nobody's."""
    lake = seiche.create(open_store(str(tmp_path), durability="os"), settings=SMALL)
    lake.create_namespace("shop", {"note": "n" * 400})
    lake.create_table("shop.a", SCHEMA)
    with lake.transaction() as tx:
        for number in range(330):
            tx.create_namespace(f"n{number:03}{'x' * 95}")
    lake.table("shop.a").append(rows(1))
    before = set(tmp_path.rglob("*-namespace-*.binpb"))
    with lake.transaction() as tx:
        tx.alter_namespace("shop", {"note": "m" * 400})
    lake.expire(older_than=0, keep=1)
    lake.gc(dry_run=False, grace=0, window=0)
    (kept,) = set(tmp_path.rglob("*-namespace-*.binpb")) - before
    assert not any(one.exists() for one in before)
    assert lake.fsck().problems == ()
    kept.unlink()
    assert [one.kind for one in lake.fsck().problems] == ["row.missing"]


def test_a_commit_during_the_check_is_no_foreign_one(folder: Path) -> None:
    lake = seiche.open(str(folder), durability="os")

    def commit(what: str, _done: int) -> None:
        if what == "looking at tables":
            lake.table("shop.a").append(rows(1000))

    assert lake.fsck(progress=commit).problems == ()


def test_ids_and_namespaces_that_do_not_fit_are_named(folder: Path) -> None:
    from seiche.lake.objects.keys import id_key, namespace_key
    from tests.unit.lake.past import put_row

    lake = seiche.open(str(folder), durability="os")
    put_row(lake, id_key(lake.table("shop.a").row.id), None)
    put_row(lake, namespace_key(("shop",)), None)
    assert {"object.unknown", "object.homeless"} <= lake.fsck().kinds()


def test_a_row_of_the_wrong_kind_is_named(folder: Path) -> None:
    from seiche.lake.objects.keys import tag_key
    from seiche.lake.objects.rows import ObjectNameRow
    from tests.unit.lake.past import put_row

    lake = seiche.open(str(folder), durability="os")
    put_row(lake, tag_key("odd"), ObjectNameRow(key=b"C===x y"))
    assert "row.damaged" in lake.fsck().kinds()


def test_values_that_changed_are_beyond_it(folder: Path) -> None:
    """Data files have no checksums: what is a value still passes. Said here so that nobody relies on the contrary."""
    flip(data(folder)[-1], 0.01)
    assert check(folder, deep=True).problems == ()


@pytest.fixture
def with_blobs(tmp_path: Path) -> Path:
    """A lake with large values in files beside data files, in columns that were dropped, or replaced and renamed."""
    import lance

    lake = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    lake.create_namespace("shop")
    inner = pa.struct([lance.blob_field("page"), pa.field("n", pa.int64())])
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("a"), lance.blob_field("b"), ("in", inner)])
    table = lake.create_table("shop.scans", schema)
    values = [b"s", b"m" * 100_000, None, b"l" * 5_000_000]
    pages = pa.StructArray.from_arrays([lance.blob_array(values), pa.array(range(4))], fields=list(inner))
    blobs = lance.blob_array(values)
    table.append(pa.table({"id": range(4), "a": blobs, "b": blobs, "in": pages}, schema=schema))
    table.rename_columns({"b": "scan"})
    table.drop_columns(["a"])
    table.delete("id = 0")
    other = lake.create_table("shop.replaced", pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")]))
    other.append([{"id": 1, "b": b"first" * 20_000}])
    other.replace_column("b", lance.blob_array([b"second" * 20_000]))
    return tmp_path / "lake"


def test_tables_with_blobs_are_sound_also_when_the_column_is_gone(with_blobs: Path) -> None:
    assert check(with_blobs, deep=True).problems == ()
    lake = seiche.open(str(with_blobs), durability="os")
    for columns in ([], ["scan"], ["in"]):
        if columns:
            lake.table("shop.scans").drop_columns(columns)
        lake.expire(older_than=0, keep=1)
        lake.gc(dry_run=False, grace=0)
        assert check(with_blobs, deep=True).problems == ()


def test_large_values_that_are_missing_or_cut_are_found_by_a_deep_check(with_blobs: Path) -> None:
    large = sorted(with_blobs.rglob("*.blob"))
    assert len(large) == 6
    for one in large:
        whole = one.read_bytes()
        for kind, damage in (("data.damaged", cut), ("data.missing", Path.unlink)):
            damage(one)
            problems = check(with_blobs, deep=True).problems
            assert [(problem.kind, problem.path) for problem in problems] == [(kind, str(one.relative_to(with_blobs)))]
            one.write_bytes(whole)


class _Expiring:
    """Somebody who goes on committing, expiring and clearing away, a round at each thing that `fsck` looks at."""

    def __init__(self, folder: Path, at: str) -> None:
        self.lake = seiche.open(str(folder), durability="os")
        self.lake.settle(of_sort(folder, Sort.SAVED)[0].stem)
        self.lake.untag("before")
        self.at = at
        self.rounds = 0

    def __call__(self, what: str, _done: int) -> None:
        if what == self.at and self.rounds < 12:
            self.rounds += 1
            self.lake.table("shop.b").delete(f"id = {self.rounds}")
            self.lake.table("shop.b").overwrite(rows(*range(self.rounds, 100)))
            self.lake.expire(older_than=0, keep=1)
            self.lake.gc(dry_run=False, grace=0, window=0)


@pytest.mark.parametrize("at", ["looking at versions", "looking at tables"])
def test_expiries_and_clean_ups_that_go_on_and_on_are_no_damage(at: str, folder: Path) -> None:
    others = _Expiring(folder, at)
    assert [one for one in others.lake.fsck(progress=others).problems if one.severity == "error"] == []
    assert others.rounds >= 3


@pytest.mark.parametrize("at", ["looking at versions", "looking at tables"])
def test_damage_is_found_however_often_versions_expire_meanwhile(at: str, folder: Path) -> None:
    others = _Expiring(folder, at)
    broken = data(folder)[0]
    flip(broken, 0.99)
    found = others.lake.fsck(deep=True, progress=others)
    assert [one.path for one in found.problems if one.severity == "error"] == [str(broken.relative_to(folder))]
    assert others.rounds >= 3


def test_a_version_that_was_given_up_before_and_goes_meanwhile_is_no_damage(folder: Path) -> None:
    """The expiry decided before the check began, and makes its tombstones while that looks around."""
    lake = seiche.open(str(folder), durability="os")
    lake.settle(of_sort(folder, Sort.SAVED)[0].stem)
    lake.untag("before")
    lake.table("shop.b").overwrite(rows(7))
    name = root_name(lake.version - 1)
    root = lake.store.get(name)
    lake.expire(older_than=0, keep=1)
    tombstone = lake.store.get(name)
    assert tombstone != root
    lake.store.put(name, root)
    cleared: list[object] = []

    def bury(what: str, _done: int) -> None:
        if what == "looking at tables" and not cleared:
            lake.store.put(name, tombstone)
            cleared.append(lake.gc(dry_run=False, grace=0, window=0))

    assert lake.fsck(progress=bury).problems == ()
    assert cleared


def test_what_a_clean_up_tidies_away_after_it_was_listed_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(folder), durability="os")
    lake = seiche.open(store)
    whole = type(store).list

    def list_and_tidy(self: Store, folder: str = "", **options: Any) -> Iterator[ObjectInfo]:
        found = list(whole(self, folder, **options))
        if folder in ("_saved", "_trash", NOTED):
            for info in found:
                store.delete(info.path)
        return iter(found)

    monkeypatch.setattr(type(store), "list", list_and_tidy)
    assert lake.fsck().problems == ()
