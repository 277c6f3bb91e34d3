"""Updates of Iceberg metadata: what is made of them without a look back is what a look back would have found."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.snapshots import MetadataLogEntry
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableUpdate
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, NestedField, StringType

from seiche import InvalidInput, Lake, SeicheError
from seiche.lake.iceberg.metadata import Metadata, decode, json_of
from seiche.lake.iceberg.updates import apply
from seiche.lake.iceberg.work import changes_content

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))
NAMES = st.sampled_from(["main", "dev", "v1"])
KEYS = st.sampled_from(["a", "b", "owner"])
NUMBERS = st.integers(0, 5)
UPDATES: TypeAdapter[Any] = TypeAdapter(TableUpdate)

MADE: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": "6f5c2a0e-7c0b-4a52-8f3e-3a1d8a6e5b10"},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": SCHEMA.model_dump(mode="json", by_alias=True)},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
]

ARROW = pa.schema([("id", pa.int64())])


def begun(version: int) -> Metadata:
    """A table without snapshots."""
    made = new_table_metadata(
        SCHEMA,
        UNPARTITIONED_PARTITION_SPEC,
        UNSORTED_SORT_ORDER,
        "file:///t",
        {"format-version": str(min(version, 2))},
    )
    if version == 3:
        return apply(
            made, [UPDATES.validate_python({"action": "upgrade-format-version", "format-version": 3})], now_millis=1
        )
    return made


def snapshot(version: int, number: int, sequence: int, parent: int | None, rows: int) -> dict[str, Any]:
    made: dict[str, Any] = {
        "snapshot-id": number,
        "sequence-number": sequence,
        "timestamp-ms": 1_000 + sequence,
        "manifest-list": f"file:///t/metadata/snap-{number}.avro",
        "summary": {"operation": "append", "added-records": str(rows), "engine-name": "x"},
        "schema-id": 0,
    }
    if parent is not None:
        made["parent-snapshot-id"] = parent
    if version == 3:
        made |= {"first-row-id": 10 * sequence, "added-rows": rows}
    return {"action": "add-snapshot", "snapshot": made}


def simple(version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the updates that are not read back, also such as cannot be applied."""
    return st.one_of(
        st.builds(lambda key, value: {"action": "set-properties", "updates": {key: value}}, KEYS, st.text(max_size=5)),
        st.builds(lambda key: {"action": "remove-properties", "removals": [key]}, KEYS),
        st.builds(snapshot, st.just(version), NUMBERS, st.integers(1, 9), st.none() | NUMBERS, st.integers(0, 9)),
        st.builds(
            lambda name, number, kind: {
                "action": "set-snapshot-ref",
                "ref-name": name,
                "type": kind,
                "snapshot-id": number,
            },
            NAMES,
            NUMBERS,
            st.sampled_from(["branch", "tag"]),
        ),
        st.builds(lambda name: {"action": "remove-snapshot-ref", "ref-name": name}, NAMES),
        st.builds(lambda number: {"action": "remove-snapshots", "snapshot-ids": [number]}, NUMBERS),
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_not_read_back_is_what_reading_it_would_give(version: int) -> None:
    applied = [0]

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.lists(simple(version), min_size=1, max_size=3), min_size=1, max_size=8))
    def check(commits: list[list[dict[str, Any]]]) -> None:
        metadata = begun(version)
        for commit in commits:
            updates = [UPDATES.validate_python(one) for one in commit]
            try:
                metadata = apply(metadata, updates, now_millis=5_000)
            except InvalidInput:
                continue
            applied[0] += 1
            text = json_of(metadata)
            read = decode(text, "metadata")
            assert read == metadata
            assert json_of(read) == text

    check()
    assert applied[0] > 100


def with_snapshot(metadata: Metadata, version: int, **values: int) -> Metadata:
    """The metadata with one more snapshot, of which something else is said than usual."""
    made = snapshot(version, 1, 1, None, 5)
    made["snapshot"] |= {name.replace("_", "-"): value for name, value in values.items()}
    return apply(metadata, [UPDATES.validate_python(made)], now_millis=5_000)


@pytest.mark.parametrize("version", [2, 3])
def test_a_snapshot_leaves_times_and_numbers_for_the_next_one(version: int) -> None:
    for name, value in (("sequence_number", (1 << 63) - 1), ("timestamp_ms", 1_800_000_000_000_000)):
        with pytest.raises(InvalidInput, match=f"far beyond 0|{value}, which is not in milliseconds"):
            with_snapshot(begun(version), version, **{name: value})


def test_no_row_is_numbered_as_another_was() -> None:
    table = with_snapshot(begun(3), 3, first_row_id=0)
    further = with_snapshot(table, 3, snapshot_id=2, sequence_number=2, first_row_id=90)
    assert [getattr(one, "next_row_id", None) for one in (table, further)] == [5, 95]
    for first, rows in ((5, -3), (5, (1 << 63) - 1), ((1 << 63) - 1, 1), (-1, 9)):
        with pytest.raises(InvalidInput, match=r"added-rows from|begins with row -1"):
            with_snapshot(table, 3, snapshot_id=2, sequence_number=2, first_row_id=first, added_rows=rows)


def test_a_table_that_says_nonsense_of_its_log_can_be_committed_to(lake: Lake, tmp_path: Path) -> None:
    most = "write.metadata.previous-versions-max"
    with pytest.raises(InvalidInput, match="has to be a whole number"):
        lake.create_table("shop.i", ARROW, format="iceberg", properties={most: "many"})
    lake.create_table("shop.i", ARROW, format="iceberg")
    given = json.loads(json_of(lake.transaction().iceberg("shop.i").metadata))
    (tmp_path / "x.metadata.json").write_text(json.dumps(given | {"properties": {most: "many"}}))
    with lake.transaction() as tx:
        tx.register_iceberg("shop.j", f"file://{tmp_path}/x.metadata.json")
    for number in range(3):
        lake.table("shop.j").append(pa.table({"id": [number]}))
    log = list(lake.transaction().iceberg("shop.j").metadata.metadata_log)
    assert len({one.metadata_file for one in log}) == len(log) == 3
    with lake.transaction() as tx:
        tx.set_properties("shop.j", {most: "2"})
    assert list(lake.transaction().iceberg("shop.j").metadata.metadata_log)[:-1] == log[-1:]


def check_written(metadata: Metadata) -> None:
    """What PyIceberg itself writes, each name once, whatever their order."""

    def pairs(found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return sorted(found, key=lambda one: one[0])

    expected = IcebergBaseModel.model_dump_json(metadata, exclude_none=True)
    assert json.loads(json_of(metadata), object_pairs_hook=pairs) == json.loads(expected, object_pairs_hook=pairs)


@pytest.mark.parametrize("length", [0, 7, 8, 30])
def test_a_log_of_earlier_files_is_written_as_pyiceberg_does(length: int) -> None:
    log = [{"metadata-file": f'file:///a/"{number}]é.json', "timestamp-ms": number} for number in range(length)]
    tricky = {'"metadata-log":[]': "x", "metadata-log": "[]", "é": '"metadata-log":[]'}
    for version in (1, 2, 3):
        plain = begun(version).model_copy(update={"properties": tricky})
        given = json.loads(json_of(plain)) | {"metadata-log": log}
        metadata = decode(json.dumps(given).encode(), "metadata")
        assert len(metadata.metadata_log) == length
        check_written(metadata)


def test_a_log_that_grows_is_written_as_pyiceberg_does_though_only_its_end_is_new() -> None:
    def written(metadata: Metadata, log: list[MetadataLogEntry]) -> list[MetadataLogEntry]:
        made = metadata.model_copy(update={"metadata_log": log})
        check_written(made)
        return log

    def entry(name: str, time: int) -> MetadataLogEntry:
        return MetadataLogEntry.model_validate({"metadata-file": f"file:///{name}.json", "timestamp-ms": time})

    plain = begun(2)
    log = written(plain, [entry(f"a{number}", number) for number in range(12)])
    for number, most in enumerate((20, 20, 14, 14, 9, 9, 20)):
        log = written(plain, [*log, entry(f"b{number}", number)][-most:])
    # Logs that end in the same file and are not the same: another time, another middle, another beginning, cut off.
    for other in (
        [*log[:-1], entry("b6", 99)],
        [*log[:4], entry("x", 1), *log[5:]],
        [entry("x", 1), *log[1:]],
        log[1:],
        [entry("x", 1), *log],
    ):
        written(plain, [*other, entry("next", 7)])
        written(plain, other)
        written(plain, log)


def test_what_other_readers_could_not_read_is_refused() -> None:
    """Java finds no way into a table of which one of these is said, not even to take it back."""
    columns: list[dict[str, Any]] = [{"id": 1, "name": "id", "type": "long", "required": False}]
    pair = {"type": "list", "element-id": 2, "element": "long", "element-required": False}
    twice = [*columns, {"id": 1, "name": "other", "type": "long", "required": False}]
    inside = [*columns, {"id": 2, "name": "other", "type": pair, "required": False}]
    newer = [*columns, {"id": 2, "name": "at", "type": "timestamp_ns", "required": False}]
    for fields in (twice, inside, newer):
        schema = {"type": "struct", "schema-id": 1, "fields": fields}
        given = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
        updates = [UPDATES.validate_python(one) for one in given]
        with pytest.raises(InvalidInput, match=r"stands for 2 columns|timestamp_ns"):
            apply(begun(2), updates, now_millis=1)
    for wrong in ({"sequence-number": 1 << 63}, {"timestamp-ms": 1 << 63}):
        added = snapshot(2, 1, 1, None, 1)
        added["snapshot"] |= wrong
        with pytest.raises(InvalidInput, match="64 bits"):
            apply(begun(2), [UPDATES.validate_python(added)], now_millis=1)
    for value in (5, None):
        added = snapshot(2, 1, 1, None, 1)
        added["snapshot"]["summary"]["run"] = value
        with pytest.raises(InvalidInput, match=f"'run' is {value}, and no text"):
            apply(begun(2), [UPDATES.validate_python(added)], now_millis=1)


@pytest.mark.parametrize("name", ["file-size-in-bytes", "file-footer-size-in-bytes", "sequence-number", "fields"])
def test_statistics_have_numbers_that_others_can_read(name: str) -> None:
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
    file = {"snapshot-id": 1, "statistics-path": "file:///t/s", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    wrong = {name: [1 << 31] if name == "fields" else 1 << 63}
    given = {**file, "blob-metadata": [blob | (wrong if name in blob else {})]} | (wrong if name in file else {})
    updates = [{"action": "set-statistics", "statistics": given}]
    if name == "file-size-in-bytes":
        updates.append({"action": "set-partition-statistics", "partition-statistics": file | wrong})
    for one in updates:
        with pytest.raises(InvalidInput, match=r"beyond"):
            apply(begun(2), [UPDATES.validate_python(one)], now_millis=1)
    sound = {"action": "set-statistics", "statistics": {**file, "blob-metadata": [blob]}}
    assert apply(begun(2), [UPDATES.validate_python(sound)], now_millis=1).statistics


def test_what_an_append_says_of_itself_is_text(lake: Lake) -> None:
    table = lake.create_table("shop.i", ARROW, format="iceberg")
    rows = pa.table({"id": [1]}, schema=ARROW)
    with pytest.raises(SeicheError, match="'run' is 5, and no text"):
        table.to_iceberg().append(rows, snapshot_properties={"run": 5})  # type: ignore[dict-item]
    table.to_iceberg().append(rows, snapshot_properties={"run": "5"})
    assert table.count_rows() == 1


class Counted(list[Any]):
    """A list that counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Any:
        self.times += 1
        return super().__iter__()


def test_whether_rows_are_others_is_asked_of_all_tags_at_once() -> None:
    """With a tag for each of 4,000 snapshots a commit took two seconds for it."""
    made = begun(2)
    for number in range(1, 21):
        tag = {"action": "set-snapshot-ref", "ref-name": f"v{number}", "type": "tag", "snapshot-id": number}
        given = [snapshot(2, number, number, number - 1 or None, 1), tag]
        made = apply(made, [UPDATES.validate_python(one) for one in given], now_millis=1)
    counted = Counted(made.snapshots)
    before = made.model_copy(update={"snapshots": counted})
    assert not changes_content(before, made)
    assert counted.times <= 2


@pytest.mark.parametrize(
    ("kind", "wrong", "right"),
    [
        ("int", 1 << 31, 5),
        ("int", "5", -5),
        ("long", 5.5, 1 << 40),
        ("double", 1, 1.0),
        ("boolean", 1, False),
        ("string", 5, ""),
        ("uuid", 5, "550e8400-e29b-41d4-a716-446655440000"),
        ("decimal(9, 2)", "1", "1.00"),
        ("decimal(9, 2)", "12345678.00", "-1234567.00"),
    ],
)
def test_a_default_is_a_value_of_its_column(kind: str, wrong: Any, right: Any) -> None:
    """Java opens no table with a column of which it is not."""
    for name in ("initial-default", "write-default"):
        for value in (wrong, right):
            column = {"id": 2, "name": "x", "type": kind, "required": False, name: value}
            schema = {"type": "struct", "fields": [*SCHEMA.model_dump()["fields"], column]}
            given = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
            updates = [UPDATES.validate_python(one) for one in given]
            if value is wrong:
                with pytest.raises(InvalidInput, match="has a default of"):
                    apply(begun(3), updates, now_millis=1)
            else:
                made = json.loads(json_of(apply(begun(3), updates, now_millis=1)))
                assert made["schemas"][-1]["fields"][-1][name] == right


def partitioned(base: Metadata, transform: str, name: str) -> Metadata:
    spec = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1000, "transform": transform, "name": name}]}
    given = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    return apply(base, [UPDATES.validate_python(one) for one in given], now_millis=1)


def with_column(base: Metadata, name: str) -> Metadata:
    column = {"id": 2, "name": name, "type": "string", "required": False}
    schema = {"type": "struct", "fields": [*SCHEMA.model_dump()["fields"], column]}
    given = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    return apply(base, [UPDATES.validate_python(one) for one in given], now_millis=1)


@pytest.mark.parametrize("transform", ["bucket[4]", "identity", "void"])
def test_no_partition_is_called_as_a_column_is_that_it_is_not_of(transform: str) -> None:
    """Java opens no such table, whichever of the two came first, nor after the partitions have changed again."""
    with pytest.raises(InvalidInput, match="both called 'x'"):
        partitioned(with_column(begun(2), "x"), transform, "x")
    made = partitioned(begun(2), transform, "x")
    default = [UPDATES.validate_python({"action": "set-default-spec", "spec-id": 0})]
    for base in (made, apply(made, default, now_millis=1)):
        with pytest.raises(InvalidInput, match="both called 'x'"):
            with_column(base, "x")
    assert with_column(partitioned(begun(2), transform, "id"), "x").default_spec_id == 1, "its own column's name"


@pytest.mark.parametrize("transform", ["bucket[0]", "truncate[0]", "bucket[4294967296]"])
def test_partitions_and_orders_are_by_numbers_that_there_are(transform: str) -> None:
    with pytest.raises(InvalidInput, match="not between 1 and"):
        partitioned(begun(2), transform, "x")
    field = {"source-id": 1, "transform": transform, "direction": "asc", "null-order": "nulls-first"}
    added = {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [field]}}
    with pytest.raises(InvalidInput, match="not between 1 and"):
        apply(begun(2), [UPDATES.validate_python(added)], now_millis=1)


def with_default(number: int, *columns: dict[str, Any], version: int | None = None) -> list[Any]:
    """A schema with a column whose value older rows have, too, and with others."""
    own = {"id": 2, "name": "x", "type": "int", "required": False, "initial-default": 5}
    fields = [{"id": 1, "name": "id", "type": "long", "required": False}, own, *columns]
    schema = {"type": "struct", "schema-id": number, "fields": fields}
    given = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    upgrade = [] if version is None else [{"action": "upgrade-format-version", "format-version": version}]
    return [UPDATES.validate_python(one) for one in given + upgrade]


@pytest.mark.parametrize("version", [1, 2])
def test_a_new_column_has_an_initial_default_from_version_3_on(version: int) -> None:
    """Below it readers that do not know of one show null where others show the value."""
    with pytest.raises(InvalidInput, match="'x' has an initial default, which there is from format version 3 on"):
        apply(begun(version), with_default(1), now_millis=1)
    made = apply(begun(version), with_default(1, version=3), now_millis=1)
    assert made.schema().find_field("x").initial_default == 5
    # A table that came with one already can be changed still, also to get rid of it.
    there = made.model_dump(by_alias=True) | {"format-version": 2}
    del there["next-row-id"]
    other = {"id": 3, "name": "y", "type": "int", "required": False}
    changed = apply(decode(json.dumps(there, default=str).encode(), "x"), with_default(2, other), now_millis=2)
    assert [one.name for one in changed.schema().fields] == ["id", "x", "y"]


def test_pyiceberg_adds_no_default_that_the_format_has_not(lake: Lake) -> None:
    table = lake.create_table("shop.i", ARROW, format="iceberg")
    table.append([{"id": 1}])
    change = table.to_iceberg().update_schema()
    change.add_column("x", LongType(), default_value=5)
    with pytest.raises(InvalidInput, match="initial default"):
        change.commit()
    assert table.to_arrow().to_pylist() == [{"id": 1}]


def test_rows_that_lack_a_column_that_must_be_there_are_told_of_with_what_helps(lake: Lake) -> None:
    """PyIceberg lets such a column be added, for whoever insists, and cannot read what there was before."""
    table = lake.create_table("shop.i", ARROW, format="iceberg")
    table.append([{"id": 1}])
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as change:
        change.add_column("y", LongType(), required=True)
    table.append([{"id": 2, "y": 3}])
    merge = table.merge([{"id": 1, "y": 4}], on="id").when_matched_update_all().when_not_matched_insert_all()
    asks: list[Callable[[], Any]] = [
        table.to_arrow,
        lambda: table.delete("id < 2 AND y < 9"),
        lambda: table.update({"id": "7"}, "id = 1"),
        merge.execute,
    ]
    for ask in asks:
        with pytest.raises(InvalidInput, match="older rows cannot be read") as told:
            ask()
        assert "make_column_optional" in told.value.remedy
    with table.to_iceberg().update_schema() as change:
        change.make_column_optional("y")
    assert sorted(table.to_arrow().to_pylist(), key=repr) == [{"id": 1, "y": None}, {"id": 2, "y": 3}]


NESTED = pa.schema([("n", pa.int32()), ("d", pa.decimal128(9, 2)), ("s", pa.struct([("t", pa.string())]))])


@pytest.mark.parametrize(
    ("column", "kind"),
    [("n", StringType()), ("n", DateType()), ("d", DecimalType(12, 4)), ("d", LongType()), (("s", "t"), LongType())],
)
def test_columns_keep_types_by_which_their_rows_can_be_read(lake: Lake, column: Any, kind: Any) -> None:
    table = lake.create_table("shop.typed", NESTED, format="iceberg")
    rows = pa.Table.from_pylist([{"n": 1, "d": Decimal("1.50"), "s": {"t": "a"}}], schema=NESTED)
    table.append(rows)
    with (
        pytest.raises(InvalidInput, match="rows of type"),
        table.to_iceberg().update_schema(allow_incompatible_changes=True) as update,
    ):
        update.update_column(column, kind)
    with table.to_iceberg().update_schema() as update:
        update.update_column("n", LongType()).update_column("d", DecimalType(12, 2))
    assert table.to_arrow().to_pylist() == rows.to_pylist()


def test_a_type_that_no_row_was_written_with_can_be_taken_back(lake: Lake) -> None:
    table = lake.create_table("shop.typed", NESTED, format="iceberg")
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as update:
        update.update_column("n", StringType())
    with table.to_iceberg().update_schema(allow_incompatible_changes=True) as update:
        update.update_column("n", IntegerType())
    table.append(pa.table({"n": pa.array([1], pa.int32())}))
    for kind in (LongType(), IntegerType()):
        with table.to_iceberg().update_schema(allow_incompatible_changes=True) as update:
            update.update_column("n", kind)
    assert table.to_arrow(columns=["n"]).to_pylist() == [{"n": 1}]


def test_the_place_of_a_table_gets_no_slashes() -> None:
    """On object storage files behind them have other names than those that clean-ups and exports look for."""
    place = UPDATES.validate_python({"action": "set-location", "location": "file:///t//"})
    made = apply(None, [*map(UPDATES.validate_python, MADE), place], now_millis=1)
    assert made.location == "file:///t"
    assert apply(made, [place], now_millis=2) is made


def test_rows_of_a_snapshot_are_counted_in_version_3() -> None:
    """Without their number the next row's id would begin at 0 again, and two rows would have one id."""
    metadata = apply(begun(3), [UPDATES.validate_python(snapshot(3, 1, 1, None, 7))], now_millis=5_000)
    assert metadata.next_row_id == 10 + 7  # type: ignore[union-attr]
    uncounted = snapshot(3, 2, 2, 1, 0)
    del uncounted["snapshot"]["added-rows"]
    with pytest.raises(InvalidInput, match="added-rows"):
        apply(metadata, [UPDATES.validate_python(uncounted)], now_millis=5_000)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"schema": pa.schema([("", pa.int64())])}, "the column with the id 1 has no name"),
        ({"schema": pa.schema([("v", pa.binary(0))])}, r"fixed\[0\]: values have one byte at least"),
        ({"schema": pa.schema([("v", pa.decimal128(5, -2))])}, r"decimal\(5, -2\), and there are up to 38 digits"),
        ({"partition_spec": "id"}, "partition_spec cannot be 'id'"),
        ({"sort_order": ["id"]}, r"sort_order cannot be \['id'\]"),
    ],
    ids=["no name", "no bytes", "no decimals", "no spec", "no order"],
)
def test_a_table_that_could_not_be_used_is_not_made(lake: Lake, given: dict[str, Any], why: str) -> None:
    """Each was an error of Python, Arrow or PyIceberg, some of them at the first append only."""
    version = lake.version
    with pytest.raises(InvalidInput, match=why):
        lake.create_table("shop.i", **{"schema": ARROW, "format": "iceberg", **given})
    assert lake.version == version


@pytest.mark.parametrize("mapping", ["{", "5", '[{"field-id": "one"}]', ""])
def test_a_mapping_of_names_that_cannot_be_read_is_refused(lake: Lake, mapping: str) -> None:
    """Every read of the table begins with it, and failed."""
    name = "schema.name-mapping.default"
    table: Any = lake.create_table("shop.i", ARROW, format="iceberg")
    with pytest.raises(InvalidInput, match="is no mapping of names"):
        lake.run(lambda tx: tx.set_properties("shop.i", {name: mapping}))
    lake.run(lambda tx: tx.set_properties("shop.i", {name: table.metadata.schema().name_mapping.model_dump_json()}))
    assert table.append(pa.table({"id": [1]})).rows == 1
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_what_arrow_cannot_write_is_an_error_of_the_lake(lake: Lake) -> None:
    packed = {"write.parquet.compression-codec": "none such"}
    table = lake.create_table("shop.i", ARROW, format="iceberg", properties=packed)
    with pytest.raises(InvalidInput, match=r"shop\.i: PyIceberg cannot do this append: Unsupported compression"):
        table.append(pa.table({"id": [1]}))


@pytest.mark.parametrize("name", ["write.py-location-provider.impl", "write.location-provider.impl"])
def test_a_table_names_no_code_that_chooses_where_its_files_go(lake: Lake, name: str) -> None:
    """Whoever can set a property would have run it in the process of everybody who writes to the table."""
    with pytest.raises(InvalidInput, match="names code to choose where files go"):
        lake.create_table("shop.i", ARROW, format="iceberg", properties={name: "os.system"})
    lake.create_table("shop.i", ARROW, format="iceberg")
    with pytest.raises(InvalidInput, match="names code to choose where files go"):
        lake.run(lambda tx: tx.set_properties("shop.i", {name: "os.system"}))
    assert lake.table("shop.i").append(pa.table({"id": [1]})).rows == 1


@pytest.mark.parametrize("where", ["/etc", "file:///else", "file:///t/../else", "file:///tt"])
@pytest.mark.parametrize("place_first", [True, False])
def test_files_of_a_new_table_have_their_place_whatever_the_order_of_updates(where: str, place_first: bool) -> None:
    def applied(path: str) -> Metadata:
        last = [
            {"action": "set-location", "location": "file:///t"},
            {"action": "set-properties", "updates": {"write.data.path": path}},
        ]
        updates = [*MADE, *(last if place_first else reversed(last))]
        return apply(None, [UPDATES.validate_python(one) for one in updates], now_millis=1)

    assert applied("file:///t/data").properties == {"write.data.path": "file:///t/data"}
    with pytest.raises(InvalidInput, match="outside of its place"):
        applied(where)
