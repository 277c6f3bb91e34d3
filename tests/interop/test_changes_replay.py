"""Changes replayed on a copy of the rows give the next version, whatever was done to the table, by us and by pylance.

And where pylance can tell what was inserted and updated, we say the same.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.table.data.changes import CHANGE_TYPE, COMMIT_VERSION
from seiche.table.table import Table

SYSTEM = {CHANGE_TYPE, COMMIT_VERSION}


class History:
    """A table of unique ids that is changed at random."""

    def __init__(self, path: Path, seed: int, *, stable: bool) -> None:
        self.path = str(path)
        self.random = random.Random(seed)
        self.numbers = 30
        self.done: Counter[str] = Counter()
        data = pa.table({"id": range(30), "value": [f"v{number}" for number in range(30)]})
        lance.write_dataset(data, self.path, max_rows_per_file=12, enable_stable_row_ids=stable)
        self.table = Table.open(self.path, durability="os")

    def step(self) -> None:
        act = self.random.choice(STEPS)
        before = self.table.version
        act(self)
        if self.table.version > before:
            self.done[act.__name__] += 1

    def fresh(self, count: int) -> list[dict[str, Any]]:
        first, self.numbers = self.numbers, self.numbers + count
        return [{"id": number, "value": f"n{number}"} for number in range(first, self.numbers)]

    def some(self) -> str:
        start = self.random.randrange(self.numbers)
        return f"id >= {start} AND id < {start + self.random.randrange(1, 6)}"

    def lance(self) -> Any:
        return lance.dataset(self.path)


def append(history: History) -> None:
    history.table.append(history.fresh(history.random.randrange(1, 20)))


def append_by_pylance(history: History) -> None:
    lance.write_dataset(pa.Table.from_pylist(history.fresh(5)), history.path, mode="append")


def delete(history: History) -> None:
    history.table.delete(history.some())


def delete_by_pylance(history: History) -> None:
    history.lance().delete(history.some())


def update_rows(history: History) -> None:
    history.table.update({"value": "concat(value, '!')"}, where=history.some(), mode="rows")


def update_columns(history: History) -> None:
    history.table.update({"value": "concat(value, '?')"}, where=history.some(), mode="columns")


def update_by_pylance(history: History) -> None:
    history.lance().update({"value": "concat(value, '.')"}, where=history.some())


def merge(history: History) -> None:
    known = [{"id": history.random.randrange(history.numbers), "value": "merged"}]
    data = [*known, *history.fresh(2)]
    history.table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()


def compact(history: History) -> None:
    history.table.compact()


def compact_by_pylance(history: History) -> None:
    history.lance().optimize.compact_files()


def reorder(history: History) -> None:
    if history.lance().count_rows():
        history.table.reorder(by="value")


def restore(history: History) -> None:
    history.table.restore(history.random.randrange(1, history.table.version + 1))


def overwrite(history: History) -> None:
    history.table.overwrite(pa.Table.from_pylist(history.fresh(15)))


def index(history: History) -> None:
    if history.lance().count_rows():
        history.table.create_index("id", "BTREE", replace=True)


def replace_column(history: History) -> None:
    rows = history.lance().count_rows()
    if rows:
        history.table.replace_column("value", pa.array([f"r{number}" for number in range(rows)]))


STEPS: list[Callable[[History], None]] = [
    *[append, delete, update_rows, update_columns, merge] * 2,
    *[append_by_pylance, delete_by_pylance, update_by_pylance],
    *[compact, compact_by_pylance, reorder, restore, overwrite, index, replace_column],
]


def replayed(rows: dict[int, Any], changes: Iterable[dict[str, Any]]) -> dict[int, Any]:
    made = dict(rows)
    for change in changes:
        row = {name: value for name, value in change.items() if name not in SYSTEM}
        match change[CHANGE_TYPE]:
            case "delete":
                assert made.pop(row["id"]) == row
            case "update":
                assert row["id"] in made
                made[row["id"]] = row
            case "insert":
                assert row["id"] not in made
                made[row["id"]] = row
    return made


def rows_at(table: Table, version: int) -> dict[int, Any]:
    return {row["id"]: row for row in table.to_arrow(version=version).to_pylist()}


@pytest.mark.soak
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_replayed_changes_give_the_next_version(
    tmp_path: Path, stable: bool, effort: Callable[[int, int], int]
) -> None:
    done: Counter[str] = Counter()
    for seed in range(effort(3, 40)):
        history = History(tmp_path / str(seed), seed, stable=stable)
        for _ in range(25):
            history.step()
        table = history.table
        changes = table.changes(0).to_arrow().to_pylist()
        counts = Counter((row[COMMIT_VERSION], row[CHANGE_TYPE]) for row in changes)
        assert counts == Counter(
            {
                (version, kind): rows
                for version, kinds in table.changes(0).counts.items()
                for kind, rows in kinds.items()
            }
        )
        rows: dict[int, Any] = {}
        for version in range(1, table.version + 1):
            rows = replayed(rows, (row for row in changes if row[COMMIT_VERSION] == version))
            assert rows == rows_at(table, version), (seed, version, table.transactions(version - 1)[0])
        done += history.done
    print(dict(done))
    assert done.total() >= 50
    assert len(done) >= 12


def test_pylance_says_the_same_of_what_was_inserted_and_updated(tmp_path: Path) -> None:
    history = History(tmp_path / "t", 1, stable=True)
    for act in (append, update_rows, delete, append_by_pylance, compact, update_by_pylance, update_columns, merge):
        act(history)
        version = history.table.version
        changes = history.table.changes(version - (2 if act is compact else 1)).to_arrow().to_pylist()
        delta = history.lance().delta(begin_version=version - (2 if act is compact else 1), end_version=version)
        for kind, reader in (("insert", delta.get_inserted_rows()), ("update", delta.get_updated_rows())):
            ours = sorted((row["id"], row["value"]) for row in changes if row[CHANGE_TYPE] == kind)
            theirs = sorted((row["id"], row["value"]) for row in reader.read_all().to_pylist())
            assert ours == theirs, (act, kind)
