"""A lake that is put back from a copy while others have it open: what they know of the one before does not get in."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import seiche
from seiche import Corrupt, Lake, SeicheError
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.lake.lake import open_lake
from tests.unit.lake.conftest import SCHEMA, ids, rows

DOES: dict[str, Callable[[Lake], object]] = {
    "append": lambda lake: lake.table("shop.a").append(rows(9)),
    "delete": lambda lake: lake.table("shop.a").delete("id = 2"),
    "create": lambda lake: lake.create_table("shop.c", SCHEMA),
    "rollback": lambda lake: lake.rollback(3),
    "expire": lambda lake: lake.expire(older_than=0, keep=1),
    "gc": lambda lake: lake.gc(dry_run=False, grace=0, window=0),
    "read": lambda lake: ids(lake, "shop.a"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lake = seiche.create(tmp_path / "lake")
    lake.create_namespace("shop")
    lake.create_table("shop.a", SCHEMA).append(rows(1))
    return tmp_path / "lake"


@pytest.fixture
def opened(folder: Path) -> Lake:
    """A handle of a process that has seen three more versions than the copy has, from which the lake is put back."""
    shutil.copytree(folder, folder.with_name("copy"))
    lake = open_lake(folder, runtime=Runtime.seeded(5))
    for one in (2, 3, 4):
        lake.table("shop.a").append(rows(one))
    return lake


def put_back(folder: Path, commits: int) -> Lake:
    """The copy in the lake's place, in which somebody goes on."""
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("copy"), folder)
    lake = seiche.open(folder)
    for one in range(commits):
        lake.table("shop.a").append(rows(10 + one))
    return lake


def rest(lake: Lake) -> None:
    clock = lake.states.runtime.clock
    assert isinstance(clock, SimulatedClock)
    clock.advance(60)


@pytest.mark.parametrize("commits", [0, 1, 3, 4])
@pytest.mark.parametrize("does", DOES)
def test_who_knew_the_lake_before_is_told_and_changes_nothing(
    folder: Path, opened: Lake, does: str, commits: int
) -> None:
    lake = put_back(folder, commits)
    found = ids(lake, "shop.a"), lake.version
    rest(opened)
    for _ in range(2):
        with pytest.raises(Corrupt, match="put back"):
            DOES[does](opened)
    again = seiche.open(folder)
    assert (ids(again, "shop.a"), again.version) == found
    assert again.fsck(deep=True).problems == ()


@pytest.mark.parametrize("commits", [0, 1, 3, 4])
def test_a_transaction_from_before_does_not_get_in(folder: Path, opened: Lake, commits: int) -> None:
    """It would delete rows of others: its fragments have the numbers of theirs."""
    tx = opened.transaction()
    tx.delete("shop.a", "id = 2")
    lake = put_back(folder, commits)
    rest(opened)
    with pytest.raises(Corrupt, match="put back"):
        tx.commit()
    assert ids(seiche.open(folder), "shop.a") == [1, *range(10, 10 + commits)] == ids(lake, "shop.a")


def test_who_commits_all_the_time_meets_the_missing_root(folder: Path, opened: Lake) -> None:
    put_back(folder, 1)
    with pytest.raises(Corrupt, match="put back"):
        opened.create_namespace("other")
    assert seiche.open(folder).namespaces() == [("shop",)]


def test_it_goes_on_where_the_lake_itself_is_brought_back(folder: Path, opened: Lake) -> None:
    folder.rename(folder.with_name("away"))
    rest(opened)
    with pytest.raises(SeicheError):
        opened.table("shop.a").append(rows(5))
    folder.with_name("away").rename(folder)
    opened.table("shop.a").append(rows(6))
    assert ids(opened, "shop.a") == [1, 2, 3, 4, 6]


def test_a_version_that_has_expired_meanwhile_is_still_the_one(folder: Path, opened: Lake) -> None:
    other = seiche.open(folder)
    other.create_namespace("other")
    other.expire(older_than=0, keep=1)
    rest(opened)
    assert opened.namespaces() == [("other",), ("shop",)]
    opened.table("shop.a").append(rows(5))
    assert ids(other, "shop.a") == [1, 2, 3, 4, 5]
