"""Columns of Iceberg tables keep types by which all current rows can be read, whatever else a commit does."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, LongType

from seiche import InvalidInput, Lake, RetryableConflict

TEXTS = pa.schema([("id", pa.int64()), ("x", pa.string())])
WORDS = pa.table({"id": [1, 2], "x": ["a", "b"]}, schema=TEXTS)
NUMBERS = pa.table({"id": [3], "x": [5]})


@pytest.fixture
def table(lake: Lake) -> Any:
    """A table that has a file for each id."""
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    return lake.create_table("shop.typed", TEXTS, format="iceberg", partition_spec=spec)


def retype(handle: Any, kind: Any = None) -> None:
    handle.update_schema(allow_incompatible_changes=True).update_column("x", kind or LongType()).commit()


def found(table: Any) -> list[Any]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])


def retyped_behind_rows(work: Any) -> None:
    work.append(WORDS)
    retype(work)


def retyped_before_rows(work: Any) -> None:
    retype(work)
    work.append(NUMBERS)


def retyped_before_a_file_goes(work: Any) -> None:
    retype(work)
    work.delete("id = 1")


@pytest.mark.parametrize("change", [retyped_behind_rows, retyped_before_rows, retyped_before_a_file_goes])
def test_a_type_changes_in_no_commit_that_keeps_or_brings_rows_of_another(
    table: Any, change: Callable[[Any], None]
) -> None:
    """Nobody could read the table after it."""
    if change is not retyped_behind_rows:
        table.append(WORDS)
    rows = found(table)
    with (
        pytest.raises(InvalidInput, match="'x' has rows of type string, not long"),
        table.to_iceberg().transaction() as w,
    ):
        change(w)
    assert found(table) == rows


def test_a_type_changes_in_the_commit_that_replaces_all_rows_and_they_do_not_come_back(table: Any) -> None:
    table.append(WORDS)
    old = table.metadata.current_snapshot_id
    with table.to_iceberg().transaction() as work:
        work.overwrite(WORDS.slice(0, 0))
        retype(work)
        work.append(NUMBERS)
    table.append(pa.table({"id": [4], "x": [6]}))
    rows = [{"id": 3, "x": 5}, {"id": 4, "x": 6}]
    assert found(table) == rows
    with pytest.raises(InvalidInput, match="'x' has rows of type string, not long"):
        table.to_iceberg().manage_snapshots().rollback_to_snapshot(old).commit()
    assert found(table) == rows


def test_a_new_table_has_its_rows_in_the_types_of_its_columns(lake: Lake) -> None:
    work = lake.iceberg_catalog().create_table_transaction("shop.typed", TEXTS)
    work.append(WORDS)
    retype(work, DateType())
    with pytest.raises(InvalidInput, match="'x' has rows of type string, not date"):
        work.commit_transaction()
    assert ("shop", "typed") not in lake.tables()


def test_rows_that_come_behind_the_change_of_a_type_are_written_again(lake: Lake, table: Any) -> None:
    tx, handle = lake.transaction(), table.to_iceberg()
    tx.append("shop.typed", WORDS)
    retype(table.to_iceberg())
    with pytest.raises(RetryableConflict, match="'x' has rows of type string, not long"):
        tx.commit()
    with pytest.raises(InvalidInput, match="'x' has rows of type string, not long"):
        handle.append(WORDS)
    table.append(NUMBERS)
    assert found(table) == [{"id": 3, "x": 5}]
