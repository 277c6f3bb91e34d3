"""The rules of the protocol that speak of rows: on real tables, each holds, and is missed when it is switched off."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import seiche
from seiche import Corrupt, Lake, RetryableConflict
from seiche.lake import publish as publish_module
from seiche.lake.commit import making as making_module
from seiche.lake.commit.intent import Intent
from seiche.lake.commit.renumber import renumbered
from seiche.table.conditions import CONDITIONS
from seiche.table.operations import append as append_module

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
TABLE, OTHER = "shop.a", "shop.b"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "n": list(ids)}, schema=SCHEMA)


def made(folder: Path) -> Lake:
    """A lake with two tables of three rows each."""
    lake = seiche.create(str(folder), durability="os")
    lake.create_namespace("shop")
    for name in (TABLE, OTHER):
        lake.create_table(name, SCHEMA)
        lake.table(name).append(rows(1, 2, 3))
    return lake


def ids(lake: Lake, name: str = TABLE) -> list[int]:
    return sorted(lake.table(name).to_arrow()["id"].to_pylist())


def test_rule_6_plain_writers_are_fenced_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = made(tmp_path / "kept")
    uri = lake.table(TABLE).uri
    with pytest.raises(OSError, match="cannot be written by this version of Lance"):
        lance.write_dataset(rows(4), uri, mode="append")
    assert lance.dataset(uri).count_rows() == 3  # readers do not mind
    monkeypatch.setattr(publish_module, "SEICHE_FENCE", 0)
    lake = made(tmp_path / "off")
    uri = lake.table(TABLE).uri
    lance.write_dataset(rows(4), uri, mode="append")
    assert ids(lake) == [1, 2, 3], "without the rule a plain writer gets in, and what it was told is kept is not"
    lake.table(TABLE).append(rows(5))  # decided, and cannot be published over the foreign file
    with pytest.raises(Corrupt, match="somebody who does not know the lake"):
        lake.table(TABLE).append(rows(6))


def chain(lake: Lake) -> dict[str, list[int]]:
    """A transaction deletes among its own rows, and somebody else appends first: its fragments get other numbers."""
    tx = lake.transaction()
    tx.append(TABLE, rows(10, 11, 12))
    tx.delete(TABLE, "id = 11")
    lake.table(TABLE).append(rows(20, 21))
    tx.commit()
    plain: Any = lance.dataset(lake.table(TABLE).uri)
    plain.validate()
    return {"plain": sorted(plain.to_table()["id"].to_pylist()), "lake": ids(lake)}


def test_rule_8_statements_of_one_transaction_rebase_as_a_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [1, 2, 3, 10, 12, 20, 21]
    assert chain(made(tmp_path / "kept")) == {"plain": expected, "lake": expected}

    def without(built: Any, folded: Any, work: Any, store: Any) -> Any:
        return built, renumbered(built, folded, work, store)[1]

    monkeypatch.setattr(making_module, "renumbered", without)
    assert 11 in chain(made(tmp_path / "off"))["lake"], "without the rule a row comes back that was deleted"


def renamed_meanwhile(lake: Lake) -> dict[str, list[int]]:
    """An append, and somebody else makes its second field another column first."""
    tx = lake.transaction()
    tx.append(TABLE, rows(10))
    lake.table(TABLE).rename_columns({"n": "price"})
    tx.commit()
    found: dict[str, list[int]] = lake.table(TABLE).to_arrow().to_pydict()
    return found


def test_rule_9_compatible_does_not_mean_applied_blindly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RetryableConflict, match=r"made field 1, which was n \(int64\), price"):
        renamed_meanwhile(made(tmp_path / "kept"))
    monkeypatch.setitem(CONDITIONS, "schema", lambda meeting: None)
    monkeypatch.setattr(append_module, "check_fit", lambda *_: None)  # the second net, when it is applied
    found = renamed_meanwhile(made(tmp_path / "off"))
    assert found["price"][-1] == 10, "without the rule a number lands in a column that means something else"


def deleted_by_predicate(lake: Lake) -> list[int]:
    """Empties one table of large ids and says so in the other; somebody else appends a large one meanwhile."""
    tx = lake.transaction("serializable")
    tx.delete(TABLE, "id >= 2")
    tx.append(OTHER, rows(99))
    lake.table(TABLE).append(rows(7))
    tx.commit()
    return ids(lake)


def test_rule_10_predicates_are_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RetryableConflict, match="read by this transaction"):
        deleted_by_predicate(made(tmp_path / "kept"))
    monkeypatch.setattr(Intent, "_check_reads", lambda self, state: None)
    assert deleted_by_predicate(made(tmp_path / "off")) == [1, 7], "without the rule the predicate was never true"
