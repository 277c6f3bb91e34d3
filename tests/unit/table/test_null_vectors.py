"""Vectors that are missing: columns of fixed length in which every value is null."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import seiche


def streamed(batch: pa.RecordBatch) -> pa.Table:
    """The same rows as they come from a file or another process."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


@pytest.mark.parametrize("deep", [False, True], ids=["vectors", "lists of vectors"])
def test_a_batch_of_a_stream_in_which_every_vector_is_null(tmp_path: Path, deep: bool) -> None:
    """It has no memory for their elements, and Arrow's own cast to a fixed length ends the process there."""
    plain: pa.DataType = pa.list_(pa.float32())
    fixed: pa.DataType = pa.list_(pa.float32(), 4)
    vectors: list[Any] = [None, None]
    if deep:
        plain, fixed, vectors = pa.list_(plain), pa.list_(fixed), [vectors, None]
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("v", fixed)]), durability="os")
    table.append(streamed(pa.record_batch({"v": pa.array(vectors, plain)})))
    assert table.to_arrow()["v"].to_pylist() == vectors


def test_lists_of_texts_without_a_single_one_come_from_polars(tmp_path: Path) -> None:
    fields: list[tuple[str, pa.DataType]] = [
        ("v", pa.list_(pa.float32(), 2)),
        ("name", pa.string()),
        ("words", pa.list_(pa.string())),
    ]
    kind = pa.struct(fields)
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([*fields, ("all", kind)]), durability="os")
    row: dict[str, Any] = {"v": None, "name": "x", "words": []}
    inside: dict[str, Any] = {"v": pl.List(pl.Float32), "name": pl.String, "words": pl.List(pl.String)}
    table.append(pl.DataFrame([{**row, "all": row}], schema={**inside, "all": pl.Struct(inside)}))
    assert table.to_arrow().to_pylist() == [{**row, "all": row}]


STRICT = {
    "vectors": (pa.list_(pa.field("item", pa.float32(), nullable=False), 2), [[1.0, 2.0], None]),
    "structs": (pa.struct([pa.field("x", pa.int64(), nullable=False)]), [{"x": 1}, None]),
}


@pytest.mark.parametrize("kind", STRICT)
def test_values_may_be_missing_where_only_what_is_inside_of_them_may_not(tmp_path: Path, kind: str) -> None:
    """Lance does not know of vectors that no item may be null, and refuses those that are said to be so and missing."""
    strict, values = STRICT[kind]
    rows = pa.table({"id": [1, 2], "v": pa.array(values, strict)})
    table = seiche.Table.create(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), durability="os")
    table.overwrite(rows)
    table.add_columns(pa.table({"in_order": rows["v"]}))
    table.add_columns(pa.table({"id": rows["id"], "joined": rows["v"]}), on="id")
    named = pa.schema([("computed", strict)])
    table.add_columns(lambda batch: pa.record_batch([pa.array(values, strict)], schema=named), schema=named)
    if kind == "vectors":
        table.add_columns(pa.table({"cast": pa.array(values, pa.list_(pa.float64(), 2))}))
        table.alter_columns({"path": "cast", "data_type": strict})
    stored = table.to_arrow()
    for column in stored.schema.names[1:]:
        assert stored[column].to_pylist() == values
