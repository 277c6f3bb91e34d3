"""Vectors that are missing: columns of fixed length in which every value is null."""

from pathlib import Path
from typing import Any

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
