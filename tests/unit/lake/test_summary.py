"""A table in figures."""

import pytest

from seiche import Lake, NotFound
from seiche.lake.lake import open_lake
from seiche.lake.objects.keys import table_key
from seiche.lake.objects.rows import TableRow
from seiche.lake.summary import summary
from tests.unit.lake.conftest import SCHEMA, rows
from tests.unit.lake.past import put_row


def test_a_table_of_the_lake_has_figures(lake: Lake) -> None:
    table = lake.table("shop.a")
    table.append(rows(*range(10)))
    table.create_index("id", "BTREE")
    before = lake.version
    table.delete("id < 3")
    table.update_config({"owner": "me"})
    found = summary(lake.state(), ("shop", "a"))
    assert (found.rows, found.deleted_rows, found.fragments, found.version) == (7, 3, 1, 5)
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
    assert summary(lake.state(), ("shop", "trips")).rows == 0
    made.append(rows(*range(10)))
    made.delete("id < 3")
    found = summary(lake.state(), ("shop", "trips"))
    assert (found.rows, found.fragments, found.deleted_rows, found.indices) == (7, None, None, ())
    assert [(one.name, one.type, one.nullable) for one in found.columns] == [
        ("id", "int64", True),
        ("n", "int64", True),
    ]


def test_a_table_of_others_has_none(lake: Lake) -> None:
    put_row(lake, table_key(("shop", "x")), TableRow(id="x", type="external", format="iceberg", location="s3://x"))
    found = summary(lake.state(), ("shop", "x"))
    assert (found.type, found.format, found.rows, found.columns) == ("external", "iceberg", None, ())
    assert found.as_dict()["location"] == "s3://x"
