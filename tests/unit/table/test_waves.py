"""How many requests of a commit to one table have to wait for each other: what it takes on a store far away."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from seiche import Table
from seiche.store import open_store
from seiche.table.operations import Append
from seiche.testing import CountingStore
from tests.verb_table import meddle_before_commit

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(open_store(str(tmp_path / "far"), durability="os"), far=True)


@pytest.fixture
def table(store: CountingStore) -> Table:
    table = Table.create(store, SCHEMA)
    table.append(rows(1))
    store.reset()
    return table


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, schema=SCHEMA)


def test_an_appending_commit_is_two_waves(table: Table, store: CountingStore) -> None:
    fragments = tuple(table.manifest.fragments)
    store.reset()
    # Whether anybody was faster, and meanwhile the transaction; the version.
    table.commit(Append(fragments))
    assert (store.waves, store.requests) == (2, 3)


def test_an_append_is_four(table: Table, store: CountingStore) -> None:
    # The newest version; the rows; whether anybody was faster, and the transaction; the version.
    table.append(rows(2))
    assert (store.waves, store.requests) == (4, 5)


def test_the_transaction_stands_beside_the_version_also_after_others_were_faster(
    table: Table, store: CountingStore, tmp_path: Path
) -> None:
    other = Table.open(store)
    fragments = tuple(table.manifest.fragments)
    other.append(rows(2))
    table.commit(Append(fragments), read_version=2)
    assert table.to_arrow().sort_by("id")["id"].to_pylist() == [1, 1, 2]
    assert store.exists(f"_transactions/{table.manifest.header.transaction_file}")
    assert sum(1 for _ in store.list("_transactions")) == table.version, "one for each version"
    lance.dataset(str(tmp_path / "far")).validate()  # type: ignore[no-untyped-call]


def in_fragments(store: CountingStore, number: int, *, stable_row_ids: bool = False) -> Table:
    """A table of many fragments, each with the ids 1 to 5 but the first, which was deleted."""
    # Lists are written by native code, whose requests are not counted.
    table = Table.create(store, pa.schema([*SCHEMA, ("marks", pa.list_(pa.int8()))]), stable_row_ids=stable_row_ids)
    table.append([{"id": number, "marks": [number]} for number in range(1, 6)])
    (fragment,) = table.manifest.fragments
    for name in ("inline_row_ids", "inline_created", "inline_last_updated"):
        fragment.ClearField(name)
    table.commit(Append((fragment,) * (number - 1)))
    table.delete("id = 1")
    return table


def delete_beside_another(table: Table) -> None:
    meddle_before_commit(table, lambda other: other.delete("id = 3"))
    assert table.delete("id = 2").attempts == 1


ACTS: dict[str, Callable[[Table], object]] = {
    "delete beside another": delete_beside_another,
    "update": lambda table: table.update({"marks": "NULL"}, where="id = 2", mode="columns"),
    "update of all": lambda table: table.update({"marks": "NULL"}, mode="columns"),
    "changes": lambda table: table.changes(3, table.version),
    "compact": lambda table: table.compact(),
    "compact under an index": lambda table: (table.create_index("id", "BTREE"), table.compact()),
}


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["by address", "stable ids"])
@pytest.mark.parametrize("act", ACTS)
def test_deletions_of_many_fragments_are_read_and_written_side_by_side(
    act: str, stable_row_ids: bool, tmp_path: Path
) -> None:
    waves, left = [], []
    for number in (3, 12):
        store = CountingStore(open_store(str(tmp_path / str(number)), durability="os"), far=True)
        table = in_fragments(store, number, stable_row_ids=stable_row_ids)
        store.reset()
        ACTS[act](table)
        waves.append(store.waves)
        left.append(table.count_rows() / number)
        lance.dataset(str(tmp_path / str(number))).validate()  # type: ignore[no-untyped-call]
    assert waves[0] == waves[1]
    assert left == [2 if act == "delete beside another" else 4] * 2
