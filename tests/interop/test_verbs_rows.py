"""The same statements by us and by pylance on a copy: the same rows after each, and either goes on after the other."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.table.table import Table
from tests.row_table import SCHEMA, RowTable, in_order, pylance_table, row, some_rows

VERSIONS = ["_row_created_at_version", "_row_last_updated_at_version"]

CONDITIONS = [
    "id % 5 = {n}",
    "id between {n} and {n} + 7",
    "small > {n}",
    "name = 'name {n}'",
    "long like '%{n}'",
    "price >= 3",
    "at is null",
    "day > date '2024-02-01'",
    "flag",
    "not flag or small is null",
    "kind in ('kind 1', 'kind 2')",
    "place.x < {n} + 10",
    "place.label is not null and id % 3 = 0",
    "array_length(tags) = 2",
    "true",
    "id = {n}",
]
EXPRESSIONS = [
    ("name", "concat(name, '{n}')"),
    ("long", "upper(long)"),
    ("small", "small + {n}"),
    ("small", "null"),
    ("ratio", "ratio * 2 - small"),
    ("ratio", "{n}"),
    ("price", "price + price"),
    ("price", "{n}"),
    ("day", "date '2020-01-{n}'"),
    ("flag", "not flag"),
    ("raw", "raw"),
    ("place", "named_struct('x', small, 'label', name)"),
    ("tags", "make_array('a{n}', name)"),
    ("vector", "vector"),
    ("deep", "deep"),
    ("kind", "'kind {n}'"),
    ("small", "ratio * 1.7"),
]


class Twins:
    """One table changed by us, and its copy changed by pylance."""

    def __init__(self, folder: Path, chance: random.Random, **options: Any) -> None:
        pylance_table(folder / "ours", some_rows(60), rows_per_file=13, **options)
        shutil.copytree(folder / "ours", folder / "theirs")
        self.ours = RowTable(folder / "ours")
        self.path = str(folder / "theirs")
        self.chance = chance
        self.stable = bool(options.get("enable_stable_row_ids"))
        self.next_id = 60
        self.row_ids: dict[int, int] = {}

    def condition(self) -> str:
        return self.chance.choice(CONDITIONS).format(n=self.chance.randrange(1, 15))

    def rows(self, *ids: int) -> pa.Table:
        """Rows of these ids with the values of others."""
        made = [{**row(self.chance.randrange(1000)), "id": number} for number in ids]
        return pa.Table.from_pylist(made, schema=SCHEMA)

    def new_rows(self, count: int) -> pa.Table:
        self.next_id += count
        return self.rows(*range(self.next_id - count, self.next_id))

    def mixed_rows(self) -> pa.Table:
        old = self.chance.sample(range(self.next_id), 9)
        self.next_id += 3
        return self.rows(*old, *range(self.next_id - 3, self.next_id))

    def append(self) -> str:
        data = self.new_rows(self.chance.randrange(1, 20))
        names = ["id", *self.chance.sample(SCHEMA.names[1:], 10)]
        data = data.select(names) if self.chance.random() < 0.4 else data
        self.ours.append(data.to_reader(max_chunksize=4))
        lance.write_dataset(data, self.path, mode="append")
        return f"append {len(data)}"

    def delete(self) -> str:
        condition = self.condition()
        if condition == "true" and self.chance.random() < 0.7:
            condition = "small = 2"
        made = self.ours.delete(condition)
        theirs = lance.dataset(self.path).delete(condition)
        assert made.rows == theirs["num_deleted_rows"], condition
        return f"delete {condition}"

    def update(self) -> str:
        where = self.condition() if self.chance.random() < 0.8 else None
        chosen = self.chance.sample(EXPRESSIONS, 2)
        # Where one expression reads what the other sets, pylance takes the new value, and SQL the old.
        if any(name in expression for name, _ in chosen for other, expression in chosen if other != name):
            del chosen[1]
        assignments = {name: expression.format(n=self.chance.randrange(10, 20)) for name, expression in chosen}
        mode: Any = self.chance.choice(["rows", "columns", None])
        made = self.ours.update(assignments, where=where, mode=mode)
        theirs = lance.dataset(self.path).update(assignments, where=where)
        assert made.rows == theirs["num_rows_updated"], (assignments, where)
        return f"update {assignments} where {where} by {mode}"

    def merge(self) -> str:
        data = self.mixed_rows()
        ours, theirs = self.ours.merge(data, on="id"), lance.dataset(self.path).merge_insert("id")
        update = self.chance.choice([None, "all", "source.small > target.small", "target.flag", "delete"])
        if update == "delete":
            ours, theirs = ours.when_matched_delete(), theirs.when_matched_delete()
        elif update is not None:
            condition = None if update == "all" else update
            ours, theirs = ours.when_matched_update_all(condition), theirs.when_matched_update_all(condition)
        if insert := update is None or self.chance.random() < 0.7:
            ours, theirs = ours.when_not_matched_insert_all(), theirs.when_not_matched_insert_all()
        orphans = self.chance.choice([None, None, "id % 11 = 0", "small > 40"])
        # pylance refuses some deletions of the rest beside other clauses.
        if orphans is not None and update in (None, "all"):
            ours = ours.when_not_matched_by_source_delete(orphans)
            theirs = theirs.when_not_matched_by_source_delete(orphans)
        made, stats = ours.execute(), theirs.execute(data)
        assert dict(made.notes or dict.fromkeys(("inserted", "updated", "deleted"), 0)) == {
            "inserted": stats["num_inserted_rows"],
            "updated": stats["num_updated_rows"],
            "deleted": stats["num_deleted_rows"],
        }
        return f"merge {update} insert {insert} orphans {orphans}"

    def merge_columns(self) -> str:
        ids = self.chance.sample(range(self.next_id), 9)
        data = self.rows(*ids).select(["id", *self.chance.sample(SCHEMA.names[1:], 3)])
        self.ours.merge(data, on="id").when_matched_update_all().execute()
        lance.dataset(self.path).merge_insert("id").when_matched_update_all().execute(data)
        return f"merge columns {data.column_names}"

    def theirs_on_both(self) -> str:
        """pylance changes our table as well."""
        small = self.chance.randrange(30)
        step = self.chance.choice(["compact", "update", "index"])
        for path in (str(self.ours.path), self.path):
            dataset = lance.dataset(path)
            if step == "compact":
                dataset.optimize.compact_files(target_rows_per_fragment=40)
            elif step == "update":
                dataset.update({"small": "small + 1"}, where=f"small > {small}")
            else:
                dataset.create_scalar_index("small", "BTREE", replace=True)
        return f"pylance: {step}"

    def compare(self, done: list[str]) -> None:
        ours, theirs = self.ours.rows(), in_order(lance.dataset(self.path).to_table())
        assert ours == theirs, done
        if self.stable:
            found = self.ours.lance().scanner(columns=["id"], with_row_id=True).to_table().to_pylist()
            row_ids = {one["id"]: one["_rowid"] for one in found}
            assert len(set(row_ids.values())) == len(found), done
            assert {one: row_ids[one] for one in self.row_ids if one in row_ids} == {
                one: row_id for one, row_id in self.row_ids.items() if one in row_ids
            }, done
            self.row_ids = row_ids


@pytest.mark.soak
@pytest.mark.parametrize("options", [{}, {"enable_stable_row_ids": True}, {"data_storage_version": "2.1"}], ids=str)
def test_any_sequence_of_statements_does_what_pylance_does(
    tmp_path: Path, options: dict[str, Any], effort: Callable[[int, int], int]
) -> None:
    statements = 0
    for seed in range(effort(3, 60)):
        twins = Twins(tmp_path / str(seed), random.Random(seed), **options)
        verbs = [twins.append, twins.delete, twins.update, twins.update, twins.merge, twins.merge, twins.merge_columns]
        done: list[str] = []
        for _ in range(10):
            done.append(twins.chance.choice([*verbs, twins.theirs_on_both])())
            twins.compare(done)
            statements += 1
    print(f"{statements} statements, each compared with pylance's")
    assert statements >= 30


def test_row_ids_and_versions_are_those_that_pylance_gives(tmp_path: Path) -> None:
    """Statement by statement, on tables where row ids are stable."""
    pylance_table(tmp_path / "ours", some_rows(30), enable_stable_row_ids=True)
    shutil.copytree(tmp_path / "ours", tmp_path / "theirs")
    ours, path = RowTable(tmp_path / "ours"), str(tmp_path / "theirs")
    upsert = some_rows(12, 25)

    def theirs() -> Any:
        return lance.dataset(path)

    steps: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: ours.append(some_rows(5, 30)), lambda: lance.write_dataset(some_rows(5, 30), path, mode="append")),
        (lambda: ours.delete("id % 6 = 1"), lambda: theirs().delete("id % 6 = 1")),
        (
            lambda: ours.update({"small": "small + 1"}, "id < 9", mode="rows"),
            lambda: theirs().update({"small": "small + 1"}, "id < 9"),
        ),
        (
            lambda: ours.merge(upsert, "id").when_matched_update_all().when_not_matched_insert_all().execute(),
            lambda: theirs().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(upsert),
        ),
        (
            lambda: ours.merge(upsert.select(["id", "name"]), "id").when_matched_update_all().execute(),
            lambda: theirs().merge_insert("id").when_matched_update_all().execute(upsert.select(["id", "name"])),
        ),
    ]
    for mine, other in steps:
        mine()
        other()
        ids = [
            in_order(lance.dataset(place).scanner(columns=["id", *VERSIONS], with_row_id=True).to_table())
            for place in (str(ours.path), path)
        ]
        assert ids[0] == ids[1]
        assert ours.rows() == in_order(theirs().to_table())


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "json": (pa.json_(), ['{"a":1}', None, "[]"]),
    "uuid": (pa.uuid(), [b"0" * 16, None, b"1" * 16]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, []]),
    "duration": (pa.duration("s"), [1, None, 3]),
    "time": (pa.time32("ms"), [1, None, 3]),
    "half float": (pa.float16(), [1.0, None, 3.0]),
    "long decimal": (pa.decimal256(50, 5), [1, None, 3]),
    "large list": (pa.large_list(pa.int32()), [[1], None, []]),
    "large binary": (pa.large_binary(), [b"a", None, b""]),
    "fixed binary": (pa.binary(3), [b"abc", None, b"xyz"]),
    "short vector": (pa.list_(pa.int8(), 2), [[1, 2], None, [3, 4]]),
    "date": (pa.date64(), [86_400_000, None, 0]),
    "nanoseconds": (pa.timestamp("ns"), [1, None, 3]),
    "unsigned": (pa.uint8(), [1, None, 255]),
    "nested": (
        pa.struct([("l", pa.list_(pa.struct([("x", pa.list_(pa.int64()))])))]),
        [{"l": [{"x": [1, 2]}]}, None, {"l": None}],
    ),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.int64()), [1, None, 2]),
    "dictionary of large strings": (pa.dictionary(pa.uint16(), pa.large_string()), ["a", None, "b"]),
    "only nulls": (pa.null(), [None, None, None]),
    "strict struct": (pa.struct([pa.field("a", pa.int64(), nullable=False)]), [{"a": 1}, None, {"a": 2}]),
}


@pytest.mark.parametrize("name", TYPES)
def test_columns_of_every_type_survive_every_verb(tmp_path: Path, name: str) -> None:
    kind, values = TYPES[name]
    plain = pa.array(values, kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)
    column = plain.cast(kind) if isinstance(kind, pa.BaseExtensionType) else plain
    schema = pa.schema([("id", pa.int64()), ("c", kind), ("v", pa.int64())])

    def rows(*ids: int) -> pa.Table:
        return pa.table([pa.array(ids), column, pa.array([0, 0, 0])], schema=schema)

    pylance_table(tmp_path / "t", rows(0, 1, 2), rows_per_file=2)
    table = RowTable(tmp_path / "t")
    table.append(rows(3, 4, 5))
    table.append([{"id": 6, "c": values[0], "v": 0}])
    for mode in ("rows", "columns"):
        table.update({"v": "v + 1"}, "id in (0, 1, 3)", mode=mode)
        table.update({"c": "c"}, "id in (1, 2, 4)", mode=mode)
    table.merge(rows(0, 4, 9), "id").when_matched_update_all().when_not_matched_insert_all().execute()
    table.merge(pa.table({"id": [5, 9], "v": [7, 7]}), "id").when_matched_update_all().execute()
    table.merge(rows(0, 1, 2), "id").when_matched_update({"c": "source.c", "v": "9"}, "source.id > 0").execute()
    table.merge(rows(0, 1, 2), "id").when_not_matched_by_source_update({"v": "100"}, "id = 3").execute()
    one, two, three = column.to_pylist()
    found = {row["id"]: (row["c"], row["v"]) for row in table.rows()}
    assert found == {
        0: (one, 0), 1: (two, 9), 2: (three, 9), 3: (one, 100), 4: (two, 0), 5: (three, 7), 6: (one, 0), 9: (three, 7)
    }  # fmt: skip


def keyed(tmp_path: Path) -> RowTable:
    """A table whose column `id` is its key, and says so: then pylance looks out for keys that others inserted."""
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, pa.field("v", pa.int64())])
    pylance_table(tmp_path / "t", pa.table({"id": [1, 2], "v": [0, 0]}, schema=schema))
    return RowTable(tmp_path / "t")


def upserted(table: Any, ids: list[int], value: int) -> Any:
    data = pa.table({"id": ids, "v": [value] * len(ids)}, schema=pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    if isinstance(table, lance.LanceDataset):
        strict = data.cast(pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())]))
        builder: Any = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return builder.execute(strict)
    return table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()


def test_pylance_notices_that_we_inserted_its_key(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    slow = table.lance()
    upserted(table, [7], 1)
    upserted(slow, [7], 2)
    assert [(one["id"], one["v"]) for one in table.rows()] == [(1, 0), (2, 0), (7, 2)]


def test_we_notice_that_pylance_inserted_our_key(tmp_path: Path) -> None:
    pylance_table(tmp_path / "without", pa.table({"id": [1, 2], "v": [0, 0]}))
    for table in (keyed(tmp_path), RowTable(tmp_path / "without")):
        slow = table.lance()
        table.meanwhile = [lambda slow=slow: upserted(slow, [7, 2], 1)]  # type: ignore[misc]
        made = upserted(table, [7, 8], 2)
        assert made.attempts == 2
        assert [(one["id"], one["v"]) for one in table.rows()] == [(1, 0), (2, 1), (7, 2), (8, 2)]


def test_many_keys_of_ours_are_any_key_to_pylance(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    slow = table.lance()
    upserted(table, list(range(100, 20_100)), 1)
    upserted(slow, [150, 30_000], 2)
    ids = [one["id"] for one in table.rows()]
    assert len(set(ids)) == len(ids) == 2 + 20_000 + 1


def test_tables_that_we_create_are_changed_by_both(tmp_path: Path) -> None:
    for stable in (False, True):
        table = Table.create(str(tmp_path / str(stable)), SCHEMA, stable_row_ids=stable)
        table.append(some_rows(20), max_rows_per_file=6)
        dataset: Any = lance.dataset(str(tmp_path / str(stable)))
        dataset.insert(some_rows(5, 20))
        dataset.delete("id = 3")
        table.update({"small": "7"}, where="id > 22", mode="rows")
        table.merge(some_rows(4, 23), on="id").when_matched_delete().when_not_matched_insert_all().execute()
        dataset = lance.dataset(str(tmp_path / str(stable)))
        dataset.update({"small": "8"}, where="id = 26")
        dataset.optimize.compact_files()
        dataset.validate()
        assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == [0, 1, 2, *range(4, 23), 25, 26]
