"""Writers that are killed in the middle of their work leave whole files, and nothing else that anybody sees."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from seiche.store import open_store
from seiche.store.paths import TEMPORARY
from tests import store_writers

WRITERS = 3


def write_and_kill(opener: str, root: Path, moment: float) -> None:
    """Start writers, and kill them with SIGKILL `moment` seconds after the last one has begun."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", store_writers.__name__, "write", str(writer), opener, str(root), "{}"],
            stdout=subprocess.PIPE,
        )
        for writer in range(WRITERS)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        time.sleep(moment)
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def torn_files(root: Path) -> list[str]:
    store = open_store(root)
    return [info.path for info in store.list() if not store_writers.is_whole(store.get(info.path))]


def temporary_files(root: Path) -> list[str]:
    return [name for _, _, names in os.walk(root) for name in names if name.startswith(TEMPORARY)]


@pytest.mark.soak
def test_killed_writers_leave_whole_files_and_no_visible_temporary_ones(
    tmp_path: Path, effort: Callable[[int, int], int]
) -> None:
    rounds, files, left_behind = effort(10, 400), 0, 0
    moments = random.Random(20)
    for number in range(rounds):
        root = tmp_path / str(number)
        write_and_kill("open_store", root, moments.uniform(0.0, 0.1))
        store = open_store(root)
        listed = [info.path for info in store.list()]
        assert torn_files(root) == []
        assert [path for path in listed if TEMPORARY in path] == []
        assert all(store.exists(path) and store.head(path).size == len(store.get(path)) for path in listed)
        orphans = temporary_files(root)
        assert store.sweep(timedelta(hours=1)) == 0, "they may belong to writers that are alive"
        assert store.sweep(timedelta(seconds=-60)) == len(orphans)
        assert temporary_files(root) == []
        assert [info.path for info in store.list()] == listed
        files += len(listed)
        left_behind += len(orphans)
    print(f"{rounds * WRITERS} writers killed, {files} whole files, {left_behind} temporary files swept")
    assert files > 3 * rounds
    assert left_behind > 0, "no writer was killed in the middle of a write"


def test_the_check_catches_a_store_that_writes_in_place(tmp_path: Path) -> None:
    for number in range(40):
        write_and_kill("write_in_place", tmp_path / str(number), 0.02)
        if torn_files(tmp_path / str(number)):
            return
    pytest.fail("40 rounds, and no torn file was seen")
