"""Fragments are rewritten and indices built while rows come, change and go: nothing is lost, nothing comes back."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche import ConflictError, RetryableConflict
from seiche.store import open_store
from seiche.table.table import Table
from tests.processes import CONTEXT

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("word", pa.string())])
WRITERS = 2
LIMIT_SECONDS = 300
LONG: dict[str, Any] = {"attempts": 1000, "timeout": 120}


# Each worker has done its work, a writer each kind of it, at least so often before the race may end.
ENOUGH = 3
KINDS = (*(f"writing {number}" for number in range(WRITERS)), "rewriting", "indexing", "looking")


class Gates:
    """When the workers begin, how far each has come, and when they stop."""

    def __init__(self, workers: int) -> None:
        self.start, self.stop = CONTEXT.Barrier(workers), CONTEXT.Event()
        self._counts = CONTEXT.Array("q", len(KINDS))

    def count(self, kind: str, times: int) -> None:
        self._counts[KINDS.index(kind)] = times

    @property
    def enough(self) -> bool:
        return all(count >= ENOUGH for count in self._counts[:])


def opened(path: str) -> Table:
    return Table.open(open_store(path, durability="os"))


def rows(ids: list[int], k: int) -> pa.Table:
    return pa.table({"id": ids, "k": [k] * len(ids), "word": [f"word{one % 7}" for one in ids]}, schema=SCHEMA)


def write(path: str, seed: int, gates: Gates, results: Any) -> None:
    """Append, update and delete rows of one's own, and report what must be there in the end."""
    table, chance = opened(path), random.Random(seed)
    expected: dict[int, int] = {}
    following, done = 1_000_000 * (seed % WRITERS + 1), {"append": 0, "update": 0, "delete": 0}
    gates.start.wait()
    while not gates.stop.is_set():
        step = chance.choice(["append", "append", "update", "delete"]) if len(expected) > 20 else "append"
        chosen = chance.sample(sorted(expected), min(len(expected), chance.randrange(1, 6)))
        listed = ", ".join(map(str, chosen))
        k = chance.randrange(10)
        if step == "append":
            chosen = list(range(following, following + chance.randrange(1, 30)))
            following += len(chosen)
            table.append(rows(chosen, k))
            expected |= dict.fromkeys(chosen, k)
        elif step == "update":
            mode: Any = chance.choice(["rows", "columns"])
            assert table.update({"k": str(k)}, where=f"id in ({listed})", mode=mode, **LONG).rows == len(chosen)
            expected |= dict.fromkeys(chosen, k)
        else:
            assert table.delete(f"id in ({listed})", **LONG).rows == len(chosen)
            for one in chosen:
                del expected[one]
        done[step] += 1
        gates.count(f"writing {seed % WRITERS}", min(done.values()))
    results.put(("writer", expected, done))


def rewrite(path: str, seed: int, gates: Gates, results: Any) -> None:
    """Compact and reorder, leading indices on in every way there is."""
    table, chance = opened(path), random.Random(seed)
    done = {"compact": 0, "reorder": 0, "lost": 0}
    gates.start.wait()
    while not gates.stop.is_set():
        step = chance.choice(["compact", "compact", "reorder"])
        index: Any = chance.choice(["remap", "reuse", "drop"])
        try:
            if step == "compact":
                size = chance.choice([50, 200, 10_000])
                changed = table.compact(target_rows_per_fragment=size, index=index, attempts=5).changed
            else:
                by = (chance.choice(["id", "k", "word"]), chance.choice(["ascending", "descending"]))
                changed = table.reorder([by], across=chance.random() < 0.5, index=index, attempts=5).changed
        except RetryableConflict:
            done["lost"] += 1
        else:
            done[step] += changed
            gates.count("rewriting", done["compact"] + done["reorder"])
    results.put(("rewriter", {}, done))


def index(path: str, seed: int, gates: Gates, results: Any) -> None:
    """Build, optimise and drop indices."""
    table, chance = opened(path), random.Random(seed)
    done = {"create": 0, "optimize": 0, "drop": 0, "lost": 0}
    gates.start.wait()
    while not gates.stop.is_set():
        step = chance.choice(["create", "optimize", "optimize", "optimize", "drop"])
        column, kind = chance.choice([("id", "BTREE"), ("k", "BITMAP"), ("word", "INVERTED")])
        try:
            if step == "create":
                table.create_index(column, kind, replace=True, attempts=5)
            elif step == "optimize":
                table.optimize_indices(merge=chance.choice([None, 0, 1, 3]), attempts=5)
            elif table.manifest.indices and chance.random() < 0.2:
                table.drop_index(chance.choice([one.name for one in table.manifest.indices if one.fields]))
        except (ConflictError, LookupError, IndexError):
            done["lost"] += 1
        except Exception as error:
            if type(error).__name__ != "NotFound":
                raise
        else:
            done[step] += 1
            gates.count("indexing", done["create"] + done["optimize"])
    results.put(("indexer", {}, done))


def look(path: str, seed: int, gates: Gates, results: Any) -> None:
    """At versions as they come, compare what the indices answer with what a scan of every row gives."""
    chance = random.Random(seed)
    done = {"looks": 0, "indexed": 0}
    gates.start.wait()
    while not gates.stop.is_set():
        dataset: Any = lance.dataset(path)
        check(dataset, chance)
        done["looks"] += 1
        done["indexed"] += bool(dataset.describe_indices())
        gates.count("looking", done["indexed"])
    results.put(("looker", {}, done))


def check(dataset: Any, chance: random.Random) -> None:
    everything = dataset.to_table(columns=["id", "k", "word"], use_scalar_index=False).to_pylist()
    ids = [row["id"] for row in everything]
    assert len(set(ids)) == len(ids), "a row is there twice"
    some = [chance.choice(ids) for _ in range(5)] if ids else []
    lowest, k, word = chance.choice(ids or [0]), chance.randrange(10), f"word{chance.randrange(7)}"
    answers = {
        f"id in ({', '.join(map(str, [*some, -1]))})": {one for one in ids if one in some},
        f"id >= {lowest}": {one for one in ids if one >= lowest},
        f"k = {k}": {row["id"] for row in everything if row["k"] == k},
    }
    for condition, wanted in answers.items():
        found = dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()
        assert sorted(found) == sorted(wanted), (dataset.version, condition)
    if any(one.name == "word_idx" for one in dataset.describe_indices()):
        found = sorted(dataset.to_table(columns=["id", "_score"], full_text_query=word)["id"].to_pylist())
        wanted_ids = sorted(row["id"] for row in everything if row["word"] == word)
        assert found == wanted_ids, (dataset.version, word, set(found) ^ set(wanted_ids))


@pytest.mark.soak
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable row ids"])
def test_rewriting_and_indexing_race_with_writers(
    tmp_path: Path, stable_row_ids: bool, effort: Callable[[int, int], int]
) -> None:
    path = str(tmp_path / "t")
    table = Table.create(open_store(path, durability="os"), SCHEMA, stable_row_ids=stable_row_ids)
    table.append(rows(list(range(50)), 3))
    for column, kind in (("id", "BTREE"), ("k", "BITMAP"), ("word", "INVERTED")):
        table.create_index(column, kind)
    jobs = [*[write] * WRITERS, rewrite, index, look]
    gates, results = Gates(len(jobs) + 1), CONTEXT.Queue()
    first = WRITERS * random.SystemRandom().randrange(10**6)
    print("seed", first)
    workers = [
        CONTEXT.Process(target=job, args=(path, seed, gates, results)) for seed, job in enumerate(jobs, start=first)
    ]
    for worker in workers:
        worker.start()
    gates.start.wait()
    begun = time.monotonic()
    while all(worker.is_alive() for worker in workers):
        # On a busy machine a few seconds may not be enough for everybody to get something done.
        lasted = time.monotonic() - begun
        if (lasted > effort(4, 120) and gates.enough) or lasted > LIMIT_SECONDS:
            break
        time.sleep(0.05)
    gates.stop.set()
    reports = []
    for worker in workers:
        while worker.is_alive() or not results.empty():
            if not results.empty():
                reports.append(results.get())
            worker.join(0.05)
    assert [worker.exitcode for worker in workers] == [0] * len(jobs)
    reports += [results.get() for _ in range(len(jobs) - len(reports))]
    expected = dict.fromkeys(range(50), 3)
    for _, own, done in sorted(reports, key=str):
        expected |= own
        print(done)
    final: Any = lance.dataset(path)
    final.validate()
    found = final.to_table(columns=["id", "k"], use_scalar_index=False).to_pylist()
    assert sorted((row["id"], row["k"]) for row in found) == sorted(expected.items())
    for seed in range(20):
        check(final, random.Random(seed))
    assert gates.enough
    assert final.version == len(final.versions())
