"""Histories of real processes on real tables: a checker looks at what the clients saw, and at nothing else.

Each table is a list: an append is a row, a read is the whole table. In two of three rounds the clients wait for each
other, before their commits or in the middle of their statements, so that they overlap whatever the machine does. The
same clients with a part of the commit broken show that the checker would have noticed.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pytest

import seiche
from seiche import CommitUnknown, ConflictError, Lake, SeicheError
from seiche.lake.commit import committer as commit_module
from seiche.lake.commit.intent import Intent
from seiche.lake.transaction import Transaction
from seiche.lake.tree.swap import Won
from seiche.lake.tree.transactions import Isolation
from seiche.testing.histories import Anomaly, Appended, Read, Txn, check
from tests.processes import CONTEXT

SCHEMA = pa.schema([("value", pa.int64())])
TABLES = ("lists.a", "lists.b", "lists.c")
CLIENTS = 4
DISK: dict[str, Any] = {"durability": "os"}

Fault: TypeAlias = Literal["", "forgets what it read", "replaces roots", "moves on between statements"]

_meeting: Any = None


@dataclass(frozen=True, slots=True)
class Job:
    """What one client does."""

    uri: str
    number: int
    rounds: int
    seed: int
    isolation: Isolation
    fault: Fault


def meet(barrier: Any) -> None:
    """Where the clients of this pool wait for each other."""
    global _meeting  # noqa: PLW0603 - a barrier cannot be sent along with a job
    _meeting = barrier


@pytest.fixture(scope="module")
def clients() -> Iterator[Pool]:
    barrier = CONTEXT.Barrier(CLIENTS)
    with CONTEXT.Pool(CLIENTS, meet, (barrier,)) as pool:
        yield pool


def values(tx: Transaction, name: str) -> tuple[int, ...]:
    return tuple(tx.table(name).to_arrow()["value"].to_pylist())


def client(job: Job) -> list[Txn]:
    """Transactions of one process, as it saw them."""
    with pytest.MonkeyPatch.context() as patch:
        plant(job.fault, patch)
        lake = seiche.open(job.uri, **DISK)
        chance = random.Random(job.seed * 1000 + job.number)
        try:
            _meeting.wait(120)
            return [transaction(lake, job, round_, chance) for round_ in range(job.rounds)]
        except BaseException:
            _meeting.abort()  # nobody need wait for this one
            raise


def transaction(lake: Lake, job: Job, round_: int, chance: random.Random) -> Txn:
    """Reads of two lists and appends to two, in any order; at a meeting, the others are where the round wants them."""
    steps: list[Appended | Read] = []
    even = job.number % 2 == 0
    tx = lake.transaction(job.isolation)
    plan = [(kind, name) for kind in ("append", "read") for name in chance.sample(TABLES, 2)]
    chance.shuffle(plan)
    for step, (kind, name) in enumerate(plan):
        if round_ % 3 == 1 and step == 2 and not even:
            _meeting.wait(120)  # the even ones have committed
        if job.fault == "moves on between statements":
            tx.state = lake.state()
        if kind == "append":
            value = job.number * 1_000_000 + round_ * 100 + step
            tx.append(name, pa.table({"value": [value]}, schema=SCHEMA))
            steps.append(Appended(name, value))
        else:
            steps.append(Read(name, values(tx, name)))
    if round_ % 3 == 2:
        _meeting.wait(120)  # nobody has
    outcome = committed(tx, job.fault)
    if round_ % 3 == 1 and even:
        _meeting.wait(120)
    return Txn(f"client {job.number} round {round_}", tuple(steps), outcome)


def committed(tx: Transaction, fault: Fault) -> bool | None:
    try:
        tx.commit()
    except CommitUnknown:
        return None
    except ConflictError:
        return False
    except SeicheError:
        if fault:
            return None  # what a broken commit leaves behind, others may stumble over
        raise
    return True


def plant(fault: Fault, patch: pytest.MonkeyPatch) -> None:
    """Break this process. (That a transaction moves on between statements is done by the client itself.)"""
    if fault == "forgets what it read":
        patch.setattr(Intent, "_check_reads", lambda self, state: None)
    elif fault == "replaces roots":

        def replacing(store: Any, root: Any, base: Any, *, order: int, **_: Any) -> Won:
            store.put(root.name, root.encode(order))
            return Won(root)

        patch.setattr(commit_module, "publish", replacing)


def history(pool: Pool, folder: Path, isolation: Isolation, rounds: int, seed: int, fault: Fault = "") -> list[Txn]:
    """What all clients saw, and at the end a look at everything."""
    uri = str(folder / f"{isolation}-{seed}-{fault}")
    lake = seiche.create(uri, **DISK)
    lake.create_namespace("lists")
    with lake.transaction() as tx:
        for name in TABLES:
            tx.create_table(name, SCHEMA)
    jobs = [Job(uri, number, rounds, seed, isolation, fault) for number in range(1, CLIENTS + 1)]
    seen = [txn for done in pool.map(client, jobs, chunksize=1) for txn in done]
    final = seiche.open(uri, **DISK).transaction()
    return [*seen, Txn("final", tuple(Read(name, values(final, name)) for name in TABLES))]


def kinds(found: list[Anomaly]) -> Counter[str]:
    return Counter(anomaly.kind for anomaly in found)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_each_level_keeps_what_it_promises(
    clients: Pool,
    tmp_path: Path,
    isolation: Isolation,
    effort: Callable[[int, int], int],
    record_property: Callable[[str, object], None],
) -> None:
    done = conflicts = other = 0
    for seed in range(effort(1, 20)):
        seen = history(clients, tmp_path, isolation, effort(12, 50), seed)
        found = check(seen, isolation)
        assert not found, f"seed {seed}: {found[0]}"
        done += sum(txn.committed is True for txn in seen) - 1
        conflicts += sum(txn.committed is False for txn in seen)
        other += len(check(seen, "serializable")) if isolation == "snapshot" else 0
    record_property("committed", done)
    record_property("conflicts", conflicts)
    assert done >= effort(10, 800)
    if isolation == "snapshot":
        # Appends never stand in each other's way: nothing was refused, and write skew shows that the levels differ.
        assert conflicts == 0
        assert other > 0
    else:
        assert conflicts > 0


@pytest.mark.parametrize(
    ("fault", "isolation", "expected"),
    [
        ("forgets what it read", "serializable", {"G2", "G-single"}),
        ("replaces roots", "snapshot", {"lost"}),
        ("moves on between statements", "snapshot", {"G-single", "G1c"}),
    ],
)
def test_a_broken_commit_is_caught(
    clients: Pool, tmp_path: Path, fault: Fault, isolation: Isolation, expected: set[str]
) -> None:
    """Chance decides in which round it shows."""
    found: set[str] = set()
    for attempt in range(8):
        seen = history(clients, tmp_path / str(attempt), isolation, 12, 7 + attempt, fault)
        found |= kinds(check(seen, isolation)).keys()
        if expected & found:
            return
    pytest.fail(f"eight histories, and the checker found only {found}")
