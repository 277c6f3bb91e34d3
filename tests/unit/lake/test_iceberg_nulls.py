"""Lists and maps that are null, in Iceberg tables: null in the files, null when read, and null when copied."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seiche import Lake

POINT = pa.struct([("x", pa.int32())])
ONE = {"x": 1}
KINDS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "lists": (pa.list_(POINT), [ONE, None], []),
    "maps": (pa.map_(pa.string(), POINT), [("a", ONE)], []),
    "lists of lists": (pa.list_(pa.list_(POINT)), [[ONE], None, []], []),
    "structs": (pa.struct([("inside", pa.list_(POINT))]), {"inside": None}, {"inside": []}),
    "numbers": (pa.list_(pa.int32()), [1, None], []),
}


@pytest.mark.parametrize("name", KINDS)
def test_null_is_not_empty(lake: Lake, name: str) -> None:
    kind, value, empty = KINDS[name]
    values = [value, None, empty, value]
    schema = pa.schema([("id", pa.int32()), ("v", kind)])
    table = lake.create_table("shop.points", schema, format="iceberg")
    table.append(pa.table({"id": pa.array(range(4), pa.int32()), "v": pa.array(values, kind)}))
    assert table.to_arrow().sort_by("id")["v"].to_pylist() == values
    (file,) = table.to_iceberg().inspect.files()["file_path"].to_pylist()
    assert pq.read_table(file.removeprefix("file://"))["v"].to_pylist() == values, "as other engines read it"
    table.delete("id = 3")
    assert table.to_arrow().sort_by("id")["v"].to_pylist() == values[:3], "rows of a file that is written anew"
    assert table.to_arrow(filter="id = 1")["v"].to_pylist() == [None]
