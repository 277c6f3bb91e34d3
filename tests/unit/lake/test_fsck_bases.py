"""Checks of tables with base paths: what lies in their own folder and elsewhere is looked at as of any other table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.core.runtime import SYSTEM
from seiche.errors import Corrupt
from seiche.lake.care.table_roots import TableRoot, TableRoots
from seiche.store.base import ObjectInfo
from seiche.store.local import LocalStore
from seiche.table.format.manifest_pb2 import DataFile
from tests.unit.lake.conftest import rows
from tests.unit.lake.test_export import share
from tests.unit.lake.test_gc import LakeRead


@pytest.fixture
def based(lake: Lake) -> Lake:
    """`shop.b` has rows in a file of `shop.a`, and others of its own, some of them deleted, with an index."""
    lake.table("shop.a").append(rows(1, 2))
    share(lake, "shop.a", "shop.b")
    lake.table("shop.b").append(rows(3, 4))
    lake.table("shop.b").delete("id = 3")
    lake.table("shop.b").create_index("id")
    return lake


def files(lake: Lake, table: str, pattern: str) -> list[Path]:
    return sorted(Path(lake.table(table).uri.removeprefix("file://")).glob(pattern))


def flip(path: Path) -> None:
    """Damage that leaves the size as it was: in the first bytes of what a data file holds, and where it ends."""
    data = bytearray(path.read_bytes())
    for at in (*range(64), len(data) - 20):
        data[at % len(data)] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def found(lake: Lake, *, deep: bool) -> list[tuple[str, str]]:
    """What is wrong, and the names of the files in which it is."""
    return sorted({(one.kind, Path(one.path).name) for one in lake.fsck(deep=deep).problems})


def test_a_sound_one_is_sound(based: Lake) -> None:
    assert based.fsck(deep=True).problems == ()


@pytest.mark.parametrize(
    ("table", "pattern", "damage", "kind"),
    [
        ("shop.a", "data/*.lance", Path.unlink, "data.missing"),
        ("shop.a", "data/*.lance", cut, "data.damaged"),
        ("shop.b", "data/*.lance", Path.unlink, "data.missing"),
        ("shop.b", "_deletions/*", Path.unlink, "deletions.missing"),
        ("shop.b", "_deletions/*", flip, "deletions.damaged"),
        ("shop.b", "_indices/*/page_data.lance", Path.unlink, "index.missing"),
    ],
    ids=["shared missing", "shared cut", "own missing", "deletions missing", "deletions damaged", "index missing"],
)
def test_each_file_that_is_wrong_is_named(
    based: Lake, table: str, pattern: str, damage: Callable[[Path], object], kind: str
) -> None:
    """Not the manifest that needs it, which is sound; and not only the first."""
    (path,) = files(based, table, pattern)
    damage(path)
    assert found(based, deep=False) == [(kind, path.name)]


@pytest.mark.parametrize("table", ["shop.a", "shop.b"], ids=["shared", "own"])
def test_data_that_cannot_be_read_is_found(based: Lake, table: str) -> None:
    (path,) = files(based, table, "data/*.lance")
    flip(path)
    assert found(based, deep=False) == []
    assert found(based, deep=True) == [("data.damaged", path.name)]
    whose = [one.path for one in based.fsck(deep=True).problems]
    assert len(whose) == (2 if table == "shop.a" else 1), "both tables need it"


def test_large_values_beside_a_data_file_are_missed(tmp_path: Path) -> None:
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    lake.create_namespace("shop")
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")])
    table: Any = lake.create_table("shop.films", schema)
    table.add_bases({"path": str(tmp_path / "media"), "name": "media"})
    table.append([{"id": 1, "b": b"s" * 100_000}])
    assert found(lake, deep=True) == []
    (path,) = files(lake, "shop.films", "data/*/*.blob")
    path.unlink()
    assert found(lake, deep=True) == [("data.missing", path.name)]


def test_folders_of_base_paths_are_listed_once(based: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many versions have them."""
    listed: list[str] = []
    plain = LocalStore.list

    def noted(store: LocalStore, prefix: str = "", **options: Any) -> Iterator[ObjectInfo]:
        listed.append(store.native_uri(prefix))
        return plain(store, prefix, **options)

    monkeypatch.setattr(LocalStore, "list", noted)
    assert based.fsck().problems == ()
    assert listed.count(f"{based.table('shop.a').uri}/data".removeprefix("file://")) == 1


def test_a_base_path_that_a_version_has_not_is_damage(based: Lake) -> None:
    roots = TableRoots(TableRoot(based.store, str), SYSTEM)
    roots.at(LakeRead(based, "shop.b").manifest)
    with pytest.raises(Corrupt, match="base path 7"):
        roots.of(DataFile(path="x", base_id=7))
