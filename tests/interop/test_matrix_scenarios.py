"""The three conflict scenarios of the specification, end to end, each with either engine as the one that was first."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction
from pyroaring import BitMap

from seiche.errors import IncompatibleConflict, RetryableConflict
from seiche.table.format.deletions import DeletionFiles
from seiche.table.operations import Delete, Restore, Update
from seiche.table.transaction import Transaction
from tests.interop.matrix_checks import validate
from tests.interop.matrix_tables import open_table

Act = Callable[[lance.LanceDataset], object]


def table_of(path: Path, rows: int, per_fragment: int) -> Path:
    """A table of two versions: it was created, and then got a setting."""
    ids = pa.array(range(rows), pa.int64())
    dataset = lance.write_dataset(pa.table({"id": ids, "v": ids}), path, max_rows_per_file=per_fragment)
    dataset.update_config({"owner": "test"})
    return path


def done_to_a_copy(path: Path, scratch: Path, act: Act) -> list[Transaction]:
    """What `act` commits to a copy of the table; the files of it are put into the table itself."""
    shutil.copytree(path, scratch)
    before = open_table(path).version
    act(lance.dataset(scratch))
    for directory in ("data", "_deletions"):
        if (scratch / directory).exists():
            shutil.copytree(scratch / directory, path / directory, dirs_exist_ok=True)
    return [transaction for _, transaction in open_table(scratch).transactions(since=before)]


def prepared(path: Path, scratch: Path, act: Act) -> Delete | Update:
    """The one operation that `act` commits to a copy of the table."""
    (transaction,) = done_to_a_copy(path, scratch, act)
    assert isinstance(transaction.operation, Delete | Update)
    return transaction.operation


def ids_of(path: Path) -> list[int]:
    dataset = lance.dataset(path)
    validate(dataset)
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def goes_on(path: Path, rows: int) -> None:
    """pylance appends to what came out."""
    schema = lance.dataset(path).schema
    one = {field.name: pa.array([-1], field.type) for field in schema}
    after = lance.write_dataset(pa.table(one, schema=schema), path, mode="append")
    validate(after)
    assert after.count_rows() == rows + 1


@pytest.mark.parametrize("first", ["seiche", "pylance"])
@pytest.mark.parametrize("rows_given", [True, False])
def test_rebasable_two_deletes_of_different_rows_in_one_fragment(tmp_path: Path, first: str, rows_given: bool) -> None:
    path = table_of(tmp_path / "t", 1000, 1000)
    writer_a = prepared(path, tmp_path / "a", lambda ds: ds.delete("id >= 100 AND id < 200"))
    writer_b = prepared(path, tmp_path / "b", lambda ds: ds.delete("id >= 500 AND id < 600"))
    if first == "seiche":
        assert open_table(path).commit(writer_a, read_version=2).version == 3
    else:
        lance.dataset(path).delete("id >= 100 AND id < 200")
    rows = {0: range(500, 600)} if rows_given else None
    table = open_table(path).commit(writer_b, read_version=2, affected_rows=rows)
    assert table.version == 4
    assert ids_of(path) == [one for one in range(1000) if not (100 <= one < 200 or 500 <= one < 600)]
    (fragment,) = table.manifest.fragments
    assert DeletionFiles(table.store).read(fragment) == BitMap(range(100, 200)) | BitMap(range(500, 600))
    assert (fragment.deletion_file.read_version, fragment.deletion_file.num_deleted_rows) == (3, 200)
    (_, third), (_, fourth) = table.transactions(since=2)
    assert (third.read_version, fourth.read_version) == (2, 3)
    goes_on(path, 800)


def test_rebasable_pylance_rebases_over_us(tmp_path: Path) -> None:
    """The other way round: what we wrote is what pylance can merge with."""
    path = table_of(tmp_path / "t", 1000, 1000)
    stale = lance.dataset(path)
    writer_a = prepared(path, tmp_path / "a", lambda ds: ds.delete("id >= 100 AND id < 200"))
    open_table(path).commit(writer_a, read_version=2)
    stale.delete("id >= 500 AND id < 600", conflict_retries=0)
    assert ids_of(path) == [one for one in range(1000) if not (100 <= one < 200 or 500 <= one < 600)]


@pytest.mark.parametrize("first", ["seiche", "pylance"])
def test_retryable_update_of_a_fragment_that_was_compacted(tmp_path: Path, first: str) -> None:
    path = table_of(tmp_path / "t", 60, 10)
    update = prepared(path, tmp_path / "b", lambda ds: ds.update({"v": "v + 1000"}, where="id IN (31, 32)"))
    compact(path, first)
    compacted = open_table(path).version
    with pytest.raises(RetryableConflict) as failure:
        open_table(path).commit(update, read_version=2, affected_rows={3: [1, 2]})
    assert failure.value.details["winner_operation"] == "Rewrite"
    assert failure.value.details["fragments"] == (3,)
    assert open_table(path).version == compacted, "nothing of the update is visible"
    assert lance.dataset(path).to_table(filter="v >= 1000").num_rows == 0
    again = prepared(path, tmp_path / "again", lambda ds: ds.update({"v": "v + 1000"}, where="id IN (31, 32)"))
    open_table(path).commit(again, read_version=compacted)
    assert lance.dataset(path).to_table(filter="v >= 1000")["id"].to_pylist() == [31, 32]
    assert ids_of(path) == list(range(60))
    goes_on(path, 60)


def compact(path: Path, who: str) -> None:
    options: Any = {"target_rows_per_fragment": 50}
    if who == "pylance":
        Compaction.execute(lance.dataset(path), options)
        return
    # Rewritten by pylance, committed by us: the reservation of ids first, then the rewrite.
    for one in done_to_a_copy(path, path.with_name("c"), lambda ds: Compaction.execute(ds, options)):
        open_table(path).commit(one.operation, read_version=2)


@pytest.mark.parametrize("first", ["seiche", "pylance"])
def test_incompatible_delete_of_rows_that_a_restore_took_away(tmp_path: Path, first: str) -> None:
    path = tmp_path / "t"
    for version in range(3):
        ids = pa.array(range(10 * version, 10 * version + 10), pa.int64())
        lance.write_dataset(pa.table({"id": ids, "v": ids}), path, mode="append" if version else "create")
    delete = prepared(path, tmp_path / "b", lambda ds: ds.delete("id >= 15 AND id < 25"))
    restore(path, first)
    with pytest.raises(IncompatibleConflict) as failure:
        open_table(path).commit(delete, read_version=3, affected_rows={1: range(5, 10), 2: range(5)})
    assert not failure.value.retryable
    assert "a retry may change other rows than were meant" in str(failure.value)
    assert failure.value.details["winner_operation"] == "Restore"
    assert open_table(path).version == 4
    assert ids_of(path) == list(range(10))
    goes_on(path, 10)


def restore(path: Path, who: str) -> None:
    if who == "pylance":
        old: Any = lance.dataset(path, version=1)
        old.restore()
    else:
        open_table(path).commit(Restore(1))
