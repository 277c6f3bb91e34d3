"""What is on the disk already is not flushed again; whatever was changed since is."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import NotFound
from seiche.store import flushed
from seiche.store.local import LocalStore

FILE = "data/one.lance"


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was flushed, in order."""
    done: list[str] = []
    fsync = os.fsync

    def seen(fd: int) -> None:
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", seen)
    return done


def left_alone(folder: Path, seconds: float = 1.0) -> LocalStore:
    """A store with a file that somebody else wrote, so many seconds ago by the clock."""
    (folder / "data").mkdir()
    (folder / FILE).write_bytes(b"rows")
    changed = datetime.fromtimestamp((folder / FILE).stat().st_ctime, UTC)
    return LocalStore(folder, runtime=Runtime(SimulatedClock(changed + timedelta(seconds=seconds)), Random(1)))


def test_a_file_that_nobody_changed_is_flushed_once(tmp_path: Path, flushes: list[str]) -> None:
    store = left_alone(tmp_path)
    assert store.flush([FILE]) == 1
    assert flushes[:2] == ["one.lance", "data"]
    flushes.clear()
    assert store.flush([FILE]) == 0
    assert flushes == []
    (tmp_path / "data/two.lance").write_bytes(b"more")
    assert store.flush([FILE, "data/two.lance"]) == 1
    assert flushes == ["two.lance", "data"]


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"ROWS")


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(b"rows")
    other.replace(path)


def moved_away_and_back(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.with_name("other").rename(path)


@pytest.mark.parametrize("change", [overwritten, replaced, moved_away_and_back])
def test_one_that_was_changed_since_is_flushed_again(
    tmp_path: Path, flushes: list[str], change: Callable[[Path], None]
) -> None:
    store = left_alone(tmp_path)
    store.flush([FILE])
    flushes.clear()
    times = (tmp_path / FILE).stat()
    change(tmp_path / FILE)
    os.utime(tmp_path / FILE, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a copy does that keeps the times
    assert store.flush([FILE]) == 1
    assert flushes == ["one.lance", "data"]


def test_one_that_was_changed_just_now_is_not_remembered(tmp_path: Path, flushes: list[str]) -> None:
    """Another change in the same tick of the system's clock would not show."""
    store = left_alone(tmp_path, seconds=0.005)
    for _ in range(2):
        flushes.clear()
        assert store.flush([FILE]) == 1
        assert flushes[:2] == ["one.lance", "data"]


def test_one_that_is_gone_is_missed(tmp_path: Path) -> None:
    store = left_alone(tmp_path)
    store.flush([FILE])
    (tmp_path / FILE).unlink()
    with pytest.raises(NotFound):
        store.flush([FILE])


def test_one_that_could_not_be_flushed_with_its_name_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = left_alone(tmp_path)

    def failing(_: str) -> None:
        raise OSError(5, "the disk does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(store._directories, "settle", failing)
        with pytest.raises(Exception, match="the disk does not answer"):
            store.flush([FILE])
    assert store.flush([FILE]) == 1


def test_not_every_file_that_was_ever_flushed_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushed, "_MOST", 3)
    store = left_alone(tmp_path)
    for number in range(10):
        (tmp_path / f"data/{number}").write_bytes(b"rows")
        os.utime(tmp_path / f"data/{number}", (0, 0))
        store.flush([f"data/{number}"])
        assert len(store._flushed._known) <= 3
