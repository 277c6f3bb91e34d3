"""How many requests of a commit to one table have to wait for each other: what it takes on a store far away."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from seiche import Table
from seiche.store import open_store
from seiche.table.operations import Append
from seiche.testing import CountingStore

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
