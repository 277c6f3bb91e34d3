"""What has come into a table since somebody last looked, whatever was done to it meanwhile."""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import seiche
from seiche.spark.pipeline import arrivals

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


class Watched:
    """A table, what it must hold, and which of its rows are new to whoever looks next."""

    def __init__(self, folder: Path, random: Random, *, stable: bool) -> None:
        self.random = random
        self.lake = seiche.create(str(folder), durability="os")
        self.lake.create_namespace("s")
        self.table = self.lake.create_table("s.t", SCHEMA, stable_row_ids=stable)
        self.rows: dict[int, int] = {}
        self.new: set[int] = set()
        self.seen = self.next = 0

    def append(self) -> None:
        self.table.append(self._made(self.random.randint(1, 4)))

    def overwrite(self) -> None:
        self.rows, self.new = {}, set()
        self.table.overwrite(self._made(3))

    def update(self) -> None:
        chosen = self._chosen()
        self.table.update({"v": "v + 100"}, where=f"id IN ({', '.join(map(str, chosen))})")
        self._put({one: self.rows[one] + 100 for one in chosen})

    def merge(self) -> None:
        made = {one: self.random.randint(1000, 1999) for one in [*self._chosen()[:2], self.next]}
        self.next += 1
        data = pa.table({"id": list(made), "v": list(made.values())}, schema=SCHEMA)
        self.table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
        self._put(made)

    def delete(self) -> None:
        chosen = self._chosen()
        self.table.delete(f"id IN ({', '.join(map(str, chosen))})")
        for one in chosen:
            del self.rows[one]
        self.new -= set(chosen)

    def look(self) -> None:
        tx: Any = self.lake.transaction()
        tx.session = None
        handle = tx.table("s.t")
        found: Any = arrivals.arrived(tx, handle, self.seen)
        assert sorted(found) == sorted((one, self.rows[one]) for one in self.new)
        self.seen, self.new = tx.edit(handle.id).row.table_version, set()

    def _made(self, count: int) -> pa.Table:
        made = {self.next + one: self.random.randint(0, 99) for one in range(count)}
        self.next += count
        self._put(made)
        return pa.table({"id": list(made), "v": list(made.values())}, schema=SCHEMA)

    def _put(self, rows: dict[int, int]) -> None:
        self.rows |= rows
        self.new |= set(rows)

    def _chosen(self) -> list[int]:
        return self.random.sample(sorted(self.rows), self.random.randint(1, max(1, len(self.rows) // 2)))


@pytest.fixture(autouse=True)
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks are done here, not by workers of Spark."""

    def rows(_session: Any, tasks: Any, _fields: Any) -> list[tuple[int, int]]:
        read = [row for task in tasks for batch in task.read(0) for row in batch.to_pylist()]
        return [(row["id"], row["v"]) for row in read]

    monkeypatch.setattr(arrivals, "frame_of", rows)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_each_row_comes_once_as_it_is_now(tmp_path: Path, seed: int, stable: bool) -> None:
    watched = Watched(tmp_path / "lake", Random(seed), stable=stable)
    watched.append()
    for _ in range(25):
        verbs = ["append", "merge", "update", "delete", "look", "look", *(["overwrite"] if seed % 2 else [])]
        verb = watched.random.choice(verbs)
        getattr(watched, verb if watched.rows else "append")()
    watched.look()
    watched.look()


@pytest.mark.parametrize("stable", [False, True])
def test_what_a_compaction_moved_comes_once_too(tmp_path: Path, stable: bool) -> None:
    watched = Watched(tmp_path / "lake", Random(1), stable=stable)
    watched.append()
    watched.look()
    watched.append()
    watched.delete()
    watched.append()
    watched.table.compact()
    watched.append()
    watched.look()
    watched.append()
    watched.table.compact()
    watched.overwrite()  # what was moved is gone as well
    watched.look()
