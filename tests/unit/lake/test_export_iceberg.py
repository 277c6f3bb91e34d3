"""Iceberg tables in an export: read by the copy, by PyIceberg alone, and after a move by the lake again."""

import gzip
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, ManifestEntry, read_manifest_list
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform

import seiche
from seiche import Corrupt, InvalidInput, Lake, NotFound
from seiche.lake.export import iceberg
from seiche.lake.export.avro import Record, rewritten
from seiche.lake.export.iceberg_deletes import rewritten as rewritten_deletes
from seiche.lake.iceberg.file_io import LakeFileIO
from seiche.lake.iceberg.places import address, path_of
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.iceberg_deletes import PATH_ID, Kind, delete_by_position


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


@pytest.mark.parametrize("name", ["9.gz.metadata.json", "9.metadata.json.gz", "9.metadata.json"])
def test_packed_metadata_is_known_by_its_bytes(ice: Lake, tmp_path: Path, name: str) -> None:
    was = ice.run(lambda tx: tx.unregister_iceberg("shop.i")).metadata_location
    packed = Path(was.removeprefix("file://")).parent / name
    packed.write_bytes(gzip.compress(Path(was.removeprefix("file://")).read_bytes()))
    ice.run(lambda tx: tx.register_iceberg("shop.i", str(packed)))
    ice.export("now", str(tmp_path / "now"))
    ice.table("shop.i").append(rows(4))
    ice.export("later", str(tmp_path / "later"))
    packed.write_bytes(packed.read_bytes()[:99])
    with pytest.raises(Corrupt, match=rf"{name} cannot be read"):
        ice.export("damaged", str(tmp_path / "damaged"))
    shutil.rmtree(ice.store.native_uri())
    for copy, found in (("now", [2, 3]), ("later", [2, 3, 4])):
        opened = seiche.open(str(tmp_path / copy))
        assert (ids(opened, "shop.i"), opened.fsck(deep=True).problems) == (found, ())


def test_manifests_say_how_long_they_are(ice: Lake, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("kind", ["parquet", "puffin"])
def test_files_of_deletions_get_the_addresses_of_the_copy(ice: Lake, tmp_path: Path, kind: Kind) -> None:
    """Otherwise deleted rows would come back: their files would not be known by the names in there any more."""
    ice.table("shop.i").append(rows(4, 5, 6))
    deleted = delete_by_position(ice, "shop.i", 5, kind)
    assert ids(ice, "shop.i") == [2, 3, 4, 6]
    ice.export("x", str(tmp_path / "copy"))
    copy = seiche.open(str(tmp_path / "copy"))
    shutil.rmtree(ice.store.native_uri())
    assert (ids(copy, "shop.i"), sorted(plain(copy, "shop.i")["id"].to_pylist())) == ([2, 3, 4, 6], [2, 3, 4, 6])
    old = str(ice.store.native_uri()).encode()
    path = path_of(copy.store, deleted)
    assert path is not None
    assert old not in copy.store.get(path)
    [entry] = [one for one in entries(copy) if one.data_file.content == DataFileContent.POSITION_DELETES]
    assert entry.data_file.file_size_in_bytes == copy.store.head(path).size
    home = address(copy.store, "tables/")
    for bounds in (entry.data_file.lower_bounds, entry.data_file.upper_bounds):
        assert bounds[PATH_ID].decode().startswith(home)
    if kind == "parquet":
        assert entry.data_file.column_sizes[PATH_ID] != 100
        schema = pq.read_schema(str(copy.store.native_uri(path)))
        assert schema.field("file_path").metadata[b"PARQUET:field_id"] == str(PATH_ID).encode()
    assert copy.fsck(deep=True).problems == ()


def entries(lake: Lake) -> list[ManifestEntry]:
    io = LakeFileIO(lake.store)
    current = lake.table("shop.i").metadata.current_snapshot()  # type: ignore[attr-defined]
    listed = read_manifest_list(io.new_input(current.manifest_list))
    return [entry for one in listed for entry in one.fetch_manifest_entry(io)]


def test_position_deletes_of_several_files_stay_sorted(tmp_path: Path) -> None:
    """Names of files outside of the lake stay; where only some change, their order may."""
    schema = pa.schema([pa.field("file_path", pa.string(), False), pa.field("pos", pa.int64(), False)])
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table([["b", "b", "c"], [1, 5, 0]], schema=schema), path, compression="zstd")
    done = rewritten_deletes("PARQUET", path.read_bytes(), lambda one: "z" if one == "b" else one, "d")
    path.write_bytes(done.data)
    assert pq.read_table(path).to_pydict() == {"file_path": ["c", "z", "z"], "pos": [0, 1, 5]}
    assert (done.bounds, pq.ParquetFile(path).metadata.row_group(0).column(0).compression) == (("c", "z"), "ZSTD")
    again = rewritten_deletes("PARQUET", done.data, lambda one: one, "d")
    assert again.data == done.data, "who goes on with an export makes the same file"


@pytest.mark.parametrize("kind", ["PARQUET", "PUFFIN", "AVRO"])
@pytest.mark.parametrize("data", [b"", b"PFA1", b"nonsense" * 9, b"PFA1" + bytes(40) + b"PFA1"])
def test_files_of_deletions_that_are_none(kind: str, data: bytes) -> None:
    with pytest.raises(Corrupt):
        rewritten_deletes(kind, data, lambda one: one, "d")


def test_where_one_cannot_be_written_anew_all_keep_their_addresses(
    ice: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a format that is not known here: then the lake still reads the copy, and deleted rows stay deleted."""
    ice.table("shop.i").append(rows(4, 5))
    delete_by_position(ice, "shop.i", 5)
    monkeypatch.setattr(iceberg, "can_rewrite", lambda _kind: False)
    ice.export("x", str(tmp_path / "copy"))
    shutil.rmtree(ice.store.native_uri())
    assert ids(seiche.open(str(tmp_path / "copy")), "shop.i") == [2, 3, 4]


def test_minimal_and_partial_exports_read_it_where_it_is(ice: Lake, tmp_path: Path) -> None:
    ice.table("shop.i").append(rows(4, 5))
    delete_by_position(ice, "shop.i", 5)
    version = ice.version
    ice.export("min", str(tmp_path / "min"), mode="minimal")
    ice.export("part", str(tmp_path / "part"), version, mode="partial", tables=["shop.a"])
    ice.export("ice", str(tmp_path / "ice"), version, mode="partial", tables=["shop.i"])
    ice.table("shop.i").delete("id = 4")
    ice.drop_table("shop.i")
    ice.untag("early")
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=0, window=0)
    for name, kind in (("min", "external"), ("part", "external"), ("ice", "managed")):
        copy = seiche.open(str(tmp_path / name))
        assert (ids(copy, "shop.i"), copy.version) == ([2, 3, 4], version), name
        assert (copy.table("shop.i").row.type, ids(copy, "shop.a")) == (kind, [7])
        assert not any(".parquet" in info.path for info in copy.store.list()) or kind == "managed"
        assert copy.fsck(deep=True).problems == ()
    copy = seiche.open(str(tmp_path / "min"))
    with pytest.raises(InvalidInput, match="only be read"):
        copy.table("shop.i").append(rows(9))
    for name in ("min", "part", "ice"):
        ice.unexport(name)
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=0, window=0)
    with pytest.raises((Corrupt, NotFound, FileNotFoundError)):
        ids(copy, "shop.i")
    assert ids(seiche.open(str(tmp_path / "ice")), "shop.i") == [2, 3, 4]


def test_a_minimal_export_of_a_lake_that_was_moved(ice: Lake, tmp_path: Path) -> None:
    """Addresses in its metadata are those of where it stood; its files are known by their places all the same."""
    delete_by_position(ice, "shop.i", 3)
    lake = seiche.open(str(shutil.move(str(ice.store.native_uri()), tmp_path / "moved")))
    lake.export("min", str(tmp_path / "min"), mode="minimal")
    assert ids(seiche.open(str(tmp_path / "min")), "shop.i") == [2]


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
