"""The place where pylance works on a table of the lake."""

from pathlib import Path

import pyarrow as pa

import seiche
from seiche.gateway.lance_namespace.desk import Desk
from seiche.testing import CountingStore


def test_files_are_taken_over_within_an_object_store(tmp_path: Path) -> None:
    """Data files have any size: not all of them fit into the server's memory, or into one put."""
    lake = seiche.create(tmp_path / "lake")
    lake.create_namespace("shop")
    lake.create_table("shop.t", pa.schema([("id", pa.int64())]))
    far, row = CountingStore(lake.store, far=True), lake.table("shop.t").row
    desk = Desk(far, row)
    for name in ("new", "taken"):
        desk.store.put_own(f"data/{name}.lance", b"of pylance")
    lake.store.put_own(f"{row.location}/data/taken.lance", b"of the table")
    far.reset()
    desk.take_over(["data/new.lance", "data/taken.lance"])
    assert (far.counts["get"], far.counts["copy"]) == (0, 1)
    assert lake.store.get(f"{row.location}/data/new.lance") == b"of pylance"
    assert lake.store.get(f"{row.location}/data/taken.lance") == b"of the table"
