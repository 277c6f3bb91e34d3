"""Lists and maps that are null, in Iceberg tables: null in the files, null when read, and null when copied; and what
there is no place for inside of them."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StructType

from seiche import InvalidInput, Lake

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


@pytest.mark.parametrize(
    "values", [[{"y": 1}], [[{"x": 1, "y": 2}]], {"a": {"y": 1}}], ids=["a struct", "a list of structs", "a map"]
)
def test_fields_that_the_table_has_not_are_refused(lake: Lake, values: Any) -> None:
    """Arrow's cast leaves them out in silence."""
    deeper = isinstance(values, list) and isinstance(values[0], list)
    wide = pa.struct([("x", pa.int32()), ("y", pa.int32())])

    def kind(of: pa.DataType) -> pa.DataType:
        if isinstance(values, dict):
            return pa.map_(pa.string(), of)
        return pa.list_(pa.list_(of)) if deeper else pa.list_(of)

    table = lake.create_table("shop.points", pa.schema([("v", kind(POINT))]), format="iceberg")
    version = lake.version
    for given in (pa.table({"v": pa.array([values], kind(wide))}), [{"v": values}]):
        with pytest.raises(InvalidInput, match=r"'y'"):
            table.append(given)
    assert lake.version == version
    table.append(pa.table({"v": pa.array([None], kind(POINT))}))
    assert table.to_arrow()["v"].to_pylist() == [None]


def test_a_null_need_have_nothing_inside_whatever_form_it_comes_in(lake: Lake) -> None:
    """Engines in Java make such tables: a struct that may be missing, with fields that may not."""
    deep = StructType(NestedField(6, "q", IntegerType(), required=True))
    inside = StructType(NestedField(4, "p", IntegerType(), required=True), NestedField(5, "d", deep, required=True))
    columns = Schema(NestedField(1, "id", IntegerType(), required=True), NestedField(2, "s", inside))
    table = lake.create_table("shop.i", columns, format="iceberg")
    plain = pa.struct([("p", pa.int32()), ("d", pa.struct([("q", pa.int32())]))])
    value = {"p": 1, "d": {"q": 2}}
    table.append([{"id": 1}])
    table.append([{"id": 2, "s": None}, {"id": 3, "s": value}])
    table.append(pa.table({"id": pa.array([4], pa.int32())}))
    some = pa.chunked_array([pa.array([None, value], plain), pa.array([], plain), pa.array([value, None], plain)])
    table.append(pa.table({"id": pa.array([5, 6, 7, 8], pa.int32()), "s": some}))
    table.append(pa.table({"id": pa.array([9], pa.int32()), "s": pa.nulls(1, plain)}))
    merge = table.merge([{"id": 3}, {"id": 10}], on="id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    wanted = [{"id": number, "s": value if number in (3, 6, 7) else None} for number in range(1, 11)]
    assert table.to_arrow().sort_by("id").to_pylist() == wanted
    for missing in ({"p": None, "d": {"q": 2}}, {"p": 1, "d": None}, {"p": 1, "d": {"q": None}}, {"p": 1}):
        rows = pa.table({"id": pa.array([11], pa.int32()), "s": pa.array([missing])})
        with pytest.raises(InvalidInput, match="column 's' cannot be made"):
            table.append(rows)
    assert table.to_arrow().num_rows == 10
