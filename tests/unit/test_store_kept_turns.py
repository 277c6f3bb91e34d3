"""Turns that are kept for a moment: by whom, for how long, and that they end."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Event
from typing import cast

import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.store import kept_turns as turns
from seiche.store.base import Store
from seiche.store.kept_turns import KeptTurns


class Crowd:
    """A store that only has turns, in a crowd or not."""

    def __init__(self) -> None:
        self.waiting = True
        self.taken = self.left = 0
        self.free = Event()

    def turn(self, meanwhile: Callable[[], object] | None = None) -> AbstractContextManager[bool]:
        @contextmanager
        def held() -> Iterator[bool]:
            self.taken += 1
            self.free.clear()
            yield self.waiting
            self.left += 1
            self.free.set()

        return held()


class World:
    def __init__(self) -> None:
        self.crowd = Crowd()
        self.runtime = Runtime.seeded(1)
        self.turns = KeptTurns(cast(Store, self.crowd), self.runtime)

    def after(self, seconds: float) -> bool:
        """One commit more, so long after the last one; whether somebody else was there first."""
        cast(SimulatedClock, self.runtime.clock).advance(seconds)
        with self.turns.one() as waited:
            pass
        return waited


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("seiche.store.kept_turns._END", 3600.0)
    made = World()
    made.after(0.0)
    return made


def test_who_had_to_wait_and_comes_back_at_once_keeps_the_turn(world: World) -> None:
    assert (world.crowd.taken, world.crowd.left) == (1, 1), "the first time it is not known that he comes back"
    assert world.after(0.001)
    assert not world.after(0.001), "he has it still: nobody else was there"
    assert (world.crowd.taken, world.crowd.left) == (2, 1)


def test_nobody_is_kept_waiting_by_one_who_takes_his_time_or_is_alone(world: World) -> None:
    world.after(0.1)
    assert world.crowd.left == world.crowd.taken == 2
    world.crowd.waiting = False
    world.after(0.001)
    assert world.crowd.left == world.crowd.taken == 3


def test_a_turn_is_not_kept_for_long(world: World) -> None:
    commits = 0
    while world.crowd.taken < 4 and commits < 1000:
        world.after(0.001)
        commits += 1
    assert 20 < commits < 80


def test_a_turn_ends_when_its_owner_does_not_come_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seiche.store.kept_turns._END", 0.01)
    monkeypatch.setattr("seiche.store.kept_turns._IDLE", 0.001)  # so that the thread that ends it has to begin again
    for _ in range(3):
        world.after(0.001)
        assert world.crowd.free.wait(30)
    assert world.crowd.left == world.crowd.taken


def test_a_failed_commit_keeps_nothing(world: World) -> None:
    with pytest.raises(KeyError), world.turns.one():
        raise KeyError
    assert world.crowd.left == world.crowd.taken


def test_who_has_a_turn_for_longer_commits_in_it_and_others_wait(world: World) -> None:
    with world.turns.attempt(4, 0.1):
        before = world.crowd.taken
        assert not world.after(0.001)
        assert (world.crowd.taken, world.crowd.left) == (before, before - 1), "the same turn, and it goes on"
        with ThreadPoolExecutor(1) as another:
            assert another.submit(world.after, 0.1).result()
        assert world.crowd.taken == before + 1, "another thread has to wait for one of its own"
    world.turns.end()
    assert world.crowd.left == world.crowd.taken
    world.after(0.1)
    assert world.crowd.taken == before + 2


def test_a_forked_child_begins_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.after(0.001)
    assert world.crowd.left == 1
    monkeypatch.setattr("os.getpid", lambda: -1)
    world.after(0.001)
    assert (world.crowd.taken, world.crowd.left) == (3, 2), "the parent's turn is left to the parent"


def test_a_process_that_ends_lets_the_next_one_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.after(0.001)
    assert world.crowd.left == 1
    with monkeypatch.context() as forked:
        forked.setattr("seiche.store.kept_turns.os.getpid", lambda: -1)
        turns._end_all()
    assert world.crowd.left == 1, "what the parent of a forked process has is not the child's to give"
    turns._end_all()
    assert world.crowd.left == 2
    turns._end_all()
    assert world.crowd.left == 2


def test_where_no_thread_can_be_had_a_turn_is_not_kept_and_the_commit_is_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("seiche.store.kept_turns.Thread.start", refuse)
    for _ in range(3):
        assert world.after(0.001)
    assert world.crowd.left == world.crowd.taken == 4


def test_who_is_slow_has_no_turn_for_the_whole_of_it_however_often_he_lost(world: World) -> None:
    taken = world.crowd.taken
    with world.turns.attempt(4, 0.5), world.turns.attempt(3, 0.1):
        assert world.crowd.taken == taken
    with world.turns.attempt(4, 0.1):
        assert world.crowd.taken == taken + 1
