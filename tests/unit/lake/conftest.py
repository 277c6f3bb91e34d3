"""A small lake in memory."""

from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche import Lake
from seiche.store import open_store
from tests.unit.lake.disk import Disk

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def rows(*ids: int, n: int = 0) -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": list(ids), "n": [n] * len(ids)}, schema=SCHEMA)


def ids(lake: Lake, table: str) -> list[int]:
    """The ids in a table, ascending."""
    return sorted(lake.table(table).to_arrow()["id"].to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = seiche.create(open_store(str(tmp_path / "lake"), durability="os"))
    made.create_namespace("shop")
    made.create_table("shop.a", SCHEMA)
    made.create_table("shop.b", SCHEMA)
    return made


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Where there is a lake already, made with the durability that users have."""
    seiche.create(tmp_path / "lake")
    return Disk(tmp_path / "lake")
