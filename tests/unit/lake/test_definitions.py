"""Names that a transaction gives and takes: what stands behind them at its end is what its statements say."""

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
