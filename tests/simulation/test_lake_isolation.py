"""Random transactions over lists, under random schedules and faults; the checker looks at what the clients saw."""

import os
from collections.abc import Callable, Sequence

import pytest

from seiche import CommitUnknown, Lake, RetryableConflict, Unavailable
from seiche.core.runtime import Runtime
from seiche.lake.commit.intent import Intent
from seiche.lake.transaction import Transaction
from seiche.lake.tree.transactions import Isolation
from seiche.testing import DictStore, Faults, SimulatedStore
from seiche.testing.histories import Anomaly, Appended, Read, Txn, check
from seiche.testing.scheduling import Process, sample
from seiche.testing.wrapping import Call
from tests.simulation.lake_model import TABLES, append, opened, prepared
from tests.simulation.test_lake_schedules import copied

RUNS = int(os.environ.get("SEICHE_SCHEDULES", "150")) // 5
BASE = prepared()


def read(tx: Transaction, name: str) -> tuple[int, ...]:
    """The list in a table as the transaction sees it. Fragments stand for rows."""
    table = tx.table(name)
    tx.note_read(table.id)
    return tuple(int(one.files[0].path.removesuffix(".lance")) for one in table._work().running.fragments)


def patiently_opened(store: SimulatedStore, seed: int) -> Lake:
    while True:
        try:
            return opened(store, seed)
        except Unavailable:
            continue


def client(number: int, inner: DictStore, isolation: Isolation, faults: Faults | None, seed: int) -> Process[list[Txn]]:
    def process(on_call: Callable[[Call], None]) -> list[Txn]:
        store = SimulatedStore(inner, on_call=on_call, faults=faults, seed=seed * 10 + number)
        lake = patiently_opened(store, 10_000 + seed * 100 + number)
        chance = Runtime.seeded(seed * 1000 + number).random
        done = []
        for round_ in range(3):
            steps: list[Appended | Read] = []
            outcome: bool | None = None
            try:
                tx = lake.transaction(isolation)
                for step in range(3):
                    name = chance.choice(TABLES)
                    if chance.random() < 0.5:
                        value = 1 + number * 100 + round_ * 10 + step
                        tx.table(name).apply(append(str(value)))
                        steps.append(Appended(name, value))
                    else:
                        steps.append(Read(name, read(tx, name)))
                tx.commit()
                outcome = True
            except CommitUnknown:
                outcome = None
            except (RetryableConflict, Unavailable):
                outcome = False
            done.append(Txn(f"client {number} round {round_}", tuple(steps), outcome))
        return done

    return process


def history(isolation: Isolation, seed: int, faults: Faults | None = None) -> list[Txn]:
    """What three clients saw, and at the end a look at everything."""
    inner = copied(BASE)

    def processes() -> Sequence[Process[list[Txn]]]:
        return [client(number, inner, isolation, faults, seed) for number in range(3)]

    run = sample(processes, seed)
    seen = [txn for result in run.results for txn in result or []]
    assert not any(run.errors), run.errors
    final = opened(inner, seed=9_999).transaction()
    return [*seen, Txn("final", tuple(Read(name, read(final, name)) for name in TABLES))]


def anomalies(isolation: Isolation, checked_as: Isolation, faults: Faults | None = None) -> tuple[list[Anomaly], int]:
    found: list[Anomaly] = []
    committed = 0
    for seed in range(RUNS):
        seen = history(isolation, seed, faults)
        committed += sum(txn.committed is True for txn in seen) - 1
        found += check(seen, checked_as)
    return found, committed


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize("faults", [None, Faults(before=0.02, after=0.04, lost=0.02, late=0.02, conflict=0.02)])
def test_each_level_keeps_what_it_promises(isolation: Isolation, faults: Faults | None) -> None:
    found, committed = anomalies(isolation, isolation, faults)
    assert not found, str(found[0])
    assert committed >= RUNS * 3


def test_snapshot_is_not_serializable() -> None:
    """The levels really differ: write skew shows under snapshot."""
    found, _ = anomalies("snapshot", "serializable")
    assert any(anomaly.kind in ("G2", "G-single") for anomaly in found)


def test_a_commit_that_forgets_its_reads_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 10 switched off."""
    monkeypatch.setattr(Intent, "_check_reads", lambda self, state: None)
    found, _ = anomalies("serializable", "serializable")
    assert found
