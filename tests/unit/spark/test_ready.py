"""Tasks that wait for each other."""

from threading import Barrier
from typing import Any

import pytest

from seiche.spark.pipeline.ready import Task, run_ready


def test_each_begins_when_what_it_needs_is_done() -> None:
    """The last one needs only the quick one, and runs beside the slow one: it is what the slow one waits for."""
    meeting = Barrier(2, timeout=30)
    done: list[str] = []

    def meet(name: str) -> Any:
        def do() -> str:
            meeting.wait()
            done.append(name)
            return name

        return do

    def quick() -> str:
        done.append("quick")
        return "quick"

    tasks = [
        Task("slow", frozenset({"raw"}), meet("slow")),
        Task("quick", frozenset(), quick),
        Task("after", frozenset({"quick"}), meet("after")),
        Task("last", frozenset({"slow", "after"}), lambda: "last"),
    ]
    assert run_ready(tasks, at_once=2) == ["slow", "quick", "after", "last"]
    assert done[0] == "quick"


def test_one_that_stands_first_waits_too() -> None:
    done: list[str] = []
    tasks: list[Task[Any]] = [
        Task("sum", frozenset({"one", "two"}), lambda: sorted(done)),
        Task("one", frozenset(), lambda: done.append("one")),
        Task("two", frozenset({"one"}), lambda: done.append("two")),
    ]
    assert run_ready(tasks, at_once=4)[0] == ["one", "two"]


def test_nothing_is_begun_after_an_error() -> None:
    begun: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    tasks = [
        Task("fails", frozenset(), fail),
        Task("never", frozenset({"fails"}), lambda: begun.append("never")),
        Task("later", frozenset({"never"}), lambda: begun.append("later")),
    ]
    with pytest.raises(ValueError, match="no"):
        run_ready(tasks, at_once=2)
    assert begun == []
