"""Answers on their way from the committing threads to the event loop: none is lost, however they meet."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from seiche.errors import Unavailable
from seiche.service.wire.answers import Answers


class Loop:
    """An event loop whose callbacks are called by the test."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, act: Callable[[], None]) -> None:
        self.soon.append(act)


class SlowList(list[Any]):
    """Takes its time to append, so that others can get in between."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.go = threading.Event(), threading.Event()

    def append(self, item: Any) -> None:
        self.began.set()
        assert self.go.wait(30)
        super().append(item)


def test_an_answer_that_comes_while_others_are_delivered_is_delivered_too() -> None:
    loop = Loop()
    answers = Answers(loop)  # type: ignore[arg-type]
    slow = answers._ready = SlowList()
    got: list[Any] = []
    late = threading.Thread(target=answers.then(got.append), args=(Unavailable("late"),))
    late.start()
    assert slow.began.wait(30)
    delivering = threading.Thread(target=answers._deliver)
    delivering.start()
    delivering.join(0.1)  # it waits for the other one; if it does not, it is done by now
    slow.go.set()
    late.join()
    delivering.join()
    for act in loop.soon:
        act()
    assert [one.message for one in got] == ["late"]


def test_a_group_wakes_the_loop_once() -> None:
    loop = Loop()
    answers = Answers(loop)  # type: ignore[arg-type]
    got: list[Any] = []
    for number in range(5):
        answers.then(got.append)(Unavailable(str(number)))
    assert len(loop.soon) == 1
    loop.soon.pop()()
    assert [one.message for one in got] == ["0", "1", "2", "3", "4"]
    answers.then(got.append)(Unavailable("next"))
    assert len(loop.soon) == 1


def test_one_that_cannot_be_sent_keeps_no_others_back(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    answers = Answers(loop)  # type: ignore[arg-type]
    got: list[Any] = []
    for act in (got.append, lambda answer: got[99], got.append):
        answers.then(act)(Unavailable("no"))
    loop.soon.pop()()
    assert len(got) == 2
    assert "an answer could not be sent" in caplog.text
