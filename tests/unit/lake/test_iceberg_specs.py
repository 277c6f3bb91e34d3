"""Schemas and partition specs of Iceberg tables go only when nothing was written with them that is still there."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType

from seiche import InvalidInput, Lake, RetryableConflict
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def ice(lake: Lake) -> Lake:
    """A lake with an Iceberg table."""
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    return lake


def handle(lake: Lake) -> Table:
    return lake.table("shop.i").to_iceberg()


def evolve(lake: Lake) -> None:
    """A second spec and a second schema: those before are still there."""
    table = handle(lake)
    with table.update_spec() as spec:
        spec.add_identity("n")
    with table.update_schema() as schema:
        schema.add_column("more", LongType())


def without_spec(number: int = 0) -> Any:
    return RemovePartitionSpecsUpdate.model_validate({"spec-ids": [number]})


def without_schema(number: int = 0) -> Any:
    return RemoveSchemasUpdate.model_validate({"schema-ids": [number]})


def remove(lake: Lake, update: Any) -> None:
    with lake.transaction() as tx:
        tx.commit_iceberg("shop.i", [], [update])


@pytest.mark.parametrize(
    ("update", "why"), [(without_spec(), "partition spec 0 cannot be removed"), (without_schema(), "schema 0 is that")]
)
def test_what_files_were_written_with_stays(ice: Lake, update: Any, why: str) -> None:
    ice.table("shop.i").append(rows(1))
    evolve(ice)
    ice.table("shop.i").append(pa.table({"id": [2], "n": [2], "more": [2]}, pa.schema([*SCHEMA, ("more", pa.int64())])))
    with pytest.raises(InvalidInput, match=why):
        remove(ice, update)
    assert ids(ice, "shop.i") == [1, 2]


@pytest.mark.parametrize("update", [without_spec(), without_schema()])
def test_what_nothing_was_written_with_goes(ice: Lake, update: Any) -> None:
    evolve(ice)
    remove(ice, update)
    metadata = ice.transaction().iceberg("shop.i").metadata
    assert 0 not in (metadata.specs() if update == without_spec() else {one.schema_id for one in metadata.schemas})


@pytest.mark.parametrize("update", [without_spec(), without_schema()])
def test_what_others_write_with_meanwhile_stays(ice: Lake, update: Any) -> None:
    late = handle(ice)
    evolve(ice)
    tx = ice.transaction()
    tx.commit_iceberg("shop.i", [], [update])
    late.append(rows(1))
    with pytest.raises(RetryableConflict, match=r"spec 0 cannot be removed|schema 0 is that"):
        tx.commit()
    assert ids(ice, "shop.i") == [1]


@pytest.mark.parametrize("update", [without_spec(), without_schema()])
def test_nothing_is_written_with_what_others_removed_meanwhile(ice: Lake, update: Any) -> None:
    tx = ice.transaction()
    tx.append("shop.i", rows(1))
    evolve(ice)
    remove(ice, update)
    with pytest.raises(RetryableConflict, match=r"spec 0 cannot be removed|written with schema 0"):
        tx.commit()
    ice.table("shop.i").append(rows(2))
    assert ids(ice, "shop.i") == [2]


@pytest.mark.parametrize("update", [without_spec(), without_schema()])
def test_a_handle_that_knows_only_what_was_removed_writes_nothing_with_it(ice: Lake, update: Any) -> None:
    late = handle(ice)
    evolve(ice)
    remove(ice, update)
    with pytest.raises(InvalidInput, match=r"partition spec 0, which the table does not|written with schema 0"):
        late.append(rows(1))
    late.refresh()
    late.append(rows(2))
    assert ids(ice, "shop.i") == [2]


def written(lake: Lake) -> None:
    """A row of the first spec and schema, and one of the second."""
    lake.table("shop.i").append(rows(1))
    evolve(lake)
    lake.table("shop.i").append(pa.table({"id": [2], "n": [2], "more": [2]}))


def again(lake: Lake) -> None:
    """Give up all that was written with spec 1 and schema 1, and use the ids for something else."""
    table = handle(lake)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    with table.update_spec() as spec:
        spec.remove_field("n")
    with lake.transaction() as tx:
        tx.commit_iceberg("shop.i", [], [SetCurrentSchemaUpdate.model_validate({"schema-id": 0})])
    table.refresh()
    table.maintenance.expire_snapshots().by_ids([table.metadata.snapshots[-1].snapshot_id]).commit()
    remove(lake, without_spec(1))
    remove(lake, without_schema(1))
    table.refresh()
    with table.update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "parts")
    with table.update_schema() as schema:
        schema.add_column("other", LongType())
    lake.table("shop.i").append(pa.table({"id": [3], "n": [3], "other": [3]}))
    table.refresh()
    assert (table.spec().spec_id, table.schema().schema_id) == (1, 1)


def test_what_was_written_with_another_spec_of_the_same_id_is_not_kept_by_a_rollback(ice: Lake) -> None:
    written(ice)
    first = ice.version
    again(ice)
    second = ice.version
    for version, expected in ((first, [1, 2]), (second, [1, 3]), (first, [1, 2])):
        ice.rollback(to=version)
        table = handle(ice)
        assert ids(ice, "shop.i") == expected
        for one in table.metadata.snapshots:
            last = table.schema().fields[-1].name
            found = table.scan(snapshot_id=one.snapshot_id).to_arrow().to_pylist()
            assert all(row["id"] == 1 or row[last] == row["id"] for row in found)
    assert ice.fsck().problems == ()
    ice.table("shop.i").delete("id = 2")
    assert ids(ice, "shop.i") == [1]


def test_no_spec_takes_the_id_of_one_that_files_were_written_with(ice: Lake) -> None:
    written(ice)
    other = {"spec-id": 1, "fields": [{"source-id": 1, "field-id": 1001, "transform": "bucket[4]", "name": "parts"}]}
    swap = [
        SetDefaultSpecUpdate.model_validate({"spec-id": 0}),
        without_spec(1),
        AddPartitionSpecUpdate.model_validate({"spec": other}),
    ]
    with pytest.raises(InvalidInput, match="partition spec 1 cannot be removed"), ice.transaction() as tx:
        tx.commit_iceberg("shop.i", [], swap)
    assert ids(ice, "shop.i") == [1, 2]
