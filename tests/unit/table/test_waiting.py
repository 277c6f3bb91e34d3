"""A commit that waits for its turn checks what others commit meanwhile: nothing is lost by that, or done twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import IncompatibleConflict, RetryableConflict
from seiche.store.local import LocalStore
from seiche.table.operations import Append, UpdateConfig, UpdateMap
from seiche.table.pending import Pending
from seiche.table.table import Table
from seiche.table.versions import hint

SCHEMA = pa.schema([("id", pa.int64())])


class Busy(LocalStore):
    """A store where one has to wait for a turn, and others do something each time before one may look again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, durability="os")
        self.others: list[Callable[[], object]] = []
        self.turns = 0
        self.inside = False

    @contextmanager
    def turn(self, meanwhile: Callable[[], object] | None = None) -> Iterator[bool]:
        self.turns += 1
        while self.others:
            self.others.pop(0)()
            if meanwhile is not None:
                meanwhile()
        self.inside = True
        yield True
        self.inside = False


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, schema=SCHEMA)


@pytest.fixture
def other(tmp_path: Path) -> Table:
    made = Table.create(str(tmp_path / "t"), SCHEMA, durability="os")
    made.append(rows(1))
    return made


@pytest.fixture
def store(tmp_path: Path, other: Table) -> Busy:
    return Busy(tmp_path / "t")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """When which version was found to be checked: while waiting, or in the turn."""
    seen: list[tuple[str, int]] = []
    catch_up, check_against = Pending.catch_up, Pending.check_against

    def waiting(pending: Pending) -> None:
        catch_up(pending)
        seen.append(("waiting", pending.checked))

    def inside(pending: Pending, newest: int) -> object:
        seen.append(("inside", pending.checked))
        return check_against(pending, newest)

    monkeypatch.setattr(Pending, "catch_up", waiting)
    monkeypatch.setattr(Pending, "check_against", inside)
    return seen


def test_what_others_commit_is_checked_before_the_turn(
    store: Busy, other: Table, checks: list[tuple[str, int]]
) -> None:
    table = Table.open(store)
    store.others = [lambda: other.append(rows(2)), lambda: other.append(rows(3)), lambda: None]
    table.commit(table.pack(Append(tuple(other.manifest.fragments))))
    others = [("inside", 2), ("inside", 3)]
    assert [one for one in checks if one not in others] == [
        ("waiting", 3),
        ("waiting", 4),
        ("waiting", 4),
        ("inside", 4),
    ]
    assert table.version == 5
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 1, 2, 3]


def test_appends_wait_without_looking_at_what_others_append(
    store: Busy, other: Table, checks: list[tuple[str, int]]
) -> None:
    table = Table.open(store)
    store.others = [lambda: other.append(rows(2)), lambda: other.append(rows(3)), lambda: None]
    table.append(rows(4))
    assert [one for one in checks if one[0] == "waiting"] == [("waiting", 2)] * 3
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]


def test_a_conflict_is_told_while_one_still_waits(store: Busy, other: Table) -> None:
    table = Table.open(store)
    change = Append(tuple(other.manifest.fragments))
    later: list[str] = []
    store.others = [lambda: other.overwrite(rows(7)), lambda: later.append("turn")]
    with pytest.raises(IncompatibleConflict):
        table.commit(table.pack(change))
    assert not later
    assert other.version == 3


def test_a_commit_that_another_process_finishes_while_one_waits_is_found(store: Busy, other: Table) -> None:
    table = Table.open(store)
    packed = table.pack(UpdateConfig(config_updates=UpdateMap({"owner": "us"})))
    store.others = [
        lambda: other.append(rows(2)),
        lambda: other.commit(packed),
        lambda: other.append(rows(3)),
        lambda: None,
    ]
    table.commit(packed)
    assert [one.operation for one in other.versions()][-3:] == ["Append", "UpdateConfig", "Append"]
    assert other.version == 5


def test_in_a_crowd_one_turn_is_kept_for_several_commits_and_nobody_elses_is_overlooked(
    store: Busy, other: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_MOMENT", "_END", "_LONGEST"):
        monkeypatch.setattr(f"seiche.store.kept_turns.{name}", 3600.0)
    table = Table.open(store)
    again = Append(tuple(table.manifest.fragments))
    for number in (2, 3, 4):
        table.append(rows(number))
    assert store.turns == 2, "once to see that he comes back at once, and once to keep it"
    other.append(rows(5))  # pylance does not know of turns, nor do those who wait too long
    hint.write(store, 5)  # nor does its hint tell
    table.commit(again)
    assert store.turns == 2
    assert table.version == 7
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 1, 2, 3, 4, 5]
    table._versions.turns.end()


@pytest.mark.parametrize(("seconds", "ahead"), [(0.1, True), (1.0, False)])
def test_who_has_lost_too_often_has_others_wait_if_he_is_quick(
    store: Busy, monkeypatch: pytest.MonkeyPatch, seconds: float, *, ahead: bool
) -> None:
    runtime = Runtime.seeded(1)
    clock = cast(SimulatedClock, runtime.clock)
    table = Table.open(store, runtime=runtime)
    commit = Table._commit_prepared
    seen: list[bool] = []

    def losing(self: Table, *given: Any) -> Any:
        seen.append(store.inside)
        clock.advance(seconds)
        if len(seen) <= 4:
            raise RetryableConflict("somebody else was first")
        return commit(self, *given)

    monkeypatch.setattr(Table, "_commit_prepared", losing)
    assert table.append(rows(2)).attempts == 5
    assert seen == [False, False, False, ahead, ahead]
    assert not store.inside
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
