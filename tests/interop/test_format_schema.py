"""Schemas: the fields that we write are the fields that pylance writes, and we read back the schema that it shows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance.arrow
import lance.blob
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seiche.errors import InvalidInput
from seiche.table.format import file, schema
from seiche.table.format.manifest import Manifest

PRIMARY, CLUSTERING = "lance-schema:unenforced-primary-key", "lance-schema:unenforced-clustering-key"
BFLOAT16 = lance.arrow.BFloat16Type()  # type: ignore[no-untyped-call]
INNER = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string(), nullable=False, metadata={"k": "v"})])

PRIMITIVES = [
    *[getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)],
    *[pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()],
    *[pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(7), pa.string_view(), pa.binary_view()],
    *[pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    *[pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "UTC", "+02:00", "Europe/Berlin")],
    *[pa.duration(unit) for unit in ("s", "ms", "us", "ns")],
    *[pa.decimal128(38, 2), pa.decimal128(5, -2), pa.decimal256(50, 3)],
]
NESTED = [
    *[pa.list_(pa.int32()), pa.large_list(pa.string()), pa.list_(pa.float32(), 4), INNER, pa.struct([])],
    *[pa.list_(INNER), pa.large_list(INNER), pa.list_(INNER, 3), pa.list_(pa.list_(pa.list_(pa.int8())))],
    *[pa.list_(pa.field("element", pa.int32(), nullable=False, metadata={"a": "b"})), pa.list_(pa.list_(INNER, 3))],
    *[pa.map_(pa.string(), pa.int32()), pa.map_(pa.field("k", pa.int32(), nullable=False), pa.field("v", INNER))],
    *[pa.map_(pa.string(), pa.map_(pa.string(), pa.list_(INNER))), pa.list_(pa.map_(pa.string(), pa.int32()))],
    *[pa.list_(pa.list_(pa.float32(), 4), 2), pa.list_(pa.timestamp("us", "UTC"), 2), pa.list_(pa.binary(3), 2)],
    *[pa.list_(pa.decimal128(10, 2), 2), pa.list_(pa.field("item", pa.float32(), nullable=False), 4)],
    *[pa.list_(pa.field("e", INNER, nullable=False), 2), pa.list_(pa.string(), 2)],
]
DICTIONARIES = [
    *[pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.large_binary(), ordered=True)],
    *[pa.dictionary(pa.int64(), pa.bool_()), pa.list_(pa.dictionary(pa.int8(), pa.string()))],
    *[pa.list_(pa.dictionary(pa.int8(), pa.string()), 2), pa.dictionary(pa.uint32(), pa.float64())],
]
EXTENSIONS = [
    *[pa.uuid(), pa.json_(), pa.json_(pa.large_string()), pa.bool8(), pa.opaque(pa.int32(), "type", "vendor")],
    *[pa.fixed_shape_tensor(pa.float32(), [2, 2]), BFLOAT16, lance.blob.BlobType()],
    *[pa.list_(pa.uuid()), pa.list_(pa.json_()), pa.struct([pa.field("u", pa.uuid(), metadata={"z": "1"})])],
    *[pa.list_(BFLOAT16, 4), pa.list_(BFLOAT16), pa.list_(pa.uuid(), 4)],
    *[pa.map_(pa.string(), pa.json_()), pa.list_(pa.json_(), 3)],
]
MARKED = [
    pa.field("c", pa.int32(), metadata={"ARROW:extension:name": "my.own", "ARROW:extension:metadata": "xyz"}),
    pa.field("c", pa.string(), metadata={"ARROW:extension:name": "arrow.json"}),
    pa.field("c", INNER, metadata={"packed": "true"}),
    pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true", "more": "1"}),
    pa.field("c", pa.struct([pa.field("b", pa.binary(), metadata={"lance-encoding:blob": "true"})])),
    *[
        pa.field("c", pa.int64(), nullable=False, metadata=metadata)
        for metadata in (
            *[{PRIMARY: value} for value in ("true", "false", "1", "yes", "TRUE", "no")],
            *[{f"{PRIMARY}:position": value} for value in ("0", "3", "x")],
            {PRIMARY: "false", f"{PRIMARY}:position": "2"},
            {CLUSTERING: "true"},
            {CLUSTERING: "true", f"{CLUSTERING}:position": "2"},
        )
    ],
]
REFUSED = [
    *[pa.decimal32(5, 2), pa.decimal64(12, 2), pa.month_day_nano_interval(), pa.list_view(pa.int32())],
    *[pa.run_end_encoded(pa.int32(), pa.string()), pa.map_(pa.string(), pa.int32(), keys_sorted=True)],
    *[pa.dictionary(pa.int8(), pa.decimal128(10, 2)), pa.dictionary(pa.int8(), pa.date32())],
    *[pa.dictionary(pa.int8(), pa.timestamp("us")), pa.dictionary(pa.int8(), pa.list_(pa.int8()))],
    *[pa.list_(pa.list_(pa.int32()), 2), pa.list_(pa.map_(pa.string(), pa.int32()), 2)],
    *[pa.list_(pa.list_(INNER, 2), 2), pa.list_(pa.float32(), 0)],
]


def written_by_pylance(arrow: pa.Schema, folder: Path, data_version: str = "2.2") -> tuple[Manifest, pa.Schema]:
    empty = pa.RecordBatchReader.from_batches(arrow, [])
    options: dict[str, Any] = {"data_storage_version": data_version}
    dataset = lance.write_dataset(empty, str(folder), mode="overwrite", **options)
    newest = min((folder / "_versions").glob("*.manifest"))
    return file.decode(newest.read_bytes(), path=newest.name).manifest, dataset.schema


def check_equal(arrow: pa.Schema, folder: Path, data_version: str = "2.2") -> None:
    manifest, shown = written_by_pylance(arrow, folder, data_version)
    fields = schema.from_arrow(arrow, data_version=data_version)
    assert fields == list(manifest.header.fields)
    assert schema.metadata_from_arrow(arrow) == dict(manifest.header.schema_metadata)
    back = schema.to_arrow(fields, dict(manifest.header.schema_metadata))
    assert back.equals(shown, check_metadata=True), f"{back}\n\n{shown}"


@pytest.mark.parametrize("kind", [*PRIMITIVES, *NESTED, *DICTIONARIES, *EXTENSIONS], ids=str)
def test_each_type_is_written_as_pylance_writes_it(kind: pa.DataType, tmp_path: Path) -> None:
    check_equal(pa.schema([pa.field("c", kind, metadata={"k": "v"}), pa.field("d", kind)]), tmp_path)


@pytest.mark.parametrize("field", MARKED, ids=str)
def test_each_mark_in_metadata_is_understood_as_pylance_does(field: pa.Field, tmp_path: Path) -> None:
    check_equal(pa.schema([field]), tmp_path)


@pytest.mark.parametrize("data_version", ["2.0", "2.1"])
def test_blobs_of_the_old_kind_stay_so_in_old_data_versions(data_version: str, tmp_path: Path) -> None:
    check_equal(pa.schema([MARKED[3]]), tmp_path, data_version)


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_what_pylance_refuses_we_refuse(kind: pa.DataType, tmp_path: Path) -> None:
    arrow = pa.schema([pa.field("c", kind)])
    with pytest.raises((OSError, ValueError)):
        written_by_pylance(arrow, tmp_path)
    with pytest.raises(InvalidInput):
        schema.from_arrow(arrow)


def test_names_with_dots_are_refused_at_the_top_and_allowed_inside(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot contain"):
        written_by_pylance(pa.schema([("a.b", pa.int32())]), tmp_path)
    with pytest.raises(InvalidInput, match="dot"):
        schema.from_arrow(pa.schema([("a.b", pa.int32())]))


def test_all_at_once_with_metadata_of_the_schema(tmp_path: Path) -> None:
    kinds = [*PRIMITIVES, *NESTED, *DICTIONARIES, *EXTENSIONS]
    columns = [pa.field(f"c{number}", kind, metadata={"n": str(number)}) for number, kind in enumerate(kinds)]
    check_equal(pa.schema(columns, metadata={"made by": "test", "empty": ""}), tmp_path)


def fields_of(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    metadata = st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2) | st.none()
    return st.builds(pa.field, st.sampled_from(["x", "Y", "ä b", "item"]), inner, st.just(True), metadata)


def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    children = st.lists(fields_of(inner), min_size=1, max_size=3, unique_by=lambda field: field.name)
    return st.one_of(
        children.map(pa.struct),
        fields_of(inner).map(pa.list_),
        fields_of(inner).map(pa.large_list),
        st.builds(pa.map_, st.just(pa.string()), inner),
    )


TYPES = st.recursive(
    st.sampled_from([*PRIMITIVES, *DICTIONARIES[:3], pa.uuid(), pa.list_(pa.float32(), 4)]), nested, max_leaves=6
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("schema")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kinds=st.lists(TYPES, min_size=1, max_size=3))
def test_any_schema_is_written_and_read_as_pylance_does(kinds: list[pa.DataType], folders: Callable[[], Path]) -> None:
    check_equal(pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)]), folders())
