"""The gate at which pipelines wait for one that has lost."""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import seiche
from seiche.core.runtime import SYSTEM
from seiche.errors import RetryableConflict
from seiche.spark.pipeline import run
from seiche.spark.pipeline.definition import Definition
from seiche.spark.pipeline.ready import Task, run_ready
from seiche.spark.pipeline.records import RunRecord
from seiche.store import open_store
from seiche.store.gate import Gate


def test_those_who_begin_wait_for_the_one_that_holds_it(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    store = open_store(f"file://{tmp_path}")
    waiting, told = Event(), []

    def begin() -> None:
        waiting.set()
        Gate(store, SYSTEM).wait()
        told.append("began")

    other = Thread(target=begin)
    with Gate(store, SYSTEM).held():
        other.start()
        assert waiting.wait(30)
        other.join(0.3)
        assert told == []
    other.join(30)
    assert told == ["began"]


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    store = open_store(f"file://{tmp_path}")
    with Gate(store, SYSTEM).held():
        Gate(store, SYSTEM, patience=0.1).wait()


def test_what_runs_inside_of_it_does_not_wait_for_it(tmp_path: Path) -> None:
    """A step that commits to the lake by itself would stand still for ten minutes, and the run with it."""
    (tmp_path / "tables").mkdir()
    store, told = open_store(f"file://{tmp_path}"), list[str]()

    def step() -> None:
        Gate(store, SYSTEM).wait()
        told.append("done")

    def run() -> None:
        with Gate(store, SYSTEM).held():
            run_ready([Task("a", frozenset(), step), Task("b", frozenset("a"), step)], 2)

    runner = Thread(target=run, daemon=True)
    runner.start()
    runner.join(30)
    assert told == ["done", "done"]


def test_where_there_is_nothing_to_hold(tmp_path: Path) -> None:
    Gate(open_store(f"file://{tmp_path}/none"), SYSTEM).wait()
    with Gate(open_store("memory://gate"), SYSTEM).held():
        pass


class Losing:
    """A transaction that loses the first times, and notes whether the gate was held when it tried."""

    base, id, replayed = 0, "tx", False

    def __init__(self, tables: Path, held: list[bool], losses: int) -> None:
        self._tables, self._held, self._losses = tables, held, losses

    def commit(self) -> int:
        place = os.open(self._tables, os.O_RDONLY)
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._held.append(False)
        except BlockingIOError:
            self._held.append(True)
        finally:
            os.close(place)
        if len(self._held) <= self._losses:
            raise RetryableConflict("others were first")
        return 7


def test_a_run_that_has_lost_twice_holds_it_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    (tmp_path / "lake" / "tables").mkdir(exist_ok=True)
    held: list[bool] = []
    made = RunRecord("r", "p", "published", datetime.now(UTC), 0.0, 0, "tx")
    monkeypatch.setattr(run._Job, "_begin", lambda _: Losing(tmp_path / "lake" / "tables", held, 4))
    monkeypatch.setattr("seiche.spark.pipeline.attempt.Attempt.build", lambda _: made)
    monkeypatch.setattr(run, "record", lambda *_: None)
    spark: Any = object()
    done = run.run(Definition("p", lake.uri, (), ()), spark, lake=lake)
    assert (done.version, done.attempts) == (7, 5)
    assert held == [False, False, True, True, True]
    with pytest.raises(RetryableConflict):
        Losing(tmp_path / "lake" / "tables", held := [], 1).commit()
    assert held == [False]  # it is free again
