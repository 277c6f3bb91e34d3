"""How many rows a table has, asked wherever there is a table."""

from pathlib import Path

import lance
import pytest

import seiche
from seiche import InvalidInput, Lake, NotFound, RetryableConflict
from tests.unit.lake.conftest import SCHEMA, rows


@pytest.fixture(params=["lance", "iceberg", "federated"])
def counted(request: pytest.FixtureRequest, lake: Lake, tmp_path: Path) -> str:
    """A table of three rows, one of which was deleted."""
    if request.param == "federated":
        seiche.Table.create(str(tmp_path / "other"), SCHEMA)
        lake.register_table("shop.counted", str(tmp_path / "other"), type="federated")
    else:
        lake.create_table("shop.counted", SCHEMA, format=request.param)
    table = lake.table("shop.counted")
    table.append(rows(1, 2))
    table.append(rows(3, 4, n=7))
    table.delete("id = 2")
    return "shop.counted"


def test_rows_are_counted_all_or_those_that_match(lake: Lake, counted: str) -> None:
    table = lake.table(counted)
    assert (table.count_rows(), table.count_rows("id > 1"), table.count_rows(filter="n = 0")) == (3, 2, 1)
    assert table.count_rows("id > 100") == 0


def test_a_transaction_counts_what_it_sees(lake: Lake, counted: str) -> None:
    with lake.transaction() as tx:
        tx.append(counted, rows(5))
        lake.table(counted).append(rows(6))
        assert (tx.table(counted).count_rows(), tx.table(counted).count_rows("id = 6")) == (4, 0)
    assert lake.table(counted).count_rows() == 5


def test_what_cannot_be_a_condition_is_refused(lake: Lake, counted: str) -> None:
    for condition in ("no_such_column = 1", "id >", 7):
        with pytest.raises(InvalidInput):
            lake.table(counted).count_rows(condition)  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["lance", "iceberg"])
def test_who_has_counted_has_read(lake: Lake, format: str) -> None:
    lake.create_table("shop.seen", SCHEMA, format=format)
    tx = lake.transaction("serializable")
    tx.append("shop.b", rows(tx.table("shop.seen").count_rows()))
    lake.table("shop.seen").append(rows(1))
    with pytest.raises(RetryableConflict, match=r"shop\.seen was read by this transaction"):
        tx.commit()


def test_a_table_without_a_lake_is_counted_at_any_version(tmp_path: Path) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), SCHEMA)
    table.append(rows(1, 2))
    table.append(rows(3))
    assert [table.count_rows(version=version) for version in (1, 2, 3)] == [0, 2, 3]
    assert (table.count_rows(), table.count_rows("id < 3"), table.count_rows("id < 3", version=1)) == (3, 2, 0)


def test_what_native_code_cannot_read_is_told_as_a_read_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = seiche.Table.create(str(tmp_path / "t"), SCHEMA)

    def gone(_: lance.LanceDataset) -> int:
        raise OSError("LanceError(IO): Not found: data/1.lance")

    monkeypatch.setattr(lance.LanceDataset, "count_rows", gone)
    with pytest.raises(NotFound, match="could not be read"):
        table.count_rows()
