"""Columns, compaction, indices and settings, by us and by pylance on a copy: the same table after each step."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction

from seiche.store import open_store
from seiche.table.table import Table
from tests.row_table import SCHEMA, in_order, pylance_table, some_rows

EXPRESSIONS = [
    "id * 2",
    "'fixed'",
    "cast(null as int)",
    "upper(name)",
    "small + ratio",
    "price * 2",
    "place.x",
    "place",
    "deep",
    "tags",
    "vector",
    "at",
    "kind",
    "nullif(small, 4)",
]
CASTS = [
    ("small", pa.int64()),
    ("small", pa.int16()),
    ("ratio", pa.float32()),
    ("name", pa.large_string()),
    ("long", pa.string()),
    ("raw", pa.large_binary()),
    ("price", pa.decimal128(20, 4)),
    ("at", pa.timestamp("ns", tz="UTC")),
]


INDICES = [("id", "BTREE"), ("small", "BTREE"), ("flag", "BITMAP"), ("tags", "LABEL_LIST")]


class Twins:
    """One table changed by us, and its copy changed by pylance."""

    def __init__(self, folder: Path, chance: random.Random, **options: Any) -> None:
        pylance_table(folder / "ours", some_rows(60), rows_per_file=7, **options)
        shutil.copytree(folder / "ours", folder / "theirs")
        self.ours = Table.open(open_store(str(folder / "ours"), durability="os"))
        self.paths = [str(folder / "ours"), str(folder / "theirs")]
        self.chance = chance
        self.next_id = 60
        self.next_column = 0

    @property
    def theirs(self) -> Any:
        return lance.dataset(self.paths[1])

    def name(self) -> str:
        self.next_column += 1
        return f"c{self.next_column}"

    def added(self) -> list[str]:
        return [one for one in self.ours.schema.names if one not in SCHEMA.names]

    def add_by_sql(self) -> str:
        chosen = {self.name(): one for one in self.chance.sample(EXPRESSIONS, 2)}
        self.ours.add_columns(chosen)
        theirs = self.theirs
        theirs.add_columns(chosen)
        # With pylance a column is never null if its expression cannot be, and then nobody can append without it.
        theirs.alter_columns(*({"path": name, "nullable": True} for name in chosen))
        return f"add {chosen}"

    def add_by_function(self) -> str:
        name = self.name()

        def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
            return pa.record_batch({name: [f"{one}!" for one in batch["id"].to_pylist()]})

        self.ours.add_columns(compute, read_columns=["id"])
        schema = pa.schema([pa.field(name, pa.string())])
        self.theirs.add_columns(lance.batch_udf(output_schema=schema)(compute), read_columns=["id"])
        return f"compute {name}"

    def add_by_key(self) -> str:
        name = self.name()
        ids = self.chance.sample(range(self.next_id), 20)
        data = pa.table({"id": ids, name: [{"a": one, "b": [one]} for one in ids]})
        self.ours.add_columns(data, on="id")
        self.theirs.merge(data, "id")
        return f"join {name}"

    def add_in_order(self) -> str:
        name = self.name()
        data = pa.table({name: list(range(self.theirs.count_rows()))})
        self.ours.add_columns(data.to_reader(max_chunksize=4))
        self.theirs.add_columns(data.to_reader(max_chunksize=4))
        return f"add {name} in order"

    def add_nulls(self) -> str:
        schema = pa.schema([pa.field(self.name(), self.chance.choice(SCHEMA.types))])
        self.ours.add_columns(schema)
        self.theirs.add_columns(schema)
        return f"add nulls {schema}"

    def cast(self) -> str:
        name, kind = self.chance.choice(CASTS)
        alteration = {"path": name, "data_type": kind}
        self.ours.alter_columns(alteration)
        theirs = self.theirs
        # pylance asks that the indices of a column be dropped before it is cast; with us they go with the cast.
        if theirs.schema.field(name).type != kind:
            for index in [one.name for one in theirs.describe_indices() if one.field_names == [name]]:
                theirs.drop_index(index)
        theirs.alter_columns(alteration)
        return f"cast {name} to {kind}"

    def alter(self) -> str:
        alterations: list[dict[str, Any]] = [
            {"path": "id", "nullable": not self.ours.schema.field("id").nullable},
            {"path": "place.label", "name": "label"},
        ]
        if added := self.added():
            alterations.append({"path": self.chance.choice(added), "name": self.name()})
        self.ours.alter_columns(*alterations)
        self.theirs.alter_columns(*alterations)
        return f"alter {alterations}"

    def drop(self) -> str:
        added = self.added()
        if len(added) < 2:
            return "nothing to drop"
        chosen = self.chance.sample(added, self.chance.randrange(1, len(added)))
        self.ours.drop_columns(chosen)
        self.theirs.drop_columns(chosen)
        return f"drop {chosen}"

    def rename(self) -> str:
        added = self.added()
        if not added:
            return "nothing to rename"
        old, new = self.chance.choice(added), self.name()
        self.ours.rename_columns({old: new})
        self.theirs.alter_columns({"path": old, "name": new})
        return f"rename {old} to {new}"

    def append(self) -> str:
        count = self.chance.randrange(1, 9)
        data = some_rows(count, self.next_id)
        data = pa.table(
            [data[one].cast(self.ours.schema.field(one).type) for one in data.column_names], data.column_names
        )
        self.next_id += count
        self.ours.append(data)
        lance.write_dataset(data, self.paths[1], mode="append")
        return f"append {count}"

    def delete(self) -> str:
        condition = f"id % {self.chance.randrange(3, 9)} = {self.chance.randrange(3)}"
        self.ours.delete(condition)
        self.theirs.delete(condition)
        return f"delete {condition}"

    def compact(self) -> str:
        options: dict[str, Any] = {
            "target_rows_per_fragment": self.chance.choice([10, 15, 20, 1000]),
            "materialize_deletions_threshold": self.chance.choice([0.0, 0.1, 0.3]),
        }
        index: Any = self.chance.choice(["remap", "remap", "drop"])
        self.ours.compact(**options, index=index)
        self.theirs.optimize.compact_files(**options)
        return f"compact {options} {index}"

    def index(self) -> str:
        column, kind = self.chance.choice(
            [("id", "BTREE"), ("small", "BTREE"), ("flag", "BITMAP"), ("tags", "LABEL_LIST")]
        )
        self.ours.create_index(column, kind, name=f"{column} {kind}", replace=True)
        self.theirs.create_scalar_index(column, kind, name=f"{column} {kind}", replace=True)
        return f"index {column} {kind}"

    def optimize(self) -> str:
        self.ours.optimize_indices(merge=self.chance.choice([None, 0, 2]))
        self.theirs.optimize.optimize_indices()
        return "optimize"

    def settings(self) -> str:
        values = {"a": self.chance.choice(["1", "2", None]), "b": "x"}
        self.ours.update_config(values)
        self.theirs.update_config(values)
        self.ours.update_metadata(values)
        self.theirs.update_metadata(values)
        self.ours.update_schema_metadata(values, replace=True)
        self.theirs.update_schema_metadata({key: value for key, value in values.items() if value}, replace=True)
        self.ours.update_field_metadata("place.x", values)
        self.theirs.update_field_metadata({"place.x": values})
        return f"settings {values}"

    def restore(self) -> str:
        """Version numbers differ: theirs makes a version also where there is nothing to do. One step back is clear."""
        self.ours.delete("id % 2 = 0")
        self.theirs.delete("id % 2 = 0")
        self.ours.restore(self.ours.version - 1)
        back = lance.dataset(self.paths[1], version=self.theirs.version - 1)
        back.restore()  # type: ignore[no-untyped-call]
        return "delete and restore"

    def theirs_on_both(self) -> str:
        """pylance goes on where we were."""
        step = self.chance.choice(["compact", "update", "optimize", "drop", "cleanup"])
        for path in self.paths:
            dataset: Any = lance.dataset(path)
            if step == "compact":
                dataset.optimize.compact_files(target_rows_per_fragment=40)
            elif step == "update":
                dataset.update({"long": "'changed'"}, where="id % 3 = 0")
            elif step == "optimize":
                dataset.optimize.optimize_indices()
            elif step == "drop" and (names := [one.name for one in dataset.describe_indices()]):
                dataset.drop_index(names[0])
        return f"pylance: {step}"

    def compare(self, done: list[str]) -> None:
        ours: Any = lance.dataset(self.paths[0])
        ours.validate()
        theirs = self.theirs
        assert ours.schema.equals(theirs.schema, check_metadata=True), done
        assert self.ours.schema.names == theirs.schema.names, done
        assert in_order(ours.to_table()) == in_order(theirs.to_table()), done
        assert _sizes(ours) == _sizes(theirs), done
        assert (ours.config(), ours.metadata) == (theirs.config(), theirs.metadata), done
        for condition in (
            f"id = {self.chance.randrange(self.next_id)}",
            "small < 20",
            "flag",
            "array_has_any(tags, ['t1'])",
        ):
            answered = ours.to_table(columns=["id"], filter=condition)["id"].to_pylist()
            scanned = ours.to_table(columns=["id"], filter=condition, use_scalar_index=False)["id"].to_pylist()
            assert sorted(answered) == sorted(scanned), (condition, done)


def _sizes(dataset: Any) -> list[tuple[int, int]]:
    return [(one.physical_rows, one.num_deletions) for one in dataset.get_fragments()]


@pytest.mark.soak
@pytest.mark.parametrize("options", [{}, {"enable_stable_row_ids": True}, {"data_storage_version": "2.1"}], ids=str)
def test_any_sequence_of_steps_leaves_what_pylance_leaves(
    tmp_path: Path, options: dict[str, Any], effort: Callable[[int, int], int]
) -> None:
    steps = 0
    for seed in range(effort(4, 60)):
        twins = Twins(tmp_path / str(seed), random.Random(seed), **options)
        columns = [twins.add_by_sql, twins.add_by_function, twins.add_by_key, twins.add_in_order, twins.add_nulls]
        columns += [twins.cast, twins.alter, twins.drop, twins.rename]
        others = [twins.compact, twins.compact, twins.index, twins.optimize, twins.settings, twins.restore]
        rows = [twins.append, twins.append, twins.delete, twins.theirs_on_both]
        done: list[str] = []
        for _ in range(12):
            kind: list[Callable[[], str]] = twins.chance.choice([columns, others, rows])
            done.append(twins.chance.choice(kind)())
            twins.compare(done)
            steps += 1
    print(f"{steps} steps, each compared with pylance's")
    assert steps >= 48


def test_plans_are_those_of_pylance(tmp_path: Path) -> None:
    """Which fragments are put together, on tables of many shapes."""
    chance = random.Random(5)
    compared = 0
    for number in range(12):
        path = tmp_path / str(number)
        table = Table.create(open_store(str(path), durability="os"), pa.schema([("id", pa.int64())]))
        for _ in range(chance.randrange(1, 12)):
            start = len(table.to_arrow())
            table.append(pa.table({"id": range(start, start + chance.choice([1, 5, 20, 60]))}))
        if chance.random() < 0.5:
            table.create_index("id")
            table.append(pa.table({"id": [9000, 9001]}))
            table.append(pa.table({"id": [9002]}))
        table.delete(f"id % {chance.randrange(2, 12)} = 0")
        for _ in range(6):
            options: dict[str, Any] = {
                "target_rows_per_fragment": chance.choice([10, 25, 50, 100, 1000]),
                "materialize_deletions": chance.random() < 0.8,
                "materialize_deletions_threshold": chance.choice([0.0, 0.1, 0.25]),
            }
            theirs = Compaction.plan(lance.dataset(str(path)), options).tasks  # type: ignore[arg-type]
            ours = table.compaction(**options).plan()
            assert [list(task.portion.ids) for task in ours] == [[one.id for one in task.fragments] for task in theirs]
            compared += len(ours)
    assert compared > 50


def test_pylance_goes_on_after_each_of_our_verbs(tmp_path: Path) -> None:
    """A stale handle of pylance commits over what we did: it must understand each of the operations."""
    origin = tmp_path / "origin"
    pylance_table(origin, some_rows(40), rows_per_file=10)
    verbs: dict[str, Callable[[Table], object]] = {
        "add": lambda table: table.add_columns({"n": "id"}),
        "nulls": lambda table: table.add_columns(pa.field("n", pa.int8())),
        "cast": lambda table: table.alter_columns({"path": "small", "data_type": pa.int64()}),
        "drop": lambda table: table.drop_columns("small"),
        "rename": lambda table: table.rename_columns({"small": "little"}),
        "replace": lambda table: table.replace_column("small", [1] * 42),
        "restore": lambda table: table.restore(1),
        "compact": lambda table: table.compact(),
        "reorder": lambda table: table.reorder(("id", "descending")),
        "index": lambda table: table.create_index("id"),
        "config": lambda table: table.update_config({"a": "b"}),
        "reserve": lambda table: table.reserve_fragments(3),
        "bases": lambda table: table.add_bases("/elsewhere"),
        "generations": lambda table: table.mark_generations({"12345678-1234-5678-1234-567812345678": 1}),
    }
    for name, verb in verbs.items():
        path = tmp_path / name
        shutil.copytree(origin, path)
        table = Table.open(open_store(str(path), durability="os"))
        table.append(some_rows(2, 90))
        stale: Any = lance.dataset(str(path))
        verb(table)
        rows = table.to_arrow().num_rows
        stale.update_config({"theirs": "1"})
        fresh: Any = lance.dataset(str(path))
        fresh.validate()
        assert fresh.config()["theirs"] == "1", name
        assert fresh.count_rows() == rows, name
        fresh.delete("id = 1")
        fresh.optimize.compact_files()
        after: Any = lance.dataset(str(path))
        after.validate()
        assert after.count_rows() == rows - 1, name
        assert table.to_arrow().num_rows == rows - 1, name
