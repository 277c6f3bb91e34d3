"""A situation of the conflict matrix played through: two commits, and everything that must hold afterwards."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.errors import AlreadyExists, ConflictError, IncompatibleConflict, RetryableConflict
from seiche.table.format import file
from seiche.table.format.index_details import (
    FRAGMENT_REUSE,
    MEM_WAL,
    SINGLETONS,
    ReuseIndexFiles,
    find,
    mem_wal_details,
)
from seiche.table.operations import Clone, Delete, ReserveFragments, Rewrite, Update
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from tests.interop.matrix_tables import TABLES, Prepared, State, Workshop, open_table
from tests.unit.table.expected_matrix import Situation

__all__ = ["assert_means", "commit", "commit_first", "play", "rows_of", "workshop"]

ERRORS: dict[str, type[Exception]] = {
    "retry": RetryableConflict,
    "incompatible": IncompatibleConflict,
    "exists": AlreadyExists,
}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Workshop]:
    """The base tables by their names, each made when first asked for."""
    made: dict[str, Workshop] = {}

    def get(name: str) -> Workshop:
        if name not in made:
            made[name] = Workshop(tmp_path_factory.mktemp(name), **TABLES[name])
        return made[name]

    return get


def play(situation: Situation, shop: Workshop, path: Path, *, rows_given: bool = True) -> None:
    """Commit theirs, then ours, to a table of its own at `path`; anything that is not as it must be raises."""
    ours = shop.change(situation.operation, situation.ours)
    theirs = shop.change(situation.other, situation.theirs)
    if not rows_given:
        ours, theirs = replace(ours, affected_rows=None), replace(theirs, affected_rows=None)
    shop.copy(path)
    state = deepcopy(shop.state)
    commit_first(path, theirs, state)
    if situation.outcome in ERRORS:
        with pytest.raises(ERRORS[situation.outcome]) as failure:
            commit(path, ours, shop.version)
        assert_tells_the_story(failure.value, situation, shop.version)
        assert open_table(path).version == shop.version + 1
    else:
        commit(path, ours, shop.version)
        ours.effect(state)
        assert_written_down(path, ours, situation, shop.version)
    assert_means(path, state)


def commit_first(path: Path, theirs: Prepared, state: State) -> None:
    table = open_table(path)
    if isinstance(theirs.operation, Clone):
        # Only history can hold one: a version that changes nothing, made by a Clone.
        commit_clone(table, theirs.operation)
    else:
        table.commit(theirs.operation, affected_rows=theirs.affected_rows)
    theirs.effect(state)


def commit_clone(table: Table, operation: Clone) -> None:
    table.commit(ReserveFragments(0))
    (newest,) = (one for one in table.store.list("_versions") if one.path.endswith(name_of(table.version)))
    transaction = Transaction(table.version - 1, "00000000-0000-0000-0000-00000000c10e", operation)
    table.store.put(newest.path, file.encode(table.manifest, transaction.encode()))


def name_of(version: int) -> str:
    return f"{2**64 - 1 - version}.manifest"


def commit(path: Path, change: Prepared, version: int) -> Table:
    return open_table(path).commit(change.operation, read_version=version, affected_rows=change.affected_rows)


def assert_tells_the_story(error: Exception, situation: Situation, version: int) -> None:
    """Who wanted what, who was first, what to do: in the message and in the details."""
    assert isinstance(error, ConflictError | AlreadyExists)
    text = str(error)
    for part in (situation.operation, f"read version {version}", f"version {version + 1} ({situation.other}, txn"):
        assert part in text
    assert error.details["operation"] == situation.operation
    assert error.details["read_version"] == version
    assert error.details["version"] == version + 1
    assert error.details["winner_operation"] == situation.other
    assert error.details["winner_transaction"]
    assert error.details["table"] in text
    assert "Nothing was written" in text
    assert error.retryable == (situation.outcome == "retry")
    if situation.outcome == "incompatible":
        assert "a retry may change other rows than were meant" in text


def assert_written_down(path: Path, ours: Prepared, situation: Situation, version: int) -> None:
    """The committed transaction is ours: as it was for `ok`, adapted for `rebase`; read version as pylance has it."""
    made, transaction = open_table(path).transactions()[-1]
    assert made == version + 2
    moved = isinstance(ours.operation, Delete | Update)
    assert transaction.read_version == (version + 1 if moved else version)
    same = transaction.to_proto() == replace(transaction, operation=ours.operation).to_proto()
    # A Rewrite's message does not hold the reuse index, which is all that is ever adapted of it.
    assert same == (situation.outcome == "ok" or isinstance(ours.operation, Rewrite))


def assert_means(path: Path, state: State) -> None:
    """The newest version is what the model says, for us and for pylance, and pylance can go on with it."""
    dataset = lance.dataset(path)
    validate(dataset)
    assert rows_of(dataset.to_table()) == state.rows
    for column in dataset.schema.names:
        found = rows_of(dataset.to_table(filter=f"{column} >= 0"))
        assert found == {one: row for one, row in state.rows.items() if row[column] is not None}, column
    manifest = open_table(path).manifest
    header = manifest.header
    assert dict(header.config) == state.config
    assert dict(header.table_metadata) == state.table_metadata
    assert {key: value.decode() for key, value in header.schema_metadata.items()} == state.schema_metadata
    metadata = {one.name: {key: value.decode() for key, value in one.metadata.items()} for one in header.fields}
    assert {name: values for name, values in metadata.items() if values} == state.field_metadata
    assert {base.path for base in header.base_paths} == state.bases
    assert len({base.id for base in header.base_paths}) == len(header.base_paths)
    assert all(one.deletion_file.num_deleted_rows < one.physical_rows for one in manifest.fragments), (
        "an empty fragment"
    )
    names = [one.name for one in manifest.indices if one.name not in SINGLETONS]
    assert {name: names.count(name) for name in names} == state.indices
    assert [one.name for one in manifest.indices].count(MEM_WAL) <= 1
    log = find(manifest.indices, MEM_WAL)
    marks = mem_wal_details(log).compacted_sstables if log is not None else ()
    assert {one.shard.uuid: one.generation for one in marks} == state.generations
    reuse = find(manifest.indices, FRAGMENT_REUSE)
    content = ReuseIndexFiles(open_table(path).store).read(reuse).versions if reuse is not None else ()
    assert {one.dataset_version for one in content} == state.reuse
    assert_goes_on(path, dataset)


def validate(dataset: Any) -> None:
    dataset.validate()


def rows_of(table: pa.Table) -> dict[int, dict[str, int | None]]:
    rows = table.to_pylist()
    made = {row["id"]: row for row in rows}
    assert len(made) == len(rows), "a row came out twice"
    return made


def assert_goes_on(path: Path, dataset: lance.LanceDataset) -> None:
    row = {one.name: pa.array([999], one.type) for one in dataset.schema}
    after = lance.write_dataset(pa.table(row, schema=dataset.schema), path, mode="append")
    validate(after)
    assert after.version == dataset.version + 1
    assert after.count_rows() == dataset.count_rows() + 1
    assert after.count_rows("id = 999") == 1
