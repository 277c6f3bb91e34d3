"""A table in figures."""

import pytest

from seiche import Lake, NotFound
from seiche.lake.lake import open_lake
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.rows import TableRow
from seiche.lake.summary import stored_bytes, summary
from tests.messages import data_file, fragment
from tests.unit.lake.conftest import SCHEMA, rows
from tests.unit.lake.iceberg_deletes import delete_by_position
from tests.unit.lake.past import put_row


def test_a_table_of_the_lake_has_figures(lake: Lake) -> None:
    table = lake.table("shop.a")
    written = table.append(rows(*range(10)))
    table.create_index("id", "BTREE")
    before = lake.version
    table.delete("id < 3")
    table.update_config({"owner": "me"})
    found = summary(lake.state(), ("shop", "a"))
    assert (found.rows, found.deleted_rows, found.fragments, found.version) == (7, 3, 1, 5)
    assert found.bytes == written.bytes > 0
    assert [(one.name, one.type, one.nullable) for one in found.columns] == [
        ("id", "int64", True),
        ("n", "int64", True),
    ]
    assert (found.indices, found.config, found.lake_version) == (("id_idx",), {"owner": "me"}, lake.version)
    assert summary(open_lake(lake.store, version=before).state(), ("shop", "a")).rows == 10
    with pytest.raises(NotFound):
        summary(lake.state(), ("shop", "nothing"))


def test_an_iceberg_table_of_the_lake_has_columns_and_rows(lake: Lake) -> None:
    made = lake.create_table("shop.trips", SCHEMA, format="iceberg")
    assert (summary(lake.state(), ("shop", "trips")).rows, summary(lake.state(), ("shop", "trips")).bytes) == (0, 0)
    made.append(rows(*range(10)))
    made.delete("id < 3")
    found = summary(lake.state(), ("shop", "trips"))
    assert (found.rows, found.fragments, found.deleted_rows, found.indices) == (7, None, None, ())
    assert found.bytes == sum(task.file.file_size_in_bytes for task in made.to_iceberg().scan().plan_files())
    assert [(one.name, one.type, one.nullable) for one in found.columns] == [
        ("id", "int64", True),
        ("n", "int64", True),
    ]


def test_where_no_snapshot_says_how_many_rows_an_iceberg_table_has_nothing_is_said_of_them(lake: Lake) -> None:
    """Engines need not count; it was said to have none."""
    made = lake.create_table("shop.trips", SCHEMA, format="iceberg")
    made.append(rows(*range(10)))
    delete_by_position(lake, "shop.trips", 3)
    assert summary(lake.state(), ("shop", "trips")).rows is None
    made.append(rows(11))
    assert summary(lake.state(), ("shop", "trips")).rows is None
    assert made.count_rows() == 10


def test_a_table_of_others_has_none(lake: Lake) -> None:
    put_row(lake, table_key(("shop", "x")), TableRow(id="x", type="external", format="iceberg", location="s3://x"))
    found = summary(lake.state(), ("shop", "x"))
    assert (found.type, found.format, found.rows, found.columns) == ("external", "iceberg", None, ())
    assert found.as_dict()["location"] == "s3://x"


def test_of_files_whose_size_nobody_noted_no_sum_is_made() -> None:
    known, unknown = data_file("a.lance", [0], file_size_bytes=7), data_file("b.lance", [0])
    assert stored_bytes([]) == 0
    assert stored_bytes([fragment(0, known), fragment(1, known, known)]) == 21
    assert stored_bytes([fragment(0, known), fragment(1, unknown)]) is None
