"""The verbs about rows on every kind of store that native code reaches, and on tables made of other tables' files."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from seiche.table.table import Table
from tests.row_table import SCHEMA, RowTable, in_order, pylance_table, row, rows_of, some_rows
from tests.store_backends import backend


@pytest.mark.parametrize("place", ["local-fsync", "memory", "prefix", "moto", "seaweedfs"])
def test_every_verb_works_on_every_store(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = backend(place, tmp_path, request).open()
    table = Table.create(store, SCHEMA)
    table.append(some_rows(30), max_rows_per_file=10)
    table.append(pa.table({"id": [30]}))
    table.delete("id % 10 = 3 or id = 30")
    table.update({"small": "small + 1"}, where="id < 12", mode="columns")
    table.update({"name": "'x'"}, where="id in (5, 25)", mode="rows")
    data = pa.Table.from_pylist([{**row(number), "name": "m"} for number in (5, 14, 90)], schema=SCHEMA)
    table.merge(data, on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    table.merge(data, on="id").when_matched_update({"small": "target.small"}, "source.id = 90").execute()
    rows = in_order(table.to_arrow())
    assert [one["id"] for one in rows] == [n for n in (*range(30), 90) if n % 10 != 3]
    by_id = {one["id"]: one for one in rows}
    assert [by_id[n]["name"] for n in (5, 14, 25, 90)] == ["m", "m", "x", "m"]
    assert (by_id[2]["small"], by_id[20]["small"]) == (3, 20)
    dataset: Any = lance.dataset(store.native_uri(), storage_options=dict(store.native_options) or None)
    dataset.validate()
    assert table.overwrite([{"id": 1}], SCHEMA).rows == 1


def test_a_table_whose_files_lie_elsewhere_can_be_changed(tmp_path: Path) -> None:
    """A shallow clone, and a branch: data files and deletion files of another directory."""
    origin = pylance_table(tmp_path / "origin", some_rows(30))
    origin.delete("id in (4, 14)")
    lance.dataset(str(tmp_path / "origin")).shallow_clone(str(tmp_path / "clone"), reference=2)
    table = RowTable(tmp_path / "clone")
    table.delete("id in (5, 15)")
    table.update({"small": "1"}, where="id = 6", mode="rows")
    table.update({"small": "2"}, where="id = 17", mode="columns")
    table.merge(rows_of(7, 40), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
    rows = table.rows()
    assert [one["id"] for one in rows] == [n for n in (*range(30), 40) if n not in (4, 5, 14, 15)]
    assert {one["id"]: one["small"] for one in rows if one["id"] in (6, 17)} == {6: 1, 17: 2}
    assert lance.dataset(str(tmp_path / "origin")).count_rows() == 28
