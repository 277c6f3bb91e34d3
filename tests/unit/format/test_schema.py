"""Schemas without pylance: ids, look-up, and stored fields that make no sense."""

import pyarrow as pa
import pytest

from seiche.errors import Corrupt, InvalidInput, NotFound
from seiche.table.format import fields as lookup
from seiche.table.format import schema
from seiche.table.format.fragments import Fragments
from seiche.table.format.manifest import Manifest
from seiche.table.format.manifest_pb2 import DataFile, DataFragment, Field
from seiche.table.format.manifest_pb2 import Manifest as Header

ARROW = pa.schema(
    [
        pa.field("a", pa.int32()),
        pa.field("s", pa.struct([("x", pa.string()), ("in.side", pa.list_(pa.struct([("y", pa.int8())])))])),
        pa.field("m", pa.map_(pa.string(), pa.int32())),
    ]
)
FIELDS = schema.from_arrow(ARROW)


def test_ids_are_given_depth_first() -> None:
    assert [(field.id, field.parent_id, field.name) for field in FIELDS] == [
        (0, -1, "a"),
        (1, -1, "s"),
        (2, 1, "x"),
        (3, 1, "in.side"),
        (4, 3, "item"),
        (5, 4, "y"),
        (6, -1, "m"),
        (7, 6, "entries"),
        (8, 7, "key"),
        (9, 7, "value"),
    ]
    later = schema.from_arrow(ARROW, first_id=20)
    assert [field.id for field in later] == [field.id + 20 for field in FIELDS]
    assert [field.parent_id for field in later[:4]] == [-1, -1, 21, 21]


def test_fields_are_found_by_path() -> None:
    assert lookup.find(FIELDS, "a").id == 0
    assert lookup.find(FIELDS, "s.x").id == 2
    assert lookup.find(FIELDS, "s.`in.side`.item.y").id == 5
    assert lookup.find(FIELDS, ("s", "in.side")).id == 3
    assert lookup.path_of(FIELDS, 5) == "s.`in.side`.item.y"
    for path in ("b", "s.y", "s.in.side", "x", ""):
        with pytest.raises(NotFound):
            lookup.find(FIELDS, path)


def test_parts_of_a_schema() -> None:
    assert lookup.column_ids(FIELDS) == {"a": 0, "s": 1, "m": 6}
    assert [field.name for field in lookup.children(FIELDS, 1)] == ["x", "in.side"]
    assert lookup.field_ids(FIELDS) == set(range(10))


def test_the_largest_id_counts_dropped_columns() -> None:
    fragments = [
        DataFragment(id=0, files=[DataFile(fields=[0, 12, -2]), DataFile()]),
        DataFragment(id=1, files=[DataFile(fields=[3])]),
    ]
    assert lookup.max_field_id(Manifest(Header(fields=FIELDS), Fragments())) == 9
    assert lookup.max_field_id(Manifest(Header(fields=FIELDS), Fragments(fragments))) == 12
    assert lookup.max_field_id(Manifest(Header(max_allocated_field_id=15), Fragments(fragments))) == 15
    assert lookup.max_field_id(Manifest(Header(), Fragments())) == -1


def leaf(name: str, kind: str, number: int = 0, parent: int = -1) -> Field:
    return Field(name=name, logical_type=kind, id=number, parent_id=parent, nullable=True)


@pytest.mark.parametrize(
    "kind",
    [
        *["", "int", "int128", "list", "map", "list.struct", "timestamp:us", "timestamp:us:", "decimal:128:99:2"],
        *["decimal:64:5:2", "fixed_size_binary:-1", "fixed_size_binary:99999999999", "dict:string:float:false"],
        *["dict:list:int8:false", "dict:string:int8", "fixed_size_list:float", "fixed_size_list:nothing:3"],
        *[
            "fixed_size_list:struct:3",
            "fixed_size_list:float:99999999999999",
            "fixed_size_list:" * 3000 + "float" + ":2" * 3000,
        ],
    ],
)
def test_a_type_that_is_not_one_is_corrupt(kind: str) -> None:
    with pytest.raises(Corrupt):
        schema.to_arrow([leaf("c", kind)])


def test_fields_in_a_circle_or_without_end_are_corrupt() -> None:
    deep = [leaf("c", "struct", number, number - 1) for number in range(5000)]
    with pytest.raises(Corrupt):
        schema.to_arrow(deep)
    circle = [leaf("a", "struct", 0, -1), leaf("b", "struct", 1, 1), leaf("c", "struct", 1, 0)]
    with pytest.raises(Corrupt):
        schema.to_arrow(circle)
    assert lookup.path_of(circle, 1)


def test_a_map_of_anything_but_pairs_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        schema.to_arrow([leaf("m", "map", 0), leaf("entries", "int8", 1, 0)])
    with pytest.raises(Corrupt):
        schema.to_arrow([leaf("m", "map", 0), leaf("entries", "struct", 1, 0), leaf("key", "int8", 2, 1)])


def test_too_deep_a_schema_is_refused() -> None:
    kind = pa.int8()
    for _ in range(100):
        kind = pa.list_(kind)
    with pytest.raises(InvalidInput, match="deep"):
        schema.from_arrow(pa.schema([("c", kind)]))


def test_metadata_must_be_text() -> None:
    for metadata in ({b"\xff": b"x"}, {b"x": b"\xff"}):
        with pytest.raises(InvalidInput):
            schema.from_arrow(pa.schema([pa.field("c", pa.int8(), metadata=metadata)]))
        with pytest.raises(InvalidInput):
            schema.metadata_from_arrow(pa.schema([], metadata=metadata))
