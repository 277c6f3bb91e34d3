"""Several processes change the same rows at the same time: no key twice, no increment lost."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.store.local import LocalStore
from seiche.table.table import Table
from tests.processes import CONTEXT

PROCESSES = 8
SCHEMA = pa.schema([("id", pa.int64()), ("writer", pa.int64()), ("n", pa.int64())])

Work = Callable[[Table, int, random.Random, int], int]


def upsert_new_keys(table: Table, writer: int, chance: random.Random, turn: int) -> int:
    """Keys of which most are new, and which the others merge at about the same time; how many were inserted."""
    keys = chance.sample(range(turn * 4, turn * 4 + 12), 6)
    data = pa.table({"id": keys, "writer": [writer] * 6, "n": [turn] * 6}, schema=SCHEMA)
    merge = table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all()
    inserted = merge.execute(attempts=1000, timeout=240).notes["inserted"]
    assert isinstance(inserted, int)
    return inserted


def increment(table: Table, writer: int, chance: random.Random, turn: int) -> int:
    """Add to one of a few counters, by an update or by a merge; how much was added."""
    key, by = chance.randrange(5), chance.randrange(1, 4)
    if turn % 2:
        table.update({"n": f"n + {by}"}, where=f"id = {key}", mode="rows", attempts=1000, timeout=240)
    else:
        data = pa.table({"id": [key], "by": [by]})
        merge = table.merge(data, on="id").when_matched_update({"n": "target.n + source.by"})
        assert merge.execute(attempts=1000, timeout=240).rows == 1
    return by


def work(path: str, what: Work, writer: int, turns: int, seconds: float, start: Any, results: Any) -> None:
    table = Table.open(LocalStore(path, durability="os"))
    chance = random.Random(writer)
    start.wait()
    done = total = 0
    deadline = time.monotonic() + seconds
    try:
        while done < turns or time.monotonic() < deadline:
            total += what(table, writer, chance, done)
            done += 1
    except Exception as error:
        results.put((writer, done, total, repr(error)))
    else:
        results.put((writer, done, total, ""))


def run(path: Path, what: Work, turns: int, seconds: float) -> tuple[int, int]:
    """Let all processes do it at the same time; how often they did, and the sum of what they say."""
    start, results = CONTEXT.Barrier(PROCESSES), CONTEXT.Queue()
    processes = [
        CONTEXT.Process(target=work, args=(str(path), what, writer, turns, seconds, start, results))
        for writer in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    answers = [results.get(timeout=280) for _ in processes]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert not [error for *_, error in answers if error]
    return sum(done for _, done, _, _ in answers), sum(total for _, _, total, _ in answers)


@pytest.mark.soak
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_no_key_is_ever_inserted_twice(tmp_path: Path, stable: bool, effort: Callable[[int, int], int]) -> None:
    table = Table.create(LocalStore(tmp_path / "t", durability="os"), SCHEMA, stable_row_ids=stable)
    statements, inserted = run(tmp_path / "t", upsert_new_keys, turns=4, seconds=effort(0, 30))
    dataset: Any = lance.dataset(str(tmp_path / "t"))
    dataset.validate()
    keys = Counter(dataset.to_table()["id"].to_pylist())
    assert [key for key, count in keys.items() if count > 1] == []
    assert inserted == len(keys) == sum(keys.values())
    print(f"{statements} upserts by {PROCESSES} processes made {table.version} versions and {len(keys)} keys")
    assert statements >= 32


@pytest.mark.soak
@pytest.mark.parametrize("stable", [False, True], ids=["plain", "stable"])
def test_no_increment_is_lost(tmp_path: Path, stable: bool, effort: Callable[[int, int], int]) -> None:
    table = Table.create(LocalStore(tmp_path / "t", durability="os"), SCHEMA, stable_row_ids=stable)
    table.append(pa.table({"id": range(5), "writer": [0] * 5, "n": [0] * 5}, schema=SCHEMA))
    statements, added = run(tmp_path / "t", increment, turns=4, seconds=effort(0, 30))
    dataset: Any = lance.dataset(str(tmp_path / "t"))
    dataset.validate()
    assert sum(dataset.to_table()["n"].to_pylist()) == added
    assert sorted(dataset.to_table()["id"].to_pylist()) == [0, 1, 2, 3, 4]
    print(f"{statements} increments by {PROCESSES} processes made {table.version} versions, the sum is {added}")
    assert table.version == 2 + statements
