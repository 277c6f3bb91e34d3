"""Requests side by side: also inside of each other, and never waiting for each other for ever."""

from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from seiche.errors import NotFound
from seiche.store import open_store
from seiche.store.base import Store
from seiche.testing import CountingStore, DictStore


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path), durability="fsync")


def test_requests_inside_of_others_go_side_by_side_too(store: Store) -> None:
    everybody = Barrier(4)  # broken after a while if not all of them are under way at once

    def inner(_: int) -> int:
        return everybody.wait(30)

    arrived = store.in_parallel(lambda _: store.in_parallel(inner, range(2)), range(2))
    assert sorted(number for pair in arrived for number in pair) == [0, 1, 2, 3]


def test_however_many_and_however_deep_all_come_to_an_end(store: Store) -> None:
    def down(depth: int) -> int:
        return 1 if depth == 0 else sum(store.in_parallel(lambda _: down(depth - 1), range(6)))

    assert sum(store.in_parallel(lambda _: down(3), range(40))) == 40 * 6**3


def test_the_first_error_is_raised_when_all_have_ended(store: Store) -> None:
    ended: list[int] = []

    def work(number: int) -> None:
        ended.append(number)
        if number in (2, 4):
            raise NotFound(f"{number}")

    with pytest.raises(NotFound, match="2"):
        store.in_parallel(work, range(6))
    assert sorted(ended) == [0, 1, 2, 3, 4, 5]


class Near(CountingStore):
    def in_parallel(self, *_: Any) -> Any:
        raise AssertionError("a local disk is not asked side by side")


def test_different_things_go_in_turn_where_the_disk_is_near(tmp_path: Path) -> None:
    store = Near(open_store(str(tmp_path)))
    assert store.together(lambda: 1, lambda: "b") == [1, "b"]


def test_what_goes_side_by_side_counts_as_one_wave() -> None:
    store = CountingStore(DictStore(), far=True)
    store.put("a", b"")
    assert store.waves == 1
    store.together(
        lambda: store.put("b", b""), lambda: store.get_many(["a", "a"]), lambda: [store.get("a"), store.get("a")]
    )
    assert (store.waves, store.requests) == (3, 6)
