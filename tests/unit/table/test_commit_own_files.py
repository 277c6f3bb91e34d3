"""What one commit leaves behind: in memory nothing, and beside the manifest a file that nobody can mistake."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.store.base import Data
from seiche.store.local import LocalStore
from seiche.table.format.manifest import Manifest
from seiche.table.operations import Append, UpdateConfig, UpdateMap
from seiche.table.table import Table
from tests.unit.table.tables import fragment

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


class Watched(LocalStore):
    """Notes which files were written in the sight of others."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, durability="os")
        self.in_sight: list[str] = []

    def put_own(self, path: str, data: Data) -> None:
        self.in_sight.append(path)
        super().put_own(path, data)


class Killed(BaseException):
    """The process is gone: nothing that comes after the call has happened."""


@pytest.fixture
def store(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "t")


@pytest.fixture
def table(store: Watched) -> Table:
    return Table.create(store, SCHEMA)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def setting(value: str) -> UpdateConfig:
    return UpdateConfig(config_updates=UpdateMap({"key": value}))


@pytest.mark.usefixtures("no_collector")
def test_no_circle_keeps_an_old_manifest_in_memory(table: Table) -> None:
    """At 100,000 fragments each has 16 MB, and the collector comes by once in hundreds of commits."""
    other = Table.open(table.store)

    def alive() -> int:
        return sum(isinstance(one, Manifest) for one in gc.get_objects())

    before = alive()
    for number in range(5):
        table.commit(Append((fragment(number),)))
        other.commit(setting(str(number)))  # carried over an append, so that manifests are read and rebased over
    assert alive() <= before


def test_only_the_file_of_an_id_made_just_now_is_written_in_sight(table: Table, store: Watched) -> None:
    store.in_sight.clear()
    table.commit(Append((fragment(0),)))
    (path,) = store.in_sight
    assert path == f"_transactions/{table.manifest.header.transaction_file}"
    assert store.get(path) == table.transactions()[-1][1].encode()
    table.commit(table.pack(Append((fragment(1),))))
    assert store.in_sight == [path], "who has the bytes may have begun to commit them before, and may do so again"


def test_a_writer_that_dies_amid_its_transaction_file_harms_nobody(
    table: Table, store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def write_half_and_die(fd: int, data: bytes) -> int:
        write(fd, data[: len(data) // 2])
        raise Killed

    def nothing(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half_and_die)
        patch.setattr(os, "unlink", nothing)
        with pytest.raises(Killed):
            table.commit(setting("lost"))
    (torn,) = (path for path in store.in_sight if store.get(path))
    again = Table.open(store)
    assert again.version == 1
    again.commit(setting("made"))
    assert [one.operation.name for _, one in again.transactions()] == ["Overwrite", "UpdateConfig"]
    assert again.manifest.header.transaction_file not in torn
    dataset = lance.dataset(store.native_uri())
    dataset.validate()  # type: ignore[no-untyped-call]
    assert dataset.version == 2
