"""A bank in a lake: money moves between its tables, by many processes, some of which are killed."""

import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import pyarrow as pa

import seiche
from seiche import Lake
from seiche.lake.transaction import Transaction
from tests.processes import CONTEXT

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.int64())])


@dataclass(frozen=True)
class Bank:
    """So many accounts with a hundred each in each of the tables, which are of these formats.

    A transfer is tried so often, for so many seconds. Can be pickled: tellers are other processes.
    """

    formats: Mapping[str, Literal["lance", "iceberg"]]
    accounts: int
    attempts: int
    seconds: float

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self.formats)

    @property
    def total(self) -> int:
        """What there must be at every version."""
        return len(self.tables) * self.accounts * 100

    def held(self, lake: Lake) -> int:
        """What there is."""
        return sum(sum(lake.table(name).to_arrow(columns=["amount"])["amount"].to_pylist()) for name in self.tables)

    def run(self, uri: str, options: dict[str, Any], seconds: float, tellers: int) -> tuple[Lake, int, int]:
        """The bank at work; returns the lake, how many transfers were acknowledged and how many tellers were killed."""
        lake = self._opened(uri, options)
        first = lake.version
        moved, ready, stop = CONTEXT.Value("i", 0), CONTEXT.Semaphore(0), CONTEXT.Event()

        def started(seed: int) -> BaseProcess:
            process = CONTEXT.Process(target=self._teller, args=(uri, options, seed, ready, stop, moved))
            process.start()
            return process

        processes = [started(seed) for seed in range(tellers)]
        for _ in processes:
            ready.acquire()
        stop_at, chance, killed = time.time() + seconds, random.Random(1), 0
        while time.time() < stop_at:
            self._check(lake, chance.randint(first, lake.version))
            if not killed or (time.time() < stop_at - seconds / 4 and ready.acquire(block=False)):
                os.kill(processes[0].pid or 0, signal.SIGKILL)
                processes[0].join()
                killed += 1
                processes[0] = started(1000 + killed)
        stop.set()
        for process in processes:
            process.join(self.seconds + 10)
            assert process.exitcode == 0, "a teller failed"
        for version in range(first, lake.version + 1):
            self._check(lake, version)
        assert lake.version - first >= moved.value
        return lake, moved.value, killed

    def _opened(self, uri: str, options: dict[str, Any]) -> Lake:
        lake = seiche.create(uri, **options)
        lake.create_namespace("bank")
        rows = pa.table({"id": list(range(self.accounts)), "amount": [100] * self.accounts}, schema=SCHEMA)
        with lake.transaction() as tx:
            for name, format in self.formats.items():
                tx.create_table(name, SCHEMA, format=format).append(rows)
        return lake

    def _check(self, lake: Lake, version: int) -> None:
        assert self.held(seiche.open(lake.store, version=version)) == self.total, f"version {version}"

    def _teller(self, uri: str, options: dict[str, Any], seed: int, ready: Any, stop: Any, moved: Any) -> None:
        """Move amounts between two tables in one transaction, until told to stop."""
        lake = seiche.open(uri, **options)
        chance = random.Random(seed)
        for name in self.tables:
            lake.table(name).to_arrow()
        ready.release()
        while not stop.is_set():
            source, target = chance.sample(self.tables, 2)
            giver, taker, amount = (
                chance.randrange(self.accounts),
                chance.randrange(self.accounts),
                chance.randint(1, 20),
            )

            def move(
                tx: Transaction, *, plan: tuple[str, str, int, int, int] = (source, target, giver, taker, amount)
            ) -> None:
                self._add(tx, plan[0], plan[2], -plan[4])
                self._add(tx, plan[1], plan[3], plan[4])

            lake.run(move, attempts=self.attempts, timeout=self.seconds)
            with moved.get_lock():
                moved.value += 1

    def _add(self, tx: Transaction, table: str, account: int, amount: int) -> None:
        """Add an amount to an account. An Iceberg account is read, and written anew."""
        if self.formats[table] == "lance":
            tx.update(table, {"amount": f"amount + {amount}"}, where=f"id = {account}")
            return
        held = tx.table(table).to_arrow(filter=f"id = {account}")["amount"].to_pylist()
        assert len(held) == 1, f"account {account} of {table} is there {len(held)} times"
        new = pa.table({"id": [account], "amount": [held[0] + amount]}, schema=SCHEMA)
        tx.overwrite(table, new, where=f"id = {account}")
