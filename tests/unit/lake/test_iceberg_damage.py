"""Files of an Iceberg table whose bytes are others by now: rows are read as ever, or an error of the lake says so."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import seiche
from seiche.errors import Corrupt, SeicheError

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]})


@pytest.fixture
def lake(tmp_path: Path) -> seiche.Lake:
    lake = seiche.create(str(tmp_path / "lake"), durability="os")
    lake.create_namespace("shop")
    lake.create_table("shop.orders", ROWS, format="iceberg")
    return lake


def damaged(path: Path, times: int) -> Iterator[None]:
    """One bit of the file at a time is another."""
    chance, whole = random.Random(3), path.read_bytes()
    for _ in range(times):
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        yield
    path.write_bytes(whole)


@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"], ids=["the list of manifests", "a manifest"])
def test_a_damaged_bit_is_told_as_what_it_is(lake: seiche.Lake, tmp_path: Path, kind: str) -> None:
    (path,) = (tmp_path / "lake").rglob(kind)
    told: list[SeicheError] = []
    for _ in damaged(path, 60):
        try:
            assert lake.table("shop.orders").to_arrow().to_pylist() == ROWS.to_pylist()
        except SeicheError as error:
            told.append(error)
        try:
            lake.transaction().delete("shop.orders", "id = 3")
        except SeicheError as error:
            told.append(error)
        lake.fsck()
    assert any(isinstance(one, Corrupt) for one in told)
    assert lake.fsck().problems == ()
