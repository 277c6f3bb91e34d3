"""Several statements on one table become one change of it: every pair of them, against a plain model.

Alone, and with others who commit in between: then the transaction's own fragments, deletions of own rows, row ids and
index coverage get other numbers than the statements saw (rule 8 of the protocol). Each part of that is taken away once,
and missed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import ConflictError, Lake
from seiche.errors import SeicheError
from seiche.lake.commit import making, renumber
from seiche.lake.commit import work as work_module
from seiche.lake.handles import TransactionTable
from seiche.store import open_store
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFragment
from seiche.table.operations import Merge
from seiche.table.operations.coverage import covered

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
Row = dict[str, Any]


@dataclass
class Model:
    """A table as a dictionary of rows by id, and which ids have been removed: one that comes again is another row."""

    rows: dict[int, Row] = field(default_factory=dict)
    columns: list[str] = field(default_factory=lambda: list(SCHEMA.names))
    removed: set[int] = field(default_factory=set)

    def add(self, *rows: Row) -> None:
        for row in rows:
            self.rows[row["id"]] = {name: row.get(name) for name in self.columns}

    def remove(self, condition: Callable[[Row], bool]) -> None:
        gone = {key for key, row in self.rows.items() if condition(row)}
        self.removed |= gone
        self.rows = {key: row for key, row in self.rows.items() if key not in gone}

    def change(self, column: str, value: Callable[[Row], Any], condition: Callable[[Row], bool]) -> None:
        for row in self.rows.values():
            if condition(row):
                row[column] = value(row)

    def copy(self) -> "Model":
        return Model({key: dict(row) for key, row in self.rows.items()}, list(self.columns), set(self.removed))


def row(number: int) -> Row:
    return {"id": number, "n": number * 10, "s": f"row {number}"}


def arrow(table: TransactionTable, *rows: Row) -> pa.Table:
    """Rows as the table has them now: it may have other columns than it began with."""
    wanted = [one for one in table.schema if one.name in SCHEMA.names]
    return pa.table([[given[one.name] for given in rows] for one in wanted], schema=pa.schema(wanted))


# A statement does something to the table and the same to the model; `place` is 1 or 2, so that two of a kind differ.
Statement = Callable[[TransactionTable, Model, int], None]


def append(table: TransactionTable, model: Model, place: int) -> None:
    rows = [row(100 * place + number) for number in range(1, 4)]
    table.append(arrow(table, *rows))
    model.add(*rows)


def delete_old(table: TransactionTable, model: Model, place: int) -> None:
    table.delete(f"id = {place} OR id = {place + 3}")
    model.remove(lambda one: one["id"] in (place, place + 3))


def delete_own(table: TransactionTable, model: Model, place: int) -> None:
    """Of what earlier statements made, and of what was there."""
    table.delete("id % 100 = 2")
    model.remove(lambda one: one["id"] % 100 == 2)


def delete_fragment(table: TransactionTable, model: Model, place: int) -> None:
    table.delete("id <= 3")
    model.remove(lambda one: one["id"] <= 3)


def update_rows(table: TransactionTable, model: Model, place: int) -> None:
    table.update({"n": "n + 1"}, where="id % 100 = 1 OR id = 3", mode="rows")
    model.change("n", lambda one: one["n"] + 1, lambda one: one["id"] % 100 == 1 or one["id"] == 3)


def update_columns(table: TransactionTable, model: Model, place: int) -> None:
    table.update({"n": "n * 2"}, where="id % 2 = 1", mode="columns")
    model.change("n", lambda one: one["n"] * 2, lambda one: one["id"] % 2 == 1)


def merge(table: TransactionTable, model: Model, place: int) -> None:
    rows = [row(3) | {"n": 333 * place}, row(101) | {"n": 7 * place}, row(700 + place)]
    table.merge(arrow(table, *rows), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    for one in rows:
        known = model.rows.get(one["id"], {})
        model.add({**known, **one})


def overwrite(table: TransactionTable, model: Model, place: int) -> None:
    rows = [row(900 + 10 * place + number) for number in range(1, 4)]
    table.overwrite(pa.Table.from_pylist(rows, schema=SCHEMA))
    model.rows, model.columns = {}, list(SCHEMA.names)
    model.add(*rows)


def add_column(table: TransactionTable, model: Model, place: int) -> None:
    table.add_columns({f"x{place}": "n + 5"})
    model.columns.append(f"x{place}")
    model.change(f"x{place}", lambda one: one["n"] + 5, lambda one: True)


def drop_column(table: TransactionTable, model: Model, place: int) -> None:
    name = "s" if "s" in model.columns else model.columns[-1]
    if name == "n":
        return
    table.drop_columns([name])
    model.columns.remove(name)
    for one in model.rows.values():
        del one[name]


def rename_column(table: TransactionTable, model: Model, place: int) -> None:
    if "s" not in model.columns:
        return
    table.rename_columns({"s": "t"})
    model.columns[model.columns.index("s")] = "t"
    for one in model.rows.values():
        one["t"] = one.pop("s")


def replace_column(table: TransactionTable, model: Model, place: int) -> None:
    values = [value + 7 for value in table.to_arrow(columns=["n"])["n"].to_pylist()]
    table.replace_column("n", pa.array(values, pa.int64()))
    model.change("n", lambda one: one["n"] + 7, lambda one: True)


def create_index(table: TransactionTable, model: Model, place: int) -> None:
    table.create_index("n", replace=True)


def compact(table: TransactionTable, model: Model, place: int) -> None:
    table.compact()


def configure(table: TransactionTable, model: Model, place: int) -> None:
    table.update_config({"place": str(place)})


STATEMENTS: Mapping[str, Statement] = {
    one.__name__: one
    for one in (
        append,
        delete_old,
        delete_own,
        delete_fragment,
        update_rows,
        update_columns,
        merge,
        overwrite,
        add_column,
        drop_column,
        rename_column,
        replace_column,
        create_index,
        compact,
        configure,
    )
}


def delete_appended(table: TransactionTable, model: Model, place: int) -> None:
    """All of what an append made: the number of its fragment is given, and not used."""
    table.delete("id > 100")
    model.remove(lambda one: one["id"] > 100)


# Change nothing that a reader finds.
KEEPING = {"create_index", "compact", "configure"}
# Go together with rows that others append and remove elsewhere meanwhile, alone and with each other.
REBASED = {"append", "delete_old", "delete_own", "delete_fragment", "update_rows", "configure"}


class World:
    """A lake with a fresh table for each case."""

    def __init__(self, folder: Path) -> None:
        self.lake: Lake = seiche.create(open_store(str(folder / "lake"), durability="os"))
        self.lake.create_namespace("t")
        self.cases = 0
        self.conflicts = 0

    def table(self, *, stable: bool) -> str:
        """Two fragments: rows 1 to 3 and 4 to 6."""
        self.cases += 1
        name = f"t.case{self.cases}"
        with self.lake.transaction() as tx:
            made = tx.create_table(name, SCHEMA, stable_row_ids=stable)
            made.append(arrow(made, row(1), row(2), row(3)))
            made.append(arrow(made, row(4), row(5), row(6)))
        return name

    def others(self, name: str, model: Model) -> None:
        """Rows that come and one that goes, in fragments that no statement above changes."""
        table = self.lake.table(name)
        table.append(pa.Table.from_pylist([row(501), row(502)], schema=SCHEMA))
        table.delete("id = 502")
        table.append(pa.Table.from_pylist([row(503)], schema=SCHEMA))
        model.add(row(501), row(503))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("fold"))


def case(world: World, kinds: tuple[str, ...], *, stable: bool, concurrent: bool) -> bool:
    """Run the statements in one transaction and look at the result from all sides; `False` if it was refused."""
    name = world.table(stable=stable)
    before = world.lake.table(name).row
    ids = row_ids(world.lake, name) if stable else {}
    model = Model()
    model.add(*(row(number) for number in range(1, 7)))
    untouched = model.copy()
    tx = world.lake.transaction()
    for place, kind in enumerate(kinds, start=1):
        statement = delete_appended if kind == "delete_appended" else STATEMENTS[kind]
        statement(tx.table(name), model, place)
        assert content(tx.table(name).to_arrow()) == expected(model), f"inside, after {kind}"
    if concurrent:
        world.others(name, untouched)
        if "overwrite" not in kinds:
            for number in (501, 503):
                model.rows[number] = {"t": f"row {number}"} | untouched.rows[number]  # also under another name
    standing = world.lake.table(name).row
    try:
        tx.commit()
    except ConflictError:
        assert concurrent, "nobody was there to conflict with"
        assert world.lake.table(name).row == standing
        assert content(world.lake.table(name).to_arrow()) == expected(untouched)
        world.conflicts += 1
        return False
    after = world.lake.table(name).row
    changed = any(kind not in KEEPING for kind in kinds)
    assert after.logical_version - standing.logical_version == changed, "one change of content, or none"
    if not KEEPING & set(kinds):
        assert after.table_version - standing.table_version == 1, "and one version of the table"
    assert after.id == before.id
    look(world.lake, name, model, ids if "overwrite" not in kinds else {}, standing.table_version + 1, stable=stable)
    return True


def look(lake: Lake, name: str, model: Model, ids: Mapping[int, int], made: int, *, stable: bool) -> None:
    """Through the lake, as plain Lance sees it, through the index, by row id; and once more after another append.

    `made` is the version of the table that the change of content made.
    """
    table = lake.table(name)
    assert content(table.to_arrow()) == expected(model)
    plain: Any = lance.dataset(table.uri)
    plain.validate()
    assert plain.version == table.version
    assert content(plain.to_table()) == expected(model)
    for value in {one["n"] for one in model.rows.values()}:
        found = sorted(plain.to_table(filter=f"n = {value}")["id"].to_pylist())
        assert found == sorted(key for key, one in model.rows.items() if one["n"] == value), f"n = {value}"
    if stable:
        now = row_ids(lake, name)
        assert len(set(now.values())) == len(now)
        kept = {key: number for key, number in ids.items() if key in now and key not in model.removed}
        assert {key: now[key] for key in kept} == kept, "a row keeps its id for life"
        check_versions(plain, made)
    with lake.transaction() as tx:
        more = tx.table(name)
        more.append(arrow(more, row(801)))
    if stable:
        later = row_ids(lake, name)
        assert later[801] > max(now.values(), default=-1), "an id is never given twice"
        assert {key: later[key] for key in now} == now


def check_versions(plain: lance.LanceDataset, made: int) -> None:
    """Every row was made and changed by versions that exist."""
    stamps = plain.to_table(columns=["id", "_row_created_at_version", "_row_last_updated_at_version"])
    for one in stamps.to_pylist():
        created, updated = one["_row_created_at_version"], one["_row_last_updated_at_version"]
        assert 1 <= created <= updated <= plain.version, one
        if 500 < one["id"] < 600:
            assert created <= updated <= made, one
            assert created < made, "rows of others are not of this transaction"
        elif one["id"] > 6:
            assert created == updated == made, "rows of this transaction are of the version that it made"


def row_ids(lake: Lake, name: str) -> dict[int, int]:
    found = lance.dataset(lake.table(name).uri).to_table(columns=["id"], with_row_id=True)
    return dict(zip(found["id"].to_pylist(), found["_rowid"].to_pylist(), strict=True))


def content(table: pa.Table) -> list[Row]:
    return sorted(table.to_pylist(), key=lambda one: int(one["id"]))


def expected(model: Model) -> list[Row]:
    rows = [{name: one.get(name) for name in model.columns} for one in model.rows.values()]
    return sorted(rows, key=lambda one: int(one["id"]))


def stabilities(first: str, second: str, effort: Callable[[int, int], int]) -> Iterator[bool]:
    """With and without stable row ids; in the short form one of the two, changing from pair to pair."""
    names = list(STATEMENTS)
    turn = (names.index(first) + names.index(second)) % 2 == 0
    yield turn
    if effort(0, 1):
        yield not turn


@pytest.mark.soak
@pytest.mark.parametrize("first", STATEMENTS)
def test_every_pair_does_what_both_do(world: World, first: str, effort: Callable[[int, int], int]) -> None:
    for second in STATEMENTS:
        for stable in stabilities(first, second, effort):
            assert case(world, (first, second), stable=stable, concurrent=False), (first, second)


@pytest.mark.soak
@pytest.mark.parametrize("first", STATEMENTS)
def test_every_pair_while_others_commit(world: World, first: str, effort: Callable[[int, int], int]) -> None:
    for second in STATEMENTS:
        for stable in stabilities(first, second, effort):
            done = case(world, (first, second), stable=stable, concurrent=True)
            assert done or not {first, second} <= REBASED, f"{first} and {second} go together with what others did"


THREE: list[tuple[str, ...]] = [
    ("delete_fragment", "append", "add_column"),  # the new fragment must not be taken for the one with the id 0
    ("compact", "append", "add_column"),
    ("append", "delete_own", "merge"),
    ("append", "delete_own", "create_index"),
    ("append", "update_columns", "delete_own"),
    ("create_index", "append", "update_rows"),
    ("overwrite", "drop_column", "append"),
    ("add_column", "update_rows", "delete_own"),
    # The append needs no fragment in the end, and what was compacted or indexed would have another number without it.
    ("append", "overwrite", "compact"),
    ("append", "delete_appended", "compact"),
    ("append", "update_rows", "compact"),
    ("append", "overwrite", "create_index"),
    ("append", "overwrite", "append", "create_index", "compact"),
]


@pytest.mark.parametrize("concurrent", [False, True], ids=["alone", "with others"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize("kinds", THREE, ids=["-".join(kinds) for kinds in THREE])
def test_three_statements(world: World, kinds: tuple[str, ...], stable: bool, concurrent: bool) -> None:
    assert case(world, kinds, stable=stable, concurrent=concurrent) or concurrent


INDEXED: list[tuple[str, ...]] = [
    ("create_index", "compact"),
    ("append", "create_index", "compact"),
    ("create_index", "append", "compact"),
    ("create_index", "compact", "append"),
    ("create_index", "compact", "update_columns"),
    ("compact", "append"),
    ("compact", "create_index", "append"),
    ("compact", "add_column", "drop_index"),
    ("compact", "drop_index", "update_columns", "update_rows"),
    ("append", "compact", "create_index", "append", "compact"),
    ("append", "overwrite", "create_index", "compact"),
]


@pytest.mark.parametrize("indexed", [False, True], ids=["without", "with an index"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "row ids"])
@pytest.mark.parametrize("kinds", INDEXED, ids=["-".join(kinds) for kinds in INDEXED])
def test_indices_are_those_that_the_statements_left(
    world: World, kinds: tuple[str, ...], stable: bool, indexed: bool
) -> None:
    name = world.table(stable=stable)
    if indexed:
        world.lake.table(name).create_index("n")
    before = world.lake.table(name).version
    model = Model()
    model.add(*(row(number) for number in range(1, 7)))
    with world.lake.transaction() as tx:
        table = tx.table(name)
        for place, kind in enumerate(kinds, start=1):
            if kind != "drop_index":
                STATEMENTS[kind](table, model, place)
            elif indexed:
                table.drop_index("n_idx")
        work = tx.edit(table.id).work
        assert work is not None
    assert coverage(seiche.Table.open(world.lake.table(name).uri).manifest) == coverage(work.running)
    look(world.lake, name, model, {}, before + 1, stable=stable)


def coverage(manifest: Manifest) -> dict[str, list[int]]:
    """The fragments that the indices cover, by name."""
    return {index.name: sorted(covered(index) or ()) for index in manifest.indices}


def _as_it_is(first: Any, *_: Any) -> Any:
    return first


def _unshifted(made: DataFragment, old: DataFragment, base: Manifest, shift: int, version: int) -> None:
    RESTORE(made, old, base, 0, version)


def _as_provisional(made: DataFragment, old: DataFragment, base: Manifest, shift: int, version: int) -> None:
    RESTORE(made, old, base, shift, base.version + 1)


def _told_by_id(merge: Merge, manifest: Manifest) -> Any:
    return SORTED_OUT(replace(merge, added=None), manifest)


RESTORE, SORTED_OUT = renumber._restore_rows, Merge._sorted_out
OWN_INDEX = ("append", "create_index")


@dataclass(frozen=True)
class Mutant:
    """One part taken away, and the statements after which it is missed."""

    where: Any
    name: str
    instead: Any
    kinds: tuple[str, ...]
    stable: bool = False
    concurrent: bool = True


MUTANTS = {
    "deletions keep the old fragment's name": Mutant(
        renumber, "_copy_deletions", lambda *_: None, ("append", "delete_own")
    ),
    "row ids of one's own are given anew": Mutant(
        renumber, "_restore_rows", lambda *_: None, ("append", "update_rows", "delete_own"), stable=True
    ),
    "row ids are not moved behind those of others": Mutant(
        renumber, "_restore_rows", _unshifted, ("append", "delete_own"), stable=True
    ),
    "row versions stay provisional": Mutant(
        renumber, "_restore_rows", _as_provisional, ("append", "delete_own"), stable=True
    ),
    "an index claims fragments under their old numbers": Mutant(making, "trimmed", _as_it_is, OWN_INDEX),
    "numbers that were given and not used stay covered": Mutant(
        renumber, "_given", lambda *_: set(), ("append", "create_index", "delete_appended")
    ),
    "an index by places is not run again": Mutant(renumber, "_check_indices", lambda *_: None, OWN_INDEX, stable=True),
    "a compaction takes ids that others have": Mutant(making, "reserved", _as_it_is, ("compact",)),
    "columns that were dropped stay in an overwrite": Mutant(
        work_module, "_fitting", _as_it_is, ("overwrite", "drop_column"), concurrent=False
    ),
    "a new fragment is taken for the first": Mutant(
        Merge, "_sorted_out", _told_by_id, ("delete_fragment", "append", "add_column"), stable=True, concurrent=False
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_taken_away_is_missed(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutant = MUTANTS[name]
    outcome = case(world, mutant.kinds, stable=mutant.stable, concurrent=mutant.concurrent)
    monkeypatch.setattr(mutant.where, mutant.name, mutant.instead)
    noticed = False
    try:
        noticed = case(world, mutant.kinds, stable=mutant.stable, concurrent=mutant.concurrent) != outcome
    except (AssertionError, SeicheError, OSError, ValueError, ArithmeticError):
        noticed = True
    assert noticed
