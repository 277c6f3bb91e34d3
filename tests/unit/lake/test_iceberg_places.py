"""A place of an Iceberg table belongs to one table: whoever is made, or comes back, where another is or was."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from seiche import AlreadyExists, ConflictError, InvalidInput, Lake, NotFound
from seiche.lake.care.gc import _Job
from seiche.lake.iceberg.creating import creation_step, new_metadata
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
