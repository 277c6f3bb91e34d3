"""Clean-up and checks of Iceberg tables: nothing that a kept version needs is taken, and what is wrong is found."""

import io
import os
import struct
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import DataScan
from pyiceberg.table.update import AddSnapshotUpdate, SetPartitionStatisticsUpdate, SetSnapshotRefUpdate

import seiche
from seiche import Corrupt, InvalidInput, Lake, RetryableConflict, SeicheError, Unavailable
from seiche.lake.care import health
from seiche.lake.care.saved_work import saved_work
from seiche.lake.commit import written
from seiche.lake.iceberg.parquet import check_parquet
from seiche.lake.iceberg.places import path_of
from seiche.lake.iceberg.reach import IcebergReach
from seiche.testing import SimulatedStore
from tests.service_lake import make_lake, reopened
from tests.unit.lake.conftest import SCHEMA, ids, rows
from tests.unit.lake.iceberg_deletes import delete_by_position
from tests.unit.service.test_fences import GRACE, clean_up, clean_up_before_the_root


@pytest.fixture
def ice(lake: Lake) -> Lake:
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    return lake


def files(lake: Lake) -> set[str]:
    return {info.path for info in lake.store.list() if info.path.startswith(lake.table("shop.i").row.location)}


def clean(lake: Lake) -> Any:
    return lake.gc(dry_run=False, grace=0, window=0)


def old(lake: Lake) -> None:
    """Make all files of the table look old."""
    for path in files(lake):
        os.utime(Path(lake.store.native_uri(path)), (0, 0))


def test_every_kept_version_can_be_read_after_a_clean_up(ice: Lake) -> None:
    for number in range(4):
        ice.table("shop.i").append(rows(number))
    ice.table("shop.i").delete("id = 1")
    ice.table("shop.i").overwrite(rows(9))
    first = ice.version - 5
    before = files(ice)
    found = clean(ice)
    assert not found.unneeded
    assert not found.unknown
    assert not found.closed
    assert files(ice) == before
    for version, expected in ((first, [0]), (ice.version - 1, [0, 2, 3]), (ice.version, [9])):
        assert ids(seiche.open(ice.store, version=version), "shop.i") == expected
    assert ice.fsck().ok


def test_what_was_never_committed_goes_and_what_expired_goes(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    tx = ice.transaction()
    tx.append("shop.i", rows(2))
    tx.rollback()
    kept = files(ice)
    found = clean(ice)
    assert {one.sort for one in found.unneeded} == {"data file", "Iceberg manifest"}
    assert len(kept - files(ice)) == 3  # data file, manifest, list
    ice.table("shop.i").overwrite(rows(5))
    ice.table("shop.i").to_iceberg().maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    assert len(ice.table("shop.i").metadata.snapshots) == 1  # type: ignore[attr-defined]
    before = files(ice)
    assert not clean(ice).unneeded, "earlier versions of the lake still have the snapshot"
    assert files(ice) == before
    ice.expire(older_than=0, keep=1)
    clean(ice)
    assert len([one for one in files(ice) if "/data/" in one]) == 1
    assert ids(ice, "shop.i") == [5]
    assert ice.fsck().ok


def test_a_dropped_table_goes_when_no_kept_version_has_it(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    location = ice.table("shop.i").row.location
    ice.drop_table("shop.i")
    ice.expire(older_than=0, keep=1)
    clean(ice)
    assert not [info.path for info in ice.store.list() if info.path.startswith(location)]


def test_a_saved_transaction_keeps_its_files(ice: Lake) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(2))
    saved = tx.save()
    before = files(ice)
    assert not clean(ice).unneeded
    assert files(ice) == before
    ice.resume(saved).commit()
    assert ids(ice, "shop.i") == [2]


@pytest.mark.parametrize("work", ["gc", "export"])
def test_storage_that_gives_no_answer_is_not_taken_for_a_damaged_table(ice: Lake, tmp_path: Path, work: str) -> None:
    def run(store: SimulatedStore, name: str) -> None:
        if work == "gc":
            assert not seiche.open(store).gc().closed
        else:
            seiche.open(store).export(name, tmp_path / name)

    ice.table("shop.i").append(rows(1))
    rehearsal = SimulatedStore(ice.store)
    run(rehearsal, "whole")
    calls = [number for number, call in enumerate(rehearsal.calls, 1) if call.path.endswith(".avro")]
    assert len(calls) >= 2
    for number in calls:
        with suppress(Unavailable):  # anything else would send people to look for a copy of a sound file
            run(SimulatedStore(ice.store, plan={number: "before"}), f"x{number}")


def test_a_saved_transaction_that_cannot_be_looked_into_closes_its_table(ice: Lake) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(2))
    tx.save()
    (work,) = saved_work(ice.store)
    ((location, listed),) = work.snapshots
    Path(ice.store.native_uri(path_of(ice.store, listed) or "")).write_bytes(b"torn")
    found = ice.gc(grace=0)
    assert list(found.closed) == [location]
    assert not found.unneeded


def test_a_writer_paused_across_a_clean_up_aborts_instead_of_naming_files_that_are_gone(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    tx = ice.transaction()
    tx.append("shop.i", rows(2))
    clean(ice)
    with pytest.raises(RetryableConflict, match="given up"):
        tx.commit()
    assert ids(ice, "shop.i") == [1]


def test_files_that_a_handle_wrote_before_a_clean_up_are_not_committed_after_it(ice: Lake) -> None:
    from pyiceberg.exceptions import CommitFailedException

    table = ice.table("shop.i").to_iceberg()
    work = table.transaction()
    work.append(rows(1))
    ice.table("shop.a").append(rows(1))
    clean(ice)
    work._table.metadata.properties["commit.retry.num-retries"] = "0"
    with pytest.raises(CommitFailedException, match="given up"):
        work.commit_transaction()
    table.append(rows(2))  # a handle can be used for ever
    assert ids(ice, "shop.i") == [2]


def test_a_fault_in_the_reachability_is_caught(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    ice.table("shop.i").append(rows(1))
    ice.table("shop.i").append(rows(2))
    assert not clean(ice).unneeded
    monkeypatch.setattr(IcebergReach, "_manifests", lambda _self, _where: [])
    clean(ice)
    monkeypatch.undo()
    assert {"manifest.missing"} == ice.fsck().kinds()


def test_a_table_that_cannot_be_looked_into_is_left_alone(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    where = ice.table("shop.i").metadata.current_snapshot().manifest_list  # type: ignore[attr-defined]
    path = path_of(ice.store, where) or ""
    ice.store.put(path, b"garbage")
    before = files(ice)
    found = clean(ice)
    assert ice.table("shop.i").row.location in found.closed
    assert files(ice) == before


@pytest.mark.parametrize("ending", [".parquet", "-m0.avro", "snap-"], ids=["data", "manifest", "manifests"])
def test_what_fsck_advises_about_lost_files_of_old_snapshots_works(ice: Lake, ending: str) -> None:
    """To give up the versions alone does not help: newer metadata has the snapshots too."""
    ice.table("shop.i").append(rows(1))
    lost = next(path for path in sorted(files(ice)) if ending in path)
    ice.table("shop.i").overwrite(rows(2))
    ice.store.delete(lost)
    (found,) = ice.fsck().problems
    assert found.path == lost
    assert "snapshot" in found.message
    assert "expire_snapshots()`, and then the versions" in found.remedy
    table = ice.table("shop.i").to_iceberg()
    old = [one.snapshot_id for one in table.metadata.snapshots if one != table.metadata.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    ice.expire(older_than=0, keep=1)
    assert (ice.fsck().problems, ids(ice, "shop.i")) == ((), [2])


@pytest.mark.parametrize("damage", ["missing", "garbage", "short"])
@pytest.mark.parametrize("what", ["metadata", "manifests", "manifest", "data"])
def test_damage_is_found_and_named(ice: Lake, what: str, damage: str) -> None:
    ice.table("shop.i").append(rows(1))
    table = ice.table("shop.i")
    located = table.row.location
    names = {
        "metadata": table.metadata_location,  # type: ignore[attr-defined]
        "manifests": table.metadata.current_snapshot().manifest_list,  # type: ignore[attr-defined]
        "manifest": next(one for one in files(ice) if one.endswith("-m0.avro")),
        "data": next(one for one in files(ice) if one.startswith(f"{located}/data/")),
    }
    name = names[what]
    path = name if name.startswith("tables/") else path_of(ice.store, name) or ""
    if damage == "missing":
        ice.store.delete(path)
    else:
        data = ice.store.get(path)
        ice.store.put(path, b"garbage" if damage == "garbage" else data[: len(data) // 2])
    kinds = ice.fsck().kinds()
    assert kinds == {f"{what}.{'missing' if damage == 'missing' else 'damaged'}"}


def test_statistics_that_are_not_there_are_no_damage(ice: Lake) -> None:
    """A commit may name them, and nobody reads a row by them."""
    ice.table("shop.i").append(rows(1))
    metadata = ice.table("shop.i").metadata  # type: ignore[attr-defined]
    file = {
        "snapshot-id": metadata.current_snapshot_id,
        "statistics-path": f"{metadata.location}/metadata/none.stats",
        "file-size-in-bytes": 10,
    }
    with ice.transaction() as tx:
        tx.commit_iceberg("shop.i", [], [SetPartitionStatisticsUpdate.model_validate({"partition-statistics": file})])
    found = ice.fsck()
    assert found.ok
    assert [(one.kind, one.severity) for one in found.problems] == [("statistics.missing", "note")]


def test_sequence_numbers_that_go_back_are_found(ice: Lake) -> None:
    ice.table("shop.i").append(rows(1))
    ice.table("shop.i").append(rows(2))
    path = path_of(ice.store, ice.table("shop.i").metadata_location) or ""  # type: ignore[attr-defined]
    data = ice.store.get(path)
    ice.store.put(path, data.replace(b'"last-sequence-number":2', b'"last-sequence-number":0'))
    assert ice.fsck().kinds() == {"metadata.damaged"}


@pytest.mark.parametrize("damage", ["footer", "page", "rows"])
def test_damage_inside_of_data_files_is_found_by_a_deep_look(ice: Lake, damage: str) -> None:
    """None of it changes the size of a file; each is found, and named by the file."""
    ice.table("shop.i").append(rows(*range(2000)))
    ice.table("shop.i").append(rows(*range(2000, 2010)))
    assert ice.fsck(deep=True).problems == ()
    path = max((one for one in files(ice) if one.endswith(".parquet")), key=lambda one: ice.store.head(one).size)
    data = bytearray(ice.store.get(path))
    size, footer = len(data), int.from_bytes(data[-8:-4], "little") + 8
    match damage:
        case "footer":
            data[-footer : 12 - footer] = bytes(12)
        case "page":
            data[4:40] = bytes(36)
        case "rows":
            # A sound file with a row less. What is between its pages and its footer is not read.
            fewer = parquet(rows(*range(1999)), compression="zstd", use_dictionary=False)
            footer = int.from_bytes(fewer[-8:-4], "little") + 8
            data = fewer[:-footer] + bytearray(size - len(fewer)) + fewer[-footer:]
    assert len(data) == size
    ice.store.put(path, bytes(data))
    assert ice.fsck().problems == (), "not without reading it"
    [problem] = ice.fsck(deep=True).problems
    assert (problem.kind, problem.path) == ("data.damaged", path)


def test_a_bit_that_only_a_checksum_notices(ice: Lake) -> None:
    data = parquet(rows(*range(2000)), compression="none", use_dictionary=False, write_page_checksum=True)
    ice.store.put("x.parquet", bytes(data))
    check_parquet(ice.store, "x.parquet", 2000)
    data[data.index(struct.pack("<q", 1500))] ^= 1
    ice.store.put("x.parquet", bytes(data))
    with pytest.raises(Corrupt, match="CRC"):
        check_parquet(ice.store, "x.parquet", 2000)


def parquet(table: pa.Table, **options: Any) -> bytearray:
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    return bytearray(out.getvalue())


def test_figures_of_iceberg_tables(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ice.health().iceberg[0].files == 0, "an empty one"
    for number in range(3):
        ice.table("shop.i").append(rows(number, number + 10))
    delete_by_position(ice, "shop.i", 11)
    [one] = ice.health().iceberg
    assert (one.table, one.snapshots, one.manifests, one.files, one.small_files) == ("shop.i", 4, 4, 3, 3)
    assert (one.delete_files, one.rows, one.version) == (1, 6, ice.table("shop.i").version)
    assert one.metadata_bytes == len(ice.store.get(ice.table("shop.i").row.iceberg.location))  # type: ignore[union-attr]
    assert ice.health().advice == ()
    for name, value in {"_SMALL_FRAGMENTS": 2, "_MANIFEST_BYTES": 10, "_SNAPSHOTS": 3, "_DELETE_FILES": 0.1}.items():
        monkeypatch.setattr(health, name, value)
    said = {one.finding: one.command for one in ice.health().advice if one.about == "shop.i"}
    assert len(said) == 4
    with ice.transaction() as tx:  # as it says
        tx.table("shop.i").overwrite(tx.table("shop.i").to_arrow())
    ice.table("shop.i").to_iceberg().maintenance.expire_snapshots().older_than(datetime.now(UTC)).commit()
    [one] = ice.health().iceberg
    assert (one.snapshots, one.files, one.small_files, one.rows) == (1, 1, 1, 5)
    ice.store.put(path_of(ice.store, ice.table("shop.i").metadata.current_snapshot().manifest_list) or "", b"x")  # type: ignore[attr-defined]
    assert ice.health().iceberg == (), "what is damaged is for fsck to say"


@pytest.mark.parametrize("kind", ["snapshot", "statistics"])
def test_a_commit_is_as_old_as_the_files_that_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(written, "BLUR", GRACE / 2)
    lake = make_lake(tmp_path)
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    lake.table("shop.i").append(rows(0))

    def brought(number: int) -> list[Any]:
        """What an engine asks for that has written its files without the lake, before it does."""
        tx = lake.transaction()
        tx.append("shop.i", rows(number))
        made = tx.iceberg("shop.i").metadata
        (snapshot,) = (one for one in made.snapshots if one.snapshot_id == made.current_snapshot_id)
        ref: Any = {"ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id}
        if kind == "snapshot":
            return [AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(ref)]
        path = f"{tx.iceberg('shop.i').row.location}/metadata/{number}.stats"
        lake.store.put(path, b"statistics")
        current = lake.transaction().iceberg("shop.i").metadata.current_snapshot_id
        file = {"snapshot-id": current, "statistics-path": lake.store.native_uri(path), "file-size-in-bytes": 10}
        return [SetPartitionStatisticsUpdate.model_validate({"partition-statistics": file})]

    early = brought(1)
    assert clean_up(lake) == 0, "it only notes them"
    lake.table("shop.stock").append({"writer": [1], "number": [1]})
    tx = lake.transaction()
    tx.commit_iceberg("shop.i", [], early)
    taken = clean_up_before_the_root(lake, monkeypatch)
    with pytest.raises(RetryableConflict, match="given up by an expiry or clean-up"):
        tx.commit()
    assert taken[0] >= 1
    assert reopened(lake).fsck(deep=True).ok
    # Written anew, they are taken.
    with lake.transaction() as tx:
        tx.commit_iceberg("shop.i", [], brought(2))
    assert reopened(lake).fsck(deep=True).ok


@pytest.mark.parametrize("damage", [b"", b"x" * 100])
def test_a_damaged_data_file_is_an_error_of_the_lake(ice: Lake, damage: bytes) -> None:
    ice.table("shop.i").append(rows(1))
    for path in files(ice):
        if "/data/" in path:
            ice.store.put(path, damage)
    with pytest.raises(Corrupt, match=r"shop\.i: a file cannot be read"):
        ice.table("shop.i").to_arrow()
    with pytest.raises(Corrupt, match=r"shop\.i: a file cannot be read"):
        ice.table("shop.i").update({"n": "n + 1"}, where="id = 1")


@pytest.mark.parametrize(
    ("raised", "told"), [(ValueError("no equality deletes"), InvalidInput), (OSError("timed out"), Unavailable)]
)
def test_what_cannot_be_read_is_an_error_of_the_lake(
    ice: Lake, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: type[SeicheError]
) -> None:
    def fails(_: object) -> None:
        raise raised

    ice.table("shop.i").append(rows(1))
    monkeypatch.setattr(DataScan, "plan_files", fails)
    with pytest.raises(told, match=str(raised)):
        ice.table("shop.i").to_arrow()
