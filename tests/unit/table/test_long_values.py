"""Conditions on long values: how many rows are looked at at a time, since a batch cannot have more than 2 GB of one."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import CompactionTask

import seiche
from seiche.table.data import scanning
from seiche.table.data.rewrite import compact
from seiche.table.data.scanning import BATCH_BYTES, BATCH_ROWS, WIDE_BATCH_ROWS, rows_at_once
from seiche.table.format.manifest_pb2 import DataFile, DataFragment

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 4))])
MB = 1 << 20


def of(rows: int, size: int) -> DataFragment:
    return DataFragment(physical_rows=rows, files=[DataFile(file_size_bytes=size // 2) for _ in range(2)])


@pytest.mark.parametrize(
    ("where", "fragments", "rows"),
    [
        (None, [of(10, 10_000 * MB)], WIDE_BATCH_ROWS),
        ("id = 3", [of(10, 10_000 * MB)], WIDE_BATCH_ROWS),
        ("text = 'a'", [of(1 << 20, 100 * MB)], BATCH_ROWS),
        ("length(`TEXT`) > 3", [], BATCH_ROWS),
        ("vector IS NULL", [of(1 << 20, 100 * MB)], BATCH_ROWS),
        ("text = 'a'", [of(1 << 20, 100 * MB), of(1000, 1000 * MB)], BATCH_BYTES // MB),
        ("text = 'a'", [of(10, 10_000 * MB)], 16),
        ("text = 'a'", [of(0, 10_000 * MB), of(1, MB)], BATCH_ROWS),
    ],
)
def test_the_longer_the_values_the_fewer_rows(where: str | None, fragments: list[DataFragment], rows: int) -> None:
    assert rows_at_once(SCHEMA, fragments, where) == rows


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.delete("text = 'a1'"),
        lambda table: table.update({"id": "id + 10"}, where="text = 'a1'", mode="rows"),
        lambda table: table.update({"id": "id + 10"}, where="text = 'a1'", mode="columns"),
        lambda table: table.update({"id": "id + 10"}, where="text = 'a1'"),
    ],
    ids=["delete", "rows", "columns", "update"],
)
def test_verbs_that_search_texts_take_few_rows_at_a_time(
    verb: Callable[[seiche.Table], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 131,072 rows of 17 KB they were refused, though pylance did the same."""
    table = seiche.Table.create(str(tmp_path / "t"), SCHEMA)
    table.append([{"id": number, "text": f"a{number}", "vector": [1.0, 2.0, 3.0, 4.0]} for number in range(9)])
    taken: list[int] = []
    scanner: Any = lance.LanceDataset.scanner

    def noting(dataset: lance.LanceDataset, *arguments: Any, **options: Any) -> Any:
        if options.get("filter") is not None and "batch_size" in options:
            taken.append(options["batch_size"])
        return scanner(dataset, *arguments, **options)

    monkeypatch.setattr(lance.LanceDataset, "scanner", noting)
    assert verb(table).rows == 1
    assert taken
    assert max(taken) <= BATCH_ROWS


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> seiche.Table:
    """Two fragments of 40 rows, of which 19 are as much as a batch may have."""
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("image", pa.binary())]))
    for _ in range(2):
        table.append([{"id": number, "image": random.Random(number).randbytes(1000)} for number in range(40)])
    monkeypatch.setattr(scanning, "BATCH_BYTES", 20_000)
    return table


def test_an_update_of_many_long_rows_reads_few_at_a_time(images: seiche.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    scanner: Any = lance.LanceDataset.scanner

    def noting(dataset: lance.LanceDataset, *arguments: Any, **options: Any) -> Any:
        if "image" in (options["columns"] or ()):
            taken.append(options["batch_size"])
        return scanner(dataset, *arguments, **options)

    monkeypatch.setattr(lance.LanceDataset, "scanner", noting)
    assert images.update({"id": "id + 10"}, where="id >= 1", mode="rows").rows == 78
    assert taken == [19]


def test_compaction_of_long_rows_reads_few_at_a_time(images: seiche.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fragment with 8,192 images of 300 KB could not be compacted."""
    taken: list[int] = []
    native: Any = CompactionTask  # its annotations leave out that it can be made of JSON

    class Noting:
        @staticmethod
        def from_json(task: str) -> Any:
            taken.append(json.loads(task)["options"]["batch_size"])
            return native.from_json(task)

    monkeypatch.setattr(compact, "_Task", Noting)
    before = images.to_arrow()
    assert images.compact().rows == 80
    assert taken == [19]
    assert images.to_arrow().equals(before)
    images.append([{"id": 1, "image": b""}])
    images.compact(batch_size=3)
    assert taken == [19, 3]
