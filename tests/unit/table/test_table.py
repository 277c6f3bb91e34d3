"""The class a user holds: making, opening, looking at and committing to one table."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import seiche
from seiche.core.clock import SimulatedClock
from seiche.core.runtime import Runtime
from seiche.errors import (
    AlreadyExists,
    Corrupt,
    IncompatibleConflict,
    InvalidInput,
    NotFound,
    RetryableConflict,
)
from seiche.store import open_store
from seiche.table.data.fragments import fragment_from_lance
from seiche.table.format.deletions import DeletionFiles
from seiche.table.format.manifest_pb2 import BasePath, DataFile, DataFragment
from seiche.table.format.schema import from_arrow
from seiche.table.operations import Append, Delete, Opaque, Overwrite, Restore, UpdateConfig, UpdateMap
from seiche.table.table import Table
from seiche.table.transaction import Transaction
from seiche.testing import Call, DictStore, SimulatedStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())], metadata={"made": "here"})


def fragment(name: str, rows: int = 3) -> DataFragment:
    """A fragment whose file does not exist: for what nobody scans."""
    file = DataFile(path=f"{name}.lance", fields=[0, 1], column_indices=[0, 1], file_major_version=2)
    file.file_minor_version = 2
    return DataFragment(files=[file], physical_rows=rows)


def append(name: str) -> Append:
    return Append((fragment(name),))


def paths(table: Table) -> list[str]:
    return [one.files[0].path.removesuffix(".lance") for one in table.manifest.fragments]


@pytest.fixture
def table() -> Table:
    return Table.create(DictStore(), SCHEMA)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"row {one}" for one in ids]}, schema=SCHEMA)


@pytest.fixture
def real(tmp_path: Path) -> Table:
    """A table with rows: versions 2 and 3 appended two each."""
    made = Table.create(str(tmp_path / "t"), SCHEMA, durability="os")
    made.append(rows(1, 2))
    made.append(rows(3, 4))
    return made


def test_it_is_the_public_one() -> None:
    assert seiche.Table is Table


def test_a_new_table_is_empty_and_has_its_schema(table: Table) -> None:
    assert table.version == 1
    assert table.schema.equals(SCHEMA, check_metadata=True)
    assert len(table.manifest.fragments) == 0
    assert [(one.version, one.operation) for one in table.versions()] == [(1, "Overwrite")]


@pytest.mark.parametrize("naming", ["V1", "V2"])
@pytest.mark.parametrize("stable", [False, True])
def test_a_new_table_is_one_for_pylance_too(tmp_path: Path, naming: str, stable: bool) -> None:
    config = {"owner": "me"}
    made = Table.create(str(tmp_path / "t"), SCHEMA, config=config, naming=naming, stable_row_ids=stable)
    dataset: Any = lance.dataset(tmp_path / "t")
    dataset.validate()
    assert dataset.schema.equals(SCHEMA)
    assert dataset.config() == config
    assert dataset.has_stable_row_ids is stable
    first = {"V1": "1.manifest", "V2": "18446744073709551614.manifest"}[naming]
    assert (tmp_path / "t/_versions" / first).exists()
    after = lance.write_dataset(rows(1), tmp_path / "t", mode="append")
    assert (after.version, made.version) == (2, 2)
    assert made.append(rows(2)).version == 3


def test_bases_are_kept(tmp_path: Path) -> None:
    base = BasePath(id=1, name="cold", path=str(tmp_path / "cold"))
    made = Table.create(DictStore(), SCHEMA, bases=[base])
    assert list(made.manifest.header.base_paths) == [base]


def test_bases_are_given_as_to_add_bases(tmp_path: Path) -> None:
    cold = str(tmp_path / "cold")
    for number, given in enumerate((cold, tmp_path / "cold", {"path": cold}, BasePath(path=cold))):
        made = Table.create(tmp_path / f"made{number}", SCHEMA, bases=[given])
        made.add_bases({"path": cold + "er", "name": "colder"})
        assert [(one.path, one.name) for one in made.manifest.header.base_paths] == [
            (cold, ""),
            (cold + "er", "colder"),
        ]
        lance.dataset(str(tmp_path / f"made{number}")).validate()  # type: ignore[no-untyped-call]


def test_a_table_is_made_once(table: Table) -> None:
    table.commit(append("a"))
    with pytest.raises(AlreadyExists) as caught:
        Table.create(table.store, SCHEMA)
    assert caught.value.version == 2
    assert paths(Table.open(table.store)) == ["a"]


def test_what_cannot_be_made() -> None:
    with pytest.raises(InvalidInput, match="naming scheme 'V3'"):
        Table.create(DictStore(), SCHEMA, naming="V3")
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64())])
    with pytest.raises(InvalidInput, match="'a'"):
        Table.create(DictStore(), twice)


def test_there_is_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no table"):
        Table.open(DictStore())
    with pytest.raises(NotFound, match="no table"):
        Table.open(str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_a_live_table_sees_what_others_commit(table: Table) -> None:
    other = Table.open(table.store)
    other.commit(append("a"))
    assert table.version == 2
    assert paths(table) == ["a"]
    assert table.schema == other.schema


def test_committing_gives_back_the_same_table_further_on(table: Table) -> None:
    assert table.commit(append("a")) is table
    assert "version 2" in repr(table)
    assert repr(table.checkout(1)).endswith("version 1, pinned)")


def test_a_manifest_is_a_value(table: Table) -> None:
    before = table.manifest
    table.commit(append("a"))
    assert (before.version, len(before.fragments)) == (1, 0)
    header = before.copy_header()
    header.config["x"] = "y"
    assert not before.header.config


def test_versions_tell_time_and_operation() -> None:
    clock = SimulatedClock(datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC))
    table = Table.create(DictStore(), SCHEMA, runtime=Runtime(clock, Runtime.seeded(1).random))
    clock.advance(60)
    table.commit(append("a"))
    clock.advance(60)
    table.commit(UpdateConfig(UpdateMap({"x": "y"})))
    clock.advance(60)
    table.commit(Restore(1))
    found = table.versions()
    assert [one.version for one in found] == [1, 2, 3, 4]
    assert [one.operation for one in found] == ["Overwrite", "Append", "UpdateConfig", "Restore"]
    minutes = timedelta(minutes=1)
    start = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    assert [one.timestamp for one in found] == [start, start + minutes, start + 2 * minutes, start + 3 * minutes]


def test_transactions_since_a_version(table: Table) -> None:
    table.commit(append("a"), properties={"who": "me"}, message="the first", tag="t")
    table.commit(append("b"))
    everything = table.transactions()
    assert [version for version, _ in everything] == [1, 2, 3]
    ((two, first), (three, second)) = table.transactions(since=1)
    assert (two, three) == (2, 3)
    assert first.operation == append("a")
    assert first.properties == {"who": "me", "__lance_commit_message": "the first"}
    assert (first.tag, second.tag) == ("t", "")
    assert (first.read_version, second.read_version) == (1, 2)
    assert table.transactions(since=3) == []
    # The copy beside the manifest says the same.
    beside = table.store.get(f"_transactions/{table.checkout(2).manifest.header.transaction_file}")
    assert Transaction.decode(beside) == first


def test_pylance_shows_properties_and_message(real: Table) -> None:
    real.commit(UpdateConfig(UpdateMap({"x": "y"})), properties={"who": "me"}, message="because")
    dataset: Any = real.to_lance()
    properties = dataset.read_transaction(real.version).transaction_properties
    assert properties == {"who": "me", "__lance_commit_message": "because"}


def test_an_operation_nobody_knows_shows_and_cannot_be_committed(table: Table) -> None:
    with pytest.raises(InvalidInput, match="not understood"):
        table.commit(Opaque(200, b""))
    assert table.version == 1


def test_a_handle_at_a_version_stays_there_and_is_read_only(table: Table) -> None:
    table.commit(append("a"))
    pinned = Table.open(table.store, version=2)
    table.commit(append("b"))
    assert (pinned.version, table.version) == (2, 3)
    assert paths(pinned) == ["a"]
    for change in (
        lambda: pinned.commit(append("c")),
        lambda: pinned.append(rows(1)),
        lambda: pinned.delete("true"),
        lambda: pinned.restore(1),
        lambda: pinned.update_config({"a": "b"}),
    ):
        with pytest.raises(InvalidInput, match="read-only"):
            change()
    assert table.version == 3


def test_versions_that_are_not_there(table: Table) -> None:
    with pytest.raises(NotFound, match="no version 9"):
        table.checkout(9)
    for wrong in (0, -1, 1 << 63):
        with pytest.raises(InvalidInput, match="not a version number"):
            table.checkout(wrong)
    with pytest.raises(InvalidInput, match=r"either.*\n.*one of `version=` and `as_of=`"):
        table.checkout()
    with pytest.raises(InvalidInput, match="either"):
        table.checkout(1, as_of=datetime.now(UTC))


def test_open_by_time() -> None:
    clock = SimulatedClock()
    start = clock.now()
    table = Table.create(DictStore(), SCHEMA, runtime=Runtime(clock, Runtime.seeded(1).random))
    for name in "abc":
        clock.advance(10)
        table.commit(append(name))
    second = timedelta(seconds=1)
    assert table.checkout(as_of=start).version == 1
    assert table.checkout(as_of=start + 10 * second).version == 2
    assert Table.open(table.store, as_of=start + 29 * second).version == 3
    assert Table.open(table.store, as_of=start + 1000 * second).version == 4
    with pytest.raises(NotFound, match="as old as"):
        table.checkout(as_of=start - second)
    with pytest.raises(InvalidInput, match="no time zone"):
        table.checkout(as_of=datetime(2030, 1, 1))  # noqa: DTZ001


def test_open_by_time_when_a_writer_had_the_wrong_time() -> None:
    """One clock was an hour ahead for one commit: the versions after it are still found."""
    clock = SimulatedClock()
    start = clock.now()
    table = Table.create(DictStore(), SCHEMA, runtime=Runtime(clock, Runtime.seeded(1).random))
    clock.advance(3600)
    table.commit(append("ahead"))
    clock.advance(-3590)
    table.commit(append("right"))
    assert table.checkout(as_of=start + timedelta(seconds=20)).version == 3


def test_open_by_tag_and_branch(real: Table, tmp_path: Path) -> None:
    """As pylance made them: a tag of the main line, a branch, and a tag of that branch."""
    dataset: Any = lance.dataset(tmp_path / "t")
    dataset.tags.create("two", 2)
    branch = dataset.create_branch("dev/x", 2)
    lance.write_dataset(rows(100), branch.uri, mode="append")
    dataset.tags.create("there", ("dev/x", 3))
    ids: Callable[[Table], list[int]] = lambda table: table.to_arrow()["id"].to_pylist()  # noqa: E731
    assert real.checkout("two").version == 2
    assert ids(Table.open(str(tmp_path / "t"), "two")) == [1, 2]
    live = real.checkout(branch="dev/x")
    assert ids(live) == [1, 2, 100]
    assert ids(Table.open(str(tmp_path / "t"), branch="dev/x")) == [1, 2, 100]
    assert ids(Table.open(str(tmp_path / "t"), 2, branch="dev/x")) == [1, 2]
    assert ids(real.checkout("there")) == [1, 2, 100]
    assert real.to_arrow(version="there")["id"].to_pylist() == [1, 2, 100]
    live.append(rows(101))
    assert ids(live) == [1, 2, 100, 101]
    assert ids(real) == [1, 2, 3, 4]
    branch.checkout_latest()
    branch.validate()
    assert branch.count_rows() == 4
    with pytest.raises(NotFound, match="'nothing'"):
        real.checkout("nothing")
    with pytest.raises(NotFound):
        real.checkout(branch="nothing")


def test_rows_by_column_condition_and_version(real: Table) -> None:
    assert real.to_arrow().equals(rows(1, 2, 3, 4))
    assert real.to_arrow(columns=["id"], filter="id > 2").to_pydict() == {"id": [3, 4]}
    assert real.to_arrow(version=2).equals(rows(1, 2))
    assert real.checkout(1).to_arrow().num_rows == 0
    assert real.checkout(1).to_arrow(version=2).num_rows == 2
    with pytest.raises(InvalidInput, match="nonsense"):
        real.to_arrow(columns=["nonsense"])
    with pytest.raises(InvalidInput, match="nonsense"):
        real.to_arrow(filter="nonsense = 1")


def test_a_dataset_of_pylance_at_this_version(real: Table) -> None:
    dataset: Any = real.to_lance()
    assert isinstance(dataset, lance.LanceDataset)
    assert (dataset.version, dataset.count_rows()) == (3, 4)
    assert real.checkout(2).to_lance().count_rows() == 2
    real.append(rows(5))
    assert real.to_lance().version == 4


def test_operations_are_carried_over_what_came_first(table: Table) -> None:
    other = Table.open(table.store)
    other.commit(append("theirs"))
    table.commit(append("mine"), read_version=1)
    assert paths(table) == ["theirs", "mine"]
    assert [one.id for one in table.manifest.fragments] == [0, 1]
    (_, transaction) = table.transactions(since=2)[0]
    assert transaction.read_version == 1


def test_without_a_read_version_it_is_the_one_that_the_handle_has_seen(table: Table) -> None:
    other = Table.open(table.store)
    other.commit(Restore(1))
    with pytest.raises(IncompatibleConflict) as caught:
        table.commit(append("mine"))
    assert (caught.value.read_version, caught.value.version) == (1, 2)
    assert table.version == 2  # looked at: from now on the handle has seen it
    table.commit(append("mine"))
    assert paths(table) == ["mine"]


def test_two_deletes_in_one_fragment_by_the_rows_they_touch(real: Table) -> None:
    read, deletions = real.manifest, DeletionFiles(real.store)

    def prepared(offset: int) -> Delete:
        changed = DataFragment()
        changed.CopyFrom(read.fragments[0])
        changed.deletion_file.CopyFrom(deletions.write(changed.id, 3, BitMap([offset])))
        return Delete((changed,), (), "true")

    real.commit(prepared(0), read_version=3, affected_rows={0: [0]})
    with pytest.raises(RetryableConflict, match="the same row 0"):
        real.commit(prepared(0), read_version=3, affected_rows={0: {0}})
    real.commit(prepared(1), read_version=3, affected_rows={0: iter([1])})
    assert real.to_arrow()["id"].to_pylist() == [3, 4]
    dataset: Any = real.to_lance()
    dataset.validate()


def test_affected_rows_may_be_numbers_of_numpy(real: Table) -> None:
    """As addresses of rows are taken apart."""
    addresses = np.array([1], dtype=np.uint64)
    changed = DataFragment()
    changed.CopyFrom(real.manifest.fragments[0])
    changed.deletion_file.CopyFrom(DeletionFiles(real.store).write(changed.id, 3, BitMap([1])))
    rows = {(addresses >> 32)[0]: addresses & 0xFFFFFFFF}
    Table.open(real.store).delete("id = 1")
    real.commit(Delete((changed,), (), "true"), read_version=3, affected_rows=rows)
    assert real.to_arrow()["id"].to_pylist() == [3, 4]


@pytest.mark.parametrize("wrong", [{0: [-1]}, {0: [1 << 32]}, {0: ["x"]}, {0: 7}, [0, 1], {5: [0]}], ids=str)
def test_affected_rows_that_cannot_be_right(table: Table, wrong: Any) -> None:
    table.commit(append("a"))
    with pytest.raises(InvalidInput):
        table.commit(Delete((table.manifest.fragments[0],), ()), affected_rows=wrong)
    assert table.version == 2


def test_bytes_of_a_transaction_are_committed_as_they_say(table: Table) -> None:
    given = Transaction(1, "an id of their own", append("a"), "tag", {"who": "them"})
    table.commit(given.encode(), properties={"by": "us"}, message="carried")
    ((_, found),) = table.transactions(since=1)
    assert (found.uuid, found.tag, found.read_version) == ("an id of their own", "tag", 1)
    assert found.properties == {"who": "them", "by": "us", "__lance_commit_message": "carried"}
    assert found.operation == given.operation
    assert table.manifest.header.tag == "tag"


def test_the_same_bytes_are_one_commit_however_often_they_come(table: Table) -> None:
    data = Transaction(1, "the one", append("a")).encode()
    assert table.commit(data).version == 2
    assert Table.open(table.store).commit(data).version == 2
    table.commit(append("b"))
    assert Table.open(table.store).commit(data).version == 3
    assert paths(table) == ["a", "b"]


@pytest.mark.parametrize("other", [append("b"), Delete((), (), "id = 1"), Restore(1)], ids=lambda one: one.name)
def test_other_bytes_under_an_id_that_was_committed_are_refused_and_not_taken_for_that_commit(
    table: Table, other: Any
) -> None:
    table.commit(Transaction(1, "the one", append("a")).encode())
    with pytest.raises(InvalidInput, match="version 2 was made by another transaction with the id 'the one'"):
        table.commit(Transaction(1, "the one", other).encode())
    assert table.version == 2
    assert paths(table) == ["a"]


def test_a_rebased_commit_is_still_known_by_its_bytes(real: Table) -> None:
    """Its deletion vector and read version are others by then, also where the merged one left no row."""
    read, deletions = real.manifest, DeletionFiles(real.store)

    def prepared(uuid: str, *offsets: int) -> bytes:
        changed = DataFragment()
        changed.CopyFrom(read.fragments[0])
        changed.deletion_file.CopyFrom(deletions.write(changed.id, 3, BitMap(offsets)))
        return Transaction(3, uuid, Delete((changed,), (), "true")).encode()

    rows_there = read.fragments[0].physical_rows
    real.commit(prepared("first", 0))
    second = prepared("second", *range(1, rows_there))
    made = real.commit(second).version
    assert real.commit(second).version == made
    with pytest.raises(InvalidInput, match="another transaction"):
        real.commit(Transaction(3, "second", Delete((), (1,), "true")).encode())


def test_bytes_may_lack_an_id_and_the_read_version_may_be_given(table: Table) -> None:
    data = Transaction(0, "", append("a")).encode()
    with pytest.raises(InvalidInput, match="0 is not a version number"):
        table.commit(data)
    table.commit(data, read_version=1, tag="mine")
    ((_, found),) = table.transactions(since=1)
    assert len(found.uuid) == 36
    assert (found.tag, found.read_version) == ("mine", 1)


@pytest.mark.parametrize("wrong", [b"", b"\xff\xff\xff", b"\x08\x01"], ids=["empty", "garbage", "no operation"])
def test_bytes_that_are_no_transaction(table: Table, wrong: bytes) -> None:
    with pytest.raises(InvalidInput, match="the given transaction"):
        table.commit(wrong)
    assert table.version == 1


@pytest.mark.parametrize("wrong", [None, "append", bytearray(b"x"), {"append": []}])
def test_what_is_no_operation(table: Table, wrong: Any) -> None:
    for give in (table.commit, table.pack):
        with pytest.raises(InvalidInput, match="cannot be committed"):
            give(wrong)
    assert table.version == 1


def test_a_read_version_that_cannot_be_right(table: Table) -> None:
    with pytest.raises(InvalidInput, match="says that it read version 9, but the latest is 1"):
        table.commit(append("a"), read_version=9)
    with pytest.raises(InvalidInput, match="not a version number"):
        table.commit(append("a"), read_version=0)
    with pytest.raises(InvalidInput, match="not a version number"):
        table.pack(append("a"), read_version=0)
    with pytest.raises(InvalidInput, match="at least 1"):
        table.commit(append("a"), attempts=0)
    assert table.version == 1


def test_attempts_are_counted(table: Table) -> None:
    """Others are faster each time: after as many attempts as allowed, that is said, and nothing was written."""
    rival = Table.open(table.store)

    def before(call: Call) -> None:
        if call.verb == "put_if_absent" and call.path.startswith("_versions"):
            rival.commit(append(f"rival {rival.version}"))

    slow = Table.open(SimulatedStore(table.store, on_call=before), runtime=Runtime.seeded(3))
    with pytest.raises(RetryableConflict, match="in 3 attempts other writers were faster each time") as caught:
        slow.commit(append("mine"), attempts=3)
    assert (caught.value.attempts, caught.value.operation) == (3, "Append")
    assert len(paths(table)) == 3
    assert all(name.startswith("rival") for name in paths(table))


def test_a_version_that_is_missing_below_the_latest_is_never_skipped(table: Table) -> None:
    """Whatever stood there might have been in the way."""
    stale = Table.open(table.store)
    table.commit(append("a"))
    table.commit(append("b"))
    table.store.delete("_versions/18446744073709551613.manifest")
    with pytest.raises(Corrupt, match="version 2 is missing although a later one exists"):
        stale.commit(append("c"))
    assert Table.open(table.store).version == 3


def test_an_overwrite_brings_other_columns(table: Table) -> None:
    other = pa.schema([("x", pa.float64())])
    table.commit(Overwrite((), tuple(from_arrow(other))))
    assert table.schema.equals(other)
    assert table.checkout(1).schema.equals(SCHEMA)


def test_a_store_or_an_address(tmp_path: Path) -> None:
    made = Table.create(f"file://{tmp_path}/with space", SCHEMA, durability="os")
    assert made.uri == f"file://{tmp_path}/with%20space"
    assert Table.open(open_store(tmp_path / "with space")).version == 1
    assert Table.open(str(tmp_path / "with space"), durability="os").append(rows(1)).version == 2
    assert made.to_arrow().num_rows == 1


def test_fragments_that_pylance_wrote_can_be_committed(real: Table) -> None:
    (written,) = lance.fragment.write_fragments(rows(7, 8), real.store.native_uri())
    real.commit(Append((fragment_from_lance(written),)))
    assert real.to_arrow()["id"].to_pylist() == [1, 2, 3, 4, 7, 8]


@pytest.mark.parametrize("noted", [True, False], ids=["with", "without"])
def test_a_handle_does_not_build_on_a_table_that_was_made_anew(tmp_path: Path, noted: bool) -> None:
    """At the same version, with and without the files that name the transactions."""

    def made(rows: list[int]) -> Table:
        table = Table.create(str(tmp_path / "t"), pa.schema([("i", pa.int64())]))
        table.append({"i": rows})
        return table

    old = made([1, 2])
    shutil.rmtree(tmp_path / "t")
    new = made([3, 4])
    if not noted:
        shutil.rmtree(tmp_path / "t" / "_transactions")
    with pytest.raises(RetryableConflict, match="made anew"):
        old.commit(Delete(deleted_fragment_ids=(0,)), read_version=2)
    assert new.version == 2
    old.append({"i": [5]})
    assert new.to_arrow()["i"].to_pylist() == [3, 4, 5]
