"""How Avro files are to be read is worked out once for each kind of file."""

from typing import Any

import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.resolver import ReadSchemaResolver
from pyiceberg.io import InputFile
from pyiceberg.manifest import ManifestFile, read_manifest_list
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from seiche import Lake
from tests.unit.lake.conftest import SCHEMA, ids, rows


def newest_list(table: Table) -> InputFile:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return table.io.new_input(snapshot.manifest_list)


@pytest.fixture
def ice(lake: Lake) -> Lake:
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    for number in range(5):
        lake.table("shop.i").append(rows(number))
    return lake


def test_reading_many_manifests_works_out_nothing_again(ice: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ice.table("shop.i")
    assert table.count_rows() == 5  # a list and a manifest, of a kind each
    worked: list[str] = []
    convert, resolver = AvroSchemaConversion.avro_to_iceberg, ReadSchemaResolver.__init__

    def converted(self: AvroSchemaConversion, schema: dict[str, Any]) -> Schema:
        worked.append("schema")
        return convert(self, schema)

    def resolved(self: ReadSchemaResolver, *given: Any) -> None:
        worked.append("reader")
        resolver(self, *given)

    monkeypatch.setattr(AvroSchemaConversion, "avro_to_iceberg", converted)
    monkeypatch.setattr(ReadSchemaResolver, "__init__", resolved)
    assert table.count_rows() == 5
    assert table.to_arrow(filter="id = 3").num_rows == 1
    table.delete("id = 3")
    assert ice.diff(ice.version - 1, ice.version)
    assert worked == [], "each manifest took ten times as long"


def test_manifests_of_other_partitions_are_read_by_their_own(ice: Lake) -> None:
    with ice.table("shop.i").to_iceberg().update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "by_id")
    ice.table("shop.i").append(rows(7))
    with ice.table("shop.i").to_iceberg().update_spec() as spec:
        spec.add_field("n", IdentityTransform(), "by_n")
    ice.table("shop.i").append(rows(8, n=3))
    table = ice.table("shop.i").to_iceberg()
    entries = [
        entry
        for manifest in read_manifest_list(newest_list(table))
        for entry in manifest.fetch_manifest_entry(table.io)
    ]
    assert [[*one.data_file.partition._data] for one in entries] == [[8, 3], [7], [], [], [], [], []]
    assert ids(ice, "shop.i") == [0, 1, 2, 3, 4, 7, 8]


def test_one_file_can_be_read_as_different_things(ice: Lake) -> None:
    table = ice.table("shop.i").to_iceberg()
    where = newest_list(table)
    for _ in range(2):
        with AvroFile[Any](where) as plain:
            assert {type(one) for one in plain} == {Record}
        assert {type(one) for one in read_manifest_list(where)} == {ManifestFile}
