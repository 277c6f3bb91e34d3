"""A transaction that changes a federated Iceberg table too, interrupted and unanswered at each of its storage calls.

The promise is the weaker one: the change there may be seen without the lake's. But it is made once, the lake's part is
never seen without it, and the same key finishes what was begun.
"""

from collections.abc import Callable
from functools import cache
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

import seiche
from seiche import CommitUnknown, Lake, Unavailable
from seiche.core.runtime import Runtime
from seiche.lake.iceberg.foreign.edit import ForeignEdit
from seiche.lake.iceberg.metadata import encode
from seiche.lake.iceberg.work import Step
from seiche.lake.transaction import Transaction
from seiche.store.base import Store
from seiche.store.prefix import below
from seiche.testing import CRASHES, DictStore, Fault, SimulatedStore, crash_points
from tests.simulation.lake_model import opened

SCHEMA = pa.schema([("id", pa.int64())])
OWN, FED = "n.own", "n.fed"
Held = tuple[list[int], list[int]]
UNANSWERED: tuple[Fault, ...] = ("before", "after", "lost", "late", "conflict")


def dict_store() -> DictStore:
    """Storage whose time does not go on: how old files are is looked up, in as many calls each time."""
    return DictStore("both", runtime=Runtime.seeded(3))


@cache
def built() -> tuple[DictStore, tuple[Step, Step]]:
    """A lake and a table of others beside it, with appends to both that are prepared: their files are there."""
    store = dict_store()
    location = f"{store.native_uri()}/theirs"
    metadata = new_table_metadata(
        schema=Schema(NestedField(1, "id", LongType(), required=False)),
        partition_spec=UNPARTITIONED_PARTITION_SPEC,
        sort_order=UNSORTED_SORT_ORDER,
        location=location,
        properties={},
        table_uuid=UUID(int=7),
    )
    store.put("theirs/metadata/v1.metadata.json", encode(metadata))
    seiche.create(below(store, "lake"))
    lake = home(store, 5)
    lake.create_namespace("n")
    lake.create_table(OWN, SCHEMA, format="iceberg")
    lake.register_table(FED, location, type="federated", format="iceberg")
    lake.table(FED).append(rows(1))
    tx = lake.transaction()
    steps = []
    for name in (OWN, FED):
        tx.append(name, rows(2))
        steps += tx.edits[lake.table(name).row.id].iceberg.steps  # type: ignore[attr-defined]
    own, fed = steps
    return store, (own, fed)


def fresh() -> DictStore:
    return copied(built()[0])


def copied(store: DictStore) -> DictStore:
    """The same files at the same address: metadata speaks of that."""
    copy = dict_store()
    for info in store.list():
        copy.put(info.path, store.get(info.path))
    return copy


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def home(store: Store, seed: int = 1) -> Lake:
    return opened(below(store, "lake"), seed=seed)


def moved() -> DictStore:
    return copied(built_and_moved())


@cache
def built_and_moved() -> DictStore:
    """The same, and others have appended meanwhile: the change has to be put on top of that."""
    store = fresh()
    other = seiche.create(below(store, "other"))
    other.create_namespace("n")
    other.register_table(FED, f"{store.native_uri()}/theirs", type="federated", format="iceberg")
    other.table(FED).append(rows(9))
    return store


def both(store: Store) -> Transaction:
    own, fed = built()[1]
    with home(store).transaction(key="once") as tx:
        tx.commit_iceberg(FED, fed.requirements, fed.updates, follow=True)
        tx.commit_iceberg(OWN, own.requirements, own.updates)
    return tx


def held(store: Store) -> Held:
    lake = home(store, 8)
    own, fed = (sorted(lake.table(name).to_arrow()["id"].to_pylist()) for name in (OWN, FED))
    return own, fed


@pytest.mark.soak
@pytest.mark.parametrize("others", [False, True], ids=["alone", "moved"])
@pytest.mark.parametrize("faults", [CRASHES, UNANSWERED], ids=["crash", "unanswered"])
def test_at_any_call_it_is_made_once_and_finished_by_the_same_key(
    faults: tuple[Fault, ...], others: bool, effort: Callable[[int, int], int]
) -> None:
    more = [9] if others else []
    before: Held = ([], [1, *more])
    between: Held = ([], [1, 2, *more])
    after: Held = ([2], [1, 2, *more])
    seen = set()
    count = 0
    for crash in crash_points(moved if others else fresh, both, faults=faults, every=effort(3, 1)):
        assert faults is CRASHES or isinstance(crash.error, CommitUnknown | Unavailable | None.__class__), str(crash)
        found = held(crash.store)
        assert found in (before, between, after), str(crash)
        seen.add((before, between, after).index(found))
        lake = home(crash.store, 8)
        if lake.status(lake.transaction(key="once").id).outcome != "committed":
            both(crash.store)
        assert held(crash.store) == after, str(crash)
        count += 1
    assert len(seen) >= effort(2, 3), "each of the three was met"
    assert count >= effort(8, 40)


def test_without_the_mark_it_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what the transaction's mark on its snapshots prevents."""
    from seiche.lake.iceberg.foreign import edit

    class Died(BaseException):
        pass

    commit = ForeignEdit._commit

    def die(self: ForeignEdit, *arguments: object) -> None:
        commit(self, *arguments)  # type: ignore[arg-type]
        raise Died

    store = SimulatedStore(fresh())
    with monkeypatch.context() as patch:
        patch.setattr(ForeignEdit, "_commit", die)
        with pytest.raises(Died):
            both(store)
    lake = home(store)
    with monkeypatch.context() as patch:
        patch.setattr(edit, "made_by", lambda _metadata, _uuid: None)
        with lake.transaction(key="once") as tx:
            tx.append(FED, rows(2))
    assert held(store)[1] == [1, 2, 2]
