"""Payloads: kept under their hash, before anything names them, and cleared away by the lake's clean-up alone."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seiche import Lake, Unavailable
from seiche.lake.care.layout import PAYLOADS, Sort, place
from seiche.service.blobs import Blobs
from seiche.service.changes import digest
from seiche.service.core import Service
from seiche.service.states import State
from seiche.store import open_store
from tests.service_lake import appending, defining, numbers_in


def kept(lake: Lake) -> set[str]:
    return {info.path for info in lake.store.list(PAYLOADS)}


def test_the_name_is_the_hash(lake: Lake) -> None:
    blobs = Blobs(lake.store)
    assert blobs.put(b"data") == blobs.put(b"data") == digest(b"data")
    assert Blobs(lake.store).get(digest(b"data")) == b"data"
    assert kept(lake) == {f"{PAYLOADS}/{digest(b'data')}.bin"}


def test_what_is_missing_or_damaged_is_not_used(lake: Lake) -> None:
    for name in (digest(b"missing"), digest(b"damaged")):
        if name == digest(b"damaged"):
            lake.store.put(f"{PAYLOADS}/{name}.bin", b"something else")
        with pytest.raises(Unavailable) as caught:
            Blobs(lake.store).get(name)
        assert caught.value.code == "TABLE_BLOB_MISSING"


def test_a_failure_deletes_nothing(service: Service, lake: Lake) -> None:
    """Neither a lock that somebody else has nor an abort: another transaction may have handed in the same."""
    holder = service.begin().id
    service.prepare(holder, [defining(lake, "shop.orders", "a")])
    change = appending(lake, "shop.stock", numbers=[1])
    tx = service.begin().id
    with pytest.raises(Exception, match="locked"):
        service.prepare(tx, [change, defining(lake, "shop.orders", "b")])
    assert change.payload is not None
    path = f"{PAYLOADS}/{digest(change.payload)}.bin"
    assert path in kept(lake)
    service.abort(tx)
    service.abort(holder)
    assert path in kept(lake)


def test_the_clean_up_knows_them(service: Service, lake: Lake) -> None:
    tx = service.begin().id
    service.prepare(tx, [appending(lake, "shop.orders", numbers=[1])])
    assert {place(path).sort for path in kept(lake)} == {Sort.PAYLOAD}
    found = lake.gc(dry_run=True)
    assert not found.unknown
    assert kept(lake) <= {one.path for one in found.unneeded}
    assert kept(lake).isdisjoint(one.path for one in found.moved), "the young ones stay"
    assert service.commit(tx).state is State.APPLIED
    assert numbers_in(lake) == [1]
    lake.gc(dry_run=False, grace=0, window=0)
    assert kept(lake) == set()
    assert numbers_in(lake) == [1], "the table does not need them"
    assert not lake.fsck().problems


def test_a_payload_that_was_cleared_away_is_a_failure_that_may_pass(
    lake: Lake, tmp_path: Path, service: Service
) -> None:
    change = appending(lake, "shop.orders", numbers=[1])
    tx = service.begin().id
    service.prepare(tx, [change])
    assert change.payload is not None
    lake.store.delete(f"{PAYLOADS}/{digest(change.payload)}.bin")
    service._blobs._held.clear()
    done = service.commit(tx)
    assert (done.state, done.error_code) == (State.APPLY_FAILED_RETRYABLE, "TABLE_BLOB_MISSING")
    service._blobs.put(change.payload)
    assert service.commit(tx).state is State.APPLIED


def test_many_are_written_and_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, a transaction over a hundred tables waited a hundred times for the storage."""
    store = open_store(str(tmp_path), durability="fsync")
    meeting = threading.Barrier(2, timeout=30)

    def met(act: Callable[..., Any]) -> Callable[..., Any]:
        def both(*given: Any) -> Any:
            meeting.wait()
            return act(*given)

        return both

    monkeypatch.setattr(store, "put", met(store.put))
    monkeypatch.setattr(store, "get", met(store.get))
    names = Blobs(store).put_all([b"a", b"b", b"a"])
    assert names == {one: digest(one) for one in (b"a", b"b")}
    assert Blobs(store).get_all(names.values()) == {name: data for data, name in names.items()}
