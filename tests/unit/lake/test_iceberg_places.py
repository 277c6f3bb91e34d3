"""A place of an Iceberg table belongs to one table: whoever is made, or comes back, where another is or was."""

import pytest

from seiche import AlreadyExists, ConflictError, Lake
from seiche.lake.iceberg.creating import creation_step, new_metadata
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.fixture
def ice(lake: Lake) -> Lake:
    """A lake with an Iceberg table."""
    lake.create_table("shop.i", SCHEMA, format="iceberg")
    lake.table("shop.i").append(rows(1))
    return lake


def test_two_who_make_tables_in_one_place_do_not_both_succeed(ice: Lake) -> None:
    step = creation_step(new_metadata(("shop", "k"), SCHEMA, ice.store, ice.states.runtime))
    first, second = ice.transaction(), ice.transaction()
    first.commit_iceberg("shop.k", step.requirements, step.updates)
    second.commit_iceberg("shop.l", step.requirements, step.updates)
    first.commit()
    with pytest.raises(ConflictError, match="made in its place"):
        second.commit()
    ice.table("shop.k").append(rows(2))
    assert ids(ice, "shop.k") == [2]


def test_no_table_is_made_where_one_was(ice: Lake) -> None:
    location = ice.table("shop.i").metadata.location  # type: ignore[attr-defined]
    began = ice.transaction()
    ice.drop_table("shop.i")
    with pytest.raises(AlreadyExists, match="or was one"):
        ice.create_table("shop.k", SCHEMA, format="iceberg", location=location)
    began.rollback()
