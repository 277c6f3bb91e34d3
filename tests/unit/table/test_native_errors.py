"""Rows that native code cannot write, and files that are damaged: an error of ours, which blames the right one."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import seiche
from seiche.cli import main
from seiche.core.clock import SystemClock
from seiche.errors import Corrupt, InvalidInput, PermissionDenied, SeicheError, Unavailable
from seiche.store import open_store
from seiche.table.data import write
from seiche.table.data.native_errors import Panic, from_storage, trouble, without_panics
from seiche.table.data.reading_file import check_data_file
from seiche.table.format.deletions import encode_bitmap


def rows_that_panic() -> pa.Table:
    """Half of a struct in a struct: this release of native code looks for its rows behind the end."""
    inner = pa.StructArray.from_arrays([pa.array(range(10))], names=["a"])
    return pa.table({"s": pa.StructArray.from_arrays([inner], names=["b"])}).slice(5)


@pytest.fixture
def panicking(monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    monkeypatch.setattr(write, "_from_the_start", lambda batch: batch)
    return rows_that_panic()


def test_a_panic_is_no_exception_as_it_comes() -> None:
    """If this fails, native code has changed: there is another kind of panic to find."""
    with pytest.raises(BaseException, match="end <= self") as caught:
        lance.write_dataset(rows_that_panic(), "memory://panic")
    assert not isinstance(caught.value, Exception)
    with pytest.raises(Panic, match="panicked"), without_panics():
        lance.write_dataset(rows_that_panic(), "memory://panic")


def test_a_panic_while_rows_are_written_is_an_error_and_changes_nothing(panicking: pa.Table) -> None:
    table = seiche.Table.create("memory://panic/t", panicking.schema)
    with pytest.raises(InvalidInput, match="native code panicked"):
        table.append(panicking)
    table.append([{"s": {"b": {"a": 1}}}])
    assert (table.version, table.to_arrow().num_rows) == (2, 1)


def test_rows_of_a_kind_that_native_code_does_not_write_are_refused(tmp_path: Path) -> None:
    """It was told as trouble with storage, to be tried again later."""
    packed = pa.field("p", pa.struct([("a", pa.int32())]), metadata={"lance-encoding:packed": "true"})
    schema = pa.schema([("id", pa.int64()), packed])
    lance.write_dataset(pa.table([[1, 2], pa.array([{"a": 1}, None], packed.type)], schema=schema), tmp_path)
    table = seiche.Table.open(tmp_path)
    with pytest.raises(InvalidInput, match="could not be written: Not supported"):
        table.update({"id": "id + 1"}, mode="rows")
    assert table.version == 1


@pytest.mark.parametrize(
    "reason",
    [
        "Permission denied (os error 13)",
        "Read-only file system (os error 30)",
        "The operation lacked the necessary privileges to complete",
        "The operation lacked valid authentication credentials",
    ],
)
def test_a_folder_that_may_not_be_written_is_no_reason_to_try_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str
) -> None:
    table = seiche.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    table.append([{"id": 1}])
    monkeypatch.setattr(write, "encoded", lambda *_: None)  # as if there were more rows than a small file has

    def forbidden(*_: object, **__: object) -> None:
        raise OSError(f'LanceError(IO): {reason} at path "data/.tmp1"')

    monkeypatch.setattr(write, "write_fragments", forbidden)
    with pytest.raises(PermissionDenied, match="data files could not be written") as refused:
        table.update({"id": "id + 1"}, mode="rows")
    assert not refused.value.retryable
    assert table.version == 2


def test_a_full_disk_says_what_helps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = seiche.Table.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    lake = seiche.create(tmp_path / "lake")
    lake.create_namespace("n")
    tables: tuple[Any, ...] = (table, lake.create_table("n.t", pa.schema([("id", pa.int64())])))
    for one in tables:
        one.append([{"id": 1}])
        one.append([{"id": 2}])

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def native_full(*_: object, **__: object) -> None:
        raise OSError("LanceError(IO): No space left on device (os error 28)")

    for function in ("write", "writev", "copy_file_range"):
        monkeypatch.setattr(os, function, full)
    monkeypatch.setattr(write, "write_fragments", native_full)
    monkeypatch.setattr(SystemClock, "sleep", lambda *_: None)  # a lake tries as often as ever, at once
    calls: dict[str, Callable[[Any], object]] = {
        "append": lambda one: one.append([{"id": 3}]),
        "delete": lambda one: one.delete("id = 1"),
        "update": lambda one: one.update({"id": "id + 1"}, mode="rows"),
        "config": lambda one: one.update_config({"a": "b"}),
        "compact": lambda one: one.compact(),
    }
    for name, call in calls.items():
        for one in tables:
            with pytest.raises(Unavailable, match="No space left") as refused:
                call(one)
            assert "Free space" in refused.value.remedy, (name, one)
            parts = refused.value.message.split(": ")
            assert len(parts) == len(set(parts)), refused.value.message
    monkeypatch.undo()
    for one in tables:
        assert one.to_arrow()["id"].to_pylist() == [1, 2]


def test_other_errors_and_interrupts_pass() -> None:
    with pytest.raises(KeyboardInterrupt), without_panics():
        raise KeyboardInterrupt
    with pytest.raises(ZeroDivisionError), without_panics():
        raise ZeroDivisionError


def test_a_panic_ends_a_command_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(seiche.store, "open_store", lambda _: lance.write_dataset(rows_that_panic(), "memory://panic"))
    assert main(["store", "probe", "memory://x"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("seiche: error: native code panicked: ")
    assert said.count("\n") == 1


READERS: dict[str, Callable[[seiche.Table], object]] = {
    "rows": lambda table: table.to_arrow(),
    "some rows": lambda table: table.to_arrow(filter="id > 5"),
    "delete": lambda table: table.delete("id > 5"),
    "update": lambda table: table.update({"name": "'x'"}, where="id > 5"),
    "compact": lambda table: table.compact(),
    "index": lambda table: table.create_index("id", "BTREE"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with two data files, of which the first is damaged at its end, where its columns are described."""
    place = tmp_path_factory.mktemp("damaged") / "t"
    table = seiche.Table.create(str(place), pa.schema([("id", pa.int64()), ("name", pa.string())]), durability="os")
    for start in (0, 1000):
        table.append([{"id": number, "name": f"name {number}"} for number in range(start, start + 1000)])
    file = min((place / "data").iterdir())
    data = bytearray(file.read_bytes())
    data[-400:-200] = b"\xff" * 200
    file.write_bytes(data)
    return place


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_nobodys_mistake_and_nothing_to_try_again(place: Path, reader: str) -> None:
    table = seiche.Table.open(str(place))
    with pytest.raises(Corrupt) as caught:
        READERS[reader](table)
    assert "fsck --deep" in caught.value.remedy
    assert table.version == 3


def test_a_damaged_file_is_found(place: Path) -> None:
    name = min((place / "data").iterdir()).name
    manifest = seiche.Table.open(str(place)).manifest
    file = next(one for fragment in manifest.fragments for one in fragment.files if one.path == name)
    with pytest.raises(Corrupt, match=r"cannot be (read|decoded)"):
        check_data_file(open_store(str(place)), f"data/{name}", 0, file, manifest.header)


@pytest.mark.parametrize("verb", ["compact", "reorder"])
def test_a_damaged_deletion_file_brings_no_row_back(tmp_path: Path, verb: str) -> None:
    table = seiche.Table.create(str(tmp_path), pa.schema([("id", pa.int64())]), durability="os")
    for start in (0, 10):
        table.append([{"id": number} for number in range(start, start + 10)])
    table.delete("id in (3, 4)")
    (file,) = (tmp_path / "_deletions").iterdir()
    file.write_bytes(encode_bitmap(BitMap([3])))
    with pytest.raises(Corrupt, match=r"more rows|by the manifest"):
        table.compact() if verb == "compact" else table.reorder(("id", "descending"))
    assert table.version == 4


def test_a_damaged_deletion_file_is_nobodys_mistake(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path), pa.schema([("id", pa.int64())]), durability="os")
    table.append([{"id": number} for number in range(10)])
    table.delete("id in (3, 4)")
    (file,) = (tmp_path / "_deletions").iterdir()
    file.write_bytes(encode_bitmap(BitMap([3, 4_000_000])))
    for reader in ("rows", "some rows", "delete"):
        with pytest.raises(Corrupt, match=r"Invalid read of range|deletes row"):
            READERS[reader](table)


@pytest.mark.parametrize("reader", [*READERS, "changes"])
def test_a_damaged_type_of_a_column_is_nobodys_mistake(tmp_path: Path, reader: str) -> None:
    """Native code panics wherever it comes upon it, and that would end the program."""
    table = seiche.Table.create(str(tmp_path), pa.schema([("id", pa.int64()), ("name", pa.string())]), durability="os")
    for number in range(2):
        table.append([{"id": number, "name": "x"}])
    newest = min((tmp_path / "_versions").glob("*.manifest"))
    before, _, after = newest.read_bytes().rpartition(b"string")
    newest.write_bytes(before + b"stsing" + after)
    read: dict[str, Callable[[seiche.Table], object]] = {**READERS, "changes": lambda table: table.changes(0)}
    with pytest.raises(Corrupt, match="stsing"):
        read[reader](seiche.Table.open(str(tmp_path)))


def test_what_the_caller_got_wrong_stays_the_callers(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), durability="os")
    table.append([{"id": 0}])
    for wrong in ("id / 0 = 1", "ids = 1", "id ="):
        with pytest.raises(InvalidInput):
            table.to_arrow(filter=wrong)
        with pytest.raises(InvalidInput):
            table.delete(wrong)


def test_panics_and_damage_are_told_apart() -> None:
    panicked = OSError('External error: task 7 panicked with message "assertion failed"')
    assert from_storage(panicked)
    assert type(trouble("x", panicked)) is SeicheError
    assert type(trouble("x", OSError("External error: Encountered corrupt file data block"))) is Corrupt
    assert type(trouble("x", OSError("LanceError(IO): timed out"))) is Unavailable


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_a_sentence_in_pieces_is_read_as_one(tmp_path: Path, kind: str) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("v", pa.list_(pa.int32()))]))
    table.append([{"v": [1]}])
    with pytest.raises(InvalidInput, match="index column v must be int, float, bool") as caught:
        table.create_index("v", kind)
    assert "('" not in str(caught.value)
