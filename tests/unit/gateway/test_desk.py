"""The place where pylance works on a table of the lake."""

from pathlib import Path

import pyarrow as pa

import seiche
from seiche.core.runtime import SYSTEM
from seiche.gateway.lance_namespace.desk import Desk
from seiche.testing import CountingStore, SimulatedStore


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


def test_what_is_put_on_a_desk_is_put_again_if_the_storage_gives_no_answer(tmp_path: Path) -> None:
    """Nothing there decides anything: nobody is to hear that an outcome is unknown."""
    lake = seiche.create(tmp_path / "lake")
    lake.create_namespace("shop")
    lake.create_table("shop.t", pa.schema([("id", pa.int64())]))

    def open_and_take(store: SimulatedStore) -> SimulatedStore:
        row = lake.table("shop.t").row
        desk = Desk(store, row)
        lake.store.put_own(f"{desk.store.prefix}/data/new.lance", b"of pylance")  # type: ignore[attr-defined]
        desk.show(seiche.open(store).state(), row, None, SYSTEM.clock.now())
        desk.take_over(["data/new.lance"])
        return store

    calls = open_and_take(SimulatedStore(lake.store)).calls
    written = [at for at, call in enumerate(calls, 1) if call.verb in ("put_if_absent", "copy_if_absent")]
    assert len(written) == 2
    for number in written:
        for info in list(lake.store.list("_desks")):
            lake.store.delete(info.path)
        assert open_and_take(SimulatedStore(lake.store, plan={number: "lost"})).injected
