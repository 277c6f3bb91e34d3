"""What Spark's tasks read and write of Iceberg tables, without Spark."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.update import UpgradeFormatVersionUpdate
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

import seiche
from seiche import InvalidInput, Lake
from seiche.spark.iceberg import IcebergTarget, add_files, iceberg_scans


@pytest.fixture
def lake(tmp_path: Any) -> Lake:
    made = seiche.create(str(tmp_path / "lake"))
    made.create_namespace("shop")
    return made


def test_tables_of_format_version_3_are_read_and_refused_in_words_of_the_lake_when_written(lake: Lake) -> None:
    """PyIceberg said of both that writing is not supported, by errors of its own; of writing when all was written."""
    columns = pa.schema([("id", pa.int64())])
    lake.create_table("shop.i", columns, format="iceberg").append([{"id": 1}, {"id": 2}])
    raised = UpgradeFormatVersionUpdate.model_validate({"format-version": 3})
    lake.run(lambda tx: tx.commit_iceberg("shop.i", [], [raised]))
    tx = lake.transaction()
    handle: Any = tx.table("shop.i")
    scans, _ = iceberg_scans(handle, tx, where="id > 1")
    assert [row for scan in scans for batch in scan.read() for row in batch.to_pylist()] == [{"id": 2}]
    with pytest.raises(InvalidInput, match=r"shop\.i has format version 3 .* PyIceberg writes no rows"):
        IcebergTarget.of(handle, tx)


@pytest.mark.parametrize("left_out", [True, False])
def test_rows_may_lack_a_column_whose_fields_cannot_be_null(lake: Lake, left_out: bool) -> None:
    inside = StructType(NestedField(3, "a", IntegerType(), required=True))
    columns = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", inside))
    lake.create_table("shop.i", columns, format="iceberg")
    # As Spark gives them: what is inside of a null is null.
    values = [None, None] if left_out else [{"a": 5}, None]
    given = {"id": pa.array([1, 2], pa.int64()), "s": pa.array(values, pa.struct([("a", pa.int32())]))}
    with lake.transaction() as tx:
        handle: Any = tx.table("shop.i")
        rows = pa.table({"id": given["id"]} if left_out else given)
        add_files(handle, [IcebergTarget.of(handle, tx).write(rows.to_batches())], overwrite=False)
        wrong = pa.table({"id": given["id"], "s": pa.array([None, {"a": None}], given["s"].type)})
        with pytest.raises(InvalidInput, match="'s'"):
            IcebergTarget.of(handle, tx).write(wrong.to_batches())
    assert lake.table("shop.i").to_arrow()["s"].to_pylist() == values
