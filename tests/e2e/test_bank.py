"""Money moves between tables, by many processes, some of which are killed: the total is right at every version."""

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.lake.transaction import Transaction
from tests.processes import CONTEXT
from tests.servers import S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.int64())])
TABLES = ("bank.a", "bank.b", "bank.c", "bank.d")
ACCOUNTS = 25
TOTAL = len(TABLES) * ACCOUNTS * 100


def opening(uri: str, options: dict[str, Any]) -> Lake:
    """A bank where everybody has a hundred."""
    lake = seiche.create(uri, **options)
    lake.create_namespace("bank")
    rows = pa.table({"id": list(range(ACCOUNTS)), "amount": [100] * ACCOUNTS}, schema=SCHEMA)
    with lake.transaction() as tx:
        for name in TABLES:
            tx.create_table(name, SCHEMA).append(rows)
    return lake


def teller(uri: str, options: dict[str, Any], seed: int, ready: Any, stop: Any, moved: Any) -> None:
    """Move amounts between two tables in one transaction, until told to stop."""
    lake = seiche.open(uri, **options)
    chance = random.Random(seed)
    lake.table(TABLES[0]).to_arrow()
    ready.release()
    while not stop.is_set():
        source, target = chance.sample(TABLES, 2)
        giver, taker, amount = chance.randrange(ACCOUNTS), chance.randrange(ACCOUNTS), chance.randint(1, 20)

        def move(
            tx: Transaction, *, plan: tuple[str, str, int, int, int] = (source, target, giver, taker, amount)
        ) -> None:
            tx.update(plan[0], {"amount": f"amount - {plan[4]}"}, where=f"id = {plan[2]}")
            tx.update(plan[1], {"amount": f"amount + {plan[4]}"}, where=f"id = {plan[3]}")

        lake.run(move, attempts=200, timeout=120)
        with moved.get_lock():
            moved.value += 1


def total(lake: Lake) -> int:
    return sum(sum(lake.table(name).to_arrow(columns=["amount"])["amount"].to_pylist()) for name in TABLES)


def run_bank(uri: str, options: dict[str, Any], seconds: float, tellers: int) -> tuple[Lake, int, int]:
    """The bank at work; returns the lake, how many transfers were acknowledged and how many tellers were killed."""
    lake = opening(uri, options)
    first = lake.version
    moved, ready, stop = CONTEXT.Value("i", 0), CONTEXT.Semaphore(0), CONTEXT.Event()

    def started(seed: int) -> BaseProcess:
        process = CONTEXT.Process(target=teller, args=(uri, options, seed, ready, stop, moved))
        process.start()
        return process

    processes = [started(seed) for seed in range(tellers)]
    for _ in processes:
        ready.acquire()
    stop_at = time.time() + seconds
    chance = random.Random(1)
    killed = 0
    while time.time() < stop_at:
        version = chance.randint(first, lake.version)
        assert total(seiche.open(lake.store, version=version)) == TOTAL, f"version {version}"
        if not killed or (time.time() < stop_at - seconds / 4 and ready.acquire(block=False)):
            os.kill(processes[0].pid or 0, signal.SIGKILL)
            processes[0].join()
            killed += 1
            processes[0] = started(1000 + killed)
    stop.set()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0, "a teller failed"
    for version in range(first, lake.version + 1):
        assert total(seiche.open(lake.store, version=version)) == TOTAL, f"version {version}"
    assert lake.version - first >= moved.value
    return lake, moved.value, killed


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_total_is_right_at_every_version_on_local_disk(
    tmp_path: Path, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    lake, moved, killed = run_bank(str(tmp_path / "lake"), {"durability": "os"}, effort(4, 60), 8)
    record_property("transfers", moved)
    record_property("killed", killed)
    assert moved >= effort(12, 200)
    assert killed >= 1
    assert sum(amounts(lake)) == TOTAL


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_total_is_right_at_every_version_on_s3(
    seaweedfs: S3Server, effort: Callable[[int, int], int], record_property: Callable[[str, object], None]
) -> None:
    _, moved, killed = run_bank(seaweedfs.uri(), seaweedfs.options, effort(4, 60), effort(4, 8))
    record_property("transfers", moved)
    record_property("killed", killed)
    assert moved >= effort(2, 50)
    assert killed >= 1


def amounts(lake: Lake) -> list[int]:
    return [amount for name in TABLES for amount in lake.table(name).to_arrow()["amount"].to_pylist()]
