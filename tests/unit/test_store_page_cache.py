"""Large files: memory is given back for the older ones only, and what was written stays written."""

import os
from pathlib import Path

import pytest

from seiche.store import page_cache
from seiche.store.base import Data
from seiche.store.local import Durability, LocalStore
from seiche.store.page_cache import LARGE, LargeFiles, is_large

BIG = bytes(range(256)) * (LARGE // 256)


@pytest.fixture(params=["fsync", "os"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    durability: Durability = request.param
    return LocalStore(tmp_path, durability=durability)


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The files that have a name, and the ranges of which the memory was to be given back."""
    seen: list[tuple[str, int, int]] = []

    def advise(fd: int, start: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        if os.fstat(fd).st_nlink:
            seen.append((os.path.basename(os.readlink(f"/proc/self/fd/{fd}")), start, length))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    return seen


@pytest.mark.parametrize("data", [b"x" * LARGE, [b"x", b"y" * (LARGE - 1)], bytearray(LARGE), memoryview(BIG)])
def test_what_is_large(data: Data) -> None:
    assert is_large(data)
    assert not is_large(b"x" * (LARGE - 1))
    assert not is_large([b"x"] * 10)


def test_the_two_newest_stay_in_memory_and_of_others_both_ends(
    store: LocalStore, advised: list[tuple[str, int, int]]
) -> None:
    for number in range(5):
        store.put_if_absent(f"d/small-{number}", b"small")
        store.put_if_absent(f"d/{number}", [b"begin", BIG, b"end"])
    size = len(BIG) + 8
    assert advised == [(f"{number}", 64 * 1024, size - 68 * 1024) for number in range(3)]


def test_nothing_is_lost(store: LocalStore) -> None:
    for number in range(5):
        store.put_if_absent(f"d/{number}", [b"%d" % number, BIG])
    for number in range(5):
        assert store.get(f"d/{number}") == b"%d" % number + BIG


def test_files_that_are_gone_or_cannot_be_advised_do_no_harm(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_if_absent("0", BIG)
    store.delete("0")

    def refuse(*_: int) -> None:
        raise OSError("not here")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    for number in range(1, 5):
        store.put_if_absent(f"{number}", BIG)
    assert store.get("4") == BIG


def test_where_no_advice_is_taken_no_more_files_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_CAN_ADVISE", False)
    files = LargeFiles()
    for number in range(10):
        files.written(str(tmp_path / str(number)))
    assert len(files._newest) == 2
