"""A place of an Iceberg table belongs to one table: whoever is made, or comes back, where another is or was."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import seiche
from seiche import AlreadyExists, ConflictError, InvalidInput, Lake, NotFound
from seiche.lake.care.gc import _Job
from seiche.lake.iceberg.creating import creation_step, new_metadata
from seiche.lake.iceberg.places import path_of
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def ice(lake: Lake) -> Lake:
    """A lake with an Iceberg table."""
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    lake.table("shop.i").append(rows(1))
    return lake


def dropped(lake: Lake, name: str = "shop.i") -> str:
    """The last metadata of a table that is dropped now."""
    where: str = lake.table(name).metadata_location  # type: ignore[attr-defined]
    lake.drop_table(name)
    return where


def register(lake: Lake, name: str, where: str) -> None:
    with lake.transaction() as tx:
        tx.register_iceberg(name, where)


def test_two_who_make_tables_in_one_place_do_not_both_succeed(ice: Lake) -> None:
    step = creation_step(new_metadata(("shop", "k"), SCHEMA, ice.store, ice.states.runtime))
    first, second = ice.transaction(), ice.transaction()
    first.commit_iceberg("shop.k", step.requirements, step.updates)
    second.commit_iceberg("shop.l", step.requirements, step.updates)
    first.commit()
    with pytest.raises(ConflictError, match="made in its place"):
        second.commit()
    ice.table("shop.k").append(rows(2))
    assert ids(ice, "shop.k") == [2]


def test_no_table_is_made_where_one_was(ice: Lake) -> None:
    location = ice.table("shop.i").metadata.location  # type: ignore[attr-defined]
    began = ice.transaction()
    ice.drop_table("shop.i")
    with pytest.raises(AlreadyExists, match="or was one"):
        ice.create_table("shop.k", SCHEMA, format="iceberg", location=location)
    began.rollback()


def _after_the_commit(lake: Lake, where: str) -> None:
    register(lake, "shop.j", where)
    with pytest.raises(AlreadyExists, match="belongs to a table that the lake has"):
        register(lake, "shop.k", where)


def _in_one_transaction(lake: Lake, where: str) -> None:
    with lake.transaction() as tx:
        tx.register_iceberg("shop.j", where)
        with pytest.raises(AlreadyExists, match="belongs to a table that the lake has"):
            tx.register_iceberg("shop.k", where)


def _at_the_same_time(lake: Lake, where: str) -> None:
    one, other = lake.transaction(), lake.transaction()
    one.register_iceberg("shop.j", where)
    other.register_iceberg("shop.k", where)
    one.commit()
    with pytest.raises(ConflictError):
        other.commit()


@pytest.mark.parametrize("twice", [_after_the_commit, _in_one_transaction, _at_the_same_time])
def test_metadata_of_a_dropped_table_is_registered_once(ice: Lake, twice: Callable[[Lake, str], None]) -> None:
    twice(ice, dropped(ice))
    assert ids(ice, "shop.j") == [1]
    assert ("shop", "k") not in ice.tables("shop")
    # Renamed, it is the same table; dropped, the place is free again.
    ice.rename_table("shop.j", "shop.m")
    last = ice.table("shop.m").metadata_location  # type: ignore[attr-defined]
    with pytest.raises(AlreadyExists):
        register(ice, "shop.k", last)
    register(ice, "shop.k", dropped(ice, "shop.m"))
    assert ids(ice, "shop.k") == [1]
    assert ice.fsck().problems == ()


def test_no_table_is_made_where_one_is_registered(ice: Lake) -> None:
    location = ice.table("shop.i").metadata.location  # type: ignore[attr-defined]
    register(ice, "shop.j", dropped(ice))
    ice.expire(older_than=0, keep=1)
    for _ in range(2):
        ice.gc(dry_run=False, grace=0, window=0)
    with pytest.raises(AlreadyExists, match="or was one"):
        ice.create_table("shop.k", SCHEMA, format="iceberg", location=location)
    assert ids(ice, "shop.j") == [1]


def test_a_table_that_a_rollback_brings_back_keeps_its_place(ice: Lake) -> None:
    where = dropped(ice)
    register(ice, "shop.j", where)
    version = ice.version
    ice.drop_table("shop.j")
    register(ice, "shop.k", where)
    ice.rollback(to=version)
    assert ids(ice, "shop.j") == [1]
    with pytest.raises(AlreadyExists):
        register(ice, "shop.k", where)


def test_a_rollback_that_brings_a_table_back_meets_who_registers_its_place(ice: Lake) -> None:
    version = ice.version
    where = dropped(ice)
    tx = ice.transaction()
    tx.register_iceberg("shop.k", where)
    ice.rollback(to=version)
    with pytest.raises(ConflictError):
        tx.commit()
    assert ids(ice, "shop.i") == [1]


def test_a_rollback_of_some_tables_brings_none_back_into_the_place_of_another(ice: Lake) -> None:
    version = ice.version
    register(ice, "shop.j", dropped(ice))
    ice.rename_table("shop.j", "shop.k")
    ice.table("shop.k").append(rows(2))
    for dry_run in (True, False):
        with pytest.raises(AlreadyExists, match=r"shop\.k was made of its metadata"):
            ice.rollback(to=version, tables=["shop.i"], dry_run=dry_run)
    assert ids(ice, "shop.k") == [1, 2]
    # Both ways out that the error names.
    ice.rollback(to=version, tables=["shop.i", "shop.k"])
    assert (("shop", "k") in ice.tables("shop"), ids(ice, "shop.i")) == (False, [1])
    register(ice, "shop.k", dropped(ice))
    ice.drop_table("shop.k")
    ice.rollback(to=version, tables=["shop.i"])
    assert ids(ice, "shop.i") == [1]
    assert ice.fsck().problems == ()


def test_metadata_whose_files_were_cleared_away_is_not_registered(ice: Lake) -> None:
    first = ice.table("shop.i").metadata_location  # type: ignore[attr-defined]
    ice.table("shop.i").overwrite(rows(2))
    table = ice.table("shop.i").to_iceberg()
    old = [one.snapshot_id for one in table.metadata.snapshots if one != table.metadata.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    ice.expire(older_than=0, keep=1)
    for _ in range(2):
        ice.gc(dry_run=False, grace=0, window=0)
    last = dropped(ice)
    with pytest.raises(InvalidInput, match="missing or damaged"):
        register(ice, "shop.k", first)
    register(ice, "shop.k", last)
    assert ids(ice, "shop.k") == [2]


def test_who_registers_while_a_clean_up_takes_the_files_is_refused(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """He began after the files were noted, so no fence stops him."""
    where = dropped(ice)
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=timedelta(seconds=1), window=0)
    ice.states.runtime.clock.sleep(1.1)
    ice.create_namespace("later")
    tx = ice.transaction()
    tx.register_iceberg("shop.k", where)
    take, refused = _Job._take, []

    def late(job: _Job, ready: Any) -> str | None:
        try:
            tx.commit()
        except ConflictError as error:
            refused.append(error)
        return take(job, ready)

    monkeypatch.setattr(_Job, "_take", late)
    ice.gc(dry_run=False, grace=timedelta(seconds=1), window=0)
    assert refused, "the files are gone"
    assert ("shop", "k") not in ice.tables("shop")


def _lying_there(lake: Lake, _folder: Path) -> str:
    """Metadata that somebody made in a place of the lake, and never committed."""
    made = new_metadata(("shop", "k"), SCHEMA, lake.store, lake.states.runtime)
    where = f"{made.location}/metadata/00000-{lake.states.runtime.uuid()}.metadata.json"
    lake.store.put(path_of(lake.store, where) or "", made.model_dump_json().encode())
    return where


def _copied_out(lake: Lake, folder: Path) -> str:
    """A copy outside of the lake of the metadata of a table that is dropped, and leads to its files."""
    found = json.loads(lake.store.get(lake.table("shop.i").row.iceberg.location))  # type: ignore[union-attr]
    copy = folder / "copy.metadata.json"
    copy.write_text(json.dumps({**found, "location": "file:///elsewhere"}))
    dropped(lake)
    lake.expire(older_than=0, keep=1)
    return str(copy)


@pytest.mark.parametrize("metadata", [_lying_there, _copied_out])
def test_who_registers_files_that_no_table_has_meets_a_clean_up_that_takes_them(
    ice: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: Callable[[Lake, Path], str]
) -> None:
    """Nothing that it reads is changed by the clean-up, and it began after the files were noted."""
    where = metadata(ice, tmp_path)
    ice.gc(dry_run=False, grace=timedelta(seconds=0.1), window=0)
    ice.states.runtime.clock.sleep(0.2)
    ice.create_namespace("later")
    tx = ice.transaction()
    tx.register_iceberg("shop.new", where)
    take, refused = _Job._take, []

    def late(job: _Job, ready: Any) -> str | None:
        try:
            tx.commit()
        except ConflictError as error:
            refused.append(error)
        with pytest.raises(InvalidInput, match="may be taking now"):
            register(ice, "shop.new", where)
        return take(job, ready)

    monkeypatch.setattr(_Job, "_take", late)
    assert ice.gc(dry_run=False, grace=timedelta(seconds=0.1), window=0).moved
    assert refused, "the files are gone"
    assert ("shop", "new") not in ice.tables("shop")
    with pytest.raises((InvalidInput, NotFound)):
        register(ice, "shop.new", where)


def test_a_table_that_comes_and_goes_while_a_clean_up_looks_is_remembered_with_its_files(
    ice: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were there before it was, and no version that is kept has it; who registers it reads that it is
    remembered.
    """
    other = seiche.open(ice.store)
    tx = other.transaction()
    tx.create_table("shop.k", SCHEMA, format="iceberg").append(rows(7))
    put_up, take, where = _Job._put_up_fence, _Job._take, []

    def late(job: _Job, min_base: int) -> int:
        tx.commit()
        where.append(dropped(other, "shop.k"))
        other.expire(older_than=0, keep=1)
        return put_up(job, min_base)

    def later(job: _Job, ready: Any) -> str | None:
        register(other, "shop.new", where[0])
        return take(job, ready)

    monkeypatch.setattr(_Job, "_put_up_fence", late)
    monkeypatch.setattr(_Job, "_take", later)
    ice.gc(dry_run=False, grace=0, window=0)
    monkeypatch.undo()
    assert (ids(ice, "shop.new"), ice.fsck().problems) == ([7], ())


def _without_the_first_snapshot(lake: Lake) -> None:
    table = lake.table("shop.i").to_iceberg()
    old = [one.snapshot_id for one in table.metadata.snapshots if one != table.metadata.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def test_what_was_given_up_of_a_dropped_table_is_not_registered(ice: Lake) -> None:
    """Its last metadata does not lead there, and a clean-up may be half way through."""
    first = ice.table("shop.i").metadata_location  # type: ignore[attr-defined]
    ice.table("shop.i").overwrite(rows(2))
    _without_the_first_snapshot(ice)
    ice.tag("last")
    last = dropped(ice)
    ice.expire(older_than=0, keep=1)
    with pytest.raises(InvalidInput, match="no table of the lake needs"):
        register(ice, "shop.k", first)
    register(ice, "shop.k", last)
    assert ids(ice, "shop.k") == [2]


def test_what_the_last_metadata_of_a_dropped_table_leads_to_is_registered_whenever_it_was_written(ice: Lake) -> None:
    first = ice.table("shop.i").metadata_location  # type: ignore[attr-defined]
    ice.table("shop.i").append(rows(2))
    ice.tag("last")
    dropped(ice)
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=0, window=0)
    register(ice, "shop.k", first)
    assert ids(ice, "shop.k") == [1]
    assert ice.fsck().problems == ()


def test_a_copy_of_the_metadata_of_a_table_that_is_there_is_a_table_of_the_same_files(
    ice: Lake, tmp_path: Path
) -> None:
    found = json.loads(ice.store.get(ice.table("shop.i").row.iceberg.location))  # type: ignore[union-attr]
    copy = tmp_path / "copy.metadata.json"
    copy.write_text(json.dumps({**found, "location": "file:///elsewhere"}))
    ice.expire(older_than=0, keep=1)
    register(ice, "shop.k", str(copy))
    ice.table("shop.k").append(rows(2))
    ice.table("shop.i").overwrite(rows(3))
    _without_the_first_snapshot(ice)
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=0, window=0)
    assert (ids(ice, "shop.i"), ids(ice, "shop.k")) == ([3], [1, 2])
    assert ice.fsck().problems == ()


def test_files_in_the_lakes_folder_that_no_clean_up_touches_are_registered_however_old_they_are(
    ice: Lake, tmp_path: Path
) -> None:
    found = json.loads(ice.store.get(ice.table("shop.i").row.iceberg.location))  # type: ignore[union-attr]
    (snapshot,) = found["snapshots"]
    ice.store.copy(path_of(ice.store, snapshot["manifest-list"]) or "", "theirs/list.avro")
    snapshot["manifest-list"] = ice.store.native_uri("theirs/list.avro")
    copy = tmp_path / "copy.metadata.json"
    copy.write_text(json.dumps({**found, "location": "file:///elsewhere"}))
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=0, window=0)
    register(ice, "shop.k", str(copy))
    assert ids(ice, "shop.k") == [1]


def test_what_another_catalog_made_of_a_table_comes_back_however_old_it_is(ice: Lake) -> None:
    with ice.transaction() as tx:
        where = tx.unregister_iceberg("shop.i").metadata_location
    path = path_of(ice.store, where) or ""
    theirs = path.replace("00001-", "00002-")
    ice.store.copy(path, theirs)
    ice.states.runtime.clock.sleep(0.01)
    ice.expire(older_than=0, keep=1)
    ice.gc(dry_run=False, grace=0, window=0)
    register(ice, "shop.i", where.replace(path, theirs))
    assert ids(ice, "shop.i") == [1]


def test_a_table_that_was_cleared_away_comes_back_from_the_trash(ice: Lake) -> None:
    where = dropped(ice)
    ice.expire(older_than=0, keep=1)
    run = ice.gc(dry_run=False, grace=0, window="7d").run
    assert run is not None
    with pytest.raises(NotFound):
        register(ice, "shop.k", where)
    ice.trash().restore(run)
    register(ice, "shop.k", where)
    ice.gc(dry_run=False, grace=0, window=0)
    assert ids(ice, "shop.k") == [1]
