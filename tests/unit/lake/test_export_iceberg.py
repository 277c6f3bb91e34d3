"""Iceberg tables in an export: read by the copy, by PyIceberg alone, and after a move by the lake again."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform

import seiche
from seiche import Corrupt, InvalidInput, Lake
from seiche.lake.export import iceberg
from seiche.lake.export.avro import Record, rewritten
from seiche.lake.iceberg.places import address
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def ice(lake: Lake) -> Lake:
    """A lake with an Iceberg table that has several snapshots, partitions and a renamed column, and a Lance table."""
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    lake.table("shop.i").append(rows(1, 2))
    lake.tag("early")
    table = lake.table("shop.i").to_iceberg()
    with table.update_spec() as spec:
        spec.add_field("n", IdentityTransform(), "n_part")
    lake.table("shop.i").append(rows(3, n=5))
    lake.table("shop.i").delete("id = 1")
    lake.table("shop.a").append(rows(7))
    return lake


def plain(lake: Lake, table: str) -> pa.Table:
    """What PyIceberg finds by itself, knowing nothing of the lake."""
    return StaticTable.from_metadata(lake.table(table).metadata_location).scan().to_arrow()  # type: ignore[attr-defined]


def test_a_copy_is_read_by_everybody_without_the_original(ice: Lake, tmp_path: Path) -> None:
    ice.export("x", str(tmp_path / "copy"))
    shutil.rmtree(ice.store.native_uri())
    copy = seiche.open(str(tmp_path / "copy"))
    assert ids(copy, "shop.i") == [2, 3]
    assert ids(copy, "shop.a") == [7]
    assert sorted(plain(copy, "shop.i")["id"].to_pylist()) == [2, 3]
    assert ids(seiche.open(copy.uri, version="early"), "shop.i") == [1, 2]
    table = copy.table("shop.i").to_iceberg()
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    old = str(ice.store.native_uri()).encode()
    for info in copy.store.list():
        if info.path.endswith(".json"):
            assert old not in copy.store.get(info.path), info.path
    assert copy.fsck(deep=True).problems == ()
    assert copy.gc().unneeded == ()


def test_a_copy_goes_on_and_can_be_moved(ice: Lake, tmp_path: Path) -> None:
    ice.export("x", str(tmp_path / "copy"))
    shutil.rmtree(ice.store.native_uri())
    copy = seiche.open(str(shutil.move(tmp_path / "copy", tmp_path / "moved")))
    assert ids(copy, "shop.i") == [2, 3]
    with copy.transaction() as tx:
        tx.append("shop.i", rows(9))
        tx.append("shop.a", rows(9))
    copy.table("shop.i").delete("id = 2")
    assert (ids(copy, "shop.i"), ids(copy, "shop.a")) == ([3, 9], [7, 9])
    assert copy.fsck().problems == ()


def test_manifests_say_how_long_they_are(ice: Lake, tmp_path: Path) -> None:
    from pyiceberg.manifest import read_manifest_list

    from seiche.lake.iceberg.file_io import LakeFileIO

    ice.export("x", str(tmp_path / "a-place-with-a-longer-name"))
    copy = seiche.open(str(tmp_path / "a-place-with-a-longer-name"))
    io = LakeFileIO(copy.store)
    seen = 0
    for snapshot in copy.table("shop.i").metadata.snapshots:  # type: ignore[attr-defined]
        for one in read_manifest_list(io.new_input(snapshot.manifest_list)):
            assert one.manifest_path.startswith(address(copy.store, "tables/"))
            assert len(io.new_input(one.manifest_path)) == one.manifest_length
            for entry in one.fetch_manifest_entry(io):
                assert entry.data_file.file_path.startswith(address(copy.store, "tables/"))
                seen += 1
    assert seen >= 4


def test_files_of_deletions_name_others_inside_so_nothing_is_renamed(
    ice: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise deleted rows would come back: their files would not be known by the names in there any more."""
    take = iceberg.IcebergCopy._take_files
    monkeypatch.setattr(iceberg.IcebergCopy, "_take_files", lambda self, one: take(self, one) or True)
    ice.export("x", str(tmp_path / "copy"))
    shutil.rmtree(ice.store.native_uri())
    copy = seiche.open(str(tmp_path / "copy"))
    assert ids(copy, "shop.i") == [2, 3], "the lake reads it all the same"


def test_it_cannot_be_referred_to(ice: Lake, tmp_path: Path) -> None:
    version = ice.version
    for mode, tables in (("minimal", None), ("partial", ["shop.a"])):
        with pytest.raises(InvalidInput, match="cannot be referred to"):
            ice.export("x", str(tmp_path / "copy"), mode=mode, tables=tables)  # type: ignore[arg-type]
    assert ice.version == version
    ice.export("x", str(tmp_path / "copy"), mode="partial", tables=["shop.i"])
    copy = seiche.open(str(tmp_path / "copy"))
    assert (ids(copy, "shop.i"), ids(copy, "shop.a")) == ([2, 3], [7])


def test_a_missing_manifest_stops_it(ice: Lake, tmp_path: Path) -> None:
    for info in list(ice.store.list()):
        if info.path.endswith(".avro") and "snap-" not in info.path:
            ice.store.delete(info.path)
    with pytest.raises(Corrupt, match="cannot be read"):
        ice.export("x", str(tmp_path / "copy"))


def avro_files(lake: Lake) -> list[str]:
    return [info.path for info in lake.store.list() if info.path.endswith(".avro")]


def records(data: bytes, path: str) -> tuple[bytes, list[Record]]:
    """A file written anew without a change, and what is in it."""
    found: list[Record] = []

    def take(one: Record) -> Record:
        found.append(one)
        return one

    return rewritten(data, take, path), found


def test_avro_is_written_as_it_was_read(ice: Lake) -> None:
    """Nothing is lost on the way: written and read again, the records are the same, and the schema is."""
    found = 0
    for path in avro_files(ice):
        data = ice.store.get(path)
        once, first = records(data, path)
        twice, second = records(once, path)
        assert first == second != []
        assert once == twice
        head = data.index(b"avro.schema") + 200
        assert data[:head] == once[:head]
        found += 1
    assert found >= 6


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"Obj\x01", None])
def test_avro_that_is_none(ice: Lake, damage: bytes | None) -> None:
    whole = ice.store.get(avro_files(ice)[0])
    for data in [damage] if damage is not None else [whole[:-9], whole[:200], whole[:-1] + b"x"]:
        with pytest.raises(Corrupt, match="Avro"):
            rewritten(data, lambda one: one, "x.avro")
