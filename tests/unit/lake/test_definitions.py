"""Names that a transaction gives and takes: what stands behind them at its end is what its statements say."""

import re
from pathlib import Path
from typing import Any

import pytest

from seiche import Lake, NotFound
from tests.unit.lake.conftest import SCHEMA, ids, rows


@pytest.mark.parametrize("through", ["at once", "saved"])
def test_a_table_comes_back_to_its_name_after_a_view_that_had_it_for_a_moment(lake: Lake, through: str) -> None:
    lake.table("shop.a").append(rows(1))
    tx = lake.transaction()
    tx.rename_table("shop.a", "shop.c")
    tx.create_view("shop.a", "SELECT 1")
    if through == "saved":
        tx = lake.resume(tx.save())
    tx.drop_view("shop.a")
    with pytest.raises(NotFound):
        tx.drop_view("shop.a")
    assert tx.tables("shop") == [("shop", "b"), ("shop", "c")]
    tx.rename_table("shop.c", "shop.a")
    tx.append("shop.b", rows(2))
    tx.commit()
    assert lake.tables("shop") == [("shop", "a"), ("shop", "b")]
    assert ids(lake, "shop.a") == [1]
    assert lake.fsck().problems == ()


@pytest.mark.parametrize("engine", [{}, {"format": "iceberg"}], ids=["lance", "iceberg"])
def test_a_handle_of_a_table_that_the_transaction_dropped_takes_no_statements(
    lake: Lake, engine: dict[str, Any]
) -> None:
    lake.create_table("shop.t", SCHEMA, **engine).append(rows(1))
    with lake.transaction() as tx:
        table, dataset = tx.table("shop.t"), None if engine else tx.table("shop.t").to_lance()
        tx.drop_table("shop.t")
        tx.create_table("shop.t", SCHEMA)
        for said in (lambda: table.append(rows(2)), lambda: table.delete("true"), table.to_arrow):
            with pytest.raises(NotFound, match=re.escape("shop.t was dropped by this transaction")):
                said()
        if dataset is not None:
            with pytest.raises(Exception, match=re.escape("shop.t was dropped by this transaction")):
                dataset.insert(rows(2))
        assert "shop.t" in repr(table)
    assert ids(lake, "shop.t") == []


def test_a_table_that_could_not_be_replaced_stays(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("shop.i", SCHEMA, format="iceberg").append(rows(1))
    with lake.transaction() as tx:
        with pytest.raises(NotFound, match="no Iceberg metadata"):
            tx.register_iceberg("shop.i", f"file://{tmp_path}/x.metadata.json", overwrite=True)
        tx.append("shop.a", rows(2))
    assert ids(lake, "shop.i") == [1]
