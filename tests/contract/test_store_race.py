"""Many processes, the same names: one winner each, and the bytes are the winner's."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seiche.store import Store, open_store
from tests import store_writers
from tests.servers import S3Server

PROCESSES = 8


@dataclass(frozen=True)
class Outcome:
    """Who said that they created a name, and whose bytes it holds in the end."""

    winners: dict[str, list[int]]
    owners: dict[str, int]

    @property
    def wins(self) -> int:
        return sum(map(len, self.winners.values()))

    def faults(self) -> list[str]:
        """What went wrong, by name; empty if each name has one winner whose bytes are there."""
        return [name for name, who in self.winners.items() if len(who) != 1 or who != [self.owners[name]]]


def race(opener: str, uri: str, names: int, store: Store, **options: Any) -> Outcome:
    """Let `PROCESSES` processes create the same names at the same time, then look."""
    wanted = [f"race/{number:04d}" for number in range(names)]
    arguments = [opener, uri, json.dumps(options), str(names)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", store_writers.__name__, "race", str(writer), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(PROCESSES)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        # All at one moment: whoever heard of it first would have created every name before the last one hears.
        start = time.monotonic() + 0.1
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write(f"{start}\n")
            writer.stdin.flush()
        won = [json.loads(writer.communicate()[0]) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    winners = {name: [writer for writer in range(PROCESSES) if name in won[writer]] for name in wanted}
    contents = store.get_many(wanted)
    for content in contents:
        assert content == store_writers.content(int(content[:1])), "a file that exists is whole"
    return Outcome(winners, {name: int(content[:1]) for name, content in zip(wanted, contents, strict=True)})


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_local(tmp_path: Path, durability: str, effort: Callable[[int, int], int]) -> None:
    names = effort(500, 10_000)
    outcome = race("open_store", str(tmp_path), names, open_store(tmp_path), durability=durability)
    print(f"{names} names, {PROCESSES} processes, {outcome.wins} winners")
    assert outcome.faults() == []
    assert outcome.wins == names
    assert len({who[0] for who in outcome.winners.values()}) > 1, "it was no race: one process won everything"


@pytest.mark.soak
def test_seaweedfs(seaweedfs: S3Server, effort: Callable[[int, int], int]) -> None:
    names = effort(500, 5_000)
    uri = seaweedfs.uri()
    outcome = race("open_store", uri, names, open_store(uri, **seaweedfs.options), **seaweedfs.options)
    print(f"{names} names, {PROCESSES} processes, {outcome.wins} winners")
    assert outcome.faults() == []
    assert outcome.wins == names
    assert len({who[0] for who in outcome.winners.values()}) > 1, "it was no race: one process won everything"


def test_the_race_catches_a_store_that_looks_before_it_renames(tmp_path: Path) -> None:
    outcome = race("check_then_rename", str(tmp_path), 500, open_store(tmp_path), durability="os")
    assert outcome.wins > 500
    assert outcome.faults() != []
