"""From V1 to V2 names of manifests: of tables that pylance made, which goes on with them."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.errors import Corrupt, NotFound
from seiche.store import open_store
from seiche.store.prefix import below
from seiche.table.table import Table
from seiche.table.versions.naming import Naming
from seiche.testing import DictStore, SimulatedStore, Stopped, crash_points
from tests.made_up_table import SCHEMA, paths_below


def native(path: Path) -> Any:
    dataset: Any = lance.dataset(str(path))
    dataset.validate()
    return dataset


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "t"
    lance.write_dataset(pa.table({"id": range(5)}), str(where), enable_v2_manifest_paths=False)
    for number in range(3):
        lance.write_dataset(pa.table({"id": [10 + number]}), str(where), mode="append")
    assert (where / "_versions/4.manifest").exists()
    return where


def test_pylance_goes_on(path: Path) -> None:
    table = Table.open(str(path))
    table.append([{"id": 20}])
    assert Table.migrate_naming(str(path)) == 5
    assert {file.name for file in (path / "_versions").glob("*.manifest")} == {
        Naming.V2.file_name(version) for version in range(1, 6)
    }
    assert native(path).count_rows() == 9
    lance.write_dataset(pa.table({"id": [30]}), str(path), mode="append")
    assert native(path).version == 6
    reopened = Table.open(str(path))
    reopened.delete("id = 30")
    assert [one.version for one in reopened.versions()] == list(range(1, 8))
    assert native(path).count_rows() == 9
    assert Table.migrate_naming(str(path)) == 0
    with pytest.raises(NotFound, match="no table"):
        Table.migrate_naming(str(path.parent / "nowhere"))


def test_an_interrupted_migration_is_finished(path: Path) -> None:
    stopped = 0
    for number in range(2, 40):
        store = SimulatedStore(open_store(path, durability="os"), plan={number: "stop_after"})
        try:
            Table.migrate_naming(store)
            break
        except Stopped:
            stopped += 1
        if stopped == 4:
            with pytest.raises(Corrupt, match="migrate_naming"):
                Table.open(str(path))
    assert stopped > 4
    assert Table.open(str(path)).to_arrow().num_rows == 8
    assert native(path).count_rows() == 8


def test_a_crash_at_every_call_can_be_taken_up() -> None:
    def fresh() -> DictStore:
        store = DictStore()
        table = Table.create(below(store, "table"), SCHEMA, naming="V1")
        for number in range(3):
            table.update_config({"a": str(number)})
        return store

    tried = 0
    for after in crash_points(fresh, lambda store: Table.migrate_naming(below(store, "table"))):
        tried += 1
        Table.migrate_naming(below(after.store, "table"))
        names = {path for path in paths_below(after.store, "table/_versions") if path.endswith(".manifest")}
        assert names == {f"table/{Naming.V2.path(version)}" for version in range(1, 5)}, after
        table = Table.open(below(after.store, "table"))
        assert dict(table.manifest.header.config) == {"a": "2"}
        assert [one.version for one in table.versions()] == [1, 2, 3, 4]
    assert tried > 20
