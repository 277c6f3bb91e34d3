"""Work for threads: also at the end of a program, and where there are too many of them already."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seiche.core.threads import done_by_threads, handed_out

_ENDING = """
import atexit, sys, threading
import pyarrow as pa
import seiche

lake = seiche.create(sys.argv[1])
lake.create_namespace("shop")
for name in ("shop.orders", "shop.stock"):
    lake.create_table(name, pa.schema([("x", pa.int64())]))
orders = lake.table("shop.orders")

def append():
    with lake.transaction() as tx:
        tx.append("shop.orders", pa.table({"x": [1, 2]}))
        tx.append("shop.stock", pa.table({"x": [1, 2]}))

def after_the_end():
    threading.main_thread().join()
    append()
    orders.update({"x": "x + 1"}, mode="columns")
    orders.add_columns({"y": "x * 2"})
    orders.compact(target_rows_per_fragment=4)

for _ in range(3):
    append()
threading.Thread(target=after_the_end).start()
atexit.register(lambda: (append(), print(sorted(orders.to_arrow()["y"].to_pylist(), key=str))))
"""


class Refusing(ThreadPoolExecutor):
    """A pool that takes each task, does the first ones, and then cannot start another thread."""

    def __init__(self, most: int) -> None:
        super().__init__(1)
        self._most = most

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        taken = super().submit(work, *given, **named)
        self._most -= 1
        if self._most < 0:
            raise RuntimeError("can't start new thread")
        return taken


def test_a_program_commits_after_its_main_thread_has_ended_and_at_its_exit(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _ENDING, str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ended.stderr, ended.stdout) == ("", "[4, 4, 4, 4, 6, 6, 6, 6, None, None]\n")


@pytest.mark.parametrize("most", [0, 1, 5])
def test_what_no_thread_is_had_for_is_done_here_and_everything_once(most: int) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number * 2

    with Refusing(most) as pool:
        results = handed_out(pool, work, range(9))
        assert [one.result(30) for one in results] == list(range(0, 18, 2))
    assert sorted(done) == list(range(9))


def test_an_error_is_that_of_its_item_wherever_it_is_done() -> None:
    with Refusing(0) as pool:
        failed, done = handed_out(pool, lambda number: 1 // number, [0, 1])
    assert done.result() == 1
    with pytest.raises(ZeroDivisionError):
        failed.result()


def test_who_is_interrupted_does_not_go_on_with_the_next() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool:
        pool.shutdown()
        with pytest.raises(KeyboardInterrupt):
            handed_out(pool, work, range(9))
    assert done == [0]


def test_after_an_error_what_has_not_begun_is_left() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        done.append(number)
        time.sleep(0.01)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        done_by_threads(1, "test", work, range(1000))
    assert len(done) < 1000
